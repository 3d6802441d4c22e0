"""Rows of tables without a key that follow a log, counted: how often each is there.

A copy has each row as often as its table had it at one place of the log. After it every image of
the log adds a row (an insert, what an update made) or takes one of its equals away (a delete, what
an update found). Two rows are equal where each cell is, with its original text: NULL equals NULL,
and 0.0 is not -0.0.

Counting twice would be wrong, unlike folding a key's newest row twice. So loads are only added to a
layer that says by itself which it holds, on a branch that main is set to, if it has not moved.

What belongs here: the counting, and what it makes of a layer. What doesn't: which loads are counted
(`mirrorlake.merge.fold_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.errors import LakeError, RowsMiscounted
from mirrorlake.ledger.store import Ledger
from mirrorlake.merge.fold_plan import LISTED, Todo
from mirrorlake.merge.merge_changes import tasks_of
from mirrorlake.merge.pruning import bounds_of, bounds_sql, edges_of, may_prune
from mirrorlake.merge.row_sql.conversions import spark_type
from mirrorlake.merge.row_sql.ranks import GONE
from mirrorlake.merge.staging import append_rows
from mirrorlake.merge.statements import Layer
from mirrorlake.schema.own_columns import EVENT, ORIGINAL, SEQ
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHANGE, _LOWEST, _HELD, _OUT = (f"_mirror_{name}" for name in ("change", "lowest", "held", "out"))
"""Of a row's equals: by how many there are more, or fewer; the lowest that was on the way; how many
the layer has; and whether these go."""
_ROW: Final = "_mirror_row"
"""One value that equal rows share."""
_CELLS: Final = "_mirror_cells"
_MISCOUNTED: Final = "rows of the mirror are miscounted"
_WHY: Final = "its log takes away rows that the mirror does not have"


def counted_rows(rows: DataFrame, layer: Layer) -> DataFrame:
    """What these versions leave of rows that were counted from nothing: each as often as it is
    there.

    Args:
        rows: in the layer's columns, each with `GONE`, its load, and its event.
    """
    changes = _changes(rows, layer)
    copies = f"array_repeat(false, {_checked(_LOWEST, _CHANGE)})"
    return changes.selectExpr(*_columns(layer), f"explode({copies}) AS {GONE}")


def add_counted(
    workspace: Workspace, layer: Layer, rows: DataFrame, todo: Todo, branch: str
) -> None:
    """One commit to a branch of the layer, as Spark takes it, that adds rows to what it shows, and
    takes others away.

    Args:
        rows: as for `counted_rows`, of loads that the layer does not hold.
    """
    spark = workspace.spark.get()
    properties = {FOLDED: str(max(todo.held))}
    kept = _changes(rows, layer).where(f"{_CHANGE} <> 0 OR {_LOWEST} < 0").persist()
    try:
        changes = kept
        [lowest] = changes.selectExpr(f"coalesce(min({_LOWEST}), 0)").first() or (0,)
        if lowest >= 0:  # nothing that the layer holds goes
            copies = f"explode(array_repeat(false, CAST({_CHANGE} AS INT))) AS {_OUT}"
            more = changes.selectExpr(*_columns(layer), copies).drop(_OUT)
            append_rows(more.coalesce(tasks_of(todo)), branch, properties)
            return
        bounds = _bounds(workspace, layer, changes, todo)
        changes = _with_held(spark, layer, changes, bounds, branch)
        _merge(spark, layer, changes, bounds, branch, todo)
    finally:
        kept.unpersist()


@contextmanager
def miscounts_marked(ledger: Ledger, plan: ResolvedTable) -> Iterator[None]:
    """Where the log takes away a row that is not there, the table is to be read again as a whole.

    Raises:
        RowsMiscounted: it did; nothing of it is shown.
    """
    try:
        yield
    except RowsMiscounted as error:
        raise _miscounted(ledger, plan, error.message) from error
    except LakeError as error:
        if _MISCOUNTED not in f"{error} {error.__cause__}":
            raise
        raise _miscounted(ledger, plan, _WHY) from error


def _miscounted(ledger: Ledger, plan: ResolvedTable, why: str) -> RowsMiscounted:
    """The error of a table whose rows can't be counted, which is marked to be read again."""
    receipt = ledger.newest_receipt(plan.name)
    ledger.mark_unproved(plan.name, receipt.server if receipt is not None else "", why)
    return RowsMiscounted(
        f"table {plan.name}: {why}, so they can't be counted: it has no key",
        table=plan.name,
        next_step="Sync again: the whole table is read, and a new history begins",
        retryable=True,
    )


def _changes(rows: DataFrame, layer: Layer) -> DataFrame:
    """One row per image, with what became of the number of its equals."""
    from pyspark.sql import functions as f

    step = f"CASE WHEN {GONE} THEN -1 ELSE 1 END"
    order = [SEQ, *([f"coalesce({EVENT}, 0)"] if EVENT in rows.columns else [])]
    cells = f"struct({', '.join(_columns(layer))}) AS {_CELLS}"
    kept = [GONE, *(name for name in (SEQ, EVENT) if name in rows.columns)]
    found = rows.selectExpr(f"{_row(layer)} AS {_ROW}", cells, *kept)
    over = f"PARTITION BY {_ROW} ORDER BY {', '.join(order)} ROWS UNBOUNDED PRECEDING"
    found = found.selectExpr(
        _ROW, _CELLS, f"{step} AS {_CHANGE}", f"sum({step}) OVER ({over}) AS {_LOWEST}"
    )
    sums = (f.sum(_CHANGE).alias(_CHANGE), f.min(_LOWEST).alias(_LOWEST))
    found = found.groupBy(_ROW).agg(f.first(_CELLS).alias(_CELLS), *sums)
    return found.select(_ROW, f"{_CELLS}.*", _CHANGE, _LOWEST)


def _with_held(
    spark: SparkSession, layer: Layer, changes: DataFrame, bounds: str, branch: str
) -> DataFrame:
    """The changes with how many equals of each the layer has, where any of them goes."""
    from pyspark.sql import functions as f

    leaving = changes.where(f"{_LOWEST} < 0").selectExpr(f"{_ROW} AS leaving")
    there = spark.table(branch).alias("t").where(bounds or "true")
    there = there.selectExpr(f"{_row(layer)} AS held")
    there = there.join(leaving, f.expr("held <=> leaving"), "left_semi")
    counts = there.groupBy("held").agg(f.count("*").alias(_HELD))
    both = changes.join(counts, f.expr(f"{_ROW} <=> held"), "left").drop("held")
    return both.withColumn(_HELD, f.expr(f"coalesce({_HELD}, 0)"))


def _merge(
    spark: SparkSession, layer: Layer, changes: DataFrame, bounds: str, branch: str, todo: Todo
) -> None:
    """Every equal of a row goes of which one goes, and as many come as are left."""
    left = _checked(f"{_HELD} + {_LOWEST}", f"{_HELD} + {_CHANGE}")
    fewer = f"concat(array(true), array_repeat(false, {left}))"
    more = f"array_repeat(false, IF({left} < 0, 0, CAST({_CHANGE} AS INT)))"
    out = f"explode(IF({_CHANGE} < 0, {fewer}, {more})) AS {_OUT}"
    columns = _columns(layer)
    # They are read from the branch that is written: as they are now.
    source = changes.selectExpr(_ROW, *columns, out).coalesce(tasks_of(todo)).localCheckpoint()
    within = f" AND {bounds}" if bounds else ""
    values = ", ".join(f"s.{name}" for name in columns)
    source.createOrReplaceTempView("mirror_changes")
    setting = f"spark.sql.iceberg.snapshot-property.{FOLDED}"
    spark.conf.set(setting, str(max(todo.held)))
    try:
        spark.sql(
            f"MERGE INTO {branch} t USING mirror_changes s"  # noqa: S608
            f" ON s.{_OUT} AND {_row(layer, 't.')} <=> s.{_ROW}{within}"
            " WHEN MATCHED THEN DELETE"
            f" WHEN NOT MATCHED AND NOT s.{_OUT}"
            f" THEN INSERT ({', '.join(columns)}) VALUES ({values})"
        )
    finally:
        spark.conf.unset(setting)
        spark.catalog.dropTempView("mirror_changes")


def _bounds(workspace: Workspace, layer: Layer, changes: DataFrame, todo: Todo) -> str:
    """A condition that every row of the layer fulfils that is equal to one that goes; '' where it
    is not known."""
    kinds = sorted(layer.stored, key=lambda one: not may_prune([one[1]]))
    if not kinds or not may_prune([kinds[0][1]]):
        return ""
    names, listed = [name for name, _ in kinds], todo.rows <= LISTED
    table = workspace.lake.load(layer.identifier)
    with workspace.lake.translated(layer.identifier):
        edges = edges_of(table, names[0]) if table is not None else None
    leaving = changes.where(f"{_LOWEST} < 0")
    bounds = bounds_of(leaving, names, listed=listed, edges=edges)
    return bounds_sql(bounds, [(name, spark_type(kind)) for name, kind in kinds])


def _checked(lowest: str, number: str) -> str:
    """SQL of a number, and an error where there were ever fewer rows than none."""
    error = f"CAST(raise_error('{_MISCOUNTED}') AS INT)"
    return f"IF({lowest} < 0, {error}, CAST({number} AS INT))"


def _columns(layer: Layer) -> list[str]:
    return [as_sql_identifier(name) for name in layer.names]


def _row(layer: Layer, of: str = "") -> str:
    """SQL of what equal rows share: one value, for a comparison of each column is a plan that takes
    Spark minutes where there are some hundred of them.

    Args:
        of: an alias and a dot.
    """
    found = [_cell(f"{of}{as_sql_identifier(name)}", kind) for name, kind in layer.stored]
    if layer.original:
        original = f"{of}{ORIGINAL}"
        found.append(f"IF(size({original}) > 0, {original}, NULL)")  # an empty list is none
    cells = ", ".join(f"'p{number}', {sql}" for number, sql in enumerate(found))
    return f"named_struct({cells})"


def _cell(column: str, kind: str) -> str:
    """SQL of what tells a column's values apart: -0.0 and 0.0 are two."""
    return f"CAST({column} AS STRING)" if kind in ("float", "double") else column
