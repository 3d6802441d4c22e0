"""Dirty marks: what somebody declared invalid, until it is loaded or computed again.

A mark of a model's partition goes in the transaction that records the partition as computed again.
A mark of days of a mirrored table stays: the loads themselves show whether a later one answers it
(`mirrorlake.operations.days.invalid`), so no crash can separate the two.

What belongs here: rows. What doesn't: what derives from them, and what answers them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.tables import DIRTY_MARKS, LOADS

_AT_ONCE = 500
"""Names in one IN list: SQLite takes 999 at most in old builds."""


@dataclass(frozen=True)
class DirtyMark:
    """One partition of a model, or a range of days of a mirrored table, that was declared invalid.

    Attributes:
        declaration: what was declared at once shares it: a range, and all that derives from it.
        target: a model (``dataset.model``) or a mirrored table (``source.database.table``).
        key: the partition of a model; None of a mirrored table.
        first, last: days of a mirrored table, both included; None: without an end there.
        seq: the highest number that a load had then: what is loaded later has a higher one.
        at: when (UTC).
    """

    mark_id: str
    declaration: str
    target: str
    reason: str
    by: str
    key: str | None = None
    first: date | None = None
    last: date | None = None
    seq: int = 0
    at: datetime | None = None


class DirtyMarks:
    """The dirty marks in one ledger; a part of `Ledger`."""

    _database: Database

    def declare_invalid(self, marks: Sequence[DirtyMark]) -> None:
        """Write marks down, all or none; the ledger gives them the number of the newest load, and
        the moment."""
        if not marks:
            return
        with self._database.begin() as connection:
            newest = connection.scalar(sa.select(sa.func.max(LOADS.c.seq))) or 0
            rows = [{**_row(one), "seq": newest, "declared_at": utc_now()} for one in marks]
            connection.execute(DIRTY_MARKS.insert(), rows)

    def dirty_marks(self, target: str | None = None) -> list[DirtyMark]:
        """Every mark, or those of one target, oldest first; marks of mirrored tables also where a
        later load has answered them."""
        query = DIRTY_MARKS.select()
        if target is not None:
            query = query.where(DIRTY_MARKS.c.target == target)
        order = (DIRTY_MARKS.c.declared_at, DIRTY_MARKS.c.target, DIRTY_MARKS.c.partition_key)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(*order, DIRTY_MARKS.c.first_day)).all()
        return [_mark(row) for row in rows]

    def forget_marks(self, marks: Collection[str]) -> None:
        """Marks, by their ids, that are answered or taken back."""
        ids = list(marks)
        if not ids:
            return
        with self._database.begin() as connection:
            for start in range(0, len(ids), _AT_ONCE):
                some = DIRTY_MARKS.c.mark_id.in_(ids[start : start + _AT_ONCE])
                connection.execute(DIRTY_MARKS.delete().where(some))


def _row(one: DirtyMark) -> dict[str, object]:
    return {
        "mark_id": one.mark_id,
        "declaration": one.declaration,
        "target": one.target,
        "partition_key": one.key,
        "first_day": one.first,
        "last_day": one.last,
        "reason": one.reason,
        "declared_by": one.by,
    }


def _mark(row: sa.Row[tuple[object, ...]]) -> DirtyMark:
    return DirtyMark(
        mark_id=row.mark_id,
        declaration=row.declaration,
        target=row.target,
        reason=row.reason,
        by=row.declared_by,
        key=row.partition_key,
        first=row.first_day,
        last=row.last_day,
        seq=row.seq,
        at=row.declared_at.replace(tzinfo=UTC),
    )
