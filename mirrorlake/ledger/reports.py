"""What reports read from the ledger: few rows, however long a table's history is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from mirrorlake.ledger.database import Database
from mirrorlake.ledger.load_rows import read_history_start, read_loads
from mirrorlake.ledger.records import MOVING, Load
from mirrorlake.ledger.tables import LEASES, LOADS, WINDOWS

_JOINED = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)
_TERMS = 200
"""SQLite's limit on the depth of an expression is a thousand."""


class Reports:
    """A part of `Ledger`."""

    _database: Database

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
                    WINDOWS.c.kind.not_in(("live", "full", "repair")),
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
