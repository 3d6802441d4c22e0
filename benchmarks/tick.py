"""Part ``tick``: what a tick costs: to ask 500 tables, and to bring 10,000 changed rows to clean.

Asking: the sensor's own function over 500 tables of which 0, 25 and 250 moved. The whole way, from
MySQL's commit through Dagster's daemon and a run: `benchmarks.daemon`. Bringing: lineitem
at three scale factors, 10,000 rows changed by one UPDATE, then load and fold in a warm session;
once with 80 % of the changes among the newest 5 % of keys, once evenly spread. Beside each fold
stands the MERGE without bounds, which compares every row, over the same changes. Bytes are what
Spark's process read of files meanwhile (see `mirrorlake.destinations.iceberg.spark.cost`), in both.
"""

from __future__ import annotations

import os
import secrets
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from benchmarks.daemon import arriving
from benchmarks.location import contracts, fold_all, load_note, ticker
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, load_lineitem, started
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.spark.cost import counted
from mirrorlake.merge.current_rows import read_changes
from mirrorlake.merge.statements import deduped_layer, merge_sql
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace

TABLES, MOVED_OF, MOVED = 500, 20, (0, 1, 10)
"""So many of each twenty tables move."""
CHANGES, HOT, NEWEST = 10_000, 0.8, 0.05
SCALES = (0.1, 1.0, 3.0)
"""Times the requested scale factor."""
WARMED = 3
"""Rounds before those that count: the JVM compiles what it meets often, while it runs."""
DAEMON = 1.0
"""The scale at which the daemon is measured too."""
_ADD_CURSOR = (
    "ALTER TABLE lineitem ADD modified_at TIMESTAMP(6) NOT NULL DEFAULT '2020-01-01', "
    "ADD KEY (modified_at)"
)


def run(runs: int, scale: float) -> Figures:
    """Seconds and bytes of all, each ``runs`` times."""
    sections = [_ticks(runs, max(MOVED_OF, round(TABLES * scale)))]
    rounds: dict[float, dict[str, Rounds]] = {}
    for size in SCALES:
        with started() as source:
            rounds[size * scale] = _scenario(source, size * scale, runs)
            if size == DAEMON:
                change = partial(_change, source, _keys(source), HOT)
                sections.append(arriving(source.folder / "mirrorlake.yaml", change, runs, WARMED))
    return [*sections, _bringing(rounds), _growth(rounds)]


# --- asking ---------------------------------------------------------------------------------------


def _ticks(runs: int, tables: int) -> Section:
    password = os.environ["BENCH_PASSWORD"] = secrets.token_urlsafe(16)
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as name, MariaDB.start(Path(name) / "mysql") as server:
        server.create_user("mirror", password)
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE many")
            for number in range(tables):
                cursor.execute(
                    f"CREATE TABLE many.t{number} (id INT AUTO_INCREMENT PRIMARY KEY, "
                    "modified_at TIMESTAMP(6) NOT NULL, KEY (modified_at))"
                )
        path = Path(name) / "mirrorlake.yaml"
        path.write_text(contracts(server.port, tables), encoding="utf-8")
        fold_all(load_config(path))
        for share in MOVED:
            moved = tables * share // MOVED_OF
            found = [_tick(path, server, moved) for _ in range(runs)]
            counts = {requests for _, requests in found}
            requested = "/".join(str(n) for n in sorted(counts))
            limit = "2" if moved == 0 else "–"
            rows.append((str(moved), *spread([s for s, _ in found]), requested, limit))
    columns = ("tables that moved", "median s", "min", "max", "runs requested", "limit s")
    about = f"{tables} tables of one source, one connection, no JVM."
    return Section("A tick of the sensor", about, columns, tuple(rows), (load_note(),))


def _tick(path: Path, server: MariaDB, moved: int) -> tuple[float, int]:
    """Seconds of one tick and the runs that it requested, after ``moved`` tables moved."""
    from dagster_mirrorlake.location import load_definitions

    defs = load_definitions(path)
    with dg.DagsterInstance.ephemeral() as instance:
        tick = ticker(defs, defs.get_repository_def(), instance, "moved_many")
        tick()  # sees every table for the first time
        with server.admin("many") as admin, admin.cursor() as cursor:
            for number in range(moved):
                cursor.execute(f"INSERT INTO t{number} (modified_at) VALUES (NOW(6))")
        begun = time.perf_counter()
        requests = tick()
        return time.perf_counter() - begun, requests


# --- bringing -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Round:
    """One load and fold."""

    load: float
    fold: float
    read: int


@dataclass(frozen=True)
class Rounds:
    """Several, and once the MERGE without bounds over the changes of the last."""

    each: list[Round]
    unpruned: float
    unpruned_read: int

    @property
    def read(self) -> float:
        return statistics.median(r.read for r in self.each)

    @property
    def seconds(self) -> float:
        return statistics.median(r.load + r.fold for r in self.each)


def _scenario(source: Source, scale: float, runs: int) -> dict[str, Rounds]:
    load_lineitem(source, scale)
    with source.server.admin("tpch") as admin, admin.cursor() as cursor:
        cursor.execute(_ADD_CURSOR)
    with Workspace.open(load_config(_contract(source))) as workspace:
        sync_table(workspace, workspace.config.tables[0])
        keys = _keys(source)
        for _ in range(WARMED):
            _round(workspace, source, keys, HOT)
        found: dict[str, Rounds] = {}
        for name, hot in (("newest", HOT), ("spread", 0.0)):
            each = [_round(workspace, source, keys, hot) for _ in range(runs)]
            found[name] = Rounds(each, *_unpruned(workspace, workspace.spark.get()))
        return found


def _contract(source: Source) -> Path:
    os.environ["BENCH_PASSWORD"] = source.password
    table = {
        "mode": "incremental",
        "key": ["l_orderkey", "l_linenumber"],
        "cursor": "modified_at",
        "verify": False,  # the first load is not what is measured
        "overlap": "1s",  # rounds follow each other in seconds, not in quarters of an hour
        "settle": "1s",
    }
    server = source.section(databases={"tpch": {"tables": {"lineitem": table}}})
    path = source.folder / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "sources": {"s": server}}), encoding="utf-8")
    return path


def _round(workspace: Workspace, source: Source, keys: Sequence[int], hot: float) -> Round:
    table = workspace.config.tables[0]
    time.sleep(1.5)
    _change(source, keys, hot)
    spark = workspace.spark.get()
    begun = time.perf_counter()
    load_table(workspace, table)
    loaded = time.perf_counter()
    with counted(spark) as scan:
        fold_table(workspace, table)
        folded = time.perf_counter()
    return Round(loaded - begun, folded - loaded, scan.bytes or 0)


def _keys(source: Source) -> list[int]:
    """The orders; each has a first line."""
    with source.server.admin("tpch") as admin, admin.cursor() as cursor:
        cursor.execute("SELECT l_orderkey FROM lineitem WHERE l_linenumber = 1")
        return sorted(key for (key,) in cursor.fetchall())


def _change(source: Source, keys: Sequence[int], hot: float) -> int:
    """Change the first line of so many orders: part of them newest, the others of any age; how
    many."""
    draw = secrets.SystemRandom()
    edge = round(len(keys) * (1 - NEWEST))
    changes = min(CHANGES, len(keys) // 4)
    newest = min(round(changes * hot), len(keys) - edge)
    picked = draw.sample(keys[edge:], newest) if newest else []
    rest = keys[:edge] if newest else keys
    picked += draw.sample(rest, changes - newest)
    listed = ", ".join(str(key) for key in picked)
    with source.server.admin("tpch") as admin, admin.cursor() as cursor:
        cursor.execute(
            "UPDATE lineitem SET l_quantity = l_quantity + 1, modified_at = NOW(6) "
            f"WHERE l_linenumber = 1 AND l_orderkey IN ({listed})"
        )
        return changes


def _unpruned(workspace: Workspace, spark: Any) -> tuple[float, int]:
    """Seconds and bytes of the MERGE without bounds, over the newest load's rows."""
    table = workspace.config.tables[0]
    with session(workspace.config.sources[table.source], table.database) as connection:
        plan = resolve_table(workspace, table, connection)
    layer = deduped_layer(plan)
    load = workspace.ledger.successful_loads(table.name)[-1]
    with counted(spark) as scan:
        begun = time.perf_counter()
        read_changes(workspace, plan, layer, [load]).createOrReplaceTempView("mirror_changes")
        spark.sql(merge_sql(plan, layer))
        seconds = time.perf_counter() - begun
    spark.catalog.dropTempView("mirror_changes")
    return seconds, scan.bytes or 0


def _bringing(rounds: dict[float, dict[str, Rounds]]) -> Section:
    rows: list[tuple[str, ...]] = []
    for scale, found in rounds.items():
        for name, measured in found.items():
            all_read = measured.unpruned_read
            rows.append(
                (
                    f"{scale:g}, {name}",
                    spread([r.load for r in measured.each])[0],
                    *spread([r.fold for r in measured.each]),
                    f"{measured.read / 1e6:.1f}",
                    f"{measured.unpruned:.2f}",
                    f"{all_read / 1e6:.1f}",
                    f"{measured.read / all_read:.0%}" if all_read else "–",
                )
            )
    columns = ("scale factor, changes", "load s", "fold s", "min", "max", "read MB")
    columns += ("unpruned MERGE s", "it read MB", "bytes: ratio")
    about = (
        f"{CHANGES:,} changed rows of lineitem to clean, the session warm ({WARMED} rounds "
        f"before). `newest`: {HOT:.0%} of them among the newest {NEWEST:.0%} of keys, the others "
        "of any age; `spread`: evenly. The "
        "unpruned MERGE runs once, after the last fold: it reads all, and has nothing left to "
        "write. "
        "To reach: 5 s for load and fold at scale factor 1, and a tenth of the bytes for `newest`."
    )
    return Section("Changed rows", about, columns, tuple(rows), (load_note(),))


def _growth(rounds: dict[float, dict[str, Rounds]]) -> Section:
    rows: list[tuple[str, ...]] = []
    scales: Sequence[float] = tuple(rounds)
    for name in ("newest", "spread"):
        cost = [rounds[scale][name].seconds for scale in scales]
        for place in range(1, len(scales)):
            steps = f"{scales[place - 1]:g} → {scales[place]:g}"
            rows.append((name, steps, f"{cost[place] / cost[place - 1]:.2f}"))
        rows.append((name, f"{scales[0]:g} → {scales[-1]:g}", f"{cost[-1] / cost[0]:.2f}"))
    about = "Seconds of load and fold against those of the smaller table. To reach: 1.3 for 10 ×."
    return Section("Growth", about, ("changes", "scale factors", "ratio"), tuple(rows))
