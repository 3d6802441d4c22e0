"""Costs: what the steps that follow a load read of the lake, and wrote."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.records import Cost
from mirrorlake.ledger.tables import COSTS


class Costs:
    """The costs in one ledger; a part of `Ledger`."""

    _database: Database

    def record_cost(
        self,
        table: str,
        step: str,
        seq: int,
        scanned: int | None,
        written: int,
        seconds: float | None = None,
    ) -> None:
        """Record how many bytes a step of a table read and wrote, and how long it took; ``seq`` is
        its newest load's."""
        row = {"table_name": table, "step": step, "seq": seq, "recorded_at": utc_now()}
        row |= {"scanned": scanned, "written": written, "seconds": seconds}
        with self._database.begin() as connection:
            connection.execute(COSTS.insert().values(**row))

    def costs(self, table: str, since: datetime) -> Sequence[Cost]:
        """What was recorded of a table at or after a moment (UTC), oldest first."""
        query = (
            COSTS.select()
            .where(COSTS.c.table_name == table, COSTS.c.recorded_at >= since.replace(tzinfo=None))
            .order_by(COSTS.c.number)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        return [Cost(r.step, r.seq, r.scanned, r.written, r.seconds) for r in rows]
