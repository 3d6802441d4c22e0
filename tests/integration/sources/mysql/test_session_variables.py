"""Every session is ours in each setting that could change a result, whatever the server's own are;
and no server has a session variable that nobody thought about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pymysql
import pytest
from click.testing import CliRunner
from pydantic import SecretStr

from mirrorlake.cli.main import cli
from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.reading.reader import witness
from mirrorlake.sources.mysql.sessions import variables as listed
from mirrorlake.sources.mysql.sessions.connect import (
    open_session,
    read_position,
    rows_of,
    session,
    session_statements,
    settings_lost,
)
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER
from tests.integration.mirrored import INCREMENTAL, assert_equal
from tests.support.brought_servers import MARIADB as MARIADB_FOLDER
from tests.support.brought_servers import MYSQL as MYSQL_FOLDER
from tests.support.brought_servers import version_of

Sql = Callable[..., Any]

HOSTILE: dict[str, Any] = {
    "time_zone": "+05:00",
    "sql_mode": "ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_BACKSLASH_ESCAPES",
    "character_set_results": "latin1",
    "character_set_client": "latin1",
    "character_set_connection": "latin1",
    "collation_connection": "latin1_german1_ci",
    "sql_select_limit": 3,
    "sql_big_selects": 0,
    "max_join_size": 1,
    "sql_auto_is_null": 1,
    "autocommit": 0,
    "completion_type": "CHAIN",
    "sql_buffer_result": 1,
    "sql_quote_show_create": 0,
    "group_concat_max_len": 4,
    "div_precision_increment": 0,
    "default_week_format": 3,
    "lc_time_names": "en_GB",
    "block_encryption_mode": "aes-256-cbc",
    "max_sort_length": 64,
    "big_tables": 1,
    "sql_safe_updates": 1,
}
MARIADB: dict[str, Any] = {
    "tx_isolation": "READ-UNCOMMITTED",
    "system_versioning_asof": "2020-01-01",
    "old_mode": "ZERO_DATE_TIME_CAST",
    "default_regex_flags": "DOTALL",
}
MYSQL: dict[str, Any] = {
    "transaction_isolation": "READ-UNCOMMITTED",
    "show_create_table_verbosity": 1,
    "windowing_use_high_precision": 0,
}


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


@pytest.fixture
def source(server: EmbeddedServer) -> SourceConfig:
    return SourceConfig(
        name="s", host="127.0.0.1", port=server.port, user=USER, password=SecretStr(PASSWORD)
    )


LATER = ("show_create_table_verbosity", "windowing_use_high_precision", "block_encryption_mode")
"""Those that MySQL 5.7, or MariaDB 10.11, does not have."""


def hostile(server: EmbeddedServer) -> dict[str, Any]:
    values = HOSTILE | (MARIADB if isinstance(server, MariaDB) else MYSQL)
    folder = MARIADB_FOLDER if isinstance(server, MariaDB) else MYSQL_FOLDER
    old = (version_of(folder) or "").startswith(("5.", "10."))
    return {name: value for name, value in values.items() if not (old and name in LATER)}


@contextmanager
def server_set(server: EmbeddedServer, values: dict[str, Any]) -> Iterator[None]:
    """The server's own values, while the block runs."""
    with server.admin() as admin, admin.cursor() as cursor:
        names = ", ".join(f"@@global.{name}" for name in values)
        cursor.execute(f"SELECT {names}")
        before = dict(zip(values, cursor.fetchone() or (), strict=True))
        try:
            for name, value in values.items():
                cursor.execute(f"SET GLOBAL {name} = %s", (value,))
            yield
        finally:
            cursor.execute("SET SESSION sql_mode = ''")
            for name, value in before.items():
                default = name == "system_versioning_asof"
                cursor.execute(
                    f"SET GLOBAL {name} = {'DEFAULT' if default else admin.escape(value)}"
                )


def test_every_session_variable_of_the_server_is_listed(server: EmbeddedServer) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SHOW SESSION VARIABLES")
        shown = {str(name).lower() for name, _ in cursor.fetchall()}
        names: set[str] = set()
        for name in shown:
            try:
                cursor.execute(f"SELECT @@session.{name}")
            except pymysql.Error:  # it has no session value
                continue
            names.add(name)
    known = {s.name for s in listed.HELD} | set(listed.HARMLESS)
    assert len(names) > 100
    assert sorted(names - known) == []


def test_each_setting_is_read_back_and_stands_in_each_row(
    server: EmbeddedServer, source: SourceConfig
) -> None:
    with session(source) as connection:
        assert settings_lost(connection) == {}
        shows = f"SELECT {witness(read_position(connection), '7')}"
        assert rows_of(connection, shows) == [(7,)]
        values = hostile(server)
        for name in {s.name for s in listed.HELD} & values.keys():
            rows_of(connection, f"SET SESSION {name} = %s", (values[name],))
            assert name in settings_lost(connection)
            rows_of(connection, listed.mark_held())
            assert rows_of(connection, shows) == [(-1,)], name
            for statement in session_statements(source):
                rows_of(connection, statement)
            assert settings_lost(connection) == {}
        # Tests' servers are older than these.
        younger = {"use_secondary_engine", "show_gipk_in_create_table_and_information_schema"}
        younger |= {"show_create_table_skip_secondary_engine", *LATER}
        kind = "M!" if isinstance(server, MariaDB) else "!"
        here = {s.name for s in listed.HELD if any(w == "" or w.startswith(kind) for w in s.where)}
        assert here - younger <= values.keys()


def test_settings_leave_an_open_snapshot_as_it_is(
    source: SourceConfig, sql: Sql, database: str
) -> None:
    """The carrier hands on a session in which a snapshot is open, and the reader sets it again."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with session(source, database) as connection:
        rows_of(connection, "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        sql("INSERT INTO t VALUES (2)")
        for statement in session_statements(source):
            rows_of(connection, statement)
        assert rows_of(connection, "SELECT COUNT(*) FROM t") == [(1,)]


def test_a_frozen_clock_is_refused_by_name(server: EmbeddedServer, source: SourceConfig) -> None:
    """A session that was told what time it is would settle no row, or all."""
    # The account that may do anything is spared of init_connect.
    server.create_user("plain", PASSWORD, {"*.*": "SELECT"})
    with (
        server_set(server, {"init_connect": "SET timestamp = 5"}),
        pytest.raises(SourceError, match=r"did not keep .*: timestamp = '5"),
    ):
        open_session(source.model_copy(update={"user": "plain"}))


def test_the_server_s_own_values_change_nothing(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: Callable[..., Workspace],
    tmp_path: Path,
) -> None:
    versioned = " WITH SYSTEM VERSIONING" if isinstance(server, MariaDB) else ""
    day = "UTC_TIMESTAMP() - INTERVAL 2 HOUR"
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME NOT NULL, c CHAR(5), d DECIMAL(9, 3), "
        f"s TIMESTAMP NULL, e ENUM('a', 'ü'), KEY (at)){versioned}",
        *(f"CREATE TABLE u{n} (id INT PRIMARY KEY)" for n in range(5)),
        *(f"INSERT INTO t VALUES ({n}, {day}, 'ß ', {n} / 3, {day}, 'ü')" for n in range(7)),
    )
    workspace = engine_for({"t": INCREMENTAL}, {"time_zone_of": "application"})
    contract = workspace.config.table("t")
    with server_set(server, hostile(server)):
        sync_table(workspace, contract)
    now = "UTC_TIMESTAMP()"
    sql(*(f"INSERT INTO t VALUES ({n}, {now}, 'x', 1, NULL, 'a')" for n in range(10, 16)))
    sql(f"UPDATE t SET c = 'y', at = {now} WHERE id < 5")
    with server_set(server, hostile(server)):
        sync_table(workspace, contract)
        report = check_table(workspace, contract, Ask("full"))
        assert report.verdict == "equal", report.differences[:4]
        ran = CliRunner().invoke(
            cli,
            ["init", "--from", f"mysql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/{database}",
             "--name", "s", "--output", str(tmp_path / "first.yaml"), "--json"],
        )  # fmt: skip
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["tables"] == 6
    assert_equal(workspace, server, database)
