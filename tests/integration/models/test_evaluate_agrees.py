"""Spark gives of constants what is written down, by which `evaluate` is tested without it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.conftest import Place
from tests.support.spark_constants import read_constants

pytestmark = pytest.mark.full


def test_constants_that_are_written_down(place: Place) -> None:
    spark: Any = place.spark.get()
    assert spark.conf.get("spark.sql.ansi.enabled") == "true"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    sure = [one for one in read_constants() if one.type is not None]
    columns = ", ".join(
        f"typeof({one.expression}) AS type_{number}, CAST(({one.expression}) AS STRING) AS text_{number}"
        for number, one in enumerate(sure)
    )
    (row,) = spark.sql(f"SELECT {columns}").collect()
    others = [
        (one.expression, row[2 * number], row[2 * number + 1])
        for number, one in enumerate(sure)
        if (row[2 * number], row[2 * number + 1]) != (one.type, one.text)
    ]
    assert others == []
