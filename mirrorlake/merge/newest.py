"""Rows of raw as SQL, and which of the rows of a key is its current one: a fold reads loads so,
and a view of rows that are not folded has it in its text.

What belongs here: what both have in common. What doesn't: whose rows they read
(`mirrorlake.merge.current_rows`, `mirrorlake.merge.streamed`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.merge.row_sql.ranks import GONE, newest_by
from mirrorlake.merge.row_sql.raw_versions import wanted_types
from mirrorlake.merge.row_sql.version_sql import version_columns, version_originals
from mirrorlake.merge.statements import flags, original_of, text_literal, unplaced_key
from mirrorlake.schema.own_columns import (
    DELETED,
    DELETED_AT,
    EVENT,
    KEY,
    LOADED_AT,
    ORIGINAL,
    SEQ,
    TOKEN,
)
from mirrorlake.table.resolve import ResolvedTable


def raw_rows_sql(plan: ResolvedTable, raw: Identifier, table: LakeTable | None, where: str) -> str:
    """SQL of rows of a raw table in the plan's columns, with what a fold needs of each: its load's
    number, whether it is a tombstone, and, where the plan has them, when it was found gone, its
    original texts, its key as the server compares it, and its entity.

    Args:
        raw: the name of ``table``.
        where: which rows.
    """
    there = {field.name for field in table.schema().fields} if table else set()
    wanted = wanted_types(plan)
    columns = version_columns(plan, table, wanted, filled=plan.filled)
    columns += [SEQ, *({EVENT} & there), f"{DELETED} AS {GONE}"]
    if flags(plan):
        columns.append(f"CASE WHEN {DELETED} THEN {LOADED_AT} END AS {DELETED_AT}")
    if plan.originals:
        columns.append(version_originals(plan, table, wanted))
    if plan.keeps_aliases:
        columns.append(KEY)
    if plan.entity is not None:
        columns.append(TOKEN if TOKEN in there else f"CAST(NULL AS binary) AS {TOKEN}")
    return f"SELECT {', '.join(columns)} FROM {raw.sql} WHERE {where}"  # noqa: S608


def newest_columns(
    plan: ResolvedTable, rows: Collection[str], apart: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Columns that are added to rows with a key, one after another: name and SQL.

    A key's current row is its latest. Where deleted rows are flagged, it is the latest that is no
    tombstone, flagged with the time of the first tombstone after it; of a key that has none among
    these rows, its latest tombstone, which flags the row that the layer holds.

    Args:
        rows: the columns of these rows.
        apart: columns by which a key's rows are taken for those of several keys.
    """
    return newest_by([*key_parts(plan), *apart], flagged=flags(plan), events=EVENT in rows)


def key_parts(plan: ResolvedTable) -> list[str]:
    """SQL of what rows of one key share."""
    if plan.keeps_aliases:
        return [KEY]
    names = [as_sql_identifier(name) for name in plan.key]
    return names + [original_of(name) for name in unplaced_key(plan)]


def key_originals(plan: ResolvedTable) -> str:
    """SQL of the originals of the key's columns alone, NULL where there are none."""
    names = ", ".join(text_literal(name) for name in unplaced_key(plan))
    of_key = f"filter({ORIGINAL}, x -> x.column IN ({names}))"
    return f"CASE WHEN size({of_key}) > 0 THEN {of_key} END AS {ORIGINAL}"
