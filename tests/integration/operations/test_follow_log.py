"""Tables of `mode: binlog`: after each sync the mirror is MySQL, row by row."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pymysql
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, LedgerError, SchemaError, SourceError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.loading.binlog import log_stream
from mirrorlake.operations.loading.follow_log import follow_tables
from mirrorlake.operations.loading.sync import reload_days, sync_table
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_tables
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.integration.hands import LakePart, set_back
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
TABLE = (
    "CREATE TABLE {} (id INT PRIMARY KEY, name VARCHAR(20), at DATETIME(3),"
    " amount DECIMAL(12,2) UNSIGNED, data JSON, UNIQUE (name))"
)


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def assert_equal(workspace: Workspace, server: EmbeddedServer, *names: str) -> None:
    for name in names or ("t",):
        contract = workspace.config.table(name)
        deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
        with server.admin() as admin:
            parts = (admin, contract.database, contract.table, contract.key, deduped)
            verdict = compare_table(*parts)
        others = [one for one in verdict.types if one[0] != DELETED_AT]
        rows = (verdict.missing, verdict.extra, verdict.changed)
        assert (*rows, others) == ((), (), (), []), verdict.describe()


def raw_rows(workspace: Workspace, contract: TableContract) -> list[dict[str, Any]]:
    versions = workspace.ledger.schema_versions(contract.name)
    table = workspace.lake.load(Identifier(contract.namespaces.raw, versions[-1].raw_table))
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: (row["_mirror_seq"], row["_mirror_event"] or 0))


def sync_all(workspace: Workspace) -> dict[str, Any]:
    found = {}
    for one in sync_tables(workspace, workspace.config.tables):
        assert one.error is None, one.error
        found[one.name.rpartition(".")[2]] = one.result
    return found


def test_each_change_of_rows_arrives(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(
        TABLE.format("t"),
        "INSERT INTO t VALUES (1, 'a', '2026-01-01', 1, '{}'), (2, 'b', 0, 2, NULL)",
    )
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    assert sync_table(workspace, contract).window == "initial"
    assert_equal(workspace, server)
    sql(
        "INSERT INTO t VALUES (3, 'c', '2026-01-01 00:00:00.125', 3, '[1, 2.50]')",
        "UPDATE t SET name = 'B', amount = NULL WHERE id = 2",
        "UPDATE t SET id = 10 WHERE id = 1",
        "DELETE FROM t WHERE id = 3",
        "REPLACE INTO t VALUES (2, 'x', NULL, 5, NULL)",
        "REPLACE INTO t VALUES (4, 'x', NULL, 6, NULL)",
        "INSERT INTO t VALUES (4, 'y', NULL, 7, NULL) ON DUPLICATE KEY UPDATE amount = 8",
        "INSERT INTO t VALUES (5, 'v', '0000-00-00', 7, NULL), (6, 'w', NULL, 7, NULL)",
        "UPDATE t SET id = id + 100 ORDER BY id DESC",
    )
    result = sync_table(workspace, contract)
    assert result.window == "log"
    assert_equal(workspace, server)
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    ops = [row["_mirror_op"] for row in raw_rows(workspace, contract)]
    assert {None, "insert", "update", "delete"} == set(ops)
    idle = sync_table(workspace, contract)
    assert (idle.window, idle.unchanged) == ("unchanged", "log")
    assert [load.window.kind for load in workspace.ledger.successful_loads(contract.name)] == [
        "initial",
        "log",
    ]


def kinds(workspace: Workspace, table: str) -> list[str]:
    name = workspace.config.table(table).name
    return [load.window.kind for load in workspace.ledger.successful_loads(name, ever=True)]


def two_loads(sql: Sql, engine_for: EngineFor) -> Workspace:
    """A table of two rows: one was copied, the other one came by the log."""
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    sql("INSERT INTO t (id) VALUES (2)")
    sync_all(workspace)
    return workspace


@pytest.mark.parametrize("layer", ["raw", "deduped"])
def test_a_layer_that_was_set_back_is_set_forward_and_followed_on(
    server: EmbeddedServer, place: Place, sql: Sql, engine_for: EngineFor, layer: str
) -> None:
    workspace = two_loads(sql, engine_for)
    contract = workspace.config.table("t")
    [version] = workspace.ledger.schema_versions(contract.name)
    spaces, names = contract.namespaces, {"raw": version.raw_table, "deduped": contract.table}
    set_back(LakePart(place, Identifier(getattr(spaces, layer), names[layer])))
    sql("INSERT INTO t (id) VALUES (3)")
    found = sync_table(workspace, contract)
    assert "set forward again" in str(found.put_right)
    assert kinds(workspace, "t") == ["initial", "log", "log"]
    assert_equal(workspace, server)


def test_all_tables_of_a_source_are_followed_in_one_stream(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("a"), TABLE.format("b"), TABLE.format("c"))
    workspace = engine_for({"a": LOG, "b": LOG})
    sync_all(workspace)
    sql("BEGIN", "INSERT INTO a (id) VALUES (1)", "INSERT INTO b (id) VALUES (1)", "COMMIT")
    workspace = engine_for({"a": LOG, "b": LOG, "c": LOG})
    found = sync_all(workspace)
    assert [found[name].window for name in "abc"] == ["log", "log", "initial"]
    assert_equal(workspace, server, *"abc")
    sql("INSERT INTO c (id) VALUES (1)", "UPDATE a SET name = 'x'")
    before = {n: workspace.ledger.log_progress(workspace.config.table(n).name) for n in "ab"}
    found = sync_all(workspace)
    assert [found[name].window for name in "abc"] == ["log", "unchanged", "log"]
    assert_equal(workspace, server, *"abc")
    after = {n: workspace.ledger.log_progress(workspace.config.table(n).name) for n in "ab"}
    places = {one.place for one in after.values() if one}
    assert len(places) == 1
    assert before["b"] != after["b"]
    assert kinds(workspace, "b") == ["initial", "log"]


@pytest.mark.parametrize(
    "ddl",
    [
        (
            TABLE.format("u"),
            "INSERT INTO u (id) VALUES (1), (77)",
            "RENAME TABLE t TO old, u TO t",
            "UPDATE t SET name = 'new' WHERE id = 1",
        ),
        pytest.param(
            (
                TABLE.format("u"),
                "RENAME TABLE t TO old, u TO t",
                "INSERT INTO t (id, name) VALUES (1, 'of u'), (55, 'too')",
                "RENAME TABLE t TO u, old TO t",
                "UPDATE t SET amount = 3 WHERE id = 1",
            ),
            marks=pytest.mark.full,
        ),
        pytest.param(
            (
                "CREATE TABLE p (id INT PRIMARY KEY)",
                "INSERT INTO p SELECT id FROM t",
                "ALTER TABLE t ADD CONSTRAINT c FOREIGN KEY (id) REFERENCES p (id)"
                " ON DELETE CASCADE",
                "DELETE FROM p WHERE id = 2",
                "ALTER TABLE t DROP FOREIGN KEY c",
            ),
            marks=pytest.mark.full,
        ),
    ],
    ids=["swap", "swap-back", "cascade"],
)
def test_a_table_that_got_other_rows_is_read_again_as_a_whole(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, ddl: tuple[str, ...]
) -> None:
    rows = "INSERT INTO {} (id, name) VALUES (1, 'a'), (2, 'b')"
    sql(TABLE.format("t"), TABLE.format("other"), rows.format("t"), rows.format("other"))
    workspace = engine_for({"t": LOG, "other": LOG})
    sync_all(workspace)
    sql("INSERT INTO t (id) VALUES (3)", *ddl, "UPDATE other SET amount = 1")
    found = sync_all(workspace)
    assert_equal(workspace, server, "t", "other")
    assert found["other"].window == "log"
    assert found["t"].changed
    assert "initial" in kinds(workspace, "t")[1:]
    sql("INSERT INTO t (id) VALUES (500)", "DELETE FROM t WHERE id = 1")
    assert sync_all(workspace)["t"].window == "log"
    assert_equal(workspace, server, "t", "other")


@pytest.mark.parametrize(
    "ddl",
    [
        pytest.param(("ALTER TABLE t DROP PARTITION p0",), marks=pytest.mark.full),
        pytest.param(("ALTER TABLE t TRUNCATE PARTITION p0",), marks=pytest.mark.full),
        (
            "INSERT INTO u VALUES (7, 'of u')",
            "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
            "INSERT INTO t VALUES (8, 'in between')",
            "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
        ),
    ],
    ids=["drop", "truncate", "exchange-twice"],
)
def test_rows_that_come_and_go_with_partitions(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, ddl: tuple[str, ...]
) -> None:
    columns = "(id INT PRIMARY KEY, name VARCHAR(20))"
    parts = "(PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
    sql(
        f"CREATE TABLE t {columns} PARTITION BY RANGE (id) {parts}",
        f"CREATE TABLE u {columns}",
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'), (11, 'c')",
    )
    workspace = engine_for({"t": {**LOG, "shrink_limit": None}})
    sync_all(workspace)
    sql("UPDATE t SET name = 'x' WHERE id = 11", *ddl, "INSERT INTO t VALUES (12, 'd')")
    sync_all(workspace)
    assert_equal(workspace, server)
    sql("ALTER TABLE t ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))")
    sql("INSERT INTO t VALUES (21, 'e')")
    sync_all(workspace)
    assert_equal(workspace, server)


@pytest.mark.full
def test_a_prepared_transaction_that_ends_later(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Before the copy it is in no log that is read; after it, its rows are where it began."""
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    with server.admin(database) as admin, admin.cursor() as cursor:
        for number in (10, 20):
            cursor.execute(f"XA START 'x{number}'")
            cursor.execute(f"INSERT INTO t (id) VALUES ({number})")
            for word in ("END", "PREPARE"):
                cursor.execute(f"XA {word} 'x{number}'")
            sync_table(workspace, contract)
            sql(f"INSERT INTO t (id) VALUES ({number + 1})")
            sync_table(workspace, contract)
            cursor.execute(f"XA COMMIT 'x{number}'")
            sync_table(workspace, contract)
            assert_equal(workspace, server)
    assert kinds(workspace, "t") == ["initial", "log", "initial", "log", "log"]


@pytest.mark.full
def test_a_large_transaction_is_loaded_as_a_whole(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_stream, "LIMITS", BatchLimits(rows=10))
    sql(TABLE.format("t"), TABLE.format("u"))
    workspace = engine_for({"t": LOG, "u": LOG})
    sync_all(workspace)
    many = ", ".join(f"({n}, 'name {n}')" for n in range(100))
    sql(
        "INSERT INTO t (id) VALUES (1000)",
        "BEGIN",
        *(f"INSERT INTO t (id, name) VALUES ({n}, 'name {n}')" for n in range(60)),
        f"INSERT INTO u (id, name) VALUES {many}",
        "UPDATE t SET id = id + 1 ORDER BY id DESC",
        "COMMIT",
        *(f"INSERT INTO t (id) VALUES ({n})" for n in range(2000, 2025)),
    )
    sync_all(workspace)
    assert_equal(workspace, server, "t", "u")
    contract = workspace.config.table("t")
    rows = [row for row in raw_rows(workspace, contract) if row["_mirror_op"]]
    of_large = {row["_mirror_seq"] for row in rows if row["name"]}
    assert len(of_large) == 1
    assert len(kinds(workspace, "t")) > 2


def test_a_purged_log_has_its_tables_read_again(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), TABLE.format("u"))
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    sql("INSERT INTO t (id) VALUES (1)", "FLUSH BINARY LOGS", "INSERT INTO u (id) VALUES (1)")
    workspace = engine_for({"t": LOG, "u": LOG})
    sync_table(workspace, workspace.config.table("u"))
    newest = sql("SHOW BINARY LOGS")[-1][0]
    deadline = time.monotonic() + 20
    while len(sql("SHOW BINARY LOGS")) > 1:
        # A file that a closed reader's thread still has open stays.
        sql(f"PURGE BINARY LOGS TO '{newest}'")
        assert time.monotonic() < deadline
        time.sleep(0.2)
    sql("UPDATE u SET name = 'x'", "DELETE FROM t")
    found = sync_all(workspace)
    assert (found["t"].window, found["u"].window) == ("initial", "log")
    assert "purged" in found["t"].changed
    assert_equal(workspace, server, "t", "u")


def test_what_the_log_does_not_have_is_refused(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(
        "CREATE TABLE p (id INT PRIMARY KEY)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT,"
        " FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM",
    )
    workspace = engine_for({"child": LOG, "m": LOG, "p": LOG})
    with pytest.raises(SchemaError, match=r"child: .*foreign key \(p\).*may not be in the log"):
        sync_table(workspace, workspace.config.table("child"))
    with pytest.raises(SchemaError, match=r"m: .*MyISAM"):
        sync_table(workspace, workspace.config.table("m"))
    sql("SET GLOBAL binlog_row_metadata = 'MINIMAL'")
    try:
        with pytest.raises(SourceError, match="Run SET GLOBAL binlog_row_metadata = FULL"):
            sync_table(workspace, workspace.config.table("p"))
    finally:
        sql("SET GLOBAL binlog_row_metadata = 'FULL'")
    day = sync_table(workspace, workspace.config.table("p")).moment[:10]
    days = date.fromisoformat(day), date.fromisoformat(day)
    with pytest.raises(ConfigError, match="the log has them once"):
        reload_days(workspace, workspace.config.table("p"), *days)


@pytest.mark.full
def test_columns_that_are_named_or_left_out_otherwise(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(
        "CREATE TABLE t (id VARCHAR(10) PRIMARY KEY, a DATE, `Weird name` DATE, secret INT,"
        " twice INT AS (id * 2) VIRTUAL, kept INT AS (id * 3) STORED)",
        "INSERT INTO t (id, a, secret) VALUES ('1', '0000-00-00', 7)",
    )
    columns = {
        "secret": {"pci": "never"},
        "Weird name": {"name_in_lake": "plain", "pii": "show"},
        "a": {"name_in_lake": "z", "pii": "show"},
    }
    workspace = engine_for({"t": {**LOG, "columns": columns}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(
        "INSERT INTO t (id, a, `Weird name`, secret) VALUES ('2', '0000-00-00', '2026-02-30', 8),"
        " ('3', '2026-01-01', '0000-00-00', 9)",
        "UPDATE t SET id = '12' WHERE id = '1'",
    )
    assert sync_table(workspace, contract).window == "log"
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    assert prove_raw_layer(workspace, contract).verdict == "equal"


@pytest.mark.parametrize("deletes", ["flag", pytest.param("ignore", marks=pytest.mark.full)])
def test_deletes_are_kept_where_the_contract_says_so(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, deletes: str
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    workspace = engine_for({"t": {**LOG, "deletes": deletes}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("DELETE FROM t WHERE id < 3", "INSERT INTO t (id, name) VALUES (2, 'again')")
    sync_table(workspace, contract)
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    table = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert table is not None
    rows = {row["id"]: row for row in table.scan().to_arrow().to_pylist()}
    assert [rows[n]["name"] for n in (1, 2, 3)] == ["a", "again", "c"]
    if deletes == "flag":
        assert [rows[n][DELETED_AT] is not None for n in (1, 2, 3)] == [True, False, False]


STEPS = [
    *("ledger.created", "ledger.pending", "chunk.written", "commit.before", "commit.after"),
    *("ledger.success", "log.table", "log.progress", "ledger.pending:2", "commit.after:2"),
]


@pytest.mark.full
def test_a_run_that_dies_at_any_step_loses_nothing_and_adds_nothing_twice(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, runner: Runner
) -> None:
    sql(TABLE.format("a"), TABLE.format("b"))
    workspace = engine_for({"a": LOG, "b": LOG})
    sync_all(workspace)
    killed = 0
    for number, step in enumerate(STEPS):
        at = 100 * number
        for name in "ab":
            sql(
                f"INSERT INTO {name} (id, name) VALUES ({at}, 'x{at}'), ({at + 1}, NULL)",
                f"UPDATE {name} SET id = id + 50 WHERE id = {at}",
                f"DELETE FROM {name} WHERE id = {at - 99}",
            )
        parts = ("sync", "--jobs", "1")
        order = Order(workspace.config.path, act="command", failpoint=step, arguments=parts)
        run = runner.run(order)
        killed += run.code == -signal.SIGKILL
        assert run.code == -signal.SIGKILL, (step, run.code, run.error)
        sql(f"UPDATE a SET amount = {number}", f"INSERT INTO b (id) VALUES ({at + 7})")
        sync_all(workspace)
        assert_equal(workspace, server, "a", "b")
    assert killed == len(STEPS)
    for name in "ab":
        contract = workspace.config.table(name)
        rows = raw_rows(workspace, contract)
        inserted = Counter(row["id"] for row in rows if row["_mirror_op"] == "insert")
        assert set(inserted.values()) == {1}
        assert prove_raw_layer(workspace, contract).verdict == "equal"


def test_two_syncs_side_by_side(server: EmbeddedServer, sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.format("t"), TABLE.format("u"))
    tables = {"t": LOG, "u": LOG}
    workspace = engine_for(tables)
    sync_all(workspace)
    sql(*(f"INSERT INTO {name} (id) VALUES ({n})" for n in range(50) for name in "tu"))
    found: list[Any] = []

    def run() -> None:
        with Workspace.open(workspace.config, spark=workspace.spark) as other:
            found.extend(follow_tables(other, other.config.tables).values())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sync_all(workspace)
    assert_equal(workspace, server, "t", "u")
    for name in "tu":
        rows = raw_rows(workspace, workspace.config.table(name))
        assert Counter(row["id"] for row in rows) == Counter(range(50))


def test_a_ledger_that_was_lost_knows_from_where_to_read_on(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, tmp_path: Path
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (5)")
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("INSERT INTO t (id) VALUES (1), (2)")
    sync_table(workspace, contract)
    url = f"sqlite:///{tmp_path / 'other.db'}"
    ledger = workspace.config.ledger.model_copy(update={"url": url})
    config = workspace.config.model_copy(update={"ledger": ledger})
    with pytest.raises(LedgerError, match="it was lost"):
        Workspace.open(config, spark=workspace.spark)
    rebuild_tables(config, Ledger(url), config.tables)
    with Workspace.open(config, spark=workspace.spark) as other:
        sql("DELETE FROM t WHERE id = 1", "INSERT INTO t (id) VALUES (3)")
        sync_table(other, contract)
        assert_equal(other, server)
        assert kinds(other, "t") == ["initial", "log", "log"]


# MySQL 9 has another statement for it, which 8.0.12 has not yet.
@pytest.mark.parametrize("on_mysql8_too_in_full", ["mariadb"], indirect=True)
@pytest.mark.full
def test_a_log_that_was_begun_again_has_its_tables_read_again(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), "RESET MASTER", "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    time.sleep(1.1)  # a file knows when it was begun to the second
    sql("RESET MASTER", "INSERT INTO t (id) VALUES (2)", "UPDATE t SET id = 7 WHERE id = 1")
    found = sync_all(workspace)
    assert found["t"].window == "initial"
    assert_equal(workspace, server)


ROW_IDS = st.integers(0, 8)
CHANGES = st.lists(
    st.one_of(
        st.tuples(
            st.just("REPLACE INTO {} (id, name, amount) VALUES ({}, '{}', 1)"), ROW_IDS, ROW_IDS
        ),
        st.tuples(st.just("UPDATE IGNORE {} SET id = {} WHERE id = {}"), ROW_IDS, ROW_IDS),
        st.tuples(st.just("UPDATE {} SET amount = {} WHERE id <> {}"), ROW_IDS, ROW_IDS),
        st.tuples(st.just("DELETE FROM {} WHERE id IN ({}, {})"), ROW_IDS, ROW_IDS),
        st.tuples(st.sampled_from(["BEGIN", "COMMIT", "ROLLBACK", "sync"]), ROW_IDS, ROW_IDS),
    ),
    max_size=25,
)


@pytest.mark.full
@given(changes=st.lists(st.tuples(st.sampled_from("tu"), CHANGES), min_size=1, max_size=4))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_histories(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, changes: Any
) -> None:
    with contextlib.suppress(pymysql.Error):
        sql("ROLLBACK")
    sql("DROP TABLE IF EXISTS t, u", TABLE.format("t"), TABLE.format("u"))
    # An example's tables take the place of the last one's.
    any_size = {**LOG, "shrink_limit": None}
    workspace = engine_for({"t": any_size, "u": any_size})
    sync_all(workspace)
    for name, some in changes:
        for text, one, two in some:
            if text == "sync":
                follow_tables(workspace, workspace.config.tables)
            else:
                sql(text.format(name, one, two) if " " in text else text)
    sql("COMMIT")
    sync_all(workspace)
    assert_equal(workspace, server, "t", "u")


@pytest.mark.full
def test_a_check_knows_what_the_log_was_not_followed_to(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    workspace = engine_for({"t": LOG})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("DELETE FROM t WHERE id = 1", "UPDATE t SET name = 'x' WHERE id = 2")
    waiting = check_table(workspace, contract, Ask("full"))
    assert waiting.verdict == "undecided", waiting
    assert any("of the log of" in words for words in waiting.undecided)
    sync_table(workspace, contract)
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    # What the log does not say: a row that was changed where nothing is logged.
    sql("SET sql_log_bin = 0", "UPDATE t SET name = 'y' WHERE id = 2", "SET sql_log_bin = 1")
    time.sleep(2.5)  # the server says to the second when a table was changed
    assert sync_table(workspace, contract).window == "unchanged"
    assert check_table(workspace, contract, Ask("full")).verdict == "different"
    assert repair_table(workspace, contract, Ask("full")).after.verdict == "equal"
    assert_equal(workspace, server)
    sql("UPDATE t SET name = 'last' WHERE id = 2", "DELETE FROM t WHERE id = 3")
    sync_table(workspace, contract)
    assert_equal(workspace, server)


COMMANDS = (
    *(("status",), ("gaps",), ("plan",), ("doctor",), ("check", "t"), ("repair", "t")),
    *(("proof", "t"), ("schema", "t"), ("recover",), ("refold", "t"), ("maintain",)),
    *(("readers", "t"), ("sync",), ("sync", "t"), ("backfill", "t"), ("plan", "sync")),
    *(("preflight", "ALTER TABLE {}.t ADD COLUMN more INT"), ("preflight", "DROP TABLE {}.t")),
    ("preflight", "ALTER TABLE {}.t ADD INDEX (amount)"),
    ("invalidate", "t", "--from", "2026-01-01", "--to", "2026-01-02", "--reason", "x"),
)


@pytest.mark.full
def test_every_command_takes_such_a_table(
    server: EmbeddedServer,
    place: Place,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_session(place, monkeypatch)
    sql(TABLE.format("t"), "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    sql("DELETE FROM t WHERE id = 1")
    sync_all(workspace)
    failed = {}
    for command in COMMANDS:
        words = [word.format(workspace.config.table("t").database) for word in command]
        done = CliRunner().invoke(cli, [*words, "--config", str(workspace.config.path)])
        if done.exit_code not in (0, 10, 20):
            failed[command] = (done.exit_code, done.output[-600:], done.exception)
    assert not failed
    assert_equal(workspace, server)
