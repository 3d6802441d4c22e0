"""What reports ask of the ledger: few rows, however long a table's history is."""

from __future__ import annotations

import sqlalchemy as sa

from mirrorlake.ledger.database import Database
from mirrorlake.ledger.loads import read_loads
from mirrorlake.ledger.records import MOVING, Load
from mirrorlake.ledger.tables import LOADS, WINDOWS

_JOINED = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)


class Reports:
    """A part of `Ledger`."""

    _database: Database

    def landmarks(self, table: str) -> list[Load]:
        """Of a table's successful loads those that tell which days were read: its first and newest
        moving ones, and every initial load and reload, in their order."""
        moving = sa.and_(
            LOADS.c.table_name == table, LOADS.c.state == "success", WINDOWS.c.kind.in_(MOVING)
        )
        ends = sa.select(sa.func.min(LOADS.c.seq), sa.func.max(LOADS.c.seq)).select_from(_JOINED)
        with self._database.read() as connection:
            first, newest = connection.execute(ends.where(moving)).one()
            return read_loads(
                connection,
                LOADS.c.table_name == table,
                LOADS.c.state == "success",
                sa.or_(WINDOWS.c.kind.not_in(("live", "full")), LOADS.c.seq.in_([first, newest])),
            )
