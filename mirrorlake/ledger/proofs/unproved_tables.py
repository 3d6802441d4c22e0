"""Marks: tables whose rows may no longer be what the source has, until they are read again."""

from __future__ import annotations

from datetime import UTC, datetime

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.loads.load_rows import standing_marks
from mirrorlake.ledger.records import Unproved
from mirrorlake.ledger.tables import LOADS, PROOF_OFFSETS, UNPROVED

_STANDING = standing_marks().where(UNPROVED.c.table_name == sa.bindparam("name"))


class Marks:
    """The unproved tables of one ledger; a part of `Ledger`."""

    _database: Database

    def mark_unproved(self, table: str, server: str, reason: str) -> None:
        """From now on a table is unproved, and read from this server; an earlier mark is replaced.

        The next load that reads the whole table ends it. Checks begin again at the first key: what
        they proved is not known any more, and the key may be another one.
        """
        with self._database.begin() as connection:
            newest = connection.scalar(sa.select(sa.func.max(LOADS.c.seq)))
            for kept in (UNPROVED, PROOF_OFFSETS):
                connection.execute(kept.delete().where(kept.c.table_name == table))
            connection.execute(
                UNPROVED.insert().values(
                    table_name=table,
                    server=server,
                    reason=reason,
                    seq=newest or 0,
                    marked_at=utc_now(),
                )
            )

    def unproved(self, table: str) -> Unproved | None:
        """The mark of a table that was not read again since, or None."""
        with self._database.read() as connection:
            row = connection.execute(_STANDING, {"name": table}).first()
        return None if row is None else Unproved(table, row.server, row.reason)

    def newest_mark(self, table: str) -> tuple[datetime, str] | None:
        """When (UTC) a table was last marked unproved, and why, whether it was read again since or
        not; None if it never was."""
        query = UNPROVED.select().where(UNPROVED.c.table_name == table)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return None if row is None else (row.marked_at.replace(tzinfo=UTC), row.reason)
