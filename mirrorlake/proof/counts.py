"""Rows counted on both sides, per day and in all: cheap, and no proof, since a row too few and one
too many of a day cancel out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.lake.catalog import as_sql_identifier
from mirrorlake.mysql.connect import quote, rows_of, session
from mirrorlake.mysql.introspect import Column
from mirrorlake.mysql.limits import reading
from mirrorlake.proof.compare import leaving_out
from mirrorlake.proof.judge import moved_since
from mirrorlake.proof.mirror import LakeSide
from mirrorlake.proof.report import Verdict
from mirrorlake.proof.scope import TIMES, both
from mirrorlake.proof.source import Key, SourceSide, one_state, text_of
from mirrorlake.proof.target import Proving, Target, resolve_target
from mirrorlake.spark import spark_errors

NO_DAY = "none"
"""The day of rows that have none: a zero date, or a table without a column that tells it."""


@dataclass(frozen=True)
class Counts:
    """Rows older than settle, by the day of their cursor (or of ``created``), on both sides.

    Attributes:
        compared: which rows, as a condition.
        verdict: different where a day's rows differ; undecided where MySQL may have changed since.
        source_rows, lake_rows: in all.
        lost: rows that days of MySQL have more than the lake's.
        surplus: rows that days of the lake have more than MySQL's: deleted there, or moved.
        waiting: rows that MySQL changed too lately to be counted.
        days: of days that differ, [rows in MySQL, rows in the lake].
        reason: why it is undecided.
    """

    table: str
    compared: str
    verdict: Verdict
    source_rows: int
    lake_rows: int
    lost: int
    surplus: int
    waiting: int
    days: Mapping[str, tuple[int, int]]
    reason: str = ""


def count_rows(proving: Proving, contract: TableContract) -> Counts:
    """Count both sides.

    Rows that MySQL has moved past the bound since the load are left out of the lake's, by their
    keys: an update that moves a row to another day is no loss.

    Raises:
        MirrorlakeError: see `resolve_target`, and what either side may raise.
    """
    source = proving.config.sources[contract.source]
    with session(source, contract.database) as connection:
        target = resolve_target(proving, contract, connection)
        ours, newer = _count_source(connection, target)
        with spark_errors(contract.name):
            theirs = _count_lake(proving.spark.get(), target, newer)
        days = {day: (ours.get(day, 0), theirs.get(day, 0)) for day in sorted({*ours, *theirs})}
        differ = {day: both_sides for day, both_sides in days.items() if len(set(both_sides)) > 1}
        reason = moved_since(connection, target) if differ else ""
    verdict: Verdict = "equal" if not differ else "undecided" if reason else "different"
    return Counts(
        table=contract.name,
        compared=target.scope.words,
        verdict=verdict,
        source_rows=sum(ours.values()),
        lake_rows=sum(theirs.values()),
        lost=sum(max(0, a - b) for a, b in differ.values()),
        surplus=sum(max(0, b - a) for a, b in differ.values()),
        waiting=len(newer),
        days=differ,
        reason=reason,
    )


def _day_column(target: Target) -> Column | None:
    for name in (target.contract.cursor, target.contract.created):
        column = target.table.column(name) if name else None
        if column is not None and column.data_type in TIMES:
            return column
    return None


def _count_source(connection: Connection[Any], target: Target) -> tuple[dict[str, int], list[Key]]:
    side = SourceSide(target.table, target.rows, target.key, target.scope.source)
    column = _day_column(target)
    day = f"CAST(DATE({quote(column.name)}) AS CHAR)" if column else "NULL"
    where = f" WHERE {side.where}" if side.where else ""
    with reading(target.source), one_state(connection):
        newer: list[Key] = []
        if target.scope.newer and target.key:
            newer = side.read_keys(connection, side.keys_sql(target.scope.newer))
        statement = f"SELECT {day} AS d, COUNT(*) FROM {side.name}{where} GROUP BY d"  # noqa: S608
        found = rows_of(connection, statement)
    counts: dict[str, int] = {}
    for told, rows in found:
        counts[_day(told)] = counts.get(_day(told), 0) + int(rows)
    return counts, newer


def _day(told: Any) -> str:
    """A day of the calendar; what has none in the lake has none here."""
    text = NO_DAY if told is None else text_of(told)
    return NO_DAY if text.startswith("0000") or "-00" in text else text


def _count_lake(spark: Any, target: Target, newer: list[Key]) -> dict[str, int]:
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
