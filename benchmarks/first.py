"""Part ``first``: the first sync of a large table, as a stranger meets it: a whole cold
`mirrorlake sync` of lineitem by the contract that `init` writes (read, proved, committed, folded,
shown), beside dlt's pipeline with connectorx, which copies the table to Parquet.
"""

from __future__ import annotations

import os
import shutil
import statistics
from pathlib import Path

import click

from benchmarks.dlt_environment import PINS, environment
from benchmarks.many import Times, ours, timed, write_contract
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, load_lineitem, started

_DLT = Path(__file__).with_name("sides") / "dlt_many.py"
_COLUMNS = ("side", "median s", "min", "max", "of dlt", "median CPU s", "peak MB", "of it not JVM")


def run(runs: int, scale: float) -> Figures:
    """Seconds of both sides, in turn, ``runs`` times each after one that does not count."""
    with started() as source:
        load_lineitem(source, scale)
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        rows = source.count("tpch.lineitem")
        found = {"mirrorlake sync": Times(), "dlt with connectorx, to Parquet": Times()}
        for number in range(runs + 1):
            _round(source, rows, number, found if number else dict.fromkeys(found, Times()))
        return [_section(found, rows, runs, scale)]


def _round(source: Source, rows: int, number: int, found: dict[str, Times]) -> None:
    home = source.folder / f"round{number}"
    home.mkdir()
    path = write_contract(source, home, "tpch")
    mirrored, copied = found.values()
    timed(ours("sync", path), mirrored)
    dlt = [*environment("dlt", PINS), str(_DLT), source.url, "tpch", str(home / "dlt")]
    said = timed(dlt, copied)
    if int(said.split()[-1]) != rows:
        raise click.ClickException(f"dlt brought {said.split()[-1]} rows of {rows}")
    shutil.rmtree(home)


def _section(found: dict[str, Times], rows: int, runs: int, scale: float) -> Section:
    *_, theirs = (statistics.median(times.wall) for times in found.values())
    cells = [
        (
            *(name, *spread(times.wall), f"{statistics.median(times.wall) / theirs:.2f}"),
            f"{statistics.median(times.cpu):.2f}",
            *(f"{times.peak:.0f}", f"{times.peak_without_jvm:.0f}"),
        )
        for name, times in found.items()
    ]
    about = (
        f"lineitem, {rows:,} rows (TPC-H, scale factor {scale:g}), MariaDB, `mode: full` as `init` "
        f"writes it; cold processes in turn, {runs} of each after one that does not count. Ours "
        "compares every row with MySQL before it is visible, folds it and shows it; dlt copies. "
        "CPU is the client's. To reach: 2.5 of dlt, 600 MB (goal 2.0, 450 MB)."
    )
    return Section("The first sync of a large table", about, _COLUMNS, tuple(cells))
