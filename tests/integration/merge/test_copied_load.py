"""A layer that holds one load's rows takes copies of the load's files: readers and later folds meet a
table as Spark would have written it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import BucketTransform

from demo.embedded import EmbeddedServer
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits import copied_files
from mirrorlake.destinations.iceberg.commits.copied_files import COPIED
from mirrorlake.destinations.iceberg.model import LakeTable, snapshot_property
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeDamaged
from mirrorlake.merge import copied_load, fold
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.workspace import Workspace
from tests.integration.lakes import READERS
from tests.integration.mirrored import INCREMENTAL, assert_equal

EngineFor = Callable[..., Workspace]
FULL = {"mode": "full", "key": ["id"]}
CREATE = (
    "CREATE TABLE t (id INT UNSIGNED PRIMARY KEY, v VARCHAR(20), d DATE, n DECIMAL(38, 12),"
    " big BIGINT UNSIGNED, b BIT(9), x BLOB, e ENUM('a','b'), at TIMESTAMP(6) NOT NULL"
    " DEFAULT UTC_TIMESTAMP(6), KEY (at))",
    "INSERT INTO t (id, v, d, n, big, b, x, e) SELECT seq * 3, CONCAT('v', seq), '0000-00-00',"
    " -seq / 7, 18446744073709551615 - seq, seq, CHAR(seq), 'b' FROM seq_1_to_400",
)


def layer(workspace: Workspace, name: str) -> LakeTable:
    spaces = workspace.config.table("t").namespaces
    found = workspace.lake.load(Identifier(getattr(spaces, name), "t"))
    assert found is not None
    return found


def is_copied(workspace: Workspace, name: str = "deduped") -> bool:
    head = layer(workspace, name).current_snapshot()
    return head is not None and snapshot_property(head, COPIED) is not None


def sync(workspace: Workspace) -> None:
    sync_table(workspace, workspace.config.table("t"))


@pytest.mark.parametrize(
    "contract",
    [FULL, pytest.param(INCREMENTAL, marks=pytest.mark.full)],
    ids=["full", "incremental"],
)
def test_a_first_load_is_copied_and_all_that_follows_is_right(
    sql: Any,
    server: EmbeddedServer,
    database: str,
    engine_for: EngineFor,
    contract: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(*CREATE)
    workspace = engine_for({"t": {**contract, "clean": "table", "new_columns": "show"}})
    with monkeypatch.context() as no_spark:
        for way in ("get", "start_early"):
            no_spark.setattr(LazySpark, way, lambda _: pytest.fail("Spark was started"))
        sync(workspace)
    assert is_copied(workspace)
    assert is_copied(workspace, "clean")
    assert_equal(workspace, server, database)
    raw = {p.name for p in Path(layer(workspace, "deduped").location()[7:]).rglob("*.parquet")}
    assert len(raw) == 1  # a file of its own
    for statements in (
        ("UPDATE t SET v = NULL, at = UTC_TIMESTAMP(6) WHERE id IN (3, 600)",),
        ("INSERT INTO t (id, v) VALUES (1, 'new')",),
        # A new column's id is none that raw's own columns have in the copied files.
        ("ALTER TABLE t ADD COLUMN w VARCHAR(30), ADD COLUMN z DATETIME(3)",),
        ("UPDATE t SET w = 'there', z = NOW(3), at = UTC_TIMESTAMP(6) WHERE id < 30",),
    ):
        sql(*statements)
        sync(workspace)
        assert_equal(workspace, server, database)
    maintain_table(workspace, workspace.config.table("t"))
    assert_equal(workspace, server, database)


def test_the_copy_reads_the_same_by_every_engine(sql: Any, engine_for: EngineFor) -> None:
    sql(*CREATE)
    workspace = engine_for({"t": {**FULL, "clean": "table"}})
    sync(workspace)
    table = layer(workspace, "deduped")
    names = [field.name for field in table.schema().fields]
    found = [read(table).select(names).sort_by("id").to_pylist() for read in READERS.values()]
    space = workspace.config.table("t").namespaces.deduped
    sparks = workspace.spark.get().table(f"lake.{space}.t").orderBy("id").toArrow().to_pylist()
    plain = [[_plain(row) for row in rows] for rows in (*found, sparks)]
    assert len(plain[0]) == 400
    assert plain[0] == plain[1] == plain[2]


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row with moments in UTC, however an engine says the zone's name."""
    return {k: v.timestamp() if hasattr(v, "timestamp") else v for k, v in row.items()}


@pytest.mark.parametrize("rule", ["mask", "drop"])
def test_a_layer_with_a_rule_is_written_by_spark(
    sql: Any, engine_for: EngineFor, rule: str
) -> None:
    """Nothing of a column that it hides may stand in its files, whatever its schema says."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))",
        "INSERT INTO t SELECT seq, CONCAT('v', seq) FROM seq_1_to_400",
    )
    workspace = engine_for({"t": {**FULL, "clean": "table", "columns": {"v": {"pii": rule}}}})
    sync(workspace)
    assert is_copied(workspace)
    assert not is_copied(workspace, "clean")
    files = list(Path(layer(workspace, "clean").location()[7:]).rglob("*.parquet"))
    texts = {str(pq.read_table(path).to_pylist()) for path in files}
    assert not [text for text in texts if "v399" in text]


def test_a_small_copy_that_changed_replaces_the_files(
    sql: Any, server: EmbeddedServer, database: str, engine_for: EngineFor
) -> None:
    """Where a copy is read whole: of a table without a key no row can be told from another."""
    sql(*CREATE, "ALTER TABLE t DROP PRIMARY KEY")
    workspace = engine_for({"t": {"mode": "full", "key": []}})
    for statement in ("DO 1", "DELETE FROM t WHERE id < 90", "INSERT INTO t (id) VALUES (1), (1)"):
        sql(statement)
        sync(workspace)
        assert is_copied(workspace)
        assert_equal(workspace, server, database)


def test_an_empty_table_needs_no_spark_and_fills(
    sql: Any,
    server: EmbeddedServer,
    database: str,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(CREATE[0])
    workspace = engine_for({"t": FULL})
    with monkeypatch.context() as no_spark:
        for way in ("get", "start_early"):
            no_spark.setattr(LazySpark, way, lambda _: pytest.fail("Spark was started"))
        for statement in ("DO 1", CREATE[1]):
            sql(statement)
            sync(workspace)
    assert is_copied(workspace)
    assert_equal(workspace, server, database)


def test_a_layer_that_others_partitioned_is_written_by_spark(
    sql: Any, server: EmbeddedServer, database: str, engine_for: EngineFor
) -> None:
    sql(*CREATE, "ALTER TABLE t DROP PRIMARY KEY")
    workspace = engine_for({"t": {"mode": "full", "key": []}})
    sync(workspace)
    with layer(workspace, "deduped").update_spec() as spec:
        spec.add_field("id", BucketTransform(4), "by_id")
    sql("DELETE FROM t WHERE id < 90")
    sync(workspace)
    assert not is_copied(workspace)
    assert_equal(workspace, server, database)


def test_a_copy_whose_commit_fails_leaves_no_file(
    sql: Any, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(*CREATE)
    workspace = engine_for({"t": FULL})
    monkeypatch.setattr(copied_files, "_commit", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sync(workspace)
    space = workspace.config.table("t").namespaces.deduped
    assert not list(Path(workspace.lake.location(Identifier(space, "t"))[7:]).rglob("*.parquet"))


def test_a_file_that_rots_while_it_is_copied_is_refused(
    sql: Any, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was whole when the fold compared it."""
    sql(*CREATE)
    workspace = engine_for({"t": FULL})
    before = copied_load.copied_load

    def rotten(*parts: Any) -> Any:
        found = before(*parts)
        [(copied, _)] = found.files
        file = Path(copied.file_path.removeprefix("file://"))
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.chmod(0o600)
        file.write_bytes(content)
        return found

    monkeypatch.setattr(fold, "copied_load", rotten)
    with pytest.raises(LakeDamaged, match="other bytes"):
        sync(workspace)
    space = workspace.config.table("t").namespaces.deduped
    assert workspace.lake.load(Identifier(space, "t")) is None, "nobody sees a first load in part"
    assert not list(Path(workspace.lake.location(Identifier(space, "t"))[7:]).rglob("*.parquet"))
