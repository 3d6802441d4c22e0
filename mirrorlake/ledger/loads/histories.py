"""Histories: the loads of a table that mean the same, and may be folded together.

A history begins with the first load of a table, and again where what its loads mean changed (see
`mirrorlake.table.meaning`). Each successful load's receipt says with which load its history began,
so a ledger that is rebuilt from the lake knows it too.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.loads.load_rows import read_history_start, read_newest_receipt
from mirrorlake.ledger.records import Receipt
from mirrorlake.ledger.tables import LEASES, LOADS

_AT_ONCE = 500
"""Numbers in one IN list."""


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

    def newest_receipts(self) -> Mapping[str, Receipt]:
        """The same of every table that has one."""
        newest = (
            sa.select(LOADS.c.seq)
            .where(
                LOADS.c.table_name == LEASES.c.table_name,
                LOADS.c.state == "success",
                LOADS.c.receipt.is_not(None),
            )
            .order_by(LOADS.c.seq.desc())
            .limit(1)
            .correlate(LEASES)
            .scalar_subquery()
        )
        found: dict[str, Receipt] = {}
        receipts = sa.select(LOADS.c.table_name, LOADS.c.receipt)
        with self._database.read() as connection:
            # Every load took its table's lease.
            numbers = [n for n in connection.scalars(sa.select(newest).select_from(LEASES)) if n]
            for n in range(0, len(numbers), _AT_ONCE):
                some = receipts.where(LOADS.c.seq.in_(numbers[n : n + _AT_ONCE]))
                found |= {name: Receipt.from_json(text) for name, text in connection.execute(some)}
        return found
