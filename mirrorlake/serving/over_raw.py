"""Views over raw, for a home that has raw's tables and reads no Iceberg view: all schema versions
in one set of columns, and of these the current row of each key.

Written once, in Spark's SQL (`mirrorlake.destinations.bigquery.over_raw` translates it), from the
SQL that the lake's own views and folds are made of. What another engine would convert otherwise is
refused by name.

What belongs here: what the views say. What doesn't: making them
(`mirrorlake.operations.bigquery.raw_views`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import Identifier, as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.model import LakeTable, column_names
from mirrorlake.destinations.iceberg.tables import stored_types
from mirrorlake.errors import TypeRefused
from mirrorlake.merge.ranks import ALIVE, GONE, newest_by
from mirrorlake.merge.version_sql import (
    NO_ORIGINALS,
    types_over,
    version_columns,
    version_originals,
)
from mirrorlake.schema.lattice import StoredType
from mirrorlake.schema.own_columns import (
    DAY,
    DELETED,
    DELETED_AT,
    KEY,
    LOAD,
    LOADED_AT,
    ORIGINAL,
    POSITION,
    SEQ,
    VERSION,
    hash_column,
)
from mirrorlake.schema.versions import name_in
from mirrorlake.table.clean_rules import rules_of

_META = (LOAD, SEQ, POSITION, LOADED_AT, DELETED, DAY)
_AS_TEXT = ("int", "long", "date")
"""Types whose texts all engines write alike, and whose own text says all of a value."""
INSTEAD = "Write bigquery: {load: deduped} in its contract: the lake folds it exactly"


@dataclass(frozen=True)
class RecordedNames:
    """How columns are called in a version of a table that was not resolved against its server."""

    contract: TableContract
    is_utc: bool
    taken: Mapping[tuple[str, str], int]

    def name_in(self, names: Iterable[str], column: str) -> str | None:
        """What a column is called among the names of a version; None if it is not there."""
        return name_in(names, column, self.contract.earlier_names)

    def another_until(self, column: str, then: str) -> int:
        """The number of the last load in which a name of a column was another column's; 0: it never
        was."""
        return self.taken.get((column.lower(), then.lower()), 0)


@dataclass(frozen=True)
class OverRaw:
    """What the views over some raw tables of a table are made of.

    Attributes:
        tables: the raw tables by name, oldest version first.
        there: the columns that each has in the other home.
        types: the source's columns that are shown, in the types that hold all versions of each.
        hashed: those of them whose hashes are beside them.
        originals: whether there is a column of original texts.
        keyed: whether rows have the server's own key, and are of one key where that is the same.
        start: the number of the first load of the table's history.
    """

    names: RecordedNames
    tables: Mapping[str, LakeTable]
    there: Mapping[str, Collection[str]]
    types: Mapping[str, StoredType]
    hashed: tuple[str, ...]
    originals: bool
    keyed: bool
    start: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column of the view over all versions, in order."""
        own = [ORIGINAL] if self.originals else []
        key = [KEY] if self.keyed else []
        return (*self.types, *map(hash_column, self.hashed), *own, VERSION, *_META, *key)

    def offers(self, name: str) -> bool:
        """Whether the view of current rows may have a column of this name."""
        return name in self.columns or name in (ORIGINAL, DELETED_AT)

    def rows_sql(self, name: str) -> str:
        """The rows of one raw table in these columns."""
        table = self.tables[name]
        columns = version_columns(self.names, table, self.types)
        columns += [self._hash_sql(table, one) for one in self.hashed]
        if self.originals:
            columns.append(version_originals(self.names, table, self.types))
        columns += [f"{text_literal(name.rpartition('_v_')[2])} AS {VERSION}", *_META]
        columns += [KEY] if self.keyed else []
        raw = Identifier(self.names.contract.namespaces.raw, name)
        return f"SELECT {', '.join(columns)} FROM {raw.sql}"  # noqa: S608

    def current_sql(self, over: Identifier, shown: Sequence[str]) -> str:
        """The current row of each key of the view over all versions: its newest observation, where
        that is no tombstone; as a fold of all loads leaves it (`mirrorlake.merge.newest`).

        Args:
            shown: the columns, in order: of deduped, and of hashes.
        """
        contract = self.names.contract
        flagged = contract.deletes == "flag"
        columns = ["*", f"{DELETED} AS {GONE}"]
        if flagged:
            columns.append(f"CASE WHEN {DELETED} THEN {LOADED_AT} END AS {DELETED_AT}")
        where = f"{SEQ} >= {self.start}"
        if contract.deletes == "ignore":
            where += f" AND NOT {DELETED}"
        rows = f"SELECT {', '.join(columns)} FROM {over.sql} WHERE {where}"  # noqa: S608
        key = [KEY] if self.keyed else [as_sql_identifier(one) for one in self._key()]
        *before, (_, rank) = newest_by(key, flagged=flagged)
        for name, sql in before:
            kept = "*" if name == ALIVE else f"* EXCEPT ({DELETED_AT})"
            rows = f"SELECT {kept}, {sql} AS {name} FROM ({rows})"  # noqa: S608
        listed = ", ".join(self._current_column(name, shown) for name in shown)
        return f"SELECT {listed} FROM ({rows}) WHERE TRUE QUALIFY {rank} = 1 AND NOT {GONE}"  # noqa: S608

    def _key(self) -> list[str]:
        spelled = {name.lower(): name for name in self.types}
        return [spelled[name.lower()] for name in self.names.contract.key]

    def _current_column(self, name: str, shown: Sequence[str]) -> str:
        former = [one for one in self.types if one not in shown]
        if name == ORIGINAL and not self.originals:
            return NO_ORIGINALS
        if name != ORIGINAL or not former:
            return as_sql_identifier(name)
        # Deduped has no original texts of columns that MySQL has no more.
        names = ", ".join(text_literal(one) for one in shown if one in self.types)
        kept = f"filter({ORIGINAL}, x -> x.column IN ({names}))"
        return f"CASE WHEN size({kept}) > 0 THEN {kept} END AS {ORIGINAL}"

    def _hash_sql(self, table: LakeTable, name: str) -> str:
        column = as_sql_identifier(hash_column(name))
        then = self.names.name_in(stored_types(table), name)
        if then is None:
            return f"CAST(NULL AS string) AS {column}"
        value, until = as_sql_identifier(hash_column(then)), self.names.another_until(name, then)
        value = f"CASE WHEN {SEQ} > {until} THEN {value} END" if until else value
        return f"{value} AS {column}"


def over_raw(
    names: RecordedNames,
    tables: Mapping[str, LakeTable],
    there: Mapping[str, Collection[str]],
    now: Mapping[str, str],
    *,
    keyed: bool,
    start: int,
) -> OverRaw:
    """The views over raw tables that another home has, of the columns that all of them have there.

    Args:
        tables: raw's, by name, oldest version first.
        there: the columns that each has in the other home; a table that is not there has no rows
            in the views.
        now: the columns of deduped, each with its type in Iceberg's words.

    Raises:
        TypeRefused: a column would not be shown exactly.
    """
    contract = names.contract
    rules = rules_of(contract)
    types = {
        name: kind
        for name, kind in types_over(names, now, [*tables.values()]).items()
        if rules.get(name.lower()) != "drop"
    }
    for name, kind in types.items():
        _refuse_inexact(names, tables, name, kind, now.get(name), hashed=rules.get(name.lower()))
    chosen = {name: table for name, table in tables.items() if name in there}

    def loaded(name: str, beside: str) -> bool:
        """Whether a column, or what is beside it, is there in every version that has it."""
        found = ((t, names.name_in(stored_types(table), name)) for t, table in chosen.items())
        return all(n is None or beside.format(n) in there[t] for t, n in found)

    shown = {name: kind for name, kind in types.items() if loaded(name, "{}")}
    hashes = (name for name in shown if rules.get(name.lower()) == "hash")
    return OverRaw(
        names,
        chosen,
        there,
        shown,
        tuple(name for name in hashes if loaded(name, hash_column("{}"))),
        any(ORIGINAL in column_names(table.schema()) for table in chosen.values()),
        keyed,
        start,
    )


def _refuse_inexact(
    names: RecordedNames,
    tables: Mapping[str, LakeTable],
    column: str,
    wanted: StoredType,
    now: str | None,
    *,
    hashed: str | None,
) -> None:
    """See that a column's values of all versions are shown exactly.

    Raises:
        TypeRefused: they are not.
    """
    table = names.contract.name
    if now is not None and now != wanted.iceberg:
        raise TypeRefused(
            f"table {table}: column {column!r} is {now}, and raw has values of it that only"
            f" {wanted.iceberg} holds: a view in BigQuery can't say which of them have a place",
            table=table,
            column=column,
            next_step=INSTEAD,
        )
    for version, raw in tables.items():
        stored = stored_types(raw)
        then = names.name_in(stored, column)
        held = stored[then].iceberg if then is not None else wanted.iceberg
        if held == wanted.iceberg:
            continue
        if wanted.iceberg == "string" and held not in _AS_TEXT:
            raise TypeRefused(
                f"table {table}: column {column!r} is {held} in {version}, and a text in others:"
                " BigQuery writes its values as other texts than the lake does",
                table=table,
                column=column,
                next_step=INSTEAD,
            )
        if hashed == "hash" and {held, wanted.iceberg} != {"int", "long"}:
            raise TypeRefused(
                f"table {table}: column {column!r} has `pii: hash`, is {held} in {version} and"
                f" {wanted.iceberg} now: its hashes of then are of other texts",
                table=table,
                column=column,
                next_step=INSTEAD,
            )
