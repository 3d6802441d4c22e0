"""The first day of a table's rows, as far as one look at the beginning of an index shows it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config.partitions import EARLIEST
from mirrorlake.init.suggest_tables import SuggestedTable
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import SourceTable, quote
from mirrorlake.sources.mysql.types.registry import TIMES

_ENTRIES: Final = 100
"""So many entries of the index are looked at for a day that is on the calendar."""


def read_first_day(
    connection: Connection[Any], table: SourceTable, suggested: SuggestedTable
) -> date | None:
    """The earliest day (of TIMESTAMPs in UTC, else as written) that rows of a table have by the
    column that gives their raw day, from 1970 on.

    None where no column gives it, none of its indexes begins with that column (the whole table
    would have to be read), there are no such rows, the first hundred have days that are on no
    calendar, or all of them are of the future.

    Raises:
        SourceError: the server can't read the table.
    """
    name = _day_column(table, suggested)
    if name is None or not table.led_by(name):
        return None
    column = quote(name)
    # No MIN: MariaDB answers it with a TIMESTAMP's zero date, which lies below the bound.
    sql = (
        f"SELECT CAST(DATE({column}) AS CHAR) FROM {quote(table.database)}.{quote(table.name)} "  # noqa: S608
        f"WHERE {column} >= '{EARLIEST}' ORDER BY {column} LIMIT {_ENTRIES}"
    )
    real = (day for (text,) in rows_of(connection, sql) if (day := _day_of(text)) is not None)
    first = next(real, None)
    return None if first is None or first > datetime.now(UTC).date() else first


def _day_of(text: object) -> date | None:
    """A day as the server prints it; None of what is on no calendar: ``2020-00-10``."""
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        return None


def _day_column(table: SourceTable, suggested: SuggestedTable) -> str | None:
    for name in (suggested.cursor, suggested.created):
        if name is not None and table.column(name).data_type in TIMES:
            return name
    return None
