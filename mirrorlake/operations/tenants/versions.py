"""The shapes that a table of tenants has, and each of its columns over them. Queries no source.

What belongs here: reading it out of ledger and lake. What doesn't: one table's versions, of which
each follows the one before it (`mirrorlake.operations.schema_changes.table_shapes`): tenants have
theirs side by side.
"""

from __future__ import annotations

from collections import Counter

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.tables.schemas import stored_types
from mirrorlake.merge.tenant_shapes import TenantShapes, read_shapes
from mirrorlake.operations.schema_changes.table_shapes import ShapeColumn, Shapes, read_versions
from mirrorlake.schema.lattice import common_type
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.tenants import contract_of
from mirrorlake.workspace import Workspace


def tenant_shapes_of(workspace: Workspace, table: TenantTable) -> Shapes:
    """The shapes of a table of tenants, as far as it was loaded; none of one that never was.

    Raises:
        LakeError, LedgerError: they could not be read.
    """
    ledger = workspace.ledger
    tenants = Counter(one.version for one in ledger.tenants(table.name).values())
    earlier = contract_of(table, "", "").earlier_names
    versions = read_versions(ledger, table.name, earlier, tenants)
    columns = _columns(workspace, table, read_shapes(workspace, table))
    return Shapes(table.name, versions, columns)


def _columns(
    workspace: Workspace, table: TenantTable, shapes: TenantShapes
) -> tuple[ShapeColumn, ...]:
    versions = workspace.ledger.schema_versions(table.name)
    utc = all(workspace.config.sources[name].is_utc for name in table.sources)
    return tuple(_column(name, versions, shapes, utc=utc) for name in shapes.columns)


def _column(
    name: str, versions: list[SchemaVersion], shapes: TenantShapes, *, utc: bool
) -> ShapeColumn:
    there = {
        number: (version, shapes.names[version.hash].held[name])
        for number, version in enumerate(versions, 1)
        if version.hash in shapes.tables and name in shapes.names[version.hash].held
    }
    kinds = [dict(version.columns).get(then) for version, then in there.values()]
    stored = [stored_types(shapes.tables[v.hash])[then].iceberg for v, then in there.values()]
    common = common_type(stored, utc=utc)
    return ShapeColumn(
        name=name,
        types=tuple(dict.fromkeys(kind for kind in kinds if kind is not None)),
        lake=common.type,
        why=common.why,
        since=min(there),
        until=max(there),
        versions=tuple(there),
        former=tuple(dict.fromkeys(then for _, then in there.values() if then != name)),
    )
