"""How far the records of each table were published to each destination."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import utc_now, waits_for_server
from mirrorlake.ledger.loads.load_rows import storable
from mirrorlake.ledger.tables import METADATA

RECORD_PROGRESS = sa.Table(
    "record_progress",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("destination", sa.String(32), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("event", sa.BigInteger, nullable=False),
    sa.Column("begun", sa.BigInteger, nullable=False),
    sa.Column("records", sa.BigInteger, nullable=False),
    sa.Column("files", sa.BigInteger, nullable=False),
    sa.Column("position", sa.Text),
    sa.Column("published_at", sa.DateTime),
    sa.Column("error", sa.Text),
    sa.Column("failed_at", sa.DateTime),
)


@dataclass(frozen=True)
class RecordProgress:
    """How far a table's records were published to one destination.

    Attributes:
        seq: the number of the last load that is there whole; 0: none.
        event: of the load after it, up to which of its events a queue has it.
        begun: the number of the last load of the batch that was begun behind ``seq``; up to
            ``seq`` where none is.
        records: how many were published since this record began; files: in how many files.
        position: of the last record that has one, as raw has it.
        published_at: when (UTC) the last of them was recorded.
        error: why the newest attempt failed; None where it did not.
        failed_at: when (UTC) that was.
    """

    table: str
    destination: str
    seq: int = 0
    event: int = 0
    begun: int = 0
    records: int = 0
    files: int = 0
    position: str | None = None
    published_at: datetime | None = None
    error: str | None = None
    failed_at: datetime | None = None


@waits_for_server
class RecordPlaces:
    """The progress of all destinations that one ledger knows. Who writes holds the lease of the
    table's records."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def of_tables(
        self, tables: Collection[str] | None = None
    ) -> dict[tuple[str, str], RecordProgress]:
        """By table and destination; of all tables by default."""
        query = RECORD_PROGRESS.select()
        if tables is not None and len(tables) == 1:
            query = query.where(RECORD_PROGRESS.c.table_name == next(iter(tables)))
        with self._database.read() as connection:
            rows = connection.execute(query).mappings().all()
        found = (_progress(dict(row)) for row in rows)
        return {
            (one.table, one.destination): one
            for one in found
            if tables is None or one.table in tables
        }

    def begin(self, progress: RecordProgress, through: int) -> RecordProgress:
        """Write down that the loads up to a number are being published as one batch."""
        return self._write(progress, begun=through)

    def reach(self, progress: RecordProgress, event: int, records: int) -> RecordProgress:
        """Write down up to which event of its next load a queue has a table."""
        return self._write(progress, event=event, records=progress.records + records)

    def finish(
        self, progress: RecordProgress, seq: int, records: int, files: int, position: str | None
    ) -> RecordProgress:
        """Write down that the loads up to a number are there whole."""
        return self._write(
            progress,
            seq=seq,
            event=0,
            records=progress.records + records,
            files=progress.files + files,
            position=position or progress.position,
            published_at=utc_now(),
            error=None,
            failed_at=None,
        )

    def fail(self, table: str, destination: str, error: str) -> None:
        """Write down why an attempt failed."""
        known = self.of_tables([table]).get((table, destination))
        progress = known or RecordProgress(table, destination)
        self._write(progress, error=storable(error), failed_at=utc_now())

    def forget(self, table: str, destination: str) -> None:
        """Forget how far a table was published: the next attempt begins with its history."""
        with self._database.begin() as connection:
            connection.execute(RECORD_PROGRESS.delete().where(_key(table, destination)))

    def _write(self, progress: RecordProgress, **changed: Any) -> RecordProgress:
        names = [column.name for column in RECORD_PROGRESS.columns]
        fields = {n: getattr(progress, n) for n in names if n not in ("table_name", "destination")}
        fields |= changed
        for name in ("published_at", "failed_at"):
            fields[name] = fields[name].replace(tzinfo=None) if fields[name] else None
        mine = _key(progress.table, progress.destination)
        row = {"table_name": progress.table, "destination": progress.destination, **fields}
        with self._database.begin() as connection:
            if connection.execute(sa.select(RECORD_PROGRESS.c.seq).where(mine)).first() is None:
                connection.execute(RECORD_PROGRESS.insert().values(row))
            else:
                connection.execute(RECORD_PROGRESS.update().where(mine).values(fields))
        return _progress(row)


def _key(table: str, destination: str) -> sa.ColumnElement[bool]:
    c = RECORD_PROGRESS.c
    return sa.and_(c.table_name == table, c.destination == destination)


def _progress(row: dict[str, Any]) -> RecordProgress:
    times = {
        name: row[name].replace(tzinfo=UTC) if row[name] else None
        for name in ("published_at", "failed_at")
    }
    fields: dict[str, Any] = {**row, **times}
    return RecordProgress(table=fields.pop("table_name"), **fields)
