"""Which of the rows of a key is its current one, as SQL: the one rule of folds, stream views and
views in other homes.

What belongs here: the rule. What doesn't: what rows of one key share (`mirrorlake.merge.newest`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.schema.own_columns import DELETED_AT, EVENT, SEQ

GONE = "_mirror_gone"
"""In a set of changes: the key is no more."""
RANK = "_mirror_rank"
"""1 in the row that is its key's current one."""
ALIVE = "_mirror_alive"
"""The number of the last load that saw a key's row, and no tombstone of it."""
ALIVE_EVENT = "_mirror_alive_event"
"""The last event of that load that did."""
_EVENT = f"coalesce({EVENT}, 0)"


def newest_by(
    parts: Sequence[str], *, flagged: bool, events: bool = False
) -> list[tuple[str, str]]:
    """The same of rows whose key is shared where these parts are. Versions of a row are ordered by
    load, and those of one load by event.

    Args:
        parts: SQL of what rows of one key share.
        flagged: whether deleted rows are flagged.
        events: whether there are rows of loads with several versions of a key.
    """
    key = f"PARTITION BY {', '.join(parts)}"
    order = f"{SEQ} DESC, {_EVENT} DESC" if events else f"{SEQ} DESC"
    if not flagged:
        return [(RANK, f"row_number() OVER ({key} ORDER BY {order})")]
    alive = [(ALIVE, f"max(CASE WHEN NOT {GONE} THEN {SEQ} END) OVER ({key})")]
    later = f"{SEQ} > coalesce({ALIVE}, 0)"
    if events:
        last = f"CASE WHEN NOT {GONE} AND {SEQ} = {ALIVE} THEN {_EVENT} END"
        alive.append((ALIVE_EVENT, f"max({last}) OVER ({key})"))
        later = f"({later} OR {SEQ} = {ALIVE} AND {_EVENT} > {ALIVE_EVENT})"
    return [
        *alive,
        (DELETED_AT, f"min(CASE WHEN {GONE} AND {later} THEN {DELETED_AT} END) OVER ({key})"),
        (RANK, f"row_number() OVER ({key} ORDER BY {GONE}, {order})"),
    ]
