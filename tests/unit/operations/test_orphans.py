"""What of a lake table's folder goes: what marks a table that was taken away goes with the last of
that table's files."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.operations.upkeep.orphans import OrphanTerms, find_orphans, remove_orphans

NAME = ("shop", "orders")
ROWS = pa.table({"id": pa.array([1, 2], pa.int32())})


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A table in the folder of one that was dropped on purpose."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path)))
    lake.make_namespace(NAME[0])
    for drop in (True, False):
        table = lake.catalog.create_table(NAME, ROWS.schema)
        table.append(ROWS)
        if drop:
            lake.retire(Identifier(*NAME))
            lake.catalog.drop_table(NAME)
    return lake


def metadata(folder: Path) -> set[str]:
    return {path.name for path in (folder / "shop" / "orders" / "metadata").iterdir()}


def test_a_mark_goes_with_what_it_is_about(lake: Lake, tmp_path: Path) -> None:
    table = lake.catalog.load_table(NAME)
    assert any(name.endswith(".retired") for name in metadata(tmp_path))
    later = OrphanTerms(datetime.now(UTC) + timedelta(hours=1))
    names = [orphan.path.rpartition("/")[2] for orphan in find_orphans(lake, table, later)]
    assert names[-1].endswith(".retired"), "last: one that dies before it finds the mark again"
    assert remove_orphans(lake, table, later)
    assert find_orphans(lake, table, later) == []
    assert not any(name.endswith(".retired") for name in metadata(tmp_path))
    assert table.refresh().scan().to_arrow() == ROWS


def test_a_mark_stays_while_anything_stays(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "shop" / "orders" / "metadata"
    (mark,) = folder.glob("*.retired")
    old = (datetime.now(UTC) - timedelta(days=2)).timestamp()
    os.utime(mark, (old, old))
    table = lake.catalog.load_table(NAME)
    assert remove_orphans(lake, table, OrphanTerms(datetime.now(UTC) - timedelta(days=1))) == []
    assert mark.is_file()
