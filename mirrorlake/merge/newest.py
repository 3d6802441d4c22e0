"""Which of the rows of a key is its current one, as SQL: a fold adds these columns to the rows of
loads, and a view of rows that are not folded has them in its text.

What belongs here: the rule. What doesn't: whose rows (`mirrorlake.merge.current_rows`,
`mirrorlake.merge.streamed`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.merge.statements import GONE, flags, original_of, unplaced_key
from mirrorlake.schema.own_columns import DELETED_AT, KEY, SEQ
from mirrorlake.table.resolve import ResolvedTable

RANK = "_mirror_rank"
"""1 in the row that is its key's current one."""
ALIVE = "_mirror_alive"
"""The number of the last load that saw a key's row, and no tombstone of it."""


def newest_columns(plan: ResolvedTable, apart: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Columns that are added to rows with a key, one after another: name and SQL.

    A key's current row is its latest. Where deleted rows are flagged, it is the latest that is no
    tombstone, flagged with the time of the first tombstone after it; of a key that has none among
    these rows, its latest tombstone, which flags the row that the layer holds.

    Args:
        apart: columns by which a key's rows are taken for those of several keys.
    """
    key = f"PARTITION BY {', '.join([*key_parts(plan), *apart])}"
    order = f"{SEQ} DESC"
    if not flags(plan):
        return [(RANK, f"row_number() OVER ({key} ORDER BY {order})")]
    later = f"CASE WHEN {GONE} AND {SEQ} > coalesce({ALIVE}, 0) THEN {DELETED_AT} END"
    return [
        (ALIVE, f"max(CASE WHEN NOT {GONE} THEN {SEQ} END) OVER ({key})"),
        (DELETED_AT, f"min({later}) OVER ({key})"),
        (RANK, f"row_number() OVER ({key} ORDER BY {GONE}, {order})"),
    ]


def key_parts(plan: ResolvedTable) -> list[str]:
    """SQL of what rows of one key share."""
    if plan.keeps_aliases:
        return [KEY]
    names = [as_sql_identifier(name) for name in plan.key]
    return names + [original_of(name) for name in unplaced_key(plan)]
