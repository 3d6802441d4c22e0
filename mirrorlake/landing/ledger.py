"""Snapshots that landed: when each was seen, of which files it is, and what became of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import waits_for_server
from mirrorlake.ledger.tables import METADATA

SNAPSHOTS = sa.Table(
    "landed_snapshots",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("number", sa.BigInteger),
    sa.Column("fingerprint", sa.String(64), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("files", sa.Integer, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("rows_read", sa.BigInteger),
    sa.Column("bad", sa.BigInteger, nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("seen_at", sa.DateTime, nullable=False),
    sa.Column("changed_at", sa.DateTime, nullable=False),
    sa.Column("published_at", sa.DateTime),
    sa.Column("error", sa.Text),
)
LANDED_FILES = sa.Table(
    "landed_files",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("path", sa.Text, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("version", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False),
    sa.Column("rows_read", sa.BigInteger),
    sa.Column("bad", sa.BigInteger, nullable=False),
)

SnapshotState: TypeAlias = Literal[
    "arriving", "landed", "published", "refused", "skipped", "withdrawn"
]
"""``skipped``: somebody decided to leave it out. ``withdrawn``: it was published, and readers see
an older version again."""


@dataclass(frozen=True)
class FileRecord:
    """One file of a snapshot that landed; ``path`` is relative to the landing."""

    path: str
    bytes: int
    version: str
    digest: str
    rows: int | None = None
    bad: int = 0


@dataclass(frozen=True)
class SeenSnapshot:
    """What was seen of a snapshot in a landing: how many files, and a hash of what they are."""

    id: int
    fingerprint: str
    files: int
    bytes: int


@dataclass(frozen=True)
class SnapshotRecord:
    """One snapshot of one table.

    Attributes:
        id: as the path says it.
        number: the number that it is folded under: the id, or its column's; None before it landed.
        fingerprint: of its files as they were last seen.
        digest: over its files' digests, '' before it landed.
        attempts: how many runs began to take it.
        rows, bad: records in its files, and malformed ones that were left out; None and 0 where
            they were not counted.
        seen_at, changed_at: when its first file was seen, and when its files were last seen to
            change. Times are UTC.
    """

    table: str
    id: int
    state: SnapshotState
    number: int | None
    fingerprint: str
    digest: str
    files: int
    bytes: int
    rows: int | None
    bad: int
    attempts: int
    seen_at: datetime
    changed_at: datetime
    published_at: datetime | None
    error: str | None


@waits_for_server
class LandedSnapshots:
    """The snapshots in one ledger: one row per table and id in a path."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def snapshots(self, table: str) -> list[SnapshotRecord]:
        """Every snapshot of a table that was ever seen, by id."""
        query = SNAPSHOTS.select().where(SNAPSHOTS.c.table_name == table).order_by(SNAPSHOTS.c.id)
        with self._database.read() as connection:
            return [_record(dict(row)) for row in connection.execute(query).mappings()]

    def changed_since(self, moment: datetime) -> list[SnapshotRecord]:
        """Every table's snapshots that were published, or whose files changed, since a moment
        (UTC)."""
        plain = moment.astimezone(UTC).replace(tzinfo=None)
        at = sa.func.coalesce(SNAPSHOTS.c.published_at, SNAPSHOTS.c.changed_at)
        query = SNAPSHOTS.select().where(at >= plain).order_by(SNAPSHOTS.c.id)
        with self._database.read() as connection:
            return [_record(dict(row)) for row in connection.execute(query).mappings()]

    def snapshot(self, table: str, id: int) -> SnapshotRecord | None:
        """One snapshot, None where it was never seen."""
        with self._database.read() as connection:
            return _read(connection, table, id)

    def see_snapshots(self, table: str, seen: Sequence[SeenSnapshot]) -> dict[int, SnapshotRecord]:
        """Write that snapshots which have not landed were seen so; return what is known of each.

        One whose files are others than the last time counts as changed now; if it was refused it is
        arriving again. What has landed stays as it is.
        """
        with self._database.begin() as connection:
            now = self._database.now(connection)
            mine = SNAPSHOTS.c.table_name == table
            rows = connection.execute(SNAPSHOTS.select().where(mine)).mappings()
            known = {row["id"]: _record(dict(row)) for row in rows}
            fresh = [one for one in seen if one.id not in known]
            if fresh:
                same = {"table_name": table, "state": "arriving", "digest": "", "bad": 0}
                same |= {"attempts": 0, "seen_at": now, "changed_at": now}
                connection.execute(SNAPSHOTS.insert(), [{**vars(one), **same} for one in fresh])
            for one in seen:
                before = known.get(one.id)
                waits = before is not None and before.state in ("arriving", "refused")
                if before is not None and waits and before.fingerprint != one.fingerprint:
                    reset = {"state": "arriving", "changed_at": now, "error": None, "attempts": 0}
                    change = SNAPSHOTS.update().where(_is(table, one.id))
                    connection.execute(change.values(**vars(one), **reset))
            wanted = {one.id for one in seen}
            rows = connection.execute(SNAPSHOTS.select().where(mine)).mappings()
            return {row["id"]: _record(dict(row)) for row in rows if row["id"] in wanted}

    def begin_snapshot(self, table: str, id: int) -> None:
        """A run begins to take a snapshot."""
        with self._database.begin() as connection:
            change = SNAPSHOTS.update().where(_is(table, id))
            connection.execute(change.values(attempts=SNAPSHOTS.c.attempts + 1))

    def land_snapshot(
        self,
        table: str,
        id: int,
        number: int,
        digest: str,
        files: Sequence[FileRecord],
    ) -> SnapshotRecord:
        """Write a snapshot as landed, with its files, in place of what was written of it before; a
        published one stays published."""
        counted = [file.rows for file in files if file.rows is not None]
        with self._database.begin() as connection:
            known = _read(connection, table, id)
            state = "published" if known and known.state == "published" else "landed"
            connection.execute(
                SNAPSHOTS.update()
                .where(_is(table, id))
                .values(
                    state=state,
                    number=number,
                    digest=digest,
                    files=len(files),
                    bytes=sum(file.bytes for file in files),
                    rows_read=sum(counted) if len(counted) == len(files) else None,
                    bad=sum(file.bad for file in files),
                    error=None,
                )
            )
            mine = sa.and_(LANDED_FILES.c.table_name == table, LANDED_FILES.c.id == id)
            connection.execute(LANDED_FILES.delete().where(mine))
            rows = [
                {
                    "table_name": table,
                    "id": id,
                    "number": at,
                    "path": file.path,
                    "bytes": file.bytes,
                    "version": file.version,
                    "digest": file.digest,
                    "rows_read": file.rows,
                    "bad": file.bad,
                }
                for at, file in enumerate(files)
            ]
            if rows:
                connection.execute(LANDED_FILES.insert(), rows)
            return _known(connection, table, id)

    def landed_files(self, table: str, id: int) -> list[FileRecord]:
        """The files of a snapshot as they landed, in their order."""
        mine = sa.and_(LANDED_FILES.c.table_name == table, LANDED_FILES.c.id == id)
        query = LANDED_FILES.select().where(mine).order_by(LANDED_FILES.c.number)
        with self._database.read() as connection:
            return [
                FileRecord(row.path, row.bytes, row.version, row.digest, row.rows_read, row.bad)
                for row in connection.execute(query)
            ]

    def files_by_snapshot(self, table: str) -> dict[int, int]:
        """How many files each snapshot has, by id; none of those whose files were forgotten."""
        query = (
            sa.select(LANDED_FILES.c.id, sa.func.count())
            .where(LANDED_FILES.c.table_name == table)
            .group_by(LANDED_FILES.c.id)
        )
        with self._database.read() as connection:
            return {int(row[0]): int(row[1]) for row in connection.execute(query)}

    def forget_files(self, table: str, id: int) -> None:
        """Write that a snapshot's files left the landing; it stays published."""
        mine = sa.and_(LANDED_FILES.c.table_name == table, LANDED_FILES.c.id == id)
        with self._database.begin() as connection:
            connection.execute(LANDED_FILES.delete().where(mine))

    def refuse_snapshot(self, table: str, id: int, error: str, *, dismissed: bool = False) -> None:
        """Write that a snapshot can't be taken as it stands; one that was published, withdrawn or
        skipped stays so.

        ``dismissed``: its content itself can't be taken, so it is not the id's: another content may
        land under it.
        """
        final = ("published", "withdrawn", "skipped")
        mine = sa.and_(_is(table, id), SNAPSHOTS.c.state.not_in(final))
        with self._database.begin() as connection:
            change = SNAPSHOTS.update().where(mine)
            content = {"digest": ""} if dismissed else {}
            values = {"state": "refused", "error": error.replace("\0", "")}
            connection.execute(change.values(**values, **content))

    def publish_snapshots(self, table: str, ids: Iterable[int]) -> None:
        """Write snapshots as published, now; those that once were keep the time of the first."""
        with self._database.begin() as connection:
            now = self._database.now(connection)
            for one in ids:
                mine = sa.and_(_is(table, one), SNAPSHOTS.c.state != "published")
                change = SNAPSHOTS.update().where(mine)
                first = sa.func.coalesce(SNAPSHOTS.c.published_at, now)
                connection.execute(change.values(state="published", published_at=first, error=None))


def _is(table: str, id: int) -> sa.ColumnElement[bool]:
    return sa.and_(SNAPSHOTS.c.table_name == table, SNAPSHOTS.c.id == id)


def _read(connection: sa.Connection, table: str, id: int) -> SnapshotRecord | None:
    found = connection.execute(SNAPSHOTS.select().where(_is(table, id))).mappings().first()
    return None if found is None else _record(dict(found))


def _known(connection: sa.Connection, table: str, id: int) -> SnapshotRecord:
    found = _read(connection, table, id)
    if found is None:
        raise LedgerError(
            f"table {table}: snapshot {id} is not in the ledger",
            table=table,
            next_step="Look again: it was not seen, or the ledger was made again meanwhile",
        )
    return found


def _record(row: dict[str, Any]) -> SnapshotRecord:
    published = row["published_at"]
    return SnapshotRecord(
        table=row["table_name"],
        id=row["id"],
        state=row["state"],
        number=row["number"],
        fingerprint=row["fingerprint"],
        digest=row["digest"],
        files=row["files"],
        bytes=row["bytes"],
        rows=row["rows_read"],
        bad=row["bad"],
        attempts=row["attempts"],
        seen_at=row["seen_at"].replace(tzinfo=UTC),
        changed_at=row["changed_at"].replace(tzinfo=UTC),
        published_at=published.replace(tzinfo=UTC) if published else None,
        error=row["error"],
    )
