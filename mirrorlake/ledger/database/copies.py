"""The whole ledger as one SQLite file, and back into any database: what a backup holds of it.

SQLite is copied by its own backup. A server's ledger is read in one transaction that sees one
state: no tool of the server's own is needed, and a ledger can move from one kind of database to
another. Leases are not copied: the runs that hold them do not write to the copy.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import sqlalchemy as sa

from mirrorlake.errors import LedgerError
from mirrorlake.ledger.database.database import Database, utc_now
from mirrorlake.ledger.tables import LEASES, METADATA

_AT_ONCE = 1_000


def copy_ledger(url: str, wait: timedelta, to: Path) -> None:
    """Write the ledger, as it is at one moment, into a new SQLite file.

    Raises:
        LedgerError: it can't be read.
    """
    to.parent.mkdir(parents=True, exist_ok=True)
    to.unlink(missing_ok=True)
    read = sa.make_url(url)
    if read.get_backend_name() == "sqlite":
        _copy_sqlite(read, wait, to)
    else:
        _copy_rows(Database(url, wait), Database(f"sqlite:///{to}", wait))
    copied = Database(f"sqlite:///{to}", wait)
    with copied.begin() as connection:
        connection.execute(LEASES.update().values(owner="", expires_at=utc_now()))


def restore_rows(file: Path, url: str, wait: timedelta) -> None:
    """Write the rows of a copied ledger into the empty one that a URL names: all, or none.

    Raises:
        LedgerError: it can't be written.
    """
    _copy_rows(Database(f"sqlite:///{file}", wait), Database(url, wait))


def _copy_sqlite(url: sa.URL, wait: timedelta, to: Path) -> None:
    path = Path(str(url.database))
    if not path.is_file():
        raise LedgerError(
            f"there is no ledger at {path}",
            next_step="Set ledger.url to it; a new project has nothing to back up",
        )
    try:
        with (
            closing(sqlite3.connect(path, timeout=wait.total_seconds())) as source,
            closing(sqlite3.connect(to)) as target,
        ):
            # All of it in one step: writers wait for the time that a copy takes.
            source.backup(target)
    except sqlite3.Error as error:
        raise LedgerError(
            f"the ledger {path} can't be copied: {error}",
            next_step="See that no other program holds it, and that the disk has room",
            retryable=True,
        ) from error


def _copy_rows(source: Database, target: Database) -> None:
    with source.read() as read, target.begin() as write:
        for table in METADATA.sorted_tables:
            write.execute(sa.delete(table))
            rows = read.execution_options(stream_results=True).execute(sa.select(table))
            for some in rows.mappings().partitions(_AT_ONCE):
                write.execute(sa.insert(table), [dict(row) for row in some])
        for table in METADATA.sorted_tables:
            counted = table.autoincrement_column
            if counted is not None and isinstance(counted.type, sa.Integer):
                target.count_on(write, counted)
