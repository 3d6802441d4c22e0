"""`write_mode`: with copy-on-write a fold leaves no deletes beside files, and every row is MySQL's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from pyiceberg.manifest import DataFileContent

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.metadata.small_files import sizes_of
from mirrorlake.destinations.iceberg.spark.procedures import rewrites_files
from mirrorlake.destinations.iceberg.tables.tenants import bucket_of
from mirrorlake.merge import compaction
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.landing.fold.test_snapshot_fold import Mirror
from tests.integration.mirrored import INCREMENTAL, assert_equal
from tests.integration.snapshot_model import Row
from tests.integration.tenants import Tenants

CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DATE, at DATETIME(6) NOT NULL"
    " DEFAULT UTC_TIMESTAMP(6), KEY (at))",
    "INSERT INTO t (id, v, d) SELECT seq, CONCAT('v', seq), '0000-00-00' FROM seq_1_to_200",
)
MORE = (
    "UPDATE t SET v = CONCAT(v, '+'), at = UTC_TIMESTAMP(6) WHERE id IN (3, 77)",
    "INSERT INTO t (id, v) VALUES (1001, 'new'), (1002, NULL)",
)
AGAIN = (
    "UPDATE t SET v = NULL, d = '2026-01-01', at = UTC_TIMESTAMP(6) WHERE id = 5",
    "DELETE FROM t WHERE id IN (6, 1001)",
)
COPY, MERGE = "copy-on-write", "merge-on-read"
LAYERS = ("deduped", "clean")


def contract(mode: str | None) -> dict[str, Any]:
    table = {**INCREMENTAL, "clean": "table", "new_columns": "show"}
    return {"t": table | ({"write_mode": mode} if mode else {})}


def deletes_of(workspace: Workspace, identifier: Identifier) -> int:
    """How many delete files the version that is shown has, as its manifests say."""
    table = workspace.lake.load(identifier)
    assert table is not None
    files = table.inspect.files()["content"].to_pylist()
    return sum(content == DataFileContent.POSITION_DELETES.value for content in files)


def data_files(workspace: Workspace) -> set[str]:
    """The data files of deduped."""
    there = Identifier(workspace.config.table("t").namespaces.deduped, "t")
    table = workspace.lake.load(there)
    assert table is not None
    files = table.inspect.files().select(["content", "file_path"]).to_pylist()
    return {file["file_path"] for file in files if file["content"] == 0}


def deletes(workspace: Workspace) -> dict[str, int]:
    spaces = workspace.config.table("t").namespaces
    return {
        layer: deletes_of(workspace, Identifier(getattr(spaces, layer), "t")) for layer in LAYERS
    }


def sync(workspace: Workspace) -> Workspace:
    sync_table(workspace, workspace.config.table("t"))
    return workspace


@pytest.mark.parametrize("mode", [COPY, pytest.param(None, marks=pytest.mark.full)])
def test_a_fold_leaves_no_deletes_beside_files(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    mode: str | None,
) -> None:
    sql(*CREATE)
    sync(engine_for(contract(mode)))
    sql(*MORE)
    workspace = sync(engine_for(contract(mode)))
    assert deletes(workspace) == dict.fromkeys(LAYERS, 0 if mode else 1)
    assert_equal(workspace, server, database)


@pytest.mark.full
@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_a_repair_leaves_none_either(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    mode: str,
) -> None:
    sql(*CREATE)
    workspace = sync(engine_for(contract(mode)))
    sql(*AGAIN)
    sync(workspace)
    repair_table(workspace, workspace.config.table("t"), Ask())
    assert (deletes(workspace) == dict.fromkeys(LAYERS, 0)) is (mode == COPY)
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_another_mode_holds_from_the_next_fold_on(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    """Deletes of files that no fold touched go, too."""
    sql(*CREATE)
    sync(engine_for(contract(MERGE)))
    sql(MORE[0])
    workspace = sync(engine_for(contract(MERGE)))
    assert deletes(workspace) == dict.fromkeys(LAYERS, 1)
    sql(MORE[1])
    workspace = sync(engine_for(contract(COPY)))
    assert deletes(workspace) == dict.fromkeys(LAYERS, 0)
    assert_equal(workspace, server, database)
    sql(AGAIN[0])
    workspace = sync(engine_for(contract(MERGE)))
    assert deletes(workspace) == dict.fromkeys(LAYERS, 1)
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_deletes_go_though_other_files_stay(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a large table compaction writes those files again that have deletes, and no others."""
    monkeypatch.setattr(compaction, "sizes_of", lambda table: replace(sizes_of(table), least=0))
    sql(*CREATE)
    sync(engine_for(contract(MERGE)))
    for statement in MORE:
        sql(statement)
        sync(engine_for(contract(MERGE)))
    before = data_files(engine_for(contract(MERGE)))
    sql("UPDATE t SET v = 'last', at = UTC_TIMESTAMP(6) WHERE id = 1001")
    workspace = sync(engine_for(contract(COPY)))
    assert before & data_files(workspace), "a file without deletes is as it was"
    assert deletes(workspace) == dict.fromkeys(LAYERS, 0)
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_maintenance_takes_out_what_is_left(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    """A table that has nothing to fold since the setting changed keeps its deletes until then."""
    sql(*CREATE)
    sync(engine_for(contract(MERGE)))
    sql(MORE[0])
    workspace = sync(engine_for(contract(MERGE)))
    for layer in LAYERS:
        there = Identifier(getattr(workspace.config.table("t").namespaces, layer), "t")
        table = workspace.lake.load(there)
        assert table is not None
        assert not rewrites_files(table)
    workspace = sync(engine_for(contract(COPY)))
    maintain_table(workspace, workspace.config.table("t"))
    assert deletes(workspace) == dict.fromkeys(LAYERS, 0)
    assert_equal(workspace, server, database)


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place, database: str) -> Iterator[Tenants]:
    made = Tenants(server, place, database)
    yield made
    made.close()


@pytest.mark.full
@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_tenants(tenants: Tenants, mode: str) -> None:
    """Of two whose rows share a file, one moves."""
    buckets = [(bucket_of(tenants.name(f"t{n}")), f"t{n}") for n in range(100)]
    first, other = [name for bucket, name in buckets if bucket == buckets[0][0]][:2]
    tenants.contract |= {"write_mode": mode, "clean": "table"}
    for name in (first, other):
        tenants.make(name, "id INT PRIMARY KEY, v INT", "(1, 1)", "(2, 2)", "(3, NULL)")
    tenants.sync()
    tenants.run(first, "UPDATE orders SET v = 7 WHERE id = 2", "DELETE FROM orders WHERE id = 3")
    tenants.sync()
    assert tenants.deduped("id", "v") == tenants.mysql("id", "v")
    with tenants.opened() as (workspace, table):
        spaces = (table.namespaces.deduped, table.namespaces.clean)
        found = [deletes_of(workspace, Identifier(space, "orders")) for space in spaces]
    assert (found == [0, 0]) is (mode == COPY)


@pytest.mark.full
@pytest.mark.parametrize("mode", [COPY, MERGE])
def test_snapshots(place: Place, mode: str) -> None:
    mirror = Mirror(place, write_mode=mode)
    first: list[Row] = [(number, date(2026, 1, 1), "a", 0.0) for number in range(50)]
    changed: Row = (7, date(2026, 1, 1), "b", 0.0)
    mirror.fold(20260101, first)
    mirror.fold(20260102, [changed, *first[8:], *first[:7]])
    mirror.check()
    table = place.lake.load(mirror.table.identifier)
    assert table is not None
    assert table.properties["write.delete.mode"] == mode
    files = table.inspect.files()["content"].to_pylist()
    assert (sum(files) == 0) is (mode == COPY)
