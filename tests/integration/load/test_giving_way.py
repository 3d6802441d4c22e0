"""A read that stands in somebody's way is ended, and the load tried again: an ALTER TABLE is not kept
waiting, old row versions do not pile up, and what is mirrored in the end is exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from demo.oracle import compare_table
from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ReadGivenUp
from mirrorlake.ledger import Load
from mirrorlake.operations.loading import sync
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, Place, connected
from tests.integration.sources.mysql.test_limits import FULL, make_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
ROWS = 1_000
SLOW = {"rows_per_second": 40}
"""25 seconds for the table: far longer than anybody should wait, on a busy machine too."""


@pytest.fixture(scope="session", params=["mariadb", pytest.param("mysql8", marks=pytest.mark.full)])
def server(request: pytest.FixtureRequest) -> EmbeddedServer:
    return request.getfixturevalue(request.param)


@contextmanager
def once_read(server: EmbeddedServer, database: str, act: Callable[[Any], None]) -> Iterator[Any]:
    """Do something once a load reads a table of the test; what it took is in the dict, in seconds."""
    took: dict[str, float] = {}

    def run() -> None:
        with server.admin(database) as admin, admin.cursor() as cursor:
            for _ in range(200):
                cursor.execute(
                    "SELECT COUNT(*) FROM information_schema.PROCESSLIST "
                    f"WHERE INFO LIKE '%mirrorlake load%' AND DB = '{database}' "
                    "AND ID <> CONNECTION_ID()"
                )
                if cursor.fetchone()[0]:
                    break
                time.sleep(0.05)
            began = time.monotonic()
            act(cursor)
            took["seconds"] = time.monotonic() - began

    thread = threading.Thread(target=run)
    thread.start()
    yield took
    thread.join()


def assert_exact(workspace: Workspace, server: EmbeddedServer, contract: TableContract) -> None:
    """The newest raw copy is what MySQL has, says the oracle."""
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, contract.table))
    assert deduped is not None
    with connected(server, contract.database) as connection:
        verdict = compare_table(
            connection, contract.database, contract.table, contract.key, deduped
        )
    assert verdict.equal, verdict.describe()


def states(workspace: Workspace, contract: TableContract) -> list[str]:
    return [load.state for load in workspace.ledger.loads(contract.name)]


def test_an_alter_is_not_kept_waiting(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, place: Place
) -> None:
    """It adds a column while a read of 25 seconds is under way."""
    make_rows(sql, ROWS, width=10_000)
    slow = engine_for({"t": FULL}, SLOW)
    contract = slow.config.table("t")

    def alter(cursor: Any) -> None:
        cursor.execute("ALTER TABLE t ADD COLUMN late INT NOT NULL DEFAULT 7")
        # What is left of the test need not be slow.
        source = slow.config.sources["s"].model_copy(update={"rows_per_second": 100_000})
        slow.config.sources["s"] = source

    with once_read(server, database, alter):
        result = sync_table(slow, contract)
    assert result.rows == ROWS
    first, *_, last = slow.ledger.loads(contract.name)
    assert (first.state, first.snapshot_id, last.state) == ("errored", None, "success")
    assert "ALTER TABLE" in str(first.error)
    assert "waits for its table" in str(first.error)
    assert_exact(slow, server, contract)
    left = [p for p in (place.folder / "lake").rglob(f"{first.load_id}-*") if p.is_file()]
    assert left == []


@pytest.mark.full
def test_a_read_that_gives_way_each_time_fails_in_the_end(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The history list grows past its limit while it reads."""
    monkeypatch.setattr(sync, "ATTEMPTS", 1)
    make_rows(sql, ROWS, width=10_000)
    workspace = engine_for({"t": FULL}, {**SLOW, "back_off": {"history_list": 150}})
    contract = workspace.config.table("t")

    def change(cursor: Any) -> None:
        for _ in range(400):
            cursor.execute("UPDATE t SET v = 'y' WHERE id = 1")
            cursor.execute("UPDATE t SET v = 'z' WHERE id = 1")

    with (
        once_read(server, database, change),
        pytest.raises(ReadGivenUp, match="history list grew to") as caught,
    ):
        sync_table(workspace, contract)
    assert caught.value.retryable
    failed = workspace.ledger.last_load(contract.name)
    assert isinstance(failed, Load)
    assert (failed.state, failed.snapshot_id) == ("errored", None)
    assert workspace.lake.load(Identifier(contract.namespaces.deduped, "t")) is None


@pytest.mark.full
def test_without_the_privilege_a_read_goes_on(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Nobody else's statement can be seen: the DDL waits, and the load is right."""
    grants = {f"{database}.*": "SELECT", "*.*": "REPLICATION CLIENT"}
    server.create_user("blind", PASSWORD, grants)
    make_rows(sql, 1_000, width=10_000)
    workspace = engine_for({"t": FULL}, {"user": "blind", "rows_per_second": 400})
    contract = workspace.config.table("t")
    with once_read(server, database, lambda c: c.execute("ALTER TABLE t COMMENT 'x'")) as took:
        assert sync_table(workspace, contract).rows == 1_000
    assert took["seconds"] > 0.5
    assert states(workspace, contract) == ["success"]
    assert_exact(workspace, server, contract)
