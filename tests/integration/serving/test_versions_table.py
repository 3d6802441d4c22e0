"""The table of all versions (``versions: table``): the rows of the view over raw, for every engine.

Its rows are compared, as PyIceberg and DuckDB read them, with what is written down here, and with
what Spark makes of the view's own SQL.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.compute as _compute
import pytest

from demo.oracle import compare_rows
from demo.oracle_text import read_source
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.model import LakeTable, history
from mirrorlake.destinations.iceberg.tables.integrity import is_damaged
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.errors import LakeError
from mirrorlake.failpoints import OF_VERSIONS
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import reload_days
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.versions_tables import name_of, proven, shown, sync, table_of

pc: Any = _compute  # its functions are made at import: type checkers see none of them

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL: dict[str, Any] = {"mode": "full", "key": ["id"], "versions": "table"}
WINDOWS: dict[str, Any] = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "versions": "table",
    "overlap": "0s",
}
AT = "at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (at)"


def data_of(table: LakeTable) -> Path:
    return Path(table.location().removeprefix("file://")) / "data"


def files_of(table: LakeTable) -> set[str]:
    return {task.file.file_path for task in table.scan().plan_files()}


def test_the_published_example_for_every_engine(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE customer (id INT NOT NULL PRIMARY KEY, full_name VARCHAR(50))",
        "INSERT INTO customer VALUES (1, 'Ann'), (-2, NULL), (2147483647, '')",
    )
    workspace = engine_for({"customer": FULL})
    sync(workspace)
    assert shown(workspace, "id", "full_name") == [(-2, None), (1, "Ann"), (2147483647, "")]
    before = table_of(workspace)
    sql(
        "ALTER TABLE customer MODIFY id VARCHAR(36) CHARACTER SET ascii NOT NULL, "
        "DROP full_name, ADD email VARCHAR(80)",
        "DELETE FROM customer WHERE id = '-2'",
        "INSERT INTO customer VALUES ('9f-07', 'x@y.example'), ('007', NULL)",
    )
    sync(workspace)
    assert shown(workspace, "id", "full_name", "email") == [
        ("-2", None, None),
        ("1", "Ann", None),
        ("2147483647", "", None),
        ("007", None, None),
        ("1", None, None),
        ("2147483647", None, None),
        ("9f-07", None, "x@y.example"),
    ]
    versions = {hashed for (hashed,) in shown(workspace, "_mirror_version")}
    [contract] = workspace.config.tables
    assert versions == {v.hash for v in workspace.ledger.schema_versions(contract.name)}
    # Whoever reads the older version of the table still sees its columns.
    assert before.metadata.table_uuid == table_of(workspace).metadata.table_uuid


@pytest.mark.full
def test_only_what_moved_is_written(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, {AT})",
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 2)",
    )
    workspace = engine_for({"t": WINDOWS})
    sync(workspace)
    first = files_of(table_of(workspace))
    sync(workspace)
    heads = [one.snapshot_id for one in history(table_of(workspace))]
    sql("UPDATE t SET n = 3 WHERE id = 1", "INSERT INTO t (id, n) VALUES (4, NULL)")
    sync(workspace)
    assert first < files_of(table_of(workspace))
    assert heads[0] in {one.snapshot_id for one in history(table_of(workspace))}
    assert shown(workspace, "id", "n") == [(1, 1), (2, 2), (1, 3), (4, None)]
    # Wider, and one column more: in place.
    kept = files_of(table_of(workspace))
    sql(
        "ALTER TABLE t MODIFY n BIGINT, ADD s VARCHAR(9) DEFAULT 'x'",
        "UPDATE t SET n = 9223372036854775807 WHERE id = 2",
    )
    sync(workspace)
    assert kept < files_of(table_of(workspace))
    rows = shown(workspace, "id", "n", "s")
    assert rows[:4] == [(1, 1, None), (2, 2, None), (1, 3, None), (4, None, None)]
    assert rows[4:] == [(1, 3, "x"), (2, 9223372036854775807, "x"), (4, None, "x")]


@pytest.mark.full
def test_what_a_view_was_and_a_view_again(sql: Sql, engine_for: EngineFor, place: Place) -> None:
    sql(
        "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, `a,b` INT)",
        "INSERT INTO t VALUES (1, 7)",
    )
    as_view = {**FULL, "versions": "view"}
    workspace = engine_for({"t": as_view})
    sync(workspace)
    name = name_of(workspace)
    assert read_view(workspace.lake, name) is not None
    workspace = engine_for({"t": FULL})
    sync(workspace)
    assert read_view(workspace.lake, name) is None
    assert shown(workspace, "id", "a,b") == [(1, 7)]
    workspace = engine_for({"t": as_view})
    sync(workspace)
    assert workspace.lake.load(name) is None
    assert [tuple(row) for row in place.spark.get().table(name.sql).select("id").collect()] == [
        (1,)
    ]


@pytest.mark.full
def test_an_empty_table_can_be_read(sql: Sql, engine_for: EngineFor) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT)")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    assert shown(workspace, "id", "n") == []
    sql("INSERT INTO t VALUES (1, 2)")
    sync(workspace)
    assert shown(workspace, "id", "n") == [(1, 2)]


@pytest.mark.full
def test_what_somebody_else_wrote_is_made_again(
    sql: Sql, engine_for: EngineFor, caplog: pytest.LogCaptureFixture
) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    workspace.spark.get().sql(f"DELETE FROM {name_of(workspace).sql} WHERE id = 2")
    assert "was written to by somebody else" in proven(workspace).proof.words
    sync(workspace)
    assert shown(workspace, "id") == [(1,), (2,)]
    assert "written to by somebody else" in caplog.text
    assert proven(workspace).verdict == "equal"


def test_a_table_that_is_not_ours_is_left_alone(sql: Sql, engine_for: EngineFor) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    workspace = engine_for({"t": FULL})
    name = name_of(workspace)
    workspace.lake.make_namespace(name.namespace)
    workspace.spark.get().sql(f"CREATE TABLE {name.sql} (mine INT)")
    for kind in ("table", "view"):
        workspace = engine_for({"t": {**FULL, "versions": kind}})
        with pytest.raises(LakeError, match="was not made by Mirrorlake") as raised:
            sync(workspace)
        assert "Rename or drop it" in str(raised.value)
    assert table_of(workspace).schema().column_names == ["mine"]
    workspace = engine_for({"t": FULL})
    assert "of all versions was not made by Mirrorlake" in proven(workspace).proof.words


@pytest.mark.full
def test_a_reload_takes_out_what_it_replaced(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, {AT})",
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 2)",
    )
    workspace = engine_for({"t": WINDOWS})
    sync(workspace)
    for number in (3, 4):
        sql(f"INSERT INTO t (id, n) VALUES ({number}, {number})", "UPDATE t SET n = 9 WHERE id = 1")
        sync(workspace)
    before = files_of(table_of(workspace))
    sql("DELETE FROM t WHERE id = 4")
    [contract] = workspace.config.tables
    today = datetime.now(UTC).date()
    reload_days(workspace, contract, today, today)
    assert files_of(table_of(workspace)) == before
    assert proven(workspace).verdict == "equal"  # the load is not folded yet
    fold_table(workspace, contract)
    rows = shown(workspace, "id", "n", "_mirror_deleted")
    assert (4, None, True) in rows
    assert len({load for (load,) in shown(workspace, "_mirror_load")}) == 1
    # Nothing came, and all that it showed left: the last commit takes out rows alone.
    sql("UPDATE t SET n = 7 WHERE id = 2")
    sync(workspace)
    repair_table(workspace, contract, Ask("full"))
    shown(workspace, "id")
    heads = len(history(table_of(workspace)))
    sync(workspace)
    assert len(history(table_of(workspace))) == heads


CHANGES = {
    "only rows that came": (),
    "another type": ("ALTER TABLE t MODIFY n VARCHAR(20)",),
    "another name": ("ALTER TABLE t RENAME COLUMN n TO m",),
    "wider and one more": ("ALTER TABLE t MODIFY n BIGINT, ADD s INT DEFAULT 7",),
}


@pytest.mark.full
@pytest.mark.parametrize("point", OF_VERSIONS)
@pytest.mark.parametrize("change", CHANGES)
def test_who_dies_leaves_nothing_that_the_next_sync_does_not_find(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch, change: str, point: str
) -> None:
    sql(
        f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, {AT})",
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 2)",
    )
    workspace = engine_for({"t": WINDOWS})
    sync(workspace)
    rows = shown(workspace, "id")
    sql(*CHANGES[change], "INSERT INTO t (id) VALUES (3)")
    if change == "another name":
        renamed = {"m": {"pii": "show", "renamed_from": "n"}}
        workspace = engine_for({"t": {**WINDOWS, "columns": renamed}})
    seen: list[str] = []

    def die(name: str) -> None:
        seen.append(name)
        if name == point:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.serving.versions_write.failpoint", die)
        try:
            sync(workspace)
        except KeyboardInterrupt:
            late = point in ("versions.replaced", "versions.shown")
            ids = read_ids(workspace)
            assert ids == sorted(id for (id,) in rows) if not late else len(ids) > len(rows)
        else:
            # What is published has no branch of another origin to replace main by.
            assert point == "versions.replaced"
            assert change in ("only rows that came", "wider and one more")
    assert seen[-1] == point or point == "versions.replaced"
    sync(workspace)
    shown(workspace, "id")
    assert 3 in read_ids(workspace)
    assert proven(workspace).verdict == "equal"
    table = table_of(workspace)
    assert not [name for name in table.schema().column_names if name.startswith("_mirror_next")]
    if change == "another name":
        assert "n" not in table.schema().column_names
    [contract] = workspace.config.tables
    maintain_table(workspace, contract)
    assert list(table_of(workspace).metadata.refs) == ["main"]


@pytest.mark.full
def test_what_a_dead_run_wrote_beside_is_in_nobodys_way(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The column is written in one type beside the one that is shown, and then in another."""
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1, -5)")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    sql("ALTER TABLE t MODIFY n DECIMAL(5,2)")

    def die(name: str) -> None:
        if name == "versions.staged":
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.serving.versions_write.failpoint", die)
        with pytest.raises(KeyboardInterrupt):
            sync(workspace)
    assert "_mirror_next_n" in table_of(workspace).schema().column_names
    sql("ALTER TABLE t MODIFY n DECIMAL(20,5)")
    sync(workspace)
    rows = [(str(n),) for (n,) in shown(workspace, "n")]
    assert rows == [("-5.00000",)] * 3
    assert proven(workspace).verdict == "equal"


def read_ids(workspace: Workspace) -> list[int]:
    return sorted(table_of(workspace).scan().to_arrow()["id"].to_pylist())


@pytest.mark.full
def test_maintenance_keeps_it_as_other_tables(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(
        f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, n INT, {AT})",
        "INSERT INTO t (id, n) VALUES (1, 1), (2, 2)",
    )
    workspace = engine_for({"t": WINDOWS})
    sync(workspace)
    for number in range(3, 6):
        sql(f"INSERT INTO t (id, n) VALUES ({number}, {number})")
        sync(workspace)
    rows = shown(workspace, "id", "n")
    [contract] = workspace.config.tables
    monkeypatch.setattr("mirrorlake.operations.upkeep.maintain.RETAIN", 2)
    stray = data_of(table_of(workspace)) / "stray.parquet"
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    found = maintain_table(workspace, contract, Ages(keep=timedelta()))
    [made] = [one for one in found if one.layer == "versions"]
    assert (made.error, made.orphans, made.after.data_files, made.after.versions) == (None, 1, 1, 2)
    assert not stray.exists()
    assert shown(workspace, "id", "n") == rows
    # A compaction is nobody's word: what it shows is known still.
    heads = files_of(table_of(workspace))
    sql("INSERT INTO t (id, n) VALUES (6, 6)")
    sync(workspace)
    assert heads < files_of(table_of(workspace))
    stray.write_bytes(b"x")
    os.utime(stray, (0, 0))
    recover_table(workspace, contract, wait=False)
    assert not stray.exists()
    # Of a table that is not ours nothing is touched.
    workspace.lake.drop(name_of(workspace))
    spark = workspace.spark.get()
    spark.sql(f"CREATE TABLE {name_of(workspace).sql} (mine INT)")
    assert "versions" not in [one.layer for one in maintain_table(workspace, contract)]


@pytest.mark.full
@pytest.mark.parametrize("harm", ["a file that is gone", "metadata", "not there"])
def test_what_can_not_be_read_is_said_and_made_again(
    sql: Sql, engine_for: EngineFor, harm: str
) -> None:
    sql("CREATE TABLE t (id INT NOT NULL PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    workspace = engine_for({"t": FULL})
    sync(workspace)
    [contract] = workspace.config.tables
    table = table_of(workspace)
    if harm == "metadata":
        Path(table.metadata_location.removeprefix("file://")).write_bytes(b"{")
    elif harm == "not there":
        workspace.lake.drop(name_of(workspace))
    else:
        for file in data_of(table).rglob("*.parquet"):
            file.unlink()
    report = proven(workspace)
    assert report.verdict == "different"
    words = "is not there" if harm == "not there" else "can't be read"
    assert f"table {name_of(workspace)} of all versions {words}" in report.proof.words
    assert f"`mirrorlake refold {contract.name}` makes it again" in report.next_step
    assert is_damaged(workspace.lake, contract) == (harm != "not there")
    refold_table(workspace, contract)
    assert shown(workspace, "id") == [(1,), (2,)]
    assert proven(workspace).verdict == "equal"
    assert not is_damaged(workspace.lake, contract)


VALUES = {
    "tiny TINYINT": ("-128", "127", "NULL"),
    "big BIGINT UNSIGNED": ("18446744073709551615", "0", "NULL"),
    "money DECIMAL(38,10)": ("'-9999999999999999999999999999.9999999999'", "0.0000000001", "NULL"),
    "wide DECIMAL(65,30)": ("-1.000000000000000000000000000001", "0", "NULL"),
    "small FLOAT": ("3.4e38", "-1.17549e-38", "NULL"),
    "far DOUBLE": ("1.7976931348623157e308", "5e-324", "NULL"),
    "born DATE": ("'0000-00-00'", "'9999-12-31'", "NULL"),
    "at6 DATETIME(6)": ("'1000-01-01 00:00:00.000001'", "'2026-02-00 00:00:00'", "NULL"),
    "stamp TIMESTAMP(3) NULL": ("'2038-01-19 03:14:07.999'", "'0000-00-00'", "NULL"),
    "spent TIME(6)": ("'-838:59:59.000000'", "'00:00:00.000001'", "NULL"),
    "year4 YEAR": ("2155", "1901", "NULL"),
    "bits BIT(64)": ("b'1'", "18446744073709551615", "NULL"),
    "raw VARBINARY(9)": ("x'00ff'", "''", "NULL"),
    "words VARCHAR(9)": ("'é😀 '", "''", "NULL"),
    "doc JSON": ('\'{"b": 1.50, "a": [1e2]}\'', "'null'", "NULL"),
    "state ENUM('a','ç')": ("'ç'", "''", "NULL"),
    "flags SET('x','y')": ("'x,y'", "''", "NULL"),
}


@pytest.mark.full
@pytest.mark.parametrize("which", ["mariadb", "mysql8"])
def test_values_are_those_of_mysql(
    place: Place, which: str, request: pytest.FixtureRequest
) -> None:
    server: EmbeddedServer = request.getfixturevalue(which)
    database = f"v{uuid.uuid4().hex[:10]}"
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {database}")
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {', '.join(VALUES)})")
        for at in range(3):
            cells = ", ".join(values[at] for values in VALUES.values())
            cursor.execute(f"INSERT INTO t VALUES ({at}, {cells})")
        path = write_contract(
            place.folder / f"{database}.yaml", server.port, {database: {"tables": {"t": FULL}}}
        )
        workspace = Workspace.open(load_config(path), spark=place.spark)
        sync(workspace)
        assert_newest_is_mysql(workspace, admin, database)
        cursor.execute("ALTER TABLE t ADD COLUMN more INT DEFAULT 5 FIRST, DROP COLUMN state")
        sync(workspace)
        assert_newest_is_mysql(workspace, admin, database)
        cursor.execute(f"DROP DATABASE {database}")


def assert_newest_is_mysql(workspace: Workspace, admin: Any, database: str) -> None:
    """The rows of the newest copy are the source's table, by the oracle."""
    shown(workspace, "id")
    source = read_source(admin, database, "t")
    names = [*(column.name for column in source.columns), "_mirror_original"]
    rows = table_of(workspace).scan().to_arrow()
    newest = pc.equal(rows["_mirror_seq"], pc.max(rows["_mirror_seq"]))
    verdict = compare_rows(source, ["id"], rows.filter(newest).select(names))
    assert verdict.equal, verdict.describe()
    assert verdict.source_rows == 3
