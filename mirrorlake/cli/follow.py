"""`follow`: a resident process over one source's binary log.

What belongs here: options, signals, and what is printed. What doesn't: following
(`mirrorlake.operations.following`).
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.config import Config
from mirrorlake.errors import MirrorlakeError
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.following.followed_round import FollowedRound


@click.command(short_help="Keep tables of mode binlog seconds behind their SOURCE.")
@click.argument("source")
@show.config_option
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each round.")
@click.option("--for", "duration", help="End after this time, as 30s, 10m or 8h.")
@click.option("--once", is_flag=True, help="End once all that is committed by now is folded.")
@click.option(
    "--rows", type=click.IntRange(1), default=100_000, show_default=True, help="Rows of a round."
)
@click.option(
    "--megabytes",
    type=click.FloatRange(0.001),
    default=16.0,
    show_default=True,
    help="Of the log in a round.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1),
    default=10.0,
    show_default=True,
    help="Of reading in a round.",
)
def follow(
    source: str,
    config_path: Path,
    as_json: bool,
    duration: str | None,
    once: bool,
    rows: int,
    megabytes: float,
    seconds: float,
) -> None:
    """Read the binary log of SOURCE without a pause, and fold what it says of its tables of mode
    binlog, some seconds after it was committed.

    A round takes what came since the last one, up to the first of its limits. What it can't do (a
    first copy, a table to be read again as a whole) the table's sync does, which is part of it; a
    table that fails is tried again, and the others go on. A contract file that is changed is read
    again. Beside `sync`, or another process that follows the source, nothing is loaded twice.

    SIGINT and SIGTERM end it after the round that runs, with exit code 0; the second one at once. A
    source, ledger or lake that is lost is waited for.
    """
    from mirrorlake.operations.following.followed_tables import followed_tables
    from mirrorlake.operations.following.follower import FollowTerms, follow_source
    from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    config.require_secrets(followed_tables(config, source).all)
    lasts = None if duration is None else show.as_duration(duration, "--for").total_seconds()
    until = None if lasts is None else time.monotonic() + lasts
    shown = _Shown(as_json)
    terms = FollowTerms(
        limits=BatchLimits(rows, int(megabytes * 2**20), seconds),
        until=until,
        once=once,
        note=shown.note,
        reload=_changed(config.path, shown.wait),
    )
    with _told_to_stop(shown) as stop, Workspace.open(config) as workspace:
        follow_source(workspace, source, stop, shown.round, shown.wait, terms)
    if once and shown.failed:
        sys.exit(shown.failed[0].exit_code)


class _Shown:
    """What is printed: of each round a line, for people or for programs.

    Attributes:
        failed: the errors of the newest round.
    """

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.failed: list[MirrorlakeError] = []

    def round(self, done: FollowedRound) -> None:
        self.failed = list(done.failed.values())
        if self._as_json:
            self._line(_as_json(done))
            return
        show.console.print(escape(_words(done)), highlight=False, soft_wrap=True)
        for table, words in done.changed.items():
            show.errors.print(escape(f"{table}: {words}"), highlight=False, soft_wrap=True)
        for error in done.failed.values():
            show.errors.print(f"[red]error:[/] {escape(str(error))}", soft_wrap=True)

    def note(self, words: str) -> None:
        if self._as_json:
            self._line({"note": words})
        else:
            show.console.print(escape(words), highlight=False, soft_wrap=True)

    def wait(self, words: str) -> None:
        if self._as_json:
            self._line({"waiting": words})
        else:
            show.errors.print(f"[yellow]waiting:[/] {escape(words)}", soft_wrap=True)

    def _line(self, found: dict[str, Any]) -> None:
        click.echo(json.dumps(found, ensure_ascii=False))
        sys.stdout.flush()


def _as_json(done: FollowedRound) -> dict[str, Any]:
    return {
        "at": f"{done.at.isoformat()}Z",
        "lag_seconds": done.lag_seconds,
        "lag_bytes": done.lag_bytes,
        "rows": sum(done.rows.values()),
        "tables": dict(done.rows),
        "tenants": dict(done.tenants),
        "seconds": done.seconds,
        "load_seconds": done.load_seconds,
        "position": done.place,
        "shown": done.shown,
        "left_out": list(done.left_out),
        "changed": dict(done.changed),
        "errors": [
            {"table": table, "error": str(error), "code": error.exit_code}
            for table, error in done.failed.items()
        ],
    }


def _words(done: FollowedRound) -> str:
    rows, tables = sum(done.rows.values()), len(done.rows)
    what = f"{plural(rows, 'row')} of {plural(tables, 'table')}" if tables else "nothing new"
    what += f", {plural(tenants, 'tenant')}" if (tenants := sum(done.tenants.values())) else ""
    failed = f" · {plural(len(done.failed), 'table')} failed" if done.failed else ""
    # The lag is of the others alone.
    away = sum(name not in done.failed for name in done.left_out)
    failed += f" · {plural(away, 'table')} further behind" if away else ""
    lag = "no table is followed yet"
    if done.lag_seconds is not None and done.lag_bytes is not None:
        lag = f"lag {done.lag_seconds:.1f} s, {done.lag_bytes:,} bytes"
    return f"{done.at:%H:%M:%S} UTC · {lag} · {what} · {done.seconds:.1f} s{failed}"


@contextmanager
def _told_to_stop(shown: _Shown) -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second one interrupts."""
    stop, signals = threading.Event(), list[int]()

    def handle(number: int, _frame: object) -> None:
        signals.append(number)
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    def say() -> None:
        stop.wait()
        if signals:
            shown.wait("the round that runs is ended; once more ends it at once")

    # Not by the handler: what it interrupts may be the printing of another line.
    saying = threading.Thread(target=say, name="follow-signals", daemon=True)
    saying.start()
    before = {one: signal.signal(one, handle) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        stop.set()
        saying.join()


def _changed(path: Path, say: Callable[[str], None]) -> Callable[[], Config | None]:
    """What gives a contract file anew when it was changed since the last call."""
    known = [_written(path)]

    def reload() -> Config | None:
        now = _written(path)
        if now == known[0]:
            return None
        known[0] = now
        try:
            return open_contract(path)
        except MirrorlakeError as error:
            say(f"{path.name} was changed and can't be used, the old one is: {error}")
            return None

    return reload


def _written(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
