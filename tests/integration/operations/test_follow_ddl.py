"""Tables of `mode: binlog` that are altered: what the log tells of it is followed, the rest read
again as a whole; after either the mirror is MySQL, row by row."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.loading.follow_log import follow_tables
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import LOG, assert_equal, kinds, sync_all
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), at DATETIME(3),"
    " amount DECIMAL(12,2) UNSIGNED, data JSON, note CHAR(5), kind ENUM('a','b') NOT NULL)"
)
ROWS = (
    "INSERT INTO t VALUES (1, 'a', '2026-01-01', 1, '{}', 'x', 'a'), (2, 'b', 0, 2, NULL, NULL, 'b'),"
    " (3, 'c', NULL, NULL, NULL, '', 'a')"
)

STRICT = "SET sql_mode = 'STRICT_TRANS_TABLES'"
"""Without it the zero date may be another one after any statement that alters a table in MySQL."""


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


FOLLOWED = {
    "null": ("ALTER TABLE t ADD COLUMN more INT",),
    "null-first": ("ALTER TABLE t ADD COLUMN more DATETIME(6) NULL FIRST",),
    "default": (
        "ALTER TABLE t ADD COLUMN more INT NOT NULL DEFAULT 7, ADD price DECIMAL(10,3) DEFAULT 1.5,"
        " ADD word VARCHAR(9) DEFAULT 'it', ADD day DATE DEFAULT '2026-02-28',"
        " ADD which ENUM('p','q') NOT NULL, ADD big BIGINT UNSIGNED NOT NULL",
        "UPDATE t SET more = 8 WHERE id = 2",
    ),
    # Of MariaDB: types that the log does not tell from others.
    "told-by-server": (
        "ALTER TABLE t ADD COLUMN address INET6, ADD which ENUM('p','q')",
        "UPDATE t SET address = '::1', which = 'q'",
    ),
    "drop": ("ALTER TABLE t DROP COLUMN name, DROP COLUMN at",),
    "wider": (
        "ALTER TABLE t MODIFY amount DECIMAL(14,2) UNSIGNED, MODIFY name VARCHAR(200),"
        " MODIFY note VARCHAR(9), MODIFY kind ENUM('a','b','c') NOT NULL",
        "INSERT INTO t VALUES (9, REPEAT('n', 100), NULL, 123456789012.25, NULL, 'long note', 'c')",
    ),
    "index": (
        "ALTER TABLE t ADD INDEX (name), ADD UNIQUE u (name, note), COMMENT = 'it''s'",
        "UPDATE t SET name = 'i' WHERE id = 1",
        "DROP INDEX u ON t",
        "CREATE INDEX v ON t (amount)",
        "ALTER TABLE t MODIFY note CHAR(5) COMMENT 'a note'",
        "ALTER TABLE t ALTER COLUMN name SET DEFAULT 'none'",
    ),
    "rebuilt": (
        "ALTER TABLE t ENGINE = InnoDB",
        "UPDATE t SET name = 'r' WHERE id = 1",
        "OPTIMIZE TABLE t",
        "ALTER TABLE t FORCE",
    ),
    "two": (
        "ALTER TABLE t ADD COLUMN one INT DEFAULT 1",
        "ALTER TABLE t ADD COLUMN two INT DEFAULT 2",
        "UPDATE t SET one = 5 WHERE id = 1",
        "ALTER TABLE t MODIFY one BIGINT, DROP COLUMN two",
    ),
    "add-drop": (
        "ALTER TABLE t ADD COLUMN gone INT",
        "UPDATE t SET gone = 8, name = 'g' WHERE id = 1",
        "ALTER TABLE t DROP COLUMN gone",
    ),
    "filled-renamed-case": (
        "ALTER TABLE t ADD COLUMN more INT DEFAULT 5",
        "ALTER TABLE t CHANGE more More BIGINT DEFAULT 6, ADD COLUMN later INT DEFAULT 6",
        "UPDATE t SET More = 9 WHERE id = 2",
    ),
    "truncate": ("TRUNCATE t",),
    "truncate-between": (
        "INSERT INTO t (id, kind) VALUES (20, 'b')",
        "TRUNCATE TABLE t",
        "INSERT INTO t (id, kind) VALUES (1, 'a'), (21, 'b')",
        "ALTER TABLE t ADD COLUMN more INT DEFAULT 3",
        "INSERT INTO t (id, kind) VALUES (22, 'b')",
    ),
    "others": (
        "CREATE VIEW v AS SELECT id FROM t",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.note = 'g'",
        "CREATE TABLE IF NOT EXISTS t (id INT)",
        "ALTER USER CURRENT_USER() ACCOUNT UNLOCK",
        "DROP TRIGGER g",
    ),
    "null-allowed": ("ALTER TABLE t MODIFY kind ENUM('a','b') NULL", "UPDATE t SET kind = NULL"),
}
COPIED = {
    "clock": ("ALTER TABLE t ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP",),
    "computed": ("ALTER TABLE t ADD COLUMN twice INT AS (id * 2) STORED",),
    "shorter": ("ALTER TABLE t MODIFY name VARCHAR(3)",),
    "scale": ("ALTER TABLE t MODIFY amount DECIMAL(12,1) UNSIGNED",),
    "not-null": ("ALTER TABLE t MODIFY name VARCHAR(20) NOT NULL",),
    "again": (
        "ALTER TABLE t DROP COLUMN note",
        "INSERT INTO t (id, kind) VALUES (30, 'a')",
        "ALTER TABLE t ADD COLUMN note CHAR(5)",
    ),
    "renamed": ("ALTER TABLE t CHANGE name called VARCHAR(20)",),
    "charset": ("ALTER TABLE t CONVERT TO CHARACTER SET latin1",),
    "ghost": (
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho ADD COLUMN more INT DEFAULT 4",
        "INSERT INTO _t_gho (id, name, kind) SELECT id, name, kind FROM t",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "UPDATE t SET name = 'after' WHERE id = 1",
        "DROP TABLE _t_del",
    ),
    "made-again": (
        "DROP TABLE t",
        TABLE,
        "INSERT INTO t (id, kind) VALUES (2, 'b'), (40, 'a')",
    ),
}


def altered(name: str, statement: str) -> str:
    """A statement about the case's own table."""
    return re.sub(r"\bt\b", f"t_{name}", statement)


def _try(
    cases: Mapping[str, Sequence[str]], server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    """Each case is one table: all are synced together."""
    first = (STRICT,) if cases.keys() <= FOLLOWED.keys() else ()
    names = {case: f"t_{case}" for case in (c.replace("-", "_") for c in cases)}
    cases = {case.replace("-", "_"): statements for case, statements in cases.items()}
    if not isinstance(server, MariaDB):
        cases = {
            case: [text.replace("INET6", "VARCHAR(40)") for text in statements]
            for case, statements in cases.items()
        }
    sql(*(altered(case, text) for case in cases for text in (TABLE, ROWS)))
    workspace = engine_for({table: {**LOG, "shrink_limit": None} for table in names.values()})
    sync_all(workspace)
    for case, statements in cases.items():
        table = names[case]
        sql(f"INSERT INTO {table} (id, kind) VALUES (4, 'b')", f"DELETE FROM {table} WHERE id = 3")
        sql(*first, *(altered(case, text) for text in statements))
        sql(f"INSERT INTO {table} (id) VALUES (50)")
    found = sync_all(workspace)
    assert_equal(workspace, server, *names.values())
    copied = {case for case, table in names.items() if "initial" in kinds(workspace, table)[1:]}
    wanted = {case.replace("-", "_") for case in COPIED} & cases.keys()
    assert copied == wanted, {case: found[names[case]].changed for case in copied ^ wanted}
    sql(*(f"INSERT INTO {table} (id) VALUES (51)" for table in names.values()))
    sql(*(f"DELETE FROM {table} WHERE id = 50" for table in names.values()))
    again = follow_tables(workspace, workspace.config.tables)
    assert {name.rpartition(".")[2] for name in again} == set(names.values())


OFTEN = (
    *("default", "told-by-server", "wider", "two", "truncate-between"),
    *("clock", "renamed", "ghost"),
)
"""Cases of `make test`; all of them are in `make test-full`."""
ALL = pytest.mark.parametrize("often", [True, pytest.param(False, marks=pytest.mark.full)])


def chosen(cases: Mapping[str, Sequence[str]], *, often: bool) -> dict[str, Sequence[str]]:
    return {case: texts for case, texts in cases.items() if (case in OFTEN) == often}


@ALL
def test_what_the_log_tells_of_a_table_is_followed(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, often: bool
) -> None:
    _try(chosen(FOLLOWED, often=often), server, sql, engine_for)


@ALL
def test_what_the_log_does_not_tell_is_read_again(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, often: bool
) -> None:
    _try(chosen(COPIED, often=often), server, sql, engine_for)


@pytest.mark.full
def test_what_the_contract_says_of_columns(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    """A rename that it says is followed; a change that it stops is followed once it does not; and
    where rows that only the mirror holds are kept, none of them gets a value that it never had."""
    sql(
        *(
            altered(case, text)
            for case in ("said", "stop", "flag", "kept")
            for text in (TABLE, ROWS)
        )
    )
    kept = {**LOG, "deletes": "flag"}
    tables = {"t_said": LOG, "t_stop": {**LOG, "schema_changes": "fail"}}
    tables |= {"t_flag": kept, "t_kept": kept}
    sync_all(engine_for(tables))
    sql(*(f"DELETE FROM {table} WHERE id = 2" for table in tables))
    sql(
        STRICT,
        "ALTER TABLE t_said CHANGE name called VARCHAR(30)",
        "UPDATE t_said SET called = 'now'",
    )
    sql(
        STRICT,
        "ALTER TABLE t_stop ADD COLUMN more INT DEFAULT 5",
        "DELETE FROM t_stop WHERE id = 1",
    )
    sql(STRICT, "ALTER TABLE t_flag ADD COLUMN more INT", "UPDATE t_flag SET more = 1 WHERE id = 1")
    sql(STRICT, "ALTER TABLE t_kept ADD COLUMN more INT DEFAULT 5", "UPDATE t_kept SET more = 1")
    sql(*(f"INSERT INTO {table} (id) VALUES (50)" for table in tables))
    hint = {"columns": {"called": {"pii": "show", "renamed_from": "name"}}}
    workspace = engine_for({**tables, "t_said": {**LOG, **hint}})
    stopped = {
        one.name.rpartition(".")[2]: one.error
        for one in sync_tables(workspace, workspace.config.tables)
    }
    assert "schema_changes: fail" in str(stopped.pop("t_stop"))
    assert set(stopped.values()) == {None}
    assert_equal(workspace, server, "t_said")
    sql("DELETE FROM t_stop WHERE id = 50")
    workspace = engine_for({**tables, "t_said": {**LOG, **hint}, "t_stop": LOG})
    sync_all(workspace)
    assert_equal(workspace, server, "t_said", "t_stop")
    copies = {table: kinds(workspace, table).count("initial") for table in tables}
    assert copies == {"t_said": 1, "t_stop": 1, "t_flag": 1, "t_kept": 2}
    for table in ("t_flag", "t_kept"):
        contract = workspace.config.table(table)
        assert check_table(workspace, contract, Ask("full")).verdict == "equal"
        deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, table))
        assert deduped is not None
        [gone] = [row for row in deduped.scan().to_arrow().to_pylist() if row["id"] == 2]
        assert (gone["name"], gone["more"]) == ("b", None)
        assert gone[DELETED_AT] is not None


STEPS = [
    *("log.shape", "ledger.created", "ledger.pending", "chunk.written", "commit.before"),
    *("commit.after", "ledger.success", "log.ddl", "log.progress", "log.shape:2", "log.ddl:2"),
]


@pytest.mark.full
def test_a_run_that_dies_beside_a_statement_follows_it_once(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, runner: Runner
) -> None:
    sql(TABLE, ROWS)
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    for number, step in enumerate(STEPS):
        sql(
            STRICT,
            f"ALTER TABLE t ADD COLUMN c{number} INT NOT NULL DEFAULT {number}",
            f"UPDATE t SET c{number} = 100 WHERE id = 1",
            f"ALTER TABLE t ADD COLUMN d{number} VARCHAR(20), ADD INDEX (d{number})",
            f"INSERT INTO t (id) VALUES ({100 + number})",
        )
        parts = ("sync", "--jobs", "1")
        order = Order(workspace.config.path, act="command", failpoint=step, arguments=parts)
        run = runner.run(order)
        assert run.code == -signal.SIGKILL, (step, run.code, run.error)
        sql(
            STRICT,
            f"ALTER TABLE t DROP COLUMN d{number}",
            f"UPDATE t SET c{number} = 7 WHERE id = {100 + number}",
        )
        sync_all(workspace)
        assert_equal(workspace, server)
    assert kinds(workspace, "t").count("initial") == 1
    assert prove_raw_layer(workspace, workspace.config.table("t")).verdict == "equal"


@pytest.mark.full
def test_alters_while_rows_are_written(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE, ROWS)
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    done = threading.Event()

    def write() -> None:
        with server.admin(database) as admin, admin.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            for number in range(1000, 100_000):
                if done.is_set():
                    return
                cursor.execute(f"INSERT INTO t (id, name) VALUES ({number}, 'n')")
                cursor.execute(f"UPDATE t SET amount = {number} WHERE id = {number - 3}")
                cursor.execute(f"DELETE FROM t WHERE id = {number - 7}")

    def alter() -> None:
        with server.admin(database) as admin, admin.cursor() as cursor:
            for number in range(12):
                cursor.execute(f"ALTER TABLE t ADD COLUMN c{number} INT DEFAULT {number}")
                time.sleep(0.4)
                cursor.execute(f"ALTER TABLE t DROP COLUMN c{number}, ADD INDEX (amount, name)")
                cursor.execute(f"ALTER TABLE t ADD COLUMN d{number} INT")
                time.sleep(0.4)
            done.set()

    threads = [threading.Thread(target=one) for one in (write, alter)]
    for thread in threads:
        thread.start()
    while not done.is_set():
        follow_tables(workspace, workspace.config.tables)
        for one in sync_tables(workspace, workspace.config.tables):
            assert one.error is None or one.error.retryable, one.error
    for thread in threads:
        thread.join()
    sync_all(workspace)
    assert_equal(workspace, server)
    assert check_table(workspace, workspace.config.table("t"), Ask("full")).verdict == "equal"


IDS = st.integers(0, 6)
NAMES = st.sampled_from(["a", "b", "c"])
STATEMENTS = st.one_of(
    st.tuples(st.just("REPLACE INTO {} (id, name) VALUES ({}, '{}')"), IDS, NAMES),
    st.tuples(st.just("UPDATE {} SET id = id + 10, name = 'x{}' WHERE id = {}"), IDS, IDS),
    st.tuples(st.just("UPDATE {} SET name = NULL WHERE id <> {} -- {}"), IDS, IDS),
    st.tuples(st.just("DELETE FROM {} WHERE id = {} -- {}"), IDS, IDS),
    st.tuples(st.just("ALTER TABLE {} ADD COLUMN {} INT DEFAULT {}"), NAMES, IDS),
    st.tuples(st.just("ALTER TABLE {} ADD COLUMN {} VARCHAR(9) FIRST -- {}"), NAMES, IDS),
    st.tuples(st.just("ALTER TABLE {} DROP COLUMN {} -- {}"), NAMES, IDS),
    st.tuples(st.just("ALTER TABLE {} MODIFY {} BIGINT, ADD INDEX (id, name) -- {}"), NAMES, IDS),
    st.tuples(st.just("ALTER TABLE {} CHANGE {} {} VARCHAR(20)"), NAMES, NAMES),
    st.tuples(st.just("UPDATE {} SET {} = {}"), NAMES, IDS),
    st.tuples(
        st.sampled_from(
            [
                "TRUNCATE {} -- {} {}",
                "ALTER TABLE {} FORCE -- {} {}",
                "DROP TABLE {0} -- {1} {2}",
                "CREATE TABLE {} (id INT PRIMARY KEY, name VARCHAR(20)) -- {} {}",
                "RENAME TABLE t TO s, u TO t, s TO u -- {} {} {}",
                "SYNC",
            ]
        ),
        IDS,
        IDS,
    ),
)


@pytest.mark.full
@given(steps=st.lists(st.tuples(st.sampled_from("tu"), STATEMENTS), min_size=4, max_size=30))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_histories_of_rows_and_statements(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, steps: Any
) -> None:
    made = "CREATE TABLE IF NOT EXISTS {} (id INT PRIMARY KEY, name VARCHAR(20))"
    sql("DROP TABLE IF EXISTS t, u, s", made.format("t"), made.format("u"))
    any_size = {**LOG, "shrink_limit": None}
    workspace = engine_for({"t": any_size, "u": any_size})
    sync_all(workspace)
    for name, (text, one, two) in steps:
        if text == "SYNC":
            follow_tables(workspace, workspace.config.tables)
            continue
        with contextlib.suppress(pymysql.Error):
            sql(text.format(name, one, two))
    sql(made.format("t"), made.format("u"))
    event(f"copies: {sum(kinds(workspace, table).count('initial') for table in 'tu')}")
    sync_all(workspace)
    assert_equal(workspace, server, "t", "u")
