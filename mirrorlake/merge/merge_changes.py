"""Changed rows merged into a layer by Spark, in one commit, reading as little of it as may be.

What belongs here: the bounds, the statement, and running it. What doesn't: which rows changed
(`mirrorlake.merge.current_rows`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.merge.fold_plan import LISTED, Todo
from mirrorlake.merge.pruning import Bounds, bounds_of, bounds_sql, edges_of, may_prune
from mirrorlake.merge.row_sql.conversions import spark_type
from mirrorlake.merge.statements import Layer, merge_sql, replace_sql
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ROWS_A_TASK = 50_000
"""One task writes this many changed rows: each makes a file of rows, and one of deletes per
file that it meets."""


def merge_changes(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    changes: DataFrame,
    todo: Todo,
    target: str,
) -> None:
    """One commit to ``target`` (the layer's table, or a branch of it that shows the same, as Spark
    takes it), or none where nothing changed.

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
            statement = _merge_statement(plan, layer, bounds, key, todo, target)
            rows = changes.coalesce(tasks_of(todo)) if listed else changes
            if plan.contract.write_mode == "copy-on-write":
                # Spark 4.1 looks for the files to write again by a query of its own over these
                # rows, and has no plan for it where they are read from a table of the lake.
                rows = rows.localCheckpoint()
            _run_merge(workspace.spark.get(), rows, statement, max(todo.held))
    finally:
        if listed:
            changes.unpersist()


def tasks_of(todo: Todo) -> int:
    """How many tasks write what these loads changed."""
    return 1 + todo.rows // _ROWS_A_TASK


def _merge_statement(
    plan: ResolvedTable,
    layer: Layer,
    bounds: Bounds | None,
    key: list[tuple[str, str]],
    todo: Todo,
    target: str,
) -> str:
    condition = bounds_sql(bounds, key) if bounds else ""
    if todo.repairs:
        return replace_sql(plan, layer, condition, target)
    compares = not (todo.windows or todo.delta) or plan.entity is not None
    whole = plan.contract.copies and not todo.delta
    return merge_sql(plan, layer, condition, compares=compares, whole=whole, target=target)


def _run_merge(spark: SparkSession, changes: DataFrame, statement: str, through: int) -> None:
    changes.createOrReplaceTempView("mirror_changes")
    setting = f"spark.sql.iceberg.snapshot-property.{FOLDED}"
    spark.conf.set(setting, str(through))
    try:
        spark.sql(statement)
    finally:
        spark.conf.unset(setting)
        spark.catalog.dropTempView("mirror_changes")
