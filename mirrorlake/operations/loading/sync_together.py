"""The tables of one source that follow its log, brought to one place of it and shown at one moment.

Those that have their copy are followed to one end of the log, folded on branches, and shown
together. One that needs more first (a statement altered it, other hands moved its layers) is loaded
before, and the log is read again for all. One that has to be read as a whole is read after the
others were shown, which don't wait for it; then all are brought to one place again.

What belongs here: that order. What doesn't: one table's sync
(`mirrorlake.operations.loading.staged_sync`), and threads
(`mirrorlake.operations.loading.sync_tables`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Protocol

from mirrorlake.config import TableContract
from mirrorlake.errors import SourceError
from mirrorlake.ledger.store import Ledger
from mirrorlake.load.attempt import LoadTerms
from mirrorlake.operations.loading.follow_log import Followed, follow_tables
from mirrorlake.operations.loading.results import SyncResult, add_results
from mirrorlake.operations.loading.staged_sync import StagedBeside, StagedSync, show_staged
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.table.log_place import place_of
from mirrorlake.table.progress import OnProgress
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

Act = Callable[[TableContract, OnProgress], SyncResult | None]
"""What is done with one table; what it did, None where that is told later."""
StageBeside = Callable[[], Sequence[StagedBeside]]
"""Folds, where nobody sees it, what is to be shown with tables that follow the same log."""


class SideBySide(Protocol):
    """Does something with tables, several at once; what became of each, as they end."""

    def __call__(
        self, contracts: Sequence[TableContract], act: Act, /
    ) -> Iterator[Outcome[SyncResult]]: ...


@dataclass(frozen=True)
class LogGroup:
    """Tables of one source that are synced at once.

    Attributes:
        followed: those whose log was read to one end just before.
        altered: those that have a copy, and of which the log could not simply be followed.
        others: those that are to be read as a whole.
    """

    followed: tuple[TableContract, ...]
    altered: tuple[TableContract, ...]
    others: tuple[TableContract, ...]

    @property
    def all(self) -> tuple[TableContract, ...]:
        return (*self.followed, *self.altered, *self.others)

    @property
    def is_shown_at_once(self) -> bool:
        """Whether there is more than one version to show. First copies alone are not: none of them
        is there yet."""
        if len(self.followed) + len(self.altered) > 1:
            return True
        here = (*self.followed, *self.altered)
        return bool(here) and (bool(self.others) or here[0].clean == "table")


def group_by_log(
    ledger: Ledger, contracts: Sequence[TableContract], followed: Mapping[str, Followed]
) -> list[LogGroup]:
    """The tables that follow a log, by source."""
    found: list[LogGroup] = []
    mine = [contract for contract in contracts if contract.by_log]
    for source in dict.fromkeys(contract.source for contract in mine):
        tables = [contract for contract in mine if contract.source == source]
        away = [contract for contract in tables if contract.name not in followed]
        copied = {c.name for c in away if has_copy(ledger, c)}
        found.append(
            LogGroup(
                tuple(c for c in tables if c.name in followed),
                tuple(c for c in away if c.name in copied),
                tuple(c for c in away if c.name not in copied),
            )
        )
    return found


def has_copy(ledger: Ledger, contract: TableContract) -> bool:
    """Whether a table was copied, and is not to be read again as a whole, as far as is known."""
    last = ledger.last_load(contract.name, "success", moving=True)
    return last is not None and ledger.unproved(contract.name) is None


@dataclass
class GroupSync:
    """One group on its way.

    Attributes:
        look: what was seen just before; tables of the same source that it found unchanged are
            brought to the same place, where the log is read again.
        side_by_side: how tables are worked on.
        beside: stages what is shown with them, once they are; None: nothing is.
    """

    workspace: Workspace
    look: Look | None
    accept_smaller: bool
    followed: dict[str, Followed]
    side_by_side: SideBySide
    beside: StageBeside | None = None
    results: dict[str, Outcome[SyncResult]] = field(
        default_factory=dict[str, "Outcome[SyncResult]"]
    )

    def sync(self, group: LogGroup) -> Iterator[Outcome[SyncResult]]:
        """What became of each table of the group. One that was loaded, or moved, by what was done
        for others, and that failed then, is among them too."""
        asked = {contract.name for contract in group.all}
        ready = [*group.followed]
        if group.altered:
            self._load(group.altered)
            ready = self._follow_again([*ready, *self._loaded(group.altered)])
        self._show(ready)
        if group.others:
            self._load(group.others)
            if loaded := self._loaded(group.others):
                again = self._follow_again([*ready, *loaded])
                names = {contract.name for contract in loaded}
                self._show([c for c in again if c.name in names or self._has_new(c)])
        for name, synced in self.results.items():
            if name in asked or synced.error is not None:
                yield synced

    def _load(self, contracts: Sequence[TableContract]) -> None:
        for synced in self.side_by_side(contracts, self._load_one):
            self.results[synced.name] = synced

    def _load_one(self, contract: TableContract, report: OnProgress) -> SyncResult:
        smaller = self.accept_smaller
        return load_table(self.workspace, contract, report, accept_smaller=smaller, look=self.look)

    def _loaded(self, contracts: Sequence[TableContract]) -> list[TableContract]:
        return [c for c in contracts if self.results[c.name].error is None]

    def _follow_again(self, contracts: Sequence[TableContract]) -> list[TableContract]:
        """Read the log for these tables, and those of the source that were unchanged, to one end;
        those that reached it, and that there is something to do with."""
        if not contracts:
            return []
        seen = self.look.unchanged.values() if self.look is not None else ()
        names = {contract.name for contract in contracts}
        quiet = [u.contract for u in seen if u.contract.by_log and u.contract.name not in names]
        quiet = [contract for contract in quiet if contract.source == contracts[0].source]
        again = follow_tables(self.workspace, [*contracts, *quiet])
        for name, found in again.items():
            if (before := self.followed.get(name)) is not None:
                loads, changes = before.loads + found.loads, before.changes + found.changes
                found = replace(found, loads=loads, changes=changes)
            self.followed[name] = found
        for contract in contracts:
            if contract.name not in again:
                self._note(Outcome(contract.name, error=_not_there(contract)))
        return [
            *(c for c in contracts if c.name in again),
            *(c for c in quiet if c.name in again and self._has_new(c)),
        ]

    def _has_new(self, contract: TableContract) -> bool:
        return bool(self.followed[contract.name].loads)

    def _show(self, contracts: Sequence[TableContract]) -> None:
        """Fold tables where nobody sees it, and show them at one moment. One that its sync, or
        another run, brought further than the others has all of them go there first, once."""
        with ExitStack() as holding:
            staged = self._stage(contracts, holding)
            further = [one for one in staged if self._is_further(one.contract)]
            if not further:
                beside, self.beside = self.beside, None
                self._show_staged(staged, holding, beside() if beside is not None else ())
                return
            for one in staged:
                self._note(Outcome(one.contract.name, one.set_aside()))
                self._forget_loads(one.contract.name)
            holding.pop_all()
            logger.info("%s is further in its log: all are read on", further[0].contract.name)
            self.beside = None  # it stays where the log was read to before
            contracts = self._follow_again([one.contract for one in staged])
            self._show_staged(self._stage(contracts, holding), holding)

    def _stage(self, contracts: Sequence[TableContract], holding: ExitStack) -> list[StagedSync]:
        staged: list[StagedSync] = []
        lock = threading.Lock()

        def begin(contract: TableContract, report: OnProgress) -> None:
            terms = LoadTerms(progress=report, accept_smaller=self.accept_smaller)
            parts = (self.workspace, contract, terms, self.look, self.followed[contract.name])
            one = StagedSync.begin(*parts)
            with lock:
                staged.append(one)
                holding.callback(one.abandon)

        for synced in self.side_by_side(contracts, begin):
            if synced.error is not None:
                self._note(synced)
        return staged

    def _is_further(self, contract: TableContract) -> bool:
        place = self.followed[contract.name].place
        now = place_of(self.workspace.ledger, contract.name)
        if place is None or now is None:
            return False
        return now.made != place.made or place.log < now.log

    def _show_staged(
        self,
        staged: Sequence[StagedSync],
        holding: ExitStack,
        beside: Sequence[StagedBeside] = (),
    ) -> None:
        holding.pop_all()  # `show_staged` gives every lease back
        for synced in show_staged(self.workspace, staged, beside):
            self._note(synced)
            self._forget_loads(synced.name)

    def _forget_loads(self, name: str) -> None:
        """What is in a table's result is not counted again."""
        self.followed[name] = replace(self.followed[name], loads=(), changes=())

    def _note(self, synced: Outcome[SyncResult]) -> None:
        before = self.results.get(synced.name)
        if synced.result is not None and before is not None and before.result is not None:
            synced = replace(synced, result=add_results(before.result, synced.result))
        self.results[synced.name] = synced


def _not_there(contract: TableContract) -> SourceError:
    return SourceError(
        f"table {contract.name}: its log was not followed to where the other tables of its source "
        "were brought, so it shows what it showed",
        table=contract.name,
        next_step="Sync again: that says why",
        retryable=True,
    )
