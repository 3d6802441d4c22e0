"""What is written, and read, of first days within a transaction of another part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Final

import sqlalchemy as sa

from mirrorlake.ledger.tables import FIRST_DAYS, LEASES, LOADS, RAW_FILES, WINDOWS

_FOLDER = "_mirror_day="
DAY_LENGTH: Final = len(_FOLDER) + len("2026-01-31")
"""How many characters of a file's name give its day."""
_JOINED = LOADS.join(WINDOWS, LOADS.c.load_id == WINDOWS.c.load_id)


def read_first_days(connection: sa.Connection) -> dict[str, date]:
    """The first raw day of each table, as it is recorded."""
    return {row.table_name: row.day for row in connection.execute(FIRST_DAYS.select())}


def find_first_days(connection: sa.Connection, *, files: bool) -> dict[str, date]:
    """The same of a ledger that has not recorded them: the earliest day of a recorded file, of
    where a first load began, or of the first load. Each is found at the end of an index.

    Args:
        files: whether the ledger has a table of files.
    """
    loads = (
        sa.select(LOADS.c.seq)
        .where(LOADS.c.table_name == LEASES.c.table_name, LOADS.c.state == "success")
        .order_by(LOADS.c.seq)
        .limit(1)
        .correlate(LEASES)
        .scalar_subquery()
    )
    query = (
        sa.select(LOADS.c.table_name, WINDOWS.c.kind, WINDOWS.c.lo, WINDOWS.c.day)
        .select_from(_JOINED)
        .where(LOADS.c.seq.in_(sa.select(loads).select_from(LEASES)))
    )
    found: dict[str, date] = {}
    for table, kind, lo, day in connection.execute(query):
        found[table] = min(d for d in (day, lower_day(kind, lo)) if d is not None)
    for table, name in _earliest_files(connection) if files else ():
        if (day := day_of_file(name)) is not None:
            found[table] = min(day, found.get(table, day))
    return found


def record_first_days(connection: sa.Connection, days: Mapping[str, date]) -> None:
    """Write first days down where none is recorded."""
    known = read_first_days(connection)
    rows = [{"table_name": t, "day": d} for t, d in days.items() if t not in known]
    if rows:
        connection.execute(FIRST_DAYS.insert(), rows)


def _earliest_files(connection: sa.Connection) -> Sequence[tuple[str, str | None]]:
    """Their names begin with their day, so the first name is the earliest."""
    name = (
        sa.select(RAW_FILES.c.name)
        .where(
            RAW_FILES.c.table_name == LEASES.c.table_name,
            RAW_FILES.c.name.startswith(_FOLDER, autoescape=True),
        )
        .order_by(RAW_FILES.c.name)
        .limit(1)
        .correlate(LEASES)
        .scalar_subquery()
    )
    rows = connection.execute(sa.select(LEASES.c.table_name, name)).all()
    return [(str(table), found) for table, found in rows]


def lower_first_day(connection: sa.Connection, table: str, day: date) -> None:
    mine = FIRST_DAYS.c.table_name == table
    known = connection.scalar(sa.select(FIRST_DAYS.c.day).where(mine))
    if known is None:
        connection.execute(FIRST_DAYS.insert().values(table_name=table, day=day))
    elif day < known:
        connection.execute(FIRST_DAYS.update().where(mine).values(day=day))


def lower_day(kind: str, lo: str | None) -> date | None:
    """Where a first load began, if that is a time."""
    if kind != "initial" or lo is None or "-" not in lo[1:]:
        return None
    return datetime.fromisoformat(lo).date()


def day_of_file(name: str | None) -> date | None:
    """The day of a file, by the folder that it is in.

    >>> day_of_file("_mirror_day=2026-01-31/one.parquet"), day_of_file("one.parquet")
    (datetime.date(2026, 1, 31), None)
    """
    if name is None or not name.startswith(_FOLDER):
        return None
    try:
        return date.fromisoformat(name[len(_FOLDER) : DAY_LENGTH])
    except ValueError:
        return None
