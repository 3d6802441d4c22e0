"""The section ``records`` of the contract file, and what may be wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import Duration, Findings, Section, nearest
from mirrorlake.config.modes import MODES
from mirrorlake.config.sections.added import AddedSection, added_sections
from mirrorlake.config.sections.contract_file import ConfigSections

_Found = Iterator[tuple[tuple[str | int, ...], str]]
DestinationKind: TypeAlias = Literal["files", "spool", "pubsub"]
_TOPIC: Final = re.compile(r"projects/[^/\s]+/topics/[A-Za-z][A-Za-z0-9._~+%-]{2,254}")


def _name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name):
        raise ValueError("a destination's name is 1 to 32 letters, digits, hyphens and underscores")
    return name


class DestinationConfig(Section):
    """One place where records go."""

    kind: DestinationKind
    """``files``: JSON in a folder or bucket, laid out as a landing is. ``spool``: a queue of files
    in a folder. ``pubsub``: a topic of Google Pub/Sub."""
    to: str = Field(min_length=1)
    """A folder; for ``files`` also ``gs://…`` or ``s3://…``; for ``pubsub`` the topic:
    ``projects/<project>/topics/<topic>``. A folder is relative to the contract file's."""
    tables: tuple[str, ...] | None = None
    """The tables of mode ``binlog`` that go there, as ``source.database.table`` or any end that
    only one table has. By default all of them."""
    copies: bool = True
    """Whether the rows of complete copies are published, too: without them a reader knows a row
    only from its first change on."""
    every: Duration = timedelta(0)
    """``files``: how long changes are gathered before they are written, so that a follower does
    not write a file a second."""
    gzip: bool = False
    """``files``: whether they are compressed."""
    max_rows: int = Field(default=100_000, ge=1)
    """``files``: how many records one has at most."""
    max_megabytes: float = Field(default=128, gt=0)
    """``files``: how large one is at most before it is compressed, unless one record is larger."""
    endpoint: str | None = None
    """Another address of the bucket's or the topic's API."""

    @model_validator(mode="after")
    def _fits(self) -> DestinationConfig:
        if self.kind == "pubsub" and not _TOPIC.fullmatch(self.to):
            raise Findings([("to", "a topic is written projects/<project>/topics/<topic>")])
        if self.kind != "pubsub" and self.to.startswith("projects/"):
            raise Findings([("kind", "a topic is of kind pubsub")])
        if self.kind == "spool" and "://" in self.to:
            raise Findings([("to", "a spool is a folder; a bucket takes kind: files")])
        if self.kind == "files" and re.match(r"(?!gs|s3)\w+://", self.to):
            raise Findings([("to", "files go to a folder, gs://… or s3://…")])
        return self


_DestinationName = Annotated[str, AfterValidator(_name)]


class RecordsConfig(AddedSection):
    """Changes of tables of mode ``binlog``, published as JSON outside of the lake."""

    destinations: dict[_DestinationName, DestinationConfig] = Field(default_factory=dict)
    """A name of your own for each place. Progress is kept by it: under another name a destination
    begins again."""

    def of_table(self, contract: TableContract) -> dict[str, DestinationConfig]:
        """Where the records of a table go, by the destinations' names."""
        if not contract.by_log:
            return {}
        return {
            name: one
            for name, one in self.destinations.items()
            if one.tables is None or not set(one.tables).isdisjoint(contract.spellings)
        }


def records_problems(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """Path and message of everything that is wrong between the section and the tables."""
    found = (one for _, one in added_sections(sections) if isinstance(one, RecordsConfig))
    section = next(found, None)
    for name, one in section.destinations.items() if section is not None else ():
        for number, table in enumerate(one.tables or ()):
            path = ("records", "destinations", name, "tables", number)
            meant = [contract for contract in tables if table in contract.spellings]
            if not meant:
                known = [contract.name for contract in tables if contract.by_log]
                yield path, f"no table is called {table!r}{nearest(table, known)}"
            elif len(meant) > 1:
                listed = ", ".join(contract.name for contract in meant)
                yield path, f"{table!r} may be several: {listed}"
            elif not MODES[meant[0].mode].by_log:
                words = f"has mode {meant[0].mode}: records are the changes of mode binlog"
                yield path, f"{meant[0].name} {words} (docs/binlog.md)"
