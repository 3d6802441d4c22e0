"""Gaps, backfills, holds and recovery, by the command line as a person runs it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SourceError, SourceHeld
from mirrorlake.ledger import Ledger
from mirrorlake.load.protocol.protocol import load_window
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.operations.status.status import status_of
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.integration.contract_files import write_contract

Sql = Callable[..., Any]
TODAY = datetime.now(UTC).date()
DAY = TODAY - timedelta(days=2)
ORDERS = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "start": str(DAY - timedelta(days=5)),
}
SCHEMA = "CREATE TABLE {} (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))"


@pytest.fixture
def world(server: MariaDB, place: Place, database: str, sql: Sql) -> Callable[..., Path]:
    """A contract file over tables of the test's own database, in the session's lake."""

    def make(**tables: Any) -> Path:
        for name in tables:
            sql(SCHEMA.format(name), f"INSERT INTO {name} VALUES (1, 1, '{DAY} 01:00')")
        return write_contract(
            place.folder / f"{database}.yaml",
            server.port,
            {database: {"tables": tables}},
            ledger={"url": "sqlite:///ledger.db", "wait": "1s"},
        )

    return make


def run(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--config", str(config)], catch_exceptions=True)


def run_json(config: Path, *arguments: str) -> Any:
    result = run(config, *arguments, "--json")
    return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def shared_session(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    share_session(place, monkeypatch)


def assert_equal(server: MariaDB, place: Place, config: Path, table: str) -> None:
    contract = load_config(config).table(table)
    deduped = place.lake.load(Identifier(contract.namespaces.deduped, table))
    assert deduped is not None
    with server.admin() as admin:
        verdict = compare_table(admin, contract.database, table, contract.key, deduped)
    assert verdict.equal, verdict.describe()


def test_gaps_are_told_and_a_backfill_fills_them(
    world: Callable[..., Path], sql: Sql, server: MariaDB, place: Place
) -> None:
    config = world(orders=ORDERS)
    (gap,) = run_json(config, "gaps")
    assert (gap["first"], gap["last"]) == (ORDERS["start"], str(TODAY))
    assert gap["state"] == "not asked"
    (filled,) = run_json(config, "backfill", "orders", "--from", str(DAY))
    assert (filled["window"], filled["rows"], filled["code"]) == ("initial", 1, 0)
    assert run_json(config, "gaps") == []
    assert "No gaps" in run(config, "gaps").output
    sql(f"INSERT INTO orders VALUES (2, 2, '{DAY} 02:00')")
    again = run_json(config, "backfill", "orders", "--from", str(DAY), "--to", str(DAY), "--all")
    assert [(f["window"], f["rows"]) for f in again] == [("reload", 2)]
    shown = run_json(config, "gaps", "--all")
    assert [s["state"] for s in shown] == ["loaded", "reloaded", "loaded"]
    assert_equal(server, place, config, "orders")


def test_a_bad_table_and_a_bad_window_stop_no_other(
    world: Callable[..., Path],
    sql: Sql,
    server: MariaDB,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from mirrorlake.errors import SourceError
    from mirrorlake.operations.loading import sync
    from mirrorlake.operations.planning import backfill

    config = world(orders=ORDERS, visits=ORDERS, gone=ORDERS)
    for table in ("orders", "visits", "gone"):
        assert run(config, "sync", table).exit_code == 0
    sql(
        "DROP TABLE gone",
        *(f"INSERT INTO {t} VALUES (2, 2, '{DAY} 02:00')" for t in ("orders", "visits")),
    )
    tried: list[str] = []

    def flaky(workspace: Any, connection: Any, plan: Any, window: Any, terms: Any) -> Any:
        """The window of one day is lost once; another one for good."""
        if window.kind == "reload" and plan.contract.table == "orders":
            tried.append(window.lo)
            if window.lo == str(DAY) and tried.count(window.lo) == 1:
                raise SourceError("lost", retryable=True)
            if window.lo == str(DAY - timedelta(days=1)):
                raise SourceError("for good")
        return load_window(workspace, connection, plan, window, terms)

    monkeypatch.setattr(sync, "load_window", flaky)
    monkeypatch.setattr(backfill, "WAIT_SECONDS", 0.0)
    begin = str(DAY - timedelta(days=1))
    arguments = ("backfill", "orders", "visits", "gone", "--from", begin, "--to", str(DAY))
    result = run(config, *arguments, "--all", "--days-per-window", "1", "--json")
    assert result.exit_code != 0
    found = {(f["table"].rsplit(".", 1)[1], f["first"]): f for f in json.loads(result.stdout)}
    assert found["orders", str(DAY)]["attempts"] == 2
    assert found["orders", str(DAY)]["error"] is None
    assert found["orders", begin]["error"] == "for good"
    assert found["visits", str(DAY)]["rows"] == 2
    assert "has no table" in found["gone", begin]["error"]
    for table in ("orders", "visits"):
        assert_equal(server, place, config, table)


@pytest.mark.full
def test_a_failed_window_is_a_gap_until_it_is_filled(
    world: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from mirrorlake.errors import SourceError
    from mirrorlake.load.protocol import protocol

    config = world(orders=ORDERS)
    run(config, "sync", "orders")

    def broken(*_: Any, **__: Any) -> Any:
        raise SourceError("the wire was cut")

    with monkeypatch.context() as patch:
        patch.setattr(protocol, "run_chunks", broken)
        arguments = ("backfill", "orders", "--from", str(DAY), "--to", str(DAY))
        assert run(config, *arguments, "--all").exit_code == 4
    (gap,) = run_json(config, "gaps")
    assert (gap["first"], gap["state"], gap["reason"]) == (str(DAY), "errored", "the wire was cut")
    (filled,) = run_json(config, *arguments, "--errored")
    assert filled["window"] == "reload"
    assert run_json(config, "gaps") == []


def test_a_held_source_is_left_alone_and_its_backlog_is_read_afterwards(
    world: Callable[..., Path], sql: Sql, server: MariaDB, place: Place
) -> None:
    config = world(orders=ORDERS)
    run(config, "sync", "orders")
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat(timespec="minutes")
    held = run(config, "hold", "s", "--until", until, "--reason", "new disks")
    assert held.exit_code == 0, held.output
    sql("INSERT INTO orders VALUES (2, 2, UTC_TIMESTAMP(6))")
    result = run(config, "sync", "orders", "--json")
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["tables"] == answer["errors"] == []
    assert "new disks" in answer["held"][0]["reason"]
    workspace = Workspace.open(load_config(config), spark=place.spark)
    with pytest.raises(SourceHeld):
        reload_days(workspace, workspace.config.table("orders"), DAY, DAY)
    assert run(config, "hold", "s", "--release").exit_code == 0
    assert run(config, "sync", "orders").exit_code == 0
    assert_equal(server, place, config, "orders")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nobody", "--until", "2999-01-01"), "has no source 'nobody'"),
        (("s",), "needs either --until or --release"),
        (("s", "--until", "2999-01-01", "--release"), "needs either --until or --release"),
        (("s", "--until", "soon"), "is no date and time"),
        (("s", "--until", "2020-01-01"), "has passed"),
    ],
)
def test_a_hold_that_is_none(
    world: Callable[..., Path], arguments: tuple[str, ...], words: str
) -> None:
    result = run(world(orders=ORDERS), "hold", *arguments)
    assert result.exit_code != 0
    assert words in str(result.exception)


def _listed(answer: dict[str, Any]) -> set[tuple[str, int, bool]]:
    """What a dry run says would be removed."""
    found = {(f["path"], f["bytes"], f["for_good"]) for t in answer["tables"] for f in t["planned"]}
    assert sum(t["orphans"] for t in answer["tables"]) == len(found)
    return found


def test_orphans_of_a_clean_table_are_not_kept(world: Callable[..., Path], place: Place) -> None:
    """They may show what a rule takes away."""
    config = world(orders={**ORDERS, "clean": "table"})
    run(config, "sync", "orders")
    workspace = Workspace.open(load_config(config), spark=place.spark)
    contract = workspace.config.table("orders")
    left: dict[str, Path] = {}
    for layer in ("deduped", "clean"):
        name = Identifier(getattr(contract.namespaces, layer), contract.table)
        folder = Path(workspace.lake.location(name).removeprefix("file://"))
        left[layer] = folder / "data" / "0123-1-00000.parquet"
        left[layer].write_bytes(b"left by a dead run")
    planned = run_json(config, "maintain", "orders", "--grace", "0", "--dry-run")
    assert _listed(planned) == {(str(left["deduped"]), 18, False), (str(left["clean"]), 18, True)}
    assert recover_table(workspace, contract, timedelta(0)).orphans == 2
    assert [path.name for path in left["deduped"].parents[1].rglob("removed/**/0123*")]
    assert not (left["clean"].parents[1] / "removed").exists()


def test_recovery_settles_and_removes_orphans_alone(
    world: Callable[..., Path], sql: Sql, server: MariaDB, place: Place
) -> None:
    config = world(orders=ORDERS)
    run(config, "sync", "orders")
    workspace = Workspace.open(load_config(config), spark=place.spark)
    contract = workspace.config.table("orders")
    version = workspace.ledger.schema_versions(contract.name)[-1]
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, version.raw_table))
    assert raw is not None
    data = Path(raw.location().removeprefix("file://")) / "data" / f"_mirror_day={DAY}"
    old, young = data / "0123-1-00000.parquet", data / "4567-1-00000.parquet"
    for orphan in (old, young):
        orphan.write_bytes(b"left by a dead run")
    manifest = data.parents[1] / "metadata" / "0123-m0.avro"  # of a commit that failed
    manifest.write_bytes(b"left by a dead run")
    for orphan in (old, manifest):
        os.utime(orphan, (time.time() - 7_200,) * 2)
    with workspace.ledger.lease(contract.name, "dead") as lease:
        window = workspace.ledger.last_load(contract.name).window  # type: ignore[union-attr]
        load_id = workspace.ledger.create_load(contract.name, window)
        workspace.ledger.start_load(load_id, lease, "dead", version.raw_table, None)
    planned = run_json(config, "maintain", "orders", "--grace", "1", "--dry-run")
    assert _listed(planned) == {(str(old), 18, False), (str(manifest), 18, False)}
    states = {load.state for load in workspace.ledger.loads(contract.name)}
    assert "pending" in states, "nothing was changed"
    assert old.exists()
    done = recover_table(workspace, contract, timedelta(hours=1))
    assert (done.committed, done.errored, done.orphans, done.bytes) == (0, 1, 2, 36)
    assert not old.exists()
    assert not manifest.exists()
    assert young.exists()
    # Set aside, so that it can be taken back; and not for ever.
    (day,) = (data.parents[1] / "removed").iterdir()
    aside, today = day.parent, date.fromisoformat(day.name)
    shutil.copytree(aside / str(today), data.parents[1], dirs_exist_ok=True)
    assert (old.read_bytes(), manifest.exists()) == (b"left by a dead run", True)
    recover_table(workspace, contract, timedelta(hours=1))
    (aside / str(today)).rename(aside / str(today - timedelta(days=7)))
    assert recover_table(workspace, contract, timedelta(hours=1)).orphans == 0
    overdue = aside / str(today - timedelta(days=8))
    (aside / str(today - timedelta(days=7))).rename(overdue)
    (aside / "not ours").mkdir()
    planned = run_json(config, "maintain", "orders", "--grace", "1", "--dry-run")
    assert {one[1:] for one in _listed(planned)} == {(18, True)}
    assert overdue.exists()
    assert recover_table(workspace, contract, timedelta(hours=1)).orphans == 0
    assert [path.name for path in aside.iterdir()] == ["not ours"]
    assert_equal(server, place, config, "orders")
    answer = run_json(config, "recover", "orders", "--grace", "0")
    assert [(t["orphans"], t["errored"]) for t in answer["tables"]] == [(1, 0)]
    assert_equal(server, place, config, "orders")


def empty(file: Path) -> None:
    file.write_bytes(b"")


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


@pytest.mark.parametrize("damage", [empty, cut])
@pytest.mark.parametrize("which", ["manifest", "list"])
def test_upkeep_names_a_manifest_that_is_cut_and_goes_on(
    world: Callable[..., Path], place: Place, damage: Callable[[Path], None], which: str
) -> None:
    config = world(orders=ORDERS, plain=ORDERS)
    run(config, "sync")
    namespaces = load_config(config).table("orders").namespaces
    table = place.lake.load(Identifier(namespaces.deduped, "orders"))
    assert table is not None
    head = table.current_snapshot()
    assert head is not None
    path = head.manifest_list if which == "list" else head.manifests(table.io)[0].manifest_path
    damage(Path(path.removeprefix("file://")))
    for command in ("maintain", "recover"):
        result = run(config, command, "--json")
        assert result.exit_code == 6, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        assert f"{path}" in result.output
        assert "is cut, or is no manifest" in result.output
        assert "Interrupted" not in result.output
        assert "plain" in {
            one["table"].rpartition(".")[2] for one in json.loads(result.stdout)["tables"]
        }


@pytest.mark.full
def test_a_backfill_of_a_table_that_another_run_loads_changes_nothing(
    world: Callable[..., Path], place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mirrorlake.operations.planning import backfill

    monkeypatch.setattr(backfill, "WAIT_SECONDS", 0.0)
    config = world(orders=ORDERS)
    workspace = Workspace.open(load_config(config), spark=place.spark)
    (name,) = [c.name for c in workspace.config.tables]
    with workspace.ledger.lease(name, "the-other-run"):
        result = run(config, "backfill", "orders", "--from", str(DAY), "--json")
    (filled,) = json.loads(result.stdout)
    assert (result.exit_code, filled["code"], filled["attempts"]) == (7, 7, 3)
    assert "is being written by run the-other-run" in filled["error"]
    assert workspace.ledger.loads(name) == []
    (filled,) = run_json(config, "backfill", "orders", "--from", str(DAY))
    assert (filled["code"], filled["rows"]) == (0, 1)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (("--from", "2026-02-31"), "does not match the format"),
        (("--from", "12"), "does not match the format"),
        (("--from", str(TODAY), "--to", str(DAY)), "is no range to fill"),
        (("--from", str(DAY), "--days-per-window", "0"), "is no range to fill"),
        (("--from", str(DAY), "--days-per-window", "many"), "not a valid integer"),
    ],
)
def test_bounds_that_are_none(
    world: Callable[..., Path], bounds: tuple[str, ...], words: str
) -> None:
    config = world(orders=ORDERS)
    result = run(config, "backfill", "orders", *bounds)
    assert result.exit_code != 0
    assert words in result.output + str(result.exception)
    (contract,) = load_config(config).tables
    assert Ledger(load_config(config).ledger.url).loads(contract.name) == []


def test_another_server_than_last_time_is_refused_until_it_is_accepted(
    world: Callable[..., Path], place: Place, sql: Sql, server: MariaDB
) -> None:
    """Its answers and the first server's are not one history."""
    config = world(orders={k: v for k, v in ORDERS.items() if k != "start"})
    workspace = Workspace.open(load_config(config), spark=place.spark)
    (contract,) = workspace.config.tables
    load_table(workspace, contract)
    with sqlite3.connect(place.folder / "ledger.db") as database:
        change = "UPDATE loads SET receipt = json_set(receipt, '$.server', 'before') WHERE table_name = ?"
        assert database.execute(change, (contract.name,)).rowcount == 1
    before = workspace.ledger.loads(contract.name)
    with pytest.raises(SourceError, match=r"is now server .* was read from before"):
        load_table(workspace, contract)
    with pytest.raises(SourceError, match="Two servers' answers are not one history"):
        reload_days(workspace, contract, DAY, DAY)
    assert workspace.ledger.loads(contract.name) == before
    broken = [one.detail for one in diagnose_contract(config) if one.state == "broken"]
    assert len(broken) == 2, broken
    assert "is now server" in broken[1]
    # A failover: the new server has other rows, and no cursor tells. Somebody says that it is so.
    sql(
        f"UPDATE orders SET v = 7, at = '{DAY} 01:00'",
        "INSERT INTO orders VALUES (0, 0, '2020-01-01')",
    )
    (accepted,) = run_json(config, "accept", "s")
    assert (accepted["table"], accepted["was"]) == (contract.name, "before")
    assert run_json(config, "accept", "s") == []
    assert {g["state"] for g in run_json(config, "gaps")} == {"unproved"}
    assert status_of(workspace.config, workspace.ledger, [contract])[0].checks.startswith(
        "unproved: read from server before"
    )
    assert reload_days(workspace, contract, DAY, DAY).window == "initial"
    assert run_json(config, "gaps") == []
    assert sync_table(workspace, contract).window == "live"
    assert_equal(server, place, config, "orders")
