"""Backfills: the days of a range that want loading, as few windows, each tried again by itself.

A failed window does not keep the others from being read, nor a bad table the other tables. Tables
are loaded beside each other, as many as their source allows connections; one table's windows go one
after the other, for one writer holds a table. Then every table is folded once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.operations.fold import fold_table
from mirrorlake.operations.gaps import STATES, Stretch, find_stretches
from mirrorlake.operations.sync import load_table, reload_days
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

WANTED = {
    "missing": ("not asked", "errored", "unproved"),
    "errored": ("errored",),
    "all": STATES,
}
RETRIES = 3
WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class BackfillWindow:
    """One window of a backfill: raw days, both included; ``live`` reads on to now instead."""

    contract: TableContract
    first: date
    last: date
    live: bool


@dataclass(frozen=True)
class Filled:
    """What became of one window of a backfill.

    Attributes:
        first, last: its raw days, both included.
        window: ``initial``, ``live`` or ``reload``; '' where it failed.
        attempts: how often it was tried.
        error: the last attempt's error, None where it went well.
        code: the error's exit code, 0 where it went well.
    """

    table: str
    first: date
    last: date
    window: str
    rows: int
    looked_up: int
    gone: int
    attempts: int
    seconds: float
    error: str | None
    code: int


def plan_backfill(
    contract: TableContract,
    stretches: Sequence[Stretch],
    first: date,
    last: date,
    which: str,
    days_per_window: int,
) -> list[BackfillWindow]:
    """The windows that a backfill of ``first`` to ``last`` reads, in order; pure.

    Args:
        stretches: of the table up to today, as `find_stretches` gives them.
        which: ``missing`` (never requested, or failed), ``errored`` or ``all``.
        days_per_window: the most days of one window: what is lost when one fails.

    Raises:
        ConfigError: the range ends before it begins, or ``days_per_window`` is not positive.
    """
    if first > last or days_per_window < 1:
        raise ConfigError(
            f"table {contract.name}: {first} to {last} in windows of {days_per_window} days is no "
            "range to fill",
            table=contract.name,
            next_step="Give the earlier day first, and at least one day a window",
        )
    pieces: list[BackfillWindow] = []
    for stretch in stretches:
        begin, end = max(stretch.first or first, first), min(stretch.last, last)
        if stretch.state not in WANTED[which] or begin > end:
            continue
        if _is_ahead(stretch, stretches):
            pieces.append(BackfillWindow(contract, begin, end, live=True))
            continue
        while begin <= end:
            until = min(end, begin + timedelta(days=days_per_window - 1))
            pieces.append(BackfillWindow(contract, begin, until, live=False))
            begin = until + timedelta(days=1)
    if contract.copies:
        # MySQL has no older copy: one load today is all that any day of the range can get.
        today = stretches[-1].last if stretches else last
        return (
            [BackfillWindow(contract, today, today, live=True)] if pieces and last >= today else []
        )
    live = [p for p in pieces if p.live]
    if live:  # one window reads on to now, whatever number of stretches are ahead
        whole = BackfillWindow(contract, live[0].first, live[-1].last, live=True)
        pieces = [*(p for p in pieces if not p.live), whole]
    return pieces


def _is_ahead(stretch: Stretch, stretches: Sequence[Stretch]) -> bool:
    """Whether nothing was loaded from this stretch on: what comes next is a moving window's. Of an
    unproved table that window is the whole table."""
    rest = stretches[list(stretches).index(stretch) :]
    return all(s.state in WANTED["missing"] for s in rest)


def backfill(
    workspace: Workspace,
    contracts: Sequence[TableContract],
    plan: Callable[[TableContract, list[Stretch]], list[BackfillWindow]],
    today: date,
    report: Callable[[Filled], None] = lambda _: None,
) -> list[Filled]:
    """Fill these tables' windows, then fold each table once; what became of every window.

    Raises:
        ConfigError: as ``plan`` says; nothing was loaded then.
    """
    pieces = [plan(c, find_stretches(c, workspace.ledger, today)) for c in contracts]
    wanted = [found for found in pieces if found]
    if not wanted:
        return []
    sources = {found[0].contract.source for found in wanted}
    workers = sum(workspace.config.sources[source].connections for source in sources)

    def run_table(found: list[BackfillWindow]) -> list[Filled]:
        done: list[Filled] = []
        for piece in found:
            done.append(_fill(workspace, piece))
            report(done[-1])
        return done

    with ThreadPoolExecutor(min(workers, len(wanted))) as pool:
        filled = [one for done in pool.map(run_table, wanted) for one in done]
    # One session runs one fold at a time.
    return [*filled, *_fold_all(workspace, [found[0].contract for found in wanted], filled)]


def _fill(workspace: Workspace, piece: BackfillWindow) -> Filled:
    started, attempt = time.monotonic(), 1
    while True:
        try:
            if piece.live:
                result = load_table(workspace, piece.contract)
            else:
                result = reload_days(workspace, piece.contract, piece.first, piece.last)
        except MirrorlakeError as error:
            if not error.retryable or attempt == RETRIES:
                return _failed(piece, attempt, time.monotonic() - started, error)
            logger.warning("table %s: tried again: %s", piece.contract.name, error)
            time.sleep(WAIT_SECONDS * 2 ** (attempt - 1))
            attempt += 1
        else:
            break
    return Filled(
        table=piece.contract.name,
        first=piece.first,
        last=piece.last,
        window=result.window,
        rows=result.rows,
        looked_up=result.looked_up,
        gone=result.gone,
        attempts=attempt,
        seconds=round(time.monotonic() - started, 2),
        error=None,
        code=0,
    )


def _failed(piece: BackfillWindow, attempt: int, seconds: float, error: MirrorlakeError) -> Filled:
    return Filled(
        table=piece.contract.name,
        first=piece.first,
        last=piece.last,
        window="",
        rows=0,
        looked_up=0,
        gone=0,
        attempts=attempt,
        seconds=round(seconds, 2),
        error=str(error),
        code=error.exit_code,
    )


def _fold_all(
    workspace: Workspace, contracts: Sequence[TableContract], filled: Sequence[Filled]
) -> list[Filled]:
    """Fold the tables that got something; only failures are reported."""
    loaded = {one.table for one in filled if one.error is None}
    failures: list[Filled] = []
    for contract in contracts:
        if contract.name not in loaded:
            continue
        started = time.monotonic()
        try:
            fold_table(workspace, contract)
        except MirrorlakeError as error:
            days = [one for one in filled if one.table == contract.name]
            piece = BackfillWindow(contract, days[0].first, days[-1].last, live=False)
            failures.append(_failed(piece, 1, time.monotonic() - started, error))
    return failures
