"""A glance at a ledger that need not be there: nothing is made, migrated or waited for.

What a code location reads while it loads. Whatever goes wrong, it loads.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from mirrorlake.config import TableContract
from mirrorlake.config.database_url import with_driver
from mirrorlake.config.partitions import first_day_of
from mirrorlake.ledger.database.servers import begins_with, kind_of, words_of
from mirrorlake.ledger.database.settled_rows import find_first_days, read_first_days
from mirrorlake.ledger.tables import FIRST_DAYS, LOADS, RAW_FILES, VIEWS
from mirrorlake.runtime.database_waits import bound_waits

logger = logging.getLogger(__name__)
_FAILED: Final = (SQLAlchemyError, sqlite3.Error, OSError, ImportError)


def first_days(
    ledger_url: str, contracts: Iterable[TableContract], limit_seconds: float
) -> dict[str, date]:
    """The day on which each table's partitions begin, by its name; a table for which neither its
    contract nor the ledger gives one is absent.

    Never raises for a ledger: what can't be read within about ``limit_seconds`` is left out with a
    warning. One query for all tables; none where the contracts give all.
    """
    chosen = list(contracts)
    known: dict[str, date] = {}
    if any(first_day_of(contract, None) is None for contract in chosen):
        try:
            known = _read(sa.make_url(ledger_url), limit_seconds)
        except _FAILED as error:
            words = words_of(error) if isinstance(error, DBAPIError) else str(error)
            logger.warning("the tables' first days are not known: the ledger: %s", words)
    days = {c.name: first_day_of(c, known.get(c.name)) for c in chosen}
    return {name: day for name, day in days.items() if day is not None}


def definitions_now(ledger_url: str, prefix: str, limit_seconds: float) -> dict[str, str]:
    """Every definition whose name begins so, by the rest of its name; none where the ledger can't
    be read within about ``limit_seconds``, with a warning."""
    try:
        engine = _engine(sa.make_url(ledger_url), limit_seconds)
        if engine is None:
            return {}
        try:
            with engine.connect() as connection:
                if VIEWS.name not in sa.inspect(connection).get_table_names():
                    return {}
                begins = begins_with(connection, VIEWS.c.view_name, prefix)
                rows = connection.execute(VIEWS.select().where(begins)).all()
        finally:
            engine.dispose()
    except _FAILED as error:
        words = words_of(error) if isinstance(error, DBAPIError) else str(error)
        logger.warning("the sources' columns are not known: the ledger: %s", words)
        return {}
    return {row.view_name.removeprefix(prefix): row.definition for row in rows}


def _read(url: sa.URL, limit: float) -> dict[str, date]:
    engine = _engine(url, limit)
    if engine is None:
        return {}
    try:
        with engine.connect() as connection:
            names = set(sa.inspect(connection).get_table_names())
            if FIRST_DAYS.name in names:
                return read_first_days(connection)
            if LOADS.name not in names:
                return {}
            # Of an older release, which the next run migrates.
            return find_first_days(connection, files=RAW_FILES.name in names)
    finally:
        engine.dispose()


def _engine(url: sa.URL, limit: float) -> sa.Engine | None:
    """None where the ledger is a file that is not there."""
    read = with_driver(url.render_as_string(hide_password=False))
    kind, seconds = kind_of(read), max(1, math.ceil(limit))
    if kind == "sqlite":
        path = read.database
        if not path or path == ":memory:" or not Path(path).exists():
            return None

        def connect() -> Any:
            place = f"file:{quote(str(Path(path).absolute()))}?mode=ro"
            return sqlite3.connect(place, uri=True, timeout=limit, check_same_thread=False)

        with closing(connect()):
            pass
        return sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)
    arguments: dict[str, Any] = {"connect_timeout": seconds}
    if kind == "mysql":
        arguments |= {"charset": "utf8mb4", "password": (read.password or "").encode()}
        arguments |= {"read_timeout": seconds, "write_timeout": seconds}
    else:
        arguments["options"] = f"-c statement_timeout={int(limit * 1000)}"
    return bound_waits(sa.create_engine(read, connect_args=arguments, poolclass=NullPool), seconds)
