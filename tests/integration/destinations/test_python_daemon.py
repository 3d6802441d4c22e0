"""Spark's Python workers come of our daemon: what they import is the engine, and no archive is read
before each task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pytest

from mirrorlake.destinations.iceberg.spark.python_daemon import DAEMON
from tests.integration.conftest import Place


def _how_archives_are_forgotten(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import zipimport

    for _ in batches:
        name = zipimport.zipimporter.invalidate_caches.__qualname__
        yield pa.RecordBatch.from_pydict({"name": [name]})


@pytest.mark.full
def test_workers_read_no_archive_again(place: Place) -> None:
    spark = place.spark.get()
    assert spark.conf.get("spark.python.daemon.module") == DAEMON
    asked = spark.range(0, 4, 1, 4).mapInArrow(
        cast(Any, _how_archives_are_forgotten), "name string"
    )
    assert {row["name"] for row in asked.collect()} == {"_forget_if_changed"}
