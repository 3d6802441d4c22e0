"""One load of what a server's log says of one table, by the commit protocol."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.destinations.iceberg.commits.heads import refuse_unknown_load
from mirrorlake.destinations.iceberg.tables.schemas import raw_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_raw_table
from mirrorlake.ledger import Load, Window
from mirrorlake.load.chunks.chunk_task import load_chunk
from mirrorlake.load.chunks.plans import chunk_plans
from mirrorlake.load.following.log_rows import LogRows
from mirrorlake.load.protocol.load_run import LoadRun
from mirrorlake.load.protocol.receipts import summed
from mirrorlake.load.protocol.table_held import check_table_held
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.table.continuity import Continuity, stamp_receipt
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class LogTerms:
    """What is known of a table that is followed.

    Attributes:
        connection: a session with its source.
        continuity: what its loads are to its history.
        place: from where on the log is to be read, once the changes are loaded.
        held: whether the plan is of the table as its server has it now: it is seen to be so still
            before the commit. One of an earlier shape is known by the log alone.
    """

    connection: Connection[Any]
    plan: ResolvedTable
    continuity: Continuity
    place: LogPlace
    held: bool = True


def load_changes(workspace: Workspace, terms: LogTerms, rows: LogRows) -> Load:
    """Commit the changes of whole transactions to raw.

    Args:
        workspace: with the table's lease.

    Raises:
        SchemaError: the table is not the one that was planned any more; nothing was committed.
        SourceError: a value has no place in raw; nothing was committed.
        CommitConflict, LakeError: nothing is visible.
        LeaseHeld: another run took the table over; nothing was committed.
    """
    plan, ledger, seen = terms.plan, workspace.ledger, rows.seen
    schema = raw_schema(plan.columns, with_key=False, with_events=True)
    table = ensure_raw_table(workspace.lake, plan.raw, schema, plan.name, plan.version)
    refuse_unknown_load(ledger, plan.name, plan.raw, table)
    window = Window("log", None, None, seen.clock.date())
    run, paths = LoadRun.begin(workspace, plan.name, plan.raw, window), ()
    try:
        [part] = chunk_plans(plan, run.load, table, seen.server, [""], None)
        found = load_chunk(part, rows)
        paths = found.paths
        if terms.held:
            check_table_held(terms.connection, plan, terms.continuity)
        receipt = replace(
            summed([found]),
            hi=seen.clock.isoformat(sep=" "),
            log_place=terms.place.to_text(),
        )
        receipt = stamp_receipt(receipt, run.load, plan, ledger, terms.continuity)
        snapshot = run.commit(receipt, dict(found.metrics), part.location)
    except BaseException as error:
        run.give_up(error, paths)
        raise
    run.succeed(snapshot, receipt)
    return ledger.successful_loads(plan.name, run.load.seq - 1)[0]
