"""How many row versions a raw table has of each hour: raw is laid out by days, so the column that
gives a row's hour is read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
from pyiceberg.table import Table
from pyiceberg.types import TimestampType, TimestamptzType

from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.metadata.conditions import raw_days
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.schema.own_columns import DAY

pc: Any = _compute  # its functions are made at import: type checkers see none of them


def rows_by_hour(
    lake: Connection, table: Table, columns: Sequence[str], first: date, last: date
) -> Counter[datetime]:
    """The row versions of these raw days, both included, by the beginning of their hour (without a
    zone, in the calendar of raw's days). Hours without any are absent.

    A row whose column gives no hour of its own raw day (NULL, or a zero date) is its day's first
    hour's, so that a day's hours have together what the day has.

    Args:
        columns: the first of them that is a time in the table has the raw day as its date. Where
            none is, every row is its day's first hour's.

    Raises:
        LakeError: the table can't be read.
    """
    found: Counter[datetime] = Counter()
    if table.current_snapshot() is None:
        return found
    times = {
        field.name.casefold(): field.name
        for field in table.schema().fields
        if isinstance(field.field_type, TimestampType | TimestamptzType)
    }
    of_rows = [times[name.casefold()] for name in columns if name.casefold() in times][:1]
    for batch in read_batches(lake, table, (DAY, *of_rows), days=raw_days(first, last)):
        hours = _hours(batch.column(DAY), batch.column(of_rows[0]) if of_rows else None)
        for one in pc.value_counts(hours).to_pylist():
            found[one["values"]] += one["counts"]
    # Files hold one raw day each; a condition on days leaves out whole files.
    return Counter({h: n for h, n in found.items() if first <= h.date() <= last})


def _hours(days: Any, moments: Any) -> Any:
    """The hour of each row: of its column where that is of its day, else the day's first."""
    wall = pa.timestamp("us")
    midnights = days.cast(wall)
    if moments is None:
        return midnights
    hours = pc.floor_temporal(moments.cast(wall), unit="hour")  # an instant: its clock in UTC
    same = pc.equal(hours.cast(pa.date32(), safe=False), days)
    return pc.if_else(pc.fill_null(same, False), hours, midnights)
