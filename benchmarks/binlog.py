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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.dlt_environment import environment
from benchmarks.location import load_note
from benchmarks.report import ROOT, Figures, Section, spread
from benchmarks.source import Source, started

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
FROM seq_{first}_to_{last}"""
ONE_BY_ONE = """
FOR n IN 1 .. {rows} DO
    INSERT INTO orders VALUES (n, n % 1003, n * 1.3, n % 500, CONCAT('note ', n), 1 + n % 3,
        CONCAT('user', n, '@example.org'), NOW(6), NOW(6), n / 3);
END FOR"""
PINS = Path(__file__).with_name("mysql-replication-requirements.txt")
SIDES = Path(__file__).with_name("sides")
LIMIT, OURS = "received, not decoded", "mirrorlake, into Arrow"
PEER = "python-mysql-replication 1.0.17"


def run(runs: int, scale: float) -> Figures:
    """Transactions of many rows and of one, by each side ``runs`` times in turn."""
    events, single = max(1_000, round(EVENTS * scale)), max(1_000, round(SINGLE * scale))
    share = max(1_000, events // PEER_SHARE)
    with started() as source:
        many = _runs(source, _write_many(source, "many", events), [LIMIT, OURS], runs)
        many |= _runs(source, _write_many(source, "part", share), [PEER], runs)
        ones = _runs(source, _write_ones(source, "single", single), [LIMIT, OURS, PEER], runs)
    return [
        _section("Transactions of many rows", many, events),
        _section("Transactions of one row", ones, single),
    ]


def _runs(
    source: Source, log: tuple[str, str], sides: Sequence[str], runs: int
) -> dict[str, list[dict[str, Any]]]:
    """What each side says of each run but the first, which fills the caches of modules."""
    ours = [sys.executable, str(SIDES / "binlog_ours.py"), source.url, *log]
    commands = {LIMIT: [*ours, "receive"], OURS: [*ours, "decode"]}
    if PEER in sides:
        peer = [*environment("mysql-replication", PINS), str(SIDES / "binlog_peer.py")]
        commands[PEER] = [*peer, source.url, *log]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for _ in range(runs + 1):
        for name in sides:
            found[name].append(_answer(commands[name]))
    return {name: answers[1:] for name, answers in found.items()}


def _section(title: str, found: dict[str, list[dict[str, Any]]], events: int) -> Section:
    rows: list[tuple[str, ...]] = []
    for name, some in found.items():
        used = statistics.median(one["used"] for one in some)
        images = some[-1]["images"]
        rate = f"{images / used:,.0f}" if images else "–"
        peak = f"{max(one['peak'] for one in some):.0f}"
        seconds = spread([one["seconds"] for one in some])
        rows.append((name, f"{images:,}", *seconds, f"{used:.2f}", rate, peak))
    about = (
        f"{events:,} row events of a table with ten columns; an update has two images. Where there "
        "are many, python-mysql-replication reads a log of fewer: compare images per second."
    )
    columns = (
        *("side", "images", "median s", "min", "max", "median CPU s"),
        *("images per CPU s", "peak MB"),
    )
    return Section(title, about, columns, tuple(rows), (load_note(),))


def _write_many(source: Source, database: str, events: int) -> tuple[str, str]:
    """Where the changes of a new table begin in a log of its own, and its name."""
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
    return _written(source, database, statements)


def _write_ones(source: Source, database: str, rows: int) -> tuple[str, str]:
    return _written(source, database, [ONE_BY_ONE.format(rows=rows)])


def _written(source: Source, database: str, statements: Sequence[str]) -> tuple[str, str]:
    with source.server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("RESET MASTER")
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        cursor.execute(TABLE)
        cursor.execute("SHOW MASTER STATUS")
        file, offset, *_ = cursor.fetchone() or ("", 4)
        for statement in statements:
            cursor.execute(statement)
    return f"{file}:{offset}", f"{database}.orders"


def _answer(command: Sequence[str]) -> dict[str, Any]:
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
    found: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return found
