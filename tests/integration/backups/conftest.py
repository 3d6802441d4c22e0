"""A small project with a table of windows and a full copy, in folders of the test's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.projects import Project, RawProject, share_jvm

START = datetime.now(UTC).date() - timedelta(days=3)
KEYS = {"w": ["id"], "f": ["id"]}
TABLES = {
    "w": {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "1s"},
    "f": {"mode": "full", "key": ["id"]},
}
TABLES["w"] |= {"start": str(START)}


@pytest.fixture
def change(sql: Callable[..., Any]) -> Callable[[], None]:
    """Rows come, change and go, in both tables."""
    numbers = count(100, 10)

    def more() -> None:
        first = next(numbers)
        for name in KEYS:
            rows = ", ".join(f"({n}, {n}, NOW(6))" for n in range(first, first + 10))
            sql(
                f"INSERT INTO {name} VALUES {rows}",
                f"UPDATE {name} SET v = v + 1, at = NOW(6) WHERE id % 7 = {first // 10 % 7}",
            )
        sql("DELETE FROM f ORDER BY id LIMIT 1")

    return more


@pytest.fixture
def project(
    server: EmbeddedServer,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Project:
    """A project that was not synced yet."""
    sessions = share_jvm(place, monkeypatch)
    for name in KEYS:
        rows = ", ".join(f"({n}, 0, '{START} 01:00')" for n in range(1, 41))
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))",
            f"INSERT INTO {name} VALUES {rows}",
        )
    folder = tmp_path / "original"
    folder.mkdir()
    write_contract(folder / "mirrorlake.yaml", server.port, {database: {"tables": TABLES}})
    return Project(folder, server, database, sessions)


@pytest.fixture
def raw_project(
    server: EmbeddedServer, place: Place, database: str, sql: Callable[..., Any], tmp_path: Path
) -> RawProject:
    """Two loads of a table, in a project of the test's own: no Spark is started."""
    assert place
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 1), (3, 1)")
    folder = tmp_path / "original"
    folder.mkdir()
    tables = {"t": {"mode": "full"}}
    write_contract(folder / "mirrorlake.yaml", server.port, {database: {"tables": tables}})
    made = RawProject(folder, server, database)
    assert made.load() == 3
    sql("INSERT INTO t VALUES (4, 1)")
    assert made.load() == 4
    return made
