"""A layer that holds one load's rows takes copies of the load's files: readers and later folds meet a
table as Spark would have written it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.transforms import BucketTransform

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits import copied_files
from mirrorlake.destinations.iceberg.commits.copied_files import COPIED
from mirrorlake.destinations.iceberg.model import LakeTable, snapshot_property
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.errors import LakeDamaged
from mirrorlake.load.copies import copies
from mirrorlake.merge import copied_load, fold
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
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


@pytest.mark.full
def test_a_copied_layer_lives_as_any_other_and_by_itself(
    sql: Any, server: EmbeddedServer, database: str, engine_for: EngineFor
) -> None:
    """Before and after a MERGE, a compaction, a rollback, and Spark's own expiry and removal of
    orphans on either table: every engine reads MySQL's rows, and neither loses a file to the
    other."""
    sql(*CREATE)
    workspace = engine_for({"t": {**INCREMENTAL, "clean": "view"}})
    sync(workspace)
    assert is_copied(workspace)
    spaces, spark = workspace.config.table("t").namespaces, workspace.spark.get()
    deduped = f"{spaces.deduped}.t"
    raw_name = next(iter(workspace.ledger.successful_loads(workspace.config.table("t").name)))
    raw = f"{spaces.raw}.{raw_name.raw_table}"

    def call(procedure: str, table: str, more: str = "") -> None:
        spark.sql(f"CALL lake.system.{procedure}(table => '{table}'{more})").collect()

    def rows() -> list[dict[str, Any]]:
        """What every engine reads."""
        table = layer(workspace, "deduped")
        names = [field.name for field in table.schema().fields]
        spark.catalog.refreshTable(f"lake.{deduped}")
        found = [read(table).select(names).sort_by("id").to_pylist() for read in READERS.values()]
        found.append(spark.table(f"lake.{deduped}").orderBy("id").toArrow().to_pylist())
        plain = [[_plain(row) for row in one] for one in found]
        assert plain[0] == plain[1] == plain[2]
        return plain[0]

    first, copied = rows(), layer(workspace, "deduped").current_snapshot()
    assert copied is not None
    sql("UPDATE t SET v = 'merged', at = UTC_TIMESTAMP(6) WHERE id IN (3, 600)")
    sync(workspace)
    assert not is_copied(workspace)
    merged = rows()
    assert len([row for row in merged if row["v"] == "merged"]) == 2
    # Raw's files go, as if each were an orphan or expired; then the layer's.
    soon = datetime.now(UTC) + timedelta(days=2)
    late = f", older_than => TIMESTAMP '{soon:%Y-%m-%d %H:%M:%S}'"
    call("rewrite_data_files", raw, ", options => map('rewrite-all', 'true')")
    call("expire_snapshots", raw, f"{late}, retain_last => 1")
    _remove_orphans(spark, raw)
    assert rows() == merged
    call("rollback_to_snapshot", deduped, f", snapshot_id => {copied.snapshot_id}")
    assert rows() == first, "the files that were copied are there as they were"
    raw_before = _rows_of(spark, raw)
    call("rewrite_data_files", deduped, ", options => map('rewrite-all', 'true')")
    assert rows() == first
    call("expire_snapshots", deduped, f"{late}, retain_last => 1")
    _remove_orphans(spark, deduped)
    assert rows() == first
    assert _rows_of(spark, raw) == raw_before


def _remove_orphans(spark: Any, table: str) -> None:
    """Spark's own removal. It asks for files that are a day old, so it is given a listing in which
    all are."""
    location = spark.sql(f"DESCRIBE TABLE EXTENDED lake.{table}").where("col_name = 'Location'")
    [folder] = [row.data_type for row in location.collect()]
    listed = [
        (str(path), datetime(2020, 1, 1, tzinfo=UTC))
        for path in Path(folder.removeprefix("file:")).rglob("*")
        if path.is_file() and not path.name.endswith(".crc")
    ]
    frame = spark.createDataFrame(listed, "file_path string, last_modified timestamp")
    frame.createOrReplaceTempView("listed")
    spark.sql(
        f"CALL lake.system.remove_orphan_files(table => '{table}', file_list_view => 'listed',"
        " prefix_mismatch_mode => 'IGNORE')"
    ).collect()


def _rows_of(spark: Any, table: str) -> list[Any]:
    spark.catalog.refreshTable(f"lake.{table}")
    return sorted(spark.table(f"lake.{table}").select("id", "v", "_mirror_seq").collect())


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


@pytest.mark.full
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


@pytest.mark.full
def test_a_large_copy_that_mostly_changed_replaces_the_files(
    sql: Any,
    server: EmbeddedServer,
    database: str,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A MERGE would read and write most rows; one of few is Spark's, and what it deleted from is
    not put together by copies."""
    monkeypatch.setattr(copies, "SMALL_ROWS", 10)
    monkeypatch.setattr(fold, "SMALL_COPY", 10)
    sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    sql("INSERT INTO t SELECT seq, CONCAT('v', seq) FROM seq_1_to_400", "ANALYZE TABLE t")
    workspace = engine_for({"t": {**FULL, "verify": True}})
    sync(workspace)
    before = layer(workspace, "deduped").current_snapshot()
    with monkeypatch.context() as no_spark:
        no_spark.setattr(LazySpark, "get", lambda _: pytest.fail("Spark was started"))
        sql("UPDATE t SET v = CONCAT('new', id) WHERE id > 90", "DELETE FROM t WHERE id < 20")
        sync(workspace)
    assert is_copied(workspace)
    assert layer(workspace, "deduped").current_snapshot() != before
    assert_equal(workspace, server, database)
    for statement in ("UPDATE t SET v = 'x' WHERE id = 100", "UPDATE t SET v = CONCAT('y', id)"):
        sql(statement)
        sync(workspace)
        assert not is_copied(workspace)
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


@pytest.mark.full
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
    monkeypatch.setattr(copied_files, "replace_files", lambda *_: 1 / 0)
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
