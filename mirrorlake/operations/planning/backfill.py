"""Backfills: windows of days are loaded, tables folded, partitions of models computed, in order.

A failed window does not keep the others from being read, nor a bad table the other tables. Tables
are loaded beside each other, as many as their source allows connections; one table's windows go one
after the other, for one writer holds a table. Then every table is folded once, and models are
computed, each after those that it reads. What fails stops what needs it, and nothing else. Each
step leaves in the ledger and the lake that it was done; a run that dies is resumed by finding what
is left.

What belongs here: the order, and what becomes of each step. What doesn't: what there is to be done
(`mirrorlake.operations.planning.work`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TypeAlias

from mirrorlake.config import TableContract
from mirrorlake.errors import MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.operations.days.backfill_windows import BackfillWindow
from mirrorlake.operations.days.gaps import Stretch, find_stretches
from mirrorlake.operations.days.invalid import answered_marks, invalid_ranges
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days
from mirrorlake.operations.planning.computed import Computed, ModelFilled
from mirrorlake.operations.planning.work import Work
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

OnWork: TypeAlias = "Callable[[object], None]"
RETRIES = 3
WAIT_SECONDS = 2.0


@dataclass(frozen=True)
class Filled:
    """What became of one window of a backfill.

    Attributes:
        table: ``source.db.table``.
        rows: rows committed to raw.
        looked_up: keys that had left these days and were found elsewhere.
        gone: keys that had left these days because MySQL no longer has them.
        seconds: for this window.
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
    return _fill_windows(workspace, pieces, report)


def _fill_windows(
    workspace: Workspace,
    pieces: Sequence[Sequence[BackfillWindow]],
    report: Callable[[Filled], None] = lambda _: None,
) -> list[Filled]:
    """Fill the windows of some tables, each table's in its order, then fold each table once; what
    became of every window."""
    wanted = [found for found in pieces if found]
    if not wanted:
        return []
    sources = {found[0].contract.source for found in wanted}
    workers = sum(workspace.config.sources[source].connections for source in sources)

    def run_table(found: Sequence[BackfillWindow]) -> list[Filled]:
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
                result = load_table(workspace, piece.contract, complete=piece.complete)
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


# --- tables and models ----------------------------------------------------------------------------


def run_work(
    workspace: Workspace,
    computed: Sequence[Computed],
    work: Work,
    watch: OnWork = lambda _: None,
) -> tuple[list[Filled], list[ModelFilled]]:
    """Do the work; what became of every window of a table, and of every model.

    Raises:
        LedgerError: the ledger can't be read.
    """
    filled = _fill_windows(workspace, work.windows, watch)
    filled += [one for contract in work.folds for one in _folded(workspace, contract)]
    failpoint("work.folded")
    models = [done for one in computed for done in one.run(workspace, work.partitions, watch)]
    marks = workspace.ledger.dirty_marks()
    workspace.ledger.forget_marks(answered_marks(marks, invalid_ranges(workspace.ledger, marks)))
    return filled, models


def _folded(workspace: Workspace, contract: TableContract) -> Sequence[Filled]:
    """Fold a table whose loads are there; only a failure is reported."""
    try:
        fold_table(workspace, contract)
    except MirrorlakeError as error:
        logger.warning("table %s: %s", contract.name, error)
        today = datetime.now(UTC).date()
        return [
            Filled(contract.name, today, today, "", 0, 0, 0, 1, 0.0, str(error), error.exit_code)
        ]
    return []
