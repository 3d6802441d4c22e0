"""Part ``scale-rows``: 100 million rows on a standalone Spark cluster of several workers.

Master and Workers are real processes on loopback, which share with the driver only the folder of
the lake and the server. The first sync reads all rows in chunks on the workers, proves them against
MySQL, commits once, and folds; then `check` compares all rows again. The table is narrow, so that
all of it fits on a small disk: a wide one takes as many more seconds as it has more bytes.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import click
import yaml

from benchmarks.location import load_note
from benchmarks.many import Times, ours, timed
from benchmarks.processes import Watched, process_tree
from benchmarks.report import ROOT, Figures, Section
from benchmarks.source import Source, load_lineitem, started
from mirrorlake.config import load_config
from mirrorlake.ledger import Ledger
from tests.support.spark_cluster import Cluster, standalone_cluster

ROWS, WORKERS, LINEITEM = 100_000_000, 2, 0.2
TERMS = {"mode": "append", "key": ["id"], "cursor": "id"}
LINEITEM_KEY = ["l_orderkey", "l_linenumber"]
_STEP = 5_000_000
_LOOK = 2.0
"""Seconds between two looks at memory: each reads all of /proc."""


@dataclass(frozen=True)
class Step:
    """What one command took: seconds, CPU seconds of all that is watched, and peaks in MB."""

    name: str
    seconds: float
    driver_cpu: float
    workers_cpu: float
    server_cpu: float
    driver: float
    each_worker: float


def run(_runs: int, scale: float) -> Figures:
    """One first sync and one check; ``scale`` times as many rows."""
    rows = max(1_000_000, round(ROWS * scale))
    with started() as source:
        os.environ["BENCH_PASSWORD"] = source.password
        filled = _fill(source, rows)
        with standalone_cluster(source.folder, workers=WORKERS, cores=1, memory="2g") as cluster:
            path = _contract(source, cluster.address)
            commands = {
                "first sync, proved": ours("sync", path),
                "`check`, every row": ours("check", path, "s.big.events"),
            }
            steps = [_step(*one, source, cluster) for one in commands.items()]
            many = _section(path, steps, rows, filled)
        return [many, _stored(source, path, rows, LINEITEM * max(scale, 0.1))]


def _fill(source: Source, rows: int) -> float:
    begun = time.monotonic()
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE big")
        cursor.execute("USE big")
        cursor.execute(
            "CREATE TABLE events (id BIGINT PRIMARY KEY, kind SMALLINT NOT NULL,"
            " amount DECIMAL(10,2), happened_at DATETIME NOT NULL)"
        )
        for first in range(1, rows + 1, _STEP):
            last = min(first + _STEP - 1, rows)
            cursor.execute(
                "INSERT INTO events SELECT seq, seq % 300, seq % 1000003 / 7,"
                f" '2020-01-01' + INTERVAL seq SECOND FROM seq_{first}_to_{last}"
            )
            admin.commit()
        cursor.execute("ANALYZE TABLE events")
    return time.monotonic() - begun


def _contract(source: Source, master: str) -> Path:
    text = {
        "version": 1,
        "lake": {"warehouse": "lake"},
        "ledger": {"url": "sqlite:///ledger.db"},
        "spark": {"master": master, "conf": {"spark.executor.memory": "1200m"}},
        "sources": {
            "s": source.section(
                connections=WORKERS, databases={"big": {"tables": {"events": TERMS}}}
            )
        },
    }
    path = source.folder / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return path


def _step(name: str, command: Sequence[str], source: Source, cluster: Cluster) -> Step:
    """Run a command to its end.

    Raises:
        ClickException: it failed.
    """
    servers = (source.server.pid,)
    groups = tuple(worker.pid for worker in cluster.workers)
    before = _cpu_of(groups), _cpu_of(servers)
    begun, used = time.monotonic(), os.times()
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with ExitStack() as watching:
        driver = watching.enter_context(Watched(process.pid, _LOOK))
        workers = [watching.enter_context(Watched(pid, _LOOK)) for pid in groups]
        said, _ = process.communicate()
        after = _cpu_of(groups), _cpu_of(servers)
    if process.returncode:
        raise click.ClickException(f"{' '.join(command[1:4])} failed: {said[-3000:]}")
    now = os.times()
    mine = now.children_user + now.children_system - used.children_user - used.children_system
    of_workers, of_server = (there - here for there, here in zip(after, before, strict=True))
    most = max(worker.peak for worker in workers)
    seconds = time.monotonic() - begun
    return Step(name, seconds, mine, of_workers, of_server, driver.peak, most)


def _cpu_of(roots: Sequence[int]) -> float:
    """CPU seconds so far of these processes' trees, with those that have ended.

    Source: proc(5), /proc/pid/stat, fields 14 to 17.
    """
    ticks = 0
    for root in roots:
        for pid in process_tree(root):
            with suppress(OSError, IndexError):
                fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rsplit(")", 1)[1].split()
                ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _section(path: Path, steps: list[Step], rows: int, filled: float) -> Section:
    config = load_config(path)
    [load] = Ledger(config.ledger.url).successful_loads(config.tables[0].name)
    if not str(load.job_id).startswith("app-"):
        raise click.ClickException(f"the load did not run on the cluster: {load.job_id}")
    lines = tuple(
        (
            *(one.name, f"{one.seconds:.0f}", f"{rows / one.seconds:,.0f}"),
            *(f"{used:.0f}" for used in (one.driver_cpu, one.workers_cpu, one.server_cpu)),
            f"{(one.driver_cpu + one.workers_cpu) / rows * 1e6:.2f}",
            f"{one.server_cpu / rows * 1e6:.2f}",
            *(f"{one.driver:,.0f}", f"{one.each_worker:,.0f}"),
        )
        for one in steps
    )
    columns = ("command", "s", "rows a second", "driver CPU s", "workers CPU s", "server CPU s")
    columns += ("our CPU s a million rows", "server's", "driver, peak MB", "a worker, peak MB")
    about = (
        f"{rows:,} rows of four columns, `mode: append`, read on a standalone Master and {WORKERS} "
        "Workers of one core each, on one machine with the driver and MariaDB. Once, cold. "
        "A worker is with its executor and Python."
    )
    note = f"The table was filled in {filled:.0f} s."
    return Section("Many rows on a cluster", about, columns, lines, (note, load_note()))


def _stored(source: Source, path: Path, rows: int, scale: float) -> Section:
    """Bytes of the rows above, and of TPC-H's lineitem: of few columns, and of many with texts."""
    load_lineitem(source, scale)
    text = yaml.safe_load(path.read_text("utf-8"))
    databases = {"tpch": {"tables": {"lineitem": {"mode": "full", "key": LINEITEM_KEY}}}}
    text["sources"]["s"]["databases"] = databases
    text["spark"] = {}
    home = source.folder / "stored"
    home.mkdir()
    (home / "mirrorlake.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    timed(ours("sync", home / "mirrorlake.yaml"), Times())
    found = {
        "events": (rows, "big", path),
        "lineitem": (source.count("tpch.lineitem"), "tpch", home / "mirrorlake.yaml"),
    }
    lines: list[tuple[str, ...]] = []
    for name, (count, database, contract) in found.items():
        there = _in_source(source, database)
        layers = [_size(folder) for folder in _layers(contract, database)]
        lines.append(
            (
                *(name, f"{count:,}", f"{there * 1000:,.1f}"),
                *(f"{size * 1000:,.1f}" for size in layers),
                f"{sum(layers) / there:.3f}",
            )
        )
    columns = ("table", "rows", "MariaDB, MB", "raw, MB", "deduped, MB", "the lake of MariaDB's")
    about = (
        "After the first sync, clean as a view. `events` are the rows above, whose values a "
        f"program made up; lineitem is TPC-H's at scale factor {scale:g}, with 16 columns."
    )
    return Section("What is stored", about, columns, tuple(lines))


def _layers(path: Path, database: str) -> list[Path]:
    lake = path.with_name("lake")
    return [lake / f"s_{database}{end}" for end in ("__raw", "")]


def _size(folder: Path) -> float:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) / 1e9


def _in_source(source: Source, database: str) -> float:
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(
            "SELECT SUM(data_length + index_length) FROM information_schema.tables"
            " WHERE table_schema = %s",
            (database,),
        )
        row = cursor.fetchone()
    return float(row[0]) / 1e9 if row else 0.0
