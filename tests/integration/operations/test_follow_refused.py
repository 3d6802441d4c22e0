"""What a server has to log and does not: each is one clear error with what to run, and nothing of
the mirror changed; where a single session logs otherwise, its table is read again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import SecretStr

from mirrorlake.config.source_url import parse_source_url
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import MirrorlakeError, SchemaError, SourceError
from mirrorlake.init.choice import Choice
from mirrorlake.init.survey import survey_server
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.sources.mysql.following import log_state
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place, write_config
from tests.integration.operations.test_follow_log import LOG, TABLE, assert_equal, kinds, sync_all
from tests.integration.sources.mysql.binlog.test_binlog_mariadb import set_globally
from tests.support.mysql8 import MySQL8

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


SETTINGS = {
    "statement": ("binlog_format", "STATEMENT", "SET GLOBAL binlog_format = ROW"),
    "mixed": ("binlog_format", "MIXED", "SET GLOBAL binlog_format = ROW"),
    "minimal": ("binlog_row_image", "MINIMAL", "SET GLOBAL binlog_row_image = FULL"),
    "noblob": ("binlog_row_image", "NOBLOB", "SET GLOBAL binlog_row_image = FULL"),
    "names": ("binlog_row_metadata", "MINIMAL", "SET GLOBAL binlog_row_metadata = FULL"),
    "json": ("binlog_row_value_options", "PARTIAL_JSON", "binlog_row_value_options = ''"),
}


@contextmanager
def account(server: EmbeddedServer, workspace: Workspace, *grants: str) -> Iterator[Workspace]:
    """The workspace by an account that may do this alone."""
    name, password = "narrow", "narrow one"
    server.create_user(name, password, ", ".join(grants))
    config = workspace.config
    source = config.sources["s"].model_copy(update={"user": name, "password": SecretStr(password)})
    narrow = config.model_copy(update={"sources": {"s": source}})
    try:
        with Workspace.open(narrow, spark=workspace.spark) as other:
            yield other
    finally:
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"DROP USER '{name}'@'%'")


def refused(workspace: Workspace, *words: str) -> None:
    """A sync is refused in these words; the ledger has no load of it, and no mark."""
    contract = workspace.config.table("t")
    loads = len(workspace.ledger.successful_loads(contract.name, ever=True))
    with pytest.raises(MirrorlakeError) as raised:
        sync_table(workspace, contract)
    text = str(raised.value)
    assert all(word in text for word in words), text
    assert len(workspace.ledger.successful_loads(contract.name, ever=True)) == loads
    assert workspace.ledger.unproved(contract.name) is None


def test_what_a_server_does_not_log_is_refused_and_then_followed(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id, name, data) VALUES (1, 'a', '{\"x\": 1}')")
    workspace = engine_for({"t": LOG})
    for name in ("statement", "minimal", "names"):
        setting, value, fix = SETTINGS[name]
        with set_globally(server, **{setting: value}):
            refused(workspace, setting, fix)
    name = workspace.config.table("t").name
    assert workspace.ledger.schema_versions(name) == [], "nothing is known of it yet"
    sync_all(workspace)
    sql("INSERT INTO t (id) VALUES (2)")
    for name, value, fix in SETTINGS.values():
        if name == "binlog_row_value_options" and isinstance(server, MariaDB):
            continue
        with set_globally(server, **{name: value}):
            refused(workspace, name, fix)
    monitor = "BINLOG MONITOR" if isinstance(server, MariaDB) else "REPLICATION CLIENT"
    with account(server, workspace, "SELECT", "PROCESS") as narrow:
        refused(narrow, f"GRANT {monitor} ON *.* TO 'narrow'@'%'", "GRANT REPLICATION SLAVE")
    with account(server, workspace, "SELECT", "PROCESS", monitor) as narrow:
        refused(narrow, "GRANT REPLICATION SLAVE ON *.* TO 'narrow'@'%'")
    sync_all(workspace)
    assert_equal(workspace, server)
    assert kinds(workspace, "t") == ["initial", "log"]


SESSIONS = {
    "statement": ("SET binlog_format = STATEMENT", "logged without the rows"),
    "minimal": ("SET binlog_row_image = MINIMAL", "binlog_row_image is not FULL"),
    "noblob": ("SET binlog_row_image = NOBLOB", "binlog_row_image is not FULL"),
    "json": ("SET binlog_row_value_options = PARTIAL_JSON", "partial updates of JSON"),
}


def test_a_session_that_logs_otherwise_has_its_table_read_again(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql(
        TABLE.format("t"),
        TABLE.format("other"),
        "ALTER TABLE t ADD COLUMN note TEXT",
        "INSERT INTO t (id, data, note) VALUES (1, '{\"x\": 1}', 'n')",
    )
    workspace = engine_for({"t": LOG, "other": LOG})
    sync_all(workspace)
    copies, tried = 1, set[str]()
    for name, (setting, words) in SESSIONS.items():
        if name == "json" and isinstance(server, MariaDB):
            continue
        tried.add(name)
        with server.admin(database) as admin, admin.cursor() as cursor:
            cursor.execute(setting)
            value = "data = JSON_SET(data, '$.x', 2)" if name == "json" else f"name = '{name}'"
            cursor.execute(f"UPDATE t SET {value} WHERE id = 1")
        sql("INSERT INTO t (id) VALUES (100) ON DUPLICATE KEY UPDATE amount = 9")
        found = sync_all(workspace)
        copies += 1
        assert words in found["t"].changed, found["t"].changed
        assert_equal(workspace, server, "t")
        assert kinds(workspace, "t").count("initial") == copies
        # A statement may have changed any table; images are of one.
        assert kinds(workspace, "other").count("initial") == 1 + ("statement" in tried)
        sql("UPDATE t SET data = '{\"x\": 1}' WHERE id = 1")


@pytest.mark.full
@pytest.mark.parametrize("deletes", [pytest.param("flag", marks=pytest.mark.full), "ignore"])
def test_rows_that_went_unseen_stay_until_a_repair_where_deleted_ones_are_kept(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, deletes: str
) -> None:
    sql(TABLE.format("t"), *(f"INSERT INTO t (id) VALUES ({n})" for n in (1, 2, 3)))
    workspace = engine_for({"t": {**LOG, "deletes": deletes}})
    contract = workspace.config.table("t")
    sync_all(workspace)
    sql("DELETE FROM t WHERE id = 1")
    sync_all(workspace)
    with server.admin(database) as admin, admin.cursor() as cursor:
        cursor.execute("SET binlog_format = STATEMENT")
        cursor.execute("DELETE FROM t WHERE id = 2")
    assert "logged without the rows" in sync_all(workspace)["t"].changed

    def flagged() -> dict[int, bool]:
        deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
        assert deduped is not None
        rows = deduped.scan().to_arrow().to_pylist()
        return {row["id"]: row.get(DELETED_AT) is not None for row in rows}

    flags = deletes == "flag"
    assert flagged() == {1: flags, 2: False, 3: False}
    time.sleep(2.1)  # the server knows to the second when a table changed
    sync_all(workspace)
    repair_table(workspace, contract, Ask("full"), only_deletes=True)
    assert flagged() == {1: flags, 2: flags, 3: False}
    sql("INSERT INTO t (id) VALUES (2)", "DELETE FROM t WHERE id = 3")
    sync_all(workspace)
    assert flagged() == {1: flags, 2: False, 3: flags}


@pytest.mark.full
def test_what_servers_log_beside_rows_changes_none(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """The statement's text (``binlog_rows_query_log_events``, ``binlog_annotate_row_events``)."""
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    mariadb = isinstance(server, MariaDB)
    name = "binlog_annotate_row_events" if mariadb else "binlog_rows_query_log_events"
    for value in (1, 0):
        with server.admin(database) as admin, admin.cursor() as cursor:
            cursor.execute(f"SET SESSION {name} = {value}")
            cursor.execute(f"INSERT INTO t (id) VALUES ({10 + value}), ({20 + value})")
            cursor.execute(f"UPDATE t SET amount = {value}")
    sync_all(workspace)
    assert_equal(workspace, server)
    assert kinds(workspace, "t") == ["initial", "log"]


def test_an_account_that_needs_tls_is_refused_without(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"))
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    grants = ("SELECT", "PROCESS", "REPLICATION SLAVE", "REPLICATION CLIENT")
    with account(server, workspace, *grants) as narrow:
        sql("ALTER USER 'narrow'@'%' REQUIRE SSL", "INSERT INTO t (id) VALUES (1)")
        refused(narrow, "source s")
    sync_all(workspace)
    assert_equal(workspace, server)


@pytest.mark.full
@pytest.mark.parametrize("option", ["--binlog-ignore-db", "--binlog-do-db"])
@pytest.mark.parametrize("kind", [MariaDB, MySQL8])
def test_a_database_that_is_not_logged_is_refused(
    kind: type[EmbeddedServer], option: str, place: Place, tmp_path: Path
) -> None:
    """Its rows would never change: the other database is followed."""
    logged, left = (f"{name}{uuid.uuid4().hex[:8]}" for name in ("kept", "left"))
    named = left if "ignore" in option else logged
    with kind.start(tmp_path, extra_args=(f"{option}={named}",)) as own:
        own.create_user(USER, PASSWORD)
        for database in (logged, left):
            with own.admin() as admin, admin.cursor() as cursor:
                cursor.execute(f"CREATE DATABASE {database}")
                cursor.execute(f"USE {database}")
                cursor.execute(TABLE.format("t"))
                cursor.execute("INSERT INTO t (id) VALUES (1)")
        for database in (left, logged):
            config = write_config(place.folder, own, {database: {"tables": {"t": LOG}}})
            workspace = Workspace.open(config, spark=place.spark)
            if database == left:
                refused(workspace, f"its binary log has nothing of {left}", "binlog-ignore-db")
                continue
            sync_all(workspace)
            with own.admin(database) as admin, admin.cursor() as cursor:
                cursor.execute("DELETE FROM t")
                cursor.execute("INSERT INTO t (id) VALUES (2)")
            sync_all(workspace)
            assert_equal(workspace, own)
            assert kinds(workspace, "t") == ["initial", "log"]


def test_a_database_that_is_spelled_otherwise_is_refused(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that folds case answers to any spelling, and logs its own: no change was seen."""
    fold = ("--lower-case-table-names=1",)
    with MariaDB.start(tmp_path / "mysql", extra_args=fold) as own:
        own.create_user(USER, PASSWORD)
        with own.admin() as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE Shop")
            cursor.execute("CREATE TABLE Shop.t (id INT PRIMARY KEY)")
            cursor.execute("CREATE TABLE Shop.f (id INT PRIMARY KEY)")
            tables = {"t": {"mode": "binlog", "key": ["id"]}, "f": {"mode": "full", "key": ["id"]}}
            config = write_config(place.folder, own, {"Shop": {"tables": tables}})
            workspace = Workspace.open(config, spark=place.spark)
            for table in tables:
                with pytest.raises(SchemaError, match=r"no database Shop .*; did you mean 'shop'"):
                    load_table(workspace, config.table(table))
            config = write_config(place.folder, own, {"shop": {"tables": tables}})
            workspace = Workspace.open(config, spark=place.spark)
            sync_all(workspace)
            cursor.execute("INSERT INTO SHOP.T VALUES (1)")
            cursor.execute("INSERT INTO SHOP.F VALUES (1)")
            sync_all(workspace)
            assert_equal(workspace, own)
            assert kinds(workspace, "t") == ["initial", "log"]
            # Where names keep their case (macOS), the log may have another.
            monkeypatch.setattr(log_state, "lowered_when_found", lambda _: True)
            cursor.execute("INSERT INTO shop.t VALUES (2)")
            sync_all(workspace)
            assert_equal(workspace, own)
            with session(config.sources["s"]) as connection:
                log_state.refuse_unfollowable(connection, config.sources["s"], {("shop", "t")})
                with pytest.raises(SourceError, match=r"may call shop\.T by a name in lower"):
                    log_state.refuse_unfollowable(connection, config.sources["s"], {("shop", "T")})
        url = f"mysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{own.port}/SHOP"
        found = survey_server(parse_source_url(url), None, Choice())
        assert [(one.database, one.table) for one in found.tables] == [("shop", "f"), ("shop", "t")]
