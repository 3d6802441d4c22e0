"""Connections that pass nothing more and do not close: each wait ends, and nothing is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from mirrorlake.config import TableContract
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.ledger.lake import leases
from mirrorlake.load.chunks import planner as chunk_planner
from mirrorlake.load.chunks import runner
from mirrorlake.load.chunks import statements as chunk_statements
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.reading.reader import read_batches
from mirrorlake.sources.mysql.sessions import silence
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows
from tests.integration.cutting import CuttingProxy
from tests.integration.sources.mysql.test_limits import FULL, make_rows
from tests.support.word_proxy import How, OtherProcess

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
SHORT = "2s"


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "PAUSE_SECONDS", 0.05)


def sessions_of(sql: Sql, database: str) -> list[int]:
    found = sql(
        "SELECT ID FROM information_schema.PROCESSLIST "
        f"WHERE DB = '{database}' AND USER = 'mirror' AND COMMAND <> 'Sleep'"
    )
    return [number for (number,) in found]


def test_rows_that_are_stuck_on_their_way_are_read_again(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The server blocks in sending: its session is killed, and the chunk's second reading is
    exact."""
    make_rows(sql, 4_000, width=3_000)
    with CuttingProxy(server.port, 300_000, 1, "stall") as proxy:
        workspace = engine_for({"t": FULL}, {"port": proxy.port, "silence": SHORT})
        contract = workspace.config.table("t")
        assert load_table(workspace, contract).rows == 4_000
        assert proxy.cut == 1
        assert sessions_of(sql, database) == []
    assert "what the server sends is stuck on its way" in caplog.text
    raw = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    rows = lake_rows(workspace, contract.namespaces.raw, raw)
    assert sorted(row["id"] for row in rows) == list(range(1, 4_001))
    assert [load.state for load in workspace.ledger.loads(contract.name)] == ["success"]


def test_a_server_at_work_is_waited_for(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Three times the silence before the first row: in the reader, and in a session."""
    source = engine_for({}, {"silence": "1s"}).config.sources["s"]
    [batch] = read_batches(source, database, "SELECT SLEEP(3) AS a")
    assert batch.to_pydict() == {"a": [0]}
    with session(source) as connection:
        assert rows_of(connection, "SELECT SLEEP(3)") == [(0,)]
    assert caplog.text.count("the server has worked on a statement for") >= 4


RIVAL = """
import sys, time
from mirrorlake.errors import LeaseHeld
from mirrorlake.ledger import Ledger
ledger = Ledger(sys.argv[1])
time.sleep(float(sys.argv[2]))
try:
    with ledger.lease("s.d.t", "rival"):
        print("taken")
except LeaseHeld:
    print("held")
"""


@pytest.mark.full
def test_a_lease_does_not_run_out_while_a_read_waits(
    server: EmbeddedServer, database: str, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader keeps every thread of its process from running, the one that renews, too."""
    monkeypatch.setattr(leases, "LEASE_TIME", timedelta(seconds=3))
    workspace = engine_for({}, {"silence": "60s"})
    source, url = workspace.config.sources["s"], workspace.config.ledger.url
    command = [sys.executable, "-c", RIVAL, url, "6"]
    with (
        workspace.ledger.lease("s.d.t", "reader") as lease,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as rival,
    ):
        [batch] = read_batches(source, database, "SELECT SLEEP(14) AS a")
        assert batch.to_pydict() == {"a": [0]}
        assert rival.communicate()[0].split() == ["held"]
        workspace.ledger.check_lease(lease)


@pytest.mark.full
def test_a_server_that_lets_nobody_look(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An account of one session: nobody can tell, and a server at work is not taken for a stuck
    one, unless it takes longer than any statement may."""
    user = f"u{database}"[:20]
    sql(
        f"CREATE USER {user}@'%' IDENTIFIED BY 'p' WITH MAX_USER_CONNECTIONS 1",
        f"GRANT SELECT ON {database}.* TO {user}@'%'",
    )
    usual = engine_for({}, {"silence": "1s"}).config.sources["s"]
    source = usual.model_copy(update={"user": user, "password": SecretStr("p")})
    with session(source) as connection:
        assert rows_of(connection, "SELECT SLEEP(3)") == [(0,)]
    assert "the server refuses a second session" in caplog.text
    login = {"host": source.host, "port": source.port, "user": user, "password": b"p"}
    with (
        closing(silence.connect({**login, "ssl_disabled": True}, 1.0, print, 1.0)) as connection,
        pytest.raises(SourceError, match="refuses a second session") as caught,
    ):
        rows_of(connection, "SELECT SLEEP(60)")
    assert caught.value.retryable
    sql(f"DROP USER {user}@'%'")


# Nothing of the login, of an answer of some rows, and of its end.
@pytest.mark.parametrize(
    ("after", "words"),
    [
        pytest.param(0, "timed out", marks=pytest.mark.full),
        (20_000, "its answer did not arrive"),
    ],
)
def test_a_session_whose_answers_do_not_arrive(
    server: EmbeddedServer, engine_for: EngineFor, after: int, words: str
) -> None:
    with CuttingProxy(server.port, after, 1, "stall") as proxy:
        changed = {"port": proxy.port, "silence": SHORT}
        source = engine_for({}, changed).config.sources["s"]
        with pytest.raises(SourceError, match=words) as caught, session(source) as connection:
            rows_of(connection, "SELECT REPEAT('a', 50000)")
    assert proxy.cut == 1
    assert caught.value.retryable


@pytest.mark.full
def test_a_way_that_is_gone(
    server: EmbeddedServer, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gets through any more: no second session says anything, and the wait ends all the
    same."""
    monkeypatch.setattr(silence, "LOGIN_SECONDS", 2.0)
    with CuttingProxy(server.port, 20_000, None, "stall") as proxy:
        changed = {"port": proxy.port, "silence": SHORT}
        source = engine_for({}, changed).config.sources["s"]
        with session(source) as connection:
            proxy.close_to_others()
            with pytest.raises(SourceError, match="a second session got no answer") as caught:
                rows_of(connection, "SELECT REPEAT('a', 50000)")
    assert caught.value.retryable


def load_in_the_end(
    workspace: Workspace, contract: TableContract, kind: type[MirrorlakeError]
) -> list[MirrorlakeError]:
    """Load a table, in three tries at most; what those that failed said."""
    failed: list[MirrorlakeError] = []
    for _ in range(3):
        try:
            load_table(workspace, contract)
        except kind as error:
            failed.append(error)
        else:
            return failed
    raise AssertionError(failed)


@pytest.mark.full
@pytest.mark.parametrize("after", [0, 5_000, 300_000, 11_900_000])
@pytest.mark.parametrize("how", ["cut", "stall", "slow"])
@pytest.mark.parametrize("way", ["straight", "rate", "near", "verified"])
def test_whatever_the_way_does(
    server: EmbeddedServer,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
    after: int,
    how: Any,
    way: str,
) -> None:
    """At the first byte, at a login's end, in the middle, in the last rows: exact, or an error that
    can be tried again, after which the next load is exact."""
    make_rows(sql, 4_000, width=3_000)
    changed: dict[str, Any] = {"silence": SHORT}
    if way == "rate":
        changed["rows_per_second"] = 100_000
    if way == "near":
        monkeypatch.setattr(chunk_planner, "_MANY_ROWS", 0)
        monkeypatch.setattr(chunk_statements, "PILED_BYTES", 0)
    tables = {"t": {**FULL, "verify": way == "verified"}}
    with CuttingProxy(server.port, after, 2, how) as proxy:
        workspace = engine_for(tables, {"port": proxy.port, **changed})
        contract = workspace.config.table("t")
        failed = load_in_the_end(workspace, contract, SourceError)
        assert proxy.cut > 0
    assert all(error.retryable for error in failed), failed
    raw = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    rows = lake_rows(workspace, contract.namespaces.raw, raw)
    assert sorted(row["id"] for row in rows) == list(range(1, 4_001))
    loads = [load.state for load in workspace.ledger.loads(contract.name)]
    assert loads.count("success") == 1


# What sessions send at each of a sync's steps: how a table was made, where the log stands, what is
# open, how the table is now, the snapshot and the rows.
WORDS = [
    b"SHOW CREATE TABLE",
    b"UTC_TIMESTAMP(6)",
    b"innodb_trx",
    b"information_schema",
    b"START TRANSACTION",
    b"mirrorlake load",
    b"CONNECTION_ID()",
]


@pytest.mark.full
@pytest.mark.parametrize("word", WORDS, ids=bytes.decode)
@pytest.mark.parametrize("how", ["before", "after", "stall", "slow"])
def test_whatever_question_is_not_answered(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, word: bytes, how: How
) -> None:
    """A sync ends, by an error that can be retried if by one; then everything is exact."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))",
        f"INSERT INTO t VALUES {', '.join(f'({n}, {n}, UTC_TIMESTAMP(6))' for n in range(50))}",
    )
    terms = {"mode": "incremental", "key": ["id"], "cursor": "at", "verify": True}
    with OtherProcess(server.port, word, how) as proxy:
        workspace = engine_for({"t": terms}, {"port": proxy.port, "silence": SHORT})
        contract = workspace.config.table("t")
        load_table(workspace, contract)
        sql("UPDATE t SET v = v + 1, at = UTC_TIMESTAMP(6) WHERE id < 30", "DO 0")
        proxy.arm()
        failed = load_in_the_end(workspace, contract, MirrorlakeError)
        met = proxy.met.is_set()
    assert all(error.retryable for error in failed), failed
    assert met or word in (b"SHOW CREATE TABLE", b"START TRANSACTION", b"innodb_trx"), "never sent"
    raw = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    rows = lake_rows(workspace, contract.namespaces.raw, raw)
    newest = {row["id"]: row["v"] for row in sorted(rows, key=lambda row: row["_mirror_seq"])}
    assert newest == dict(sql("SELECT id, v FROM t"))
    loads = {load.load_id for load in workspace.ledger.successful_loads(contract.name, 0)}
    assert {row["_mirror_load"] for row in rows} <= loads
    assert len({(row["id"], row["_mirror_load"]) for row in rows}) == len(rows)
