"""Events that are written together are what Dagster would have written one by one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from dagster_mirrorlake import event_log
from dagster_mirrorlake.event_log import write_materializations

KEY = dg.AssetKey(["raw", "s", "d", "t"])


def made(count: int) -> list[dg.AssetMaterialization]:
    return [
        dg.AssetMaterialization(
            KEY,
            partition=f"2026-01-{n + 1:02}",
            metadata={"rows": n},
            tags={"mirrorlake/through": str(n)},
        )
        for n in range(count)
    ]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


def recorded(instance: dg.DagsterInstance) -> list[tuple[object, ...]]:
    records = instance.fetch_materializations(KEY, limit=100, ascending=True).records
    return [
        (one.partition_key, one.run_id, one.event_log_entry.job_name, one.asset_materialization)
        for one in records
    ]


def test_each_is_as_dagster_would_report_it(instance: dg.DagsterInstance, tmp_path: Path) -> None:
    write_materializations(instance, made(7))
    (tmp_path / "other").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "other")) as other:
        for event in made(7):
            other.report_runless_asset_event(event)
        assert recorded(instance) == recorded(other)
    assert instance.get_materialized_partitions(KEY) == {e.partition for e in made(7)}
    newest = instance.get_latest_materialization_event(KEY)
    assert newest is not None
    assert newest.asset_materialization == made(7)[-1]


def test_what_was_written_before_a_failure_stays_and_no_half(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_log, "_AT_ONCE", 3)
    store, left = event_log._InOneTransaction.store_event, [True] * 5

    def fails(self: event_log._InOneTransaction, event: object) -> None:
        if not left:
            raise OSError("the disk is full")
        left.pop()
        store(self, event)  # type: ignore[arg-type]

    monkeypatch.setattr(event_log._InOneTransaction, "store_event", fails)
    with pytest.raises(OSError, match="full"):
        write_materializations(instance, made(7))
    assert len(recorded(instance)) == 3
    # The databases are free again.
    instance.report_runless_asset_event(made(1)[0])
    assert len(recorded(instance)) == 4


def test_others_read_and_write_meanwhile(instance: dg.DagsterInstance) -> None:
    """The instance's own storage is no part of the transaction, whichever thread uses it."""
    other = dg.AssetKey("other")
    failed: list[BaseException] = []

    def write() -> None:
        try:
            for _ in range(5):
                instance.report_runless_asset_event(dg.AssetMaterialization(other))
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    write_materializations(instance, made(28))
    thread.join()
    assert failed == []
    assert len(recorded(instance)) == 28
    assert len(instance.fetch_materializations(other, limit=10).records) == 5
