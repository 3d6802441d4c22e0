"""Rows of partitions looked at: what each expectation says of them, by partition.

All rows of a partition are looked at, on Spark, in one pass for everything that a single row can
say and one for each key. Only counts leave it, never values.

What belongs here: from rows to counts. What doesn't: what follows from them
(`mirrorlake.models.checks.before_publishing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import LakeError
from mirrorlake.models.checks.pandera_schemas import broken_by, load_schema
from mirrorlake.models.compile.model import Model
from mirrorlake.models.files.expectations import Expectation
from mirrorlake.models.ledger import CheckedExpectation
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.spark.partition_rows import batch_condition, partition_condition
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Failed = Mapping[int, int]
"""Number of a partition in its batch → rows that are not as expected; absent: none."""


@dataclass(frozen=True)
class PartitionLook:
    """What was seen of one partition."""

    rows: int
    results: tuple[CheckedExpectation, ...]


def look_at_rows(
    spark: SparkSession, model: Model, batch: Sequence[ScopeValues], source: str
) -> dict[str, PartitionLook]:
    """Look at the rows of some partitions.

    Args:
        source: the table or the branch that they are in, as Spark takes it.

    Returns:
        What was seen, by the name of the partition; of one without rows, too.

    Raises:
        LakeError: Spark failed, or an expectation can't be evaluated: nothing is said of the rows.
        ConfigError: a pandera schema can't be had.
    """
    rows = _numbered(spark, model, batch, source)
    alone = [one for one in model.expectations if one.failing]
    with spark_errors(model.name):
        try:
            counts, failed = _counted(rows, alone)
        except Exception:
            _name_the_cause(rows, model, alone)
            raise
        for one in model.expectations:
            if one.kind == "unique":
                failed[one.name] = _repeated(rows, one.columns)
    broken = {
        one.name: _of_schema(rows, model, one, len(batch))
        for one in model.expectations
        if one.kind == "pandera"
    }
    return {
        model.key_of(scope): PartitionLook(
            counts.get(number, 0),
            tuple(
                _result(one, number, counts.get(number, 0), failed, broken)
                for one in model.expectations
            ),
        )
        for number, scope in enumerate(batch)
    }


def _part(model: Model) -> str:
    """A name that no column of the model has."""
    names = {one.name.lower() for one in model.fields}
    return next(name for name in _names() if name not in names)


def _names() -> Iterator[str]:
    name = "partition_number"
    while True:
        yield name
        name = f"_{name}"


def _numbered(
    spark: SparkSession, model: Model, batch: Sequence[ScopeValues], source: str
) -> DataFrame:
    """The rows of a batch; the last column is the number of their partition in it."""
    whens = " ".join(
        f"WHEN {partition_condition(model, scope)} THEN {number}"
        for number, scope in enumerate(batch)
    )
    with spark_errors(model.name):
        rows = spark.sql(f"SELECT * FROM {source}")  # noqa: S608 - a quoted identifier
        own = rows.where(batch_condition(model, batch))
        return own.selectExpr("*", f"CASE {whens} END AS {_part(model)}")


def _counted(
    rows: DataFrame, expectations: Sequence[Expectation]
) -> tuple[dict[int, int], dict[str, Failed]]:
    """How many rows each partition has, and how many of them each expectation is not true of."""
    from pyspark.sql.functions import count, expr, lit

    columns = [expr(f"count_if({one.failing})") for one in expectations]
    found = rows.groupBy(rows.columns[-1]).agg(count(lit(1)), *columns).collect()
    counts = {int(row[0]): int(row[1]) for row in found}
    failed: dict[str, Failed] = {
        one.name: {int(row[0]): int(row[place]) for row in found}
        for place, one in enumerate(expectations, 2)
    }
    return counts, failed


def _name_the_cause(rows: DataFrame, model: Model, expectations: Sequence[Expectation]) -> None:
    """
    Raises:
        LakeError: an expectation can't be evaluated; it is named.
    """
    for one in expectations:
        try:
            with spark_errors(model.name):
                _counted(rows, [one])
        except LakeError as error:
            raise _unevaluated(model, one, error) from error


def _unevaluated(model: Model, one: Expectation, error: LakeError) -> LakeError:
    return LakeError(
        f"{one.name} ({one.words}) can't be evaluated: {error.message}",
        table=model.name,
        next_step="Nothing is said of the rows, and they were not published",
        retryable=error.retryable,
    )


def _repeated(rows: DataFrame, columns: Sequence[str]) -> Failed:
    """By partition, the rows whose key another row of it has, too. NULL is equal to NULL."""
    from pyspark.sql.functions import col, count, lit
    from pyspark.sql.functions import sum as total

    part = rows.columns[-1]
    keys = [col(as_sql_identifier(name)).alias(f"k{n}") for n, name in enumerate(columns)]
    groups = rows.groupBy(col(part).alias("part"), *keys).agg(count(lit(1)).alias("n"))
    found = groups.where("n > 1").groupBy("part").agg(total("n")).collect()
    return {int(row[0]): int(row[1]) for row in found}


def _of_schema(
    rows: DataFrame, model: Model, one: Expectation, partitions: int
) -> dict[int, tuple[str, ...]]:
    """What a pandera schema finds broken, by partition. A schema says yes or no of all rows that it
    is given: where it says no to the batch, it is asked of each partition."""
    schema = load_schema(model, one.text)
    part = rows.columns[-1]

    def look(some: DataFrame) -> tuple[str, ...]:
        try:
            with spark_errors(model.name):
                return broken_by(schema, some.drop(part))
        except LakeError as error:
            raise _unevaluated(model, one, error) from error

    if not look(rows):
        return {}
    alone: Callable[[int], DataFrame] = lambda number: rows.where(f"{part} = {number}")  # noqa: E731
    return {number: look(alone(number)) for number in range(partitions)}


def _result(
    one: Expectation,
    number: int,
    rows: int,
    failed: Mapping[str, Failed],
    broken: Mapping[str, Mapping[int, tuple[str, ...]]],
) -> CheckedExpectation:
    count: int | None = None
    if one.kind == "rows":
        passed = rows >= (one.least or 0) and (one.most is None or rows <= one.most)
        said = plural(rows, "row")
    elif one.kind == "pandera":
        words = broken[one.name].get(number, ())
        passed, said = not words, "; ".join(words) or plural(rows, "row")
    else:
        count = failed[one.name].get(number, 0)
        passed, said = not count, f"{count:,} of {rows:,} rows"
    return CheckedExpectation(
        name=one.name,
        terms=one.terms,
        words=one.words,
        severity=one.severity,
        passed=passed,
        failed=count,
        said=said,
    )
