"""The fold: raw row versions → one current row per key, in deduped and in clean.

A later observation of a key wins: loads carry a sequence number that the ledger gave out before
they read, under the table's lease, so numbers and observations have one order. A fold takes the
loads that its layer does not hold yet; where one of them is older than what the layer holds, or the
layer is empty, it takes all loads. Either way the result is what a fold of all loads in order
gives, and doing it again changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import SecretStr

from mirrorlake.failpoint import failpoint
from mirrorlake.lake.catalog import Identifier, Lake, as_sql_identifier
from mirrorlake.lake.commit import FOLDED, was_overtaken
from mirrorlake.lake.tables import (
    DELETED,
    KEY,
    ORIGINAL,
    SEQ,
    current_schema,
    ensure_current_table,
    has_original,
)
from mirrorlake.layers import (
    GONE,
    Layer,
    check_rules,
    clean_layer,
    clean_view_sql,
    deduped_layer,
    merge_sql,
    original_of,
    spark_type,
    text_literal,
    unplaced_key,
)
from mirrorlake.ledger import Lease, Ledger, Load
from mirrorlake.plan import TablePlan
from mirrorlake.privacy import keyed_hash
from mirrorlake.spark import LazySpark, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Folding:
    """What a fold needs besides its plan."""

    ledger: Ledger
    lake: Lake
    spark: LazySpark
    hash_key: SecretStr | None = None
    lease: Lease | None = None
    """The table's, which is looked at once more before anything is written."""


def fold_table(plan: TablePlan, folding: Folding) -> tuple[int, ...]:
    """Bring deduped and clean up to every successful load; the sequence numbers of the loads that
    deduped did not hold before.

    The caller holds the table's lease. Nothing to do costs no Spark.

    Raises:
        LakeError: Spark, the catalog or the storage failed; each layer is as it was, or folded.
        LeaseHeld: another run took the table over; this one writes nothing more.
        ConfigError: a column is to be hashed whose text MySQL and we might write differently.
    """
    check_rules(plan, folding.hash_key)
    _fold_raw_view(plan, folding)
    seqs = _fold_layer(plan, deduped_layer(plan), folding)
    if plan.contract.clean == "table":
        _fold_clean_table(plan, folding)
    else:
        _fold_clean_view(plan, folding)
    failpoint("clean.committed")
    return seqs


# --- folding one layer ----------------------------------------------------------------------------


def _fold_layer(plan: TablePlan, layer: Layer, folding: Folding) -> tuple[int, ...]:
    table = ensure_current_table(
        folding.lake,
        layer.identifier,
        current_schema([(n, t) for n, t, _ in layer.columns], layer.original is not None),
    )
    head = table.current_snapshot()
    empty = head is None
    before = folding.ledger.folded_loads(plan.name, layer.name)
    if was_overtaken(table):
        logger.warning("table %s: a stalled fold wrote over %s: folded anew", plan.name, layer.name)
        before = set()
    loads, held = _loads_to_fold(plan, before, empty, folding.ledger)
    if not held:
        return ()
    failpoint("fold.before")
    if loads:
        spark = folding.spark.get()
        with spark_errors(plan.name):
            changes = _changes(spark, plan, layer, loads, folding)
            if folding.lease is not None:
                folding.ledger.check_lease(folding.lease)
            after = head.snapshot_id if head else None
            _apply(spark, plan, layer, changes, after=after, through=max(held))
    failpoint("fold.committed")
    folding.ledger.record_folds(plan.name, layer.name, held)
    failpoint("fold.recorded")
    return tuple(seq for seq in held if seq not in before)


def _loads_to_fold(
    plan: TablePlan, folded: set[int], empty: bool, ledger: Ledger
) -> tuple[list[Load], tuple[int, ...]]:
    """The loads whose rows, latest per key, must be applied, and the numbers that the layer then
    holds."""
    loads = ledger.successful_loads(plan.name)
    missing = [load for load in loads if load.seq not in folded]
    if not missing and not (empty and any(load.snapshot_id for load in loads)):
        return [], ()
    held = tuple(load.seq for load in loads)
    if plan.contract.mode == "full":
        return loads[-1:], held
    late = bool(folded) and bool(missing) and missing[0].seq < max(folded)
    if empty or late or not plan.key:
        return loads, held
    # A load without rows committed nothing and has nothing to apply.
    return [load for load in missing if load.snapshot_id is not None], held


def _changes(
    spark: SparkSession, plan: TablePlan, layer: Layer, loads: Sequence[Load], folding: Folding
) -> DataFrame:
    """One row per key: the latest observation among these loads, and keys that are gone."""
    rows = _observed(spark, plan, loads, folding.lake)
    if len(loads) > 1 and plan.key:
        rows = _latest(rows, plan)
    if plan.keeps_aliases:
        rows = rows.unionByName(_aliases(spark, plan, rows, folding))
    return _projected(spark, rows, plan, layer, folding.hash_key)


def _observed(spark: SparkSession, plan: TablePlan, loads: Sequence[Load], lake: Lake) -> DataFrame:
    """The raw rows of these loads, in the plan's columns, from every schema version's table."""
    tables = dict.fromkeys(load.raw_table for load in loads)
    if not plan.key:
        # Rows without a key can't be told apart over versions: the newest version holds them all.
        tables = {plan.raw.name: None}
    frames = [
        _raw_rows(spark, plan, Identifier(plan.raw.namespace, name), loads, lake) for name in tables
    ]
    union = frames[0]
    for frame in frames[1:]:
        union = union.unionByName(frame)
    return union


def _raw_rows(
    spark: SparkSession, plan: TablePlan, raw: Identifier, loads: Sequence[Load], lake: Lake
) -> DataFrame:
    table = lake.load(raw)
    there = {field.name for field in table.schema().fields} if table else set()
    columns = [
        as_sql_identifier(e.name)
        if e.name in there
        else f"CAST(NULL AS {spark_type(e.iceberg)}) AS {as_sql_identifier(e.name)}"
        for e in plan.columns
    ]
    columns += [SEQ, f"{DELETED} AS {GONE}"]
    if has_original(plan.columns):
        columns.append(_original_or_none(there))
    if plan.keeps_aliases:
        columns.append(KEY)
    seqs = ", ".join(str(load.seq) for load in loads if load.raw_table == raw.name)
    return spark.sql(
        f"SELECT {', '.join(columns)} FROM {raw.sql} WHERE {SEQ} IN ({seqs})"  # noqa: S608
    )


def _original_or_none(there: set[str]) -> str:
    none = f"CAST(NULL AS array<struct<column:string,text:string>>) AS {ORIGINAL}"
    return ORIGINAL if ORIGINAL in there else none


def _latest(rows: DataFrame, plan: TablePlan) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    key = [KEY] if plan.keeps_aliases else [as_sql_identifier(k) for k in plan.key]
    unplaced = () if plan.keeps_aliases else unplaced_key(plan)
    parts = [f.col(k) for k in key] + [f.expr(original_of(name)) for name in unplaced]
    by_key = Window.partitionBy(*parts).orderBy(f.desc(SEQ))
    ranked = rows.withColumn("_mirror_rank", f.row_number().over(by_key))
    return ranked.where("_mirror_rank = 1").drop("_mirror_rank")


def _aliases(spark: SparkSession, plan: TablePlan, rows: DataFrame, folding: Folding) -> DataFrame:
    """Other texts under which raw holds these keys: an UPDATE from 'a' to 'A' leaves no 'a'
    behind."""
    from pyspark.sql import functions as f

    history = _observed(spark, plan, folding.ledger.successful_loads(plan.name), folding.lake)
    names = [as_sql_identifier(k) for k in plan.key]
    # Of a key's part without a place in its column, the original text is what it is written as.
    kept = [*names, *([_key_originals(plan)] if unplaced_key(plan) else [])]
    texts = history.selectExpr(*kept, KEY).distinct()
    now = rows.selectExpr(*kept, KEY).toDF(*(f"_now_{i}" for i in range(len(kept))), "_now_key")
    other = texts.join(now, f.col(KEY) == f.col("_now_key"))
    same = f.lit(True)
    for i, name in enumerate(texts.columns[:-1]):
        same = same & f.col(as_sql_identifier(name)).eqNullSafe(f.col(f"_now_{i}"))
    gone = other.where(~same)
    for field in rows.schema.fields:
        if field.name not in texts.columns:
            value = f.lit(True) if field.name == GONE else f.lit(None)
            gone = gone.withColumn(field.name, value.cast(field.dataType))
    return gone.select(*(as_sql_identifier(c) for c in rows.columns))


def _key_originals(plan: TablePlan) -> str:
    """SQL of the originals of the key's columns alone, NULL where there are none."""
    names = ", ".join(text_literal(name) for name in unplaced_key(plan))
    of_key = f"filter({ORIGINAL}, x -> x.column IN ({names}))"
    return f"CASE WHEN size({of_key}) > 0 THEN {of_key} END AS {ORIGINAL}"


def _projected(
    spark: SparkSession, rows: DataFrame, plan: TablePlan, layer: Layer, hash_key: SecretStr | None
) -> DataFrame:
    if "hash" in plan.rules.values() and layer.name == "clean" and hash_key is not None:
        function = keyed_hash(hash_key.get_secret_value().encode())
        spark.udf.register("mirror_hash", function, "string")
    columns = [
        f"{_with_originals(sql, rows.columns)} AS {as_sql_identifier(name)}"
        for name, _, sql in layer.columns
    ]
    if layer.original:
        columns.append(f"{layer.original} AS {ORIGINAL}")
    return rows.selectExpr(*columns, GONE)


def _with_originals(sql: str, columns: Sequence[str]) -> str:
    """Put the SQL of a column's original text where a hash's second argument asks for it."""
    before, found, rest = sql.partition("\0")
    if not found:
        return sql
    name, _, after = rest.partition("\0")
    if ORIGINAL not in columns:
        return f"{before}CAST(NULL AS STRING){after}"
    return f"{before}{original_of(name)}{after}"


def _apply(
    spark: SparkSession,
    plan: TablePlan,
    layer: Layer,
    changes: DataFrame,
    *,
    after: int | None,
    through: int,
) -> None:
    """One commit: changed rows are written, rows that are equal are left alone."""
    if after is None or not plan.key:
        rows = changes.where(f"NOT {GONE}").drop(GONE)
        from pyspark.sql import functions as f

        writer = rows.writeTo(layer.identifier.sql).option(f"snapshot-property.{FOLDED}", through)
        # Whatever was committed since this fold looked is a conflict: it may be newer.
        writer = writer.option("isolation-level", "serializable")
        if after is not None:
            writer = writer.option("validate-from-snapshot-id", after)
        writer.overwrite(f.lit(True))
        return
    changes.createOrReplaceTempView("mirror_changes")
    setting = f"spark.sql.iceberg.snapshot-property.{FOLDED}"
    spark.conf.set(setting, str(through))
    try:
        spark.sql(merge_sql(plan, layer))
    finally:
        spark.conf.unset(setting)
        spark.catalog.dropTempView("mirror_changes")


# --- clean tables and views -----------------------------------------------------------------------


def _fold_clean_table(plan: TablePlan, folding: Folding) -> None:
    """Fold into the clean table; made anew when its rules change, so that nothing ruled out
    stays."""
    layer = clean_layer(plan)
    definition = repr((layer.columns, layer.original))
    _drop_view(plan.clean, folding)
    if folding.ledger.definition(f"table {plan.clean}") != definition:
        _purge_table(plan.clean, folding)
        folding.ledger.record_definition(f"table {plan.clean}", definition)
    _fold_layer(plan, layer, folding)


def _fold_clean_view(plan: TablePlan, folding: Folding) -> None:
    _purge_table(plan.clean, folding)
    _make_view(plan.clean, clean_view_sql(plan), folding)


def _purge_table(identifier: Identifier, folding: Folding) -> None:
    """Drop a clean table with its files: its history may hold what a new rule takes away."""
    if folding.lake.load(identifier) is not None:
        with folding.lake.translated(identifier):
            folding.lake.catalog.purge_table(identifier.path)


def _drop_view(identifier: Identifier, folding: Folding) -> None:
    if folding.ledger.definition(f"view {identifier}") is None:
        return
    with spark_errors(str(identifier)):
        folding.spark.get().sql(f"DROP VIEW IF EXISTS {identifier.sql}")
    folding.ledger.forget_definition(f"view {identifier}")


def _fold_raw_view(plan: TablePlan, folding: Folding) -> None:
    """The view over the raw tables of all versions, in the newest version's columns."""
    versions = folding.ledger.schema_versions(plan.name)
    selects: list[str] = []
    for version in versions:
        raw = Identifier(plan.raw.namespace, version.raw_table)
        table = folding.lake.load(raw)
        if table is None:
            continue
        there = {field.name for field in table.schema().fields}
        columns = [
            as_sql_identifier(e.name)
            if e.name in there
            else f"CAST(NULL AS {spark_type(e.iceberg)}) AS {as_sql_identifier(e.name)}"
            for e in plan.columns
        ]
        meta = sorted(n for n in there if n.startswith("_mirror_") and n not in (ORIGINAL, KEY))
        original = [_original_or_none(there)] if has_original(plan.columns) else []
        selects.append(f"SELECT {', '.join([*columns, *original, *meta])} FROM {raw.sql}")  # noqa: S608
    if selects:
        _make_view(plan.raw_view, " UNION ALL ".join(selects), folding)


def _make_view(identifier: Identifier, definition: str, folding: Folding) -> None:
    name = f"view {identifier}"
    if folding.ledger.definition(name) == definition:
        return
    folding.lake.make_namespace(identifier.namespace)
    spark = folding.spark.get()
    with spark_errors(str(identifier)):
        spark.sql(f"CREATE OR REPLACE VIEW {identifier.sql} AS {definition}")
    folding.ledger.record_definition(name, definition)
