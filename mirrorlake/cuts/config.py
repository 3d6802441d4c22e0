"""The section ``cuts`` of the contract file, and what may be wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from pydantic import Field, model_validator

from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import Duration, Findings, Section, nearest
from mirrorlake.config.sections.added import AddedSection, added_sections
from mirrorlake.config.sections.contract_file import ConfigSections
from mirrorlake.destinations.base import Identifier

_Found = Iterator[tuple[tuple[str | int, ...], str]]
AT_CUT = "__at_cut"
"""What the namespaces end with that show a source's newest cut."""


def shown_as(name: Identifier) -> Identifier:
    """What shows a lake table at its source's newest cut."""
    return Identifier(f"{name.namespace}{AT_CUT}", name.name)


class SourceCuts(Section):
    """The cuts of one source that nobody makes by hand."""

    every: Duration | None = None
    """How old the newest cut is when the next one is due. A process that follows the source makes
    it, or Dagster's schedule ``cut_<source>``. Left out: cuts are made by hand alone."""
    keep: Duration | None = None
    """How long a cut stays that was made because it was due. Must be given with ``every``."""
    keep_daily: Duration | None = None
    """How long the first of them of each day (UTC) stays; left out: as long as the others."""
    prove: bool = False
    """Whether every row of each of them is compared with MySQL at its place in the log."""
    lock: bool = False
    """MySQL: whether ``prove`` may hold up writers for milliseconds."""
    others: bool = False
    """With ``prove``: whether tables of other modes are synced before, and are in the cut where
    they equal MySQL at its place."""
    at_cut: bool = False
    """Whether namespaces whose names end with ``__at_cut`` show the newest cut, for tools that
    can't name a version."""
    publish: bool = False
    """Whether tables that are published in BigQuery can be read there as of each cut, too."""
    models: bool = True
    """Whether models all of whose tables are in the newest of these cuts read it, and not what
    the tables show now."""

    @model_validator(mode="after")
    def _fits(self) -> SourceCuts:
        if self.every is not None and self.every < timedelta(minutes=1):
            raise Findings([("every", "a cut is a version of each table: a minute is the least")])
        if (self.every is None) != (self.keep is None):
            words = "cuts that are made by themselves go by themselves: name `every` and `keep`"
            raise Findings([("keep", words)])
        if self.keep_daily is not None and (self.keep is None or self.keep_daily < self.keep):
            raise Findings([("keep_daily", "is for longer than `keep`")])
        if self.others and not self.prove:
            raise Findings([("others", "only a comparison says where they are: set `prove`")])
        return self


class CutsConfig(AddedSection):
    """Cuts that are made by themselves, how long they stay, and who reads them."""

    sources: dict[str, SourceCuts] = Field(default_factory=dict)
    """The names of sources with tables of mode ``binlog``."""

    def of(self, source: str) -> SourceCuts:
        """What is said of a source."""
        return self.sources.get(source, _NOTHING)


_NOTHING = SourceCuts()


def cuts_problems(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """Path and message of everything that is wrong between the section and the sources."""
    found = (one for _, one in added_sections(sections) if isinstance(one, CutsConfig))
    section, known = next(found, None), {contract.source for contract in tables}
    spaces = {space for c in tables for space in vars(c.namespaces).values()}
    for source, one in section.sources.items() if section is not None else ():
        path = ("cuts", "sources", source)
        mine = [contract for contract in tables if contract.source == source]
        if source not in known:
            yield path, f"no source is called {source!r}{nearest(source, sorted(known))}"
        elif not any(contract.by_log for contract in mine):
            yield path, "no table of it has `mode: binlog`: a cut is a place in the log"
        elif one.publish and not any(contract.in_bigquery for contract in mine):
            yield (*path, "publish"), "no table of it has `publish: [lake, bigquery]`"
        shown = {f"{s}{AT_CUT}" for c in mine for s in (c.namespaces.deduped, c.namespaces.clean)}
        for taken in sorted(shown & spaces) if one.at_cut else ():
            yield (*path, "at_cut"), f"namespace {taken} is a table's own"
