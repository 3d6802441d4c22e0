"""The rows of a model's partition, as Spark gives them for its query.

What belongs here: from a bound query to rows with the columns of the table. What doesn't: where
they are written (`mirrorlake.operations.models.runs`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import CATALOG, as_sql_identifier
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.errors import ModelError
from mirrorlake.models.binding import bound_sql, literal
from mirrorlake.models.project import Model, ScopeValues

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def partition_rows(spark: SparkSession, model: Model, scope: ScopeValues) -> DataFrame:
    """The rows of a partition, with the columns of the table.

    Raises:
        ModelError: Spark's analyser says otherwise than what was inferred.
    """
    text = bound_sql(model.declaration.sql, model.bound, scope)
    with spark_errors(model.name):
        with within_lake(spark):
            rows = spark.sql(text)
        given = [(name.lower(), kind) for name, kind in rows.dtypes]
    wanted = [(one.name.lower(), one.value.type) for one in model.fields][: len(given)]
    if given != wanted or len(given) + len(model.declaration.partition_by) != len(model.fields):
        other = next(
            (f"{g} where {w} was inferred" for g, w in zip(given, wanted, strict=False) if g != w),
            "",
        )
        raise ModelError(
            f"{model.declaration.path}: Spark gives other columns than were inferred: {other}",
            next_step="This is a defect of Mirrorlake's inference: CAST the column, and report it",
        )
    constants = [
        f"CAST({literal(scope[name])} AS {model.types[name].type}) AS {as_sql_identifier(name)}"
        for name in model.declaration.partition_by
    ]
    names = [as_sql_identifier(name) for name in rows.columns]
    return rows.selectExpr(*names, *constants).toDF(*(one.name for one in model.fields))


@contextmanager
def within_lake(spark: SparkSession) -> Iterator[None]:
    """While the block runs, a name without a catalog is the lake's."""
    spark.sql(f"USE {CATALOG}")
    try:
        yield
    finally:
        spark.sql("USE spark_catalog")


def batch_rows(spark: SparkSession, model: Model, batch: Sequence[ScopeValues]) -> DataFrame:
    """The rows of some partitions, one after another.

    Raises:
        ModelError: Spark's analyser says otherwise than what was inferred.
    """
    first, *others = (partition_rows(spark, model, scope) for scope in batch)
    return reduce(lambda rows, more: rows.unionAll(more), others, first)


def batch_condition(model: Model, batch: Sequence[ScopeValues]) -> Column:
    """The rows of some partitions that are in the table already."""
    from pyspark.sql.functions import expr

    by = model.declaration.partition_by
    parts = [
        " AND ".join(f"{as_sql_identifier(name)} = {literal(scope[name])}" for name in by)
        for scope in batch
    ]
    return expr(" OR ".join(f"({part})" for part in parts) if by else "true")
