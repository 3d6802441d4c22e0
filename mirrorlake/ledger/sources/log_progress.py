"""How far tables were followed in their servers' logs beyond their newest loads: where nothing
changed there is no load to say so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.records import LogProgress
from mirrorlake.ledger.tables import CHANGE_STAMPS, LOG_PROGRESS

BY_LOG = "log"
"""The evidence by which such a table is known to be its source."""


class LogPlaces:
    """The places in servers' logs that one ledger knows; a part of `Ledger`."""

    _database: Database

    def record_log_progress(self, found: Sequence[LogProgress]) -> None:
        """Write down how far tables of one source were followed, all of them or none; with it,
        until when their mirrors are known to be their source."""
        if not found:
            return
        names = [{"of_table": one.table} for one in found]
        plain = [one.at.astimezone(UTC).replace(tzinfo=None) for one in found]
        places = [
            {"table_name": one.table, "seq": one.seq, "place": one.place, "at": at}
            for one, at in zip(found, plain, strict=True)
        ]
        stamps = [
            {"table_name": one.table, "seq": one.seq, "shown": "", "terms": "", "lake": ""}
            | {"read_at": at, "seen_at": at, "evidence": BY_LOG}
            for one, at in zip(found, plain, strict=True)
        ]
        with self._database.begin() as connection:
            for table, rows in ((LOG_PROGRESS, places), (CHANGE_STAMPS, stamps)):
                mine = table.c.table_name == sa.bindparam("of_table")
                connection.execute(table.delete().where(mine), names)
                connection.execute(table.insert(), rows)

    def log_progress(self, table: str) -> LogProgress | None:
        """How far a table was followed beyond its newest load when that was last recorded."""
        query = LOG_PROGRESS.select().where(LOG_PROGRESS.c.table_name == table)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return (
            None
            if row is None
            else LogProgress(table, row.seq, row.place, row.at.replace(tzinfo=UTC))
        )
