"""Part ``scale-tables``: 10,000 tables in one deployment, of twenty sources of 500 each: what the
commands take once all of them are mirrored, and what Dagster takes to load them, in one code
location or in one a source, and to tick.

All tables are on one MariaDB, and really mirrored before: the first sync is a figure of its own.
They have ten rows each: what is measured is the number of tables.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from benchmarks.location import load_note
from benchmarks.many import Times, ours, timed
from benchmarks.report import ROOT, Figures, Section, spread
from benchmarks.source import USER, Source, started

TABLES, SOURCES, ROWS = 10_000, 20, 10
_REST = 3.0
"""Seconds after a change: the server's clock shows whole ones."""
_RESTS = 4
"""So many looks, one after the other, at which a server that rests has written nothing."""


@dataclass(frozen=True)
class Shape:
    """How many sources, and tables of each."""

    sources: int
    each: int

    @property
    def tables(self) -> int:
        return self.sources * self.each


def run(runs: int, scale: float) -> Figures:
    """What each takes, ``runs`` times; ``scale`` times as many tables, of as many sources."""
    shape = Shape(SOURCES, max(2, round(TABLES * scale / SOURCES)))
    with started() as source:
        os.environ["BENCH_PASSWORD"] = source.password
        _keep_definitions(source, shape)
        for number in range(shape.sources):
            _make_tables(source, f"shop{number:02}", shape.each)
        path = write_contract(source, source.folder / "mirrorlake.yaml", shape, range(SOURCES))
        _wait_for_rest(source)
        first = Times()
        timed(ours("sync", path), first)
        time.sleep(_REST)
        return [_commands(source, path, shape, runs, first), *_locations(source, path, shape, runs)]


def _keep_definitions(source: Source, shape: Shape) -> None:
    """Size the server's caches for this many tables, as an operator would. Once InnoDB evicts a
    table it no longer knows when the table last changed, and every sync reads it again."""
    with source.server.admin() as admin, admin.cursor() as cursor:
        for name in ("table_definition_cache", "table_open_cache"):
            cursor.execute(f"SET GLOBAL {name} = {2 * shape.tables}")


def _make_tables(source: Source, database: str, tables: int) -> None:
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        for number in range(tables):
            cursor.execute(
                f"CREATE TABLE t{number} (id INT PRIMARY KEY, name VARCHAR(40),"
                " price DECIMAL(10,2),"
                " modified_at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)"
                " ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))"
            )
            cursor.execute(
                f"INSERT INTO t{number} SELECT seq, CONCAT('name ', seq), seq / 7,"
                f" '2026-01-01' + INTERVAL seq MINUTE FROM seq_1_to_{ROWS}"
            )


def _wait_for_rest(source: Source) -> None:
    """Until the server writes nothing by itself any more: what it counts of tables that are new,
    and what a table's changes are purged of."""
    written = "SELECT variable_value FROM information_schema.global_status"
    written += " WHERE variable_name = 'innodb_lsn_current'"
    with source.server.admin() as admin, admin.cursor() as cursor:
        before, rests = None, 0
        while rests < _RESTS:
            cursor.execute(written)
            now = cursor.fetchone()
            rests = rests + 1 if now == before else 0
            before = now
            time.sleep(_REST)


def write_contract(source: Source, path: Path, shape: Shape, sources: Iterable[int]) -> Path:
    """A contract of some of the sources: of each pair of tables one full, one incremental."""
    terms = (
        "{mode: full, key: [id]}",
        "{mode: incremental, key: [id], cursor: modified_at}",
    )
    lines = ["version: 1", "lake: {warehouse: lake}", 'ledger: {url: "sqlite:///ledger.db"}']
    lines.append("sources:")
    for number in sources:
        lines += [
            f"  s{number:02}:",
            *("    host: 127.0.0.1", f"    port: {source.server.port}", f"    user: {USER}"),
            *("    password: ${env:BENCH_PASSWORD}", "    every: 0s", "    databases:"),
            *(f"      shop{number:02}:", "        tables:"),
            *(f"          t{table}: {terms[table % 2]}" for table in range(shape.each)),
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# --- commands -------------------------------------------------------------------------------------


def _commands(source: Source, path: Path, shape: Shape, runs: int, first: Times) -> Section:
    found = {"first sync": first}
    for _ in range(runs):
        for name, command in {
            "`sync`, nothing moved": ours("sync", path),
            "`status`": ours("status", path),
            "`plan`": ours("plan", path),
        }.items():
            timed(command, found.setdefault(name, Times()))
        for number in range(shape.sources):
            with source.server.admin(f"shop{number:02}") as admin, admin.cursor() as cursor:
                cursor.execute("UPDATE t0 SET price = price + 1 WHERE id = 1")
        time.sleep(_REST)
        moved = found.setdefault(f"`sync`, {shape.sources} tables moved", Times())
        timed(ours("sync", path), moved)
        time.sleep(_REST)
    rows = tuple(
        (
            *(name, *spread(times.wall), f"{statistics.median(times.cpu):.2f}"),
            f"{statistics.median(times.cpu) / shape.tables * 1000:.2f}",
            f"{times.peak:.0f}",
        )
        for name, times in found.items()
    )
    columns = ("command", "median s", "min", "max", "median CPU s", "CPU ms a table", "peak MB")
    about = (
        f"{shape.tables:,} tables of {ROWS} rows, of {shape.sources} sources, in one contract file "
        f"of {path.stat().st_size / 1e6:.1f} MB; ledger and catalog in SQLite; cold processes, the "
        f"first sync once, the others {runs} times."
    )
    return Section("Commands", about, columns, rows, (_sizes(path, shape), load_note()))


def _sizes(path: Path, shape: Shape) -> str:
    lake = path.with_name("lake")
    files = [file for file in lake.rglob("*") if file.is_file()]
    catalog = (lake / "catalog.db").stat().st_size
    ledger = sum(file.stat().st_size for file in path.parent.glob("ledger.db*"))
    held = sum(file.stat().st_size for file in files) - catalog

    def size(bytes_held: int) -> str:
        return f"{bytes_held / 1e6:.1f} MB ({bytes_held / shape.tables / 1e3:.1f} kB a table)"

    return (
        f"Then the ledger has {size(ledger)}, the catalog {size(catalog)}, the lake "
        f"{len(files):,} files with {size(held)}."
    )


# --- code locations -------------------------------------------------------------------------------


def _locations(source: Source, path: Path, shape: Shape, runs: int) -> list[Section]:
    """One location a source by its own file, one that takes its source out of the file of all, and
    one of everything."""
    own = write_contract(source, path.with_name("s00.yaml"), shape, [0])
    kinds: dict[str, tuple[Path, str]] = {
        "a source, from a file of its own": (own, ""),
        "a source, taken from the file of all": (path, "s00"),
        "everything": (path, ""),
    }
    found = {name: [_location(*of, runs) for _ in range(runs)] for name, of in kinds.items()}
    return [_loads(found, shape, runs), _ticks(found, shape, runs)]


def _location(path: Path, source: str, ticks: int) -> dict[str, Any]:
    module = "benchmarks.sides.location_of"
    ended = subprocess.run(
        [sys.executable, "-m", module, str(path), source, str(ticks)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise click.ClickException(f"{module} failed: {ended.stderr[-2000:]}")
    return json.loads(ended.stdout.splitlines()[-1])


def _loads(found: dict[str, list[dict[str, Any]]], shape: Shape, runs: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for name, locations in found.items():
        one = locations[0]
        rows.append(
            (
                *(name, f"{one['tables']:,}", f"{one['assets']:,}", f"{one['checks']:,}"),
                *spread([location["seconds"] for location in locations]),
                f"{statistics.median(location['cpu'] for location in locations):.2f}",
                *(f"{_median(locations, key):.0f}" for key in ("imported", "loaded")),
                f"{one['snapshot']:.1f}",
            )
        )
    own, _, whole = found.values()
    several = shape.sources * _median(own, "loaded")
    note = (
        f"{shape.sources} locations of a source each: {several:,.0f} MB in all, and "
        f"{shape.sources * _median(own, 'seconds'):.0f} s one after the other; a change of one "
        f"source reloads one of them. Everything in one: {_median(whole, 'loaded'):,.0f} MB and "
        f"{_median(whole, 'seconds'):.0f} s."
    )
    columns = ("a location of", "tables", "assets", "checks", "median s", "min", "max")
    columns += ("median CPU s", "MB after imports", "MB loaded", "its snapshot, MB")
    about = (
        "To the serialised snapshot that the webserver asks for, without imports; "
        f"{runs} fresh processes each."
    )
    return Section("A code location's load", about, columns, tuple(rows), (note, load_note()))


def _ticks(found: dict[str, list[dict[str, Any]]], shape: Shape, runs: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for name, locations in found.items():
        for sensor in locations[0]["ticks"]:
            ticks = [tick for location in locations for tick in location["ticks"][sensor]]
            cpu = statistics.median(used for _, used in ticks)
            rows.append(
                (name, f"`{sensor}`", *spread([wall for wall, _ in ticks]), f"{cpu:.2f}"),
            )
    memory = ", ".join(
        f"{name}: {_median(locations, 'ticked'):,.0f} MB" for name, locations in found.items()
    )
    columns = ("a location of", "sensor", "median s", "min", "max", "median CPU s")
    about = (
        f"Nothing moved, all loads reported; {runs * runs} ticks each. "
        f"`moved` is one source's, of {shape.each:,} tables; a location of everything has "
        f"{shape.sources} of them."
    )
    note = f"After the ticks a location's process has: {memory}."
    return Section("A sensor's idle tick", about, columns, tuple(rows), (note, load_note()))


def _median(locations: Sequence[dict[str, Any]], key: str) -> float:
    return statistics.median(float(location[key]) for location in locations)
