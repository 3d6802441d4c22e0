"""Parts ``many-connect``, ``many-400`` and ``many-1000``: the tables of part ``many`` over a warm
Spark Connect server, beside one large table, and ten times as many.

``many-connect``  two tables changed, synced by a cold client over a warm server
``many-400``      400 small tables and lineitem without a cursor, of which 0.1 % changed, beside
                  what it takes to read that one table; `status` and `init` of all of them
``many-1000``     what each command costs with 100 and with 1,000 tables, and its memory
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.daemon import connect_server
from benchmarks.dlt_environment import dlt_command
from benchmarks.extract import LIMIT, LINEITEM, job_of
from benchmarks.many import (
    CHANGED,
    ROWS,
    Times,
    beside,
    change,
    init_again,
    make_tables,
    ours,
    timed,
    write_contract,
)
from benchmarks.processes import Side
from benchmarks.report import Figures, Section, spread
from benchmarks.sides import text_client
from benchmarks.source import Source, load_lineitem, started

BESIDE, FEW, MANY = 400, 100, 1_000
_REST = 3.0
"""Seconds after a change: the server's clock shows whole ones."""


def run_connect(runs: int, scale: float) -> Figures:
    """Part ``many-connect``: the client's seconds, a cold process each; its server is warm."""
    tables = max(CHANGED, round(FEW * scale))
    with started() as source:
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        make_tables(source, tables)
        path = write_contract(source, source.folder)
        times = Times()
        with connect_server(path) as url:
            path.write_text(path.read_text("utf-8") + f"\nspark:\n  connect: {url}\n", "utf-8")
            timed(ours("sync", path), Times())
            for number in range(runs + 1):
                change(source, number)
                time.sleep(_REST)
                timed(ours("sync", path), times if number else Times())
    row = (f"{CHANGED} tables changed", *_figures(times))
    about = (
        f"{tables} tables of {ROWS:,} rows; a cold client over a Spark Connect server that synced "
        f"them before; {runs} runs after one that does not count. To reach: 4 s. Memory and CPU "
        "are the client's."
    )
    columns = ("run", "median s", "min", "max", "median CPU s", "peak MB")
    return [Section("Over a warm Spark Connect server", about, columns, (row,))]


def run_beside_a_large_one(runs: int, scale: float) -> Figures:
    """Part ``many-400``: seconds of a sync beside those of reading the one large table."""
    tables = max(CHANGED, round(BESIDE * scale))
    with started() as source:
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        load_lineitem(source, scale)
        make_tables(source, tables)
        path = write_contract(source, source.folder, None)
        timed(ours("sync", path), Times())
        dlt = Side("dlt", dlt_command(), source.folder / "dlt")
        limit: list[float] = []
        theirs: list[float] = []
        times = Times()
        try:
            for number in range(runs + 1):
                changed = _change_lineitem(source, number)
                time.sleep(_REST)
                limit.append(text_client.read(source, LINEITEM.database, LINEITEM.table))
                timed(ours("sync", path), times if number else Times())
                theirs.append(dlt.run(job_of(source, LINEITEM, dlt)).seconds)
        finally:
            dlt.close()
        rows = source.count("tpch.lineitem")
        large = _large((limit[1:], times, theirs[1:]), (tables, rows, changed, runs))
        return [large, beside(source, path, tables + 1, runs, None)]


def _change_lineitem(source: Source, number: int) -> int:
    """Change 0.1 % of the rows, all over the table; how many they are."""
    with source.server.admin("tpch") as admin, admin.cursor() as cursor:
        cursor.execute(
            "UPDATE lineitem SET l_comment = CONCAT('changed ', %s) "
            "WHERE CRC32(CONCAT(l_orderkey, '-', l_linenumber)) %% 1000 = %s",
            (number, number % 1000),
        )
        admin.commit()
        return int(cursor.rowcount)


def _large(
    found: tuple[Sequence[float], Times, Sequence[float]], sizes: tuple[int, int, int, int]
) -> Section:
    limit, times, theirs = found
    tables, rows, changed, runs = sizes
    sides = (
        (f"{LIMIT} of lineitem", limit),
        ("mirrorlake sync, of all tables", times.wall),
        ("dlt with connectorx, warm, lineitem alone", theirs),
    )
    whole = statistics.median(limit)
    lines = tuple(
        (name, *spread(seconds), f"{statistics.median(seconds) / whole:.2f}")
        for name, seconds in sides
    )
    about = (
        f"{tables} tables of {ROWS:,} rows, none of which changed, and lineitem of {rows:,} rows "
        f"without a cursor, of which {changed:,} changed; {runs} runs in turn after one that does "
        "not count. A sync is a cold process. To reach: 1.2 × reading that one table."
    )
    cpu = f"A sync took {statistics.median(times.cpu):.2f} s of CPU, and {times.peak:.0f} MB."
    columns = ("side", "median s", "min", "max", "ratio to the limit")
    return Section("Many small tables and a large one", about, columns, lines, (cpu,))


def run_growth(runs: int, scale: float) -> Figures:
    """Part ``many-1000``: each command with few and with ten times as many tables."""
    sizes = [max(CHANGED, round(size * scale)) for size in (FEW, MANY)]
    with started() as source:
        os.environ["MIRRORLAKE_INIT_PASSWORD"] = source.password
        found: dict[tuple[str, int], Times] = {}
        for tables in sizes:
            database = f"many{tables}"
            home = source.folder / database
            home.mkdir()
            make_tables(source, tables, database)
            path = write_contract(source, home, database)
            time.sleep(_REST)
            timed(ours("sync", path), found.setdefault(("first sync", tables), Times()))
            time.sleep(_REST)
            for _ in range(runs):
                _round(source, path, tables, found)
    return [_growth(found, sizes, runs)]


def _round(source: Source, path: Path, tables: int, found: dict[tuple[str, int], Times]) -> None:
    commands = {
        "sync, nothing moved": ours("sync", path),
        "status": ours("status", path),
        "init": init_again(source, path, path.parent.name),
    }
    for name, command in commands.items():
        timed(command, found.setdefault((name, tables), Times()))


def _growth(found: dict[tuple[str, int], Times], sizes: Sequence[int], runs: int) -> Section:
    few, many = sizes
    rows: list[tuple[str, ...]] = []
    for name in dict.fromkeys(name for name, _ in found):
        small, large = found[name, few], found[name, many]
        grown = statistics.median(large.cpu) / statistics.median(small.cpu)
        for tables, times in ((few, small), (many, large)):
            ratio = f"{grown:.1f}" if tables == many else ""
            rows.append(
                (name, f"{tables:,}", *_figures(times), f"{times.peak_without_jvm:.0f}", ratio)
            )
    about = (
        f"{few:,} and {many:,} tables of {ROWS:,} rows; cold processes; a first sync once, the "
        f"others {runs} times. To reach: {many / few:.0f} × the CPU time or less, and flat memory."
    )
    columns = (
        "command",
        "tables",
        "median s",
        "min",
        "max",
        "median CPU s",
        "peak MB",
        "of it not JVM",
        "× CPU",
    )
    return Section("Ten times as many tables", about, columns, tuple(rows))


def _figures(times: Times) -> tuple[str, ...]:
    cpu = f"{statistics.median(times.cpu):.2f}"
    return (*spread(times.wall), cpu, f"{times.peak:.0f}")
