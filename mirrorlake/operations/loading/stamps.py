"""What a sync sees and writes down so that a table that is as it was need not be read again.

What belongs here: one table, over its connection and under its lease. What doesn't: the look at
many tables before (`mirrorlake.operations.loading.unchanged`).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from pymysql.connections import Connection

from mirrorlake.load.protocol.verify import form_of_rows
from mirrorlake.operations.loading.unchanged import (
    Look,
    Unchanged,
    form_digest,
    stamp_followed,
    stamp_of,
    was_read_after,
)
from mirrorlake.proof.comparing.report import digest_text
from mirrorlake.proof.ranges.ranges import NOTHING
from mirrorlake.proof.sides.mysql_side import SourceSide
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

DIGESTED_ROWS = 200_000
"""A larger table is not digested before it is read: where it changed, that was in vain."""


def find_equal(
    workspace: Workspace, connection: Connection[Any], plan: ResolvedTable, look: Look
) -> Unchanged | None:
    """The newest copy of a table, if MySQL has the very rows that it read; None where that is not
    known without reading them.

    The digests are those by which the copy was proved before anybody saw it, over the rows that
    are there now, in one statement.
    """
    stamp, ledger = look.known.get(plan.name), workspace.ledger
    if stamp is None or stamp.form is None:
        return None
    newest = ledger.newest_attempts([plan.name]).get(plan.name)
    if newest is None or newest.seq != stamp.seq:
        return None
    receipt = newest.receipt
    if not plan.contract.copies or receipt is None or newest.raw_table != plan.raw.name:
        return None
    if plan.table.estimated_rows > DIGESTED_ROWS:
        return None
    table = workspace.lake.load(plan.raw)
    if table is None or receipt.source_digest is None:
        return None
    rows = form_of_rows(connection, plan, table)
    if form_digest(rows.source_digest) != stamp.form:
        return None
    clock = look.shown[plan.name].clock
    limit = plan.source.skip_unchanged
    if limit is None or datetime.fromisoformat(clock).replace(tzinfo=UTC) - stamp.read_at >= limit:
        return None
    side = SourceSide(plan.table, rows, (), "")
    current = side.read_groups(connection, side.groups_sql("0")).get(0, NOTHING)
    if (current.rows, digest_text(current)) != (receipt.rows, receipt.source_digest):
        return None
    return Unchanged(plan.contract, newest, "digest", look.as_of[plan.name])


def stamp_table(
    workspace: Workspace,
    connection: Connection[Any] | None,
    plan: ResolvedTable,
    look: Look,
    unchanged: Unchanged | None,
) -> None:
    """Write down what the next look needs to know this table unchanged.

    Args:
        connection: not needed of a table that follows a log.
    """
    if plan.contract.by_log:
        workspace.check_lease()
        followed = stamp_followed(workspace.config, plan.contract, workspace.ledger)
        if followed is not None:
            workspace.ledger.record_stamp(followed)
        return
    shown, ledger = look.shown.get(plan.name), workspace.ledger
    newest = ledger.newest_attempts([plan.name]).get(plan.name)
    if shown is None or newest is None:
        return
    if unchanged is None and not was_read_after(newest, shown):
        return
    form = None
    proved = newest.receipt is not None and newest.receipt.source_digest is not None
    table = workspace.lake.load(plan.raw) if plan.contract.copies and proved else None
    if table is not None and connection is not None:
        form = form_of_rows(connection, plan, table).source_digest
    workspace.check_lease()
    stamp = stamp_of(workspace.config, plan.contract, newest, shown, form)
    if stamp is None:
        return
    if unchanged is not None:
        stamp = replace(stamp, seen_at=unchanged.as_of, evidence=unchanged.evidence)
    workspace.record_last(partial(ledger.record_stamp, stamp))
