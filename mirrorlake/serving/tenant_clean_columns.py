"""The columns of clean that tenants share, by the contract's rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.ledger import Ledger
from mirrorlake.merge.statements import Layer, clean_column, originals_without
from mirrorlake.merge.tenant_shapes import TenantShapes
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.serving.views import ViewText
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.tenants import contract_of, held_of


def only_adds(clean: Layer, made_by: str) -> bool:
    """Whether a table that was made by other rules shows nothing that these take away: it lacks
    columns, or has narrower types.

    Args:
        made_by: the definition of the layer that it was made as.
    """
    columns, original = ast.literal_eval(made_by)
    now = {name: sql for name, _, sql in clean.columns}
    # Originals of a column that was shown leave with its rule, which changes its SQL too.
    keeps = original is None or clean.original is not None
    return keeps and all(
        name in now and _untyped(now[name]) == _untyped(sql) for name, _, sql in columns
    )


def _untyped(sql: str) -> str:
    # A hash, and NULL, are written with the type of their column, and are the same in another.
    return sql.partition(" AS ")[0] if sql.startswith(("mirror_hash(", "CAST(NULL ")) else sql


def clean_columns_of(ledger: Ledger, table: TenantTable, shapes: TenantShapes) -> Layer:
    """What the contract's rules make of deduped's columns."""
    names = list(shapes.columns)
    held, rules = held_of(ledger, table, names), rules_of(table, names)
    columns = (
        clean_column(name, kind, "drop" if name in held else rules.get(name))
        for name, kind in shapes.stored
    )
    shown = tuple(column for column in columns if column is not None)
    # Unquoted, as the tables that are there were made.
    original = originals_without([*rules, *held], ORIGINAL) if shapes.originals else None
    return Layer("clean", clean_of(table), shown, original)


def clean_view_of(ledger: Ledger, table: TenantTable, shapes: TenantShapes) -> ViewText:
    """The clean view, as the contract's rules make it."""
    clean = clean_columns_of(ledger, table, shapes)
    selects = clean.selects(originals=clean.original is not None)
    sql = f"SELECT {', '.join(selects)} FROM {deduped_of(table).sql}"  # noqa: S608
    schema = current_schema(clean.stored, clean.original is not None)
    return ViewText(sql, tuple(field.name for field in schema.fields), schema)


def rules_of(table: TenantTable, names: Iterable[str]) -> dict[str, str]:
    """Column → its rule, of those that have one."""
    there = list(names)
    contract = contract_of(table, "", "", there)
    found = {name: contract.column_rule(name) for name in there}
    listed = {n: "drop" if rule.pci else rule.pii for n, rule in found.items() if rule is not None}
    return {name: rule for name, rule in listed.items() if rule is not None}
