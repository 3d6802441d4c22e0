"""Which of the rows of a key is its current one, as SQL: the one rule of folds, stream views and
views in other homes.

What belongs here: the rule. What doesn't: what rows of one key share (`mirrorlake.merge.newest`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.schema.own_columns import DELETED_AT, SEQ

GONE = "_mirror_gone"
"""In a set of changes: the key is no more."""
RANK = "_mirror_rank"
"""1 in the row that is its key's current one."""
ALIVE = "_mirror_alive"
"""The number of the last load that saw a key's row, and no tombstone of it."""


def newest_by(parts: Sequence[str], *, flagged: bool) -> list[tuple[str, str]]:
    """The same of rows whose key is shared where these parts are.

    Args:
        parts: SQL of what rows of one key share.
        flagged: whether deleted rows are flagged.
    """
    key = f"PARTITION BY {', '.join(parts)}"
    order = f"{SEQ} DESC"
    if not flagged:
        return [(RANK, f"row_number() OVER ({key} ORDER BY {order})")]
    later = f"CASE WHEN {GONE} AND {SEQ} > coalesce({ALIVE}, 0) THEN {DELETED_AT} END"
    return [
        (ALIVE, f"max(CASE WHEN NOT {GONE} THEN {SEQ} END) OVER ({key})"),
        (DELETED_AT, f"min({later}) OVER ({key})"),
        (RANK, f"row_number() OVER ({key} ORDER BY {GONE}, {order})"),
    ]
