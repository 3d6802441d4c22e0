"""The workspace: what one run works with.

What belongs here: opening the ledger, the lake and Spark over one contract file, a table's lease,
closing. What doesn't: anything that reads or writes a table; that is a function of
`mirrorlake.operations`, which takes a workspace and a contract.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.heads import (
    ModelTable,
    MovedTable,
    Recorded,
    find_moved_tables,
)
from mirrorlake.destinations.iceberg.commits.recorded_heads import read_left, record_heads
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
from mirrorlake.destinations.iceberg.warehouse.lost_ledger import refuse_lost_ledger
from mirrorlake.errors import LeaseHeld, MirrorlakeError
from mirrorlake.ledger.records import Lease
from mirrorlake.ledger.store import Ledger
from mirrorlake.runtime.permissions import hold

logger = logging.getLogger(__name__)

_PAUSE = 0.25
"""Seconds between two looks at a lease that another run holds."""


class Leasable(Protocol):
    """What can be held: a table, or a model's."""

    @property
    def name(self) -> str:
        """What its lease is called."""
        ...


@dataclass(frozen=True)
class Workspace:
    """Config, ledger, lake and Spark of one run, and the lease of the table that it works on.

    Made by `open`; ``with Workspace.open(config) as workspace`` closes it. Files that are written
    meanwhile have the contract's permissions.

    Attributes:
        spark: started when a step first needs it.
        run_id: under which the ledger records what this run does.
        lease: None until `leased` took a table's.
        moved: with a lease: its lake tables that are not as our last commit left them. Who puts one
            right says so by `accept`.
        changes: with a lease: what was changed of the table since its last load, in words.
        holding: with a lease: what keeps its windows from moving on, in words.
        views: with a lease: its views that other hands had changed, and that were made again.
    """

    config: Config
    ledger: Ledger
    lake: Lake
    spark: LazySpark
    run_id: str
    lease: Lease | None = None
    moved: tuple[MovedTable, ...] = ()
    changes: list[str] = field(default_factory=list[str], repr=False, compare=False)
    holding: list[str] = field(default_factory=list[str], repr=False, compare=False)
    views: list[str] = field(default_factory=list[str], repr=False, compare=False)
    _accepted: set[Identifier] = field(default_factory=set["Identifier"], repr=False, compare=False)
    _done: set[str] = field(default_factory=set[str], repr=False, compare=False)
    _last: list[Callable[[], object]] | None = field(default=None, repr=False, compare=False)
    _closing: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)
    _closed: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)

    @classmethod
    def open(
        cls, config: Config, run_id: str | None = None, spark: LazySpark | None = None
    ) -> Workspace:
        """Open ledger and lake.

        Args:
            spark: a session over the same lake, which stays its giver's to stop; by default the
                workspace has its own.

        Raises:
            LakeError: the lake can't be opened, or it is not the one that the ledger knows.
            LedgerError: the ledger can't be opened.
        """
        with ExitStack() as closing:
            closing.callback(hold(config.lake.permissions))
            ledger = Ledger(config.ledger.url, config.ledger.wait)
            lake = open_lake(config, ledger)
            if spark is None:
                spark = LazySpark(config.spark, lake)
                closing.callback(spark.stop)
            name = run_id or uuid.uuid4().hex[:12]
            return cls(config, ledger, lake, spark, name, _closing=closing.pop_all())

    def __enter__(self) -> Workspace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the Spark session, if it is this workspace's own, and give the process its umask
        back."""
        self._closed.set()
        self._closing.close()

    @contextmanager
    def leased(self, contract: Leasable, *, wait: bool = True) -> Iterator[Workspace]:
        """This workspace with the table's lease.

        Args:
            wait: whether a holder that is about to finish is waited for, as long as for a lock.

        Raises:
            LeaseHeld: another run has it.
            LakeError: the lake can't be read.
            LedgerError: the ledger was lost.
            RuntimeError: the workspace is closed.
        """
        if self._closed.is_set():
            raise RuntimeError("the workspace is closed: open another one")
        patience = self.config.ledger.wait.total_seconds() if wait else 0
        deadline = time.monotonic() + patience
        with ExitStack() as holding:
            while True:
                try:
                    taken = self.ledger.lease(contract.name, self.run_id)
                    lease = holding.enter_context(taken)
                    break
                except LeaseHeld:
                    if time.monotonic() >= deadline:
                        raise
                time.sleep(_PAUSE)
            if not isinstance(contract, TableContract | TenantTable | ModelTable):
                yield replace(self, lease=lease)
                return
            # One that was lost since the lake was opened; by a single look, where it is there.
            refuse_lost_ledger(self.config, self.ledger, self.lake)
            moved = tuple(find_moved_tables(self.config.lake, self.lake, self.ledger, contract))
            fresh: dict[str, Any] = {"changes": [], "holding": [], "views": []}
            fresh |= {"_accepted": set(), "_last": []}
            leased = replace(self, lease=lease, moved=moved, **fresh)
            done = False
            try:
                yield leased
                done = True
            finally:
                leased._record_heads(contract, done=done)

    def _record_heads(self, contract: Recorded, *, done: bool) -> None:
        """Write down what this lease's commits left of the table's lake tables. Where that can't
        be, the next run knows the commits by their own words."""
        parts = (self.config.lake, self.lake, self.ledger, contract, self.held_lease())
        try:
            self.check_lease()
            if not done and self.ledger.lake() is None:
                return  # a ledger that was lost: what a refused run found is not what it left
            record_heads(*parts, self.moved, self._accepted, self._last or ())
        except MirrorlakeError as error:
            logger.info("table %s: what it holds now was not recorded: %s", contract.name, error)

    def left(self, name: str, layer: str, identifier: Identifier) -> Callable[[], None]:
        """What records a lake table as a commit of ours has just left it. It belongs into the
        transaction that records what was committed: other hands that come before this run's end,
        and a run that dies before it, must not make that older than it is.

        Raises:
            LakeError: the lake can't be read.
        """
        recorded = {head.name: head for head in self.ledger.lake_heads(name)}
        moved = any(one.identifier == identifier for one in self.moved)
        # An older release recorded none: what it did record is looked at until all are known.
        older = not recorded and bool(self.ledger.folded_loads(name, "deduped"))
        head = None
        if not older and (not moved or identifier in self._accepted):
            head = read_left(self.lake, identifier, layer, name, recorded.get(identifier.path))
        return partial(self.ledger.record_lake_heads, [] if head is None else [head])

    def record_last(self, act: Callable[[], object]) -> None:
        """Have something written down in the transaction of the ledger that gives the lease back.

        Args:
            act: what a run that dies before leaves undone, and the next one does: it says nothing
                but what is in place. Done at once where no mirrored table is held.
        """
        if self._last is None:
            act()
        else:
            self._last.append(act)

    def is_first(self, what: str) -> bool:
        """Whether this is asked for the first time of this workspace: of what is done once, for all
        of its tables."""
        if what in self._done:
            return False
        self._done.add(what)
        return True

    def accept(self, identifier: Identifier) -> None:
        """A lake table that other hands had moved is what it must be again."""
        self._accepted.add(identifier)

    def check_lease(self) -> None:
        """See that the table is still this run's, right before something is written to it.

        Raises:
            LeaseHeld: another run took it over.
        """
        lease = self.held_lease()
        self.ledger.check_lease(lease)

    def held_lease(self) -> Lease:
        """The lease that is held; a write without one is a fault of the caller's.

        Raises:
            RuntimeError: there is none.
        """
        if self.lease is None:
            raise RuntimeError("a table is written to under its lease: see Workspace.leased")
        return self.lease
