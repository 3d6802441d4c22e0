"""Histories: the loads of a table that mean the same, and may be folded together.

A history begins with the first load of a table, and again where what its loads mean changed (see
`mirrorlake.table.meaning`). Each successful load's receipt says with which load its history began,
so a ledger that is rebuilt from the lake knows it too.
"""

from __future__ import annotations

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.loads.load_rows import read_history_start, read_newest_receipt
from mirrorlake.ledger.records import Receipt


class Histories:
    """A part of `Ledger`."""

    _database: Database

    def history_start(self, table: str) -> int:
        """The number of the load with which a table's current history began; 0: with its first."""
        with self._database.read() as connection:
            return read_history_start(connection, table)

    def newest_receipt(self, table: str) -> Receipt | None:
        """The receipt of a table's newest successful load that has one; a rebuilt ledger may know
        loads without."""
        with self._database.read() as connection:
            return read_newest_receipt(connection, table)
