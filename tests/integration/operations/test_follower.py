"""`mirrorlake follow`: what is committed is in clean a moment later, exactly once, whatever dies."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result

from demo.embedded import EmbeddedServer
from mirrorlake.cli.main import cli
from mirrorlake.errors import ConfigError
from mirrorlake.operations.following.follower import FollowTerms, follow_source, followed_tables
from mirrorlake.operations.following.rounds import FollowedRound
from mirrorlake.operations.loading.quiet_log import is_followed
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.integration.operations.test_follow_log import (
    LOG,
    TABLE,
    assert_equal,
    kinds,
    raw_rows,
    sync_all,
)
from tests.soak.runs import Order, Runner

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
SECONDS = 150.0


class Following:
    """A follower in a thread."""

    def __init__(self, workspace: Workspace, terms: FollowTerms | None = None) -> None:
        self.workspace, self.stop = workspace, threading.Event()
        self.rounds: list[FollowedRound] = []
        self.waits: list[str] = []
        self.error: BaseException | None = None
        self._terms = terms
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        parts = (self.stop, self.rounds.append, self.waits.append, self._terms)
        try:
            follow_source(self.workspace, "s", *parts)
        except BaseException as error:  # noqa: BLE001 - the test's thread looks at it
            self.error = error

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.stop.set()
        self._thread.join(SECONDS)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error

    def caught_up(self, rows: int | None = None) -> None:
        """Wait until a round began after now and found nothing more."""
        place, deadline = len(self.rounds), time.monotonic() + SECONDS
        while self.error is None:
            done = self.rounds[place:]
            if rows is not None and sum(sum(one.rows.values()) for one in done) >= rows:
                return
            assert time.monotonic() < deadline, (self.rounds[-3:], self.waits)
            time.sleep(0.05)


@contextmanager
def following(workspace: Workspace, terms: FollowTerms | None = None) -> Iterator[Following]:
    found = Following(workspace, terms)
    found.start()
    try:
        yield found
    finally:
        found.end()


def once(workspace: Workspace, **terms: Any) -> list[FollowedRound]:
    found = Following(workspace, FollowTerms(once=True, **terms))
    found.start()
    found._thread.join(SECONDS)
    found.end()
    return found.rounds


def test_changes_arrive_while_it_runs(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE.format("t"), TABLE.format("u"), "INSERT INTO t (id) VALUES (1), (2)")
    workspace = engine_for({"t": LOG, "u": LOG})
    with following(workspace) as running:
        running.caught_up(2)
        assert is_followed(workspace.ledger, "s")
        sql(
            "INSERT INTO t (id) VALUES (3)", "DELETE FROM t WHERE id = 1", "UPDATE t SET amount = 1"
        )
        running.caught_up(3)
        assert_equal(workspace, server, "t", "u")
        sql("INSERT INTO u (id) VALUES (7)")
        running.caught_up(1)
        assert_equal(workspace, server, "t", "u")
    assert not is_followed(workspace.ledger, "s")
    assert not running.waits
    last = running.rounds[-1]
    assert last.reached
    assert last.lag_bytes >= 0
    assert not last.failed
    found = sync_all(workspace)
    assert {one.window for one in found.values()} == {"unchanged"}
