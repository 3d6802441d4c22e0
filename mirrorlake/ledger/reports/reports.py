"""What reports read from the ledger: few rows, however long a table's history is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.loads.load_rows import read_history_start, read_loads
from mirrorlake.ledger.records import MOVING, Load
from mirrorlake.ledger.tables import FOLDS, LEASES, LOADS, META, UNPROVED, WINDOWS

_JOINED = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)
_TERMS = 200
"""SQLite's limit on the depth of an expression is a thousand."""


@dataclass(frozen=True)
class LayerContents:
    """What a layer of a table is made of. While this is the same, no row of the layer changed that
    the ledger knows of.

    Attributes:
        ledger: which ledger says so.
        loads: how many loads the layer holds; ``newest``: the number of the newest of them.
        marked: when the table was last marked unproved (UTC, ISO); '' for never.
        attempt: the number of the table's newest attempt at a load, whatever became of it.
    """

    ledger: str
    loads: int
    newest: int
    marked: str
    attempt: int


class Reports:
    """A part of `Ledger`."""

    _database: Database

    def contents(self, table: str, layer: str) -> LayerContents:
        """What a layer (``raw``, ``deduped``, ``clean``) holds of a table, in one state of the
        ledger."""
        of = LOADS if layer == "raw" else FOLDS
        held = sa.select(sa.func.count(), sa.func.max(of.c.seq)).where(of.c.table_name == table)
        state = LOADS.c.state == "success" if layer == "raw" else FOLDS.c.layer == layer
        attempt = sa.select(sa.func.max(LOADS.c.seq)).where(LOADS.c.table_name == table)
        mark = sa.select(UNPROVED.c.marked_at).where(UNPROVED.c.table_name == table)
        with self._database.read() as connection:
            name = connection.scalar(sa.select(META.c.value).where(META.c.name == "identity"))
            loads, newest = connection.execute(held.where(state)).one()
            marked = connection.scalar(mark)
            tried = connection.scalar(attempt)
        at = marked.isoformat() if marked else ""
        return LayerContents(name or "", loads, newest or 0, at, tried or 0)

    def runs_since(self, table: str, seq: int) -> list[str]:
        """The run of each successful load of a table after this number; '' where it is unknown."""
        query = sa.select(LOADS.c.run_id).where(
            LOADS.c.table_name == table, LOADS.c.seq > seq, LOADS.c.state == "success"
        )
        with self._database.read() as connection:
            return [run or "" for run in connection.scalars(query)]

    def landmarks(self, table: str) -> list[Load]:
        """Of the successful loads of a table's current history those that show which days were
        read: its first and newest moving ones, and every initial load and reload, in their
        order."""
        ends = sa.select(sa.func.min(LOADS.c.seq), sa.func.max(LOADS.c.seq)).select_from(_JOINED)
        with self._database.read() as connection:
            read = sa.and_(
                LOADS.c.table_name == table,
                LOADS.c.state == "success",
                LOADS.c.seq >= read_history_start(connection, table),
            )
            moving = ends.where(read, WINDOWS.c.kind.in_(MOVING))
            first, newest = connection.execute(moving).one()
            return read_loads(
                connection,
                read,
                sa.or_(
                    WINDOWS.c.kind.not_in(("live", "full", "log", "repair")),
                    LOADS.c.seq.in_([first, newest]),
                ),
            )

    def newest_loads(self, tables: Sequence[str]) -> dict[str, Load]:
        """The newest successful load of each table that brought its mirror forward, in one query.

        Every load took its table's lease, so `LEASES` has one row a table; each number is found by
        the end of an index, however long the history is.
        """
        newest = (
            sa.select(LOADS.c.seq)
            .select_from(_JOINED)
            .where(
                LOADS.c.table_name == LEASES.c.table_name,
                LOADS.c.state == "success",
                WINDOWS.c.kind.in_(MOVING),
            )
            .order_by(LOADS.c.seq.desc())
            .limit(1)
            .correlate(LEASES)
            .scalar_subquery()
        )
        wanted = sa.select(newest).where(LEASES.c.table_name.in_(tables))
        with self._database.read() as connection:
            numbers = [seq for seq in connection.scalars(wanted) if seq is not None]
            found = read_loads(connection, LOADS.c.seq.in_(numbers))
        return {load.table: load for load in found}

    def failures_since(self, newest: Mapping[str, Load], tables: Sequence[str]) -> dict[str, int]:
        """How many loads of each table failed since its newest one of these, where some did."""
        after = [
            sa.and_(LOADS.c.table_name == t, LOADS.c.seq > (newest[t].seq if t in newest else 0))
            for t in tables
        ]
        found: dict[str, int] = {}
        with self._database.read() as connection:
            for n in range(0, len(after), _TERMS):
                query = (
                    sa.select(LOADS.c.table_name, sa.func.count())
                    .where(LOADS.c.state == "errored", sa.or_(*after[n : n + _TERMS]))
                    .group_by(LOADS.c.table_name)
                )
                found |= {str(name): int(count) for name, count in connection.execute(query)}
        return found
