"""Observing the lake: what its tables hold, without Spark, and how that compares with a count in
MySQL.

Everything here reads committed tables through PyIceberg. A difference is a value; a failure to
look is an exception.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.repeats import count_repeats
from mirrorlake.schema.own_columns import DAY, ORIGINAL
from mirrorlake.table.lake_tables import deduped_table, raw_tables

pc: Any = _compute  # its functions are made at import: type checkers see none of them


def raw_days(lake: Lake, ledger: Ledger, contract: TableContract) -> dict[date, int]:
    """Row versions per raw day, from the tables' metadata alone; days without any are absent."""
    days: Counter[date] = Counter()
    for table in raw_tables(lake, ledger, contract):
        if table.current_snapshot() is None:
            continue  # nothing was ever loaded: the source table is empty
        with lake.translated(contract.name):
            for row in table.inspect.partitions().to_pylist():
                days[row["partition"][DAY]] += int(row["record_count"])
    return dict(days)


def duplicate_keys(lake: Lake, contract: TableContract) -> int:
    """How many rows of deduped repeat the key of another. Reads the key's columns, nothing else.

    Raises:
        LakeError: the table is not there, or can't be read.
    """
    table = deduped_table(lake, contract)
    key = _names(table, contract.key)
    if ORIGINAL not in {field.name for field in table.schema().fields}:
        return count_repeats(lambda: read_batches(lake, table, key))
    return count_repeats(
        lambda: (_with_originals(b, key) for b in read_batches(lake, table, (*key, ORIGINAL)))
    )


def _with_originals(batch: pa.RecordBatch, key: tuple[str, ...]) -> pa.RecordBatch:
    """The key's columns, and in one text the originals of its parts: keys whose values have no
    place in their type (zero dates) share NULL, and only these tell them apart."""
    entries = batch.column(ORIGINAL)
    kept: list[str | None] = [None] * batch.num_rows
    some = pc.fill_null(pc.greater(pc.list_value_length(entries), 0), False)
    for row in pc.indices_nonzero(some).to_pylist():
        of_key = [(e["column"], e["text"]) for e in entries[row].as_py() if e["column"] in key]
        kept[row] = repr(sorted(of_key)) if of_key else None
    columns = [*(batch.column(name) for name in key), pa.array(kept, pa.large_string())]
    return pa.RecordBatch.from_arrays(columns, names=[*key, ORIGINAL])


def _names(table: LakeTable, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns as the lake spells them: MySQL's names are one in any case."""
    spelled = {field.name.lower(): field.name for field in table.schema().fields}
    return tuple(spelled.get(c.lower(), c) for c in columns)
