"""Part ``binlog``: a log of mixed changes, decoded into Arrow.

The limit is the log received and thrown away, by the same transport. Each run is a fresh process;
what counts on a machine that does other work too are the seconds of its processor. Values are
compared by the tests, type by type, and not here: images are counted.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import pyarrow.parquet as pq

from benchmarks.dlt_environment import environment
from benchmarks.location import load_note
from benchmarks.many import Times, timed
from benchmarks.report import ROOT, Figures, Section, spread
from benchmarks.source import USER, Source, started
from mirrorlake.runtime.jars import ensure_jars, spark_jars
from mirrorlake.runtime.java import find_java
from tests.support.mysql8 import MySQL8

EVENTS = 5_000_000
"""Row events at scale 1: of five, three insert, one updates and one deletes."""
SINGLE = 100_000
PIECE = 100_000
PEER_SHARE = 20
TABLE = """
CREATE TABLE orders (
    id BIGINT PRIMARY KEY, customer INT NOT NULL, price DECIMAL(12,2) NOT NULL,
    quantity SMALLINT UNSIGNED, note VARCHAR(80), state ENUM('new','paid','sent'),
    mail VARCHAR(60) NOT NULL, made DATETIME(6), modified TIMESTAMP(6) NULL, weight DOUBLE
) CHARACTER SET utf8mb4"""
ROWS = """
INSERT INTO orders SELECT seq, seq % 100003, seq * 1.37, seq % 500,
    IF(seq % 7, CONCAT('note number ', seq), NULL), 1 + seq % 3,
    CONCAT('user', seq, '@example.org'), NOW(6) - INTERVAL seq SECOND, NOW(6), seq / 3
FROM made.numbers WHERE seq BETWEEN {first} AND {last}"""
ONE_BY_ONE = """
FOR n IN 1 .. {rows} DO
    INSERT INTO orders VALUES (n, n % 1003, n * 1.3, n % 500, CONCAT('note ', n), 1 + n % 3,
        CONCAT('user', n, '@example.org'), NOW(6), NOW(6), n / 3);
END FOR"""
PINS = Path(__file__).with_name("mysql-replication-requirements.txt")
RIVET_PINS = Path(__file__).with_name("rivet-requirements.txt")
SIDES = Path(__file__).with_name("sides")
LIMIT, OURS = "received, not decoded", "mirrorlake, into Arrow"
PEER = "python-mysql-replication 1.0.17"
JAVA = "mysql-binlog-connector-java 0.30.1"
RIVET = "rivet 0.32.2, cdc, into Parquet"

_Answer = dict[str, float]
"""Seconds, processor seconds (``used``), row images, and the peak of memory in MB."""


@dataclass(frozen=True)
class _Log:
    """A log of a server from a place on, with the changes of one table.

    Attributes:
        place: ``file:offset``.
        table: ``database.table``.
        rivet: rivet's own note of that place, where it was asked for.
    """

    source: Source
    place: str
    table: str
    rivet: str = ""


def run(runs: int, scale: float) -> Figures:
    """Transactions of many rows and of one, by each side ``runs`` times in turn."""
    events, single = max(1_000, round(EVENTS * scale)), max(1_000, round(SINGLE * scale))
    share = max(1_000, events // PEER_SHARE)
    with started() as source:
        _make_numbers(source, events * 3 // 5)
        many = _runs(_write_many(source, "many", events), [LIMIT, OURS, JAVA], runs)
        many |= _runs(_write_many(source, "part", share), [PEER], runs)
        ones = _runs(_write_ones(source, "single", single), [LIMIT, OURS, JAVA, PEER], runs)
    with started(MySQL8) as source:
        _make_numbers(source, events * 3 // 5)
        log = _write_many(source, "many", events, rivet=True)
        rivet = _runs(log, [LIMIT, OURS, JAVA, RIVET], runs)
    return [
        _section("Transactions of many rows", many, events),
        _section("Transactions of one row", ones, single),
        _section("Transactions of many rows, MySQL 8.0.12", rivet, events),
    ]


def _runs(log: _Log, sides: Sequence[str], runs: int) -> dict[str, list[_Answer]]:
    """What each side says of each run but the first, which fills the caches of modules."""
    ours = [sys.executable, str(SIDES / "binlog_ours.py"), log.source.url, log.place, log.table]
    answers: dict[str, Callable[[], _Answer]] = {
        LIMIT: lambda: _answer([*ours, "receive"]),
        OURS: lambda: _answer([*ours, "decode"]),
        PEER: lambda: _answer(
            [*environment("mysql-replication", PINS), str(SIDES / "binlog_peer.py"), *ours[2:]]
        ),
        JAVA: lambda: _java(log),
        RIVET: lambda: _rivet(log),
    }
    found: dict[str, list[_Answer]] = {name: [] for name in sides}
    for _ in range(runs + 1):
        for name in sides:
            found[name].append(answers[name]())
    return {name: answers[1:] for name, answers in found.items()}


def _java(log: _Log) -> _Answer:
    """The connector in a JVM of its own: seconds are those behind its start, memory is all."""
    [jar], source = ensure_jars(["binlog-connector"]), log.source
    file, _, offset = log.place.rpartition(":")
    command = [
        *(str(find_java().command), "-cp", f"{jar}:{spark_jars()}/*"),
        *("scala.tools.nsc.MainGenericRunner", "-usejavacp"),
        *(str(SIDES / "binlog_connector.scala"), str(source.server.port), USER, source.password),
        *(file, offset),
    ]
    times = Times()
    said = timed(command, times)
    [answer] = [line for line in said.splitlines() if line.startswith("{")]
    return {**json.loads(answer), "peak": times.peak}


def _rivet(log: _Log) -> _Answer:
    """One bounded run from the log's place: it writes the row after each change, to Parquet."""
    with tempfile.TemporaryDirectory(dir=log.source.folder) as name:
        folder, times = Path(name), Times()
        (folder / "place.json").write_text(log.rivet)
        timed(_rivet_command(log.source, log.table, folder), times)
        files = (folder / "out").glob("*.parquet")
        rows = sum(pq.read_metadata(file).num_rows for file in files)
    [seconds], [used] = times.wall, times.cpu
    return {"seconds": seconds, "used": used, "images": rows, "peak": times.peak}


def _rivet_command(source: Source, table: str, folder: Path) -> list[str]:
    database, _, name = table.partition(".")
    os.environ["RIVET_URL"] = f"{source.url}/{database}"
    [python] = environment("rivet", RIVET_PINS)
    return [
        *(str(Path(python).with_name("rivet")), "cdc", "--source-env", "RIVET_URL"),
        *("--checkpoint", str(folder / "place.json"), "--table", name),
        *("--output", str(folder / "out")),
    ]


def _section(title: str, found: dict[str, list[_Answer]], events: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for name, some in found.items():
        used = statistics.median(one["used"] for one in some)
        images = int(some[-1]["images"])
        rate = f"{images / used:,.0f}" if images else "–"
        peak = f"{max(one['peak'] for one in some):.0f}"
        seconds = spread([one["seconds"] for one in some])
        rows.append((name, f"{images:,}", *seconds, f"{used:.2f}", rate, peak))
    about = (
        f"{events:,} row events of a table with ten columns; an update has two images. Where there "
        "are many, python-mysql-replication reads a log of fewer: compare images per second. The "
        "connector's memory is its JVM's, with the compiler of the script that calls it."
    )
    if RIVET in found:
        about += (
            " rivet reads both images of an update and keeps one; it writes files, and starts a "
            "process, in its seconds. On MariaDB it refuses to start."
        )
    columns = (
        *("side", "images", "median s", "min", "max", "median CPU s"),
        *("images per CPU s", "peak MB"),
    )
    return Section(title, about, columns, tuple(rows), (load_note(),))


def _make_numbers(source: Source, most: int) -> None:
    """Make a table of consecutive numbers from 1, at least ``most`` of them: the source of rows for
    INSERT … SELECT."""
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE made")
        cursor.execute("CREATE TABLE made.numbers (seq INT PRIMARY KEY)")
        cursor.execute("INSERT INTO made.numbers VALUES (1)")
        size = 1
        while size < most:
            cursor.execute(f"INSERT INTO made.numbers SELECT seq + {size} FROM made.numbers")
            size *= 2
        admin.commit()


def _write_many(source: Source, database: str, events: int, *, rivet: bool = False) -> _Log:
    """The changes of a new table, in a log of its own."""
    inserted = events * 3 // 5
    statements = [
        ROWS.format(first=first, last=min(first + PIECE, inserted + 1) - 1)
        for first in range(1, inserted + 1, PIECE)
    ]
    few = events // 5
    for first in range(1, few + 1, PIECE):
        last = min(first + PIECE, few + 1) - 1
        within = f"WHERE id BETWEEN {first} AND {last}"
        statements.append(f"UPDATE orders SET quantity = quantity + 1 {within}")
        statements.append(f"DELETE FROM orders {within}")
    return _written(source, database, statements, rivet=rivet)


def _write_ones(source: Source, database: str, rows: int) -> _Log:
    return _written(source, database, [ONE_BY_ONE.format(rows=rows)])


def _written(
    source: Source, database: str, statements: Sequence[str], *, rivet: bool = False
) -> _Log:
    table = f"{database}.orders"
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("RESET MASTER")
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        cursor.execute(TABLE)
        cursor.execute("SHOW MASTER STATUS")
        file, offset, *_ = cursor.fetchone() or ("", 4)
        note = source.folder / "place.json"
        if rivet:
            timed(_rivet_command(source, table, source.folder), Times())
        for statement in statements:
            cursor.execute(statement)
            admin.commit()
    return _Log(source, f"{file}:{offset}", table, note.read_text() if rivet else "")


def _answer(command: Sequence[str]) -> _Answer:
    """What a side prints.

    Raises:
        ClickException: the side failed.
    """
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False, timeout=3600
    )
    if ended.returncode:
        raise click.ClickException(f"{command[1]} failed: {ended.stderr.strip()[-2000:]}")
    found: _Answer = json.loads(ended.stdout.strip().splitlines()[-1])
    return found
