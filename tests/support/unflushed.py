"""Writes that are not waited for: what tests write need not outlive the machine.

No test cuts its power, and one that kills a process finds what that wrote. A flush takes 3 to 12 ms, a
commit to the lake makes some ten, and Dagster's SQLite one for each event: a third of the suite waited.
"""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import sqlalchemy as sa

JAVA = "-Dspark.sql.catalog.lake.jdbc.synchronous=OFF"
"""The same of the lake's catalog, as Spark opens it."""


MARK = "TESTS_UNFLUSHED"


def write_unflushed() -> None:
    """For the rest of this process's life, and of those that look for `MARK` in its environment."""
    os.environ[MARK] = "yes"
    os.fsync = lambda fd: None
    sa.event.listens_for(sa.Engine, "connect")(_no_flush)


def _no_flush(connection: Any, _: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
