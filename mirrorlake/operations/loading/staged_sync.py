"""Tables that are loaded, and folded where nobody sees it, until all of them are shown at once.

Their leases are held from the load to the end. Who dies in between leaves branches that the next
fold drops: either all were shown, or none was. What the ledger is to know of them is written down
in one transaction right after; a run that dies before it leaves layers that hold more loads than
the ledger says, and the next one folds these again, which changes nothing.

What belongs here: a table's sync in two parts, and the step between them. What doesn't: which
tables are shown together (`mirrorlake.operations.loading.sync_together`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Protocol

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion, show_together
from mirrorlake.errors import LedgerError, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.load.attempt import LoadTerms
from mirrorlake.operations.loading.fold import TableFold
from mirrorlake.operations.loading.follow_log import Followed
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.sync import LoadedTable, TableSync, refusal_recorded
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.holds import refuse_held
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class StagedSync:
    """A table of mode `binlog` that is loaded, and folded on branches; its lease is held."""

    contract: TableContract
    _workspace: Workspace
    _loaded: LoadedTable
    _fold: TableFold
    _holding: ExitStack

    @classmethod
    def begin(
        cls,
        workspace: Workspace,
        contract: TableContract,
        terms: LoadTerms,
        look: Look | None,
        followed: Followed | None,
    ) -> StagedSync:
        """Load a table's next window, and fold it on branches; see `sync_table`.

        Raises:
            MirrorlakeError: see the errors of planning, loading and folding; it is left.
        """
        refuse_held(workspace.ledger, contract.source)
        source = workspace.config.sources[contract.source]
        with refusal_recorded(workspace, contract), ExitStack() as holding:
            with session(source, contract.database) as connection:
                sync = TableSync(workspace, contract, terms, look=look, followed=followed)
                loaded = holding.enter_context(sync.loaded(connection))
            fold = TableFold(loaded.leased, loaded.plan, apart=True)
            try:
                fold.write()
            except MirrorlakeError:
                fold.abandon()
                raise
            return cls(contract, workspace, loaded, fold, holding.pop_all())

    @property
    def versions(self) -> Sequence[StagedVersion]:
        """What main is to show."""
        return self._fold.staged.versions if self._fold.staged is not None else ()

    def check(self) -> None:
        """See that the table is still ours.

        Raises:
            LeaseHeld: another run took it over.
        """
        self._loaded.leased.check_lease()

    def records(self) -> list[Callable[[], object]]:
        """What the ledger is to know now that main shows it.

        Raises:
            LakeError: the lake can't be read.
        """
        staged = self._fold.staged
        return [act for one in (staged.records if staged is not None else ()) for act in one()]

    def finish(self) -> SyncResult:
        """Do what follows, and give the lease back.

        Raises:
            MirrorlakeError: as `sync_table`.
        """
        with refusal_recorded(self._workspace, self.contract), self._holding:
            return self._loaded.finish(None, self._fold.finish(), fold=True)

    def abandon(self) -> None:
        """Leave main as it is, and give the lease back."""
        with self._holding:
            self._fold.abandon()

    def set_aside(self) -> SyncResult:
        """`abandon` what is folded; what was loaded."""
        with self._holding:
            self._fold.abandon()
            return self._loaded.finish(None, (), fold=False)


class StagedBeside(Protocol):
    """What is shown in the step that shows tables, and is none of them: a table of tenants."""

    @property
    def name(self) -> str: ...

    @property
    def versions(self) -> Sequence[StagedVersion]:
        """See `StagedSync.versions`."""
        ...

    def check(self) -> None:
        """See `StagedSync.check`."""
        ...

    def records(self) -> list[Callable[[], object]]:
        """See `StagedSync.records`."""
        ...

    def finish(self, how: str) -> None:
        """Do what follows, and give the lease back.

        Args:
            how: readers got to see it.
        """
        ...

    def leave(self, error: MirrorlakeError) -> None:
        """Leave main as it is, and give the lease back."""
        ...


def show_staged(
    workspace: Workspace, staged: Sequence[StagedSync], beside: Sequence[StagedBeside] = ()
) -> Iterator[Outcome[SyncResult]]:
    """Have readers see several tables at one moment, as far as the catalog can; what became of
    each. One that fails is left as it was, and the others are shown.

    The leases of all are given back, however it ends.

    Args:
        beside: what is shown in the same step; its `finish` or `leave` is called, and no result
            of it is among the others'.
    """
    waiting = {one.contract.name: one for one in staged}
    others = {one.name: one for one in beside}
    every: dict[str, StagedSync | StagedBeside] = {**waiting, **others}
    try:
        failpoint("show.staged")
        groups = {name: one.versions for name, one in every.items() if one.versions}
        shown = show_together(workspace.lake, groups, lambda name: every[name].check())
        failed = _record(workspace, every, dict(shown.failed))
        failpoint("show.recorded")
        how = shown.how if len(groups) > 1 else ""
        for name, other in others.items():
            if (error := failed.get(name)) is not None:
                other.leave(error)
            else:
                other.finish(how if name in groups else "")
        for name in list(waiting):
            one = waiting.pop(name)
            if (error := failed.get(name)) is not None:
                one.abandon()
                yield Outcome(name, error=error)
                continue
            try:
                result = one.finish()
            except MirrorlakeError as error:
                yield Outcome(name, error=error)
                continue
            yield Outcome(name, replace(result, shown=how if name in groups else ""))
    finally:
        for one in waiting.values():
            one.abandon()


def _record(
    workspace: Workspace,
    staged: Mapping[str, StagedSync | StagedBeside],
    failed: dict[str, MirrorlakeError],
) -> dict[str, MirrorlakeError]:
    """Write down of all at once that main shows them; what failed, by table."""
    acts: list[Callable[[], object]] = []
    recorded: list[str] = []
    for name, one in staged.items():
        if name in failed:
            continue
        try:
            acts += one.records()
            recorded.append(name)
        except MirrorlakeError as error:
            failed[name] = error
    try:
        if acts:
            workspace.ledger.together(*acts)
    except LedgerError as error:
        return failed | dict.fromkeys(recorded, error)
    return failed
