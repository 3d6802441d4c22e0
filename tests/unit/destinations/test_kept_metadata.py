"""Metadata that this process wrote are kept, and not read again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.types import StringType

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.iceberg.catalog import sql
from mirrorlake.destinations.iceberg.catalog.sql import LakeCatalog
from mirrorlake.destinations.iceberg.lake import Lake


def test_what_this_process_wrote_is_as_it_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Metadata that a commit made are kept: they are those of its file, which is not read again."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    lake.make_namespace("d")
    rows = pa.table({"id": [1, 2], "name": ["a", None], "at": [datetime(2020, 1, 1), None]})
    read = LakeCatalog._parse  # pyright: ignore[reportPrivateUsage]

    def refuse(*_: object) -> None:
        raise AssertionError("a metadata file was read")

    monkeypatch.setattr(LakeCatalog, "_parse", refuse)
    table = lake.catalog.create_table(("d", "t"), rows.schema, location=f"{tmp_path}/lake/t")

    def assert_as_read() -> None:
        found = lake.catalog.load_table(("d", "t"))
        monkeypatch.setattr(LakeCatalog, "_parse", read)
        other = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
        again = other.catalog.load_table(("d", "t"))
        monkeypatch.setattr(LakeCatalog, "_parse", refuse)
        assert (found.metadata, found.metadata_location) == (
            again.metadata,
            again.metadata_location,
        )
        assert found.scan().to_arrow() == again.scan().to_arrow()

    steps: list[Callable[[Table], object]] = [
        lambda one: one.append(rows),
        lambda one: one.update_schema().add_column("more", StringType()).commit(),
        lambda one: one.append(rows),
        lambda one: (
            one.manage_snapshots().create_tag(one.metadata.snapshots[0].snapshot_id, "x").commit()
        ),
        lambda one: one.delete("id = 1"),
        lambda one: one.transaction().set_properties({"a": "b"}).commit_transaction(),
        lambda one: (
            one.maintenance.expire_snapshots().by_id(one.metadata.snapshots[1].snapshot_id).commit()
        ),
        lambda one: one.update_spec().add_identity("id").commit(),
        lambda one: one.overwrite(rows.slice(0, 1)),
    ]
    assert_as_read()
    for step in steps:
        step(table)
        assert_as_read()
        table = lake.catalog.load_table(("d", "t"))


def test_of_many_small_tables_few_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_KEPT", 10 * sql._LEAST)
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    lake.make_namespace("d")
    schema = pa.schema([("id", pa.int64())])
    for number in range(15):
        lake.catalog.create_table(("d", f"t{number}"), schema, location=f"{tmp_path}/lake/{number}")
    assert isinstance(lake.catalog, LakeCatalog)
    assert len(lake.catalog._parsed) == 10
    assert lake.catalog.load_table(("d", "t0")).name() == ("d", "t0"), "it is read again"


def test_times_go_up_to_now_whatever_a_clock_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One machine's clock is ahead of the next one's: Java reads no table whose log goes back, and
    writes none whose log is ahead of its own clock."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    lake.make_namespace("d")
    rows, clock = pa.table({"id": [1]}), time.time
    table = lake.catalog.create_table(("d", "t"), rows.schema)
    table.append(rows)
    begun = table.metadata.last_updated_ms
    monkeypatch.setattr(time, "time", lambda: clock() + 7200)
    table.append(rows)
    monkeypatch.setattr(time, "time", clock)
    table.manage_snapshots().create_branch(table.metadata.current_snapshot_id, "b").commit()
    table.append(rows)
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    table.append(rows)
    metadata = lake.catalog.load_table(("d", "t")).metadata
    now = clock() * 1000
    for log in (metadata.metadata_log, metadata.snapshot_log):
        times = [entry.timestamp_ms for entry in log]
        assert times == sorted(times)
        assert begun <= times[-1] <= metadata.last_updated_ms <= now
    assert metadata.snapshot_log[0].timestamp_ms == begun
    assert len(table.scan().to_arrow()) == 2


def test_times_that_went_back_are_put_in_order_by_the_next_commit(tmp_path: Path) -> None:
    """As an earlier release, or another tool, left them."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    lake.make_namespace("d")
    rows = pa.table({"id": [1]})
    table = lake.catalog.create_table(("d", "t"), rows.schema)
    table.append(rows)
    table.append(rows)
    path = Path(table.metadata_location.removeprefix("file://"))
    said = json.loads(path.read_text())
    for log in ("metadata-log", "snapshot-log"):
        said[log][0]["timestamp-ms"] += 7_200_000
    path.write_text(json.dumps(said))
    table.refresh()
    table.append(rows)
    metadata = table.metadata
    for entries in (metadata.metadata_log, metadata.snapshot_log):
        times = [entry.timestamp_ms for entry in entries]
        assert times == sorted(times)
        assert times[-1] <= metadata.last_updated_ms
    assert len(table.scan().to_arrow()) == 3
