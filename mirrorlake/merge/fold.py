"""The fold: raw row versions → one current row per key, in deduped and in clean.

A later observation of a key wins: loads carry a sequence number that the ledger gave out before
they read, under the table's lease, so numbers and observations have one order. A fold takes the
loads that its layer does not hold yet; where one of them is older than what the layer holds, or the
layer is empty, it takes all loads. Either way the result is what a fold of all loads in order
gives, and doing it again changes nothing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mirrorlake.destinations.base import MAIN, Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED, folded_through, was_overtaken
from mirrorlake.destinations.iceberg.commits.copied_files import CopiedFiles, copy_rows
from mirrorlake.destinations.iceberg.commits.rewritten_rows import rewrite_rows
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion
from mirrorlake.destinations.iceberg.metadata.statistics import most_rows
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable
from mirrorlake.destinations.iceberg.spark.cost import Scan, counted, written_since
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import (
    drop_column,
    ensure_current_table,
    stage_current_table,
)
from mirrorlake.failpoints import failpoint
from mirrorlake.load.raw.raw_files import refuse_damaged
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.copied_load import copied_load
from mirrorlake.merge.counted_rows import add_counted, miscounts_marked
from mirrorlake.merge.current_rows import read_changes, read_images
from mirrorlake.merge.fold_plan import LISTED, Todo, plan_fold
from mirrorlake.merge.merge_changes import merge_changes
from mirrorlake.merge.overwrite import (
    OverwriteTarget,
    overwrite,
    replace_layer,
    stage_replaced,
)
from mirrorlake.merge.reshape import (
    has_new_rules,
    is_made_otherwise,
    next_layer,
    next_names,
    record_as_made,
    reshape_layer,
    show_columns,
)
from mirrorlake.merge.small_fold import SMALL_COPY, SmallFold, small_fold
from mirrorlake.merge.staging import StagedLayers, branch_sql, drop_stale, new_branch, on_our_clock
from mirrorlake.merge.statements import Layer
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.schema.versions import FIRST_CREATED
from mirrorlake.table.chains import chain_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def fold_layer(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    compared: set[str],
    staged: StagedLayers | None = None,
) -> tuple[int, ...]:
    """Bring one layer up to every successful load; the sequence numbers of the loads that it did
    not hold before. Nothing to do costs no Spark.

    Args:
        workspace: with the table's lease.
        compared: names of raw's files whose bytes were compared with what their loads recorded;
            those that this fold compares are added.
        staged: gets what is written, and what is to be done once it is shown: main is left as it
            is. None: it is shown at once.

    Raises:
        LakeError: Spark, the catalog or the storage failed; the layer is as it was, or folded.
        LeaseHeld: another run took the table over; this one writes nothing more.
    """
    retyped = reshape_layer(workspace, plan, layer)
    table = ensure_layer(workspace, plan, next_layer(layer, retyped))
    fresh = bool(retyped) or is_made_otherwise(workspace, plan, layer, table)
    if fresh and not layer.flags:
        table = drop_column(workspace.lake, layer.identifier, DELETED_AT)
    head = table.current_snapshot()
    empty = head is None
    start = workspace.ledger.history_start(plan.name)
    before = {n for n in workspace.ledger.folded_loads(plan.name, layer.name) if n >= start}
    # What it holds may be of an earlier history, whose rows mean something else.
    fresh = fresh or (start > 0 and not before)
    if was_overtaken(table):
        logger.warning(
            "table %s: a stalled fold wrote over %s: folded again", plan.name, layer.name
        )
        before = set()
    todo = _plan(workspace, plan, set() if fresh else before, empty=empty)
    builds = todo.delta or (plan.contract.by_count and not todo.again)
    if builds and todo.held and not _shows_folded(workspace, plan, table, before):
        logger.warning(
            "table %s: %s is not as it was folded: all of it is", *(plan.name, layer.name)
        )
        todo = _plan(workspace, plan, set(), empty=empty)
    if not todo.held:
        return ()
    at = head.snapshot_id if head else None
    whole = empty or fresh
    apply: Callable[[], Scan | None] = Scan
    if todo.loads:
        apply = partial(_apply, workspace, plan, layer, todo, at, retyped, staged, fresh=whole)
    elif head is not None and head.schema_id != table.metadata.current_schema_id:
        apply = partial(show_columns, workspace, layer, max(todo.held), at, staged)
    _carry_out(workspace, plan, layer, todo, at, compared, apply, staged, fresh=fresh)
    return tuple(seq for seq in todo.held if seq not in before)


def fold_into_new(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, compared: set[str]
) -> tuple[int, ...] | None:
    """`fold_layer` of a layer that is not there, whose rows are one load's: made of copies of the
    load's files in the one commit that shows it. None where it is to be folded otherwise; nothing
    was written then.

    Raises:
        LakeError: the catalog or the storage failed; there is no layer, or it is folded.
        LeaseHeld: another run took the table over; this one writes nothing more.
    """
    todo = _plan(workspace, plan, set(), empty=True)
    raw = workspace.lake.load(plan.raw) if len(todo.loads) == 1 else None
    if raw is None or plan.entity is not None:
        return None
    schema = current_schema(layer.stored, layer.original is not None)
    parts = (schema, plan.key, plan.contract.write_mode, raw.schema())
    creation = stage_current_table(workspace.lake, layer.identifier, *parts)
    files = copied_load(workspace, plan, layer, todo.loads[0], creation) if creation else None
    if files is None:
        return None
    before = workspace.ledger.folded_loads(plan.name, layer.name)
    apply = partial(_copy, workspace, layer, files, todo, _Target(layer.identifier.sql, None))
    _carry_out(workspace, plan, layer, todo, None, compared, apply, None, fresh=True)
    return tuple(seq for seq in todo.held if seq not in before)


def _plan(workspace: Workspace, plan: ResolvedTable, folded: set[int], *, empty: bool) -> Todo:
    with miscounts_marked(workspace.ledger, plan):
        return plan_fold(plan, folded, empty, workspace.ledger)


def _carry_out(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    at: int | None,
    compared: set[str],
    apply: Callable[[], Scan | None],
    staged: StagedLayers | None,
    *,
    fresh: bool,
) -> None:
    """Apply what a layer needs, and record it once it is shown.

    Args:
        at: the layer's version before.
        fresh: whether the layer is written as a whole.
    """
    _refuse_damaged(workspace, plan, todo, compared)
    failpoint("fold.before")
    begun = time.monotonic()
    scan = apply() or Scan()
    failpoint("fold.committed")
    ledger, name, compacts = workspace.ledger, layer.name, bool(todo.loads) and at is not None
    cost = partial(_cost, workspace, plan, layer, todo, scan, at, begun)

    def records() -> list[Callable[[], object]]:
        # One that is to take another's name is recorded once it has it.
        shown = layer.identifier in (plan.deduped, plan.clean)
        return [
            lambda: ledger.record_folds(plan.name, name, todo.held, workspace.run_id),
            *([workspace.left(plan.name, name, layer.identifier)] if shown else []),
            *([lambda: record_as_made(workspace, plan, layer)] if fresh else []),
            *([] if compacts else [cost()]),
        ]

    def finish() -> None:
        failpoint("fold.recorded")
        if compacts:
            compact_if_due(workspace.spark.get, workspace.lake, layer.identifier)
            cost()()

    if staged is not None:
        staged.records.append(records)
        staged.after.append(finish)
        return
    ledger.together(*records())
    finish()


def _cost(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    scan: Scan,
    at: int | None,
    begun: float,
) -> Callable[[], None]:
    """What records what a fold read, what it wrote since the snapshot before it, and how long it
    took so far."""
    if not todo.loads:
        return lambda: None
    written = written_since(workspace.lake.load(layer.identifier), at)
    seq, seconds = max(load.seq for load in todo.loads), round(time.monotonic() - begun, 3)
    parts = (plan.name, layer.name, seq, scan.bytes, written, seconds)
    return partial(workspace.ledger.record_cost, *parts)


def _shows_folded(
    workspace: Workspace, plan: ResolvedTable, table: LakeTable, folded: set[int]
) -> bool:
    """Whether a layer shows what was folded into it of a chain of copies, or of a log's loads:
    nobody wrote to it since, or set it back. A fold that wrote nothing can't be told from one that
    was undone. Rows that are counted are not counted twice: no fold was shown and not recorded."""
    loads = workspace.ledger.successful_loads(plan.name)
    chain = chain_of(loads) if plan.contract.copies else loads
    committed = [load.seq for load in chain if load.seq in folded and load.snapshot_id is not None]
    with workspace.lake.translated(plan.name):
        through = folded_through(table)
    if through is None or through < max(committed, default=0):
        return False
    return plan.contract.copies or through <= max(folded, default=0)


def _refuse_damaged(
    workspace: Workspace, plan: ResolvedTable, todo: Todo, compared: set[str]
) -> None:
    """See that what is folded is what was loaded: nothing that rotted gets into a layer."""
    parts = (workspace.lake, workspace.ledger, plan.contract)
    refuse_damaged(*parts, (*todo.loads, *todo.known), compared)


def ensure_layer(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, location: str | None = None
) -> LakeTable:
    """The layer's table, made if it isn't there, with what it lacks added.

    Args:
        location: where a new table's files go; by its name if not given.

    Raises:
        LakeError: a column of it has another type than requested.
    """
    schema = current_schema(layer.stored, layer.original is not None)
    # Not while it is written under another name: the next fold lays out by it.
    days_of = FIRST_CREATED if plan.entity and FIRST_CREATED in layer.names else None
    beside = next_names(plan.key)
    key = [name if name in layer.names else beside[name] for name in plan.key]
    mode = plan.contract.write_mode
    return ensure_current_table(
        *(workspace.lake, layer.identifier, schema, key, days_of, location, mode),
        like=partial(_schema_of, workspace, plan.raw),
    )


def _schema_of(workspace: Workspace, identifier: Identifier) -> LakeSchema | None:
    table = workspace.lake.load(identifier)
    return table.schema() if table is not None else None


@dataclass(frozen=True)
class _Target:
    """Where a fold writes: a layer's main, or a branch that begins where main is.

    Attributes:
        sql: as Spark takes it.
        at: its head.
    """

    sql: str
    at: int | None
    branch: str = MAIN


def _apply(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    at: int | None,
    retyped: Sequence[str],
    staged: StagedLayers | None,
    *,
    fresh: bool,
) -> Scan:
    """Write what these loads observed, and have it on the disk; what was read for it."""
    on_our_clock(workspace.lake, layer.identifier, workspace.lake.load(layer.identifier))
    if retyped or has_new_rules(workspace, layer):
        if staged is None:
            return replace_layer(workspace, plan, layer, todo, retyped)
        scan, version = stage_replaced(workspace, plan, layer, todo, retyped)
        staged.versions.append(version)
        return scan
    # A branch is shown only if main has not moved: rows that were counted by what main showed then
    # are added to that, and to nothing else.
    adds = plan.contract.by_count and not fresh and not todo.again
    if staged is None and not adds:
        return _write(workspace, plan, layer, todo, _Target(layer.identifier.sql, at), fresh=fresh)
    lake, branch = workspace.lake, new_branch()
    drop_stale(lake, layer.identifier)
    start = lake.create_branch(layer.identifier, branch, at)
    target = _Target(branch_sql(layer.identifier, branch), start, branch)
    scan = _write(workspace, plan, layer, todo, target, fresh=fresh)
    changed = lake.branches(layer.identifier)[branch] != start
    if changed and staged is not None:
        staged.versions.append(StagedVersion(layer.identifier, branch, at))
        return scan
    if changed:
        failpoint("fold.counted")
        workspace.check_lease()
        lake.replace_main(layer.identifier, branch, at)
        failpoint("fold.shown")
    lake.drop_branch(layer.identifier, branch)
    return scan


def _write(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    target: _Target,
    *,
    fresh: bool,
) -> Scan:
    counts = plan.contract.by_count
    whole = fresh or (todo.again and (counts or todo.repairs)) or not (plan.key or counts)
    # A MERGE compares every row with a copy's, to write only what changed: of few rows, writing
    # them all is a third of its work.
    copied = plan.contract.replaces_all and not todo.delta
    whole = whole or (copied and todo.rows <= SMALL_COPY)
    if todo.alone is not None and (whole or (copied and todo.most_changed)):
        files = copied_load(workspace, plan, layer, todo.alone)
        if files is not None:
            return _copy(workspace, layer, files, todo, target)
    # A copy of all rows says by what it lacks that it is gone.
    alone = whole or copied
    small = small_fold(workspace, plan, layer, todo, whole=alone) if plan.key else None
    if small is not None:
        return _rewrite(workspace, layer, small, todo, target)
    if whole:
        overwritten = OverwriteTarget(target.sql, target.at)
        scan = overwrite(workspace, plan, layer, todo, overwritten)
        flush_commits(workspace.lake.load(layer.identifier), target.at, target.branch)
        return scan
    # A MERGE reads of the layer what may hold the changed keys: of a large one, many rows.
    table = workspace.lake.load(layer.identifier)
    there = most_rows(table) if table is not None else None
    with (
        miscounts_marked(workspace.ledger, plan),
        spark_errors(plan.name),
        workspace.spark.suited_to(todo.rows + (LISTED if there is None else there)) as spark,
        counted(spark) as scan,
    ):
        if counts:
            images = read_images(workspace, plan, layer, todo.loads)
            add_counted(workspace, layer, images, todo, target.sql)
        else:
            changes = read_changes(workspace, plan, layer, todo.loads, todo.known)
            merge_changes(workspace, plan, layer, changes, todo, target.sql)
    flush_commits(workspace.lake.load(layer.identifier), target.at, target.branch)
    return scan


def _rewrite(
    workspace: Workspace, layer: Layer, small: SmallFold, todo: Todo, target: _Target
) -> Scan:
    if not small.same:
        workspace.check_lease()
        through = {FOLDED: str(max(todo.held))}
        parts = (small.held, small.rows, layer.identifier, target.at, through)
        rewrite_rows(workspace.lake, *parts, target.branch)
    return Scan(small.read)


def _copy(
    workspace: Workspace, layer: Layer, files: CopiedFiles, todo: Todo, target: _Target
) -> Scan:
    workspace.check_lease()
    through, parts = {FOLDED: str(max(todo.held))}, (layer.identifier, target.at)
    return Scan(copy_rows(workspace.lake, files, *parts, through, target.branch))
