"""The demo: an embedded server with two sources, mirrored, changed while it lives, and compared."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pymysql
from filelock import FileLock, Timeout
from pymysql.connections import Connection
from pymysql.cursors import Cursor
from rich import box
from rich.console import Console
from rich.table import Table

from demo.browse import browse, ui_url
from demo.checks import run_checks
from demo.computed import compute_models, keep_models, put_models
from demo.contract import demo_contract
from demo.nyc import load_nyc
from demo.oracle import Verdict, compare_table
from demo.writer import LiveWriter
from mirrorlake.cli.bars import Bars
from mirrorlake.config import Config, TableContract, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LakeError, MachineError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.permissions import held
from mirrorlake.trial.shop import create_shop
from mirrorlake.workspace import Workspace

USER = "mirror"
RATE = 400.0  # changes a second while the second round's changes are made
MARKER = ".mirrorlake-demo"


@dataclass
class Tally:
    """What the rounds of one table came to."""

    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0


def run_demo(folder: Path, *, port: int | None, changes: int, once: bool, console: Console) -> int:
    """Run the demo in a ``folder`` that is made again; 0 if every table is equal and, with
    ``once``, no check of Dagster is red; else 1.

    Raises:
        MirrorlakeError: a step failed; everything that was started is stopped.
    """
    folder = folder.absolute()
    # As its contract has it, and from the first file on: its server, its lake and Dagster's home.
    with held("private"), in_use(folder):
        return _run(folder, port, changes, once, console)


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    """Hold the folder against another demo, which would empty it.

    Raises:
        MachineError: a demo is running in it.
    """
    lock = FileLock(folder.parent / f".{folder.name}.lock", timeout=0)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        if not isinstance(error, Timeout):
            raise MachineError(
                f"the demo's folder {folder} can't be made: {error.strerror}",
                next_step="Give another --folder",
            ) from error
        raise MachineError(
            f"a demo is running in {folder}",
            next_step="Stop it first (Ctrl-C in its terminal), or give another --folder",
        ) from error
    try:
        yield
    finally:
        lock.release()


def _run(folder: Path, port: int | None, changes: int, once: bool, console: Console) -> int:
    make_again(folder, console)
    with interruptible(), MariaDB.start(folder / "mysql", port) as server:
        console.print(f"Embedded MariaDB on {server.host}:{server.port}", highlight=False)
        config = _set_up(server, folder, console)
        writer = LiveWriter(lambda: _connect(server), rate=RATE)
        tallies = {contract.name: Tally() for contract in config.tables}
        with Workspace.open(config) as workspace:
            _round(workspace, "first copy", tallies, console)
            writer.journal.mark()
            with Bars(console) as bars:
                _write(writer, changes, bars.count("live changes", changes))
            console.print(
                f"The live writer made {writer.changes:,} changes "
                f"({writer.late_commits} committed late, "
                f"{sum(len(k) for k in writer.deleted.values())} rows deleted).",
                highlight=False,
            )
            _round(workspace, "second round", tallies, console)
            equal = _compare(workspace, server, writer, tallies, console)
            compute_models(workspace, console)
        if once or not equal:
            # Also where rows differ: the checks should say so too.
            return 0 if run_checks(config, console) and equal else 1
        return browse(config, LiveWriter(lambda: _connect(server), seed=12, rate=5.0), console)


def make_again(folder: Path, console: Console) -> None:
    """An empty folder: only one that a demo made before is emptied."""
    if folder.exists() and any(folder.iterdir()) and not (folder / MARKER).exists():
        raise MachineError(
            f"the demo's folder {folder} holds something that no demo made",
            next_step="Give another --folder",
        )
    try:
        kept = keep_models(folder)
        if kept is not None:
            console.print(f"Models that are not the demo's were moved to {kept}", soft_wrap=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
    except OSError as error:
        raise MachineError(
            f"the demo's folder {folder} can't be made: {error.strerror}",
            next_step="Give another --folder",
        ) from error


def _set_up(server: MariaDB, folder: Path, console: Console) -> Config:
    """Both sources filled, and the contract that mirrors them."""
    os.environ["MIRRORLAKE_DEMO_PASSWORD"] = secrets.token_urlsafe(16)
    # One key for all runs: hashes in clean can be compared from run to run.
    os.environ.setdefault("MIRRORLAKE_HASH_KEY", "the demo's own key, no secret")
    server.create_user(USER, os.environ["MIRRORLAKE_DEMO_PASSWORD"])
    with server.admin() as connection, Bars(console) as bars:
        counters: dict[str, Callable[[int], None]] = {}

        def report(table: str, done: int, total: int) -> None:
            if table not in counters:
                counters[table] = bars.count(f"load {table}", total)
            counters[table](done)

        nyc = load_nyc(connection, progress=report)
        shop = create_shop(connection, progress=report)
    console.print(
        f"Sources: nyc ({sum(nyc.values()):,} rows of real flights and their tables), "
        f"shop ({sum(shop.values()):,} rows).",
        highlight=False,
    )
    _write_marker(folder, server)
    path = folder / "mirrorlake.yaml"
    path.write_text(demo_contract(server.port), encoding="utf-8")
    put_models(folder)
    return load_config(path)


def _write_marker(folder: Path, server: MariaDB) -> None:
    """Record how `make sabotage` reaches this demo's server: for this user's eyes alone."""
    content = {
        "port": server.port,
        "password": os.environ["MIRRORLAKE_DEMO_PASSWORD"],
        "ui": ui_url(),
    }
    marker = folder / MARKER
    marker.chmod(0o600)
    marker.write_text(json.dumps(content), encoding="utf-8")


def _connect(server: MariaDB) -> Connection[Cursor]:
    return pymysql.connect(
        host=server.host,
        port=server.port,
        user=USER,
        password=os.environ["MIRRORLAKE_DEMO_PASSWORD"],
        charset="utf8mb4",
    )


def _write(writer: LiveWriter, changes: int, report: Callable[[int], None]) -> None:
    """Exactly so many changes, in batches, so that progress is seen."""
    while writer.changes < changes:
        writer.run(min(200, changes - writer.changes))
        report(writer.changes)


def _round(workspace: Workspace, name: str, tallies: dict[str, Tally], console: Console) -> None:
    """Sync every table once, with a bar per table."""
    started = time.monotonic()
    tables = workspace.config.tables
    with Bars(console) as bars:
        done = bars.count(name, len(tables))
        for number, contract in enumerate(tables, 1):
            with bars.table(contract.name) as report:
                result = sync_table(workspace, contract, report)
            done(number)
            tally = tallies[contract.name]
            tally.rows += result.rows
            tally.bytes += result.bytes
            tally.seconds += result.seconds
    console.print(
        f"{name.capitalize()}: {len(tables)} tables in {time.monotonic() - started:.1f} s.",
        highlight=False,
    )


def _compare(
    workspace: Workspace,
    server: MariaDB,
    writer: LiveWriter,
    tallies: dict[str, Tally],
    console: Console,
) -> bool:
    """Every row of every table by the independent comparison, as a table for people."""
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("table", overflow="fold")
    for column in ("rows in MySQL", "rows in the mirror", "checks", "seconds", "MB"):
        table.add_column(column, justify="right", overflow="fold")
    good = True
    for contract in workspace.config.tables:
        with server.admin() as connection:
            verdict = _verdict(workspace, connection, contract)
        surplus = _surplus(contract, writer)
        equal = verdict.equal_but_for(surplus)
        good = good and equal
        word = f"exact but {len(surplus)} deleted ✓" if surplus else "exact ✓"
        tally = tallies[contract.name]
        table.add_row(
            contract.name,
            f"{verdict.source_rows:,}",
            f"{verdict.lake_rows:,}",
            f"[green]{word}[/]" if equal else "[red]NOT EXACT ✗[/]",
            f"{tally.seconds:.1f}",
            f"{tally.bytes / 1e6:.2f}",
        )
        if not equal:
            console.print(verdict.describe(), markup=False)
    console.print(table)
    console.print(
        "“Exact”: every row and every cell equals MySQL's own text, compared by code that shares "
        "nothing with the engine. “Deleted”: rows deleted in MySQL from incremental and append "
        "tables, exactly those that the writer deleted; the scheduled check will find them (see "
        "docs/concepts.md).",
        highlight=False,
    )
    return good


def _verdict(
    workspace: Workspace, connection: Connection[Cursor], contract: TableContract
) -> Verdict:
    identifier = Identifier(contract.namespaces.deduped, contract.table)
    table = workspace.lake.load(identifier)
    if table is None:
        raise LakeError(f"lake table {identifier} is missing", table=contract.name)
    return compare_table(
        connection, contract.database, contract.table, contract.key, table, contract.excluded
    )


def _surplus(contract: TableContract, writer: LiveWriter) -> Sequence[tuple[str, ...]]:
    """The keys that the mirror must have too many: deleted since it saw them."""
    if contract.source != "shop" or contract.mode in ("full", "binlog"):
        return ()
    return tuple(writer.journal.surplus[contract.table])


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM ends the demo as Ctrl-C does: everything that was started is stopped."""

    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        signal.signal(signal.SIGTERM, before)
