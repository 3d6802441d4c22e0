"""Part ``tenants``: many databases with the same table, in several shapes.

Two questions. What a sync costs, beside a contract for each database: cold processes in turn, when
everything is new, nothing moved, and all moved. And what a query of one tenant costs among very
many, beside a plain table of that tenant's rows alone: in one session, in turn.
"""

from __future__ import annotations

import os
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from benchmarks.many import Times, ours, timed
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, started
from mirrorlake.config import TenantTable, load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.views import forget_view, read_view
from mirrorlake.merge.tenant_shapes import read_shapes
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.serving.tenants import show_raw_tenants
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.tenants import raw_view_of
from mirrorlake.workspace import Workspace

FEW, MANY, VERY_MANY, ROWS, SHAPES = 100, 1_000, 10_000, 100, 50
SETTLED_SECONDS = 4
TABLE = (
    "id INT PRIMARY KEY, customer VARCHAR(40) NOT NULL, email VARCHAR(60), amount DECIMAL(10,2),"
    " state ENUM('new','paid','sent'), at TIMESTAMP(6) NOT NULL, note TEXT"
)
FIRST, NOTHING, ALL = "first", "nothing moved", "all moved"
ONE, EACH = "one table of tenants", "a contract for each"


def run(runs: int, scale: float) -> Figures:
    """Seconds of syncs and queries; ``scale`` times as many tenants."""
    few, many, very_many = (max(2, round(n * scale)) for n in (FEW, MANY, VERY_MANY))
    with started() as source:
        os.environ["TENANTS_PASSWORD"] = source.password
        return [
            _syncs(source, few, runs, sides=(ONE, EACH)),
            _syncs(source, many, runs, sides=(ONE,)),
            *_queries(source, very_many, runs),
        ]


@contextmanager
def _databases(source: Source, count: int, shapes: int) -> Iterator[str]:
    """So many databases; their prefix. Every shape has a column of its own."""
    prefix = f"shop{count}x{shapes}"
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SET sql_log_bin = 0")
        for number in range(count):
            database, more = f"{prefix}_{number:05d}", f"extra{number % shapes}"
            cursor.execute(f"CREATE DATABASE {database}")
            cursor.execute(f"CREATE TABLE {database}.orders ({TABLE}, {more} INT)")
        for number in range(count):
            cursor.execute(f"USE {prefix}_{number:05d}")
            cursor.execute(
                "INSERT INTO orders SELECT seq, CONCAT('customer ', seq), CONCAT('c', seq, '@x'),"
                " seq * 1.25, 'paid', '2026-01-01 10:00:00', REPEAT('x', 20), seq"
                f" FROM seq_1_to_{ROWS}"
            )
    time.sleep(SETTLED_SECONDS)
    try:
        yield prefix
    finally:
        with source.server.admin() as admin, admin.cursor() as cursor:
            for number in range(count):
                cursor.execute(f"DROP DATABASE {prefix}_{number:05d}")


def _contract(source: Source, home: Path, prefix: str, count: int, side: str) -> Path:
    home.mkdir(parents=True)
    server = source.section() | {"password": "${env:TENANTS_PASSWORD}"}
    text: dict[str, Any] = {"version": 1, "sources": {"s": server}}
    if side == ONE:
        table = {"orders": {"key": ["id"]}}
        group = {"sources": ["s"], "databases": [f"{prefix}_%"], "tables": table}
        text["tenants"] = {"shops": group}
    else:
        table = {"orders": {"mode": "full", "key": ["id"]}}
        server["databases"] = {f"{prefix}_{n:05d}": {"tables": table} for n in range(count)}
    path = home / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text))
    return path


def _change(source: Source, prefix: str, count: int) -> None:
    with source.server.admin() as admin, admin.cursor() as cursor:
        for number in range(count):
            cursor.execute(f"UPDATE {prefix}_{number:05d}.orders SET amount = amount + 1")
    time.sleep(SETTLED_SECONDS)


def _syncs(source: Source, count: int, runs: int, sides: tuple[str, ...]) -> Section:
    found: dict[tuple[str, str], Times] = {}
    with _databases(source, count, 1) as prefix:
        for number in range(runs + 1):
            for kind in (FIRST, NOTHING, ALL):
                if kind == ALL:
                    _change(source, prefix, count)
                for side in sides:
                    home = source.folder / f"{side[:3]}{count}-{number}"
                    path = home / "mirrorlake.yaml"
                    if kind == FIRST:
                        path = _contract(source, home, prefix, count, side)
                    times = found.setdefault((kind, side), Times()) if number else Times()
                    timed(ours("sync", path), times)
            for side in sides:
                shutil.rmtree(source.folder / f"{side[:3]}{count}-{number}")
    rows: list[tuple[str, ...]] = []
    for (kind, side), times in found.items():
        other = found.get((kind, EACH))
        ratio = statistics.median(times.wall) / statistics.median(other.wall) if other else None
        cells = (*spread(times.wall), f"{statistics.median(times.cpu):.2f}")
        shown = "-" if ratio is None else f"{ratio:.2f}"
        rows.append(
            (kind, side, *cells, shown, f"{times.peak:.0f}", f"{times.peak_without_jvm:.0f}")
        )
    about = (
        f"{count:,} databases with one table of 8 columns and {ROWS} rows, read as complete copies "
        f"and proved; cold processes, {runs} of each after one that does not count."
    )
    columns = ("run", "side", "median s", "min", "max", "median CPU s", "of a contract for each")
    return Section(
        f"Tenants: syncs of {count:,}", about, (*columns, "peak MB", "of it not JVM"), tuple(rows)
    )


def _queries(source: Source, count: int, runs: int) -> list[Section]:
    with _databases(source, count, SHAPES) as prefix:
        path = _contract(source, source.folder / "queries", prefix, count, ONE)
        config = load_config(path)
        with Workspace.open(config) as workspace:
            table = config.tenant_table("orders")
            begun = time.perf_counter()
            done = sync_tenants(workspace, table)
            first = time.perf_counter() - begun
            assert done.failed == {}, done.failed
            rows = _one_tenant(workspace, table, f"{prefix}_00042", runs)
            rows += _steps(workspace, table, source, prefix, runs)
    about = (
        f"{count:,} tenants in {SHAPES} shapes, {ROWS} rows each, in one table; the plain table "
        f"has the rows of one tenant alone. In one session of Spark, in turn, {runs} of each after "
        "one that does not count."
    )
    columns = ("what", "median s", "min", "max", "of the plain table")
    section = Section("Tenants", about, columns, tuple(rows))
    once = (("first sync of all", f"{first:.1f}", f"{done.rows:,}", f"{done.bytes / 1e6:.1f}"),)
    return [
        section,
        Section("Tenants, the first sync of very many", about, ("what", "s", "rows", "MB"), once),
    ]


def _one_tenant(
    workspace: Workspace, table: TenantTable, tenant: str, runs: int
) -> list[tuple[str, ...]]:
    spark, deduped = workspace.spark.get(), deduped_of(table).sql
    where = f"WHERE _mirror_database = '{tenant}'"
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
    make = "CREATE OR REPLACE TABLE lake.plain.orders USING iceberg AS"
    spark.sql(f"{make} SELECT * FROM {deduped} {where}")
    what = "SELECT count(*), sum(amount), max(note) FROM"
    sides: dict[str, str] = {
        "one tenant of deduped": f"{what} {deduped} {where}",
        "one tenant of clean": f"{what} lake.{table.namespaces.clean}.orders {where}",
        "one tenant of the view over raw": f"{what} {raw_view_of(table).sql} {where}",
        "the plain table": f"{what} lake.plain.orders",
    }
    times = _in_turn(
        runs, {n: (lambda sql=sql: spark.sql(sql).collect()) for n, sql in sides.items()}
    )
    plain = statistics.median(times["the plain table"])
    return [
        (name, *spread(seconds), f"{statistics.median(seconds) / plain:.2f}")
        for name, seconds in times.items()
    ]


def _steps(
    workspace: Workspace, table: TenantTable, source: Source, prefix: str, runs: int
) -> list[tuple[str, ...]]:
    """What a new shape costs until it is seen, what the view of all shapes costs, and a sync that
    finds nothing."""

    def views() -> None:
        shapes = read_shapes(workspace, table)
        begun = time.perf_counter()
        workspace.ledger.forget_definition(f"view {raw_view_of(table)}")
        forget_view(workspace.lake, raw_view_of(table))
        show_raw_tenants(workspace, table, shapes)
        found.append(time.perf_counter() - begun)

    found: list[float] = []
    nothing: list[float] = []
    shaped: list[float] = []
    visible: list[float] = []
    for number in range(runs + 1):
        begun = time.perf_counter()
        sync_tenants(workspace, table)
        nothing.append(time.perf_counter() - begun)
        views()
        database = f"{prefix}_{number:05d}"
        with source.server.admin(database) as admin, admin.cursor() as cursor:
            cursor.execute(f"ALTER TABLE orders ADD new{number} INT DEFAULT {number}")
        time.sleep(SETTLED_SECONDS)
        begun = time.perf_counter()
        with _shown_at(workspace, table, f"new{number}") as shown:
            sync_tenants(workspace, table)
        shaped.append(time.perf_counter() - begun)
        load = workspace.ledger.last_load(table.name, "success")
        assert load is not None
        assert load.finished_at is not None
        visible.append((shown[0] - load.finished_at).total_seconds())
    return [
        ("a sync that finds nothing moved", *spread(nothing[1:]), "-"),
        ("a sync that finds one tenant in a new shape", *spread(shaped[1:]), "-"),
        ("a new shape in the view over raw, after its load", *spread(visible[1:]), "-"),
        ("the views over all shapes", *spread(found[1:]), "-"),
    ]


@contextmanager
def _shown_at(workspace: Workspace, table: TenantTable, column: str) -> Iterator[list[datetime]]:
    """When the view over raw was first seen with a column (UTC), by a reader that looks at the
    catalog every ten milliseconds; filled in at the end."""
    lake, ended = Lake(workspace.config.lake), threading.Event()
    found: list[datetime] = []

    def look() -> None:
        while not found:
            last = ended.is_set()
            view = read_view(lake, raw_view_of(table))
            if view is not None and column in view.schema.column_names:
                found.append(datetime.now(UTC))
            elif last:
                return
            time.sleep(0.01)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        yield found
    finally:
        ended.set()
        reader.join()


def _in_turn(runs: int, sides: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(runs + 1):
        for name, call in sides.items():
            begun = time.perf_counter()
            call()
            if number:
                times[name].append(time.perf_counter() - begun)
    return times
