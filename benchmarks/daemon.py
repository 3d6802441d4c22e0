"""Changed rows on the whole way: MySQL's commit → Dagster's daemon → a run → visible in clean.

A real ``dagster-daemon`` with our dagster.yaml, our location and its sensors, in a DAGSTER_HOME of
its own; once over a Spark Connect server (pip's pyspark, on loopback), once with a JVM of each run.
The clock starts when the UPDATE returns and stops when a reader finds the fold's snapshot; that it
holds every changed row is looked at then. Stages are by Dagster's own records.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import dagster as dg
import yaml
from pyiceberg.expressions import GreaterThanOrEqual

from benchmarks.location import load_note
from benchmarks.programs import running
from benchmarks.report import ROOT, Section
from mirrorlake.config import Config, load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.settings import catalog_settings
from mirrorlake.runtime.embedded.server import HOST, free_port
from mirrorlake.runtime.jars import ensure_jars
from mirrorlake.runtime.java import CODE_CACHE, java_environment
from mirrorlake.table.lake_tables import deduped_of

EVERY = "5s"
LIMIT = "15"
PATIENCE = 240.0
_STAGES = (
    "waits for the sensor's tick",
    "the tick: MySQL is queried, a run requested",
    "waits in the run queue",
    "the run's process starts and imports",
    "load (raw, its check, the session attached or started)",
    "fold (deduped), to the commit that readers see",
)


@dataclass(frozen=True)
class Way:
    """Where one round's seconds went, by stage, and their sum."""

    stages: tuple[float, ...]

    @property
    def seconds(self) -> float:
        return sum(self.stages)


def arriving(path: Path, change: Callable[[], int], runs: int, warmed: int) -> Section:
    """Rounds over the lake of this contract file, whose one table was synced before.

    Args:
        path: the contract file; nothing else uses its lake meanwhile.
        change: changes rows of the table with one commit, and says how many.
        runs: counted rounds over Connect; without a Connect server there is one.
        warmed: rounds over Connect before those.
    """
    found: dict[str, list[Way]] = {}
    with connect_server(path) as url:
        found["Spark Connect"] = _rounds(path, {"connect": url}, change, warmed + runs)[warmed:]
    found["a JVM of its own"] = _rounds(path, {}, change, 1)
    return _section(found, warmed)


def _rounds(path: Path, spark: dict[str, str], change: Callable[[], int], runs: int) -> list[Way]:
    contract: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    contract["spark"] = spark
    (source,) = contract["sources"].values()
    source["every"] = EVERY
    own = path.with_name("connect.yaml" if spark else "jvm.yaml")
    own.write_text(yaml.safe_dump(contract), encoding="utf-8")
    home = path.parent / f"dagster-{own.stem}"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    # Its databases are made once, by one process.
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.get_run_records(limit=1)
        with _daemon(home, own):
            _wait("the first run", lambda: _is_at_rest(instance), home)
            return [_round(load_config(own), instance, change, home) for _ in range(runs)]


def _round(
    config: Config, instance: dg.DagsterInstance, change: Callable[[], int], home: Path
) -> Way:
    (contract,) = config.tables
    lake, before = Lake(config.lake), set(instance.get_run_ids())
    head = _head(lake, config)
    time.sleep(1.5)
    begun = time.time()
    changed = change()
    committed = time.time()
    _wait("the rows", lambda: _head(lake, config) != head, home)
    visible = time.time()
    table = lake.load(deduped_of(contract))
    assert table is not None
    # Half a minute earlier than the statement: nothing else changes within it but our own rounds.
    text = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(begun))
    there = table.scan(row_filter=GreaterThanOrEqual("modified_at", text)).count()
    if there != changed:
        raise click.ClickException(f"{there} of {changed} changed rows are in clean")
    _wait("the run's end", lambda: _is_at_rest(instance), home)
    (first,) = [i for i in reversed(instance.get_run_ids()) if i not in before][:1]
    return Way(_stages(instance, first, committed, visible))


def _stages(
    instance: dg.DagsterInstance, run_id: str, committed: float, visible: float
) -> tuple[float, ...]:
    """The times between the marks that Dagster keeps of a run."""
    at: dict[str, float] = {}
    for entry in instance.all_logs(run_id):
        event = entry.dagster_event
        if event is not None:
            step = (event.step_key or "").split("__")[0]
            at.setdefault(f"{event.event_type_value} {step}".strip(), entry.timestamp)
    marks = [
        committed,
        max(t for t in _ticks(instance) if t <= at["PIPELINE_ENQUEUED"]),
        at["PIPELINE_ENQUEUED"],
        at["PIPELINE_STARTING"],
        at["PIPELINE_START"],
        at["STEP_START deduped"],
        visible,
    ]
    return tuple(b - a for a, b in itertools.pairwise(marks))


def _ticks(instance: dg.DagsterInstance) -> list[float]:
    return [tick.timestamp for tick in _moved_ticks(instance)]


def _moved_ticks(instance: dg.DagsterInstance) -> Sequence[Any]:
    """The newest ticks of the sensor that looks at the source, newest first."""
    states = [s for s in instance.all_instigator_state() if s.instigator_name.startswith("moved_")]
    if not states:
        return ()
    state = states[0]
    return instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=50)


def _is_at_rest(instance: dg.DagsterInstance) -> bool:
    """Whether the newest tick looked at every table and found that nothing is due."""
    ticks = _moved_ticks(instance)
    failed = next((t.error for t in ticks if t.error), None)
    if failed is not None:
        raise click.ClickException(f"the sensor failed: {failed.message}")
    for record in instance.get_run_records(limit=5):
        if record.dagster_run.status == dg.DagsterRunStatus.FAILURE:
            raise click.ClickException(f"run {record.dagster_run.run_id} failed")
    return bool(ticks) and str(ticks[0].skip_reason or "").startswith("None of")


def _head(lake: Lake, config: Config) -> int | None:
    table = lake.load(deduped_of(config.tables[0]))
    snapshot = table.current_snapshot() if table is not None else None
    return snapshot.snapshot_id if snapshot is not None else None


def _wait(what: str, done: Callable[[], bool], home: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > deadline:
            last = (home / "daemon.log").read_text("utf-8", errors="replace")[-2000:]
            raise click.ClickException(f"{what} did not come within {PATIENCE:g} s:\n{last}")
        time.sleep(0.05)


# --- programs -------------------------------------------------------------------------------------


@contextmanager
def _daemon(home: Path, contract: Path) -> Iterator[None]:
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "MIRRORLAKE_CONFIG": str(contract),
        "MIRRORLAKE_SENSORS": "on",
        "PYTHONPATH": str(ROOT),
    }
    command = [str(Path(sys.executable).with_name("dagster-daemon")), "run"]
    command += ["-w", str(ROOT / "workspace.yaml")]
    with running(command, environment, home / "daemon.log"):
        yield


@contextmanager
def connect_server(path: Path, java_options: str = CODE_CACHE) -> Iterator[str]:
    """A Spark Connect server over the contract file's lake, as docs/deploy.md starts one: its
    URL."""
    import pyspark

    package = Path(pyspark.__file__).parent
    port, lake = free_port(), Lake(load_config(path).lake)
    settings = {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.codegen.cache.maxEntries": "1000",
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        **catalog_settings(lake),
    }
    command = [str(package / "bin" / "spark-class"), "org.apache.spark.deploy.SparkSubmit"]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", "--driver-memory", "2g"]
    command += ["--driver-java-options", java_options]
    command += ["--jars", ",".join(str(jar) for jar in ensure_jars(["spark"]))]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    environment = {**os.environ, **java_environment(), "SPARK_HOME": str(package)}
    log = path.with_name("connect.log")
    with running([*command, "spark-internal"], environment, log):
        deadline = time.monotonic() + 90
        while not _listens(port):
            if time.monotonic() > deadline:
                raise click.ClickException(log.read_text("utf-8", errors="replace")[-2000:])
            time.sleep(0.2)
        yield f"sc://{HOST}:{port}"


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def _section(found: dict[str, list[Way]], warmed: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for name, ways in found.items():
        for stage, text in enumerate(_STAGES):
            seconds = [way.stages[stage] for way in ways]
            rows.append((name, text, *_spread(seconds), "–"))
        rows.append((name, "**together**", *_spread([w.seconds for w in ways]), LIMIT))
    runs = len(found["Spark Connect"])
    about = (
        f"From the UPDATE's return to the rows in clean. The contract says `every: {EVERY}`; by "
        "default the sensor looks once a minute, and the first line is up to 60 s. Over Connect "
        f"{runs} rounds after {warmed} that warm the server, with a JVM of each run one. To reach: "
        f"{LIMIT} s over Connect; without, it is reported."
    )
    columns = ("Spark", "stage", "median s", "min", "max", "limit s")
    return Section("Through the daemon and a run", about, columns, tuple(rows), (load_note(),))


def _spread(seconds: Sequence[float]) -> tuple[str, str, str]:
    return f"{median(seconds):.1f}", f"{min(seconds):.1f}", f"{max(seconds):.1f}"
