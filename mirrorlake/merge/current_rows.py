"""Changes: what a fold's loads observed, as one row per key in a layer's columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import SecretStr

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Load
from mirrorlake.merge.counted_rows import counted_rows
from mirrorlake.merge.newest import key_originals, key_parts, newest_columns, raw_rows_sql
from mirrorlake.merge.pruning import bounds_of, bounds_sql, may_prune
from mirrorlake.merge.row_sql.conversions import spark_type
from mirrorlake.merge.row_sql.ranks import ALIVE, ALIVE_EVENT, GONE, RANK
from mirrorlake.merge.statements import (
    Layer,
    flags,
    register_hash,
    same_value,
    unplaced_key,
)
from mirrorlake.schema.own_columns import DELETED_AT, EVENT, KEY, ORIGINAL, SEQ, TOKEN
from mirrorlake.schema.versions import FIRST_CREATED
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


FEW = 200_000
"""Up to this many rows of a fold, the keys of their entities are brought here to be bounded."""


def read_changes(
    workspace: Workspace,
    plan: ResolvedTable,
    layer: Layer,
    loads: Sequence[Load],
    known: Sequence[Load] = (),
) -> DataFrame:
    """One row per key: the latest observation among these loads, and keys that are gone.

    Args:
        known: loads right before these, without a gap, which the layer holds: a key whose latest
            row among them is the same in every column has not changed, and is left out.
    """
    spark = workspace.spark.get()
    if plan.contract.by_count:
        return counted_rows(read_images(workspace, plan, layer, loads), layer)
    rows = _observed(spark, plan, [*loads, *known], workspace.lake)
    rows = _unknown(rows, known, plan) if known else _current(rows, plan, several=len(loads) > 1)
    if plan.entity is not None:
        few = sum(load.receipt.rows if load.receipt else FEW for load in loads) < FEW
        rows = _with_first_created(workspace, plan, rows, few=few)
    if plan.keeps_aliases:
        rows = rows.unionByName(_aliases(workspace, plan, rows))
    return _projected(spark, rows, plan, layer, workspace.config.privacy.hash_key)


def read_images(
    workspace: Workspace, plan: ResolvedTable, layer: Layer, loads: Sequence[Load]
) -> DataFrame:
    """All rows that these loads brought or took away, in the layer's columns, each with its load
    and event."""
    spark, hash_key = workspace.spark.get(), workspace.config.privacy.hash_key
    rows = _observed(spark, plan, loads, workspace.lake)
    kept = [name for name in (GONE, SEQ, EVENT) if name in rows.columns]
    return _projected(spark, rows, plan, layer, hash_key, kept)


def _current(
    rows: DataFrame, plan: ResolvedTable, *, several: bool = True, apart: Sequence[str] = ()
) -> DataFrame:
    """What these versions leave of each key, as the contract has deleted rows.

    Args:
        several: whether they are of several loads.
        apart: columns by which a key's versions are taken for those of several keys.
    """
    if plan.contract.deletes == "ignore":
        rows = rows.where(f"NOT {GONE}")
    # Without a second row a tombstone may still flag one.
    several = several or flags(plan) or EVENT in rows.columns
    return _newest(rows, plan, apart) if plan.key and several else rows


def _unknown(rows: DataFrame, known: Sequence[Load], plan: ResolvedTable) -> DataFrame:
    """What the loads that are not ``known`` leave of each key, where it differs from what the known
    ones leave of it, or they have none. All are read at once, and shuffled once."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    columns = [(e.name, e.iceberg) for e in plan.columns] + [(GONE, "boolean")]
    if plan.originals:
        columns.append((ORIGINAL, "list"))
    if flags(plan):
        columns.append((DELETED_AT, "timestamptz"))
    names = ", ".join(as_sql_identifier(name) for name, _ in columns)
    seqs = ", ".join(str(load.seq) for load in known)
    left = _current(rows.withColumn(_KNOWN, f.expr(f"{SEQ} IN ({seqs})")), plan, apart=(_KNOWN,))
    before = f.lead(f.expr(f"struct({names})")).over(
        Window.partitionBy(*map(f.expr, key_parts(plan))).orderBy(_KNOWN)
    )
    same = " AND ".join(same_value(name, kind, s=_BEFORE) for name, kind in columns)
    beside = left.withColumn(_BEFORE, before).alias("t")
    # Where there is none before, its key is NULL, and so is not the same.
    changed = beside.where(f"NOT {_KNOWN} AND NOT ({same})")
    return changed.drop(_KNOWN, _BEFORE)


_KNOWN, _BEFORE = "_mirror_known", "_mirror_before"


def _observed(
    spark: SparkSession, plan: ResolvedTable, loads: Sequence[Load], lake: Lake
) -> DataFrame:
    """The raw rows of these loads, in the plan's columns, from every schema version's table."""
    tables = dict.fromkeys(load.raw_table for load in loads)
    if not plan.key and not plan.contract.by_count:
        # Rows without a key can't be told apart over versions: the newest version holds them all.
        tables = {plan.raw.name: None}
    frames = [
        _raw_rows(spark, plan, Identifier(plan.raw.namespace, name), loads, lake) for name in tables
    ]
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame, allowMissingColumns=True)  # events
    return union


def _raw_rows(
    spark: SparkSession, plan: ResolvedTable, raw: Identifier, loads: Sequence[Load], lake: Lake
) -> DataFrame:
    seqs = ", ".join(str(load.seq) for load in loads if load.raw_table == raw.name)
    return spark.sql(raw_rows_sql(plan, raw, lake.load(raw), f"{SEQ} IN ({seqs})"))


def _newest(rows: DataFrame, plan: ResolvedTable, apart: Sequence[str]) -> DataFrame:
    """The current row of each key."""
    from pyspark.sql import functions as f

    for name, sql in newest_columns(plan, rows.columns, apart):
        rows = rows.withColumn(name, f.expr(sql))
    return rows.where(f"{RANK} = 1").drop(RANK, ALIVE, ALIVE_EVENT)


def _with_first_created(
    workspace: Workspace, plan: ResolvedTable, rows: DataFrame, *, few: bool
) -> DataFrame:
    """All current rows of the entities that these rows belong to, each with its entity's earliest
    time: of all that raw ever recorded, so that no order of loads makes a difference.

    Raw's tokens, times and keys are read for it, whole: a token says nothing of where its rows are.
    Of ``few`` rows the other columns are read only where the keys of their entities can be.
    """
    from pyspark.sql import functions as f

    history = _of_all_loads(workspace, plan)
    tokens = rows.select(TOKEN).where(f"{TOKEN} IS NOT NULL").distinct()
    of_tokens = history.join(tokens, TOKEN, "left_semi")
    first = of_tokens.groupBy(TOKEN).agg(f.min(FIRST_CREATED).alias("_mirror_first"))
    # A key's newest version may have another token than those that brought it here.
    key = [KEY] if plan.keeps_aliases else list(plan.key)
    same = " AND ".join(f"t.{as_sql_identifier(k)} <=> s.{as_sql_identifier(k)}" for k in key)
    if few:
        history = history.alias("t").where(_where_keys_are(plan, of_tokens, key))
    mates = history.alias("t").join(of_tokens.alias("s"), f.expr(same), "left_semi")
    newest = _current(mates, plan).join(tokens, TOKEN, "left_semi")
    columns = [f.col(as_sql_identifier(c)) for c in newest.columns if c != FIRST_CREATED]
    timed = newest.join(first, TOKEN).select(*columns, f.col("_mirror_first").alias(FIRST_CREATED))
    return timed.unionByName(rows.where(f"{TOKEN} IS NULL"))


def _of_all_loads(workspace: Workspace, plan: ResolvedTable) -> DataFrame:
    loads = workspace.ledger.successful_loads(plan.name)
    return _observed(workspace.spark.get(), plan, loads, workspace.lake)


def _where_keys_are(plan: ResolvedTable, rows: DataFrame, key: list[str]) -> str:
    """A condition that every version of these rows' keys fulfils, by which files are left out."""
    types = {e.name: e.iceberg for e in plan.columns} | {KEY: "binary"}
    if not may_prune([types[name] for name in key]):
        return "true"
    bounds = bounds_of(rows.select(*(as_sql_identifier(k) for k in key)), key, listed=True)
    return bounds_sql(bounds, [(name, spark_type(types[name])) for name in key])


def _aliases(workspace: Workspace, plan: ResolvedTable, rows: DataFrame) -> DataFrame:
    """Other texts under which raw holds these keys: an UPDATE from 'a' to 'A' leaves no 'a'
    behind."""
    from pyspark.sql import functions as f

    history = _of_all_loads(workspace, plan)
    names = [as_sql_identifier(k) for k in plan.key]
    # Of a key's part without a place in its column, the original text is what it is written as.
    kept = [*names, *([key_originals(plan)] if unplaced_key(plan) else [])]
    texts = history.selectExpr(*kept, KEY).distinct()
    now = rows.selectExpr(*kept, KEY).toDF(*(f"_now_{i}" for i in range(len(kept))), "_now_key")
    other = texts.join(now, f.col(KEY) == f.col("_now_key"))
    same = f.lit(True)
    for i, name in enumerate(texts.columns[:-1]):
        same = same & f.col(as_sql_identifier(name)).eqNullSafe(f.col(f"_now_{i}"))
    gone = other.where(~same)
    for column in rows.schema.fields:
        if column.name not in texts.columns:
            value = f.lit(True) if column.name == GONE else f.lit(None)
            gone = gone.withColumn(column.name, value.cast(column.dataType))
    return gone.select(*(as_sql_identifier(c) for c in rows.columns))


def _projected(
    spark: SparkSession,
    rows: DataFrame,
    plan: ResolvedTable,
    layer: Layer,
    hash_key: SecretStr | None,
    kept: Sequence[str] = (GONE,),
) -> DataFrame:
    if "hash" in plan.rules.values() and layer.name == "clean":
        register_hash(spark, hash_key)
    columns = layer.selects(originals=ORIGINAL in rows.columns)
    if layer.flags:
        columns.append(DELETED_AT)
    return rows.selectExpr(*columns, *kept)
