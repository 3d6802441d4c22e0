"""Repairs: the journal of what was read again because it differed, and what came of it."""

from __future__ import annotations

import json
from datetime import UTC
from typing import Any

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.proofs.proof_records import Repair
from mirrorlake.ledger.tables import REPAIRS


class Repairs:
    """The repairs in one ledger; a part of `Ledger`."""

    _database: Database

    def write_repair(self, repair: Repair) -> None:
        """Write a repair down, or what has become of it since."""
        row = _row(repair)
        mine = REPAIRS.c.repair_id == repair.repair_id
        with self._database.begin() as connection:
            if connection.execute(REPAIRS.update().where(mine).values(row)).rowcount == 0:
                connection.execute(REPAIRS.insert().values(row))

    def interrupt_repairs(self, table: str) -> int:
        """Record the repairs of a table that never reported their end as ``interrupted``; how many.

        One that lives after all writes its own end over this.
        """
        mine = sa.and_(REPAIRS.c.table_name == table, REPAIRS.c.outcome == "begun")
        with self._database.begin() as connection:
            ended = {"outcome": "interrupted", "finished_at": utc_now()}
            return connection.execute(REPAIRS.update().where(mine).values(ended)).rowcount

    def repairs(self, table: str) -> list[Repair]:
        """Every repair of a table, oldest first."""
        query = REPAIRS.select().where(REPAIRS.c.table_name == table)
        query = query.order_by(REPAIRS.c.started_at, REPAIRS.c.repair_id)
        with self._database.read() as connection:
            return [read_repair(dict(row)) for row in connection.execute(query).mappings()]


def _row(repair: Repair) -> dict[str, Any]:
    return {
        "repair_id": repair.repair_id,
        "table_name": repair.table,
        "asked": repair.asked,
        "why": repair.why,
        "key_count": repair.keys,
        "digests": json.dumps(repair.digests),
        "before_repair": json.dumps(repair.before),
        "after_repair": json.dumps(repair.after),
        "load_ids": json.dumps(repair.load_ids),
        "before_snapshot": repair.before_snapshot,
        "after_snapshot": repair.after_snapshot,
        "code": repair.code,
        "started_at": repair.started_at.astimezone(UTC).replace(tzinfo=None),
        "finished_at": repair.finished_at.astimezone(UTC).replace(tzinfo=None)
        if repair.finished_at
        else None,
        "outcome": repair.outcome,
        "evidence": json.dumps(repair.evidence),
    }


def read_repair(row: dict[str, Any]) -> Repair:
    """A row of `REPAIRS`."""
    return Repair(
        repair_id=row["repair_id"],
        table=row["table_name"],
        asked=row["asked"],
        why=row["why"],
        keys=row["key_count"],
        digests=tuple(json.loads(row["digests"])),
        before=json.loads(row["before_repair"]),
        after=json.loads(row["after_repair"] or "{}"),
        load_ids=tuple(json.loads(row["load_ids"])),
        before_snapshot=row["before_snapshot"],
        after_snapshot=row["after_snapshot"],
        code=row["code"],
        started_at=row["started_at"].replace(tzinfo=UTC),
        finished_at=row["finished_at"].replace(tzinfo=UTC) if row["finished_at"] else None,
        outcome=row["outcome"],
        evidence=tuple(json.loads(row["evidence"])),
    )
