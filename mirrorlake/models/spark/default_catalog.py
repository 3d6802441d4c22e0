"""What a name without a catalog means while a model is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def within_lake(spark: SparkSession, catalog: str = CATALOG) -> Iterator[None]:
    """While the block runs, a name without a catalog is the lake's, or another catalog's."""
    spark.sql(f"USE {catalog}")
    try:
        yield
    finally:
        spark.sql("USE spark_catalog")
