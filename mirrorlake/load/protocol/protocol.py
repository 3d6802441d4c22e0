"""Loads: one window of one table, from MySQL into its raw table, by the commit protocol.

Order of things, each of which a crash may follow: window ``created`` → attempt ``pending`` → data
files → one Iceberg commit with the load's id → ``success`` (`mirrorlake.load.protocol.load_run`).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pymysql.connections import Connection

from mirrorlake.destinations.base import Commit
from mirrorlake.destinations.iceberg.commits.commit import commit_load
from mirrorlake.destinations.iceberg.commits.heads import refuse_unknown_load
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.destinations.iceberg.tables.schemas import raw_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_raw_table
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load, Receipt, Window
from mirrorlake.load.attempt import Attempt, LoadTerms
from mirrorlake.load.chunks.chunk_task import without_delta
from mirrorlake.load.chunks.placed_rows import PLACED
from mirrorlake.load.chunks.planner import batch_rows
from mirrorlake.load.chunks.plans import chunk_plans
from mirrorlake.load.chunks.receipt import ChunkReceipt, receipt_to_json
from mirrorlake.load.chunks.runner import reads_on_spark, run_chunks
from mirrorlake.load.chunks.select_rows import SELECT
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.load.copies.carry_over import CHUNK_ROWS, Carrying, carry_over, plan_carrying
from mirrorlake.load.copies.changed_rows import CHANGED
from mirrorlake.load.copies.copies import (
    Copying,
    drop_index,
    plan_copy,
    prove_delta,
    stamp_copy,
    tombstones_of_copy,
    with_copy,
    with_originals,
    with_ranges,
)
from mirrorlake.load.protocol.load_run import LoadRun
from mirrorlake.load.protocol.receipts import receipt_of
from mirrorlake.load.protocol.resume import ChunkCut, basis_of, find_cut, plan_cut, start_of
from mirrorlake.load.protocol.table_held import check_table_held
from mirrorlake.load.protocol.verify import commit_proved, form_of_rows, is_verified
from mirrorlake.load.reloads.backward import count_backward
from mirrorlake.load.reloads.reload import (
    NOTHING,
    Replacement,
    refuse_fewer_rows,
    replace_small_loads,
    replaced_by,
)
from mirrorlake.load.reloads.reread import Reread, tombstones_of
from mirrorlake.load.row_hashes.row_index import DeltaGivenUp
from mirrorlake.load.shrink_guard import refuse_smaller, refuse_smaller_history
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.sources.mysql.reading.lock_watch import Guard
from mirrorlake.sources.mysql.reading.reader import BATCH_ROWS
from mirrorlake.table.continuity import stamp_receipt
from mirrorlake.table.progress import Pace, Progress
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

# What is read again when a connection is lost. One stream after the other, each costs a session and
# a process: few chunks. As tasks of Spark, or of large rows: a quarter of it.
ROWS_PER_CHUNK = 2_000_000


def load_window(
    workspace: Workspace,
    connection: Connection[Any],
    plan: ResolvedTable,
    window: Window,
    terms: LoadTerms,
    reread: Reread | None = None,
) -> Load:
    """Read one window and commit it to the raw table of the plan's schema version.

    A load of the same window whose run ended in the middle is resumed: its finished chunks are not
    read again. A repair's window has no rows of its own: ``reread`` says which.

    Args:
        workspace: with the table's lease.

    Raises:
        SourceError: MySQL failed, or another server answered: what was read of several chunks
            stays for the next run. Or a full copy is far smaller than the last one.
        SchemaError: the table's schema changed while it was read; nothing was committed.
        CommitConflict: the raw table moved; nothing was committed.
        NotProved: the lake has other rows than MySQL said; nothing is visible.
        LeaseHeld: another run took the table over; nothing was committed.
    """
    ledger, lake = workspace.ledger, workspace.lake
    events = plan.contract.by_log
    schema = raw_schema(
        plan.columns, plan.keeps_aliases, plan.entity is not None, with_events=events
    )
    table = ensure_raw_table(lake, plan.raw, schema, plan.name, plan.version)
    refuse_unknown_load(ledger, plan.name, plan.raw, table)
    rows = form_of_rows(connection, plan, table) if is_verified(plan, window) else None
    basis = basis_of(connection, plan, window, table, terms.server)
    found = find_cut(ledger, lake, plan, basis, table) if reread is None else None
    if found is None:
        run, cut = LoadRun.begin(workspace, plan.name, plan.raw, window), None
    else:
        run, cut = LoadRun.resume(workspace, plan.raw, found[0].load), found[1]
    attempt = Attempt(workspace, plan, run.load, connection)
    receipts = list(cut.finished) if cut else []
    carrying = plan_carrying(workspace, plan, window, terms, rows)
    try:
        if reread is not None:
            cut = ChunkCut(reread.conditions, by_keys=True)
        elif cut is None:
            cut = _new_cut(attempt, window, terms, basis, carrying)
        chunks = chunk_plans(plan, run.load, table, terms.server, cut.bounds, rows)
        copying = plan_copy(workspace, plan, window, terms, table, rows)
        copying = with_ranges(connection, plan, copying)
        chunks = with_copy(chunks, copying)
        reading = _WindowLoad(run, attempt, terms, cut, chunks, rows, reread, copying, carrying)
        before = ledger.newest_receipt(plan.name)
        snapshot, receipt = reading.land_or_complete(receipts)
    except BaseException as error:
        run.give_up(error, (path for found in receipts for path in found.paths))
        raise
    run.succeed(snapshot, receipt)
    drop_index(lake, plan, before)
    return ledger.successful_loads(plan.name, run.load.seq - 1)[0]


@dataclass(frozen=True)
class _WindowLoad:
    """How a window is loaded: what is read, and how it is written and proved."""

    run: LoadRun
    attempt: Attempt
    terms: LoadTerms
    cut: ChunkCut
    chunks: list[ChunkPlan]
    rows: RowForm | None
    reread: Reread | None
    copying: Copying | None
    carrying: Carrying | None

    def land_or_complete(self, receipts: list[ChunkReceipt]) -> tuple[int | None, Receipt]:
        """`_land`; where the load can't be written as changes, once more as a complete copy."""
        try:
            return self._land(receipts)
        except DeltaGivenUp as why:
            logger.warning(
                "table %s load %s: %s: a complete copy is made",
                *(self.attempt.plan.name, self.attempt.load.load_id, why),
            )
            receipts.clear()  # their files go when no snapshot names them any more
            complete = [without_delta(chunk, why) for chunk in self.chunks]
            return dataclasses.replace(self, chunks=complete)._land(receipts)

    def _land(self, receipts: list[ChunkReceipt]) -> tuple[int | None, Receipt]:
        """Read the chunks that have no receipt yet, and commit the load; raw's new snapshot.

        Raises:
            DeltaGivenUp: the load can't be written as changes; nothing of it is visible.
        """
        attempt, terms, chunk, copying = self.attempt, self.terms, self.chunks[0], self.copying
        plan, load, ledger = attempt.plan, attempt.load, attempt.workspace.ledger
        seen = self._read_chunks(receipts)
        if not terms.accept_smaller:
            refuse_smaller(plan, load, ledger, receipts)
            if terms.continuity is not None and terms.continuity.begins:
                refuse_smaller_history(plan, attempt.workspace.lake, receipts)
        replacement = _replacement(attempt, chunk, receipts, self.reread)
        back = count_backward(plan, load, chunk, receipts, ledger, attempt.workspace.lake)
        receipts.extend(replacement.receipts)
        gone = list[ChunkReceipt]()
        if copying is not None:
            with_originals(attempt, chunk, copying, receipts)
            gone = tombstones_of_copy(attempt, chunk, copying, receipts)
            receipts.extend(gone)
        check_table_held(attempt.connection, plan, terms.continuity)
        receipt = receipt_of(plan, load, self.cut, receipts, replacement, seen, back)
        receipt = stamp_copy(receipt, copying, sum(one.committed for one in gone))
        receipt = stamp_receipt(receipt, load, plan, ledger, terms.continuity)
        is_delta = copying is not None and copying.is_delta
        snapshot = self.run.commit(
            receipt,
            {path: metrics for found in receipts for path, metrics in found.metrics},
            chunk.location,
            replaces=None if is_delta else replaced_by(plan, load.window),
            removes=replacement.removes,
            by=partial(self._commit, receipts),
        )
        return snapshot, receipt

    def _commit(self, receipts: Sequence[ChunkReceipt], commit: Commit) -> int | None:
        attempt, rows, copying, bounds = self.attempt, self.rows, self.copying, self.cut.bounds
        if rows is None:
            return commit_load(attempt.workspace.lake, commit)
        if copying is None or not copying.is_delta:
            return commit_proved(attempt, rows, commit, bounds, receipts)
        prove = partial(prove_delta, attempt, self.chunks[0], copying, rows)
        return commit_proved(attempt, rows, commit, bounds, receipts, prove)

    def _read_chunks(self, receipts: list[ChunkReceipt]) -> Progress:
        """Read the chunks that have no receipt yet, or carry them over; each receipt is added, and
        recorded, as it comes."""
        attempt, cut = self.attempt, self.cut
        workspace, plan, load = attempt.workspace, attempt.plan, attempt.load
        there = sum(receipt.rows for receipt in receipts)
        pace = Pace(plan.name, load.load_id, _expected(plan, cut), self.terms.progress, there)

        def waiting() -> list[ChunkPlan]:
            done = {receipt.number for receipt in receipts}
            return [chunk for chunk in self.chunks if chunk.number not in done]

        def record(found: ChunkReceipt) -> None:
            if cut.can_be_resumed:
                workspace.ledger.finish_chunk(load, found.number, receipt_to_json(found))
                failpoint("chunks.recorded")

        with Guard(plan.source, plan.table.database, plan.table.name, load.load_id) as guard:
            if self.carrying is not None:
                for found in carry_over(attempt, self.carrying, waiting(), pace, guard.heed):
                    receipts.append(found)
                    record(found)
            spark, left = workspace.spark, waiting()
            job_id = spark.application_id() if reads_on_spark(left, spark) else ""
            if job_id:
                workspace.ledger.record_job(load, job_id)
            source = SELECT if self.copying is None else CHANGED
            if plan.contract.by_count:
                source = PLACED
            for found in run_chunks(left, source, spark, pace, guard.heed, record):
                receipts.append(found)
        return pace.finish()


def _new_cut(
    attempt: Attempt,
    window: Window,
    terms: LoadTerms,
    basis: dict[str, str],
    carrying: Carrying | None,
) -> ChunkCut:
    """How a new load is cut into chunks; recorded where a later run may resume it."""
    workspace, plan = attempt.workspace, attempt.plan
    rows = CHUNK_ROWS if carrying is not None else _chunk_rows(plan, workspace.spark)
    cut = plan_cut(attempt.connection, plan, window, rows)
    cut = dataclasses.replace(
        cut,
        open_writes=terms.open_writes,
        clock_ahead=terms.clock_ahead,
        shown=terms.shown,
        log_place=terms.log_place,
    )
    if cut.can_be_resumed:
        workspace.ledger.plan_chunks(attempt.load, basis, start_of(cut), cut.bounds)
        failpoint("chunks.planned")
    return cut


def _expected(plan: ResolvedTable, cut: ChunkCut) -> int | None:
    """How many rows a load may bring; None for a window of which nothing is known before."""
    if cut.can_be_resumed:
        return min(plan.table.estimated_rows, len(cut.bounds) * ROWS_PER_CHUNK)
    return None if any(cut.bounds) else plan.table.estimated_rows


def _replacement(
    attempt: Attempt,
    chunk: ChunkPlan,
    receipts: Sequence[ChunkReceipt],
    reread: Reread | None,
) -> Replacement:
    """What a reload takes the place of, and where the keys went that had left its days; and the
    keys of a repair that are no more."""
    if reread is not None:
        return tombstones_of(attempt, chunk, reread, receipts)
    if attempt.load.window.kind != "reload":
        return NOTHING
    if attempt.plan.key:
        return replace_small_loads(attempt, chunk, receipts)
    refuse_fewer_rows(attempt, receipts)
    return NOTHING


def _chunk_rows(plan: ResolvedTable, spark: LazySpark) -> int:
    small = spark.is_worth_tasks() or batch_rows(plan) < BATCH_ROWS
    return ROWS_PER_CHUNK // 4 if small else ROWS_PER_CHUNK
