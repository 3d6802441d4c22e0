"""How far tables were followed in their servers' logs beyond their newest loads: where nothing
changed there is no load to say so."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC

import sqlalchemy as sa

from mirrorlake.ledger.database.database import Database
from mirrorlake.ledger.records import MOVING, LogProgress
from mirrorlake.ledger.tables import CHANGE_STAMPS, LOADS, LOG_PROGRESS, WINDOWS

BY_LOG = "log"
"""The evidence by which such a table is known to be its source."""


class LogPlaces:
    """The places in servers' logs that one ledger knows; a part of `Ledger`."""

    _database: Database

    def record_log_progress(self, found: Sequence[LogProgress]) -> None:
        """Write down how far tables of one source were followed, all of them or none; with it,
        until when their mirrors are known to be their source.

        What a stamp says of the lake, and of the contract, stays while it is of the same load.
        """
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
        mine = LOG_PROGRESS.c.table_name == sa.bindparam("of_table")
        stamp = CHANGE_STAMPS.c.table_name == sa.bindparam("of_table")
        by_log = sa.func.coalesce(CHANGE_STAMPS.c.evidence, "") == BY_LOG
        same = sa.and_(CHANGE_STAMPS.c.seq == sa.bindparam("of"), by_log)
        others = [{"of_table": one.table, "of": one.seq} for one in found]
        with self._database.begin() as connection:
            connection.execute(LOG_PROGRESS.delete().where(mine), names)
            connection.execute(LOG_PROGRESS.insert(), places)
            connection.execute(CHANGE_STAMPS.delete().where(stamp, ~same), others)
            known = {
                row.table_name for row in connection.execute(sa.select(CHANGE_STAMPS.c.table_name))
            }
            if new := [one for one in stamps if one["table_name"] not in known]:
                connection.execute(CHANGE_STAMPS.insert(), new)
            if old := [
                {"of_table": one["table_name"], "to": one["seen_at"]}
                for one in stamps
                if one["table_name"] in known
            ]:
                moved = CHANGE_STAMPS.update().where(stamp)
                to = sa.bindparam("to")
                connection.execute(moved.values(read_at=to, seen_at=to), old)

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

    def standing_progress(self, table: str | None = None) -> dict[str, LogProgress]:
        """The same of every table, or of one, of which it says still how far raw has its changes:
        none was loaded since, and no load of it is open or failed."""
        joined = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)
        later = (
            sa.select(LOADS.c.seq)
            .select_from(joined)
            .where(
                LOADS.c.table_name == LOG_PROGRESS.c.table_name,
                LOADS.c.seq > LOG_PROGRESS.c.seq,
                sa.or_(LOADS.c.state != "success", WINDOWS.c.kind.in_(MOVING)),
            )
            .correlate(LOG_PROGRESS)
        )
        wanted = LOG_PROGRESS.select().where(~sa.exists(later))
        if table is not None:
            wanted = wanted.where(LOG_PROGRESS.c.table_name == table)
        with self._database.read() as connection:
            rows = connection.execute(wanted).all()
        return {
            row.table_name: LogProgress(
                row.table_name, row.seq, row.place, row.at.replace(tzinfo=UTC)
            )
            for row in rows
        }

    def followed_elsewhere(self, server: str) -> set[str]:
        """The tables whose places are in the log of another server than this one."""
        # As `Receipt.to_json` has it. A set of GTIDs in a receipt may name other servers, too.
        named = json.dumps({"server": server})[1:-1]
        of_server = sa.func.coalesce(LOADS.c.receipt, "").contains(named, autoescape=True)
        wanted = (
            sa.select(LOG_PROGRESS.c.table_name)
            .select_from(LOG_PROGRESS.join(LOADS, LOADS.c.seq == LOG_PROGRESS.c.seq))
            .where(~of_server)
        )
        with self._database.read() as connection:
            return set(connection.scalars(wanted))
