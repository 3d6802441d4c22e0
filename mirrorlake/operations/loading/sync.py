"""Sync: one table's whole chain, once. The face and the command line both call this."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache, partial
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.errors import LedgerError, MirrorlakeError, ReadGivenUp, SchemaError
from mirrorlake.ledger import Load
from mirrorlake.load.attempt import LoadTerms
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.load.protocol.protocol import load_window
from mirrorlake.load.protocol.receipts import recovered_words, still_open, warn_of_unseen
from mirrorlake.merge.reshape import find_outdated
from mirrorlake.merge.small_fold import folds_by_spark
from mirrorlake.merge.statements import deduped_layer
from mirrorlake.operations.loading.accept import refuse_other_server
from mirrorlake.operations.loading.fold import fold_layers, fold_table
from mirrorlake.operations.loading.follow_log import Followed, follow_tables
from mirrorlake.operations.loading.load_by_log import (
    follow_in_doubt,
    followed_unchanged,
    load_by_log,
    refuse_log,
)
from mirrorlake.operations.loading.next_load import plan_next_load, warn_of_set_back
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.results import SyncResult, result_of, unchanged_result
from mirrorlake.operations.loading.stamps import find_equal, stamp_table
from mirrorlake.operations.loading.taken_up import note_columns, record_known, record_version
from mirrorlake.operations.loading.unchanged import Look, Unchanged, note_unchanged
from mirrorlake.operations.other_writers.moved_layers import accept_made, put_right
from mirrorlake.runtime.extras import is_there, lacking
from mirrorlake.serving.streamed import hold_streamed
from mirrorlake.sources.mysql.changes.open_writes import NOTHING_OPEN
from mirrorlake.sources.mysql.changes.replica import read_reach
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.columns.shape import change_words
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.table.progress import OnProgress, Progress
from mirrorlake.table.resolve import ResolvedTable, by_time
from mirrorlake.table.windows import plan_reload, set_back
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

ATTEMPTS = 4
_LONG_ROWS = 200_000
"""The server digests a larger copy for a second or more before its first row: Spark starts then,
while nothing else is done here, and not beside the reading."""
_GIVEN_UP_SECONDS = 2.0
"""How long a load that gave way waits before it tries again; twice as long each time."""


def sync_table(
    workspace: Workspace,
    contract: TableContract,
    progress: OnProgress | None = None,
    *,
    accept_smaller: bool = False,
    look: Look | None = None,
    followed: Followed | None = None,
) -> SyncResult:
    """Load the next window of a table and fold it: raw, then deduped, then clean.

    Whatever a dead run left is put right first. A failure leaves every layer as it was, or a step
    further; the next sync resumes there.

    Args:
        progress: called with what has been read so far.
        accept_smaller: whether a full copy is taken that is far smaller than the last one.
        look: what `look_at` saw just before. A table that it found unchanged is not read; for a
            full copy, MySQL first computes the digest of its rows. Without a look the table is
            read, whatever its source shows.
        followed: what of its log was loaded just before, with that of others.

    Raises:
        MirrorlakeError: see the errors of planning, loading and folding.
    """
    terms = LoadTerms(progress=progress, accept_smaller=accept_smaller)
    return TableSync(workspace, contract, terms, look=look, followed=followed).run()


def load_table(
    workspace: Workspace,
    contract: TableContract,
    progress: OnProgress | None = None,
    *,
    accept_smaller: bool = False,
    complete: bool = False,
    look: Look | None = None,
) -> SyncResult:
    """`sync_table` without its fold: only raw moves. What was loaded after a look is to be folded
    by `fold_looked`.

    Args:
        complete: whether a full copy writes every row, whatever the one before did.
    """
    terms = LoadTerms(progress=progress, accept_smaller=accept_smaller, complete=complete)
    return TableSync(workspace, contract, terms, look=look, fold=False).run()


def fold_looked(workspace: Workspace, contract: TableContract, look: Look) -> int:
    """`fold_table` after `load_table` and a look before it: so the next look knows the table.

    A load that the look may have seen, or came after, is no part of it: its table is read again.
    """

    def stamp(leased: Workspace, connection: Connection[Any], plan: ResolvedTable) -> None:
        newest = leased.ledger.newest_attempts([plan.name]).get(plan.name)
        if newest is not None and newest.seq > look.through.get(plan.name, 0):
            stamp_table(leased, connection, plan, look, None)

    return fold_table(workspace, contract, stamp)


def reload_days(
    workspace: Workspace,
    contract: TableContract,
    first: date,
    last: date,
    progress: OnProgress | None = None,
) -> SyncResult:
    """Load the raw days ``first`` to ``last``, both included, again; only raw moves.

    What small windows read of these days is replaced in one commit, and keys that have left them
    are looked up: the newer row is written, or a tombstone. A day that was reloaded before is only
    added to. A table that was never loaded, or has a new column, gets its first load instead, which
    reads these days too.

    Raises:
        ConfigError: these days can't be loaded again: mode full, before the table's start, in the
            future, or without an index that leads to them.
        MirrorlakeError: see the errors of planning and loading.
    """
    terms = LoadTerms(progress=progress)
    return TableSync(workspace, contract, terms, days=(first, last), fold=False).run()


@dataclass
class TableSync:
    """One table's load, and its fold where that is asked for.

    Attributes:
        days: raw days that are loaded again, first and last; None: the next window is loaded.
        look: what was seen just before, if somebody looked.
        followed: what of its log was loaded just before, with that of others.
        fold: whether deduped and clean move too, not raw alone.
    """

    workspace: Workspace
    contract: TableContract
    terms: LoadTerms
    days: tuple[date, date] | None = None
    look: Look | None = None
    followed: Followed | None = None
    fold: bool = True

    def run(self) -> SyncResult:
        """Load the table, and fold it.

        Raises:
            MirrorlakeError: see the errors of planning, loading and folding.
        """
        workspace, contract, look = self.workspace, self.contract, self.look
        refuse_held(workspace.ledger, contract.source)
        if contract.by_log and self.followed is None:
            self.followed = follow_tables(workspace, [contract]).get(contract.name)
        if look is not None and contract.name in look.unchanged:
            return unchanged_result(look.unchanged[contract.name], 0, 0, 0.0)
        source = workspace.config.sources[contract.source]
        with (
            refusal_recorded(workspace, contract),
            session(source, contract.database) as connection,
            self.loaded(connection) as loaded,
        ):
            folded = fold_layers(loaded.leased, loaded.plan) if self.fold else ()
            return loaded.finish(connection, folded, fold=self.fold)

    @contextmanager
    def loaded(self, connection: Connection[Any]) -> Iterator[LoadedTable]:
        """The table, whose raw has what it is to have, under its lease until the block ends."""
        started, contract, look = time.monotonic(), self.contract, self.look
        plan = resolve_table(self.workspace, contract, connection)
        with self.workspace.leased(contract) as leased:
            repaired = put_right(leased, contract, plan.key) if leased.moved else []
            settled = len(settle_loads(leased, contract))
            compared = look if look is not None and not leased.moved else None
            unchanged = find_equal(leased, connection, plan, compared) if compared else None
            if self.fold:
                self._expect_fold(leased, plan, loads=unchanged is None)
            loads: list[Load] = []
            if unchanged is None:
                plan, loads = self._load_again(leased, connection, plan)
                unchanged = None if loads else followed_unchanged(leased, contract, self.followed)
            yield LoadedTable(leased, plan, loads, unchanged, look, settled, repaired, started)

    def _expect_fold(self, leased: Workspace, plan: ResolvedTable, *, loads: bool) -> None:
        """See that what is loaded can be folded, and start Spark early where it will be needed."""
        if loads:
            _refuse_unfoldable(leased, plan)
            large = self.contract.copies and plan.table.estimated_rows > _LONG_ROWS
            if large and folds_by_spark(leased, plan):
                leased.spark.start_early()
        starting = _starting_spark(leased, plan, self.terms.progress)
        self.terms = replace(self.terms, progress=starting)

    def _load_again(
        self, leased: Workspace, connection: Connection[Any], plan: ResolvedTable
    ) -> tuple[ResolvedTable, list[Load]]:
        """`_load`, tried again where it gave way to a change of its table: resolved again then."""
        for number in range(ATTEMPTS):
            try:
                if number:
                    plan = resolve_table(leased, plan.contract, connection)
                if plan.contract.by_log and self.days is None:
                    parts = (leased, connection, plan, self.followed)
                    plan, self.followed = follow_in_doubt(*parts)
                return plan, self._load(leased, connection, plan)
            except (ReadGivenUp, SchemaError) as error:
                gave_way = isinstance(error, ReadGivenUp) or number > 0
                if not gave_way or not error.retryable or number + 1 == ATTEMPTS:
                    raise
                pause = _GIVEN_UP_SECONDS * 2**number
                logger.warning("%s Tried again in %g s", error, pause)
                time.sleep(pause)
        raise AssertionError("unreachable")

    def _load(
        self, leased: Workspace, connection: Connection[Any], plan: ResolvedTable
    ) -> list[Load]:
        ledger, terms = leased.ledger, self.terms
        # Before anything is read: what opens later writes with later clocks.
        bounded = by_time(plan) or plan.source.primary is not None
        reach = read_reach(connection, plan.source) if bounded else None
        seen = read_position(connection)
        refuse_other_server(ledger, connection, plan, seen.server)
        if plan.contract.by_log:
            # Before anything of the table is written down.
            refuse_log(connection, plan, self.followed)
        upcoming = plan_next_load(connection, leased, plan, seen.server)
        fresh, last = upcoming.fresh, upcoming.last
        if fresh:
            # A version whose table somebody edited stops the table before another one is begun.
            raw_tables(leased.lake, ledger, plan.contract)
        if self.days is not None and (last is not None or plan.contract.copies):
            windows = plan_reload(plan, *self.days, seen.clock, ledger.successful_loads(plan.name))
        else:
            ahead = reach.ahead if reach else None
            warn_of_set_back(plan, set_back(last, ahead))
            windows = (upcoming.window(plan, seen.clock, ahead),)
        changed = change_words(plan.contract, plan.version, ledger.schema_versions(plan.name))
        if fresh:
            record_version(leased, connection, plan)
        else:
            record_known(leased, plan)
        if words := "; ".join(filter(None, (changed or upcoming.silent, upcoming.again))):
            leased.changes[:] = [words]
            logger.warning("table %s: %s", plan.name, words)
        note_columns(ledger, plan, fresh=fresh)
        complete = terms.complete or upcoming.whole
        terms = replace(
            terms, server=seen.server, continuity=upcoming.continuity, complete=complete
        )
        if upcoming.whole:
            # Its rows may mean something else than those before: shown once they are folded.
            hold_streamed(leased, plan)
        if reach is not None:
            if reach.open is None:
                warn_of_unseen(connection, plan, last)
            found = still_open(plan, reach.open, last, windows[0]) if reach.open else NOTHING_OPEN
            held_back = recovered_words(plan, found)
            leased.holding[:] = [held_back] if held_back else []
            terms = replace(terms, open_writes=found, shown=reach.shown, clock_ahead=reach.ahead)
        if plan.contract.by_log:
            return load_by_log(leased, connection, plan, windows[0], terms, self.followed)
        return [load_window(leased, connection, plan, window, terms) for window in windows]


@contextmanager
def refusal_recorded(workspace: Workspace, contract: TableContract) -> Iterator[None]:
    """A table's sync: what stops it before a load of it begins is written down."""
    began = datetime.now(UTC)
    try:
        yield
    except LedgerError:
        raise  # held by another run, or nowhere to write it down
    except MirrorlakeError as error:
        # Keep what stopped a table before a load of it began: a load keeps its own error.
        last = workspace.ledger.last_load(contract.name)
        if last is None or last.started_at < began:
            workspace.ledger.record_refusal(contract.name, str(error), passing=error.retryable)
        raise


@dataclass(frozen=True)
class LoadedTable:
    """A table that was loaded, whose lease is held.

    Attributes:
        loads: what was loaded; none where it was ``unchanged``.
        look: what was seen before, if that.
        settled: how many loads of dead runs were put right first.
        repaired: what was put right of its lake tables, in words.
    """

    leased: Workspace
    plan: ResolvedTable
    loads: Sequence[Load]
    unchanged: Unchanged | None
    look: Look | None
    settled: int
    repaired: list[str]
    started: float

    def finish(
        self, connection: Connection[Any] | None, folded: Sequence[int], *, fold: bool
    ) -> SyncResult:
        """Write down what the next look needs to know; what was done.

        Args:
            connection: not needed of a table that follows a log.
            folded: the numbers of the loads that were folded.
            fold: whether all layers were.
        """
        leased, contract, unchanged = self.leased, self.plan.contract, self.unchanged
        repaired = accept_made(leased, contract, self.repaired) if fold else self.repaired
        if self.look is not None and fold:
            stamp_table(leased, connection, self.plan, self.look, unchanged)
        elif unchanged is not None:
            note_unchanged(leased.ledger, [unchanged])
        seconds = time.monotonic() - self.started
        if unchanged is not None:
            result = unchanged_result(unchanged, self.settled, len(folded), seconds)
        else:
            result = result_of(contract, self.loads, self.settled, len(folded), seconds)
        words = {"changed": "; ".join(leased.changes), "held_back": "".join(leased.holding)}
        return replace(result, put_right=tuple(repaired), **words)


def _refuse_unfoldable(workspace: Workspace, plan: ResolvedTable) -> None:
    """Where Spark is not installed, leave a table alone that it would have to fold: nothing of it
    was read. One that follows a log is loaded all the same, for the log may be purged.

    Raises:
        MachineError: Spark is not installed, and needed.
    """
    if is_there("pyspark") or plan.contract.by_log:
        return
    retyped = find_outdated(workspace, plan, deduped_layer(plan)).retyped
    if retyped or folds_by_spark(workspace, plan):
        raise lacking(f"table {plan.name}: folding what it would load", "pyspark", "spark")


def _starting_spark(
    workspace: Workspace, plan: ResolvedTable, progress: OnProgress | None
) -> OnProgress:
    """A report that starts Spark, beside what is left of a load, once there are rows that it will
    fold."""
    wanted = cache(partial(folds_by_spark, workspace, plan))

    def report(seen: Progress) -> None:
        if seen.rows and wanted():
            workspace.spark.start_early()
        if progress is not None:
            progress(seen)

    return report
