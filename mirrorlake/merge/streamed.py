"""Deduped as it would be if every load were folded, as SQL: the rows that it holds of keys that no
later load observed, and of the others what the latest load says.

A load that is folded already may be among those that are added: of its keys the latest row is the
one that deduped holds. So the text stays true when a fold moves on; what it costs grows with the
loads that it adds.

What belongs here: the text. What doesn't: the view of it (`mirrorlake.serving.streamed`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.model import LakeTable, column_names
from mirrorlake.merge.newest import key_originals, newest_columns, raw_rows_sql
from mirrorlake.merge.row_sql.ranks import GONE, RANK
from mirrorlake.merge.statements import Layer, deduped_layer, same_key, unplaced_key
from mirrorlake.schema.own_columns import DELETED, DELETED_AT, KEY, ORIGINAL, SEQ
from mirrorlake.table.resolve import ResolvedTable

_HELD = " VERSION AS OF "
_HELD_AT = re.compile(rf"`{_HELD}([0-9]+)\b")
_AFTER = re.compile(rf" WHERE {SEQ} > ([0-9]+)\b")
_ROWS, _NEWEST, _REMOVED = "_mirror_rows", "_mirror_newest", "_mirror_removed"


@dataclass(frozen=True)
class AddedLoads:
    """The loads whose rows are added to deduped.

    Attributes:
        after: the number of the last load that is not among them.
        start: the number of the first load of the table's history.
        tables: raw's tables that hold rows of this history, of all schema versions, by name; the
            rows that are added are in the plan's own.
        names: the columns of deduped, in its order.
    """

    after: int
    start: int
    tables: Mapping[Identifier, LakeTable]
    names: Sequence[str]


def streamed_sql(plan: ResolvedTable, added: AddedLoads) -> str:
    """The rows of deduped with these loads folded into it.

    Of a table without a key all rows are raw's: a fold has nothing else to say of them.
    """
    layer = deduped_layer(plan)
    names = ", ".join(map(as_sql_identifier, added.names))
    if not plan.key:
        where = f"{SEQ} >= {added.start} AND NOT {DELETED}"
        rows = raw_rows_sql(plan, plan.raw, added.tables[plan.raw], where)
        return f"SELECT {names} FROM ({rows})"  # noqa: S608
    parts = {
        _ROWS: _rows(plan, added),
        _NEWEST: _newest(plan, column_names(added.tables[plan.raw].schema())),
        _REMOVED: _removed(plan, layer, added),
    }
    clauses = ", ".join(f"{name} AS ({sql})" for name, sql in parts.items())
    return (
        f"WITH {clauses} {_kept(plan, layer, added.names)}"  # noqa: S608
        f" UNION ALL SELECT {names} FROM {_NEWEST} WHERE NOT {GONE}"
    )


def folded_sql(deduped: Identifier, names: Sequence[str]) -> str:
    """The rows that deduped holds, without any load beside them."""
    return f"SELECT {', '.join(map(as_sql_identifier, names))} FROM {deduped.sql}"  # noqa: S608


def after_of(sql: str) -> int | None:
    """`AddedLoads.after` of a text; None of one that adds no loads."""
    found = _AFTER.search(sql)
    return int(found[1]) if found else None


def held_at(sql: str) -> list[int]:
    """The versions of lake tables that a view's text is held at; none where it is not."""
    return [int(number) for number in _HELD_AT.findall(sql)]


def held_sql(sql: str, versions: Mapping[Identifier, int]) -> str:
    """A text of `streamed_sql` or `folded_sql` that shows what it shows now, whatever is loaded and
    folded later.

    Args:
        versions: deduped, and raw's tables, as main shows them now. One that is not there has no
            rows.
    """
    if held_at(sql):
        return sql
    for name, version in versions.items():
        named = re.compile(rf"(?<= FROM ){re.escape(name.sql)}(?= t | WHERE |$)")
        sql = f"{name.sql}{_HELD}{version}".join(named.split(sql))
    return sql


def _rows(plan: ResolvedTable, added: AddedLoads) -> str:
    where = f"{SEQ} > {added.after}"
    if plan.contract.deletes == "ignore":
        where += f" AND NOT {DELETED}"
    return raw_rows_sql(plan, plan.raw, added.tables[plan.raw], where)


def _newest(plan: ResolvedTable, columns: Collection[str]) -> str:
    """What the added loads leave of each key: its current row."""
    rows = _ROWS
    for name, sql in newest_columns(plan, columns):
        kept = f"* EXCEPT ({DELETED_AT})" if name == DELETED_AT else "*"
        rows = f"(SELECT {kept}, {sql} AS {name} FROM {rows})"  # noqa: S608
    return f"SELECT * FROM {rows} WHERE {RANK} = 1"  # noqa: S608


def _removed(plan: ResolvedTable, layer: Layer, added: AddedLoads) -> str:
    """The keys whose rows deduped holds no more. Where an UPDATE may have given a key another text,
    all texts under which raw has it: but of one that is gone its own, which is flagged."""
    if not plan.keeps_aliases:
        return f"SELECT * FROM {_NEWEST}{f' WHERE NOT {GONE}' if layer.flags else ''}"  # noqa: S608
    key = [as_sql_identifier(name) for name in plan.key]
    shown = [*key, *([ORIGINAL] if unplaced_key(plan) else [])]
    texts = ", ".join([*key, *([key_originals(plan)] if unplaced_key(plan) else []), KEY])
    where = f"{SEQ} >= {added.start}"
    of_versions = " UNION ALL ".join(
        f"SELECT {texts} FROM ({raw_rows_sql(plan, name, table, where)})"  # noqa: S608
        for name, table in added.tables.items()
    )
    flagged = f" AND NOT (s.{GONE} AND {same_key(plan, layer)})" if layer.flags else ""
    # `t` is a text that raw has, `s` what is known of its key now.
    return (
        f"SELECT {', '.join(f't.{name}' for name in shown)}"  # noqa: S608
        f" FROM (SELECT DISTINCT * FROM ({of_versions})) t"
        f" LEFT SEMI JOIN {_NEWEST} s ON t.{KEY} = s.{KEY}{flagged}"
    )


def _kept(plan: ResolvedTable, layer: Layer, names: Sequence[str]) -> str:
    """The rows of deduped that stay."""
    on = same_key(plan, layer)
    stay = f"{plan.deduped.sql} t LEFT ANTI JOIN {_REMOVED} s ON {on}"
    since = f"coalesce(t.{DELETED_AT}, s.{DELETED_AT}) AS {DELETED_AT}"
    columns = ", ".join(
        since if name == DELETED_AT else f"t.{as_sql_identifier(name)}" for name in names
    )
    if not layer.flags:
        return f"SELECT {columns} FROM {stay}"  # noqa: S608
    gone = f"(SELECT * FROM {_NEWEST} WHERE {GONE})"  # noqa: S608
    return f"SELECT {columns} FROM (SELECT t.* FROM {stay}) t LEFT JOIN {gone} s ON {on}"  # noqa: S608
