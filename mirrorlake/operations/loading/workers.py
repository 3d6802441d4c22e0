"""The processes beside ours that sync small tables: how many, and which tables are for them.

What belongs here: that decision, which imports nothing of what a sync needs: a worker starts, and
imports it, while this process does so as well. What doesn't: who syncs which table
(`mirrorlake.operations.loading.sync_tables`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mirrorlake.config import Config, TableContract
from mirrorlake.config.fields import bucket_of
from mirrorlake.errors import MachineError
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.operations.loading.worker_process import Orders, WorkerProcess

logger = logging.getLogger(__name__)

SMALL_ROWS = 20_000
"""Tables up to this size are synced quickly, without Spark."""
LANES, _LANES_IN_BUCKETS = 2, 4
"""How many small tables a process syncs at once: while one of them waits for a disk the other
computes. An object store is waited for most of the time."""
_WORTH_A_WORKER = 16
"""So many small tables take as long as the start of a worker, and more."""


def default_jobs(config: Config, contracts: Sequence[TableContract]) -> int:
    """How many tables to sync at once: no more than their sources may be read by at once, nor than
    this machine has cores. Over Spark Connect one: what its server bears is not known here."""
    if config.spark.connect:
        return 1
    sources = {c.source for c in contracts if not c.landed}
    reads = sum(config.sources[name].connections for name in sources)
    return max(1, min(reads, os.cpu_count() or 1, len(contracts)))


@dataclass
class Workers:
    """Processes that sync small tables.

    Attributes:
        small: the names of the tables that they may be given; this process takes them, too.
        lanes: how many of these each process syncs at once.
    """

    small: frozenset[str] = frozenset()
    lanes: int = LANES
    processes: list[WorkerProcess] = field(default_factory=list[WorkerProcess])

    def begin(self, config: Config, run_id: str, look: Look, accept_smaller: bool) -> None:
        """Tell all of them what to sync by. Each reads from a source by one of its ``connections``
        at a time."""
        level = logging.getLogger().getEffectiveLevel()
        alone = with_connections(config, lambda _: 1)
        orders = Orders(alone, run_id, look, accept_smaller, level)
        for process in self.processes:
            process.begin(orders)

    def close(self) -> None:
        """End all of them."""
        for process in self.processes:
            process.close()


def start_workers(
    config: Config, contracts: Sequence[TableContract], look: Look | None, jobs: int
) -> Workers:
    """Start the worker processes that pay off for these tables.

    Args:
        jobs: how many tables are synced at once.

    Raises:
        MachineError: one could not be started.
    """
    if look is None or jobs < 2:
        return Workers()
    small = [c.name for c in contracts if _is_for_a_worker(config, c, look, jobs)]
    number = min(jobs - 1, len(small) // _WORTH_A_WORKER, (os.cpu_count() or 1) - 1)
    in_bucket = bool(bucket_of(config.lake.warehouse))
    lanes = _LANES_IN_BUCKETS if in_bucket else LANES
    workers = Workers(frozenset(small if number > 0 or in_bucket else ()), lanes)
    try:
        for _ in range(number):
            workers.processes.append(WorkerProcess(lanes))
    except MachineError:
        workers.close()
        raise
    return workers


def with_connections(config: Config, of: Callable[[int], int]) -> Config:
    """The config by which each source is read by that many of its ``connections``."""
    sources = {
        name: source.model_copy(update={"connections": of(source.connections)})
        for name, source in config.sources.items()
    }
    return config.model_copy(update={"sources": sources})


def _is_for_a_worker(config: Config, contract: TableContract, look: Look, jobs: int) -> bool:
    """Whether a sync of this table is expected to be short, and to need no Spark.

    Each process counts a source's reads by itself, so the source must allow at least ``jobs``
    connections and any number of rows a second. Only this process knows what it loaded from a log.
    """
    if contract.by_log or contract.landed:
        return False
    source = config.sources[contract.source]
    if source.connections < jobs or source.rows_per_second is not None:
        return False
    new = contract.name not in look.through
    plain = contract.entity is None and contract.clean != "table"
    rows = look.estimates.get(contract.name)
    return (new or contract.copies) and plain and rows is not None and rows <= SMALL_ROWS
