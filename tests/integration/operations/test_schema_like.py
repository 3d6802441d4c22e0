"""Many tables like those of public schemas: synced side by side, killed at any moment, changed,
synced again, and proved to be MySQL's, row by row and cell by cell."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from demo.oracle import compare_rows
from mirrorlake.destinations.iceberg.catalog.connection import Identifier
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.lakes import by_pyiceberg
from tests.integration.sources.mysql.test_types import source_rows
from tests.support.command import COMMAND
from tests.support.invented_schema import Invented, changes_of, invented_tables

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


def killed_sync(workspace: Workspace, after: int, seconds: float) -> int:
    """A sync in a process of its own, killed a moment after so many more tables were loaded; how
    many loads it left behind that did not end."""
    command = [*COMMAND, "sync", "--jobs", "2", "--config"]
    before = _loaded(workspace)
    process = subprocess.Popen(
        [*command, str(workspace.config.path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None and _loaded(workspace) - before < after:
        time.sleep(0.05)
    time.sleep(seconds)
    with_jvm = os.getpgid(process.pid) if process.poll() is None else None
    if with_jvm is not None:
        os.killpg(with_jvm, signal.SIGKILL)
    process.wait()
    newest = workspace.ledger.newest_attempts([c.name for c in workspace.config.tables])
    return sum(load.state == "pending" for load in newest.values())


def _loaded(workspace: Workspace) -> int:
    """The highest number of any load that succeeded."""
    found = workspace.ledger.newest_loads([c.name for c in workspace.config.tables])
    return max((load.seq for load in found.values()), default=0)


def sync_all(workspace: Workspace) -> dict[str, str]:
    """Every table, several at once; the evidence of what was not read, by table."""
    contracts = workspace.config.tables
    look = look_at(workspace.config, workspace.ledger, contracts)
    found = list(sync_tables(workspace, contracts, jobs=3, look=look))
    errors = {s.name.rpartition(".")[2]: str(s.error) for s in found if s.error}
    assert not errors, errors
    results = [(s.name.rpartition(".")[2], s.result) for s in found if s.result]
    return {table: r.unchanged for table, r in results if r.unchanged}


def assert_mirrored(
    server: EmbeddedServer, workspace: Workspace, database: str, tables: list[Invented]
) -> int:
    """How many rows there are; all of them are the server's."""
    rows = 0
    for table in tables:
        source = source_rows(server, database, table.name)
        found = workspace.lake.load(Identifier(f"s_{database}", table.name))
        assert found is not None, table.name
        verdict = compare_rows(source, table.key, by_pyiceberg(found))
        assert verdict.equal, f"{table.name}: {verdict.describe(20)}"
        rows += len(source.rows)
    return rows


def run_schema(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, size: tuple[int, int]
) -> str:
    count, kills = size
    rng, tables = random.Random(count), invented_tables(count, count)  # noqa: S311
    for table in tables:
        sql(*table.statements)
    workspace = engine_for({table.name: table.contract for table in tables})
    left = 0
    for number in range(kills):
        left += killed_sync(workspace, rng.randint(1, count // (kills + 1)), rng.random() * 2)
        for table in rng.sample(tables, count // 4 if number else 0):
            sql(*changes_of(table, rng))
    sync_all(workspace)
    assert_mirrored(server, workspace, database, tables)
    changed = rng.sample(tables, count // 3)
    for table in changed:
        sql(*changes_of(table, rng))
    unread = sync_all(workspace)
    assert not {t.name for t in changed if len(t.statements) > 1} & {*unread}, unread
    rows = assert_mirrored(server, workspace, database, tables)
    return (
        f"{count} tables, {rows:,} rows: {kills} syncs killed, {left} loads left behind, "
        f"{len(changed)} tables changed and {len(unread)} known to be unchanged; all equal"
    )


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_schema_that_is_killed_and_changed_is_mirrored(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    run_schema(server, database, sql, engine_for, (24, 1))


@pytest.mark.full
@pytest.mark.timeout(5400)
def test_four_hundred_tables_are_mirrored(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = run_schema(server, database, sql, engine_for, (400, 8))
    with capsys.disabled():
        print(f"\n{found}")
