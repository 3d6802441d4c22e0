"""RESET MASTER: places of the log of before are never taken for places of the new one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.config import Config
from mirrorlake.operations.following import live_stream
from mirrorlake.operations.following.follower import FollowTerms, follow_source
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.following.log_state import LogEnd, LogPlace, read_end
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import LOG, TABLE, assert_equal, kinds, sync_all
from tests.integration.operations.test_quiet_log import quiet

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def end_of(workspace: Workspace) -> LogEnd:
    with session(workspace.config.sources["s"]) as connection:
        return read_end(connection, workspace.config.sources["s"])


def test_a_log_that_was_begun_again_and_is_as_long_is_not_quiet(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1)", "RESET MASTER")
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    assert quiet(workspace) == {"t": True}
    progress = workspace.ledger.log_progress(workspace.config.table("t").name)
    time.sleep(1.1)  # a file knows when it was begun to the second
    sql("INSERT INTO t (id) VALUES (2)", "DELETE FROM t WHERE id = 1", "RESET MASTER")
    assert progress is not None
    assert LogPlace.parse(progress.place).log == end_of(workspace).position, "or it shows nothing"
    assert quiet(workspace) == {"t": False}
    sync_all(workspace)
    assert_equal(workspace, server)
    assert quiet(workspace) == {"t": True}


@pytest.mark.parametrize("rows", [1, pytest.param(2, marks=pytest.mark.full)])
def test_a_log_that_is_begun_again_while_it_is_followed(
    server: EmbeddedServer,
    sql: Sql,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
    rows: int,
) -> None:
    """Between two looks, so that the new log is as long as the old one, or longer."""
    monkeypatch.setattr(live_stream, "_NOTED_EVERY", 0.0)
    sql(TABLE.format("t"), "INSERT INTO t (id) VALUES (1)")
    time.sleep(1.1)  # a file knows when it was begun to the second
    sql("RESET MASTER", "INSERT INTO t (id) VALUES (2)")
    workspace, stop = engine_for({"t": LOG}), threading.Event()
    sync_all(workspace)
    place = end_of(workspace).position

    def begin_again() -> Iterator[None]:
        yield  # a round has opened the log
        time.sleep(1.1)
        sql("DELETE FROM t WHERE id = 1", "RESET MASTER")
        for number in range(rows):
            sql(f"INSERT INTO t (id) VALUES ({number + 3})")
        end = end_of(workspace).position
        assert end == place if rows == 1 else place < end, "or it shows nothing"
        yield
        while len(kinds(workspace, "t")) < 2 and time.monotonic() < deadline:
            yield
        stop.set()

    deadline, turns = time.monotonic() + 60, begin_again()

    def between_rounds() -> Config | None:
        next(turns, None)
        return None

    terms = FollowTerms(reload=between_rounds)
    follow_source(workspace, "s", stop, lambda _: None, lambda _: None, terms)
    assert_equal(workspace, server)
    assert kinds(workspace, "t") == ["initial", "initial"]
