"""Syncs of several tables side by side: as many at once as their sources and this machine allow.

What belongs here: threads, who syncs which table, and how they end. What doesn't: what a sync of
one table does (`mirrorlake.operations.loading.sync`).
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from mirrorlake.config import Config, TableContract
from mirrorlake.destinations.iceberg.storage.cloud_client import in_cloud_storage
from mirrorlake.errors import MirrorlakeError
from mirrorlake.merge.small_fold import SMALL_COPY
from mirrorlake.operations.loading.follow_log import Along, Followed, follow_tables
from mirrorlake.operations.loading.results import Synced, SyncResult
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.loading.sync_together import Act, GroupSync, StageBeside, group_by_log
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.operations.loading.worker_process import Orders, WorkerProcess
from mirrorlake.table.progress import OnProgress, Progress
from mirrorlake.workspace import Workspace

_LARGE = 100_000
"""Smaller tables are folded in no time, whatever is written of them."""
_WORTH_A_WORKER = 16
"""So many small tables take as long as the start of a worker, and more."""
_WAITED_FOR = 8
"""How many small tables at once where each file is waited for: their processor time is a fraction
of that. Rows are read from a source by as many as its ``connections`` allow, as ever."""
Watch = Callable[[TableContract], AbstractContextManager[OnProgress]]
"""What a table's load is watched by, while the block runs."""


def default_jobs(config: Config, contracts: Sequence[TableContract]) -> int:
    """How many tables to sync at once: no more than their sources may be read by at once, nor than
    this machine has cores. Over Spark Connect one: what its server bears is not known here."""
    if config.spark.connect:
        return 1
    sources = {c.source for c in contracts if not c.landed}
    reads = sum(config.sources[name].connections for name in sources)
    return max(1, min(reads, os.cpu_count() or 1, len(contracts)))


def small_jobs(config: Config) -> int:
    """How many tables at once where all are small and need no Spark: more than `default_jobs`, if
    the warehouse is in an object store, whose answers are waited for."""
    return _WAITED_FOR if in_cloud_storage(config.lake.warehouse) else 1


def sync_tables(
    workspace: Workspace,
    contracts: Sequence[TableContract],
    *,
    jobs: int = 1,
    small: int = 1,
    accept_smaller: bool = False,
    look: Look | None = None,
    watch: Watch | None = None,
    followed: Mapping[str, Followed] | None = None,
    along: Along | None = None,
    beside: StageBeside | None = None,
) -> Iterator[Synced]:
    """Sync tables, ``jobs`` of them at once; what became of each, as they end.

    Several tables that follow the log of one source are shown at one moment. A table that fails
    does not stop the others. Where the caller stops early, or is interrupted, tables that have not
    begun are left, and those that have are given up as soon as they can be.

    Args:
        small: how many at once as long as small ones are left, if that is more than ``jobs``.
        accept_smaller, look: see `sync_table`.
        watch: called in the thread that syncs the table.
        followed: what was loaded just before of the tables that follow a log; None: their logs are
            read first.
        along: what else reads these logs then.
        beside: what else is shown with tables that follow a log, all of one source.
    """
    if look is not None and all(contract.name in look.estimates for contract in contracts):
        workspace.spark.expect(_rows_to_fold(workspace, contracts, look))
    if followed is None:
        ends = look.ends if look is not None else {}
        followed = follow_tables(workspace, contracts, ends=ends, along=along)
    groups = group_by_log(workspace.ledger, contracts, followed)
    groups = [group for group in groups if group.is_shown_at_once or beside is not None]
    grouped = {contract.name for group in groups for contract in group.all}
    work = _Work(workspace, accept_smaller, look, watch or _unwatched, followed, small)
    yield from work.run(jobs, [c for c in contracts if c.name not in grouped])
    for group in groups:
        run = partial(work.run, jobs)
        parts = (workspace, look, accept_smaller, {**followed}, run, beside)
        yield from GroupSync(*parts).sync(group)


def load_tables(
    workspace: Workspace, contracts: Sequence[TableContract], *, jobs: int, look: Look
) -> Iterator[Synced]:
    """The same without their folds: only raw moves."""

    def load(contract: TableContract, report: OnProgress) -> SyncResult:
        return load_table(workspace, contract, report, look=look)

    yield from _Work(workspace, False, look, _unwatched, {}).run(jobs, contracts, load)


def _rows_to_fold(workspace: Workspace, contracts: Sequence[TableContract], look: Look) -> int:
    """About how many rows Spark will write, or read as a whole, for these tables: of one that gets
    only what changed since its last load it reads little more than the keys."""
    rows = {contract.name: look.estimates[contract.name] for contract in contracts}
    loads = workspace.ledger.newest_loads([n for n, count in rows.items() if count >= _LARGE])
    for contract in contracts:
        load = loads.get(contract.name)
        receipt = load.receipt if load is not None else None
        if receipt is not None and (receipt.row_index or not contract.copies):
            rows[contract.name] //= 10
    return sum(rows.values())


def _unwatched(_: TableContract) -> AbstractContextManager[OnProgress]:
    return nullcontext(lambda _: None)


class _Takes(Enum):
    """What a thread takes: small tables before any other, in a worker; any; or small ones alone."""

    WITH_WORKER = 1
    ANY = 2
    SMALL = 3


class _Waiting:
    """Tables that no thread has begun; small ones are those that a worker may take."""

    def __init__(self, small: Sequence[TableContract], contracts: Sequence[TableContract]) -> None:
        names = {contract.name for contract in small}
        self._small = deque(small)
        self._others = deque(c for c in contracts if c.name not in names)

    def next_small(self) -> TableContract | None:
        with suppress(IndexError):
            return self._small.popleft()
        return None

    def next(self) -> TableContract | None:
        """Any table; small ones last, from the other end."""
        for some, take in ((self._others, deque.popleft), (self._small, deque.pop)):
            with suppress(IndexError):
                return take(some)
        return None


@dataclass
class _Work:
    workspace: Workspace
    accept_smaller: bool
    look: Look | None
    watch: Watch
    followed: Mapping[str, Followed]
    small_jobs: int = 1
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(
        self, jobs: int, contracts: Sequence[TableContract], act: Act | None = None
    ) -> Iterator[Synced]:
        """Do something with tables, so many at once; by default sync them."""
        more: list[TableContract] = []
        if act is None and self.small_jobs > jobs:
            small = [c for c in contracts if self._is_small(c)]
            more = small if len(small) > jobs else []
        act = act or self._sync
        if contracts and (jobs > 1 or more):
            yield from self._side_by_side(contracts, jobs, more, act)
            return
        for contract in contracts:
            yield self._try(contract, act)

    def _sync(self, contract: TableContract, report: OnProgress) -> SyncResult:
        return sync_table(
            self.workspace,
            contract,
            report,
            accept_smaller=self.accept_smaller,
            look=self.look,
            followed=self.followed.get(contract.name),
        )

    def _try(self, contract: TableContract, act: Act) -> Synced:
        """One table, in this thread."""
        try:
            with self.watch(contract) as report:
                return Synced(contract, act(contract, self._heeding(report)))
        except MirrorlakeError as error:
            return Synced(contract, error=error)

    def _side_by_side(
        self, contracts: Sequence[TableContract], jobs: int, more: Sequence[TableContract], act: Act
    ) -> Iterator[Synced]:
        """Args:
        more: small tables for threads beside ``jobs`` of them; none where these are enough.
        """
        self.stopped.clear()
        ended: queue.SimpleQueue[Synced | BaseException] = queue.SimpleQueue()
        threads = self._threads(contracts, jobs, more, partial(self._run, ended, act))
        for thread in threads:
            thread.start()
        try:
            for _ in contracts:
                found = ended.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
        finally:
            self.stopped.set()
            if any(thread.is_alive() for thread in threads):
                self.workspace.spark.cancel()
            for thread in threads:
                thread.join()

    def _threads(
        self,
        contracts: Sequence[TableContract],
        jobs: int,
        more: Sequence[TableContract],
        run: Callable[[_Waiting, _Takes], None],
    ) -> list[threading.Thread]:
        """Threads, not started: some of those that take any table may have a worker first."""
        may = [c for c in contracts if self._is_for_a_worker(c, jobs)]
        small = more or may
        workers = min(jobs - 1, len(small) // _WORTH_A_WORKER, (os.cpu_count() or 1) - 1)
        if len(may) < len(small):
            workers = 0
        waiting = _Waiting(small if workers or more else [], contracts)
        beside = min(self.small_jobs, len(more)) - jobs if more else 0
        takes = [_Takes.WITH_WORKER] * workers + [_Takes.ANY] * (
            min(jobs, len(contracts)) - workers
        )
        takes += [_Takes.SMALL] * beside
        return [
            threading.Thread(target=run, args=(waiting, one), name=f"sync-{number}")
            for number, one in enumerate(takes)
        ]

    def _is_small(self, contract: TableContract) -> bool:
        """Whether a sync of this table is expected to be short, and to need no Spark. What was
        loaded of a log is known here alone."""
        if self.look is None or contract.by_log or contract.landed:
            return False
        new = contract.name not in self.look.through
        plain = contract.entity is None and contract.clean != "table"
        rows = self.look.estimates.get(contract.name)
        return (new or contract.copies) and plain and rows is not None and rows <= SMALL_COPY

    def _is_for_a_worker(self, contract: TableContract, jobs: int) -> bool:
        """Whether a worker may sync it: what a source allows is counted by each process for itself,
        so as many reads must be allowed as there are tables at once, and any number of rows."""
        if not self._is_small(contract):
            return False
        source = self.workspace.config.sources[contract.source]
        return source.connections >= jobs and source.rows_per_second is None

    def _run(
        self,
        ended: queue.SimpleQueue[Synced | BaseException],
        act: Act,
        waiting: _Waiting,
        takes: _Takes,
    ) -> None:
        """One of the threads: table after table, in a Spark session of its own; small ones in a
        process of its own, if it has one."""
        take = waiting.next_small if takes is _Takes.SMALL else waiting.next
        try:
            if takes is _Takes.WITH_WORKER:
                self._run_worker(waiting, ended)
            with self.workspace.spark.own_session():
                while not self.stopped.is_set() and (contract := take()):
                    ended.put(self._try(contract, act))
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            ended.put(error)

    def _run_worker(
        self, waiting: _Waiting, ended: queue.SimpleQueue[Synced | BaseException]
    ) -> None:
        """Small tables, until none waits or their worker dies."""
        level = logging.getLogger().getEffectiveLevel()
        run_id, look = self.workspace.run_id, self.look or Look()
        orders = Orders(self.workspace.config, run_id, look, self.accept_smaller, level)
        with closing(WorkerProcess(orders)) as worker:
            usable = worker.wait_until_ready(self.stopped.is_set)
            while usable and not self.stopped.is_set() and (contract := waiting.next_small()):
                try:
                    with self.watch(contract) as report:
                        result = worker.sync(contract, report, self.stopped.is_set)
                    ended.put(Synced(contract, result))
                except MirrorlakeError as error:
                    ended.put(Synced(contract, error=error))
                    usable = worker.alive

    def _heeding(self, report: OnProgress) -> OnProgress:
        """A report by which a load that nobody waits for any more ends."""

        def heeding(seen: Progress) -> None:
            if self.stopped.is_set():
                raise KeyboardInterrupt
            report(seen)

        return heeding
