"""Part ``binlog-follow``: how long a commit takes to be seen in clean while a source is followed,
and what a tick costs when nothing happened.

Seen: a writer commits 2,000 row changes a second, of five three inserts, one update and one delete,
and each half second a row of its own that says when. `mirrorlake follow` runs beside it on the same
machine. A row is seen once deduped, of which clean is a view, has a version with it, by the clock
of this process, which looks ten times a second.

A tick: 1,000 tables of mode binlog in the ledger, none of them with a change since. What counts are
seconds of the processor, of this process.
"""

from __future__ import annotations

import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import dagster as dg

from benchmarks.location import load_note, ticker
from benchmarks.report import Figures, Section, spread
from mirrorlake.config import Config, load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger, LogProgress, Receipt, Window
from mirrorlake.operations.loading.quiet_log import find_quiet, note_quiet
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.binlog.positions import StreamPosition
from mirrorlake.sources.mysql.following.log_state import LogPlace, read_end
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.lake_tables import deduped_of

RATE, WARM, MEASURED = 2_000, 30.0, 60.0
"""Row changes a second; seconds before those that count, and of these."""
ROWS, TABLES = 200_000, 1_000
TRANSACTIONS = 20
"""A second."""
TABLE = """
CREATE TABLE orders (
    id BIGINT AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL, price DECIMAL(12,2) NOT NULL,
    quantity SMALLINT UNSIGNED, note VARCHAR(80), state ENUM('new','paid','sent'),
    mail VARCHAR(60) NOT NULL, made DATETIME(6), modified TIMESTAMP(6) NULL, weight DOUBLE)"""
INSERT = """
INSERT INTO orders (customer, price, quantity, note, state, mail, made, modified, weight)
SELECT seq, seq * 1.37, seq % 500, CONCAT('note ', seq), 1 + seq % 3,
    CONCAT('user', seq, '@example.org'), NOW(6), NOW(6), seq / 3 FROM seq_1_to_{rows}"""
FOLLOW = [sys.executable, "-c", "from mirrorlake.cli.main import main; main()", "follow", "shop"]
QUIET_LIMIT, SEEN_LIMIT = "0.3", "5"


def run(runs: int, scale: float) -> Figures:
    """The delay until changes are seen, once; a tick ``runs`` times."""
    rate, tables = max(20, round(RATE * scale)), max(10, round(TABLES * scale))
    return [*_seen(rate, max(1_000, round(ROWS * scale))), _ticks(runs, tables)]


# --- until a commit is seen -----------------------------------------------------------------------


@dataclass
class _Marks:
    """Rows that say when they were committed, by the number that they have as their customer."""

    committed: dict[int, float] = field(default_factory=dict[int, float])
    seen: dict[int, float] = field(default_factory=dict[int, float])
    changes: int = 0
    stop: threading.Event = field(default_factory=threading.Event)


def _seen(rate: int, rows: int) -> list[Section]:
    with _server() as (folder, server):
        _fill(server, rows)
        config = load_config(_contract(folder, server.port))
        lines, marks = list[dict[str, Any]](), _Marks()
        with _follower(config.path, lines) as ended:
            _wait_for(lambda: bool(lines), ended, 300)
            writer = threading.Thread(target=_write, args=(server, rate, marks))
            looker = threading.Thread(target=_look, args=(config, marks))
            for thread in (writer, looker):
                thread.start()
            _wait_for(lambda: any(one["seconds"] < WARM for one in lines[2:]), ended, 600)
            time.sleep(WARM)
            first, began, changes = len(lines), time.monotonic(), marks.changes
            time.sleep(MEASURED)
            until, written = time.monotonic(), marks.changes - changes
            _wait_for(lambda: len(marks.seen) == len(marks.committed), ended, 300, marks)
            for thread in (writer, looker):
                thread.join()
        delays = sorted(
            marks.seen[number] - at for number, at in marks.committed.items() if began < at < until
        )
        rounds = [one for one in lines[first:] if one["rows"]]
    return [_section(rate, written / MEASURED, delays), _profile(rounds)]


def _section(rate: int, reached: float, delays: list[float]) -> Section:
    shown = (delays[len(delays) // 2], delays[int(len(delays) * 0.95)], delays[-1])
    row = (f"{reached:,.0f}", *(f"{one:.2f}" for one in shown), SEEN_LIMIT)
    columns = ("changes a second", "median s", "95 % s", "most s", "limit s")
    about = (
        f"{rate:,} row changes a second in {TRANSACTIONS} transactions were asked for, of one "
        f"table of ten columns, over {MEASURED:.0f} s after {WARM:.0f} s of warming up; writer, "
        f"server, follower and its Spark on one machine. {len(delays)} commits were looked for."
    )
    return Section("From a commit to clean", about, columns, (row,), (load_note(),))


def _profile(rounds: list[dict[str, Any]]) -> Section:
    parts = {
        "read the log, and load raw": [one["load_seconds"] for one in rounds],
        "fold deduped": [one["seconds"] - one["load_seconds"] for one in rounds],
    }
    rows = [(name, *spread(seconds)) for name, seconds in parts.items() if seconds]
    sizes = statistics.median(one["rows"] for one in rounds) if rounds else 0
    about = f"{len(rounds)} rounds, with {sizes:,.0f} row versions in the median."
    columns = ("step of a round", "median s", "min", "max")
    return Section("What a round is made of", about, columns, tuple(rows))


@contextmanager
def _server() -> Iterator[tuple[Path, MariaDB]]:
    os.environ["BENCH_PASSWORD"] = secrets.token_urlsafe(16)
    with tempfile.TemporaryDirectory() as name, MariaDB.start(Path(name) / "mysql") as server:
        server.create_user("mirror", os.environ["BENCH_PASSWORD"])
        yield Path(name), server


def _fill(server: MariaDB, rows: int) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        cursor.execute(TABLE)
        cursor.execute(INSERT.format(rows=rows))


def _contract(folder: Path, port: int, tables: int = 0) -> Path:
    names = [f"t{number}" for number in range(tables)] or ["orders"]
    listed = "\n".join(f"          {name}: {{mode: binlog, key: [id]}}" for name in names)
    path = folder / "mirrorlake.yaml"
    path.write_text(
        f"""version: 1
lake: {{warehouse: lake}}
ledger: {{url: "sqlite:///ledger.db"}}
sources:
  shop:
    host: 127.0.0.1
    port: {port}
    user: mirror
    password: ${{env:BENCH_PASSWORD}}
    every: 0s
    databases:
      shop:
        tables:
{listed}
""",
        encoding="utf-8",
    )
    return path


@contextmanager
def _follower(path: Path, lines: list[dict[str, Any]]) -> Iterator[subprocess.Popen[str]]:
    """`mirrorlake follow` beside what the block does; its lines."""
    command = [*FOLLOW, "--json", "--config", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=_listen, args=(process.stdout, lines))
        reader.start()
        try:
            yield process
        finally:
            process.terminate()
            process.wait(120)
            reader.join()


def _listen(stream: Any, lines: list[dict[str, Any]]) -> None:
    for line in stream:
        if "rows" in (found := json.loads(line)):
            lines.append(found)


def _wait_for(
    holds: Callable[[], bool],
    process: subprocess.Popen[str],
    seconds: float,
    stops: _Marks | None = None,
) -> None:
    if stops is not None:
        stops.stop.set()
    deadline = time.monotonic() + seconds
    while not holds():
        if process.poll() is not None or time.monotonic() > deadline:
            raise click.ClickException("the follower ended, or fell behind for good")
        time.sleep(0.1)


def _write(server: MariaDB, rate: int, marks: _Marks) -> None:
    """Changes at a steady rate; a writer that is late makes up for one second at most."""
    each = rate // TRANSACTIONS
    inserts, few = each * 3 // 5, each // 5
    with server.admin("shop") as admin, admin.cursor() as cursor:
        admin.autocommit(False)
        cursor.execute("SELECT MAX(id) FROM orders")
        [(top,)] = cursor.fetchall()
        due, number, low = time.monotonic(), 0, 1
        while not marks.stop.is_set():
            cursor.execute(INSERT.format(rows=inserts))
            at = low + few + number * few % max(1, top // 2)
            cursor.execute(
                f"UPDATE orders SET quantity = quantity + 1 WHERE id >= {at} LIMIT {few}"
            )
            cursor.execute(f"DELETE FROM orders WHERE id >= {low} LIMIT {few}")
            low += few
            number += 1
            if number % (TRANSACTIONS // 2) == 0:
                cursor.execute(
                    "INSERT INTO orders (customer, price, mail) VALUES (%s, 1, 'mark')", (-number,)
                )
            admin.commit()
            if number % (TRANSACTIONS // 2) == 0:
                marks.committed[-number] = time.monotonic()
            marks.changes += inserts + 2 * few
            due = max(due + 1 / TRANSACTIONS, time.monotonic() - 1)
            time.sleep(max(0.0, due - time.monotonic()))


def _look(config: Config, marks: _Marks) -> None:
    """Which marks a new version of deduped has, whenever there is one."""
    lake, identifier = Lake(config.lake), deduped_of(config.tables[0])
    known, lowest = None, 0
    while not (marks.stop.is_set() and len(marks.seen) == len(marks.committed)):
        time.sleep(0.1)
        table = lake.load(identifier)
        head = table.current_snapshot() if table is not None else None
        if table is None or head is None or head.snapshot_id == known:
            continue
        at, known = time.monotonic(), head.snapshot_id
        condition = f"customer < 0 and id > {lowest}"
        found = table.scan(row_filter=condition, selected_fields=("id", "customer")).to_arrow()
        for row in found.to_pylist():
            marks.seen.setdefault(row["customer"], at)
            lowest = max(lowest, row["id"])


# --- when nothing happened ------------------------------------------------------------------------


def _ticks(runs: int, tables: int) -> Section:
    from dagster_mirrorlake.location import load_definitions

    with _server() as (folder, server):
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop")
            for number in range(tables):
                cursor.execute(f"CREATE TABLE shop.t{number} (id INT PRIMARY KEY)")
            cursor.execute("CREATE TABLE shop.other (id INT PRIMARY KEY)")
        config = load_config(_contract(folder, server.port, tables))
        _record(config)
        rows = [
            ("the look, log where it was", *_used(runs, lambda: _quiet(config, tables))),
        ]

        def others() -> None:
            with server.admin("shop") as admin, admin.cursor() as cursor:
                cursor.execute("REPLACE INTO other VALUES (1)")
                admin.commit()

        rows += [("the look, others wrote", *_used(runs, lambda: _quiet(config, tables), others))]
        defs = load_definitions(config.path)
        with dg.DagsterInstance.ephemeral() as instance:
            tick = ticker(defs, defs.get_repository_def(), instance, "moved_shop")
            tick()  # sees every table for the first time
            rows += [("the sensor's tick", *_used(runs, lambda: _none(tick())))]
    columns = ("what", "median CPU s", "min", "max", "limit CPU s")
    about = f"{tables:,} tables of mode binlog of one source; the server is another process."
    shown = tuple((*row, QUIET_LIMIT) for row in rows)
    return Section("A tick when nothing happened", about, columns, shown, (load_note(),))


def _record(config: Config) -> None:
    """One load of each table in the ledger, folded, and followed to where the log ends."""
    ledger, source = Ledger(config.ledger.url, config.ledger.wait), config.sources["shop"]
    with session(source) as connection:
        seen, end = read_position(connection), read_end(connection, source)
    now, place = datetime.now(UTC), LogPlace(StreamPosition(end.position), 0).to_text()
    receipt = Receipt(
        rows=0, bytes=0, files=0, digest="0", moment=now.replace(tzinfo=None).isoformat(),
        hi=now.replace(tzinfo=None).isoformat(), server=seen.server, position="", originals=0,
        future=0, query_seconds=0.0, log_place=place,
    )  # fmt: skip
    progress: list[LogProgress] = []
    for contract in config.tables:
        with ledger.lease(contract.name, "bench") as lease:
            load_id = ledger.create_load(contract.name, Window("initial", None, None, now.date()))
            load = ledger.start_load(load_id, lease, "bench", f"{contract.table}_v_0", None)
            ledger.finish_load(load, None, receipt)
        ledger.record_folds(contract.name, "deduped", [load.seq])
        progress.append(LogProgress(contract.name, load.seq, place, now))
    ledger.record_log_progress(progress)


def _quiet(config: Config, tables: int) -> None:
    source, ledger = config.sources["shop"], Ledger(config.ledger.url, config.ledger.wait)
    with session(source) as connection:
        found = find_quiet(connection, source, config.tables, ledger)
    note_quiet(ledger, found)
    if len(found.tables) != tables:
        raise click.ClickException("not all tables were found quiet")


def _none(requests: int) -> None:
    if requests:
        raise click.ClickException("the tick requested a run")


def _used(
    runs: int, act: Callable[[], None], before: Callable[[], None] = lambda: None
) -> tuple[str, str, str]:
    """Seconds of the processor."""
    found: list[float] = []
    for _ in range(runs + 1):
        before()
        began = time.process_time()
        act()
        found.append(time.process_time() - began)
    return spread(found[1:])
