"""A fold, or maintenance, in a process of its own, which the environment's failpoint may kill.

python -m tests.integration.snapshot_runner FOLDER TABLE fold NUMBER VERSION
python -m tests.integration.snapshot_runner FOLDER TABLE maintain
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.operations.upkeep import maintain
from tests.integration.conftest import Place
from tests.integration.landing.fold.test_snapshot_fold import Mirror
from tests.integration.landing.fold.test_snapshot_publish import _rows, _workspace


def main(folder: str, table: str, what: str, *rest: str) -> None:
    config = load_config(Path(folder) / "mirrorlake.yaml")
    lake = Lake(config.lake)
    spark = LazySpark(config.spark, lake)
    place = Place(Path(folder), lake, spark)
    mirror = Mirror(place, name=table)
    if what == "fold":
        mirror.fold(int(rest[0]), _rows(int(rest[1])))
    else:
        maintain.RETAIN = 1
        workspace, contract = _workspace(place, mirror)
        ages = maintain.Ages(timedelta(0), timedelta(0))
        found = maintain.maintain_table(workspace, contract, ages)
        assert not [one.error for one in found if one.error]
    assert Identifier("snapshots", table) == mirror.table.identifier
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
