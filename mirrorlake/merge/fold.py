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
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.commit import FOLDED, folded_through, was_overtaken
from mirrorlake.destinations.iceberg.copied_files import CopiedFiles, copy_rows
from mirrorlake.destinations.iceberg.cost import Scan, counted, written_since
from mirrorlake.destinations.iceberg.durable import flush_commits
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable
from mirrorlake.destinations.iceberg.session_settings import activate
from mirrorlake.destinations.iceberg.spark_errors import spark_errors
from mirrorlake.destinations.iceberg.statistics import most_rows
from mirrorlake.destinations.iceberg.tables import (
    TARGET_BYTES,
    current_schema,
    drop_column,
    ensure_current_table,
    stage_current_table,
)
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger, Load
from mirrorlake.load.raw_files import refuse_damaged
from mirrorlake.merge.compaction import compact_if_due
from mirrorlake.merge.conversions import spark_type
from mirrorlake.merge.copied_load import copied_load
from mirrorlake.merge.current_rows import read_changes
from mirrorlake.merge.pruning import Bounds, bounds_of, bounds_sql, edges_of, may_prune
from mirrorlake.merge.ranks import GONE
from mirrorlake.merge.reshape import (
    has_new_rules,
    is_made_otherwise,
    next_layer,
    next_names,
    record_as_made,
    reshape_layer,
)
from mirrorlake.merge.staging import branch_sql, drop_stale, new_branch
from mirrorlake.merge.statements import Layer, merge_sql, replace_sql
from mirrorlake.schema.own_columns import DELETED_AT
from mirrorlake.schema.versions import FIRST_CREATED
from mirrorlake.table.chains import chain_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

LISTED = 200_000
"""Up to this many rows, the changed keys are brought here to be bounded."""
KNOWN_LOADS, KNOWN_ROWS = 8, 20_000
"""How far back loads are read for what the layer holds: at most this many, and this many rows, or
four times those that are folded."""
SMALL_COPY = 20_000
"""A full copy of up to this many rows replaces the layer's rows; a larger one is merged."""
ROWS_A_TASK = 50_000
"""One task writes this many changed rows: each makes a file of rows, and one of deletes per
file that it meets."""


@dataclass(frozen=True)
class Todo:
    """What a fold of one layer applies.

    Attributes:
        loads: those whose rows, latest per key, must be applied.
        held: the numbers of the loads that the layer then holds.
        known: the loads right before these, which show what the layer holds of a key.
        windows: whether all are small windows, after all that the layer holds.
        again: whether all loads are folded again.
        repairs: whether a repair is among them: what the layer holds of these keys is not trusted.
        delta: whether these are copies that wrote what changed since what the layer holds.
    """

    loads: tuple[Load, ...] = ()
    held: tuple[int, ...] = ()
    known: tuple[Load, ...] = ()
    windows: bool = False
    again: bool = False
    repairs: bool = False
    delta: bool = False

    @property
    def rows(self) -> int:
        return sum(load.receipt.committed if load.receipt else LISTED for load in self.loads)


def fold_layer(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, compared: set[str]
) -> tuple[int, ...]:
    """Bring one layer up to every successful load; the sequence numbers of the loads that it did
    not hold before. Nothing to do costs no Spark.

    Args:
        workspace: with the table's lease.
        compared: names of raw's files whose bytes were compared with what their loads recorded;
            those that this fold compares are added.

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
    todo = plan_fold(plan, set() if fresh else before, empty, workspace.ledger)
    if todo.delta and not _shows_chain(workspace, plan, table, before):
        logger.warning(
            "table %s: %s is not as it was folded: it is compared with the whole copy",
            *(plan.name, layer.name),
        )
        todo = plan_fold(plan, set(), empty, workspace.ledger)
    if not todo.held:
        return ()
    at = head.snapshot_id if head else None
    apply = partial(_apply, workspace, plan, layer, todo, at, retyped, fresh=empty or fresh)
    _carry_out(workspace, plan, layer, todo, at, compared, apply, fresh=fresh)
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
    todo = plan_fold(plan, set(), True, workspace.ledger)
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
    apply = partial(_copy, workspace, layer, files, todo, None)
    _carry_out(workspace, plan, layer, todo, None, compared, apply, fresh=True)
    return tuple(seq for seq in todo.held if seq not in before)


def _carry_out(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    at: int | None,
    compared: set[str],
    apply: Callable[[], Scan],
    *,
    fresh: bool,
) -> None:
    """Apply what a layer needs, and record it.

    Args:
        at: the layer's version before.
        fresh: whether the layer is written as a whole.
    """
    _refuse_damaged(workspace, plan, todo, compared)
    failpoint("fold.before")
    begun = time.monotonic()
    scan = apply() if todo.loads else Scan()
    failpoint("fold.committed")
    ledger, name, compacts = workspace.ledger, layer.name, bool(todo.loads) and at is not None
    ledger.together(
        lambda: ledger.record_folds(plan.name, name, todo.held, workspace.run_id),
        *([lambda: record_as_made(workspace, plan, layer)] if fresh else []),
        *([] if compacts else [_cost(workspace, plan, layer, todo, scan, at, begun)]),
    )
    failpoint("fold.recorded")
    if compacts:
        compact_if_due(workspace.spark.get, workspace.lake, layer.identifier)
        _cost(workspace, plan, layer, todo, scan, at, begun)()


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


def _shows_chain(
    workspace: Workspace, plan: ResolvedTable, table: LakeTable, folded: set[int]
) -> bool:
    """Whether a layer shows what was folded into it of a chain of copies: nobody wrote to it since,
    or set it back. A copy's fold that wrote nothing can't be told from one that was undone."""
    chain = chain_of(workspace.ledger.successful_loads(plan.name))
    committed = [load.seq for load in chain if load.seq in folded and load.snapshot_id is not None]
    with workspace.lake.translated(plan.name):
        through = folded_through(table)
    return through is not None and through >= max(committed, default=0)


def _refuse_damaged(
    workspace: Workspace, plan: ResolvedTable, todo: Todo, compared: set[str]
) -> None:
    """See that what is folded is what was loaded: nothing that rotted gets into a layer."""
    parts = (workspace.lake, workspace.ledger, plan.contract)
    refuse_damaged(*parts, (*todo.loads, *todo.known), compared)


def folds_by_spark(workspace: Workspace, plan: ResolvedTable) -> bool:
    """Whether Spark is expected to fold what is loaded next: it may be started meanwhile. Where it
    turns out to be otherwise, it starts when it is needed, or for nothing.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    if plan.entity is not None or (plan.contract.clean == "table" and plan.clean_rules):
        return True
    table = workspace.lake.load(plan.deduped)
    filled = table is not None and table.current_snapshot() is not None
    replaced = plan.contract.copies and plan.table.estimated_rows <= SMALL_COPY
    return filled and not replaced


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
    days_of = FIRST_CREATED if plan.entity else None
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


def _apply(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    at: int | None,
    retyped: Sequence[str],
    *,
    fresh: bool,
) -> Scan:
    """Write what these loads observed, and have it on the disk; what was read for it."""
    if retyped or has_new_rules(workspace, layer):
        return replace_layer(workspace, plan, layer, todo, retyped)
    whole = fresh or not plan.key or (todo.again and todo.repairs)
    # A MERGE compares every row with a copy's, to write only what changed: of few rows, writing
    # them all is a third of its work.
    copied = plan.contract.replaces_all and not todo.delta
    if whole or (copied and todo.rows <= SMALL_COPY):
        alone = todo.loads[0] if len(todo.loads) == 1 else None
        files = copied_load(workspace, plan, layer, alone) if alone is not None else None
        if files is not None:
            return _copy(workspace, layer, files, todo, at)
        target = OverwriteTarget(layer.identifier.sql, at)
        scan = overwrite(workspace, plan, layer, todo, target)
        flush_commits(workspace.lake.load(layer.identifier), at)
        return scan
    # A MERGE reads of the layer what may hold the changed keys: of a large one, many rows.
    table = workspace.lake.load(layer.identifier)
    there = most_rows(table) if table is not None else None
    with (
        spark_errors(plan.name),
        workspace.spark.suited_to(todo.rows + (LISTED if there is None else there)) as spark,
        counted(spark) as scan,
    ):
        changes = read_changes(workspace, plan, layer, todo.loads, todo.known)
        _merge(workspace, plan, layer, changes, todo)
    flush_commits(workspace.lake.load(layer.identifier), at)
    return scan


def _copy(
    workspace: Workspace, layer: Layer, files: CopiedFiles, todo: Todo, at: int | None
) -> Scan:
    workspace.check_lease()
    through = {FOLDED: str(max(todo.held))}
    return Scan(copy_rows(workspace.lake, files, layer.identifier, at, through))


def plan_fold(plan: ResolvedTable, folded: set[int], empty: bool, ledger: Ledger) -> Todo:
    """What a layer that holds these loads (and has a snapshot, or none) needs."""
    loads = ledger.successful_loads(plan.name)
    missing = [load for load in loads if load.seq not in folded]
    if not missing and not (empty and any(load.snapshot_id for load in loads)):
        return Todo()
    held = tuple(load.seq for load in loads)
    repairs = any(load.window.kind == "repair" for load in missing)
    if plan.contract.copies:
        return _plan_copies(loads, folded, held, empty=empty)
    late = bool(folded) and bool(missing) and missing[0].seq < max(folded)
    if empty or late or not folded or not plan.key:
        return Todo(tuple(loads), held, again=True, repairs=repairs)
    # A load without rows committed nothing and has nothing to apply.
    new = tuple(load for load in missing if load.snapshot_id is not None)
    windows = all(load.window.kind == "live" for load in new)
    known = _known(new, [load for load in loads if load.seq in folded]) if windows else ()
    return Todo(new, held, known, windows, repairs=repairs)


def _plan_copies(
    loads: list[Load], folded: set[int], held: tuple[int, ...], *, empty: bool
) -> Todo:
    """What a layer needs of full copies: the newest complete one and what stands on it; or, where
    it holds the rows of one of these, what came after that."""
    chain = chain_of(loads)
    seqs = [load.seq for load in chain]
    newest = max(folded, default=0)
    # A copy that found nothing changed committed nothing; a complete one of an empty table may not
    # have either, and empties the layer.
    if empty or newest not in seqs or not folded.issuperset(seqs[: seqs.index(newest) + 1]):
        deltas = (load for load in chain[1:] if load.snapshot_id is not None)
        return Todo((*chain[:1], *deltas), held)
    new = chain[seqs.index(newest) + 1 :]
    return Todo(tuple(load for load in new if load.snapshot_id is not None), held, delta=True)


def _known(new: tuple[Load, ...], before: list[Load]) -> tuple[Load, ...]:
    """The newest loads that the layer holds, without a gap, back to a small window, if that is
    cheap to read: each begins no later than the next one, and so read what that one reads again.

    Only beside small windows: a reload takes older loads' rows out of raw, and what is left of a
    key there need not be what the layer holds.
    """
    rows = 4 * sum(load.receipt.rows for load in new if load.receipt) + KNOWN_ROWS
    known: tuple[Load, ...] = ()
    for load in reversed(before):
        if load.snapshot_id is None:
            continue
        if load.receipt is None or load.receipt.rows > rows or len(known) == KNOWN_LOADS:
            return known
        rows -= load.receipt.rows
        known = (load, *known)
        if load.window.kind == "live":
            return known
    return known


@dataclass(frozen=True)
class OverwriteTarget:
    """Where a layer is written as a whole: a table or a branch as Spark takes it, its head when
    that was begun, and properties of the snapshot."""

    sql: str
    after: int | None
    properties: tuple[tuple[str, str], ...] = ()


def overwrite(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, todo: Todo, target: OverwriteTarget
) -> Scan:
    """Write a layer from these loads alone, whatever it holds, in one commit; what was read.

    It is written in files of moderate size, each of a range of keys of its own. One load's files
    are so already, as its chunks were: only rows of several loads are sorted.
    """
    from pyspark.sql import functions as f

    with (
        spark_errors(plan.name),
        workspace.spark.suited_to(todo.rows) as spark,
        counted(spark) as scan,
    ):
        changes = read_changes(workspace, plan, layer, todo.loads, todo.known)
        rows = changes.where(f"NOT {GONE}").drop(GONE)
        size = sum(load.receipt.bytes if load.receipt else TARGET_BYTES for load in todo.loads)
        files = max(1, round(size / TARGET_BYTES))
        several = len(todo.loads) > 1 and bool(plan.key)
        if several and files > 1:
            key = (plan.key[0], *next_names(plan.key).values())
            first = next(name for name in rows.columns if name in key)
            rows = rows.repartitionByRange(files, f.col(as_sql_identifier(first)))
        activate(rows.sparkSession)
        writer = rows.writeTo(target.sql)
        writer = writer.option("use-table-distribution-and-ordering", str(several).lower())
        for name, value in ((FOLDED, str(max(todo.held))), *target.properties):
            writer = writer.option(f"snapshot-property.{name}", value)
        # Whatever was committed since this fold looked is a conflict: it may be newer.
        writer = writer.option("isolation-level", "serializable")
        if target.after is not None:
            writer = writer.option("validate-from-snapshot-id", target.after)
        workspace.check_lease()
        writer.overwrite(f.lit(True))
    return scan


def replace_layer(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    retyped: Sequence[str],
    properties: tuple[tuple[str, str], ...] = (),
) -> Scan:
    """Write a layer from these loads alone on a branch that begins with nothing, so that nothing of
    main is read, and show it on main in one commit; what was read.

    Args:
        retyped: columns whose type can't become the one of now: they are written under other names,
            which `ensure_layer` made, and take their own in that commit.
        properties: of the branch's snapshot.
    """
    lake, identifier = workspace.lake, layer.identifier
    drop_stale(lake, identifier)
    head, branch = lake.head(identifier), new_branch()
    start = lake.begin_branch(identifier, branch)
    failpoint("refold.begun")
    target = OverwriteTarget(branch_sql(identifier, branch), start, properties)
    scan = overwrite(workspace, plan, next_layer(layer, retyped), todo, target)
    failpoint("refold.written")
    flush_commits(lake.load(identifier), head, branch)
    workspace.check_lease()
    lake.replace_main(identifier, branch, head, next_names(retyped))
    failpoint("refold.shown")
    lake.drop_branch(identifier, branch)
    return scan


def _merge(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    changes: DataFrame,
    todo: Todo,
) -> None:
    """One commit, or none where nothing changed.

    Of several loads there is always one: without, a stalled run that had begun to fold the first
    of them would meet no conflict.

    Of a small window the loads before it show which rows are equal already, and a copy that wrote
    what changed has no others: the layer's own rows need not be read for them, only its keys are.
    """
    types = {name: spark_type(kind) for name, kind, _ in layer.columns}
    key = [(name, types[name]) for name in plan.key]
    bounded = (todo.delta or not plan.contract.copies) and not todo.again
    bounded = bounded and may_prune([kind for _, kind in key])
    listed = bounded and todo.rows <= LISTED
    if listed:
        changes = changes.persist()
    try:
        bounds = None
        if bounded:
            table = workspace.lake.load(layer.identifier)
            with workspace.lake.translated(layer.identifier):
                edges = edges_of(table, plan.key[0]) if table is not None else None
            bounds = bounds_of(changes, plan.key, listed=listed, edges=edges)
        if bounds is None or not bounds.empty or len(todo.loads) > 1:
            workspace.check_lease()
            statement = _merge_statement(plan, layer, bounds, key, todo)
            tasks = 1 + todo.rows // ROWS_A_TASK
            rows = changes.coalesce(tasks) if listed else changes
            if plan.contract.write_mode == "copy-on-write":
                # Spark 4.1 looks for the files to write again by a query of its own over these
                # rows, and has no plan for it where they are read from a table of the lake.
                rows = rows.localCheckpoint()
            _run_merge(workspace.spark.get(), rows, statement, max(todo.held))
    finally:
        if listed:
            changes.unpersist()


def _merge_statement(
    plan: ResolvedTable, layer: Layer, bounds: Bounds | None, key: list[tuple[str, str]], todo: Todo
) -> str:
    condition = bounds_sql(bounds, key) if bounds else ""
    if todo.repairs:
        return replace_sql(plan, layer, condition)
    compares = not (todo.windows or todo.delta) or plan.entity is not None
    whole = plan.contract.copies and not todo.delta
    return merge_sql(plan, layer, condition, compares=compares, whole=whole)


def _run_merge(spark: SparkSession, changes: DataFrame, statement: str, through: int) -> None:
    changes.createOrReplaceTempView("mirror_changes")
    setting = f"spark.sql.iceberg.snapshot-property.{FOLDED}"
    spark.conf.set(setting, str(through))
    try:
        spark.sql(statement)
    finally:
        spark.conf.unset(setting)
        spark.catalog.dropTempView("mirror_changes")
