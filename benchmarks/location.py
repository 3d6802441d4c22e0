"""Part ``location``: how long Dagster's server takes to load 500 tables, and idle sensors to tick.

Loading: each run is a fresh process that does what the code server does, up to the serialised
snapshot that the webserver asks for. Imports are timed apart: a server imports once, and the same
for one table as for five hundred. Ticks: the sensors' own functions over 500 tables of a real
MariaDB, each with a load that is folded, in a process that ticked before. History: the sensor that
reports three years of days of as many tables, and Dagster writing its events. Beside the wall's
seconds stand those of this process's processor: on a machine that does other work too, they say
more.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.report import ROOT, Figures, Section, spread
from dagster_mirrorlake.table import LAYERS
from mirrorlake.config import Config, load_config
from mirrorlake.ledger import Ledger, Receipt, Window
from mirrorlake.runtime.embedded.mariadb import MariaDB

TABLES = 500
HISTORY = timedelta(days=3 * 365)
LOAD_LIMIT, TICK_LIMIT = "4", "2"
# What a code server does, by stage, each in seconds of the wall.
_LOAD = """
import json, sys, time
def clock(): return time.perf_counter(), time.process_time()
marks = [clock()]
import dagster
marks.append(clock())
import definitions, assets, checks, resources, sensors
marks.append(clock())
from pathlib import Path
with definitions.few_collections():
    defs = definitions.load(Path(sys.argv[1]))
marks.append(clock())
repository = defs.get_repository_def()
repository.load_all_definitions()
marks.append(clock())
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import serialize_value
serialize_value(RepositorySnap.from_def(repository))
marks.append(clock())
print(json.dumps(marks))
"""
_STAGES = (
    ("import dagster", 0, 1),
    ("import the location's modules", 1, 2),
    ("contract file to definitions", 2, 3),
    ("definitions to repository", 3, 4),
    ("repository to serialised snapshot", 4, 5),
    ("load: all but imports", 2, 5),
    ("load with imports", 0, 5),
)
_COLUMNS = ("median s", "min", "max", "median CPU s", "limit")


def run(runs: int, scale: float) -> Figures:
    """Seconds of both, each ``runs`` times; ``scale`` times as many tables."""
    tables = max(2, round(TABLES * scale))
    password = os.environ["BENCH_PASSWORD"] = secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory() as name, MariaDB.start(Path(name) / "mysql") as server:
        server.create_user("mirror", password)
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE many")
            for number in range(tables):
                cursor.execute(
                    f"CREATE TABLE many.t{number} (id INT PRIMARY KEY, word VARCHAR(20), "
                    "modified_at TIMESTAMP(6) NOT NULL, KEY (modified_at))"
                )
        path = Path(name) / "mirrorlake.yaml"
        path.write_text(contracts(server.port, tables), encoding="utf-8")
        fold_all(load_config(path))
        old = Path(name) / "old" / "mirrorlake.yaml"
        old.parent.mkdir()
        old.write_text(contracts(server.port, tables, _before()), encoding="utf-8")
        fold_all(load_config(old))
        return [_loads(path, tables, runs), _ticks(path, tables, runs), _history(old, tables)]


def _before() -> date:
    """The first day of a history that nobody reported yet."""
    return datetime.now(UTC).date() - HISTORY


def _loads(path: Path, tables: int, runs: int) -> Section:
    _marks(path)  # fills the caches of compiled modules
    found = [_marks(path) for _ in range(runs)]
    rows: list[tuple[str, ...]] = []
    for stage, start, end in _STAGES:
        wall = [marks[end][0] - marks[start][0] for marks in found]
        used = [marks[end][1] - marks[start][1] for marks in found]
        limit = LOAD_LIMIT if stage == "load: all but imports" else "–"
        rows.append((stage, *spread(wall), spread(used)[0], limit))
    about = f"{tables} tables: {_sizes(path)}, in a fresh process."
    return Section("Load", about, ("stage", *_COLUMNS), tuple(rows), (load_note(),))


def _sizes(path: Path) -> str:
    """How much there is to load."""
    from dagster_mirrorlake.location import load_definitions

    graph = load_definitions(path).resolve_asset_graph()
    assets, checks = len(graph.get_all_asset_keys()), len(graph.asset_check_keys)
    return f"{assets:,} assets and {checks:,} checks"


def _marks(path: Path) -> list[tuple[float, float]]:
    """Wall and processor time at the ends of the stages of one load."""
    absent = str(path.with_name("none.yaml"))
    ended = subprocess.run(
        [sys.executable, "-c", _LOAD, str(path)],
        cwd=ROOT,
        env={**os.environ, "MIRRORLAKE_CONFIG": absent, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return json.loads(ended.stdout)


def _ticks(path: Path, tables: int, runs: int) -> Section:
    from dagster_mirrorlake.location import load_definitions

    defs = load_definitions(path)
    repository = defs.get_repository_def()
    rows: list[tuple[str, ...]] = []
    with dg.DagsterInstance.ephemeral() as instance:
        for name in ("moved_many", "unfolded"):
            tick = ticker(defs, repository, instance, name)
            tick()  # sees every table for the first time
            requested = tick()
            if requested:
                raise AssertionError(f"sensor {name} requested {requested} runs, and nothing moved")
            timed = [_timed(tick) for _ in range(runs)]
            wall, used = spread([t[0] for t in timed]), spread([t[1] for t in timed])[0]
            rows.append((f"`{name}`", *wall, used, TICK_LIMIT))
    about = f"{tables} tables, nothing moved, nothing to fold."
    return Section("Idle tick", about, ("sensor", *_COLUMNS), tuple(rows), (load_note(),))


def _history(path: Path, tables: int) -> Section:
    """The sensor `partitions` over tables that Dagster knows nothing of, until the newest week of
    each is shown; its events are written as the daemon writes them, into files."""
    from dagster_mirrorlake.location import load_definitions

    defs = load_definitions(path)
    looks: list[float] = []
    writes: list[float] = []
    events, wanted = 0, tables * len(LAYERS) * 7
    with tempfile.TemporaryDirectory() as home, dg.DagsterInstance.local_temp(home) as instance:
        look = _reports(defs, instance)
        while events < wanted:
            started = time.perf_counter()
            found = look()
            looked = time.perf_counter()
            for event in found:
                instance.report_runless_asset_event(event)
            looks.append(looked - started)
            writes.append(time.perf_counter() - looked)
            events += len(found)
            if not found:
                raise AssertionError(f"history ended after {events} reports")
    rate = events / sum(writes)
    total = tables * len(LAYERS) * (HISTORY.days + 1)
    rows = (
        ("a look", *spread(looks)),
        ("writing its events", *spread(writes)),
        ("both, until every table's newest week is shown", *spread([sum(looks) + sum(writes)])),
    )
    about = (
        f"{tables} tables of {HISTORY.days + 1:,} days, none of them reported yet: {len(looks)} "
        f"looks. Dagster writes {rate:.0f} events a second, one at a time."
    )
    whole = (
        f"All {total:,} events of their history take {total / rate / 3600:.1f} hours of writing, "
        "the newest days first; the sensor rests between its looks."
    )
    return Section("History", about, ("", *_COLUMNS[:3]), rows, (whole, load_note()))


def _reports(
    defs: dg.Definitions, instance: dg.DagsterInstance
) -> Callable[[], list[dg.AssetMaterialization]]:
    """A function that looks once, with the cursor of the look before."""
    sensor, repository = defs.resolve_sensor_def("partitions"), defs.get_repository_def()
    cursor: str | None = None

    def look() -> list[dg.AssetMaterialization]:
        nonlocal cursor
        context = dg.build_sensor_context(
            instance=instance,
            cursor=cursor,
            repository_def=repository,
            resources=dict(defs.resources or {}),
        )
        with context:
            data = sensor.evaluate_tick(context)
        cursor = data.cursor or cursor
        return [one for one in data.asset_events if isinstance(one, dg.AssetMaterialization)]

    return look


def ticker(
    defs: dg.Definitions, repository: Any, instance: dg.DagsterInstance, name: str
) -> Callable[[], int]:
    """A function that ticks once, with the cursor of the tick before, and counts its requests."""
    sensor = defs.resolve_sensor_def(name)
    cursor: str | None = None

    def tick() -> int:
        nonlocal cursor
        context = dg.build_sensor_context(
            instance=instance,
            cursor=cursor,
            repository_def=repository,
            resources=dict(defs.resources or {}),
        )
        with context:
            data = sensor.evaluate_tick(context)
        cursor = data.cursor or cursor
        return len(data.run_requests or [])

    return tick


def _timed(run: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the wall and of this process's processor."""
    started = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - started[0], time.process_time() - started[1]


def load_note() -> str:
    """How busy the machine was: what the wall's seconds are worth."""
    return f"The machine's load average was {os.getloadavg()[1]:.0f} on {os.cpu_count()} cores."


def fold_all(config: Config) -> None:
    """One load per table in the ledger, folded: an idle location has a past."""
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    now = datetime.now(UTC).replace(tzinfo=None)
    receipt = Receipt(
        rows=0, bytes=0, files=0, digest="0", moment=now.isoformat(), hi=now.isoformat(),
        server="s", position="", originals=0, future=0, query_seconds=0.0,
    )  # fmt: skip
    for contract in config.tables:
        with ledger.lease(contract.name, "bench") as lease:
            window = Window("initial", None, None, now.date())
            load_id = ledger.create_load(contract.name, window)
            load = ledger.start_load(load_id, lease, "bench", f"{contract.table}_v_0", None)
            ledger.finish_load(load, None, receipt)
        ledger.record_folds(contract.name, "deduped", [load.seq])


def contracts(port: int, tables: int, first: date | None = None) -> str:
    """A contract file of ``tables`` tables, whose partitions begin on ``first`` if it is given."""
    begin = f", partitions_from: {first}" if first else ""
    table = f"{{mode: incremental, key: [id], cursor: modified_at{begin}}}"
    listed: Sequence[str] = [f"          t{number}: {table}" for number in range(tables)]
    head = f"""version: 1
lake: {{warehouse: lake}}
ledger: {{url: "sqlite:///ledger.db"}}
sources:
  many:
    host: 127.0.0.1
    port: {port}
    user: mirror
    password: ${{env:BENCH_PASSWORD}}
    every: 0s
    databases:
      many:
        tables:
"""
    return head + "\n".join(listed) + "\n"
