"""Whether a model reads mirrored tables at a cut, a source's tables at one moment, or at main.

All mirrored tables of a run of a model are read at one cut, or each at main: where one of them
can't be read at the cut, none is.

What belongs here: the choice, and what a query says for it. What doesn't: what a cut is (a
capability that adds to `CUTS`), and how one table is read at a version
(`mirrorlake.models.partition_states.pinned_tables`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from shlex import quote
from typing import Final, Protocol

from mirrorlake.capabilities import Seam
from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ConfigError, ModelError
from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.table_mentions import (
    TextSpan,
    refuse_unfollowed,
    written_behind,
    written_instead,
)
from mirrorlake.models.partition_states.input_versions import PinnedTable, Versions
from mirrorlake.models.partition_states.pinned_tables import NotAtVersion, pin_table
from mirrorlake.serving.catalogue import Catalogue, MirroredTable

NO_CUT = "none"
"""In the place of a cut's name: main of each table."""


class TableAtCut(Protocol):
    """A lake table at a cut; ``snapshot_id`` is None of one that had no row."""

    @property
    def namespace(self) -> str: ...
    @property
    def lake_table(self) -> str: ...
    @property
    def snapshot_id(self) -> int | None: ...


class ReadCut(Protocol):
    """A source's tables at one moment: all that was committed before ``at`` (UTC) is in it."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def at(self) -> datetime: ...
    @property
    def tables(self) -> Sequence[TableAtCut]: ...


class CutChoice(Protocol):
    """The cuts that there are."""

    def is_read(self, source: str) -> bool:
        """Whether models read the newest cut of a source by themselves."""
        ...

    def newest(self, source: str) -> ReadCut | None: ...

    def named(self, name: str) -> ReadCut:
        """
        Raises:
            ConfigError: there is none of this name.
        """
        ...


CUTS: Final[Seam[Callable[[Config, Ledger], CutChoice]]] = Seam("models: read at")
"""Given the contracts and the ledger, what there is beside main that models can read."""


@dataclass(frozen=True)
class ModelReading:
    """How a model reads mirrored tables.

    Attributes:
        cut: at which all of them are read; None: each at main.
        why: why at main, where cuts of its source are for models; else empty.
        pins: the tables at the cut, by name.
    """

    cut: ReadCut | None = None
    why: str = ""
    pins: Mapping[str, PinnedTable] = field(default_factory=dict[str, PinnedTable])

    @property
    def cut_name(self) -> str | None:
        return self.cut.name if self.cut is not None else None

    @property
    def cut_at(self) -> datetime | None:
        """Up to when (UTC) all that was committed is read; None of main."""
        return self.cut.at if self.cut is not None else None

    def written(self, model: Model) -> dict[TextSpan, str]:
        """What is written in a model's query in the place of these tables."""
        if not self.pins:
            return {}
        query, tables = model.query, model.bound.trace.tables
        behind = {name: one.written for name, one in self.pins.items() if not one.in_place}
        instead = {name: one.written for name, one in self.pins.items() if one.in_place}
        return written_behind(query, tables, model.declaration.sql, behind) | written_instead(
            query, tables, instead
        )


_MAIN = ModelReading()


@dataclass
class ModelReadings:
    """How the models of a project read mirrored tables. Which cut is the newest is asked once, so
    that all models of a run read the same.

    Attributes:
        name: of the cut that is read, or `NO_CUT`; None: the newest, where that is to be read.
    """

    project: Project
    catalogue: Catalogue
    lake: Lake
    ledger: Ledger
    name: str | None = None
    _found: dict[str, ModelReading] = field(default_factory=dict[str, ModelReading])
    _newest: dict[str, ReadCut | None] = field(default_factory=dict[str, "ReadCut | None"])
    _pinned: dict[tuple[str, str], PinnedTable | str] = field(
        default_factory=dict[tuple[str, str], "PinnedTable | str"]
    )

    _versions: dict[str | None, Versions] = field(default_factory=dict[str | None, Versions])

    def versions(self, model: Model) -> Versions:
        """The mirrored tables as a model reads them.

        Raises: as `of`.
        """
        reading = self.of(model)
        found = self._versions.get(reading.cut_name)
        if found is None:
            found = Versions(self.catalogue, self.lake, self.ledger)
            self._versions[reading.cut_name] = found
        found.pins.update(reading.pins)
        return found

    def of(self, model: Model) -> ModelReading:
        """How a model reads mirrored tables.

        Raises:
            ConfigError: the cut that was named is not there.
            ModelError: the model can't be read at it.
            LakeError, LedgerError: they can't be read.
        """
        found = self._found.get(model.name)
        if found is None:
            found = self._found[model.name] = self._choose(model)
        return found

    def refuse_main(self, models: Sequence[Model]) -> None:
        """See that some of these are read at the cut that was named.

        Raises:
            ConfigError, ModelError: none is, or one can't be.
        """
        if self.name in (None, NO_CUT):
            return
        named = self._named
        if all(self.of(one).cut is None for one in models):
            name = models[-1].name
            raise ModelError(
                f"{name} reads nothing at cut {named.name}: it is a view, or reads no mirrored "
                "table itself",
                next_step=f"`mirrorlake run {quote(name)} --upstream --cut {named.name}` "
                "computes the models that it reads at that cut",
            )

    @cached_property
    def _cuts(self) -> CutChoice | None:
        made = (of(self.catalogue.config, self.ledger) for of in CUTS)
        return next(made, None)

    @cached_property
    def _named(self) -> ReadCut:
        assert self.name is not None  # noqa: S101
        if self._cuts is None:
            raise ConfigError(f"there is no cut {self.name!r}", next_step="Leave out --cut")
        return self._cuts.named(self.name)

    def _choose(self, model: Model) -> ModelReading:
        mirrored = [one for one in map(self.catalogue.table, model.reads) if one is not None]
        if self.name == NO_CUT or self._cuts is None or not mirrored:
            return _MAIN
        contracts = [one.contract for one in mirrored]
        sources = sorted({one.source for one in contracts if isinstance(one, TableContract)})
        if self.name is None and not any(map(self._cuts.is_read, sources)):
            return _MAIN
        if model.declaration.is_view:
            return ModelReading(why="it is a view, which shows main")
        try:
            cut = self._cut(mirrored, sources)
            return ModelReading(cut, "", self._pins(model, mirrored, cut))
        except NotAtVersion as why:
            if self.name is None:
                return ModelReading(why=str(why))
            raise ModelError(
                f"{model.name} can't be read at cut {self.name}: {why}",
                next_step=f"`mirrorlake at {quote(self.name)}` says what it has; --cut none "
                "reads what its tables show now",
            ) from None

    def _cut(self, mirrored: Sequence[MirroredTable], sources: Sequence[str]) -> ReadCut:
        """The one cut for some tables."""
        of_tenants = (one.name for one in mirrored if isinstance(one.contract, TenantTable))
        other = next(of_tenants, None)
        if other is not None:
            raise NotAtVersion(f"{other} is of tenants")
        if len(sources) > 1:
            raise NotAtVersion(f"its tables are of several sources: {', '.join(sources)}")
        (source,) = sources
        if self.name is not None:
            if self._named.source != source:
                raise NotAtVersion(f"that is of {self._named.source}, its tables are of {source}")
            return self._named
        if source not in self._newest:
            assert self._cuts is not None  # noqa: S101
            self._newest[source] = self._cuts.newest(source)
        newest = self._newest[source]
        if newest is None:
            raise NotAtVersion(f"there is no cut of {source} yet")
        return newest

    def _pins(
        self, model: Model, mirrored: Sequence[MirroredTable], cut: ReadCut
    ) -> dict[str, PinnedTable]:
        for view in self._views_of_main(model):
            raise NotAtVersion(f"it reads {view}, a view, which shows main")
        at = {f"{t.namespace}.{t.lake_table}".lower(): t.snapshot_id for t in cut.tables}
        pins = {one.name: self._pin(one, cut, at) for one in mirrored}
        names = [name for name, one in pins.items() if one.in_place]
        if not _may_ask_more(model.declaration.sql, names):
            return pins  # without a look at its query, which may not be parsed yet
        try:
            # A name with its dataset does not mean a subquery.
            refuse_unfollowed(model.query, model.bound.trace.tables, names, "is read at a cut")
        except ModelError as error:
            raise NotAtVersion(error.message) from None
        return pins

    def _pin(
        self, mirrored: MirroredTable, cut: ReadCut, at: Mapping[str, int | None]
    ) -> PinnedTable:
        key = cut.name, mirrored.name
        found = self._pinned.get(key)
        if found is None:
            try:
                found = pin_table(self.lake, mirrored, at)
            except NotAtVersion as why:
                found = f"cut {cut.name}: {mirrored.name} {why}"
            self._pinned[key] = found
        if isinstance(found, str):
            raise NotAtVersion(found)
        return found

    def _views_of_main(self, model: Model) -> Iterator[str]:
        """Views that a model reads and that show mirrored tables: those of main."""
        for name in model.reads:
            above = self.project.models.get(name)
            if above is None or not above.declaration.is_view:
                continue
            if any(map(self.catalogue.table, above.reads)) or any(self._views_of_main(above)):
                yield name


def _may_ask_more(sql: str, names: Sequence[str]) -> bool:
    """Whether a query may ask more of some tables than their rows: a column with the dataset before
    it, or a sample. Where a comment hides that, Spark refuses the query."""
    text, *tables = (re.sub(r"[`\s]", "", one.lower()) for one in (sql, *names))
    return "tablesample" in text or any(f"{name}." in text for name in tables)
