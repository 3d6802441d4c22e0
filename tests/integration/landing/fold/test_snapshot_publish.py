"""Published versions: readers see one or the other, going back, clones, and maintenance."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any

import pytest

from mirrorlake.config import LandingConfig, TableContract
from mirrorlake.config.landing import SnapshotConfig
from mirrorlake.config.settings import Namespaces
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import list_branches
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import OF_SNAPSHOTS
from mirrorlake.landing.fold.publish import (
    list_versions,
    roll_table_back,
)
from mirrorlake.operations.upkeep import maintain
from mirrorlake.operations.upkeep.clones import clone_table, drop_clone
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, write_config
from tests.integration.lakes import by_duckdb
from tests.integration.landing.fold.test_snapshot_fold import NUMBERS, Mirror, _row


def _rows(version: int, count: int = 40) -> list[Any]:
    """Of each version every row tells which it is of: a mixed one shows."""
    return [_row(n, 5 + n % 3, f"v{version}") for n in range(count)]


def _workspace(place: Place, mirror: Mirror) -> tuple[Workspace, TableContract]:
    """The engine and a contract whose tables are the mirror's."""
    config = write_config(place.folder, None, {})
    (place.folder / "landing").mkdir(exist_ok=True)
    landing = LandingConfig(url=f"{place.folder}/landing")
    config = config.model_copy(update={"landings": {"landed": landing}})
    workspace = Workspace.open(config, spark=place.spark)
    contract = TableContract(
        source="landed",
        database="d",
        table=mirror.table.identifier.name,
        mode="snapshot",
        key=("id",),
        snapshot=SnapshotConfig(),
        namespaces=Namespaces(raw="r", deduped="snapshots", clean="c"),
    )
    return workspace, contract


def _seen(mirror: Mirror) -> set[str]:
    table = mirror.place.lake.load(mirror.table.identifier)
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    assert len(rows) == 40
    return {row["v"] for row in rows}


@pytest.mark.full
def test_readers_see_whole_versions_and_can_be_taken_back(place: Place) -> None:
    """Readers loop while versions are published; then back, forward, a clone, and maintenance,
    after which the clone and every kept version are as they were."""
    mirror = Mirror(place)
    mirror.fold(NUMBERS[0], _rows(0))
    with _reading(mirror) as failures:
        mirror.fold(NUMBERS[1], _rows(1))
    assert not failures
    mirror.fold(NUMBERS[2], _rows(2))
    identifier, lake, ledger = mirror.table.identifier, place.lake, mirror.ledger
    clone = Identifier("snapshots", f"{identifier.name}_clone")
    with ledger.lease(mirror.table.name, "test") as lease:
        roll_table_back(lake, ledger, identifier, lease=lease)
        assert _seen(mirror) == {"v1"}
        clone_table(lake, ledger, identifier, clone, lease=lease)
        roll_table_back(lake, ledger, identifier, NUMBERS[2], lease=lease)
        assert _seen(mirror) == {"v2"}
        with pytest.raises(LakeError, match="has no version 7 any more"):
            roll_table_back(lake, ledger, identifier, 7, lease=lease)
        roll_table_back(lake, ledger, identifier, NUMBERS[0], lease=lease)
    # A fold goes on from what is shown: the snapshots after it were never folded.
    assert mirror.fold(NUMBERS[3], _rows(0)).strategy == "same"
    mirror.taken = {n: r for n, r in mirror.taken.items() if n in (NUMBERS[0], NUMBERS[3])}
    mirror.check()
    assert [v.snapshot for v in list_versions(lake, identifier)] == [
        NUMBERS[3],
        NUMBERS[2],
        NUMBERS[1],
        NUMBERS[0],
    ]
    _check_maintained(place, mirror, clone)


def _check_maintained(place: Place, mirror: Mirror, clone: Identifier) -> None:
    workspace, contract = _workspace(place, mirror)
    retain, maintain.RETAIN = maintain.RETAIN, 1
    try:
        found = maintain_table(workspace, contract, Ages(timedelta(0), timedelta(0)))
    finally:
        maintain.RETAIN = retain
    assert [one.error for one in found] == [None] * len(found)
    rows = found[0]
    assert rows.after.versions < rows.before.versions
    assert rows.orphans == 0 or rows.orphan_bytes > 0
    mirror.check()
    shared = place.lake.load(clone)
    assert shared is not None
    assert {row["v"] for row in shared.scan().to_arrow().to_pylist()} == {"v1"}
    spark = place.spark.get()
    spark.sql(f"UPDATE {clone.sql} SET v = 'mine' WHERE id = 3")
    assert spark.sql(f"SELECT count(*) FROM {clone.sql} WHERE v = 'mine'").collect()[0][0] == 1
    mirror.check()
    drop_clone(place.lake, clone)
    # What was kept is enough to fold on, and to tell what did not change.
    assert mirror.fold(NUMBERS[4], _rows(0)).strategy == "same"
    mirror.check()


class _reading:
    """Readers of PyIceberg, Spark and DuckDB, each in a loop; what any of them saw amiss."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror, self._done = mirror, threading.Event()
        self._failures: list[str] = []
        self._counts = {"pyiceberg": 0, "spark": 0, "duckdb": 0}
        readers: dict[str, Callable[[], list[str]]] = {
            "pyiceberg": self._pyiceberg,
            "spark": self._spark,
            "duckdb": self._duckdb,
        }
        self._threads = [
            threading.Thread(target=self._loop, args=item, daemon=True) for item in readers.items()
        ]

    def __enter__(self) -> list[str]:
        for thread in self._threads:
            thread.start()
        return self._failures

    def __exit__(self, *_: object) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(60)
        assert min(self._counts.values()) > 0, self._counts

    def _loop(self, name: str, read: Callable[[], list[str]]) -> None:
        while not self._done.is_set():
            try:
                found = read()
                if len(found) != 40 or len(set(found)) != 1:
                    self._failures.append(f"{name}: {len(found)} rows of {set(found)}")
            except Exception as error:  # noqa: BLE001
                self._failures.append(f"{name}: {error!r}")
            self._counts[name] += 1
            self._done.wait(0.3)

    def _pyiceberg(self) -> list[str]:
        table = self._mirror.place.lake.load(self._mirror.table.identifier)
        assert table is not None
        return [row["v"] for row in table.scan().to_arrow().to_pylist()]

    def _spark(self) -> list[str]:
        sql = self._mirror.table.identifier.sql
        return [r.v for r in self._mirror.place.spark.get().sql(f"SELECT v FROM {sql}").collect()]

    def _duckdb(self) -> list[str]:
        table = self._mirror.place.lake.load(self._mirror.table.identifier)
        assert table is not None
        return [row["v"] for row in by_duckdb(table).to_pylist()]


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_killed_anywhere_the_table_is_one_of_the_two_versions(place: Place) -> None:
    """In the fold, the publish and maintenance; the next run goes on from there."""
    write_config(place.folder, None, {})
    mirror = Mirror(place)
    mirror.fold(20260201000000, _rows(0))
    version = 0
    for name in OF_SNAPSHOTS:
        number = 20260201000001 + version
        what = ["fold", str(number), str(version + 1)]
        folds = name.startswith("snapshot.")
        command = what if folds else ["maintain"]
        assert _run(mirror, command, name) == -signal.SIGKILL, name
        seen = _seen(mirror)
        assert seen in ({f"v{version}"}, {f"v{version + 1}"}), name
        if name != "snapshot.published":
            assert seen == {f"v{version}"}, name
        if folds:
            version += 1
            mirror.fold(number, _rows(version))
        else:
            assert _run(mirror, command, "") == 0
        mirror.check()
        assert list(list_branches(place.lake, mirror.table.identifier)) == ["main"]


def _run(mirror: Mirror, command: list[str], failpoint: str) -> int:
    """A process of its own, with a JVM of its own; its exit code."""
    environment = {**os.environ, "MIRRORLAKE_FAILPOINT": failpoint}
    told = [str(mirror.place.folder), mirror.table.identifier.name, *command]
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.snapshot_runner", *told],
        env=environment,
        check=False,
        timeout=600,
    )
    return done.returncode


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_readers_loop_during_fifty_publishes(place: Place) -> None:
    """No error, and no version but whole ones."""
    mirror = Mirror(place)
    first = date(2026, 2, 1)
    mirror.fold(20260201000000, _rows(0))
    with _reading(mirror) as failures:
        for version in range(1, 51):
            day = first + timedelta(days=version)
            mirror.fold(int(f"{day:%Y%m%d}000000"), _rows(version))
    assert not failures
