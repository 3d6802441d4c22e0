"""Part ``extract``: one table from MySQL into a committed table, against the server's text client.

The limit is ``mariadb --quick > /dev/null``: what the server can send and a client can read at all.
Sides run in turn, each warm, over the same rows; what each wrote is counted, and in the last run
read again and compared with what the text client prints.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from benchmarks.dlt_environment import dlt_command
from benchmarks.equal import files_sum, server_sum
from benchmarks.processes import Run, Side, python_side
from benchmarks.report import Figures, Section, spread
from benchmarks.sides import text_client
from benchmarks.sides.job import Job
from benchmarks.source import Source, load_awkward, load_flights, load_lineitem, started

LIMIT = "`mariadb --quick > /dev/null`"
COLUMNS = ("side", "median s", "min", "max", "ratio to the limit", "peak MB", "of it not JVM")


@dataclass(frozen=True)
class Case:
    """One table, and how our contract names it."""

    title: str
    database: str
    table: str
    mode: str
    key: tuple[str, ...]
    cursor: str = ""


LINEITEM = Case("lineitem", "tpch", "lineitem", "full", ("l_orderkey", "l_linenumber"))
OURS = "mirrorlake, to a committed raw table"
AWKWARD_ROWS = 500_000
"""At scale factor 1."""
CASES = (
    replace(LINEITEM, title="lineitem, `mode: full`: one consistent read"),
    replace(
        LINEITEM,
        title="lineitem, `mode: append` by key: chunks",
        mode="append",
        cursor="l_orderkey",
    ),
    Case(
        "flights, `mode: append` by time: 365 day partitions",
        "nyc",
        "flights",
        "append",
        ("time_hour", "carrier", "flight", "origin"),
        "time_hour",
    ),
    Case(
        "flights, `mode: full`: one file",
        "nyc",
        "flights",
        "full",
        ("time_hour", "carrier", "flight", "origin"),
    ),
)
AWKWARD = Case("every awkward type, `mode: full`", "odd", "awkward", "full", ("id",))


def run(runs: int, scale: float) -> Figures:
    """Seconds and memory of every side over every case."""
    with started() as source:
        load_lineitem(source, scale)
        load_flights(source)
        sides = {
            OURS: _ours(source),
            "Spark JDBC, 4 partitions, to Iceberg": python_side(
                "Spark JDBC", "benchmarks.sides.jdbc", source.folder / "jdbc"
            ),
            "dlt with connectorx, to Parquet": Side("dlt", dlt_command(), source.folder / "dlt"),
        }
        try:
            return [_case(source, case, sides, runs, scale) for case in CASES]
        finally:
            for side in sides.values():
                side.close()


def run_types(runs: int, scale: float) -> Figures:
    """Part ``types``: a table of the types that the others fail on, or change values of."""
    with started() as source:
        load_awkward(source, int(AWKWARD_ROWS * scale))
        ours = _ours(source)
        try:
            return [_case(source, AWKWARD, {OURS: ours}, runs, scale)]
        finally:
            ours.close()


def _ours(source: Source) -> Side:
    return python_side("mirrorlake", "benchmarks.sides.ours", source.folder / "ours")


def _case(source: Source, case: Case, sides: dict[str, Side], runs: int, scale: float) -> Section:
    """Alternating runs: one of each side uncounted, to warm it, then ``runs`` that count."""
    rows = source.count(f"{case.database}.{case.table}")
    limit: list[float] = []
    found: dict[str, list[Run]] = {name: [] for name in sides}
    there: dict[str, set[Path]] = {}
    for _ in range(runs + 1):
        there = {name: _files(side) for name, side in sides.items()}
        limit.append(text_client.read(source, case.database, case.table))
        for name, side in sides.items():
            found[name].append(side.run(job_of(source, case, side)))
            if found[name][-1].rows != rows:
                raise click.ClickException(f"{name}: {found[name][-1].rows} rows, not {rows}")
    compared = _compared(source, case, {n: _files(s) - there[n] for n, s in sides.items()})
    about = f"{rows:,} rows"
    if case.database == "tpch":
        about += f" (TPC-H, scale factor {scale:g})"
    return Section(
        case.title,
        f"{about}; every side's rows were counted.",
        COLUMNS,
        (_limit_row(limit[1:]), *(_row(n, r[1:], limit[1:]) for n, r in found.items())),
        (_between(found), compared),
    )


def _files(side: Side) -> set[Path]:
    """What the side has written; dlt keeps a copy in its own state."""
    state = side.folder / "state"
    return {file for file in side.folder.rglob("*.parquet") if not file.is_relative_to(state)}


def _compared(source: Source, case: Case, written: dict[str, set[Path]]) -> str:
    """What DuckDB finds in the sides' last files, beside what the text client prints.

    Raises:
        ClickException: our rows are others than the server's.
    """
    if case == AWKWARD:
        return "Its rows are compared by the tests of types: DuckDB has no counterpart of them all."
    wanted = server_sum(source, case.database, case.table)
    unlike: dict[str, list[str]] = {
        name: files_sum(source, case.database, case.table, files).unlike(wanted)
        for name, files in written.items()
    }
    if unlike[OURS]:
        raise click.ClickException(f"our rows of {case.table} are not the server's: {unlike[OURS]}")
    others = [
        f"{name.split(',')[0]} ({', '.join(found)})" for name, found in unlike.items() if found
    ]
    text = "Read again by DuckDB, every cell cast to its declared type: ours are the server's rows"
    return f"{text}; others in {'; '.join(others)}." if others else f"{text}, and all others' too."


def job_of(source: Source, case: Case, side: Side) -> Job:
    """The case as a side's next job."""
    return Job(
        source.url,
        case.database,
        case.table,
        case.mode,
        list(case.key),
        case.cursor,
        next(side.numbers),
        str(side.folder),
    )


def _limit_row(seconds: Sequence[float]) -> tuple[str, ...]:
    return (LIMIT, *spread(seconds), "1.00", "", "")


def _row(name: str, runs: Sequence[Run], limit: Sequence[float]) -> tuple[str, ...]:
    ratio = _median(runs, lambda r: r.seconds) / statistics.median(limit)
    return (
        name,
        *spread([r.seconds for r in runs]),
        f"{ratio:.2f}",
        f"{max(r.peak for r in runs):.0f}",
        f"{max(r.peak_without_jvm for r in runs):.0f}",
    )


def _between(found: dict[str, list[Run]]) -> str:
    ours, *others = found
    if not others:
        return "The other sides fail on these types, or change their values."
    mine = _median(found[ours][1:], lambda r: r.seconds)
    ratios = (
        f"{mine / _median(found[name][1:], lambda r: r.seconds):.2f} × {name.split(',')[0]}"
        for name in others
    )
    return f"Mirrorlake's time is {', '.join(ratios)}."


def _median(runs: Sequence[Run], of: Callable[[Run], float]) -> float:
    return statistics.median(of(run) for run in runs)
