"""One attempt at one load, by the commit protocol, and what becomes of one that did not end well.

Order of things, each of which a crash may follow: window ``created`` → attempt ``pending`` → data
files → one Iceberg commit with the load's id → ``success``. The raw table's history alone shows
whether an attempt landed, by the load's id. Files go only once they are seen not to be named there.

What belongs here: these steps, whatever is loaded. What doesn't: what is read, and into which files
(`mirrorlake.load.chunks.row_source`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Commit, Condition, Identifier
from mirrorlake.destinations.iceberg.commits.commit import (
    ATTEMPT,
    LOAD_ID,
    NUMBER,
    RECEIPT,
    WINDOW,
    commit_load,
    delete_files,
    find_load,
    head_of,
)
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.errors import (
    CommitConflict,
    CommitUnknown,
    MirrorlakeError,
    NotProved,
    SchemaError,
    SourceError,
)
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Load, Receipt, Window
from mirrorlake.load.protocol.load_branches import drop_unpublished, is_named
from mirrorlake.load.protocol.resume import files_of
from mirrorlake.load.raw.raw_files import record_written, replaced_files
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


class Steps(NamedTuple):
    """The failpoints after the steps of a load, and the one before its commit."""

    created: str
    pending: str
    before_commit: str
    committed: str
    success: str


OF_TABLES = Steps(
    "ledger.created", "ledger.pending", "commit.before", "commit.after", "ledger.success"
)


@dataclass(frozen=True)
class LoadRun:
    """One attempt at one load, under its table's lease.

    Attributes:
        workspace: with the table's lease.
        raw: the table that it goes into.
        load: the attempt as the ledger has it, ``pending``.
    """

    workspace: Workspace
    raw: Identifier
    load: Load
    steps: Steps = OF_TABLES

    @classmethod
    def begin(
        cls,
        workspace: Workspace,
        name: str,
        raw: Identifier,
        window: Window,
        steps: Steps = OF_TABLES,
    ) -> LoadRun:
        """The first attempt at a new load of a table."""
        ledger, lease = workspace.ledger, workspace.held_lease()
        load_id = ledger.create_load(name, window)
        failpoint(steps.created)
        parent = head_of(workspace.lake, raw)
        load = ledger.start_load(load_id, lease, workspace.run_id, raw.name, parent)
        failpoint(steps.pending)
        return cls(workspace, raw, load, steps)

    @classmethod
    def resume(cls, workspace: Workspace, raw: Identifier, load: Load) -> LoadRun:
        """The next attempt at a load whose run ended in the middle.

        Raises:
            CommitConflict: it was committed just now.
        """
        parent = head_of(workspace.lake, raw)
        # A last owner that wakes up: what it commits before this look is seen, what it commits
        # after it moves the table off the parent that our own commit asserts.
        if find_load(workspace.lake, raw, load.load_id) is not None:
            raise CommitConflict(
                f"table {load.table}: load {load.load_id} was committed by another run",
                table=load.table,
                next_step="Sync again: it goes on from there",
                retryable=True,
            )
        lease = workspace.held_lease()
        resumed = workspace.ledger.resume_load(load, lease, workspace.run_id, parent)
        failpoint("chunks.resumed")
        return cls(workspace, raw, resumed)

    def commit(
        self,
        receipt: Receipt,
        files: Mapping[str, str],
        location: str,
        *,
        replaces: Condition | None = None,
        removes: frozenset[str] = frozenset(),
        by: Callable[[Commit], int | None] | None = None,
    ) -> int | None:
        """Add these files to raw in one commit, which carries the load's id; raw's new snapshot,
        None where there was nothing to commit.

        Args:
            files: what their writers counted, by path.
            location: the raw table's.
            replaces, removes: see `Commit`.
            by: what makes the commit; by default nothing but that.

        Raises:
            LeaseHeld: another run took the table over; nothing is visible.
            CommitConflict: the raw table moved; nothing is visible.
            LakeError: the catalog or the storage failed.
        """
        workspace, load = self.workspace, self.load
        commit = Commit(
            identifier=self.raw,
            parent=load.parent_snapshot,
            paths=list(files),
            metrics=files,
            properties={
                LOAD_ID: load.load_id,
                ATTEMPT: str(load.attempt),
                RECEIPT: receipt.to_json(),
                WINDOW: load.window.to_json(),
                NUMBER: str(load.seq),
            },
            replaces=replaces,
            removes=removes,
        )
        workspace.check_lease()
        record_written(workspace.ledger, load, location, files)
        failpoint(self.steps.before_commit)
        snapshot = by(commit) if by is not None else commit_load(workspace.lake, commit)
        failpoint(self.steps.committed)
        return snapshot

    def succeed(self, snapshot: int | None, receipt: Receipt) -> None:
        """Record what was committed as ``success``."""
        self._record(snapshot, receipt)
        failpoint(self.steps.success)

    def _record(self, snapshot: int | None, receipt: Receipt) -> None:
        ledger, load = self.workspace.ledger, self.load
        replaced = replaced_files(self.workspace.lake, self.raw, snapshot)
        left = [self.workspace.left(load.table, "raw", self.raw)] if snapshot is not None else []
        ledger.together(
            lambda: ledger.forget_raw_files(load.table, replaced),
            lambda: ledger.finish_load(load, snapshot, receipt),
            *left,
        )

    def settle(self) -> bool:
        """Record what became of an attempt whose run died; whether that was to be recorded.

        The caller holds the table's lease, so no attempt that is still ``pending`` can be alive.
        """
        load, lake = self.load, self.workspace.lake
        snapshot = find_load(lake, self.raw, load.load_id)
        receipt = snapshot_property(snapshot, RECEIPT) if snapshot else None
        if snapshot is not None and receipt is not None:
            logger.info("table %s load %s: found committed, recorded", load.table, load.load_id)
            self._record(snapshot.snapshot_id, Receipt.from_json(receipt))
            return True
        if load.state != "pending":
            return False
        logger.info("table %s load %s: died before its commit", load.table, load.load_id)
        drop_unpublished(lake, self.raw, load)
        # What it read stays: `find_cut` says whether a later run may use it.
        self.workspace.ledger.fail_load(load, "the run died before its commit", keep_chunks=True)
        return True

    def give_up(self, error: BaseException, paths: Iterable[str]) -> None:
        """Record a failure; files go only once the table's history is seen not to name the load,
        and nobody can still be making its commit.

        Where another run could resume it, finished chunks stay. Where another run has taken the
        load over, everything is that run's.

        Args:
            paths: the files that were written for it.
        """
        ledger, lake, load = self.workspace.ledger, self.workspace.lake, self.load
        try:
            if isinstance(error, CommitUnknown):
                raise error  # the catalog's server may be making it now: what it names must stay
            landed = find_load(lake, self.raw, load.load_id) is not None
            named = not landed and self._leave_branch(error)
        except MirrorlakeError as unseen:
            # Whether it landed is unknown: the attempt stays pending and its files stay.
            words = "table %s load %s: left to be settled: %s"
            logger.warning(words, load.table, load.load_id, unseen)
            return
        if landed:
            return  # `settle` records it
        reason = str(error) if isinstance(error, MirrorlakeError) else type(error).__name__
        kept = files_of(ledger.chunked_load(load.table)) if _may_pass(error) else frozenset[str]()
        if not ledger.fail_load(load, reason, keep_chunks=bool(kept)):
            logger.warning("table %s load %s: taken over by another run", load.table, load.load_id)
            return
        if named:
            return  # an unpublished snapshot names them: they go when it expires
        # Files of an earlier attempt may be what a stalled owner is just about to commit.
        mine = f"/{load.load_id}-{load.attempt}-"
        delete_files(lake, self.raw, [p for p in paths if mine in p and p not in kept])

    def _leave_branch(self, error: BaseException) -> bool:
        """Drop an unpublished load's branch, unless it is to be looked at; whether a snapshot names
        its files."""
        if not isinstance(error, NotProved):
            drop_unpublished(self.workspace.lake, self.raw, self.load)
        return is_named(self.workspace.lake, self.raw, self.load.load_id)


def settle_loads(workspace: Workspace, table: Mirrored) -> list[Load]:
    """Record what became of a table's loads whose runs died: committed → ``success``, absent →
    ``errored``. The caller holds the table's lease."""
    unsettled = workspace.ledger.unsettled_loads(table.name)
    runs = (LoadRun(workspace, Identifier(table.namespaces.raw, u.raw_table), u) for u in unsettled)
    return [run.load for run in runs if run.settle()]


def _may_pass(error: BaseException) -> bool:
    """Whether a later run may get further by itself: what was read is then worth its place."""
    if isinstance(error, MirrorlakeError):
        passes = error.retryable or isinstance(error, SourceError)
        return passes and not error.column and not isinstance(error, SchemaError)
    return not isinstance(error, Exception)  # Ctrl-C, or an end that was requested
