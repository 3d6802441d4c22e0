"""What happened since a moment, of many tables in a few queries: loads, costs, checks, repairs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.loads.load_rows import read_loads
from mirrorlake.ledger.loads.loads import UNREAD
from mirrorlake.ledger.proofs.proof_records import Proof, Repair
from mirrorlake.ledger.proofs.proofs import read_proof
from mirrorlake.ledger.proofs.repairs import read_repair
from mirrorlake.ledger.records import MOVING, Cost, Load
from mirrorlake.ledger.tables import COSTS, LOADS, PROOFS, REPAIRS, UNPROVED, WINDOWS

_AT_ONCE = 500
"""Numbers in one IN list."""

_FIGURES = (
    *(LOADS.c.table_name, LOADS.c.receipt, LOADS.c.seq, LOADS.c.attempt, LOADS.c.state),
    *(WINDOWS.c.kind, LOADS.c.started_at, LOADS.c.finished_at, LOADS.c.error),
)


class LoadFigures(NamedTuple):
    """What one attempt came to: the figures of its receipt, 0 where there is none; see `Receipt`.

    There can be a great many: it holds nothing else.

    Attributes:
        kind: its window's.
        moment: the source's (UTC) just before the first read; None without a receipt.
        proved: whether it was found equal before it became visible.
    """

    seq: int
    attempt: int
    state: str
    kind: str
    started_at: datetime
    finished_at: datetime | None
    error: str | None
    moment: datetime | None = None
    rows: int = 0
    bytes: int = 0
    read_bytes: int = 0
    query_seconds: float = 0.0
    originals: int = 0
    future: int = 0
    backward: int = 0
    gone: int = 0
    proved: bool = False

    @staticmethod
    def of(load: Load) -> LoadFigures:
        """The figures of a load."""
        facts = (load.seq, load.attempt, load.state, load.window.kind, load.started_at)
        facts = (*facts, load.finished_at, load.error)
        return _figures(facts, vars(load.receipt) if load.receipt is not None else None)


def _figures(facts: Sequence[Any], said: Mapping[str, Any] | None) -> LoadFigures:
    seq, attempt, state, kind, started, finished, error = facts
    ends = (started.replace(tzinfo=UTC), finished.replace(tzinfo=UTC) if finished else None)
    if said is None:
        return LoadFigures(seq, attempt, state, kind, *ends, error)
    return LoadFigures(
        *(seq, attempt, state, kind, *ends, error),
        datetime.fromisoformat(moment).replace(tzinfo=UTC) if (moment := said["moment"]) else None,
        *(said["rows"], said["bytes"], said.get("read_bytes", 0), said["query_seconds"]),
        *(said["originals"], said["future"], said.get("backward") or 0, said.get("gone", 0)),
        said.get("source_digest") is not None,
    )


class Since:
    """A part of `Ledger`. All are by table, oldest first; moments are UTC."""

    _database: Database

    def loads_since(
        self, since: datetime, table: str | None = None
    ) -> Mapping[str, Sequence[LoadFigures]]:
        """Every attempt, of a table or of all, that began at or after a moment, whatever became of
        it; by its number."""
        mine = sa.true() if table is None else LOADS.c.table_name == table
        query = (
            sa.select(*_FIGURES)
            .select_from(LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id))
            .where(LOADS.c.started_at >= _plain(since), mine)
            .order_by(LOADS.c.seq)
        )
        found: dict[str, list[LoadFigures]] = defaultdict(list)
        with self._database.read() as connection:
            for name, receipt, *facts in connection.execute(query):
                found[name].append(_figures(facts, json.loads(receipt) if receipt else None))
        return found

    def costs_since(self, since: datetime) -> Mapping[str, Sequence[Cost]]:
        """What the steps that follow loads read and wrote, summed by step."""
        costs = COSTS.c
        query = (
            sa.select(
                costs.table_name,
                costs.step,
                sa.func.max(costs.seq).label("seq"),
                sa.func.sum(costs.written).label("written"),
                sa.func.sum(costs.scanned).label("scanned"),
                sa.func.sum(costs.seconds).label("seconds"),
                (sa.func.count() - sa.func.count(costs.scanned)).label("unknown"),
            )
            .where(costs.recorded_at >= _plain(since))
            .group_by(costs.table_name, costs.step)
            .order_by(costs.table_name, costs.step)
        )
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        found: dict[str, list[Cost]] = defaultdict(list)
        for row in rows:
            # Where one is not known, their sum is not.
            scanned = None if row.unknown else int(row.scanned)
            one = Cost(row.step, row.seq, scanned, int(row.written), row.seconds)
            found[row.table_name].append(one)
        return found

    def landmarks_of_all(self) -> Mapping[str, Sequence[Load]]:
        """What `landmarks` has of one table, of all, as if each had one history."""
        joined = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)
        ends = (
            sa.select(sa.func.min(LOADS.c.seq), sa.func.max(LOADS.c.seq))
            .select_from(joined)
            .where(LOADS.c.state == "success", WINDOWS.c.kind.in_(MOVING))
            .group_by(LOADS.c.table_name)
        )
        others = WINDOWS.c.kind.not_in(("live", "full", "log", "repair"))
        with self._database.read() as connection:
            numbers = sorted({seq for row in connection.execute(ends) for seq in row})
            loads = read_loads(connection, LOADS.c.state == "success", others)
            for some in (numbers[n : n + _AT_ONCE] for n in range(0, len(numbers), _AT_ONCE)):
                loads += read_loads(connection, LOADS.c.seq.in_(some), ~others)
        found: dict[str, list[Load]] = defaultdict(list)
        for load in sorted(loads, key=lambda one: one.seq):
            found[load.table].append(load)
        return found

    def unread_tables(self) -> set[str]:
        """The tables with a window that was requested and not read."""
        query = sa.select(WINDOWS.c.table_name).where(WINDOWS.c.state.in_(UNREAD)).distinct()
        with self._database.read() as connection:
            return set(connection.scalars(query))

    def proofs_since(self, since: datetime) -> Mapping[str, Sequence[Proof]]:
        """The verdicts of the first check that began at or after a moment, and of all that were
        recorded later, also by a clock that was behind."""
        found: dict[str, list[Proof]] = defaultdict(list)
        began = sa.select(sa.func.min(PROOFS.c.number)).where(PROOFS.c.started_at >= _plain(since))
        for row in self._rows(PROOFS, PROOFS.c.number >= began.scalar_subquery(), PROOFS.c.number):
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
