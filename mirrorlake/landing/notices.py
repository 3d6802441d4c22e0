"""What people have to know, and decided, about snapshots that landed.

A *notice* says that something is wrong with a snapshot: it was refused, or its files changed after
it was published. It is reported once and stays open until somebody acknowledges it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from mirrorlake.landing.ledger import LANDED_FILES, SNAPSHOTS
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import waits_for_server
from mirrorlake.ledger.tables import METADATA

SNAPSHOT_NOTICES = sa.Table(
    "snapshot_notices",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("about", sa.String(64), nullable=False),
    sa.Column("text", sa.Text, nullable=False),
    sa.Column("reported_at", sa.DateTime),
    sa.Column("acknowledged_at", sa.DateTime),
)


@dataclass(frozen=True)
class Notice:
    """What is wrong with one snapshot.

    Attributes:
        about: a hash of the files that it is about; other files make it another notice.
        reported_at, acknowledged_at: UTC; None: not yet.
    """

    id: int
    about: str
    text: str
    reported_at: datetime | None
    acknowledged_at: datetime | None


@waits_for_server
class SnapshotNotices:
    """Notices and decisions about the snapshots in one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def notices(self, table: str) -> dict[int, Notice]:
        """A table's notices by the snapshot's id, acknowledged ones too."""
        mine = SNAPSHOT_NOTICES.c.table_name == table
        query = SNAPSHOT_NOTICES.select().where(mine).order_by(SNAPSHOT_NOTICES.c.id)
        with self._database.read() as connection:
            return {row.id: _notice(row) for row in connection.execute(query)}

    def notice_snapshots(self, table: str, found: Mapping[int, tuple[str, str]]) -> None:
        """Record (about, text) of snapshots; what is known about the same files stays as it is."""
        known = self.notices(table)
        new = {i: one for i, one in found.items() if i not in known or known[i].about != one[0]}
        if not new:
            return
        rows = [
            {"table_name": table, "id": i, "about": about, "text": text.replace("\0", "")}
            for i, (about, text) in new.items()
        ]
        with self._database.begin() as connection:
            connection.execute(SNAPSHOT_NOTICES.delete().where(_notices(table, new)))
            connection.execute(SNAPSHOT_NOTICES.insert(), rows)

    def drop_notices(self, table: str, ids: Collection[int]) -> None:
        """Forget notices that are not true any more."""
        if ids:
            with self._database.begin() as connection:
                connection.execute(SNAPSHOT_NOTICES.delete().where(_notices(table, ids)))

    def report_notices(self, table: str) -> list[Notice]:
        """The notices that nobody was shown yet; from now on they count as reported."""
        new = [n for n in self.notices(table).values() if not (n.reported_at or n.acknowledged_at)]
        if new:
            with self._database.begin() as connection:
                mine = _notices(table, [one.id for one in new])
                now = self._database.now(connection)
                connection.execute(SNAPSHOT_NOTICES.update().where(mine).values(reported_at=now))
        return new

    def acknowledge_notice(self, table: str, id: int) -> bool:
        """Record that somebody knows of a snapshot's notice; whether there was an open one."""
        mine = sa.and_(_notices(table, [id]), SNAPSHOT_NOTICES.c.acknowledged_at.is_(None))
        with self._database.begin() as connection:
            now = self._database.now(connection)
            change = SNAPSHOT_NOTICES.update().where(mine).values(acknowledged_at=now)
            return connection.execute(change).rowcount > 0

    def skip_snapshot(self, table: str, id: int) -> bool:
        """Leave a snapshot out for good; False where it is unknown or published."""
        mine = sa.and_(_snapshots(table, [id]), SNAPSHOTS.c.state != "published")
        with self._database.begin() as connection:
            change = SNAPSHOTS.update().where(mine).values(state="skipped")
            return connection.execute(change).rowcount > 0

    def withdraw_snapshots(self, table: str, ids: Collection[int]) -> None:
        """Record that readers don't see these published snapshots any more."""
        self._move(table, ids, "published", "withdrawn")

    def restore_snapshots(self, table: str, ids: Collection[int]) -> None:
        """Record that readers see these withdrawn snapshots again."""
        self._move(table, ids, "withdrawn", "published")

    def _move(self, table: str, ids: Collection[int], old: str, new: str) -> None:
        if ids:
            mine = sa.and_(_snapshots(table, ids), SNAPSHOTS.c.state == old)
            with self._database.begin() as connection:
                connection.execute(SNAPSHOTS.update().where(mine).values(state=new))

    def forget_snapshots(self, table: str, ids: Collection[int]) -> None:
        """Forget snapshots whose files went away before anything of them was taken."""
        if ids:
            untaken = sa.and_(
                SNAPSHOTS.c.state.in_(("arriving", "refused")), SNAPSHOTS.c.digest == ""
            )
            with self._database.begin() as connection:
                connection.execute(SNAPSHOTS.delete().where(_snapshots(table, ids), untaken))
                connection.execute(SNAPSHOT_NOTICES.delete().where(_notices(table, ids)))

    def refresh_files(
        self, table: str, id: int, fingerprint: str, versions: Mapping[str, str]
    ) -> None:
        """Record the new versions, by path, of files that were copied again with the same
        content."""
        with self._database.begin() as connection:
            change = SNAPSHOTS.update().where(_snapshots(table, [id]))
            connection.execute(change.values(fingerprint=fingerprint))
            mine = sa.and_(LANDED_FILES.c.table_name == table, LANDED_FILES.c.id == id)
            for path, version in versions.items():
                files = LANDED_FILES.update().where(mine, LANDED_FILES.c.path == path)
                connection.execute(files.values(version=version))


def _notices(table: str, ids: Iterable[int]) -> sa.ColumnElement[bool]:
    return sa.and_(SNAPSHOT_NOTICES.c.table_name == table, SNAPSHOT_NOTICES.c.id.in_(list(ids)))


def _snapshots(table: str, ids: Iterable[int]) -> sa.ColumnElement[bool]:
    return sa.and_(SNAPSHOTS.c.table_name == table, SNAPSHOTS.c.id.in_(list(ids)))


def _notice(row: Any) -> Notice:
    return Notice(row.id, row.about, row.text, _utc(row.reported_at), _utc(row.acknowledged_at))


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.replace(tzinfo=UTC)
