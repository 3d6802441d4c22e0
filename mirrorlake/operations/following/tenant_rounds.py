"""Tables of tenants in the rounds over one source's log.

Rounds load and fold what the log has of their rows. What else there is to do the table's own sync
does, beside the rounds and of this source alone: it finds tenants that joined or are gone, copies
those that are to be read as a whole, and names those that fail. It runs first, once a statement
asks for it, again and again while tenants fail, and now and then for what no log tells.

What belongs here: when a table's sync is due, and what a round shows. What doesn't: what is loaded
(`mirrorlake.operations.following.live_tenants`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion
from mirrorlake.errors import LeaseHeld, LedgerError, MirrorlakeError, SourceError
from mirrorlake.operations.following.live_stream import LiveStream
from mirrorlake.operations.following.live_tenants import LiveTenants
from mirrorlake.operations.following.read_beside import ReadBeside
from mirrorlake.operations.following.retries import BACKOFF, Retry
from mirrorlake.operations.following.turns import Turns
from mirrorlake.operations.loading.results import SyncResult
from mirrorlake.operations.loading.staged_sync import StagedBeside, show_staged
from mirrorlake.operations.tenants.looks import mass_drops
from mirrorlake.operations.tenants.results import SyncTerms, TenantsSynced
from mirrorlake.operations.tenants.show import StagedTenants, TenantsOnShow, record_on_show
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.runtime.plural import plural
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

LOOK_EVERY: Final = 300.0
"""Seconds after which a table's sync looks at its tenants, whatever the log says."""
NOTED_EVERY: Final = 30.0
"""Seconds between two notes of how far tenants without a change were followed: a row each."""
_EMPTY: Final = 10.0
"""The same while there are none: nothing of a log is read for them alone."""
_AGAIN: Final = (*BACKOFF, 60.0, LOOK_EVERY)
_LISTED: Final = 3
"""So many tenants that fail are named; `mirrorlake tenants --failed` lists all."""
TenantSyncs: TypeAlias = ReadBeside[Turns, "TenantsSynced | MirrorlakeError"]
"""Syncs of tables of tenants that one follower has begun."""


@dataclass(frozen=True)
class ReadingBeside:
    """What one follower has begun to read beside its rounds: copies of tables, and syncs of tables
    of tenants."""

    copies: ReadBeside[TableContract, Outcome[SyncResult]]
    syncs: TenantSyncs


def sync_source(workspace: Workspace, turns: Turns) -> TenantsSynced | MirrorlakeError:
    """Sync the tenants of one source, of one table; what became of them."""
    terms, wait = SyncTerms(sources=frozenset({turns.source})), workspace.config.ledger.wait
    try:
        with workspace.spark.own_session():
            return sync_tenants(
                *(workspace, turns.table, terms),
                take=lambda _: turns.take(wait.total_seconds()),
            )
    except MirrorlakeError as error:
        return error


@dataclass
class TenantsDone:
    """What a round did of tables of tenants, by table.

    Attributes:
        rows: that raw got.
        tenants: of how many it got some.
        changed: what became of tenants that were not merely followed, in words.
        failed: errors.
        shown: tables whose rows in deduped are others now → how readers got to see it.
    """

    rows: Counter[str] = field(default_factory=Counter[str])
    tenants: Counter[str] = field(default_factory=Counter[str])
    changed: dict[str, str] = field(default_factory=dict[str, str])
    failed: dict[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])
    shown: dict[str, str] = field(default_factory=dict[str, str])


class TenantRounds:
    """Tables of tenants that follow one source's log, while its session lasts.

    Args:
        syncs: those that are under way beside the rounds.
    """

    def __init__(
        self,
        workspace: Workspace,
        connection: Connection[Any],
        tables: Sequence[TenantTable],
        source: SourceConfig,
        syncs: TenantSyncs,
    ) -> None:
        self._workspace, self._connection = workspace, connection
        self._source, self._syncs = source, syncs
        self._turns = {one.name: Turns(workspace, one, source.name) for one in tables}
        self._next = dict.fromkeys(self._turns, Retry())
        self._partly: set[str] = set()
        self._noted = dict.fromkeys(self._turns, 0.0)
        self.done = TenantsDone()

    @property
    def tables(self) -> list[TenantTable]:
        return [turns.table for turns in self._turns.values()]

    @property
    def on_show(self) -> list[TenantTable]:
        """Those of which this round showed something."""
        return [table for table in self.tables if table.name in self.done.shown]

    def left_out(self, stream: LiveStream | None) -> list[str]:
        """The tables of which some tenants are of an earlier place of the log than the others."""
        there = {one.name for one in stream.tenants} if stream is not None else set[str]()
        there -= self._partly | self.done.failed.keys()
        return [name for name in self._turns if name not in there]

    # --- their own syncs --------------------------------------------------------------------------

    def heed(self, left: Mapping[str, LiveTenants]) -> None:
        """Have the syncs of these tables, which left the log, take them up."""
        for name, live in left.items():
            self._count(live)
            self._next[name] = Retry()

    def begin_syncs(self, stream: LiveStream | None) -> None:
        """Begin the syncs that are due; their tables leave the log meanwhile."""
        due = [n for n, one in self._next.items() if one.is_due and n not in self._syncs.names]
        if stream is not None:
            for name in due:
                stream.drop_tenants(name)
        self._syncs.begin(self._workspace, [self._turns[name] for name in due])

    def take_synced(self) -> list[LiveTenants]:
        """What can be followed of tables whose syncs have ended since."""
        found: list[LiveTenants] = []
        for name, ended in self._syncs.take().items():
            if name not in self._turns:
                continue  # the contract file has it no more
            if isinstance(ended, MirrorlakeError):
                self._note_failure(name, ended)
                continue
            self._note_synced(name, ended)
            try:
                live = LiveTenants.begin(self._turns[name], self._source, self._connection)
            except MirrorlakeError as error:
                self._note_failure(name, error)
                continue
            found.append(live)
        return found

    def note_joined(self, live: LiveTenants, *, joined: bool) -> None:
        """When the next sync of a table is due whose tenants are followed now, or can't be."""
        self._partly.discard(live.name)
        if live.missing or not joined:
            self._partly.add(live.name)
            self._next[live.name] = self._next[live.name].next(_AGAIN)
        else:
            pause = LOOK_EVERY if live.members else _EMPTY
            self._next[live.name] = Retry(time.monotonic() + pause)

    def _note_synced(self, name: str, synced: TenantsSynced) -> None:
        done = self.done
        if synced.rows:
            done.rows[name] += synced.rows
        if synced.read:
            done.tenants[name] += synced.read
        if synced.folded or synced.clean_written:
            done.shown[name] = ""
        if words := _words_of(synced):
            done.changed[name] = words
        if synced.failed:
            done.failed[name] = self._of_tenants(name, synced)

    def _of_tenants(self, name: str, synced: TenantsSynced) -> SourceError:
        named = [f"{tenant}: {why}" for tenant, why in synced.failed.items()]
        more = f"; and {len(named) - _LISTED} more" if len(named) > _LISTED else ""
        are = "is" if len(named) == 1 else "are"
        return SourceError(
            f"table {name}: {plural(len(named), 'tenant')} failed and {are} tried again, the "
            f"others are followed: {'; '.join(named[:_LISTED])}{more}",
            table=name,
            source=self._source.name,
            retryable=True,
        )

    def _note_failure(self, name: str, error: MirrorlakeError) -> None:
        if isinstance(error, LeaseHeld):  # another run's work, and no failure
            logger.info("table %s: %s", name, error)
            self._next[name] = self._next[name].next()
            return
        if isinstance(error, LedgerError):
            raise error
        self.done.failed[name] = error
        self._next[name] = self._next[name].next(_AGAIN)

    def reported(self) -> TenantsDone:
        """What was done since the last report."""
        done, self.done = self.done, TenantsDone()
        return done

    # --- what is shown ----------------------------------------------------------------------------

    def has_loaded(self, stream: LiveStream) -> bool:
        """Whether something was loaded that is not shown."""
        return any(live.touched for live in stream.tenants)

    def stage(self, stream: LiveStream) -> list[StagedBeside]:
        """Fold what was loaded where nobody sees it; it is to be shown with what else the round
        folds."""
        staged = (self._fold(live, stream, apart=True) for live in stream.tenants if live.touched)
        return [one for one in staged if one is not None]

    def show(self, stream: LiveStream) -> None:
        """Show what was loaded and is not shown yet; write down how far tenants were followed, now
        and then."""
        if sum(bool(live.touched) for live in stream.tenants) > 1:
            for _ in show_staged(self._workspace, (), self.stage(stream)):
                pass  # no table is among them
        for live in stream.tenants:
            if live.touched and (one := self._fold(live, stream, apart=False)) is not None:
                one.finish("")
        if stream.is_apart:
            return  # some are further than others: no one place is true of all
        for live in stream.tenants:
            if live.members and time.monotonic() - self._noted[live.name] >= NOTED_EVERY:
                self._note(live, stream)

    def _fold(self, live: LiveTenants, stream: LiveStream, *, apart: bool) -> _Staged | None:
        """Fold what was loaded of a table, whose lease is held then; None where that can't be."""
        self._count(live)
        leased, table, as_of = self._leased(live, stream), live.turns.table, stream.as_of
        if leased is None or as_of is None:
            return None
        try:
            live.record(leased, as_of, everyone=False)
            kept = mass_drops(leased.ledger.tenants(table.name), (), ())[1]
            kept = kept if table.dropped == "remove" else set()
            folded = StagedTenants.begin(leased, table, kept, apart=apart)
        except MirrorlakeError as error:
            self.leave(live, stream, error)
            return None
        return _Staged(self, live, stream, folded)

    def _count(self, live: LiveTenants) -> None:
        if live.rows:
            self.done.rows[live.name] += live.rows
            self.done.tenants[live.name] += len(live.touched)
            live.rows = 0

    def _leased(self, live: LiveTenants, stream: LiveStream) -> Workspace | None:
        try:
            leased = live.hold()
        except LeaseHeld as error:
            # What was loaded is folded by a later round, or by who has the lease.
            logger.info("table %s: %s", live.name, error)
            return None
        except MirrorlakeError as error:
            self.leave(live, stream, error)
            return None
        if leased is None:
            stream.leave_tenants(live.name)  # another run was here
        return leased

    def leave(self, live: LiveTenants, stream: LiveStream, error: MirrorlakeError) -> None:
        """Follow a table no further, until what failed is tried again by its sync."""
        self._note_failure(live.name, error)
        stream.drop_tenants(live.name)

    def _note(self, live: LiveTenants, stream: LiveStream) -> None:
        leased, as_of = self._leased(live, stream), stream.as_of
        if leased is not None and as_of is not None:
            live.record(leased, as_of, everyone=True)
            self._noted[live.name] = time.monotonic()
            live.release()

    def note_shown(self, live: LiveTenants, shown: TenantsOnShow, views: str, how: str) -> None:
        """Main shows what was folded of a table."""
        if views:
            self.done.changed[live.name] = views
        if shown.folded.moved:
            self.done.shown[live.name] = how
        live.touched.clear()


@dataclass(frozen=True)
class _Staged:
    """A table of tenants that is folded, and whose lease is held."""

    rounds: TenantRounds
    live: LiveTenants
    stream: LiveStream
    folded: StagedTenants

    @property
    def name(self) -> str:
        return self.live.name

    @property
    def versions(self) -> Sequence[StagedVersion]:
        """See `StagedBeside.versions`."""
        fold = self.folded.fold
        return () if fold is None or fold.staged is None else (fold.staged,)

    def check(self) -> None:
        """See `StagedBeside.check`."""
        self.folded.workspace.check_lease()

    def records(self) -> list[Callable[[], object]]:
        """See `StagedBeside.records`."""
        return [] if self.folded.fold is None else self.folded.fold.records()

    def finish(self, how: str) -> None:
        """See `StagedBeside.finish`."""
        leased, table = self.folded.workspace, self.folded.table
        try:
            shown = self.folded.finish()
            record_on_show(leased, table, shown.shapes)
            self.rounds.note_shown(self.live, shown, "; ".join(leased.views), how)
        except MirrorlakeError as error:
            self.leave(error)
        finally:
            self.live.release()

    def leave(self, error: MirrorlakeError) -> None:
        """See `StagedBeside.leave`."""
        if self.folded.fold is not None:
            self.folded.fold.abandon()
        self.rounds.leave(self.live, self.stream, error)


def _words_of(synced: TenantsSynced) -> str:
    """What became of tenants that were not merely followed."""
    joined, again = len(synced.joined), len(synced.replaced)
    parts = [
        f"{plural(joined, 'tenant')} joined" if joined else "",
        f"{plural(again, 'tenant')} could not be followed: {_first(synced)}" if again else "",
        f"{plural(len(synced.gone), 'tenant')} gone" if synced.gone else "",
        *synced.put_right,
    ]
    return "; ".join(filter(None, parts))


def _first(synced: TenantsSynced) -> str:
    name, why = next(iter(synced.replaced.items()))
    more = f"; and {len(synced.replaced) - 1} more" if len(synced.replaced) > 1 else ""
    return f"{name}: {why}{more}"
