"""Loads of a table that follows its server's log: a copy if there is none, then what the log has.

What belongs here: the order of these. What doesn't: whether a copy is needed
(`mirrorlake.operations.loading.next_load`), and the log
(`mirrorlake.operations.loading.follow_log`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Load, Window
from mirrorlake.ledger.sources.log_progress import BY_LOG
from mirrorlake.load.attempt import LoadTerms
from mirrorlake.load.protocol.protocol import load_window
from mirrorlake.operations.loading.accept import refuse_other_server
from mirrorlake.operations.loading.follow_log import Followed, follow_copied
from mirrorlake.operations.loading.next_load import find_next_load
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.unchanged import Unchanged
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import read_position
from mirrorlake.table.columns.shape_at_place import record_shape
from mirrorlake.table.log_place import place_of, refuse_unlogged
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


def load_by_log(
    workspace: Workspace,
    connection: Connection[Any],
    plan: ResolvedTable,
    window: Window,
    terms: LoadTerms,
    followed: Followed | None,
) -> list[Load]:
    """What brings raw to where the log ended: of a first window a copy, whose parts are of several
    moments, and which what the log says since makes one.

    Args:
        workspace: with the table's lease.
        followed: what of its log was loaded just before.

    Raises:
        MirrorlakeError: see the errors of loading and following.
    """
    if window.kind == "log":
        found = followed or follow_copied(workspace, plan.contract)
        if found is None:
            raise SourceError(
                f"table {plan.name}: {_why_not(workspace, plan)}",
                table=plan.name,
                next_step="Sync again: the whole table is read",
                retryable=True,
            )
        workspace.changes.extend(found.changes)
        return list(found.loads)
    # Before the copy, which sees that the table is the one that was planned when it commits.
    there = read_table(connection, plan.table.database, plan.table.name)
    copied = _copy(workspace, connection, plan, window, terms)
    if (place := place_of(workspace.ledger, plan.name, copied)) is not None:
        record_shape(workspace.ledger, plan.name, place, there)
    found = follow_copied(workspace, plan.contract)
    if found is None:
        why = _why_not(workspace, plan)
        workspace.changes.append(f"{why}: the next sync reads the whole table again")
        return [copied]
    workspace.changes.extend(found.changes)
    return [copied, *found.loads]


def _copy(
    workspace: Workspace,
    connection: Connection[Any],
    plan: ResolvedTable,
    window: Window,
    terms: LoadTerms,
) -> Load:
    """A copy of a whole table, from whose place on its log is read."""
    from mirrorlake.sources.mysql.following.copy_start import read_copy_start

    # The log has the newest row of a key, whatever was copied: any earlier place will do. Rows
    # without a key are counted from the very place that the copy is of, which it finds itself.
    if not plan.contract.by_count:
        place = read_copy_start(connection, plan.source, terms.server)
        terms = replace(terms, log_place=place.to_text())
    return load_window(workspace, connection, plan, window, terms)


def refuse_log(connection: Connection[Any], plan: ResolvedTable, followed: Followed | None) -> None:
    """See that a table can be followed, and that its server logs all that is needed for it.

    Args:
        followed: what of its log was loaded just before, which has seen to the server.

    Raises:
        SchemaError: not all that changes the table is logged.
        SourceError: the server does not log it; what it lacks, with what to run.
    """
    from mirrorlake.sources.mysql.following.log_state import refuse_unfollowable

    refuse_unlogged(plan)
    if followed is None:
        refuse_unfollowable(connection, plan.source, {(plan.table.database, plan.table.name)})


def follow_in_doubt(
    workspace: Workspace,
    connection: Connection[Any],
    plan: ResolvedTable,
    followed: Followed | None,
) -> tuple[ResolvedTable, Followed | None]:
    """Follow a table's log before it is read as a whole, where that may tell what became of its
    rows; its plan then, and what was loaded.

    Args:
        workspace: with the table's lease.

    Raises:
        MirrorlakeError: see the errors of planning and following.
    """
    server = read_position(connection).server
    refuse_other_server(workspace.ledger, connection, plan, server)
    if not find_next_load(connection, workspace, plan, server).doubt:
        return plan, followed
    found = follow_copied(workspace, plan.contract)
    if found is None:
        return plan, followed
    if followed is not None:
        loads = (*followed.loads, *found.loads)
        found = replace(found, loads=loads, changes=(*followed.changes, *found.changes))
    return resolve_table(workspace, plan.contract, connection), found


def _why_not(workspace: Workspace, plan: ResolvedTable) -> str:
    mark = workspace.ledger.unproved(plan.name)
    return mark.reason if mark is not None else "its log could not be followed to the end"


def followed_unchanged(
    workspace: Workspace, contract: TableContract, followed: Followed | None
) -> Unchanged:
    """A table whose log has nothing new of it."""
    newest = workspace.ledger.newest_attempts([contract.name])[contract.name]
    return Unchanged(contract, newest, BY_LOG, followed.as_of if followed else _read_at(newest))


def _read_at(load: Load) -> datetime:
    moment = load.receipt.moment if load.receipt is not None else ""
    return datetime.fromisoformat(moment).replace(tzinfo=UTC) if moment else load.started_at
