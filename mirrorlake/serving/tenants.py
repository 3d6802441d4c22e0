"""What is shown of tenants: clean, a view or a table, and the view over raw's versions.

Deduped holds all versions in one table; the view over raw has one branch for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import text_literal
from mirrorlake.destinations.iceberg.model import chosen_columns
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.views import shown_schema
from mirrorlake.merge.row_sql.version_sql import version_columns, version_originals
from mirrorlake.merge.tenant_fold_plan import breaks_views
from mirrorlake.merge.tenant_shapes import TenantShapes
from mirrorlake.schema.own_columns import (
    DATABASE,
    DAY,
    LOAD,
    LOADED_AT,
    ORIGINAL,
    POSITION,
    SEQ,
    SOURCE,
    VERSION,
)
from mirrorlake.serving.many_views import make_views, views_over
from mirrorlake.serving.tenant_clean import CleanMade, forget_clean_table, make_clean_table
from mirrorlake.serving.tenant_clean_columns import clean_view_of
from mirrorlake.serving.unified import structured_columns
from mirrorlake.serving.views import ViewText, hold_view, make_view
from mirrorlake.table.columns.exchanged import doubted_columns, exchanged_name
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.table.tenants import raw_of, raw_view_of
from mirrorlake.workspace import Workspace

_META: Final = {
    SOURCE: "string",
    DATABASE: "string",
    LOAD: "string",
    SEQ: "long",
    POSITION: "string",
    LOADED_AT: "timestamptz",
    DAY: "date",
}


def show_clean_tenants(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> CleanMade:
    """Clean, where it is not there as it must be; what became of it."""
    if table.clean == "table":
        return make_clean_table(workspace, table, shapes)
    wanted = clean_view_of(workspace.ledger, table, shapes)
    made = make_view(workspace, clean_of(table), wanted, over_table=True)
    forget_clean_table(workspace, table)
    return CleanMade(made)


def show_raw_tenants(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> None:
    """The view over the raw tables of all shapes, where it is not there as it must be."""
    views = views_over(raw_view_of(table), [*shapes.tables], partial(_raw_view, table, shapes))
    make_views(workspace, views)


def remember_tenant_columns(workspace: Workspace, table: TenantTable, names: Sequence[str]) -> None:
    """Record the known columns of a table of tenants: all that the first load's versions have, and
    under ``new_columns: show`` those that come later. Where the ledger was lost, they are those
    that clean shows."""
    ledger = workspace.ledger
    known = ledger.known_columns(table.name)
    if known is None and (shown := shown_schema(workspace.lake, clean_of(table))) is not None:
        known = frozenset(field.name.lower() for field in shown.fields)
        ledger.record_known_columns(table.name, known)
    now = frozenset(name.lower() for name in names)
    wanted = now if known is None or table.new_columns == "show" else known
    if wanted != known:
        ledger.record_known_columns(table.name, wanted)


def hold_clean_tenants(workspace: Workspace, table: TenantTable, shapes: TenantShapes) -> None:
    """Let a clean view show what deduped has now until it is made again, where it could not read
    what the next fold makes of it, or shows columns on which a person has to decide."""
    if table.clean != "view":
        return
    shown = shown_schema(workspace.lake, clean_of(table))
    ledger = workspace.ledger
    recorded = ledger.definition(exchanged_name(table))
    doubted = doubted_columns(recorded, table, ledger.known_columns(table.name))
    names = {field.name.lower() for field in shown.fields} if shown is not None else set[str]()
    if doubted & names or breaks_views(workspace, table, shapes):
        hold_view(workspace, clean_of(table), deduped_of(table))


def _names(shapes: TenantShapes) -> list[str]:
    originals = [ORIGINAL] if shapes.originals else []
    return [*shapes.columns, VERSION, *_META, *originals]


def _raw_view(table: TenantTable, shapes: TenantShapes, hashes: Sequence[str]) -> ViewText:
    """A view over the raw tables of these versions, in the columns of all."""
    selects: list[str] = []
    structured = structured_columns(table, shapes.columns)
    for hashed in hashes:
        raw = shapes.tables[hashed]
        parts = version_columns(shapes.names[hashed], raw, shapes.columns, structured)
        parts += [f"{text_literal(hashed)} AS {VERSION}", *_META]
        if shapes.originals:
            parts.append(version_originals(shapes.names[hashed], raw, shapes.columns))
        selects.append(f"SELECT {', '.join(parts)} FROM {raw_of(table, raw.name()[-1]).sql}")  # noqa: S608
    columns = [(name, kind.iceberg) for name, kind in shapes.columns.items()]
    schema = current_schema([*columns, (VERSION, "string"), *_META.items()], shapes.originals)
    names = tuple(_names(shapes))
    return ViewText(" UNION ALL ".join(selects), names, chosen_columns(schema, names))
