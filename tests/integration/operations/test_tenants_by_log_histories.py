"""Any history of a few tenants that follow their server's log, by syncs or while a process follows
it, with runs that are killed on the way: then deduped is what MySQL has, and what all of raw makes."""

from __future__ import annotations

import os
import signal
import uuid
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mirrorlake.operations.following.follower import FollowTerms
from mirrorlake.operations.loading.binlog import log_stream
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from tests.integration.conftest import Place
from tests.integration.operations.test_follower import Following
from tests.integration.operations.test_tenants_by_log import (
    COLUMNS,
    COPYING,
    FOLLOWING,
    LOG,
    assert_as_rebuilt,
    check,
)
from tests.integration.operations.test_tenants_followed import is_shown
from tests.integration.tenants import Tenants
from tests.soak.runs import Order, Runner


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


TENANTS = ("a", "b", "c", "d")
ACTS = st.one_of(
    st.tuples(st.just("insert"), st.sampled_from(TENANTS), st.integers(1, 9), st.integers(0, 99)),
    st.tuples(st.just("update"), st.sampled_from(TENANTS), st.integers(1, 9), st.integers(0, 99)),
    st.tuples(st.just("key"), st.sampled_from(TENANTS), st.integers(1, 9), st.integers(1, 9)),
    st.tuples(st.just("delete"), st.sampled_from(TENANTS), st.integers(1, 9)),
    st.tuples(
        st.sampled_from(["all", "alter", "truncate", "leave", "again"]), st.sampled_from(TENANTS)
    ),
    st.tuples(st.just("across")),
    st.tuples(st.sampled_from(["sync", "sync", "sync", "small", "whole", "maintain"])),
    st.tuples(st.just("kill"), st.sampled_from([*FOLLOWING, *COPYING])),
)


@dataclass
class History:
    """Tenants whose keys repeat, and what happens to them."""

    tenants: Tenants
    runner: Runner
    there: set[str] = field(default_factory=set[str])

    def act(self, name: str, *of: Any) -> None:
        getattr(self, f"_{name}")(*of)

    def _run(self, tenant: str, *statements: str) -> None:
        if tenant not in self.there:
            self.there.add(tenant)
            if self.tenants.name(tenant) in self.tenants.made:
                self.tenants.run(tenant, f"CREATE TABLE orders ({COLUMNS})")
            else:
                self.tenants.make(tenant, COLUMNS)
        self.tenants.run(tenant, *statements)

    def _insert(self, tenant: str, number: int, amount: int) -> None:
        insert = "REPLACE INTO orders (id, name, at, amount) VALUES"
        self._run(tenant, f"{insert} ({number}, '{tenant}{amount}', '2026-01-01', {amount})")

    def _update(self, tenant: str, number: int, amount: int) -> None:
        self._run(tenant, f"UPDATE orders SET amount = {amount} WHERE id >= {number}")

    def _key(self, tenant: str, number: int, other: int) -> None:
        self._run(tenant, f"UPDATE IGNORE orders SET id = {other} WHERE id = {number}")

    def _delete(self, tenant: str, number: int) -> None:
        self._run(tenant, f"DELETE FROM orders WHERE id = {number}")

    def _all(self, tenant: str) -> None:
        self._run(tenant, "DELETE FROM orders")

    def _alter(self, tenant: str) -> None:
        self._run(tenant, f"ALTER TABLE orders ADD COLUMN c{uuid.uuid4().hex[:4]} INT DEFAULT 7")

    def _truncate(self, tenant: str) -> None:
        self._run(tenant, "TRUNCATE orders", "INSERT INTO orders (id, name) VALUES (1, 'new')")

    def _again(self, tenant: str) -> None:
        self._run(
            tenant,
            "DROP TABLE orders",
            f"CREATE TABLE orders ({COLUMNS})",
            "INSERT INTO orders VALUES (2, 'made', NULL, 2)",
        )

    def _leave(self, tenant: str) -> None:
        if len(self.there) > 3 and tenant in self.there:
            self.there.discard(tenant)
            self.tenants.drop(tenant)

    def _across(self) -> None:
        """One transaction over all tenants, some of it undone."""
        names = [self.tenants.name(tenant) for tenant in sorted(self.there)]
        inserts = [f"REPLACE INTO `{n}`.orders (id, name) VALUES (5, 'across')" for n in names]
        undone = ["SAVEPOINT p", *(f"DELETE FROM `{n}`.orders" for n in names), "ROLLBACK TO p"]
        self.tenants.sql("BEGIN", *inserts, *undone, "COMMIT")

    def _sync(self) -> None:
        done = self.tenants.sync(accept_smaller=True)
        assert done.failed == {}, done.failed
        self.compare()

    def _small(self) -> None:
        limits, log_stream.LIMITS = log_stream.LIMITS, BatchLimits(rows=2)
        try:
            self._sync()
        finally:
            log_stream.LIMITS = limits

    def _whole(self) -> None:
        self._sync()
        assert_as_rebuilt(self.tenants)

    def _maintain(self) -> None:
        with self.tenants.opened() as (workspace, table):
            assert not [one for one in maintain_table(workspace, table) if one.error]

    def _kill(self, step: str) -> None:
        order = Order(
            self.tenants.write(), "orders", "tenants", failpoint=step, accept_smaller=True
        )
        assert self.runner.run(order).code in (0, -9)

    def compare(self) -> None:
        assert is_shown(self.tenants)

    def end(self) -> None:
        """Whatever runs is ended."""


@dataclass
class FollowedHistory(History):
    """The same, while a process follows the source: each sync is what its rounds make of it."""

    running: Following | None = None
    _opened: ExitStack = field(default_factory=ExitStack)

    def _follow(self, rows: int = 100_000) -> Following:
        if self.running is None:
            workspace, _ = self._opened.enter_context(self.tenants.opened())
            self.running = Following(workspace, FollowTerms(BatchLimits(rows=rows)))
            self._opened.callback(self.running.end)
            self.running.start()
        return self.running

    def _sync(self) -> None:
        self._follow().until(lambda: is_shown(self.tenants))

    def _small(self) -> None:
        self.end()
        self._follow(2).until(lambda: is_shown(self.tenants))

    def _whole(self) -> None:
        self._sync()
        self.end()
        assert_as_rebuilt(self.tenants)

    def _maintain(self) -> None:
        self.end()
        super()._maintain()

    def _kill(self, step: str) -> None:
        self.end()
        run = self.runner.start(Order(self.tenants.write(), "s", "follow", failpoint=step))
        run.until_joined()
        for tenant in sorted(self.there):
            self._insert(tenant, 7, 70)
        if self.runner.wait(run, 8) is None:  # it did not get there
            os.kill(run.pid, signal.SIGKILL)
            self.runner.wait(run)
        assert run.code == -9, run.error

    def end(self) -> None:
        self.running = None
        self._opened.close()


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", [History, FollowedHistory], ids=["synced", "followed"])
def test_any_history(
    kind: type[History], server: EmbeddedServer, place: Place, runner: Runner
) -> None:
    @settings(
        max_examples=12,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    @given(st.lists(ACTS, min_size=12, max_size=30))
    def run(acts: list[tuple[Any, ...]]) -> None:
        prefix = f"t{uuid.uuid4().hex[:8]}"
        group = {"dropped": "remove"}
        contract = {**LOG, "shrink_limit": None}
        tenants = Tenants(server, place, prefix, contract=contract, group=group)
        history = kind(tenants, runner)
        try:
            for tenant in TENANTS[:3]:
                history.act("insert", tenant, 1, 1)
            for one in [("sync",), *acts, ("whole",)]:
                history.act(*one)
            assert check(tenants).verdict == "equal"
        finally:
            history.end()
            tenants.close()

    run()
