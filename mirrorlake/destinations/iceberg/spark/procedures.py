"""Iceberg's procedures for Spark: files written again without a change of rows.

Each is one or more commits of Spark's; the caller holds the table's lease.

Source: Apache Iceberg, "Spark Procedures".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import CATALOG, Identifier, text_literal
from mirrorlake.destinations.iceberg.model import LakeTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rewrite_data_files(
    spark: SparkSession, table: LakeTable, identifier: Identifier, options: Mapping[str, str]
) -> None:
    """Take small files together, in the table's order if it has one. Of a table whose rows are
    changed by writing files again, every file with a delete is written again, too."""
    if rewrites_files(table):
        options = {**options, "delete-file-threshold": "1"}
    strategy = "sort" if table.sort_order().fields else "binpack"
    listed = ", ".join(f"'{name}', '{value}'" for name, value in options.items())
    _call(
        spark,
        "rewrite_data_files",
        identifier,
        f"strategy => '{strategy}', options => map({listed})",
    )


def rewrites_files(table: LakeTable) -> bool:
    """Whether changes of a table's rows leave no deletes beside its files."""
    return table.properties.get("write.merge.mode") == "copy-on-write"


def rewrite_position_deletes(spark: SparkSession, identifier: Identifier) -> None:
    """Take small delete files together, and drop what names rows that are gone."""
    _call(spark, "rewrite_position_delete_files", identifier)


def _call(spark: SparkSession, procedure: str, identifier: Identifier, more: str = "") -> None:
    arguments = f"table => {text_literal(identifier.sql)}" + (f", {more}" if more else "")
    spark.sql(f"CALL {CATALOG}.system.{procedure}({arguments})").collect()
