"""Which tenants can be read at all: one question for each, so that one's trouble is its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import MirrorlakeError, SchemaError, SourceError, TableLocked
from mirrorlake.sources.mysql.introspection.introspect import check_whole
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.table.resolve import ResolvedTable


def find_unreadable(
    connection: Connection[Any], plans: Iterable[ResolvedTable]
) -> dict[str, MirrorlakeError]:
    """Why tenants of one source can't be read, by database: a column is hidden from this account,
    the table is gone, or another session holds it locked. Those that can be are not in it.

    The first locked one is waited for as any table is, the others for a second each.

    Raises:
        SourceError: the server was lost.
    """
    found: dict[str, MirrorlakeError] = {}
    for plan in plans:
        try:
            check_whole(connection, plan.table)
        except TableLocked as error:
            found[plan.table.database] = locked(plan, error)
            wait_briefly(connection)
        except SchemaError as error:
            found[plan.table.database] = error
        except SourceError as error:
            if error.retryable:
                raise
            found[plan.table.database] = error
    return found


def wait_briefly(connection: Connection[Any]) -> None:
    """Have a session that has waited for one locked table wait a second for each other one."""
    rows_of(connection, "SET SESSION lock_wait_timeout = 1")


def locked(plan: ResolvedTable, error: TableLocked) -> TableLocked:
    """The server's refusal with the name of the table, which it does not say."""
    return TableLocked(
        f"table {plan.name}: another session holds it locked, and it was not read",
        table=plan.name,
        source=plan.source.name,
        next_step=error.next_step,
        retryable=True,
    )
