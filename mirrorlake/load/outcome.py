"""What becomes of a load that did not end well: its run died, or it failed.

The raw table's history alone shows whether it landed, by the load's id. Files go only once
they are seen not to be named there.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commit import (
    RECEIPT,
    delete_files,
    find_load,
    snapshot_property,
)
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import CommitUnknown, MirrorlakeError, NotProved, SchemaError, SourceError
from mirrorlake.ledger import Ledger, Load, Receipt
from mirrorlake.load.chunk_receipt import ChunkReceipt
from mirrorlake.load.raw_files import forget_replaced
from mirrorlake.load.resume import files_of
from mirrorlake.load.verify import drop_unpublished, is_named
from mirrorlake.table.resolve import ResolvedTable

logger = logging.getLogger(__name__)


def settle_loads(ledger: Ledger, lake: Lake, table: str, namespace: str) -> list[Load]:
    """Put right what dead runs left of a table: committed → ``success``, absent → ``errored``.

    The caller holds the table's lease, so no attempt that is still ``pending`` can be alive.
    """
    settled: list[Load] = []
    for load in ledger.unsettled_loads(table):
        raw = Identifier(namespace, load.raw_table)
        snapshot = find_load(lake, raw, load.load_id)
        receipt = snapshot_property(snapshot, RECEIPT) if snapshot else None
        if snapshot is not None and receipt is not None:
            logger.info("table %s load %s: found committed, recorded", table, load.load_id)
            forget_replaced(ledger, lake, load, raw, snapshot.snapshot_id)
            ledger.finish_load(load, snapshot.snapshot_id, Receipt.from_json(receipt))
            settled.append(load)
        elif load.state == "pending":
            logger.info("table %s load %s: died before its commit", table, load.load_id)
            drop_unpublished(lake, raw, load)
            # What it read stays: `find_cut` says whether a later run may use it.
            ledger.fail_load(load, "the run died before its commit", keep_chunks=True)
            settled.append(load)
    return settled


def give_up(
    ledger: Ledger,
    lake: Lake,
    plan: ResolvedTable,
    load: Load,
    receipts: Sequence[ChunkReceipt],
    error: BaseException,
) -> None:
    """Record a failure; files go only once the table's history is seen not to name the load, and
    nobody can still be making its commit.

    Where another run could resume it, finished chunks stay. Where another run has taken the load
    over, everything is that run's.
    """
    if isinstance(error, CommitUnknown):
        # The catalog's server may be making it at this moment: what it names must be there then.
        logger.warning("table %s load %s: left to be settled: %s", plan.name, load.load_id, error)
        return
    try:
        landed = find_load(lake, plan.raw, load.load_id) is not None
        named = not landed and _leave_branch(lake, plan, load, error)
    except MirrorlakeError as unseen:
        # Whether it landed is unknown: the attempt stays pending and its files stay.
        logger.warning("table %s load %s: left to be settled: %s", plan.name, load.load_id, unseen)
        return
    if landed:
        return  # `settle_loads` records it
    reason = str(error) if isinstance(error, MirrorlakeError) else type(error).__name__
    kept = files_of(ledger.chunked_load(plan.name)) if _may_pass(error) else frozenset[str]()
    if not ledger.fail_load(load, reason, keep_chunks=bool(kept)):
        logger.warning("table %s load %s: taken over by another run", plan.name, load.load_id)
        return
    if named:
        return  # an unpublished snapshot names them: they go when it expires
    # Files of an earlier attempt may be what a stalled owner is just about to commit.
    mine = f"/{load.load_id}-{load.attempt}-"
    paths = (path for receipt in receipts for path in receipt.paths)
    delete_files(lake, plan.raw, [p for p in paths if mine in p and p not in kept])


def _leave_branch(lake: Lake, plan: ResolvedTable, load: Load, error: BaseException) -> bool:
    """Drop an unpublished load's branch, unless it is to be looked at; whether a snapshot names its
    files."""
    if not isinstance(error, NotProved):
        drop_unpublished(lake, plan.raw, load)
    return is_named(lake, plan.raw, load.load_id)


def _may_pass(error: BaseException) -> bool:
    """Whether a later run may get further by itself: what was read is then worth its place."""
    if isinstance(error, MirrorlakeError):
        passes = error.retryable or isinstance(error, SourceError)
        return passes and not error.column and not isinstance(error, SchemaError)
    return not isinstance(error, Exception)  # Ctrl-C, or an end that was requested
