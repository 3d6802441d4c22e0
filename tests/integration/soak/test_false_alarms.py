"""A moving source, clocks that are off, a replica that lags: no difference is told that is none.

Seconds of it always; two minutes in `make test-full`; thirty by `python -m tests.soak.alarms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.config import load_config
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.soak import report
from tests.soak.alarms import contract_for, replicated, result_of, watch

Servers = tuple[MariaDB, MariaDB]
SHORT, LONG = 8, 120


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Once, for so long as this run has: a second pair of servers is no history of one table."""
    if "seconds" in metafunc.fixturenames:
        quick = metafunc.config.getoption("-m") == "not full"
        metafunc.parametrize("seconds", [SHORT if quick else LONG])


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with replicated(tmp_path) as both:
        yield both


@pytest.mark.full
def test_no_false_alarm(
    seconds: int, servers: Servers, place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = load_config(contract_for(place.folder, *servers))
    workspace = Workspace.open(config, spark=place.spark)
    found = watch(workspace, *servers, seconds, 500, seed=7)
    assert found.good, (found.false, found.missed)
    assert sum(found.changes.values()) > 200, "the source hardly moved"
    assert found.lag > 0
    assert found.waiting > 0
    assert found.compared > 400, "hardly a row was old enough to be compared"
    assert sum(found.verdicts.values()) >= 4
    # The page says what a run came to.
    monkeypatch.setattr(report, "RESULTS", tmp_path)
    monkeypatch.setattr(report, "PAGE", tmp_path / "page.md")
    report.record_alarms(result_of(found, seconds / 60, 500, 7))
    assert "| false alarms | 0 |" in (tmp_path / "page.md").read_text("utf-8")
