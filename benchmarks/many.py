"""Part ``many``: a database of small tables, half of them with an indexed time of change: what a
run costs that finds everything new, nothing moved, two full tables changed, and two incremental
ones.

Each run is a cold process: the command line beside dlt's pipeline with connectorx over the same
tables, in turn. dlt copies to Parquet; ours commits, folds, proves and shows. The contract is the
one that `init` writes. Beside them what `init` and `status` take.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click

from benchmarks.dlt_environment import PINS, environment
from benchmarks.processes import Watched
from benchmarks.report import ROOT, Figures, Section, spread
from benchmarks.source import USER, Source, started

TABLES, ROWS, CHANGED = 100, 1_000, 2
_DLT = Path(__file__).with_name("sides") / "dlt_many.py"
_COLUMNS = (
    "run",
    "side",
    "median s",
    "min",
    "max",
    "median CPU s",
    "of dlt",
    "peak MB",
    "of it not JVM",
)
FIRST, AGAIN = "first", "nothing moved"
MOVED = {f"{CHANGED} full tables changed": 0, f"{CHANGED} incremental tables changed": 1}
"""Which kind of table changes → the number of the first: every other one has a cursor."""


@dataclass
class Times:
    """What one side took for one kind of run: seconds, and the most memory in MB."""

    wall: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    peak: float = 0.0
    peak_without_jvm: float = 0.0


def run(runs: int, scale: float) -> Figures:
    """Seconds of every kind of run of both sides, ``runs`` times each; ``scale`` times as many
    tables."""
    tables = max(2 * CHANGED, round(TABLES * scale))
    with started() as source:
        make_tables(source, tables)
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        found: dict[tuple[str, str], Times] = {}
        for number in range(runs + 1):
            # One of each side uncounted, to warm files and caches.
            _round(source, tables, number, found if number else {})
        return [_section(found, tables, runs), _beside(source, tables, runs)]


def make_tables(source: Source, tables: int, database: str = "many") -> None:
    """So many tables of a thousand rows, in a database of their own."""
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        for number in range(tables):
            index = ", KEY (modified_at)" if number % 2 else ""
            cursor.execute(
                f"CREATE TABLE t{number} (id INT PRIMARY KEY, name VARCHAR(40),"
                " price DECIMAL(10,2), kind INT, modified_at TIMESTAMP NOT NULL"
                f" DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP{index})"
            )
            cursor.execute(
                f"INSERT INTO t{number} SELECT seq, CONCAT('name ', seq), seq / 7, seq % 9,"
                f" '2026-01-01' + INTERVAL seq MINUTE FROM seq_1_to_{ROWS}"
            )


def _round(source: Source, tables: int, number: int, found: dict[tuple[str, str], Times]) -> None:
    home = source.folder / f"round{number}"
    home.mkdir()
    path = write_contract(source, home)
    dlt = [*environment("dlt", PINS), str(_DLT), source.url, "many", str(home / "dlt")]
    sides: dict[str, Sequence[str]] = {"mirrorlake sync": ours("sync", path), "dlt": dlt}
    for kind in (FIRST, AGAIN, *MOVED):
        if kind in MOVED:
            change(source, number, range(MOVED[kind], 2 * CHANGED, 2))
        for name, command in sides.items():
            said = timed(command, found.setdefault((kind, name), Times()))
            if name == "dlt" and int(said.split()[-1]) != tables * ROWS:
                raise click.ClickException(f"dlt brought {said.split()[-1]} rows")
        time.sleep(3)  # the server's clock shows whole seconds of changes
    shutil.rmtree(home / "dlt")


def change(source: Source, number: int, tables: Sequence[int] = range(CHANGED)) -> None:
    """One row of each of the tables that move."""
    with source.server.admin("many") as admin, admin.cursor() as cursor:
        for table in tables:
            cursor.execute(f"UPDATE t{table} SET price = price + 1 WHERE id = {number + 1}")


def write_contract(source: Source, home: Path, database: str | None = "many") -> Path:
    """The contract that `init` writes of a database, or of all."""
    path = home / "mirrorlake.yaml"
    said = timed(init(source, path, database), Times())
    for name in json.loads(said)["variables"]:
        os.environ[name] = source.password
    return path


def init(source: Source, path: Path, database: str | None = "many") -> list[str]:
    """The command that writes a contract there."""
    url = f"mysql://{USER}@127.0.0.1:{source.server.port}/{database or ''}"
    return ours("init", path, "--json", "--from", url, option="--output")


def ours(command: str, path: Path, *more: str, option: str = "--config") -> list[str]:
    """A command of ours over a contract."""
    script = Path(sys.executable).with_name("mirrorlake")
    return [sys.executable, str(script), command, *more, option, str(path)]


def timed(command: Sequence[str], times: Times) -> str:
    """Run a command to its end; its output.

    Raises:
        ClickException: it failed.
    """
    before, begun = os.times(), time.perf_counter()
    # As on a user's machine: neither side compiles its modules again at each start.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        command, cwd=ROOT, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    with Watched(process.pid) as watched:
        said, _ = process.communicate()
    if process.returncode:
        raise click.ClickException(f"{' '.join(command[:4])} failed: {said[-2000:]}")
    after = os.times()
    times.wall.append(time.perf_counter() - begun)
    used = (
        (after.children_user, after.children_system),
        (before.children_user, before.children_system),
    )
    times.cpu.append(sum(used[0]) - sum(used[1]))
    times.peak = max(times.peak, watched.peak)
    times.peak_without_jvm = max(times.peak_without_jvm, watched.peak_without_jvm)
    return said


def _section(found: dict[tuple[str, str], Times], tables: int, runs: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for (kind, name), times in found.items():
        theirs = statistics.median(found[kind, "dlt"].wall)
        rows.append(
            (
                *(kind, name, *spread(times.wall), f"{statistics.median(times.cpu):.2f}"),
                f"{statistics.median(times.wall) / theirs:.2f}",
                *(f"{times.peak:.0f}", f"{times.peak_without_jvm:.0f}"),
            )
        )
    about = (
        f"{tables} tables of 5 columns and {ROWS:,} rows, half with an indexed modified_at; cold "
        f"processes in turn, {runs} of each after one that does not count. dlt copies and proves "
        "nothing; it has no notion of an unchanged table."
    )
    return Section("A database of small tables", about, _COLUMNS, tuple(rows))


def _beside(source: Source, tables: int, runs: int) -> Section:
    home = source.folder / "beside"
    home.mkdir()
    path = write_contract(source, home)
    timed(ours("sync", path), Times())
    return beside(source, path, tables, runs)


def beside(
    source: Source, path: Path, tables: int, runs: int, database: str | None = "many"
) -> Section:
    """`status` and `init` of tables that were synced."""
    commands: dict[str, Callable[[], Sequence[str]]] = {
        "status": lambda: ours("status", path),
        "init": lambda: init_again(source, path, database),
    }
    rows: list[tuple[str, ...]] = []
    for name, command in commands.items():
        times = Times()
        timed(command(), Times())
        for _ in range(runs):
            timed(command(), times)
        rows.append((name, *spread(times.wall), f"{statistics.median(times.cpu):.2f}"))
    about = (
        f"The same {tables} tables; whole processes. To reach with 400 tables: 1 s and 5 s of CPU."
    )
    return Section(
        "Beside them", about, ("command", "median s", "min", "max", "median CPU s"), tuple(rows)
    )


def init_again(source: Source, path: Path, database: str | None = "many") -> list[str]:
    """The command that writes another contract beside."""
    again = path.with_name("again.yaml")
    again.unlink(missing_ok=True)
    return init(source, again, database)
