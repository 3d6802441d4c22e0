"""Costs of jobs in another home than the lake, as its own statistics say them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import sqlalchemy as sa

from mirrorlake.ledger.database import Database, utc_now
from mirrorlake.ledger.tables import JOB_COSTS

JobPurpose: TypeAlias = Literal["publish", "check"]


@dataclass(frozen=True)
class JobCostRecord:
    """What one job took; None where nobody says it.

    Attributes:
        purpose: ``publish`` or ``check``; job_type: ``load``, ``copy`` or ``query``.
        recorded_at: when its end was seen (UTC).
    """

    job: str
    table: str
    purpose: JobPurpose
    job_type: str
    recorded_at: datetime
    bytes_processed: int | None
    bytes_billed: int | None
    slot_ms: int | None


class JobCosts:
    """The costs of jobs in one ledger; a part of `Ledger`."""

    _database: Database

    def record_job_cost(
        self,
        table: str,
        purpose: JobPurpose,
        job: str,
        job_type: str,
        took: Mapping[str, int | None],
    ) -> None:
        """Record what a job took when it has ended, once.

        Args:
            took: ``bytes_processed``, ``bytes_billed``, ``slot_ms``.
        """
        row = {"table_name": table, "purpose": purpose, "job_type": job_type, **took}
        with self._database.begin() as connection:
            one = JOB_COSTS.c.job == job
            if connection.execute(JOB_COSTS.select().where(one)).first() is None:
                values = {"job": job, "recorded_at": utc_now(), **row}
                connection.execute(JOB_COSTS.insert().values(**values))

    def job_costs(
        self, since: datetime, tables: Sequence[str] | None = None
    ) -> Sequence[JobCostRecord]:
        """What was recorded at or after a moment (UTC), oldest first; of all tables by default."""
        query = JOB_COSTS.select().where(JOB_COSTS.c.recorded_at >= since.replace(tzinfo=None))
        if tables is not None:
            query = query.where(JOB_COSTS.c.table_name.in_(tables))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(JOB_COSTS.c.recorded_at)).all()
        return [_record(row) for row in rows]


def _record(row: sa.Row[tuple[object, ...]]) -> JobCostRecord:
    return JobCostRecord(
        job=row.job,
        table=row.table_name,
        purpose=row.purpose,
        job_type=row.job_type,
        recorded_at=row.recorded_at,
        bytes_processed=row.bytes_processed,
        bytes_billed=row.bytes_billed,
        slot_ms=row.slot_ms,
    )
