"""The soak: a few rounds always, two hundred in `make test-full`; and that it sees what it must."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import HASH_KEY, PASSWORD, USER, Place
from tests.soak import __main__ as command
from tests.soak import report
from tests.soak.kills import KINDS, WEIGHTS, Kill, deal
from tests.soak.runs import Runner
from tests.soak.soak import Soak, Source
from tests.soak.steps import FINISHED

FEW = [
    Kill("step", "orders", "sync", "fold.committed", 0.0, 0.0),
    Kill("server", "orders", "sync", "", 0.1, 0.3),
]

ALTERED = [
    *(Kill("move", "orders", "sync", "", moment, 0.0, "columns") for moment in (0.2, 0.5, 0.8)),
    Kill("step", "orders", "sync", "versions.staged", 0.0, 0.0),
    *(Kill("move", "orders", "sync", "", moment, 0.0, "columns") for moment in (0.95, 0.4)),
    Kill("step", "orders", "sync", "versions.shown", 0.0, 0.0),
    Kill("server", "orders", "sync", "", 0.5, 0.3),
]
"""Five shapes of one table, whose versions are a table."""


BY_HANDS = [
    Kill("move", "names", "sync", "", moment, 0.0, "hands")
    for moment in (0.2, 0.5, 0.8, 0.3, 0.6, 0.9, 0.4, 0.7)
]


LOGGED = [
    Kill("step", "parcels", "sync", "commit.after", 0.0, 0.0),
    Kill("server", "stocks", "sync", "", 0.3, 0.3),
    Kill("step", "stocks", "sync", "ledger.success", 0.0, 0.0),
    Kill("connection", "parcels", "sync", "", 0.2, 0.3),
    Kill("run", "stocks", "sync", "", 0.6, 0.0),
    Kill("step", "parcels", "sync", "fold.committed", 0.0, 0.0),
    Kill("step", "stocks", "sync", "commit.before", 0.0, 0.0, "", ("deduped", "delete")),
]
"""Tables that follow the log."""

OF_TENANTS = [
    Kill("tenants", "tenants", "sync", point, 0.5, 0.0)
    for point in (
        *("", "tenants.committed", "tenants.marked", "tenants.shown"),
        *("tenants.clean_marked", "tenants.clean_replaced"),
    )
]
"""Tenants that join, leave and change their columns."""


@pytest.fixture
def soak(place: Place, runner: Runner, tmp_path: Path) -> Iterator[Soak]:
    """A soak in the session's lake, over a server of its own that may be killed."""
    source = Source(MariaDB.start(tmp_path / "mysql"))
    source.server.create_user(USER, PASSWORD)
    yield Soak(place.folder, place.lake, source, runner, HASH_KEY.encode())
    source.stop()


@pytest.mark.full
def test_a_few_rounds(soak: Soak) -> None:
    soak.tables = ("orders",)
    soak.episode(FEW, 1, print)
    assert soak.findings.none, soak.findings
    assert len(soak.killed) == len(FEW)
    assert soak.rows > 10


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_tables_that_follow_the_log(soak: Soak) -> None:
    soak.tables, soak.episodes = ("parcels", "stocks"), 3
    soak.episode(LOGGED, 5, print)
    assert soak.findings.none, soak.findings
    assert len(soak.killed) == len(LOGGED)


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_tenants_change_while_their_sync_is_killed(soak: Soak) -> None:
    soak.tables, soak.episodes = ("cities",), 4
    soak.episode(OF_TENANTS, 5, print)
    assert soak.findings.none, soak.findings
    assert len(soak.killed) == len(OF_TENANTS)


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_other_hands_write_while_runs_are_killed(soak: Soak) -> None:
    soak.tables, soak.episodes = ("names",), 2
    soak.episode(BY_HANDS, 3, print)
    assert soak.findings.none, soak.findings
    assert len(soak.killed) == len(BY_HANDS)


@pytest.mark.full
@pytest.mark.timeout(1200)
def test_columns_change_while_runs_are_killed(soak: Soak) -> None:
    soak.tables, soak.episodes = ("orders",), 1  # the other test's database is on another server
    soak.episode(ALTERED, 5, print)
    assert soak.findings.none, soak.findings
    assert len(soak.killed) == len(ALTERED)


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_two_hundred_rounds(tmp_path: Path) -> None:
    """On a server, a lake and a JVM of their own. RECORD=1 writes docs/reliability.md."""
    result = command.soak_result(200, 1, tmp_path)
    print(report.text_of(result))
    if os.environ.get("RECORD", "0") not in ("", "0"):
        report.record(result)
    assert report.is_good(result), report.text_of(result)


def test_rounds_are_dealt_by_their_seed() -> None:
    """The same seed, the same kills; in fifty rounds every kind and every step has its turn."""
    assert deal(100, 4) == deal(100, 4) != deal(100, 5)
    hundred = deal(100, 4)
    assert {k: sum(kill.kind == k for kill in hundred) for k in KINDS} == WEIGHTS
    result = {"rounds": 100, "steps": {}, "failpoints": {}}
    for name in report.FAILPOINTS:
        points = [kill.failpoint.partition(":")[0] for kill in hundred]
        result["failpoints"][name] = points.count(name)
    assert report.uncovered(result) == []


def test_a_step_that_nothing_was_killed_at_fails_a_soak() -> None:
    faults = {name: [] for name in report.FAULTS}
    result = {"rounds": 50, "done": 50, "steps": {"a": {"run": 1}}, "failpoints": {"x": 1}}
    result |= {"faults": faults}
    assert report.is_good(result)
    assert not report.is_good({**result, "failpoints": {"x": 0}})
    assert not report.is_good({**result, "steps": {"a": {"run": 0}}})
    assert not report.is_good({**result, "done": 49})
    assert not report.is_good({**result, "faults": {**faults, "lost": ["a row"]}})
    assert FINISHED not in report.STEPS


def test_the_page_is_made_of_the_kept_figures() -> None:
    assert report.PAGE.read_text("utf-8") == report.page()
