"""Tenants as metadata: schema versions, columns, and which tenants failed. Names and counts, never
a row's value.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.columns import (
    COLUMN_LINEAGE,
    COLUMN_SCHEMA,
    column_tags,
    own_description,
)
from dagster_mirrorlake.markdown import markdown
from dagster_mirrorlake.table import UPSTREAM
from dagster_mirrorlake.tenants import MirroredTenants
from dagster_mirrorlake.translator import Layer
from mirrorlake.config import TenantTable

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger
    from mirrorlake.workspace import Workspace

SHOWN = 20
"""Tenants, and schema versions, that a table of an asset's page lists at most."""
CHANGES = 3
"""So many columns in which a version differs from the one before it are named."""
STATES = ("mirrored", "loaded", "new", "failed", "gone")
"""Those of `Tenant.state`, as a table of them is read: what is well first."""


def failed_table(failed: Mapping[str, str]) -> dg.MarkdownMetadataValue:
    """The first tenants that failed, and why."""
    return listed(("tenant", "why"), list(failed.items()))


def left_out_table(left_out: Mapping[str, str]) -> dg.MarkdownMetadataValue:
    """The first things that the contract names and that are no tenants, and why."""
    return listed(("what", "why it is no tenant"), list(left_out.items()))


def listed(head: Sequence[str], rows: Sequence[Sequence[str]]) -> dg.MarkdownMetadataValue:
    """The first rows as a table, and how many more there are."""
    text = markdown(head, rows[:SHOWN])
    more = f"\n\nand {len(rows) - SHOWN:,} more" if len(rows) > SHOWN else ""
    return dg.MetadataValue.md(f"{text}{more}")


def states_metadata(ledger: "Ledger", table: TenantTable) -> dict[str, int]:
    """How many tenants are in which state, as the ledger has them now; each state is there, so that
    a plot of it has no gaps."""
    states = Counter(one.state for one in ledger.tenants(table.name).values())
    return {f"tenants {state}": states[state] for state in STATES}


def versions_metadata(ledger: "Ledger", table: TenantTable) -> dict[str, Any]:
    """How many schema versions there are, and of each what it has: newest first."""
    versions, seen = ledger.schema_versions(table.name), ledger.first_seen(table.name)
    tenants, rows = Counter[str](), Counter[str]()
    for tenant in ledger.tenants(table.name).values():
        if tenant.version is not None:
            tenants[tenant.version] += 1
            rows[tenant.version] += tenant.rows or 0
    lines: list[tuple[str, ...]] = []
    for number, version in enumerate(versions, 1):
        before = versions[number - 2].columns if number > 1 else None
        first = f"{seen[version.hash]:%Y-%m-%d %H:%M}"
        columns = f"{len(version.columns):,}{_changes(before, version.columns)}"
        counts = (f"{tenants[version.hash]:,}", f"{rows[version.hash]:,}")
        lines.append((f"{number} ({version.hash})", first, columns, *counts))
    head = ("version", "first seen (UTC)", "columns", "tenants", "rows")
    lines.reverse()
    shown = {"versions": listed(head, lines)} if lines else {}
    return {"schema versions": len(versions), **shown}


def _changes(before: Sequence[tuple[str, str]] | None, now: Sequence[tuple[str, str]]) -> str:
    """What a version has otherwise than the one before it, in brackets: of the first columns."""
    if before is None:
        return ""
    was, has = dict(before), dict(now)
    found = [f"+{name}" for name in has if name not in was]
    found += [f"−{name}" for name in was if name not in has]
    found += [f"{n} {kind}" for n, kind in has.items() if was.get(n, kind) != kind]
    more = f", and {len(found) - CHANGES:,} more" if len(found) > CHANGES else ""
    return f" ({', '.join(found[:CHANGES])}{more})" if found else ""


def layer_columns_of(
    workspace: "Workspace", tenants: MirroredTenants, layer: Layer
) -> dict[str, Any]:
    """The columns of deduped or clean as the lake has them now, without Spark."""
    from mirrorlake.destinations.iceberg.tables.views import shown_schema
    from mirrorlake.table.lake_tables import clean_of, deduped_of

    table, lake = tenants.contract, workspace.lake
    schema = shown_schema(lake, clean_of(table) if layer == "clean" else deduped_of(table))
    if schema is None:
        return {}
    columns = [
        dg.TableColumn(
            field.name,
            str(field.field_type),
            description=own_description(field.name),
            tags=column_tags(table.columns, field.name),
        )
        for field in schema.fields
    ]
    metadata: dict[str, Any] = {COLUMN_SCHEMA: dg.TableSchema(columns)}
    if layer == "clean":
        upstream = tenants.key(UPSTREAM[layer])
        deps = {c.name: [dg.TableColumnDep(upstream, c.name)] for c in columns}
        metadata[COLUMN_LINEAGE] = dg.TableColumnLineage(deps)
    return metadata
