"""Rows counted on both sides, per day and in all: cheap, and no proof, since a row too few and one
too many of a day cancel out.

The lake's rows are counted without Spark, one data file in memory at a time. Only where MySQL has
moved rows on whose keys are no single whole number, Spark is asked to leave these out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.damage import damage_told
from mirrorlake.errors import ProofError
from mirrorlake.lake.catalog import as_sql_identifier
from mirrorlake.lake.stream import read_batches
from mirrorlake.mysql.connect import quote, rows_of, session
from mirrorlake.mysql.introspect import Column
from mirrorlake.mysql.limits import reading
from mirrorlake.proof.compare import leaving_out
from mirrorlake.proof.forms import DELETED_AT
from mirrorlake.proof.local import settled
from mirrorlake.proof.mirror import LakeSide
from mirrorlake.proof.ranges import INTEGERS
from mirrorlake.proof.report import Verdict
from mirrorlake.proof.scope import NONE, TIMES, both
from mirrorlake.proof.source import Key, SourceSide, one_state, text_of
from mirrorlake.proof.target import Proving, Target, read_mirror, resolve_target
from mirrorlake.spark import spark_errors

pc: Any = _compute  # its functions are made at import: type checkers see none of them
NO_DAY = "none"
"""The day of rows that have none: a zero date, or a table without a column that tells it."""
Days = Mapping[str, tuple[int, int]]
"""By day, rows in MySQL and rows in the lake."""


@dataclass(frozen=True)
class Counts:
    """Rows older than settle, by the day of their cursor (or of ``created``), on both sides.

    Attributes:
        compared: which rows, as a condition. Of a full copy: those that it read, whatever MySQL
            holds by now.
        verdict: different where a day's rows differ; rows that MySQL deleted are no difference
            where the contract ignores them.
        source_rows, lake_rows: in all.
        lost: rows that days of MySQL have more than the lake's.
        surplus: rows that days of the lake have more than MySQL's: deleted there, or moved.
        waiting: rows that MySQL changed too lately to be counted.
        days: of days that differ.
        counted: of every day.
    """

    table: str
    compared: str
    verdict: Verdict
    source_rows: int
    lake_rows: int
    lost: int
    surplus: int
    waiting: int
    days: Days
    counted: Days


def count_rows(proving: Proving, contract: TableContract) -> Counts:
    """Count both sides.

    With N the keys that MySQL holds at or past the bound, the rows that MySQL has before it are
    counted, and the rows before it in the lake whose key is not in N: an update that moves a row
    to another day is no loss.

    Raises:
        MirrorlakeError: see `resolve_target`, and what either side may raise.
    """
    with damage_told(proving.lake, proving.ledger, contract):
        return _count_rows(proving, contract)


def _count_rows(proving: Proving, contract: TableContract) -> Counts:
    if contract.mode == "full":
        return _count_copy(proving, contract)
    source = proving.config.sources[contract.source]
    with session(source, contract.database) as connection:
        target = resolve_target(proving, contract, connection)
        if target.scope == NONE:
            return _counts(contract, NONE.words, {}, {}, 0)
        ours, newer = _count_source(connection, target)
    theirs = _count_lake(proving, target, ())
    if newer and theirs != ours:
        theirs = _count_without(proving, target, newer)
    return _counts(contract, target.scope.words, ours, theirs, len(newer))


def _counts(
    contract: TableContract,
    compared: str,
    ours: Mapping[str, int],
    theirs: Mapping[str, int],
    waiting: int,
) -> Counts:
    days = {day: (ours.get(day, 0), theirs.get(day, 0)) for day in sorted({*ours, *theirs})}
    differ = {day: sides for day, sides in days.items() if len(set(sides)) > 1}
    lost = sum(max(0, a - b) for a, b in differ.values())
    surplus = sum(max(0, b - a) for a, b in differ.values())
    ignored = contract.deletes == "ignore"
    return Counts(
        table=contract.name,
        compared=compared,
        verdict="different" if lost or (surplus and not ignored) else "equal",
        source_rows=sum(ours.values()),
        lake_rows=sum(theirs.values()),
        lost=lost,
        surplus=surplus,
        waiting=waiting,
        days=differ,
        counted=days,
    )


def _count_copy(proving: Proving, contract: TableContract) -> Counts:
    """What the newest copy read, against deduped: MySQL may have changed every row since."""
    mirror, table = read_mirror(proving, contract)
    if mirror.load.receipt is None:
        raise ProofError(
            f"table {contract.name}: what its newest copy read is not known: the ledger was lost",
            table=contract.name,
            next_step="Sync it: a new copy tells",
        )
    with proving.lake.translated(contract.name):
        held = table.scan().count() if table.current_snapshot() else 0
    read = {NO_DAY: mirror.load.receipt.rows}
    return _counts(contract, "the newest copy", read, {NO_DAY: held}, 0)


def _day_column(target: Target) -> Column | None:
    for name in (target.contract.cursor, target.contract.created):
        column = target.table.column(name) if name else None
        if column is not None and column.data_type in TIMES:
            return column
    return None


# --- MySQL ----------------------------------------------------------------------------------------


def _count_source(connection: Connection[Any], target: Target) -> tuple[dict[str, int], list[Key]]:
    side = SourceSide(target.table, target.rows, target.key, target.scope.source)
    column = _day_column(target)
    day = f"CAST(DATE({quote(column.name)}) AS CHAR)" if column else "NULL"
    where = f" WHERE {side.where}" if side.where else ""
    with reading(target.source), one_state(connection):
        newer: list[Key] = []
        if target.scope.newer and target.key:
            newer = side.read_keys(connection, side.keys_sql(target.scope.newer))
        statement = f"SELECT {day}, COUNT(*) FROM {side.name}{where} GROUP BY 1"  # noqa: S608
        found = rows_of(connection, statement)
    counts: Counter[str] = Counter()
    for told, rows in found:
        counts[_day(told)] += int(rows)
    return counts, newer


def _day(told: Any) -> str:
    """A day of the calendar; what has none in the lake has none here."""
    text = NO_DAY if told is None else text_of(told)
    return NO_DAY if text.startswith("0000") or "-00" in text else text


# --- the lake -------------------------------------------------------------------------------------


def _count_lake(proving: Proving, target: Target, without: tuple[int, ...]) -> dict[str, int]:
    """Rows by day, but for those whose key, one whole number, is among these."""
    day, scope = _day_column(target), target.scope
    key = target.key[0].name if without else ""
    flag = DELETED_AT if target.flags else ""
    wanted = dict.fromkeys(n for n in (day.name if day else "", scope.cursor, key, flag) if n)
    table = proving.lake.load(target.mirror.identifier)
    counts: Counter[str] = Counter()
    if table is None or table.current_snapshot() is None:
        return counts
    columns = tuple(wanted) or (table.schema().fields[0].name,)
    for batch in read_batches(proving.lake, table, columns):
        rows = pa.Table.from_batches([batch])
        if scope.cursor:
            rows = rows.filter(settled(target, rows.column(scope.cursor)))
        if flag:
            rows = rows.filter(pc.is_null(rows.column(flag)))
        if key:
            column = rows.column(key)
            rows = rows.filter(pc.invert(pc.is_in(column, pa.array(without, column.type))))
        if day is None:
            counts[NO_DAY] += rows.num_rows
            continue
        for one in pc.value_counts(rows.column(day.name).cast(pa.date32())).to_pylist():
            told: date | None = one["values"]
            counts[NO_DAY if told is None else told.isoformat()] += int(one["counts"])
    return {told: rows for told, rows in counts.items() if rows}


def _count_without(proving: Proving, target: Target, newer: list[Key]) -> dict[str, int]:
    """Rows by day, without these keys."""
    if len(target.key) == 1 and target.key[0].data_type in INTEGERS:
        return _count_lake(proving, target, tuple(int(key[0]) for key in newer))
    with spark_errors(target.name):
        return _count_by_spark(proving.spark.get(), target, newer)


def _count_by_spark(spark: Any, target: Target, newer: list[Key]) -> dict[str, int]:
    mirror, scope = target.mirror, target.scope
    source = SourceSide(target.table, target.rows, target.key, scope.source)
    side = LakeSide(
        mirror.identifier,
        mirror.snapshot,
        target.rows,
        source.key_forms,
        both(scope.lake),
        flags=target.flags,
    )
    column = _day_column(target)
    name = f"CAST(CAST({as_sql_identifier(column.name)} AS DATE) AS STRING)" if column else "NULL"
    with leaving_out(spark, newer) as without:
        statement = side.counts_sql(f"coalesce({name}, '{NO_DAY}')", without)
        return {str(day): int(rows) for day, rows in spark.sql(statement).collect()}
