"""Loads that are proved before they are visible: written, compared with what MySQL said of the
states that were read, and only then published.

All are, unless ``verify`` is off. Where each row came with the server's hash of it, the chunk's
files were compared as they were written; what is left to see is that the commit has these very
files. Other loads are compared while they are staged, in a snapshot that the catalog does not know
yet: that takes one commit. What only Spark can compare is written to a branch.

What becomes of a run that dies on the way is decided by main alone: a load that main shows was
published, and is a success; a load that only a branch holds was not, and its branch is dropped by
the next run. A branch that did not stand its proof stays, to be looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pymysql.connections import Connection

from mirrorlake.destinations.base import Commit, Identifier
from mirrorlake.destinations.iceberg.commits.branches import (
    create_branch,
    drop_branch,
    publish_branch,
)
from mirrorlake.destinations.iceberg.commits.commit import (
    StagedCommit,
    commit_load,
    discard_staged,
    head_of,
    publish_staged,
    stage_load,
)
from mirrorlake.destinations.iceberg.commits.data_files import holds
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.metrics import rows_in
from mirrorlake.destinations.iceberg.model import LakeTable, changed_files
from mirrorlake.destinations.iceberg.spark.cost import counted
from mirrorlake.errors import CommitConflict, MirrorlakeError, NotProved
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Window
from mirrorlake.load.attempt import Attempt
from mirrorlake.load.chunks.receipt import ChunkReceipt
from mirrorlake.load.protocol.load_branches import branch_of, main_moved, same_loads
from mirrorlake.proof.comparing.load_proof import (
    SaidOfChunks,
    Unseen,
    equals_locally,
    find_differences,
    is_small,
    load_form,
    prove_loaded,
)
from mirrorlake.proof.forms.differences import Formatter
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.table.resolve import ResolvedTable

logger = logging.getLogger(__name__)

ProveDelta = Callable[[Tally, int | None], None]
"""Called with what MySQL said of all rows, and the branch's head."""
REBUILDS = 3
"""How often a branch is made again because main moved without any load."""


def is_verified(plan: ResolvedTable, window: Window) -> bool:
    """Whether a window's load is proved before it is visible.

    Not later windows of tables whose engine has no snapshots: rows that change while a window is
    read would have it refused, time after time.
    """
    whole = window.kind in ("full", "initial")
    return plan.contract.verify and (whole or plan.table.engine.lower() == "innodb")


def form_of_rows(connection: Connection[Any], plan: ResolvedTable, table: LakeTable) -> RowForm:
    """The form by which the rows of a raw table are digested.

    Raises:
        ProofError: there is none; nothing was read.
    """
    fields = {f.name: str(f.field_type).replace(" ", "") for f in table.schema().fields}
    return load_form(connection, plan.table, plan.contract, fields, ORIGINAL)


def commit_proved(
    attempt: Attempt,
    rows: RowForm,
    commit: Commit,
    bounds: Sequence[str],
    receipts: Sequence[ChunkReceipt],
    prove_delta: ProveDelta | None = None,
) -> int | None:
    """Commit a load to its branch, prove it, and publish it; main's new snapshot.

    Args:
        prove_delta: how a copy is proved that wrote what changed; raises what it likes, and the
            branch is dropped then.

    None if there was nothing to commit: MySQL has no row, and none is replaced.

    Raises:
        NotProved: the lake has other rows than MySQL said; main is untouched, the branch stays.
        CommitConflict: another load moved main; nothing is visible.
        LeaseHeld: another run took the table over; nothing is visible.
        LakeError: Spark, the catalog or the storage failed; nothing is visible.
    """
    workspace = attempt.workspace
    lake, raw, branch = workspace.lake, commit.identifier, branch_of(attempt.load)
    chunks = _chunks(bounds, receipts)
    if commit.parent is None and not commit.paths:
        _refuse_nothing(attempt, chunks)
        return None
    unseen = _unseen(attempt, rows, commit.parent or 0, chunks, receipts)
    parent, compared = commit.parent, False
    try:
        if prove_delta is None:
            done, shown = _commit_staged(attempt, unseen, commit, receipts)
            if done:
                return shown
            compared = True
    except CommitConflict:
        parent = same_loads(lake, raw, parent)
    for _ in range(REBUILDS):
        if head_of(lake, raw) != parent:
            raise main_moved(raw, parent)
        snapshot = _commit_to_branch(attempt, unseen, commit, parent, prove_delta, compared)
        workspace.check_lease()
        try:
            publish_branch(lake, raw, branch, parent)
        except CommitConflict:
            drop_branch(lake, raw, branch)
            parent = same_loads(lake, raw, parent)
            words = "table %s load %s: main moved, the branch is made again"
            logger.info(words, raw, attempt.load.load_id)
            continue
        return snapshot
    raise main_moved(raw, parent)


def _commit_to_branch(
    attempt: Attempt,
    unseen: Unseen,
    commit: Commit,
    parent: int | None,
    prove_delta: ProveDelta | None,
    compared: bool,
) -> int | None:
    """Commit a load to its branch, which begins at main's head, and prove it there; the branch's
    new snapshot, None where the load changed nothing.

    Raises:
        NotProved: the lake has other rows than MySQL said; the branch stays.
    """
    lake, raw, branch = attempt.workspace.lake, commit.identifier, branch_of(attempt.load)
    at = create_branch(lake, raw, branch, parent)
    failpoint("branch.made")
    snapshot = commit_load(lake, replace(commit, parent=at, branch=branch))
    failpoint("branch.committed")
    there = at if snapshot is None else snapshot
    if prove_delta is None:
        _prove(attempt, replace(unseen, snapshot=there), branch, compared=compared)
    else:
        with _dropped_if_not(lake, raw, branch):
            prove_delta(_sum(unseen.chunks), there)
    failpoint("branch.proved")
    return snapshot


def _refuse_nothing(attempt: Attempt, chunks: SaidOfChunks) -> None:
    """See that MySQL has no row where nothing was read.

    Raises:
        NotProved: it has some.
    """
    if any(tally.rows for _, tally in chunks.values()):
        pairs = {n: (tally, Tally(0, 0)) for n, (_, tally) in chunks.items()}
        raise _not_proved(attempt, "none", pairs, ())


def _commit_staged(
    attempt: Attempt, unseen: Unseen, commit: Commit, receipts: Sequence[ChunkReceipt]
) -> tuple[bool, int | None]:
    """Publish a load that is seen to be equal without Spark, and without a branch: whether that was
    done, and its snapshot.

    Raises:
        CommitConflict: main moved; nothing is visible.
        LeaseHeld: another run took the table over; nothing is visible.
        LakeError: the catalog or the storage failed; nothing is visible.
    """
    lake = attempt.workspace.lake
    proved = all(receipt.proved for receipt in receipts)
    if not proved and not (unseen.sums_suffice and is_small(unseen)):
        return False, None
    staged = stage_load(lake, commit)
    if staged is None:
        return not any(tally.rows for _, tally in unseen.chunks.values()), None
    failpoint("commit.staged")
    # What the read used and freed would stand beside what the proof takes.
    pa.default_memory_pool().release_unused()
    unseen = replace(unseen, snapshot=staged.snapshot)
    equal = (
        _has_files(lake, staged, receipts) if proved else equals_locally(lake, unseen, staged.table)
    )
    if not equal:
        discard_staged(lake, staged)
        return False, None
    failpoint("commit.proved")
    attempt.workspace.check_lease()
    return True, publish_staged(lake, staged)


def _has_files(lake: Lake, staged: StagedCommit, receipts: Sequence[ChunkReceipt]) -> bool:
    """Whether a commit adds the files that were compared with MySQL and no other, each with all of
    its rows, and each still there as it was written."""
    written = {path: metrics for receipt in receipts for path, metrics in receipt.metrics}
    rows = {path: rows_in(metrics) for path, metrics in written.items()}
    table = staged.table
    snapshot = table.snapshot_by_id(staged.snapshot)
    with lake.translated(staged.commit.identifier):
        changed = changed_files(table, snapshot) if snapshot is not None else ()
        added = [(file.file_path, file.record_count) for is_new, file in changed if is_new]
        if sorted(added) != sorted(rows.items()):
            return False
        schema = table.schema()
        return all(holds(table.io, path, metrics, schema) for path, metrics in written.items())


@contextmanager
def _dropped_if_not(lake: Lake, raw: Identifier, branch: str) -> Generator[None]:
    try:
        yield
    except BaseException:
        drop_branch(lake, raw, branch)
        raise


def _sum(chunks: SaidOfChunks) -> Tally:
    return sum((tally for _, tally in chunks.values()), NOTHING)


# --- proving --------------------------------------------------------------------------------------


def _chunks(
    bounds: Sequence[str], receipts: Sequence[ChunkReceipt]
) -> dict[int, tuple[str | None, Tally]]:
    return {
        # Rows that a reload looked up by their keys are beyond the window's own conditions.
        r.number: (
            bounds[r.number] if r.number < len(bounds) else None,
            Tally(r.source_rows or 0, r.source_digest or 0),
        )
        for r in receipts
    }


def _prove(attempt: Attempt, unseen: Unseen, branch: str, *, compared: bool) -> None:
    """See that a load on its branch is what MySQL said.

    Args:
        compared: whether its rows were compared without Spark already, and not seen to be equal.
    """
    plan, lake = attempt.plan, attempt.workspace.lake
    if not compared and equals_locally(lake, unseen, lake.load(plan.raw)):
        return
    spark = attempt.workspace.spark.get()
    with counted(spark) as scan:
        differing = prove_loaded(spark, unseen)
    attempt.workspace.ledger.record_cost(plan.name, "verify", attempt.load.seq, scan.bytes, 0)
    if not differing:
        return
    try:
        found = find_differences(attempt.connection, spark, unseen, list(differing))
    except MirrorlakeError as error:
        # The verdict stands: only its rows could not be looked at.
        logger.warning("table %s: rows that differ could not be read: %s", plan.name, error)
        found = []
    # Values of columns with a rule are not shown, nor those of columns that nobody decided on.
    formatter = Formatter(plan.clean_rules, None)
    lines = [line for difference in found for line in formatter.lines(difference)]
    raise _not_proved(attempt, branch, differing, lines)


def _unseen(
    attempt: Attempt,
    rows: RowForm,
    snapshot: int,
    chunks: SaidOfChunks,
    receipts: Sequence[ChunkReceipt],
) -> Unseen:
    plan = attempt.plan
    return Unseen(
        contract=plan.contract,
        source=plan.source,
        table=plan.table,
        identifier=plan.raw,
        snapshot=snapshot,
        load=attempt.load,
        rows=rows,
        chunks=chunks,
        keys={r.number: r.source_keys for r in receipts if r.source_keys is not None},
        sums_suffice=all(r.proved or r.source_keys is None for r in receipts),
    )


def _not_proved(
    attempt: Attempt,
    branch: str,
    differing: Mapping[int, tuple[Tally, Tally]],
    lines: Sequence[str],
) -> NotProved:
    plan = attempt.plan
    ours = sum(source.rows for source, _ in differing.values())
    theirs = sum(lake.rows for _, lake in differing.values())
    moving = "" if plan.table.engine.lower() == "innodb" else _no_snapshots(plan)
    return NotProved(
        f"table {plan.name}: load {attempt.load.load_id} is not what MySQL said it would be: "
        f"{len(differing)} of its chunks differ, with {plural(ours, 'row')} in MySQL and "
        f"{theirs} in the "
        f"lake{moving}",
        table=plan.name,
        next_step=f"Nothing of it is visible; it stays on branch {branch} of {plan.raw} for a day. "
        "Look there, then sync again, and report it if it stays",
        branch=branch,
        differences=tuple(lines),
    )


def _no_snapshots(plan: ResolvedTable) -> str:
    return f" ({plan.table.engine} has no snapshots: rows may have changed before they were read)"
