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
from mirrorlake.operations.loading.follow_log import Followed, follow_copied
from mirrorlake.operations.loading.unchanged import Unchanged
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
    from mirrorlake.sources.mysql.following.log_state import read_copy_start, refuse_unfollowable

    if window.kind == "log":
        found = followed or follow_copied(workspace, plan.contract)
        if found is None:
            raise SourceError(
                f"table {plan.name}: {_why_not(workspace, plan)}",
                table=plan.name,
                next_step="Sync again: the whole table is read",
                retryable=True,
            )
        return list(found.loads)
    refuse_unfollowable(connection, plan.source, {plan.table.database})
    place = read_copy_start(connection, plan.source, terms.server)
    terms = replace(terms, log_place=place.to_text())
    copied = load_window(workspace, connection, plan, window, terms)
    found = follow_copied(workspace, plan.contract)
    if found is None:
        why = _why_not(workspace, plan)
        workspace.changes.append(f"{why}: the next sync reads the whole table again")
        return [copied]
    return [copied, *found.loads]


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
