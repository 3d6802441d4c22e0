"""The fold of one snapshot into the table of current rows, staged, checked and published.

The order of things, each of which a crash may follow: branch → side tables and rows → checks → the
branch's last snapshot, which names what belongs to it → main moves to the branch. Before the last
step readers see the version before, after it the new one. A branch, and versions of the side
tables, that a dead run left are dropped by the next fold.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.landing.fold.checks import check_columns
from mirrorlake.landing.fold.folding import SnapshotFold
from mirrorlake.landing.fold.results import Folded
from mirrorlake.landing.fold.shape import SnapshotTable
from mirrorlake.landing.fold.tables import ensure_rows
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.records import Lease
from mirrorlake.merge.staging import drop_stale

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)


def _nothing_more() -> None:
    """No check but the fold's own."""


def fold_snapshot(
    lake: Lake,
    ledger: Ledger,
    table: SnapshotTable,
    frame: DataFrame,
    snapshot_id: int,
    *,
    lease: Lease,
    load_id: str = "",
    as_of: date | None = None,
    accept_smaller: bool = False,
    before_publish: Callable[[], None] = _nothing_more,
) -> Folded:
    """Fold one snapshot, and publish the result. The caller holds the table's lease.

    Folding it again changes nothing; any order of snapshots gives the same table.

    Args:
        frame: the snapshot's rows, with exactly the contract's columns and types; read two times.
        load_id: the load that this is part of; found in the published version's properties.
        as_of: the day that the retention window is counted from; by default the day that the
            number begins with (YYYYMMDD…), else the snapshot's last day.
        accept_smaller: whether a snapshot is taken that is far smaller than the one before, or
            lacks days between others.
        before_publish: called when all is staged and checked; raises to leave the table as it was.

    Raises:
        SchemaError: the snapshot's columns or types are not the contract's.
        SnapshotRefused: it has keys twice or none, another content under a number that was folded,
            is far smaller, or came too late. The published table is as it was.
        LakeError: Spark or the storage failed. The published table is as it was.
        CommitConflict: others moved main meanwhile; the published table is theirs.
        LeaseHeld: another run took the table over; nothing was published.
    """
    begun = time.monotonic()
    check_columns(table, frame)
    rows = ensure_rows(lake, table)
    drop_stale(lake, table.identifier)
    with spark_errors(table.name):
        fold = SnapshotFold(
            lake, ledger, table, rows, snapshot_id, lease, load_id, accept_smaller, before_publish
        )
        folded = fold.run(frame, as_of)
    folded = replace(folded, seconds=round(time.monotonic() - begun, 3))
    logger.info("table %s snapshot %s: %s", table.name, snapshot_id, folded)
    return folded
