"""Observing the lake: what its tables hold, without Spark, and how that compares with a count in
MySQL.

Everything here reads committed tables through PyIceberg. A difference is a value; a failure to
look is an exception.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
    Or,
)
from pyiceberg.table import Table
from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.errors import LakeError
from mirrorlake.lake.catalog import Identifier, Lake
from mirrorlake.lake.stream import read_batches
from mirrorlake.lake.tables import DAY, ORIGINAL
from mirrorlake.ledger import Ledger, Load
from mirrorlake.mysql.connect import quote, rows_of
from mirrorlake.plan import TablePlan
from mirrorlake.repeats import count_repeats
from mirrorlake.windows import time_bound

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


@dataclass(frozen=True)
class Tally:
    """Rows of one table older than a bound, counted on both sides.

    Attributes:
        bound: what "older" means, in words.
        source: rows in MySQL now.
        mirror: rows in deduped.
        updated: rows of ``mirror`` that MySQL still has, changed since the load: they left the
        range.
    """

    bound: str
    source: int
    mirror: int
    updated: int

    @property
    def lost(self) -> int:
        """Rows that MySQL has and the mirror lacks."""
        return max(0, self.source + self.updated - self.mirror)

    @property
    def surplus(self) -> int:
        """Rows that the mirror has and MySQL no longer."""
        return max(0, self.mirror - self.updated - self.source)


def tally_full(lake: Lake, contract: TableContract, load: Load) -> Tally:
    """The rows that the newest copy read, against deduped."""
    rows = load.receipt.rows if load.receipt else 0
    table = deduped_table(lake, contract)
    return Tally("the newest copy", rows, _count(lake, table, AlwaysTrue()), 0)


def tally_rows(
    connection: Connection[Any], plan: TablePlan, lake: Lake, load: Load
) -> Tally | None:
    """Count the rows that were older than settle when ``load`` read, in MySQL and in deduped.

    Rows that were updated since have left MySQL's range; their keys are looked up in the mirror's,
    so that they aren't taken for lost ones. None while there is no range to compare.

    Raises:
        SourceError: MySQL could not be asked.
        LakeError: deduped is not there, or can't be read.
    """
    bounds = _bounds(plan, load)
    if bounds is None or plan.cursor is None:
        return None
    old, changed, value, first = bounds
    where = f"FROM {quote(plan.table.database)}.{quote(plan.table.name)} WHERE"
    table = deduped_table(lake, plan.contract)
    cursor = plan.cursor.name
    # A cursor without a place in its typed column is a zero date: NULL in the lake, first in MySQL.
    older = LessThan(cursor, value)  # pyright: ignore[reportCallIssue]
    below: BooleanExpression = Or(older, IsNull(cursor))  # pyright: ignore[reportCallIssue]
    if first is not None:
        below = And(GreaterThanOrEqual(cursor, first), older)  # pyright: ignore[reportCallIssue]
    (source,) = rows_of(connection, f"SELECT COUNT(*) {where} {old}")[0]
    mirror = _count(lake, table, below)
    updated = 0
    if changed and mirror != source and plan.key:
        keys = ", ".join(quote(k) for k in plan.key)
        moved = {_plain(r) for r in rows_of(connection, f"SELECT {keys} {where} {changed}")}
        with lake.translated(plan.name):
            scanned = table.scan(row_filter=below, selected_fields=plan.key).to_arrow()
        columns = [scanned.column(k).to_pylist() for k in plan.key]
        updated = sum(_plain(row) in moved for row in zip(*columns, strict=True))
    return Tally(f"{cursor} < {value}", int(source), mirror, updated)


def _bounds(plan: TablePlan, load: Load) -> tuple[str, str, Any, Any] | None:
    """SQL of the old rows, SQL of the rows past them, and the range's ends as the lake takes
    them."""
    cursor, receipt = plan.cursor, load.receipt
    if cursor is None or receipt is None or receipt.hi is None:
        return None
    name = quote(cursor.name)
    if cursor.data_type not in _TIMES:
        high = int(receipt.hi) - plan.contract.overlap_keys
        return f"{name} < {high}", "", high, None
    at = datetime.fromisoformat(receipt.moment) - plan.contract.settle
    # A day after the start: there the zone of the cursor can't decide what was asked.
    start = plan.contract.start + timedelta(days=1) if plan.contract.start else None
    if cursor.data_type == "timestamp":
        zone = plan.source.zone
        old, changed = time_bound(cursor, at, zone, "<"), time_bound(cursor, at, zone)
        value: Any = at.replace(tzinfo=UTC).isoformat()
    else:
        # An hour below the wall clock, whichever way the zone turns: only the margin grows.
        wall = at.replace(tzinfo=UTC).astimezone(plan.source.zone).replace(tzinfo=None)
        wall -= timedelta(hours=1)
        text = wall.date().isoformat() if cursor.data_type == "date" else wall.isoformat(sep=" ")
        old, changed = f"{name} < '{text}'", f"{name} >= '{text}'"
        value = text.replace(" ", "T")
    if start is None:
        return old, changed, value, None
    zone_text = "+00:00" if cursor.data_type == "timestamp" else ""
    first = start.isoformat() if cursor.data_type == "date" else f"{start}T00:00:00{zone_text}"
    return f"({old}) AND {name} >= '{start}'", changed, value, first


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key without time zones: MySQL's sessions are in UTC and say none."""
    return tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row)


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


def _count(lake: Lake, table: Table, condition: BooleanExpression) -> int:
    with lake.translated(table.name()):
        return table.scan(row_filter=condition).count()
