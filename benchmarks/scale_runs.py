"""Part ``scale-runs``: 200 runs at once over one ledger and one catalog, both on one Postgres.

Each run opens ledger, catalog and lake for itself and syncs one table, as a run of Dagster or of
cron does. Three quarters have a table to themselves; the others come in fives to one table, and
some writer changes rows meanwhile. Afterwards every table is compared by the oracle, which shares
no code with the engine, and raw has to hold each load once. Runs are threads of eight processes: as
a process each, 200 of them took 12 GB.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import psycopg
import yaml

from benchmarks.location import load_note
from benchmarks.report import ROOT, Figures, Section, spread
from benchmarks.sides import runs_at_once
from benchmarks.source import Source, started
from demo.oracle import compare_table
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.workspace import Workspace
from tests.support.beside import beside
from tests.support.postgres import PASSWORD, Postgres, running_postgres

RUNS, SHARED, TOGETHER, ROWS = 200, 10, 5, 500
ROUNDS = ((100, "30s"), (1_000, "900s"))
"""``max_connections`` (100 is Postgres' own), and how long a lock or a connection is waited for
(30 s is ours)."""
_TAKEN, _HELD = ("no connection",), ("LeaseHeld",)
PROCESSES = 8


@dataclass
class Outcome:
    """What became of the runs of one round."""

    max_connections: int
    runs: int
    seconds: float = 0.0
    codes: Counter[str] = field(default_factory=Counter[str])
    peak: int = 0
    each: list[float] = field(default_factory=list[float])
    tables: int = 0
    unequal: list[str] = field(default_factory=list[str])
    doubled: list[str] = field(default_factory=list[str])
    loads: int = 0


def run(_runs: int, scale: float) -> Figures:
    """All runs at once, with as many connections as Postgres takes by itself, and with enough."""
    runs = max(8, round(RUNS * scale))
    found = [_round(runs, most, wait) for most, wait in ROUNDS]
    return [_section(found, [wait for _, wait in ROUNDS])]


def _round(runs: int, max_connections: int, wait: str) -> Outcome:
    shared = max(1, round(SHARED * runs / RUNS))
    alone = runs - shared * TOGETHER
    outcome = Outcome(max_connections, runs, tables=alone + shared)
    with running_postgres(max_connections) as postgres, started() as source:
        names = [f"t{number}" for number in range(alone + shared)]
        _make_tables(source, names)
        path = _contract(source, postgres, names, wait)
        # Tables and marks of ledger and catalog are there, as in any deployment but a new one.
        Workspace.open(load_config(path)).close()
        order = names[:alone] + names[alone:] * TOGETHER
        with _watched(postgres, outcome), _changing(source, names[alone:]):
            _all_at_once(path, order, outcome)
        _compare(source, path, outcome)
    return outcome


def _make_tables(source: Source, names: list[str]) -> None:
    with source.server.admin() as admin, admin.cursor() as cursor:
        # Each run has sessions of its own there, too.
        cursor.execute("SET GLOBAL max_connections = 1000")
        cursor.execute("CREATE DATABASE many")
        cursor.execute("USE many")
        for name in names:
            cursor.execute(
                f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT NOT NULL, at DATETIME(6) NOT NULL"
                " DEFAULT UTC_TIMESTAMP(6), KEY (at))"
            )
            cursor.execute(
                f"INSERT INTO {name} (id, v) SELECT seq, seq FROM seq_1_to_{ROWS}",
            )


def _contract(source: Source, postgres: Postgres, names: list[str], wait: str) -> Path:
    os.environ["BENCH_PASSWORD"], os.environ["PG_PASSWORD"] = source.password, PASSWORD
    with postgres.admin() as admin:
        for name in ("ledger", "catalog"):
            admin.execute(f"CREATE DATABASE {name}")
    url = f"postgresql://mirror:${{env:PG_PASSWORD}}@127.0.0.1:{postgres.port}"
    terms = {"mode": "incremental", "key": ["id"], "cursor": "at"}
    text = {
        "version": 1,
        "lake": {"warehouse": "lake", "catalog": {"uri": f"{url}/catalog", "wait": wait}},
        "ledger": {"url": f"{url}/ledger", "wait": wait},
        "sources": {
            "s": source.section(databases={"many": {"tables": dict.fromkeys(names, terms)}})
        },
    }
    path = source.folder / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return path


def _all_at_once(path: Path, order: list[str], outcome: Outcome) -> None:
    with contextlib.ExitStack() as running:
        sides = [
            running.enter_context(_side(path, order[number::PROCESSES]))
            for number in range(min(PROCESSES, len(order)))
        ]
        for side in sides:
            _read(side)  # it has imported everything
        begun = time.monotonic()
        for side in sides:
            _write(side)
        for side in sides:
            for seconds, kind, words in json.loads(_read(side)):
                outcome.each.append(seconds)
                outcome.codes[_ended(kind, words)] += 1
        outcome.seconds = time.monotonic() - begun


@contextlib.contextmanager
def _side(path: Path, names: list[str]) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-m", runs_at_once.__name__, str(path), *names],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _read(side: subprocess.Popen[str]) -> str:
    line = side.stdout.readline() if side.stdout else ""
    if not line:
        raise click.ClickException(f"{runs_at_once.__name__} ended with {side.wait()}")
    return line


def _write(side: subprocess.Popen[str]) -> None:
    assert side.stdin is not None
    side.stdin.write("go\n")
    side.stdin.flush()


def _ended(kind: str, words: str) -> str:
    """How a run ended: ``"ok"``, or by which kind of error."""
    if not kind:
        return "ok"
    if "clients" in words or "connection slots" in words:
        return _TAKEN[0]
    return kind


@contextlib.contextmanager
def _watched(postgres: Postgres, outcome: Outcome) -> Iterator[None]:
    """Count the connections of others ten times a second, over one that was there first."""

    def watch(admin: psycopg.Connection[Any], stop: threading.Event) -> None:
        query = "SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"
        while not stop.wait(0.1):
            row = admin.execute(query).fetchone()
            outcome.peak = max(outcome.peak, row[0] - 1 if row else 0)

    with postgres.admin() as admin, beside(functools.partial(watch, admin)):
        yield


@contextlib.contextmanager
def _changing(source: Source, names: list[str]) -> Iterator[None]:
    """Rows of the shared tables change while their runs work."""

    def change(stop: threading.Event) -> None:
        number = 0
        with source.server.admin("many") as admin, admin.cursor() as cursor:
            while not stop.wait(0.05):
                number += 1
                cursor.execute(
                    f"UPDATE {names[number % len(names)]} SET v = v + 1, at = UTC_TIMESTAMP(6)"
                    f" WHERE id = {number % ROWS + 1}"
                )
                admin.commit()

    with beside(change):
        yield


def _compare(source: Source, path: Path, outcome: Outcome) -> None:
    """Sync what is left, one after the other; then deduped is MySQL, and raw has each load once."""
    config = load_config(path)
    with Workspace.open(config) as workspace:
        for contract in config.tables:
            load_table(workspace, contract)
            sync_table(workspace, contract)
            spaces = contract.namespaces
            deduped = workspace.lake.load(Identifier(spaces.deduped, contract.table))
            assert deduped is not None
            with source.server.admin() as admin:
                verdict = compare_table(admin, "many", contract.table, contract.key, deduped)
            if not verdict.equal:
                outcome.unequal.append(contract.table)
            loads = workspace.ledger.successful_loads(contract.name, 0)
            outcome.loads += len(loads)
            known = {load.load_id for load in loads}
            if not _each_load_once(workspace, contract, known, loads):
                outcome.doubled.append(contract.table)
    if outcome.unequal or outcome.doubled:
        raise click.ClickException(f"not exact: {outcome.unequal}, {outcome.doubled}")


def _each_load_once(workspace: Workspace, contract: Any, known: set[str], loads: list[Any]) -> bool:
    [name] = {load.raw_table for load in loads}
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, name))
    assert raw is not None
    rows = raw.scan().to_arrow()
    single = rows.group_by(["id", "_mirror_load"]).aggregate([]).num_rows == rows.num_rows
    return single and set(rows["_mirror_load"].to_pylist()) <= known


def _section(found: list[Outcome], waits: Sequence[str]) -> Section:
    rows = tuple(
        (
            f"{one.max_connections:,}",
            wait,
            str(one.codes["ok"]),
            *(str(sum(one.codes[name] for name in group)) for group in (_TAKEN, _HELD)),
            str(one.runs - sum(one.codes[name] for name in ("ok", *_TAKEN, *_HELD))),
            str(one.peak),
            f"{one.seconds:.0f}",
            *spread(one.each),
            f"{one.tables} of {one.tables}",
            f"{one.loads:,}",
        )
        for one, wait in zip(found, waits, strict=True)
    )
    columns = ("max_connections", "wait", "ended well", "without a connection", "table held")
    columns += ("other errors", "connections, peak", "s in all", "median s", "min", "max")
    columns += ("tables equal", "loads, each once")
    one = found[0]
    about = (
        f"{one.runs} runs at once, each a sync of a table of {ROWS} rows, {TOGETHER} of them "
        "for each of some tables, whose rows change meanwhile; ledger and catalog on one "
        "Postgres 17. "
        "`wait` is `ledger.wait` and `lake.catalog.wait`. Afterwards what is left is synced, and "
        "every table compared by the oracle, and raw has each load once: else this part fails."
    )
    return Section("Runs at once on a Postgres ledger", about, columns, rows, (load_note(),))
