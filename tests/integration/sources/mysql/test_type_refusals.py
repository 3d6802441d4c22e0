"""What can't be read exactly is refused: one clear error, and nothing written."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import MirrorlakeError, SchemaError, SourceError
from mirrorlake.load.protocol import protocol
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.reading import reader
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER
from tests.integration.sources.mysql.test_types import assert_exact

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL = {"t": {"mode": "full", "key": ["id"]}}


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def refused(workspace: Workspace, kind: type[MirrorlakeError], *words: str) -> MirrorlakeError:
    """Sync once, which must fail with these words and leave no row in any layer."""
    with pytest.raises(kind) as caught:
        sync_table(workspace, workspace.config.table("t"))
    for word in words:
        assert word in str(caught.value)
    for layer in ("__raw", ""):
        database = workspace.config.table("t").database
        for identifier in (
            workspace.lake.catalog.list_tables(f"s_{database}{layer}")
            if workspace.lake.catalog.namespace_exists(f"s_{database}{layer}")
            else ()
        ):
            table = workspace.lake.load(Identifier(*identifier))
            assert table is None or table.current_snapshot() is None
    return caught.value


@pytest.mark.parametrize("hidden", ["a", "z"])
def test_a_column_that_the_user_may_not_read(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, hidden: str
) -> None:
    """The server shows the user a table without it: its mirror would look whole."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, m INT, z INT)",
        "INSERT INTO t VALUES (1, 2, 3, 4)",
    )
    shown = ", ".join({"id", "a", "m", "z"} - {hidden})
    user = f"u{database[:10]}"
    server.create_user(
        user, PASSWORD, {f"{database}.t": f"SELECT ({shown})", "*.*": "REPLICATION CLIENT"}
    )
    error = refused(
        engine_for(FULL, {"user": user}),
        SchemaError,
        f"{database}.t",
        "may not read every column",
        "Grant SELECT on the whole table",
    )
    assert PASSWORD not in str(error)


def test_bytes_that_are_no_text(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """A utf8 column is made to hold other bytes by writing them into the table's file."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, secret CHAR(8) CHARACTER SET utf8mb4 NOT NULL) ENGINE=MyISAM",
        "INSERT INTO t VALUES (1, 'abcdefgh')",
        "FLUSH TABLES t",
    )
    [path] = Path(server.folder / "data" / database).glob("t.MYD")
    path.write_bytes(path.read_bytes().replace(b"abcdefgh", b"abc\xff\xfeXYZ"))
    sql("FLUSH TABLES t")
    error = refused(
        engine_for(FULL),
        SourceError,
        f"{database}.t",
        "'secret'",
        "no text in the column's own charset",
        "Repair the value",
    )
    assert "abc" not in str(error)
    assert not error.retryable


def test_another_type_between_plan_and_read(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 7)")
    before = protocol.run_chunks

    def alter_and_run(*arguments: Any) -> Any:
        sql("ALTER TABLE t MODIFY v VARCHAR(20)", "UPDATE t SET v = 'seven'")
        return before(*arguments)

    monkeypatch.setattr(protocol, "run_chunks", alter_and_run)
    assert refused(engine_for(FULL), MirrorlakeError, f"{database}.t").retryable


def test_another_charset_between_plan_and_read(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The column's type has the same words, and the letters would be lost on the way."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1)",
        "INSERT INTO t VALUES (1, 'a')",
    )
    before = protocol.run_chunks

    def alter_and_run(*arguments: Any) -> Any:
        sql(
            "ALTER TABLE t MODIFY v VARCHAR(9) CHARACTER SET gbk",
            "UPDATE t SET v = CAST(x'a2ab' AS CHAR CHARACTER SET gbk)",
        )
        return before(*arguments)

    workspace = engine_for(FULL)
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "run_chunks", alter_and_run)
        assert refused(workspace, SchemaError, f"{database}.t", "changed").retryable
    sync_table(workspace, workspace.config.table("t"))
    assert_exact(server, workspace, database, "t", ("id",))


@pytest.mark.full
def test_a_charset_that_comes_to_need_originals(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """It is no new schema version: the raw table gets the column for originals, and loses nothing."""
    workspace = engine_for(FULL)
    table = workspace.config.table("t")
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1)",
        "INSERT INTO t VALUES (1, 'a')",
    )
    sync_table(workspace, table)
    for change in (
        "ALTER TABLE t MODIFY v VARCHAR(9) CHARACTER SET gbk",
        "UPDATE t SET v = CAST(x'a2ab' AS CHAR CHARACTER SET gbk)",
        "UPDATE t SET v = 'a'",
        "ALTER TABLE t MODIFY v VARCHAR(9) CHARACTER SET utf8mb4",
    ):
        sql(change)
        sync_table(workspace, table)
        assert_exact(server, workspace, database, "t", ("id",))


def test_a_value_that_is_too_large_for_the_servers_packet(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """The functions of the server give NULL for it, with a warning that nobody sees."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT CHARACTER SET latin1)",
        "INSERT INTO t VALUES (1, REPEAT('é', 700000))",
    )
    incremental = {"t": {"mode": "incremental", "key": ["k"], "cursor": "at"}}
    [(packet,)] = sql("SELECT @@global.max_allowed_packet")
    try:
        sql("SET GLOBAL max_allowed_packet = 1048576")
        refused(engine_for(FULL), SourceError, "max_allowed_packet")
        # The key's text fits, and the weights by which it is told from others don't.
        sql(
            "DROP TABLE t",
            "CREATE TABLE t (k LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL,"
            " at DATETIME NOT NULL, PRIMARY KEY (k(9)), KEY (at))",
            "INSERT INTO t VALUES (REPEAT('a', 700000), '2024-01-01'), ('b', '2024-01-01')",
        )
        words = "_mirror_key, which is computed of 'k', came as NULL", "max_allowed_packet"
        refused(engine_for(incremental), SourceError, *words)
    finally:
        sql(f"SET GLOBAL max_allowed_packet = {packet}")


STRICT = "ANSI_QUOTES,PAD_CHAR_TO_FULL_LENGTH,NO_ZERO_DATE,NO_ZERO_IN_DATE,STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT"


def test_the_servers_own_settings_change_nothing(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, c CHAR(9), s TIMESTAMP(6) NULL, d DATE, e VARCHAR(9) CHARACTER SET gbk, j JSON)",
        "SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES'",
        "INSERT INTO t VALUES (1, 'a\\\\b', '2026-03-29 01:30:00.5', '0000-00-00', 'ü', '{\"ü\": 1}')",
        "INSERT INTO t VALUES (2, '', '0000-00-00', '2024-02-30', '', 'null')",
    )
    empty = ",EMPTY_STRING_IS_NULL" if isinstance(server, MariaDB) else ""
    wanted = {"time_zone": "+05:00", "character_set_server": "latin1", "sql_mode": STRICT + empty}
    [kept] = sql("SELECT @@global.time_zone, @@global.character_set_server, @@global.sql_mode")
    try:
        for name, value in wanted.items():
            sql(f"SET GLOBAL {name} = '{value}'")
        workspace = engine_for(FULL)
        sync_table(workspace, workspace.config.table("t"))
    finally:
        for name, value in zip(wanted, kept, strict=True):
            sql(f"SET GLOBAL {name} = '{value}'")
    assert_exact(server, workspace, database, "t", ("id",))


def test_a_session_that_is_not_ours_is_noticed(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a proxy dropped the settings: rows and an empty answer alike."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, v TIMESTAMP NULL)")
    monkeypatch.setattr(
        reader, "session_statements", lambda _: ("SET SESSION time_zone = '+05:00'",)
    )
    for rows in ("", "INSERT INTO t VALUES (1, NULL)"):
        if rows:
            sql(rows)
        refused(
            engine_for(FULL), SourceError, "the reader's session has other settings than requested"
        )


READS = 40
LINES = 3_000


def test_reads_leave_standard_error_to_other_threads(server: EmbeddedServer, database: str) -> None:
    """Reads that fail and reads that don't, in two threads; a third one writes all the while. What
    Rust prints of its panics comes between, and holds no value of a row."""
    script = f"""
import os, threading
from pydantic import SecretStr
from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.reading.reader import read_batches
source = SourceConfig(name="s", host="127.0.0.1", port={server.port}, user={USER!r}, password=SecretStr({PASSWORD!r}))
bad = ("SELECT NULL AS a", "SELECT nothing", "SELECT (SELECT 1 UNION SELECT 2) AS a")
said = []  # two threads that print at once write over each other before Python 3.12.4
def read():
    for number in range({READS}):
        try:
            list(read_batches(source, {database!r}, (*bad, "SELECT 'secret' AS a")[number % 4]))
        except SourceError as error:
            said.append(error)
readers = [threading.Thread(target=read) for _ in range(2)]
for one in readers: one.start()
number = 0
while number < {LINES} or any(one.is_alive() for one in readers):
    os.write(2, b"line %d.\\n" % number)
    number += 1
for one in readers: one.join()
os.write(2, b"line %d.\\n" % number)
print(*said, sep="\\n")
print("lines", number)
"""
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
    )  # fmt: skip
    *errors, last = ran.stdout.splitlines()
    assert len(errors) == 2 * READS * 3 // 4, ran.stdout
    written = re.findall(r"line (\d+)\.", ran.stderr)
    assert written == [str(n) for n in range(int(last.removeprefix("lines ")) + 1)]
    assert "secret" not in ran.stderr
