"""A layer written as a whole from loads, whatever it holds: in place, or on a branch that is shown.

What belongs here: these two ways of writing. What doesn't: when a layer is written so
(`mirrorlake.merge.fold`, `mirrorlake.operations.repairing.refold`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion
from mirrorlake.destinations.iceberg.spark.cost import Scan, counted
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.settings import activate
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.destinations.iceberg.tables.tables import TARGET_BYTES
from mirrorlake.failpoints import failpoint
from mirrorlake.merge.counted_rows import miscounts_marked
from mirrorlake.merge.current_rows import read_changes
from mirrorlake.merge.fold_plan import Todo
from mirrorlake.merge.reshape import next_layer, next_names
from mirrorlake.merge.row_sql.ranks import GONE
from mirrorlake.merge.staging import branch_sql, drop_stale, new_branch
from mirrorlake.merge.statements import Layer
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


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
    with (
        miscounts_marked(workspace.ledger, plan),
        spark_errors(plan.name),
        workspace.spark.suited_to(todo.rows) as spark,
        counted(spark) as scan,
    ):
        # Not before: another thread may be importing it (`import_pyspark`).
        from pyspark.sql import functions as f

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
    scan, staged = stage_replaced(workspace, plan, layer, todo, retyped, properties)
    workspace.check_lease()
    lake.replace_main(identifier, staged.branch, staged.expected, staged.columns)
    failpoint("refold.shown")
    lake.drop_branch(identifier, staged.branch)
    return scan


def stage_replaced(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    todo: Todo,
    retyped: Sequence[str],
    properties: tuple[tuple[str, str], ...] = (),
) -> tuple[Scan, StagedVersion]:
    """`replace_layer`, but for the commit that shows it; what was read, and what is to be shown."""
    lake, identifier = workspace.lake, layer.identifier
    drop_stale(lake, identifier)
    head, branch = lake.head(identifier), new_branch()
    start = lake.begin_branch(identifier, branch)
    failpoint("refold.begun")
    target = OverwriteTarget(branch_sql(identifier, branch), start, properties)
    scan = overwrite(workspace, plan, next_layer(layer, retyped), todo, target)
    failpoint("refold.written")
    flush_commits(lake.load(identifier), head, branch)
    return scan, StagedVersion(identifier, branch, head, next_names(retyped))
