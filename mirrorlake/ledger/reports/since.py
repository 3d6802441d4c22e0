"""What happened since a moment, of many tables in a few queries: loads, costs, checks, repairs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.loads.costs import read_cost
from mirrorlake.ledger.loads.load_rows import read_loads
from mirrorlake.ledger.proofs.proof_records import Proof, Repair
from mirrorlake.ledger.proofs.proofs import read_proof
from mirrorlake.ledger.proofs.repairs import read_repair
from mirrorlake.ledger.records import Cost, Load
from mirrorlake.ledger.tables import COSTS, LOADS, PROOFS, REPAIRS, UNPROVED


class Since:
    """A part of `Ledger`. All are by table, oldest first; moments are UTC."""

    _database: Database

    def loads_since(self, since: datetime) -> Mapping[str, Sequence[Load]]:
        """Every attempt that began at or after a moment, whatever became of it."""
        with self._database.read() as connection:
            loads = read_loads(connection, LOADS.c.started_at >= _plain(since))
        found: dict[str, list[Load]] = defaultdict(list)
        for load in loads:
            found[load.table].append(load)
        return found

    def costs_since(self, since: datetime) -> Mapping[str, Sequence[Cost]]:
        """What the steps that follow loads read and wrote."""
        found: dict[str, list[Cost]] = defaultdict(list)
        for row in self._rows(COSTS, COSTS.c.recorded_at >= _plain(since), COSTS.c.number):
            found[row["table_name"]].append(read_cost(row))
        return found

    def proofs_since(self, since: datetime) -> Mapping[str, Sequence[Proof]]:
        """The verdicts of checks that began at or after a moment."""
        found: dict[str, list[Proof]] = defaultdict(list)
        for row in self._rows(PROOFS, PROOFS.c.started_at >= _plain(since), PROOFS.c.number):
            found[row["table_name"]].append(read_proof(row))
        return found

    def day_proofs_since(self, first: date) -> Mapping[str, Sequence[Proof]]:
        """The verdicts on single days from this one on."""
        found: dict[str, list[Proof]] = defaultdict(list)
        for row in self._rows(PROOFS, PROOFS.c.day >= first, PROOFS.c.number):
            found[row["table_name"]].append(read_proof(row))
        return found

    def repairs_since(self, since: datetime) -> Mapping[str, Sequence[Repair]]:
        """Repairs that began at or after a moment."""
        found: dict[str, list[Repair]] = defaultdict(list)
        for row in self._rows(REPAIRS, REPAIRS.c.started_at >= _plain(since), REPAIRS.c.started_at):
            found[row["table_name"]].append(read_repair(row))
        return found

    def newest_marks(self) -> Mapping[str, tuple[datetime, str]]:
        """When each table was last marked unproved, and why; see `Marks.newest_mark`."""
        return {
            row["table_name"]: (row["marked_at"].replace(tzinfo=UTC), row["reason"])
            for row in self._rows(UNPROVED, sa.true(), UNPROVED.c.table_name)
        }

    def _rows(
        self, table: sa.Table, where: sa.ColumnElement[bool], order: sa.ColumnElement[Any]
    ) -> list[dict[str, Any]]:
        query = table.select().where(where).order_by(order)
        with self._database.read() as connection:
            return [dict(row) for row in connection.execute(query).mappings()]


def _plain(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(tzinfo=None)
