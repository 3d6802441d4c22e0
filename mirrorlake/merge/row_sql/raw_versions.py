"""The raw tables of several versions, read in the columns of one: the table as MySQL has it now (a
fold), or all columns that any version had, in types that hold every value (the view over raw).

What belongs here: which columns, and in what type. What doesn't: SQL of one version
(`mirrorlake.merge.row_sql.version_sql`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.merge.row_sql.version_sql import converted, types_over
from mirrorlake.schema.lattice import StoredType
from mirrorlake.table.resolve import ResolvedTable


def wanted_types(plan: ResolvedTable) -> dict[str, StoredType]:
    """The table's columns as MySQL has them now."""
    mysql = dict(plan.version.columns)
    return {e.name: StoredType(e.iceberg, mysql.get(e.name, "")) for e in plan.columns}


def unified_types(plan: ResolvedTable, tables: Sequence[LakeTable]) -> dict[str, StoredType]:
    """The columns that MySQL has now, then those that it had, the newest version's first; each with
    the type in which all versions of it are read together.

    Args:
        tables: raw's, of all versions, oldest first.
    """
    return types_over(plan, {exact.name: exact.iceberg for exact in plan.columns}, tables)


def may_lose(plan: ResolvedTable, table: LakeTable) -> bool:
    """Whether a raw table may have values that have no place in the types of now."""
    return any(c.original is not None for c in converted(plan, table, wanted_types(plan)).values())
