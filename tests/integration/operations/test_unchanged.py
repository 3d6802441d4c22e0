"""Syncs of tables that did not change: nothing is read, loaded or folded, and nothing that a sync
would put right is passed over."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from mirrorlake.alerts.late_tables import find_breaches
from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import forget_view
from mirrorlake.ledger.tables import CHANGE_STAMPS
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import fold_looked, load_table, reload_days, sync_table
from mirrorlake.operations.loading.unchanged import Look, look_at
from mirrorlake.operations.status.status import status_of
from mirrorlake.operations.upkeep import maintain
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.changes.change_stamps import BLUR
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows, share_session
from tests.support.command import COMMAND

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TABLES: dict[str, Any] = {
    "f": {"mode": "full", "key": ["id"], "verify": True},
    "i": {"mode": "incremental", "key": ["id"], "cursor": "modified_at"},
    "a": {"mode": "append", "key": ["id"], "cursor": "id"},
    "c": {"mode": "full", "key": ["id"], "clean": "table", "columns": {"v": {"pii": "hash"}}},
    "k": {"mode": "full"},
}


COPY_AND_WINDOWS = {name: TABLES[name] for name in "fi"}
TESTS = 25
"""Not fewer than there are tests with a database of their own."""


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture(scope="module")
def databases(server: EmbeddedServer) -> Iterator[list[str]]:
    """Databases with five tables each, at rest and older than any blur."""
    names = [f"u{uuid.uuid4().hex[:10]}" for _ in range(TESTS)]
    with server.admin() as admin, admin.cursor() as cursor:
        for database, table in itertools.product(names, TABLES):
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {database}")
            kind = "KEY" if table == "k" else "PRIMARY KEY"
            cursor.execute(
                f"CREATE TABLE {database}.{table} (id INT NOT NULL AUTO_INCREMENT, v VARCHAR(20), "
                "modified_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) "
                f"ON UPDATE CURRENT_TIMESTAMP(6), {kind} (id), KEY (modified_at))"
            )
            cursor.execute(f"INSERT INTO {database}.{table} (v) VALUES ('one'), ('two'), (NULL)")
    time.sleep(BLUR.total_seconds() + 1.2)
    yield list(names)
    with server.admin() as admin, admin.cursor() as cursor:
        for database in names:
            cursor.execute(f"DROP DATABASE {database}")


@pytest.fixture
def database(databases: list[str]) -> str:
    return databases.pop()


@pytest.fixture
def workspace(engine_for: EngineFor) -> Workspace:
    """A copy and a table of windows, synced by a look."""
    return synced(engine_for(COPY_AND_WINDOWS))


@pytest.fixture
def five(engine_for: EngineFor) -> Workspace:
    """A table of every kind, synced by a look."""
    return synced(engine_for(TABLES))


def synced(workspace: Workspace) -> Workspace:
    assert {r.unchanged for r in sync_all(workspace).values()} == {None}
    return workspace


def looked(workspace: Workspace) -> Look:
    return look_at(workspace.config, workspace.ledger, workspace.config.tables)


def sync_all(workspace: Workspace, look: Look | None = None) -> dict[str, SyncResult]:
    """The result of each table, by its short name."""
    look = look or looked(workspace)
    return {
        contract.table: sync_table(workspace, contract, look=look)
        for contract in workspace.config.tables
    }


def unchanged(workspace: Workspace) -> set[str]:
    return {name.rpartition(".")[2] for name in looked(workspace).unchanged}


def test_what_is_unchanged_is_left_alone(five: Workspace, sql: Sql) -> None:
    workspace = five
    loads = {c.name: workspace.ledger.last_load(c.name) for c in workspace.config.tables}
    found = sync_all(workspace)
    assert {r.window for r in found.values()} == {"unchanged"}
    assert {r.unchanged for r in found.values()} <= {"server", "table"}
    assert {c.name: workspace.ledger.last_load(c.name) for c in workspace.config.tables} == loads
    sql("UPDATE f SET v = 'new' WHERE id = 1", "DELETE FROM k WHERE id = 2")
    found = sync_all(workspace)
    assert {name for name, r in found.items() if r.unchanged is None} == {"f", "k"}
    spaces = workspace.config.tables[0].namespaces
    assert sorted(r["v"] or "" for r in lake_rows(workspace, spaces.deduped, "f")) == [
        *("", "new", "two")
    ]
    assert {r["id"] for r in lake_rows(workspace, spaces.deduped, "k")} == {1, 3}
    # They changed a moment ago: only the log, once at rest, can tell that they did not again.
    assert unchanged(workspace) >= {"i", "a", "c"}


def test_without_a_look_a_table_is_read(workspace: Workspace) -> None:
    contract = _f(workspace)[0]
    assert sync_table(workspace, contract).window == "full"
    # That load's stamp was never taken: the next look knows nothing.
    assert contract.table not in unchanged(workspace)
    assert sync_all(workspace)["f"].unchanged in (None, "digest")
    assert contract.table in unchanged(workspace)


def test_a_look_is_of_before_the_load(workspace: Workspace, sql: Sql) -> None:
    """What changes between the look and the read, or right after it, is found by the next look."""
    look = looked(workspace)
    sql("UPDATE f SET v = 'between' WHERE id = 1")
    contract = _f(workspace)[0]
    sync_table(workspace, contract, look=Look(look.shown, look.as_of))
    assert "f" not in unchanged(workspace)


@pytest.mark.full
def test_a_load_is_known_once_it_is_folded_and_by_a_look_before_it(
    workspace: Workspace, sql: Sql
) -> None:
    """As Dagster's steps do it: until its fold a table is not what MySQL is."""
    sql("UPDATE f SET v = 'new' WHERE id = 1")
    time.sleep(BLUR.total_seconds() + 1.2)
    contract, look = _f(workspace)[0], looked(workspace)
    assert load_table(workspace, contract, look=look).window == "full"
    assert "f" not in unchanged(workspace)
    after = looked(workspace)
    # A look after the load says nothing of what it read, nor does a fold without one.
    assert fold_looked(workspace, contract, after) == 1
    assert fold_table(workspace, contract) == 0
    assert "f" not in unchanged(workspace)
    assert fold_looked(workspace, contract, look) == 0
    assert "f" in unchanged(workspace)
    assert load_table(workspace, contract, look=looked(workspace)).window == "unchanged"


@pytest.mark.full
def test_a_copy_of_the_same_rows_is_known_by_its_digest(five: Workspace, sql: Sql) -> None:
    workspace = five
    sql("UPDATE f SET v = 'x' WHERE id = 1", "UPDATE f SET v = 'one' WHERE id = 1")
    sql("UPDATE c SET v = 'x' WHERE id = 1", "UPDATE c SET v = 'one' WHERE id = 1")
    sql("UPDATE i SET v = 'x' WHERE id = 1", "UPDATE i SET v = 'one' WHERE id = 1")
    before = {n: _modified(sql, n) for n in "fc"}
    assert len(before["f"]) == 3
    # Only a copy that was proved has digests; and the time of the last change is a column too.
    found = sync_all(workspace)
    assert {n: found[n].unchanged for n in "fci"} == {"f": None, "c": None, "i": None}
    sql("ALTER TABLE f FORCE", "ALTER TABLE c FORCE")
    found = sync_all(workspace)
    assert {n: found[n].unchanged for n in "fc"} == {"f": "digest", "c": None}
    status = {s.table: s for s in status_of(workspace.config, workspace.ledger, _f(workspace))}
    assert [s.unchanged for s in status.values()] == ["digest"]


def _f(workspace: Workspace) -> list[Any]:
    return [c for c in workspace.config.tables if c.table == "f"]


def _modified(sql: Sql, table: str) -> Any:
    return sql(f"SELECT modified_at FROM {table}")


def test_a_digest_that_differs_in_one_cell_reads(workspace: Workspace, sql: Sql) -> None:
    sql("ALTER TABLE f FORCE", "SET @m = (SELECT modified_at FROM f WHERE id = 2)")
    sql("UPDATE f SET v = 'twp', modified_at = modified_at WHERE id = 2")
    assert sync_all(workspace)["f"].unchanged is None
    assert any(
        r["v"] == "twp"
        for r in lake_rows(workspace, _f(workspace)[0].namespaces.raw, _raw(workspace))
    )


def _raw(workspace: Workspace) -> str:
    load = workspace.ledger.last_load(_f(workspace)[0].name)
    assert load is not None
    return load.raw_table


@pytest.mark.parametrize(
    "what",
    [
        "raw",
        *(pytest.param(w, marks=pytest.mark.full) for w in ("clean view", "raw view", "deduped")),
    ],
)
def test_what_somebody_did_to_the_lake_is_put_right(workspace: Workspace, what: str) -> None:
    contract = _f(workspace)[0]
    spaces, lake = contract.namespaces, workspace.lake
    match what:
        case "raw view":
            forget_view(lake, Identifier(spaces.raw, "f"))
        case "clean view":
            workspace.spark.run(
                f"CREATE OR REPLACE VIEW {Identifier(spaces.clean, 'f').sql} AS SELECT 1 AS id"
            )
        case "deduped":
            lake.load(Identifier(spaces.deduped, "f")).delete("id = 1")  # type: ignore[union-attr]
        case _:
            table = lake.load(Identifier(spaces.raw, _raw(workspace)))
            assert table is not None
            table.transaction().set_properties({"note": "x"}).commit_transaction()
    assert "f" not in unchanged(workspace)
    sync_all(workspace)
    if what.endswith("view"):
        assert "f" in unchanged(workspace) or sync_all(workspace)["f"].unchanged


@pytest.mark.full
def test_maintenance_writes_the_same_rows_and_leaves_a_table_unchanged(
    workspace: Workspace, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintain, "RETAIN", 1)
    contract = _f(workspace)[0]
    sql("UPDATE f SET v = 'new' WHERE id = 1")
    time.sleep(BLUR.total_seconds() + 1.2)
    sync_all(workspace)
    before = workspace.lake.load(Identifier(contract.namespaces.deduped, "f"))
    maintain_table(workspace, contract, Ages(keep=timedelta()))
    after = workspace.lake.load(Identifier(contract.namespaces.deduped, "f"))
    assert before is not None
    assert after is not None
    assert before.metadata_location != after.metadata_location
    assert "f" in unchanged(workspace)
    # What was not as the sync left it before is not taken for it afterwards.
    after.delete("id = 1")
    maintain_table(workspace, contract, Ages(keep=timedelta()))
    assert "f" not in unchanged(workspace)


def test_an_edited_contract_reads(workspace: Workspace, engine_for: EngineFor) -> None:
    edited: list[dict[str, Any]] = [
        {"mode": "full", "key": ["id"], "verify": False},
        {"mode": "full", "key": ["id"], "columns": {"v": {"pii": "drop"}}},
        {"mode": "incremental", "key": ["id"], "cursor": "modified_at"},
        {"mode": "full"},
    ]
    assert "f" in unchanged(workspace)
    for terms in edited:
        assert "f" not in unchanged(engine_for({"f": terms})), terms


@pytest.mark.full
def test_marks_refusals_and_later_loads_read(five: Workspace) -> None:
    workspace = five
    ledger = workspace.ledger
    names = {c.table: c.name for c in workspace.config.tables}
    ledger.mark_unproved(names["f"], "", "for a test")
    ledger.record_refusal(names["c"], "for a test")
    today = datetime.now(UTC).date()
    reload_days(workspace, workspace.config.table(names["i"]), today, today)
    load_table(workspace, workspace.config.table(names["a"]))
    assert unchanged(workspace) == {"k"}


def test_a_source_that_is_held_or_always_read_is_not_looked_at(
    workspace: Workspace, engine_for: EngineFor
) -> None:
    always = engine_for(COPY_AND_WINDOWS, {"skip_unchanged": None})
    assert looked(always) == Look()
    workspace.ledger.hold("s", datetime.now(UTC) + timedelta(hours=1))
    try:
        assert looked(workspace) == Look()
    finally:
        workspace.ledger.release("s")


@pytest.mark.full
def test_after_the_time_that_is_set_it_is_read_whatever_the_source_shows(
    workspace: Workspace, engine_for: EngineFor
) -> None:
    soon = engine_for(COPY_AND_WINDOWS, {"skip_unchanged": "2s"})
    assert unchanged(soon) in (set(), {"f", "i"})
    time.sleep(2.1)
    assert unchanged(soon) == set()
    assert {r.unchanged for r in sync_all(soon).values()} == {None}


def test_a_server_that_was_started_again_is_asked_for_digests(workspace: Workspace) -> None:
    """Its log may stand anywhere, and it has forgotten the times of changes."""
    name = _f(workspace)[0].name
    ledger_engine = sa.create_engine(workspace.config.ledger.url)
    with ledger_engine.begin() as connection:
        mine = CHANGE_STAMPS.c.table_name == name
        shown = json.loads(
            connection.execute(sa.select(CHANGE_STAMPS.c.shown).where(mine)).scalar_one()
        )
        shown["started"] = "2020-01-01T00:00:00"
        connection.execute(CHANGE_STAMPS.update().where(mine).values(shown=json.dumps(shown)))
    assert "f" not in unchanged(workspace)
    assert sync_all(workspace)["f"].unchanged == "digest"
    assert "f" in unchanged(workspace)


def test_freshness_counts_from_when_it_was_seen(workspace: Workspace) -> None:
    config, ledger = workspace.config, workspace.ledger
    later = datetime.now(UTC) + timedelta(hours=50, minutes=1)
    late = {b.table for b in find_breaches(config, ledger, later) if b.kind == "late"}
    assert {c.name for c in config.tables} <= late
    name = config.tables[0].name
    load = ledger.last_load(name)
    assert load is not None
    ledger.record_unchanged({(name, load.seq): (later - timedelta(hours=1), "server")})
    late = {b.table for b in find_breaches(config, ledger, later) if b.kind == "late"}
    assert name not in late
    # Another load's stamp says nothing of this one.
    ledger.record_unchanged({(name, load.seq + 1): (later + timedelta(hours=100), "server")})
    assert name in {
        b.table
        for b in find_breaches(config, ledger, later + timedelta(hours=60))
        if b.kind == "late"
    }


def test_the_command_reads_what_changed_and_starts_nothing_for_the_rest(
    workspace: Workspace, sql: Sql, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_session(place, monkeypatch)
    path = str(workspace.config.path)
    command = [COMMAND[0], "-X", "importtime", COMMAND[1], "sync", "--config", path]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("2 of 2 unchanged: "), ran.stdout
    for module in ("pyiceberg", "pyspark", "pyarrow", "dagster", "rich.progress"):
        assert f" {module}\n" not in ran.stderr, module
    sql("INSERT INTO i (v) VALUES ('new')")
    told = CliRunner().invoke(cli, ["sync", "--config", path, "--json"])
    tables = {t["table"].rpartition(".")[2]: t for t in json.loads(told.stdout)["tables"]}
    assert {name for name, t in tables.items() if t["unchanged"] is None} == {"i"}
    assert {t["window"] for name, t in tables.items() if name != "i"} == {"unchanged"}
