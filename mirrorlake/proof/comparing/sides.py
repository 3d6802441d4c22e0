"""The statements of both sides of one check: which rows they read, and the SQL to show."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import ConfigError, LakeError, SourceError
from mirrorlake.proof.comparing.compare import KeyCut
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.proof.ranges.keys import ordered_of, parts_of
from mirrorlake.proof.ranges.named_ranges import conditions_of
from mirrorlake.proof.ranges.ranges import Range, Span
from mirrorlake.proof.ranges.scope import both, day_condition
from mirrorlake.proof.ranges.target import Target
from mirrorlake.proof.sides.mysql_side import SourceSide
from mirrorlake.proof.sides.spark_side import LakeSide
from mirrorlake.sources.mysql.sessions.connect import rows_of


@dataclass(frozen=True)
class Sides:
    """The statements of both sides over one target: of the rows between the cursor's bounds; of the
    lake's rows beside them (no condition: there are none), and of both; of MySQL's rows that need
    not be in the lake yet."""

    target: Target
    source: SourceSide
    lake: LakeSide
    beside: LakeSide
    chosen: LakeSide
    later: SourceSide


def sides_of(target: Target, ask: Ask) -> Sides:
    """Both sides of what is requested.

    Raises:
        ConfigError: these rows can't be chosen in this table.
    """
    chosen = _conditions(target, ask)
    scope = target.scope
    source = SourceSide(
        target.table, target.rows, target.key, both(scope.source, chosen[0]), scope.settled
    )
    lake = _lake_side(target, source, both(scope.lake, chosen[1]))
    beside = both(scope.beside, chosen[1]) if scope.beside else ""
    return Sides(
        *(target, source, lake),
        _lake_side(target, source, beside),
        replace(lake, where=chosen[1]),
        replace(source, where=both(scope.later, chosen[0]) if scope.later else ""),
    )


def refuse_unreadable(connection: Connection[Any], sides: Sides, spark: LazySpark) -> None:
    """See that both sides can read a condition that a person wrote. No row is read.

    Raises:
        ConfigError: MySQL, or Spark, can't.
        SourceError, LakeError: it could not be asked.
    """
    name = sides.target.name
    try:
        rows_of(connection, f"EXPLAIN {sides.source.count_sql()}")
        with spark_errors(name):
            spark.get().sql(sides.lake.count_sql())
    except (SourceError, LakeError) as error:
        if error.retryable:
            raise
        raise ConfigError(
            f"table {name}: the condition of --where can't be read: {error.message}",
            table=name,
            next_step="Write it as both MySQL and Spark read it, as in --where \"country = 'DE'\"",
        ) from error


def _lake_side(target: Target, source: SourceSide, where: str) -> LakeSide:
    return LakeSide(
        target.mirror.identifier,
        target.mirror.snapshot,
        target.rows,
        source.key_forms,
        where,
        flags=target.flags,
        parts=parts_of(target),
    )


def _conditions(target: Target, ask: Ask) -> tuple[str, str]:
    """What is requested as conditions of both sides."""
    if ask.kind == "partition" and ask.day is not None:
        return day_condition(target.table, target.contract, ask.day)
    if ask.kind == "where":
        return ask.where, ask.where
    if ask.keys == Range():
        return "", ""
    if isinstance(ask.keys, Span):
        return conditions_of(parts_of(target), ask.keys)
    column = ordered_of(target)
    if column is None:
        raise ConfigError(
            f"table {target.name}: its key does not begin with an integer that may be shown, so a "
            "range of keys can't be checked",
            table=target.name,
            next_step="Use --full, --partition or --where",
        )
    return ask.keys.source(column), ask.keys.lake(column)


def statements_of(sides: Sides, cut: KeyCut) -> dict[str, str]:
    """The SQL that digested both sides, for anyone who wants to run it again."""
    source, lake = sides.source, sides.lake
    newer, beside = sides.target.scope.newer, sides.beside
    statements = {
        "mysql": source.groups_sql(cut.source(source)),
        "spark": lake.groups_sql(cut.lake(lake)),
    }
    if newer:
        statements["mysql, keys left out"] = source.keys_sql(newer)
    if beside.where:
        statements["spark, rows looked up by key"] = beside.digests_sql()
    return statements
