"""Part ``cuts``: a whole database at one place of its log, while it is written to.

Cold processes of the command line over small tables that follow the log; another thread changes
rows of all of them meanwhile. No peer has anything to put beside it.
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from benchmarks.many import ROWS, TABLES, Times, make_tables, ours, timed, write_contract
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, started
from tests.support.beside import beside

_A_SECOND = 200
"""Rows that are changed meanwhile."""


def run(runs: int, scale: float) -> Figures:
    """Seconds of a cut, and of one that is proved; ``scale`` times as many tables."""
    tables = max(2, round(TABLES * scale))
    with started() as source:
        make_tables(source, tables)
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        home = source.folder / "cuts"
        home.mkdir()
        path = write_contract(source, home)
        _follow(path)
        timed(ours("sync", path), Times())
        commands = {
            "cut": ours("cut", path, _name(path)),
            "cut --prove": ours("cut", path, _name(path), "--prove"),
        }
        found = {name: Times() for name in commands}
        with _changing(source, tables):
            for number in range(runs + 1):
                for name, command in commands.items():
                    timed(command, found[name] if number else Times())
        return [_section(found, tables, runs)]


def _name(path: Path) -> str:
    return next(iter(yaml.safe_load(path.read_text())["sources"]))


def _follow(path: Path) -> None:
    """Have all tables of a contract follow the log, and the newest cut shown."""
    text = yaml.safe_load(path.read_text())
    for source in text["sources"].values():
        for database in source["databases"].values():
            database["tables"] = {
                name: {"mode": "binlog", "key": ["id"]} for name in database["tables"]
            }
    text["cuts"] = {"sources": {_name(path): {"at_cut": True}}}
    path.write_text(yaml.safe_dump(text))


@contextmanager
def _changing(source: Source, tables: int) -> Iterator[None]:
    def write(stop: threading.Event) -> None:
        number = 0
        with source.server.admin("many") as admin, admin.cursor() as cursor:
            while not stop.is_set():
                began = time.monotonic()
                for _ in range(_A_SECOND // 10):
                    number += 1
                    cursor.execute(
                        f"UPDATE t{number % tables} SET price = price + 1"
                        f" WHERE id = {1 + number % ROWS}"
                    )
                admin.commit()
                stop.wait(max(0.0, began + 0.1 - time.monotonic()))

    with beside(write):
        yield


def _section(found: dict[str, Times], tables: int, runs: int) -> Section:
    rows = [
        (name, *spread(times.wall), f"{statistics.median(times.cpu):.1f}", f"{times.peak:.0f}")
        for name, times in found.items()
    ]
    about = (
        f"{tables} tables of 5 columns and {ROWS:,} rows, mode binlog, MariaDB; {_A_SECOND} rows "
        f"a second are changed in all of them meanwhile, so that each run folds every table. "
        f"Cold processes in turn, {runs} of each after one that does not count. The cut tags every "
        "table at one place of the log, and the namespaces that show the newest cut move to it; "
        "`--prove` compares every row with MySQL as it was there."
    )
    columns = ("run", "median s", "min", "max", "median CPU s", "peak MB")
    return Section("A whole database at one moment", about, columns, tuple(rows))
