"""Tables synced, backfilled or folded in a batch of its own: on Dataproc, or on this machine.

A run of Dagster submits the batch, waits for it, and reports what it says of each table by Dagster
Pipes. What the batch loads is in the ledger like any other load, so the sensor `partitions` reports
the partitions.

What belongs here: starting, finding and cancelling batches, and what runs in one. What doesn't:
what becomes of a table (`dagster_mirrorlake.jobs`).
"""

from dagster_mirrorlake.batches.dataproc import DataprocBatches
from dagster_mirrorlake.batches.job import build_batch_job
from dagster_mirrorlake.batches.local import LocalBatches
from dagster_mirrorlake.batches.service import Batches, BatchState, BatchWork

__all__ = [
    "BatchState",
    "BatchWork",
    "Batches",
    "DataprocBatches",
    "LocalBatches",
    "build_batch_job",
]
