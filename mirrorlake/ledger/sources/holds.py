"""Holds: sources that are to be left alone for a while."""

from __future__ import annotations

from datetime import UTC, datetime

from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.records import Hold
from mirrorlake.ledger.tables import HOLDS


class Holds:
    """The holds in one ledger; a part of `Ledger`."""

    _database: Database

    def hold(self, source: str, until: datetime, reason: str = "") -> Hold:
        """Leave a source alone until then; an earlier hold of it is replaced."""
        at = until.astimezone(UTC)
        with self._database.begin() as connection:
            connection.execute(HOLDS.delete().where(HOLDS.c.source == source))
            connection.execute(
                HOLDS.insert().values(
                    source=source, until=at.replace(tzinfo=None), reason=reason, set_at=utc_now()
                )
            )
        return Hold(source, at, reason)

    def release(self, source: str) -> bool:
        """End a source's hold; whether there was one."""
        with self._database.begin() as connection:
            return connection.execute(HOLDS.delete().where(HOLDS.c.source == source)).rowcount > 0

    def held(self, source: str) -> Hold | None:
        """The hold that a source is under now, or None."""
        with self._database.read() as connection:
            now = self._database.now(connection)
            query = HOLDS.select().where(HOLDS.c.source == source, HOLDS.c.until > now)
            row = connection.execute(query).first()
        return None if row is None else Hold(source, row.until.replace(tzinfo=UTC), row.reason)
