"""A process's Spark is of one lake: it never answers for another one's tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.config import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeError
from tests.integration.conftest import Place


def test_a_second_lake_is_refused_while_the_first_ones_session_is_there(
    place: Place, tmp_path: Path
) -> None:
    session = place.spark.get()
    warehouse = session.conf.get("spark.sql.catalog.lake.warehouse")
    other = LazySpark(SparkConfig(), Lake(LakeConfig(warehouse=str(tmp_path / "other"))))
    with pytest.raises(LakeError, match="is another lake's") as caught:
        other.get()
    assert "Close the other engine first" in str(caught.value)
    assert session.conf.get("spark.sql.catalog.lake.warehouse") == warehouse
    assert LazySpark(SparkConfig(), place.lake).get() is session
