"""The columns of clean that tenants share, by the contract's rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import as_sql_identifier, text_literal
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.ledger import Ledger
from mirrorlake.merge.current_rows import with_originals
from mirrorlake.merge.statements import clean_column
from mirrorlake.merge.tenant_shapes import TenantShapes
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.serving.views import ViewText
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.tenants import contract_of, held_of


@dataclass(frozen=True)
class CleanColumns:
    """What clean shows of deduped.

    Attributes:
        columns: (name, Iceberg type, SQL over deduped), in order.
        original: SQL of the original texts; None where no shape keeps any.
    """

    columns: tuple[tuple[str, str, str], ...]
    original: str | None

    @property
    def stored(self) -> list[tuple[str, str]]:
        """Name and Iceberg type of every column but the originals."""
        return [(name, kind) for name, kind, _ in self.columns]

    @property
    def selects(self) -> list[str]:
        """Each column as SQL over deduped, the originals last."""
        there = [ORIGINAL] if self.original else []
        found = [
            f"{with_originals(sql, there)} AS {as_sql_identifier(name)}"
            for name, _, sql in self.columns
        ]
        return [*found, *([f"{self.original} AS {ORIGINAL}"] if self.original else [])]

    @property
    def text(self) -> str:
        """By what a table is known to be made by these rules."""
        return repr((self.columns, self.original))

    def only_adds(self, made_by: str) -> bool:
        """Whether a table that was made by other rules shows nothing that these take away: it lacks
        columns, or has narrower types."""
        columns, original = ast.literal_eval(made_by)
        now = {name: sql for name, _, sql in self.columns}
        # Originals of a column that was shown leave with its rule, which changes its SQL too.
        keeps = original is None or self.original is not None
        return keeps and all(
            name in now and _untyped(now[name]) == _untyped(sql) for name, _, sql in columns
        )


def _untyped(sql: str) -> str:
    # A hash, and NULL, are written with the type of their column, and are the same in another.
    return sql.partition(" AS ")[0] if sql.startswith(("mirror_hash(", "CAST(NULL ")) else sql


def clean_columns_of(ledger: Ledger, table: TenantTable, shapes: TenantShapes) -> CleanColumns:
    """What the contract's rules make of deduped's columns."""
    names = list(shapes.columns)
    held, rules = held_of(ledger, table, names), rules_of(table, names)
    columns: list[tuple[str, str, str]] = []
    for name, kind in shapes.stored:
        column = clean_column(name, kind, "drop" if name in held else rules.get(name))
        if column is not None:
            columns.append(column)
    if not shapes.originals:
        return CleanColumns(tuple(columns), None)
    ruled = [*rules, *held]
    listed = ", ".join(text_literal(name) for name in ruled)
    kept = f"filter({ORIGINAL}, x -> x.column NOT IN ({listed}))"
    shown = f"CASE WHEN size({kept}) > 0 THEN {kept} END" if ruled else ORIGINAL
    return CleanColumns(tuple(columns), shown)


def clean_view_of(ledger: Ledger, table: TenantTable, shapes: TenantShapes) -> ViewText:
    """The clean view, as the contract's rules make it."""
    clean = clean_columns_of(ledger, table, shapes)
    sql = f"SELECT {', '.join(clean.selects)} FROM {deduped_of(table).sql}"  # noqa: S608
    schema = current_schema(clean.stored, clean.original is not None)
    return ViewText(sql, tuple(field.name for field in schema.fields), schema)


def rules_of(table: TenantTable, names: Iterable[str]) -> dict[str, str]:
    """Column → its rule, of those that have one."""
    there = list(names)
    contract = contract_of(table, "", "", there)
    found = {name: contract.column_rule(name) for name in there}
    listed = {n: "drop" if rule.pci else rule.pii for n, rule in found.items() if rule is not None}
    return {name: rule for name, rule in listed.items() if rule is not None}
