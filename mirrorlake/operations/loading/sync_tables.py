"""Syncs of several tables side by side: as many at once as their sources and this machine allow.

What belongs here: threads, who syncs which table, and how they end. What doesn't: what a sync of
one table does (`mirrorlake.operations.loading.sync`).
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from mirrorlake.config import TableContract
from mirrorlake.operations.loading.follow_log import Along, Followed, follow_tables
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.loading.sync_together import Act, GroupSync, StageBeside, group_by_log
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.operations.loading.worker_process import WorkerLane
from mirrorlake.operations.loading.workers import Workers, start_workers, with_connections
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.table.progress import OnProgress, Progress, unwatched
from mirrorlake.workspace import Workspace

_Ended: TypeAlias = "queue.SimpleQueue[Outcome[SyncResult] | BaseException]"
_LARGE = 100_000
"""Smaller tables are folded in no time, whatever is written of them."""
Watch = Callable[[TableContract], AbstractContextManager[OnProgress]]
"""What a table's load is watched by, while the block runs."""


def sync_tables(
    workspace: Workspace,
    contracts: Sequence[TableContract],
    *,
    jobs: int = 1,
    accept_smaller: bool = False,
    look: Look | None = None,
    watch: Watch | None = None,
    followed: Mapping[str, Followed] | None = None,
    along: Along | None = None,
    beside: StageBeside | None = None,
    workers: Workers | None = None,
) -> Iterator[Outcome[SyncResult]]:
    """Sync tables, ``jobs`` of them at once, of many small ones several times as many; what became
    of each, as they end.

    Several tables that follow the log of one source are shown at one moment. A table that fails
    does not stop the others. Where the caller stops early, or is interrupted, tables that have not
    begun are left, and those that have are given up as soon as they can be.

    Args:
        accept_smaller, look: see `sync_table`.
        watch: called in the thread that syncs the table.
        followed: what was loaded just before of the tables that follow a log; None: their logs are
            read first.
        along: what else reads these logs then.
        beside: what else is shown with tables that follow a log, all of one source.
        workers: processes for small ones that were started before; by default they are started
            here. They are closed once the tables are synced.
    """
    if look is not None and all(contract.name in look.estimates for contract in contracts):
        workspace.spark.expect(_rows_to_fold(workspace, contracts, look))
    if followed is None:
        ends = look.ends if look is not None else {}
        followed = follow_tables(workspace, contracts, ends=ends, along=along)
    groups = group_by_log(workspace.ledger, contracts, followed)
    groups = [group for group in groups if group.is_shown_at_once or beside is not None]
    grouped = {contract.name for group in groups for contract in group.all}
    work = _Work(workspace, accept_smaller, look, watch or unwatched, followed, workers)
    yield from work.run(jobs, [c for c in contracts if c.name not in grouped])
    for group in groups:
        run = partial(work.run, jobs)
        parts = (workspace, look, accept_smaller, {**followed}, run, beside)
        yield from GroupSync(*parts).sync(group)


def load_tables(
    workspace: Workspace, contracts: Sequence[TableContract], *, jobs: int, look: Look
) -> Iterator[Outcome[SyncResult]]:
    """The same without their folds: only raw moves."""

    def load(contract: TableContract, report: OnProgress) -> SyncResult:
        return load_table(workspace, contract, report, look=look)

    yield from _Work(workspace, False, look, unwatched, {}).run(jobs, contracts, load)


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


def _threads(workers: Workers, jobs: int) -> list[tuple[WorkerLane | None, bool]]:
    """The threads that sync ``jobs`` tables at once. For each: its lane, if it has one, and whether
    it then takes any table or only small ones."""
    lanes = [
        (lane, not number) for one in workers.processes for number, lane in enumerate(one.lanes)
    ]
    alone = jobs - len(workers.processes)
    more = alone * (workers.lanes - 1) if workers.small else 0
    return [*lanes, *[(None, True)] * alone, *[(None, False)] * more]


class _Waiting:
    """Tables that no thread has begun; small ones are those that a worker may take."""

    def __init__(self, small: Sequence[TableContract], contracts: Sequence[TableContract]) -> None:
        names = {contract.name for contract in small}
        self._small = deque(small)
        self._others = deque(c for c in contracts if c.name not in names)

    def first_small(self) -> TableContract | None:
        """A small one, for a worker."""
        with suppress(IndexError):
            return self._small.popleft()
        return None

    def last_small(self) -> TableContract | None:
        """A small one, from the other end, for this process."""
        with suppress(IndexError):
            return self._small.pop()
        return None

    def next(self) -> TableContract | None:
        """Any table, for this process; small ones last."""
        with suppress(IndexError):
            return self._others.popleft()
        return self.last_small()


@dataclass
class _Work:
    workspace: Workspace
    accept_smaller: bool
    look: Look | None
    watch: Watch
    followed: Mapping[str, Followed]
    workers: Workers | None = None
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(
        self, jobs: int, contracts: Sequence[TableContract], act: Act | None = None
    ) -> Iterator[Outcome[SyncResult]]:
        """Do something with tables, so many at once; by default sync them."""
        act = act or self._sync
        if jobs > 1 and contracts:
            yield from self._side_by_side(contracts, jobs, act)
            return
        for contract in contracts:
            yield self._try(contract, act)

    def _sync(self, contract: TableContract, report: OnProgress) -> SyncResult:
        return sync_table(
            self._sharing(),
            contract,
            report,
            accept_smaller=self.accept_smaller,
            look=self.look,
            followed=self.followed.get(contract.name),
        )

    def _sharing(self) -> Workspace:
        """The workspace, by which a source is read on as many of its ``connections`` as the workers
        leave."""
        alive = sum(one.alive for one in self.workers.processes) if self.workers else 0
        if not alive:
            return self.workspace
        config = with_connections(self.workspace.config, lambda number: max(1, number - alive))
        return replace(self.workspace, config=config)

    def _try(self, contract: TableContract, act: Act) -> Outcome[SyncResult]:
        """One table, in this thread."""

        def watched() -> SyncResult | None:
            with self.watch(contract) as report:
                return act(contract, self._heeding(report))

        return Outcome.of(contract.name, watched)

    def _side_by_side(
        self, contracts: Sequence[TableContract], jobs: int, act: Act
    ) -> Iterator[Outcome[SyncResult]]:
        self.stopped.clear()
        mine = self.workers or start_workers(self.workspace.config, contracts, self.look, jobs)
        self.workers = mine
        look, run_id = self.look or Look(), self.workspace.run_id
        mine.begin(self.workspace.config, run_id, look, self.accept_smaller)
        waiting = _Waiting([c for c in contracts if c.name in mine.small], contracts)
        ended: _Ended = queue.SimpleQueue()
        threads = [
            threading.Thread(target=self._run, args=(waiting, ended, act, *given), name=f"sync-{n}")
            for n, given in enumerate(_threads(mine, min(jobs, len(contracts))))
        ]
        for thread in threads:
            thread.start()
        all_ended = False
        try:
            for _ in contracts:
                found = ended.get()
                if isinstance(found, BaseException):
                    raise found
                yield found
            all_ended = True
        finally:
            self.stopped.set()
            # One that only ends has no job there any more, and others may have some in this Spark.
            if not all_ended and any(thread.is_alive() for thread in threads):
                self.workspace.spark.cancel()
            for thread in threads:
                thread.join()
            mine.close()

    def _run(
        self,
        waiting: _Waiting,
        ended: _Ended,
        act: Act,
        lane: WorkerLane | None,
        any_table: bool,
    ) -> None:
        """One of the threads: table after table, in a Spark session of its own; small ones in a
        lane of a worker, if it has one.

        Args:
            any_table: whether it takes others than small ones, too.
        """
        take = waiting.next if any_table else waiting.last_small
        try:
            if lane is not None:
                self._run_lane(lane, waiting, ended)
                if not any_table:
                    return
            with self.workspace.spark.own_session():
                while not self.stopped.is_set() and (contract := take()):
                    ended.put(self._try(contract, act))
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            ended.put(error)

    def _run_lane(self, lane: WorkerLane, waiting: _Waiting, ended: _Ended) -> None:
        """Small tables, until none waits or their worker dies."""
        usable = lane.wait_until_ready(self.stopped.is_set)
        while usable and not self.stopped.is_set() and (contract := waiting.first_small()):
            found = Outcome.of(contract.name, partial(self._sync_in, lane, contract))
            ended.put(found)
            usable = found.error is None or lane.worker.alive
        lane.close()

    def _sync_in(self, lane: WorkerLane, contract: TableContract) -> SyncResult:
        with self.watch(contract) as report:
            return lane.sync(contract, report, self.stopped.is_set)

    def _heeding(self, report: OnProgress) -> OnProgress:
        """A report by which a load that nobody waits for any more ends."""

        def heeding(seen: Progress) -> None:
            if self.stopped.is_set():
                raise KeyboardInterrupt
            report(seen)

        return heeding
