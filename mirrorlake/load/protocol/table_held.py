"""Whether a load's table is still the one that was planned, just before its commit."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SchemaError
from mirrorlake.sources.mysql.introspection.identity import read_identity, why_another
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.introspection.lake_names import in_lake
from mirrorlake.table.columns.shape import taken_up
from mirrorlake.table.continuity import Continuity
from mirrorlake.table.resolve import ResolvedTable, plan_table


def check_table_held(
    connection: Connection[Any], plan: ResolvedTable, continuity: Continuity | None
) -> None:
    """See that the table is the one that was planned, with its columns: by now it may be another.

    Args:
        continuity: None of a load that only repeats what was read.

    Raises:
        SchemaError: it is not; what was read may be of both.
    """
    there = read_table(connection, plan.table.database, plan.table.name)
    now = in_lake(there, plan.contract)
    taken = taken_up(plan.contract, now, [plan.version])
    # A column that went meanwhile is a change of its schema, whatever rule there is for it.
    ruled = {name.lower() for name in plan.contract.columns}
    planned = plan_table(plan.contract, plan.source, taken, ruled)
    what = ""
    # A charset is no part of a version, and decides what of a text is checked on its way.
    if (planned.version, planned.columns) != (plan.version, plan.columns):
        what = "its schema changed in MySQL while it was read"
    elif continuity is not None and continuity.identity is not None:
        sign = why_another(continuity.identity, read_identity(connection, now))
        what = f"while it was read, {sign.words}" if sign is not None else ""
    if what:
        raise SchemaError(
            f"table {plan.name}: {what}",
            table=plan.name,
            next_step="Nothing of this load is visible: sync again",
            retryable=True,
        )
