"""What is shown of layers: the view over raw's versions, clean as a view, and clean tables that
are made anew when their rules change.

Definitions are kept in the ledger: what is there already with the same one costs no Spark.
"""

from __future__ import annotations

from mirrorlake.changes import Folding, original_or_none
from mirrorlake.errors import LakeDamaged
from mirrorlake.hash_key import forget_hash_key, has_hash_key, is_hashed, record_hash_key
from mirrorlake.lake.catalog import Identifier, as_sql_identifier
from mirrorlake.lake.tables import KEY, ORIGINAL, TOKEN, has_original
from mirrorlake.lake.views import forget_view, read_view
from mirrorlake.layers import Layer, clean_layer, clean_view_sql, spark_type
from mirrorlake.plan import TablePlan
from mirrorlake.spark import spark_errors


def renew_clean_table(plan: TablePlan, folding: Folding) -> Layer:
    """The clean table's layer; a view in its place is dropped, and so is the table when its rules
    changed, so that nothing that they rule out stays."""
    layer = clean_layer(plan)
    _drop_view(plan.clean, folding)
    if not is_clean_as_ruled(plan, folding):
        _purge_table(plan.clean, folding)
        folding.ledger.record_definition(f"table {plan.clean}", _definition(layer))
    # Before the first hash is written: a table may lag behind the record, never the other way.
    key = folding.hash_key if is_hashed(plan) else None
    if key is not None and not has_hash_key(folding.ledger, plan.clean):
        record_hash_key(folding.ledger, plan.clean, key)
    return layer


def is_clean_as_ruled(plan: TablePlan, folding: Folding) -> bool:
    """Whether clean is to be a table, and was last made by the rules that it has now."""
    made_by = folding.ledger.definition(f"table {plan.clean}")
    return plan.contract.clean == "table" and made_by == _definition(clean_layer(plan))


def _definition(layer: Layer) -> str:
    return repr((layer.columns, layer.original))


def make_clean_view(plan: TablePlan, folding: Folding) -> None:
    """The clean view; a table in its place is dropped."""
    _purge_table(plan.clean, folding)
    _make_view(plan.clean, clean_view_sql(plan), folding)


def _purge_table(identifier: Identifier, folding: Folding) -> None:
    """Drop a clean table with its files: its history may hold what a new rule takes away."""
    if folding.lake.load(identifier) is not None:
        forget_hash_key(folding.ledger, identifier)
        with folding.lake.translated(identifier):
            folding.lake.catalog.purge_table(identifier.path)


def _drop_view(identifier: Identifier, folding: Folding) -> None:
    if folding.ledger.definition(f"view {identifier}") is None:
        return
    forget_view(folding.lake, identifier)
    folding.ledger.forget_definition(f"view {identifier}")


def forget_broken_view(identifier: Identifier, folding: Folding) -> None:
    """See that a view that is not there, or can't be read, will be made, whatever the ledger
    knows of it."""
    try:
        there = read_view(folding.lake, identifier) is not None
    except LakeDamaged:
        there = False
        forget_view(folding.lake, identifier)
    if not there:
        folding.ledger.forget_definition(f"view {identifier}")


def make_raw_view(plan: TablePlan, folding: Folding) -> None:
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
        meta = sorted(
            n for n in there if n.startswith("_mirror_") and n not in (ORIGINAL, KEY, TOKEN)
        )
        original = [original_or_none(there)] if has_original(plan.columns) else []
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
