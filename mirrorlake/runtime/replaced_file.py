"""A SQLite file whose place another one took: a restored catalog, a copy that was put back.

A connection that keeps the old file open reads and writes what nobody else sees, so each one that a
pool gives out is compared with the file that is there now.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.exc import DisconnectionError, OperationalError

FileMark = tuple[int, int]
_KEY = "mirrorlake_file"


def file_of(url: sa.URL) -> Path | None:
    """The file of a SQLite database; None where it is in memory, or a server's."""
    name = url.database
    if url.get_backend_name() != "sqlite" or not name or name.startswith((":", "file:")):
        return None
    return Path(name)


def mark_of(path: Path) -> FileMark | None:
    """What tells a file from another one in its place; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def reopen_replaced(engine: sa.Engine) -> sa.Engine:
    """The engine, whose connections to a SQLite file are opened again once another file has its
    place. Where none has, that is an error: opening would make an empty one."""
    path = file_of(engine.url)
    if path is None:
        return engine

    @event.listens_for(engine, "connect")
    def _mark(_: Any, record: Any) -> None:
        record.info[_KEY] = mark_of(path)

    @event.listens_for(engine, "checkout")
    def _compare(_: Any, record: Any, __: Any) -> None:
        now = mark_of(path)
        if now is None:
            gone = sqlite3.OperationalError(f"the file {path} is not there any more")
            raise OperationalError("connect", None, gone)
        if record.info.get(_KEY) != now:
            raise DisconnectionError(f"another file has the place of {path}")

    return engine
