"""Chunks of a load that has not ended: how it was cut, and what was read of it.

They are kept while a later run may resume the load: until it succeeds, fails in a way that
another run would meet again, or another load of its table takes a number.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.loads.load_rows import hold_load, read_load, taken_over
from mirrorlake.ledger.records import ChunkedLoad, Lease, Load
from mirrorlake.ledger.tables import CHUNKED, CHUNKS, LOADS, WINDOWS

KEPT = timedelta(days=7)
"""After that a load is read again: the next window would have to reach back as far."""
_PLANNED = CHUNKED.select().where(
    CHUNKED.c.seq
    == sa.select(sa.func.max(LOADS.c.seq))
    .where(LOADS.c.table_name == sa.bindparam("name"))
    .scalar_subquery()
)


class Chunks:
    """The chunks in one ledger; a part of `Ledger`."""

    _database: Database

    def plan_chunks(
        self,
        load: Load,
        basis: Mapping[str, str],
        start: Mapping[str, str | None],
        bounds: Sequence[str],
    ) -> None:
        """Write down how a pending load is cut, before its first chunk is read."""
        rows = [{"seq": load.seq, "number": n, "bounds": text} for n, text in enumerate(bounds)]
        with self._database.begin() as connection:
            connection.execute(
                CHUNKED.insert().values(
                    seq=load.seq,
                    basis=json.dumps(dict(basis)),
                    start=json.dumps(dict(start)),
                    planned_at=self._database.now(connection),
                )
            )
            connection.execute(CHUNKS.insert(), rows)

    def finish_chunk(self, load: Load, number: int, receipt: str) -> None:
        """Write a chunk as read, with what it saw and wrote.

        Raises:
            LeaseHeld: another run has taken the load over; the chunk's files are nobody's.
        """
        with self._database.begin() as connection:
            hold_load(connection, load)
            chunk = sa.and_(CHUNKS.c.seq == load.seq, CHUNKS.c.number == number)
            written = connection.execute(CHUNKS.update().where(chunk).values(receipt=receipt))
            if written.rowcount != 1:
                raise taken_over(load)

    def chunked_load(self, table: str) -> ChunkedLoad | None:
        """The load of a table that a run may resume: its newest, chunked and not ended.

        The caller holds the table's lease, or only wants to know which files are not orphans.
        """
        with self._database.read() as connection:
            planned = connection.execute(_PLANNED, {"name": table}).first()
            if planned is None or planned.planned_at < self._database.now(connection) - KEPT:
                return None
            load = read_load(connection, planned.seq)
            if load.state not in ("pending", "errored"):
                return None
            rows = connection.execute(
                CHUNKS.select().where(CHUNKS.c.seq == planned.seq).order_by(CHUNKS.c.number)
            ).all()
        return ChunkedLoad(
            load=load,
            basis=json.loads(planned.basis),
            start=json.loads(planned.start),
            bounds=tuple(row.bounds for row in rows),
            receipts={row.number: row.receipt for row in rows if row.receipt is not None},
        )

    def resume_load(
        self, load: Load, lease: Lease, run_id: str, parent_snapshot: int | None
    ) -> Load:
        """Write a load that did not end as ``pending`` again: the next attempt, with its first
        number. What its last owner still does is refused from here on.

        Raises:
            LedgerError: another load of the table has taken a number since.
        """
        newest = sa.select(sa.func.max(LOADS.c.seq)).where(LOADS.c.table_name == load.table)
        with self._database.begin() as connection:
            taken = connection.execute(
                LOADS.update()
                .where(
                    LOADS.c.seq == load.seq,
                    LOADS.c.attempt == load.attempt,
                    LOADS.c.state.in_(("pending", "errored")),
                )
                .values(
                    state="pending",
                    attempt=load.attempt + 1,
                    run_id=run_id,
                    job_id=None,
                    token=lease.token,
                    parent_snapshot=parent_snapshot,
                    started_at=utc_now(),
                    finished_at=None,
                    error=None,
                )
            )
            if taken.rowcount != 1 or connection.scalar(newest) != load.seq:
                raise LedgerError(
                    f"table {load.table}: load {load.load_id} can't be resumed: the table was "
                    "loaded since",
                    table=load.table,
                    next_step="Sync again",
                    retryable=True,
                )
            connection.execute(
                WINDOWS.update().where(WINDOWS.c.load_id == load.load_id).values(state="pending")
            )
            return read_load(connection, load.seq)
