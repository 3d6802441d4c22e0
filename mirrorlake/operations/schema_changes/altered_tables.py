"""The tables of the mirror as they would be: after a migration, or under a contract that changed.

What belongs here: columns of deduped and clean, as a fold will make them. What doesn't: models
(`mirrorlake.models.changes.impact`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from mirrorlake.config import Mirrored, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import spark_types
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.merge.statements import Layer, clean_layer, deduped_layer
from mirrorlake.schema.lattice import is_promoted
from mirrorlake.schema.versions import name_in
from mirrorlake.serving.catalogue import Catalogue, MirroredTable
from mirrorlake.table.resolve import ResolvedTable

LakeColumns: TypeAlias = "tuple[tuple[str, str, bool], ...]"
"""Columns of a lake table: name, Spark's type, and whether it may be NULL."""


@dataclass(frozen=True)
class AlteredColumn:
    """A column that is not what it was.

    Attributes:
        table: in the lake, in lower case; or a model.
        column: in lower case.
        words: what becomes of it: "is gone", "is called label", "was int, is bigint".
        fits: whether all of its values have a place in what it becomes.
    """

    table: str
    column: str
    words: str
    fits: bool


@dataclass(frozen=True)
class AlteredTable:
    """One lake table with other columns.

    Attributes:
        columns: as they would be.
        renamed: column, in lower case → its new name; it is gone under the old one.
        notes: column, in lower case → what else becomes of it, in words.
    """

    columns: LakeColumns
    renamed: Mapping[str, str]
    notes: Mapping[str, str] = field(default_factory=dict[str, str])


class AlteredCatalogue(Catalogue):
    """A catalogue of which some tables have other columns."""

    def __init__(self, before: Catalogue, altered: Mapping[str, AlteredTable]) -> None:
        self.config = before.config
        self.before, self.altered = before, altered
        self._places, self._spelled = before._places, before._spelled

    def table(self, name: str) -> MirroredTable | None:
        found, altered = self.before.table(name), self.altered.get(name)
        if found is None or altered is None:
            return found
        there = {column.lower() for column, _, _ in altered.columns}
        day = found.day if found.day in there else None
        return replace(found, columns=altered.columns, day=day)

    def columns(self) -> Iterator[AlteredColumn]:
        """The columns that are not what they were; new ones are none."""
        for name, altered in self.altered.items():
            was = self.before.table(name)
            now = {column.lower(): kind for column, kind, _ in altered.columns}
            for column, kind, _ in was.columns if was is not None else ():
                lowered = column.lower()
                called = altered.renamed.get(lowered)
                if called is not None and called.lower() != lowered:
                    yield AlteredColumn(name, lowered, f"is called {called} then", fits=False)
                elif lowered not in now:
                    yield AlteredColumn(name, lowered, "is gone then", fits=False)
                elif now[lowered] != kind:
                    words = f"was {kind}, is {now[lowered]} then"
                    fits = _fits(kind, now[lowered])
                    yield AlteredColumn(name, lowered, words, fits)
                elif lowered in altered.notes:
                    yield AlteredColumn(name, lowered, altered.notes[lowered], fits=False)


def _fits(kind: str, now: str) -> bool:
    """Whether a type of Spark's has a place for every value of another."""
    names = {"bigint": "long"}
    return is_promoted(names.get(kind, kind), names.get(now, now))


def altered_by(
    catalogue: Catalogue, now: ResolvedTable, names: Mapping[str, str]
) -> dict[str, AlteredTable]:
    """The lake tables of a mirrored table whose columns are others once it is folded as MySQL and
    its contract are now, or will be; those that are not there yet are left out.

    Args:
        names: column → its new name, as a migration says it.

    Raises:
        LakeError: the lake can't be read.
    """
    contract = now.contract
    renamed = {old.lower(): new for old, new in names.items()}
    for new, earlier in contract.earlier_names.items():
        renamed |= dict.fromkeys(earlier, new)
    found: dict[str, AlteredTable] = {}
    for layer in (deduped_layer(now), clean_layer(now)):
        table = catalogue.at(layer.identifier)
        if table is None or not table.columns:
            continue
        is_view = layer.name == "clean" and contract.clean == "view"
        columns = _columns(now, layer, table.columns, in_order=is_view)
        if columns != table.columns:
            there = {name.lower() for name, _, _ in columns}
            gone = {old: new for old, new in renamed.items() if new.lower() in there}
            found[table.name] = AlteredTable(columns, gone)
    return found


def _columns(
    now: ResolvedTable, layer: Layer, there: LakeColumns, *, in_order: bool
) -> LakeColumns:
    """A layer's columns, those that its table has in the order in which it has them: what is new
    stands at the end. A view has them in the layer's."""
    schema = current_schema(layer.stored, layer.original is not None)
    wanted = {name: (name, kind, nullable) for name, kind, nullable in spark_types(schema)}
    if in_order:
        return tuple(wanted[name] for name in layer.names)
    names = [name for name, _, _ in there]
    was = {name_in(names, name, now.contract.earlier_names): name for name in wanted}
    # Columns of our own are never taken away.
    wanted |= {one[0]: one for one in there if one[0].startswith("_mirror_") and one[0] not in was}
    kept = [was.get(name, name) for name in names if name in was or name in wanted]
    return tuple(wanted[name] for name in (*kept, *(n for n in layer.names if n not in kept)))


def altered_by_rules(
    catalogue: Catalogue, contract: Mirrored, before: Collection[str]
) -> dict[str, AlteredTable]:
    """Clean as the rules of a contract make it of deduped as that is; nothing where clean has these
    columns already, or is not there yet.

    Args:
        before: columns that had a rule, in lower case: without one they are shown.

    Raises:
        LakeError: the lake can't be read.
    """
    spaces = contract.namespaces
    deduped, clean = (
        catalogue.at(Identifier(space, contract.table)) for space in (spaces.deduped, spaces.clean)
    )
    if deduped is None or clean is None or not clean.columns:
        return {}
    rules = {name.lower(): rule for name, rule in contract.columns.items()}
    there = {name.lower() for name, _, _ in clean.columns}
    shown = there | set(rules) | set(before)
    columns: list[tuple[str, str, bool]] = []
    for name, kind, nullable in deduped.columns:
        rule = rules.get(name.lower())
        if name.lower() not in shown or (rule is not None and rule.pci is not None):
            continue
        if rule is None or rule.pii in (None, "show", "null"):
            columns.append((name, kind, nullable))
        elif rule.pii != "drop":  # what is masked or hashed is a text
            columns.append((name, "string", nullable))
    was = {name.lower(): kind for name, kind, _ in clean.columns}
    now = {name.lower(): kind for name, kind, _ in columns}
    return {} if was == now else {clean.name: AlteredTable(tuple(columns), {})}


def altered_without(
    catalogue: Catalogue, names: Iterable[str], gone: Collection[str], renamed: Mapping[str, str]
) -> dict[str, AlteredTable]:
    """Lake tables without some columns, as far as they have them.

    Args:
        names: of the tables, in lower case.
        gone: columns, in lower case.
        renamed: column, in lower case → its new name: it is there under that one.

    Raises:
        LakeError: the lake can't be read.
    """
    found: dict[str, AlteredTable] = {}
    for name in names:
        table = catalogue.table(name)
        columns = table.columns if table is not None else ()
        now = tuple(
            (renamed.get(one.lower(), one), kind, nullable)
            for one, kind, nullable in columns
            if one.lower() not in gone or one.lower() in renamed
        )
        if now != columns:
            found[name] = AlteredTable(now, renamed)
    return found


def altered_tenants(
    catalogue: Catalogue,
    table: TenantTable,
    types: Mapping[str, str],
    held: Collection[str],
    lacking: Mapping[str, str],
) -> dict[str, AlteredTable]:
    """The lake tables of a table of tenants once all are folded: columns stay, become wider or get
    another type, and new ones stand at the end.

    Args:
        types: column → Iceberg's type over all shapes.
        held: columns that clean leaves out because nobody decided on them, in lower case.
        lacking: column, in lower case → what becomes of it for those that lack it, in words.

    Raises:
        LakeError: the lake can't be read.
    """
    schema = current_schema(list(types.items()), with_original=False)
    kinds = {name.lower(): (name, kind, nullable) for name, kind, nullable in spark_types(schema)}
    rules = {name.lower(): rule.pii for name, rule in table.columns.items()}
    found: dict[str, AlteredTable] = {}
    for space in (table.namespaces.deduped, table.namespaces.clean):
        there = catalogue.at(Identifier(space, table.table))
        if there is None or not there.columns:
            continue
        known = {name.lower() for name, _, _ in there.columns}
        ruled = rules if there.layer == "clean" else {}
        columns = tuple(
            one if ruled.get(one[0].lower()) not in (None, "show") else _typed(one, kinds)
            for one in there.columns
        )
        hidden = {*held, *ruled} if there.layer == "clean" else set[str]()
        columns += tuple(kinds[name] for name in kinds if name not in known | hidden)
        notes = {name: words for name, words in lacking.items() if name in known}
        if columns != there.columns or notes:
            found[there.name] = AlteredTable(columns, {}, notes)
    return found


def _typed(
    one: tuple[str, str, bool], kinds: Mapping[str, tuple[str, str, bool]]
) -> tuple[str, str, bool]:
    """A column with its type over all shapes, if they have it."""
    name, _, nullable = one
    return name, kinds.get(name.lower(), one)[1], nullable
