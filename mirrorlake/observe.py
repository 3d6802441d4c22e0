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
from pyiceberg.table import Table

from mirrorlake.config import TableContract
from mirrorlake.errors import LakeError
from mirrorlake.lake.catalog import Identifier, Lake
from mirrorlake.lake.stream import read_batches
from mirrorlake.lake.tables import DAY, ORIGINAL
from mirrorlake.ledger import Ledger
from mirrorlake.repeats import count_repeats

pc: Any = _compute  # its functions are made at import: type checkers see none of them
_TIMES = ("datetime", "timestamp", "date")


def deduped_of(contract: TableContract) -> Identifier:
    """The lake table with one row per key."""
    return Identifier(contract.namespaces.deduped, contract.table)


def clean_of(contract: TableContract) -> Identifier:
    """What people query."""
    return Identifier(contract.namespaces.clean, contract.table)


def raw_tables(lake: Lake, ledger: Ledger, contract: TableContract) -> list[Table]:
    """The raw tables of all schema versions that exist, oldest first."""
    names = dict.fromkeys(v.raw_table for v in ledger.schema_versions(contract.name))
    found = (lake.load(Identifier(contract.namespaces.raw, name)) for name in names)
    return [table for table in found if table is not None]


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


def deduped_table(lake: Lake, contract: TableContract) -> Table:
    """Deduped, as the catalog has it now.

    Raises:
        LakeError: it is not there, or can't be read.
    """
    table = lake.load(deduped_of(contract))
    if table is None:
        raise LakeError(
            f"deduped table {deduped_of(contract)} is not there",
            table=contract.name,
            next_step="Materialise the table's chain first",
        )
    return table


def _names(table: Table, columns: tuple[str, ...]) -> tuple[str, ...]:
    """The columns as the lake spells them: MySQL's names are one in any case."""
    spelled = {field.name.casefold(): field.name for field in table.schema().fields}
    return tuple(spelled.get(c.casefold(), c) for c in columns)
