"""Tables that are made elsewhere, read in a model's query: views of the session that show exactly
what was looked at, with exactly the columns that are declared.

What belongs here: the views. What doesn't: what there is
(`mirrorlake.models.external_sources.tables`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.table_mentions import TextSpan, written_instead
from mirrorlake.models.external_sources.stores import store_of_format
from mirrorlake.models.external_sources.tables import ExternalInput, ExternalTable
from mirrorlake.sources.files.parquet_table import parquet_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def stand_ins(
    spark: SparkSession, model: Model, inputs: Iterable[ExternalInput]
) -> dict[TextSpan, str]:
    """Make the views that one scope of a model reads; what is to be written in its query.

    Args:
        inputs: what the scope reads of such tables.

    Raises:
        LakeError: Spark can't read one.
    """
    views = {
        one.table: as_sql_identifier(_view(spark, model.externals[one.table], one))
        for one in inputs
    }
    return written_instead(model.query, model.bound.trace.tables, views) if views else {}


def _view(spark: SparkSession, table: ExternalTable, one: ExternalInput) -> str:
    said = f"{table.name}\0{table.version(one.reached)}\0{table.snapshot}"
    columns = [(column.name, column.type) for column in table.declaration.columns]
    digest = hashlib.sha256(f"{said}\0{columns}".encode()).hexdigest()[:16]
    name = f"mirrorlake_{table.name.replace('.', '_')}_{digest}"
    with spark_errors(table.name):
        _rows(spark, table, one).createOrReplaceTempView(name)
    return name


def _rows(spark: SparkSession, table: ExternalTable, one: ExternalInput) -> DataFrame:
    columns = table.declaration.columns
    ddl = ", ".join(f"{as_sql_identifier(column.name)} {column.type}" for column in columns)
    if table.stored is not None:
        copy = store_of_format(table.declaration).copied_rows(table)
        return parquet_frame(spark, table.name, ddl, copy.folder, copy.files)
    if table.folder is not None:
        return parquet_frame(spark, table.name, ddl, table.folder, table.reached(one.reached))
    identifier = Identifier(*table.declaration.table)
    # The version that was looked at: what is written meanwhile is of the next run.
    version = f" VERSION AS OF {table.snapshot}" if table.snapshot is not None else ""
    found = spark.sql(f"SELECT * FROM {identifier.sql}{version}")  # noqa: S608 - quoted
    return found.select(*(as_sql_identifier(column.name) for column in columns))
