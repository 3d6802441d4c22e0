"""Counting values that keep their original text beside them, by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
from pyiceberg.table import Table

from mirrorlake.destinations.base import EVERY_ROW
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.metadata.conditions import raw_days
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.schema.own_columns import DAY, ORIGINAL

pc: Any = _compute  # its functions are made at import: type checkers see none of them


def count_originals(entries: Any) -> dict[str, int]:
    """How many entries each column has in a column of originals; NULL and [] are none."""
    counted = pc.value_counts(_columns(entries)).to_pylist()
    return {one["values"]: one["counts"] for one in counted}


def originals_by_day(
    lake: Connection, table: Table, first: date | None, last: date | None
) -> Mapping[date, Counter[str]]:
    """The values of a raw table's row versions that keep an original, by raw day and column.

    Reads the originals of these days, both included (None: without a bound), and nothing else. Days
    without any are absent.

    Raises:
        LakeError: the table can't be read.
    """
    found: dict[date, Counter[str]] = {}
    there = {field.name for field in table.schema().fields}
    if ORIGINAL not in there or table.current_snapshot() is None:
        return found
    days = EVERY_ROW if first is None or last is None else raw_days(first, last)
    for batch in read_batches(lake, table, (DAY, ORIGINAL), days=days):
        entries = batch.column(ORIGINAL)
        rows = pa.table(
            {
                "day": batch.column(DAY).take(pc.list_parent_indices(entries)),
                "column": _columns(entries),
            }
        )
        counted = rows.group_by(["day", "column"]).aggregate([([], "count_all")])
        for row in counted.to_pylist():
            found.setdefault(row["day"], Counter())[row["column"]] += row["count_all"]
    return found


def _columns(entries: Any) -> Any:
    return pc.struct_field(pc.list_flatten(entries), "column")
