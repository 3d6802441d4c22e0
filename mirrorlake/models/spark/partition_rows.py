"""The rows of a model's partition, as Spark gives them for its query.

What belongs here: from a bound query to rows with the columns of the table. What doesn't: where
they are written (`mirrorlake.models.compute.run`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import CATALOG, as_sql_identifier
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import ModelError
from mirrorlake.models.compile.dependencies import external_inputs
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.table_mentions import TextSpan
from mirrorlake.models.scope_values.comprehension import ScopeValues
from mirrorlake.models.scope_values.query_text import bound_sql, literal
from mirrorlake.models.spark.default_catalog import within_lake
from mirrorlake.models.spark.external_views import stand_ins
from mirrorlake.models.spark.python_code import code_errors
from mirrorlake.models.spark.python_function import function_rows
from mirrorlake.models.spark.session_functions import register_functions, result_errors
from mirrorlake.sources.files.tasks import landing_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def partition_rows(
    spark: SparkSession,
    model: Model,
    scope: ScopeValues,
    catalog: str = CATALOG,
    written: Mapping[TextSpan, str] | None = None,
) -> DataFrame:
    """The rows of a partition, with the columns of the table.

    Args:
        catalog: where its tables are; the lake, but in a test.
        written: what else stands in its query, in the place of mirrored tables.

    Raises:
        ModelError: Spark's analyser says otherwise than what was inferred, or a function failed.
    """
    is_python = model.declaration.python is not None
    # A test gives them as tables.
    inputs = external_inputs(model, scope) if catalog == CATALOG else ()
    instead = {**stand_ins(spark, model, inputs), **(written or {})}
    register_functions(spark, model.declaration.functions)
    rows = (function_rows if is_python else _query_rows)(spark, model, scope, instead, catalog)
    constants = [
        f"CAST({literal(scope[name])} AS {model.types[name].type}) AS {as_sql_identifier(name)}"
        for name in model.declaration.partition_by
    ]
    names = [as_sql_identifier(name) for name in rows.columns]
    return rows.selectExpr(*names, *constants).toDF(*(one.name for one in model.fields))


def _query_rows(
    spark: SparkSession,
    model: Model,
    scope: ScopeValues,
    instead: Mapping[TextSpan, str],
    catalog: str,
) -> DataFrame:
    text = bound_sql(model.declaration.sql, model.bound, scope, instead=instead)
    with spark_errors(model.name):
        with within_lake(spark, catalog):
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
    return rows


@contextmanager
def row_errors(model: Model) -> Iterator[None]:
    """Say of what fails as rows are made where that is: in a model's code, or in a file that is
    made elsewhere.

    Raises:
        ModelError, LandingError
    """
    own, functions = model.declaration.path, model.declaration.functions
    with (
        landing_errors(model.name),
        code_errors(own),
        code_errors(functions.path),
        result_errors(functions),
    ):
        yield


def batch_rows(
    spark: SparkSession,
    model: Model,
    batch: Sequence[ScopeValues],
    written: Mapping[TextSpan, str] | None = None,
) -> DataFrame:
    """The rows of some partitions, one after another.

    Args:
        written: as `partition_rows` takes it.

    Raises:
        ModelError: Spark's analyser says otherwise than what was inferred.
    """
    first, *others = (partition_rows(spark, model, one, written=written) for one in batch)
    return reduce(lambda rows, more: rows.unionAll(more), others, first)


def batch_condition(model: Model, batch: Sequence[ScopeValues]) -> Column:
    """The rows of some partitions that are in the table already."""
    from pyspark.sql.functions import expr

    return expr(" OR ".join(f"({partition_condition(model, scope)})" for scope in batch))


def partition_condition(model: Model, scope: ScopeValues) -> str:
    """The rows of one partition in the table, as a condition in Spark's SQL."""
    by = model.declaration.partition_by
    parts = (f"{as_sql_identifier(name)} = {literal(scope[name])}" for name in by)
    return " AND ".join(parts) or "true"
