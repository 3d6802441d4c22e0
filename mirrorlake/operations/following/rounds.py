"""Rounds over one source's log: what came is loaded, and what was loaded is folded.

What a round does not do itself (a first copy, a table to be read again, layers that other hands
moved) it leaves to the sync of that table; the others go on.

What belongs here: one round after another, while the server is there. What doesn't: what is waited
for (`mirrorlake.operations.following.follower`), and loads
(`mirrorlake.operations.following.live_stream`).
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.errors import LeaseHeld, LedgerError, MirrorlakeError, SourceError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger.records import Lease, Load
from mirrorlake.operations.following.followed_round import FollowedRound, words_of
from mirrorlake.operations.following.followed_tables import FollowedTables
from mirrorlake.operations.following.lag import age_at
from mirrorlake.operations.following.live_stream import LiveStream, Round, distance
from mirrorlake.operations.following.retries import Retries, Retry
from mirrorlake.operations.following.round_upkeep import RoundUpkeep
from mirrorlake.operations.following.tenant_rounds import ReadingBeside, TenantRounds
from mirrorlake.operations.loading.binlog.following_table import FollowingTable
from mirrorlake.operations.loading.follow_log import Followed, follow_tables, resolve_following
from mirrorlake.operations.loading.moved_server import move_to_server, moved_tables
from mirrorlake.operations.loading.results import SyncResult, add_results
from mirrorlake.operations.loading.sync_tables import load_tables, sync_tables
from mirrorlake.operations.loading.sync_together import StageBeside, has_copy
from mirrorlake.operations.loading.unchanged import Look
from mirrorlake.operations.loading.workers import default_jobs
from mirrorlake.operations.other_writers.moved_lake import MovedTables
from mirrorlake.operations.publishers import publish_round
from mirrorlake.runtime.outcomes import Outcome
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from mirrorlake.sources.mysql.following.log_state import LogEnd, read_end, refuse_unfollowable
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, read_position
from mirrorlake.table.holds import refuse_held
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

MEETS: Final = 20
"""Rounds in which nothing is shown while some tables are further in the log than the others."""


class Rounds:
    """Following a source over one session, while it lasts.

    Args:
        lease: the follower's.
        limits: of a round.
        beside: what is read beside.
    """

    def __init__(
        self,
        workspace: Workspace,
        followed: FollowedTables,
        connection: Connection[Any],
        lease: Lease,
        limits: BatchLimits,
        beside: ReadingBeside,
    ) -> None:
        self._workspace, self._connection = workspace, connection
        self._lease, self._limits, self._copies = lease, limits, beside.copies
        self._source: SourceConfig = workspace.config.sources[followed.source]
        self._contracts = {contract.name: contract for contract in followed.tables}
        self._stream: LiveStream | None = None
        self._retries = Retries()
        # First what an earlier process left.
        self._unpublished = dict.fromkeys(self._contracts, Retry())
        # Loads that are in raw and not shown yet; and what else was done of a table for them.
        self._unshown: dict[str, tuple[Load, ...]] = {}
        self._changes: dict[str, tuple[str, ...]] = {}
        self._loaded: dict[str, SyncResult] = {}
        self._failed: dict[str, MirrorlakeError] = {}
        self._waited = 0
        self._upkeep = RoundUpkeep()
        self._moved = MovedTables()
        self._server = ""
        self._tenants = TenantRounds(
            workspace, connection, followed.tenants, self._source, beside.syncs
        )

    def close(self) -> None:
        """End the connection over which the log is read."""
        if self._stream is not None:
            self._stream.close()

    def open(self) -> None:
        """See that the log can be followed, and from where of which tables.

        Raises:
            SourceHeld: somebody asked to leave the source alone.
            SourceError: its log can't be followed.
        """
        ledger = self._workspace.ledger
        refuse_held(ledger, self._source.name)
        tables = {(one.database, one.table) for one in self._contracts.values()}
        refuse_unfollowable(self._connection, self._source, tables)
        self._server = read_position(self._connection).server
        self._follow(self._contracts)
        # Those of a run that died before it folded them.
        for name in ledger.unfolded_tables("deduped").intersection(self._followed()):
            self._retries[name] = Retry()

    def _followed(self) -> set[str]:
        tables = self._stream.tables if self._stream is not None else []
        return {table.contract.name for table in tables}

    def _follow(self, names: Iterable[str]) -> None:
        """Have tables followed from where they stand; the others need a sync first."""
        found: list[FollowingTable] = []
        seen, moved = read_position(self._connection), moved_tables(self._workspace.ledger)
        for name in names:
            contract = self._contracts[name]
            try:
                if name in moved:
                    with self._workspace.leased(contract, wait=False) as own:
                        move_to_server(own, self._connection, contract, seen)
                parts = (self._workspace, contract, self._connection, self._server)
                table = resolve_following(*parts)
            except LeaseHeld as error:
                logger.info("table %s: its log is not followed: %s", name, error)
                continue
            except (SourceError, LedgerError):
                raise
            except MirrorlakeError as error:
                logger.info("table %s: its log is not followed: %s", name, error)
                continue
            found += [table] if table is not None else []
        if not found:
            return
        self._opened().add(found)

    def _opened(self) -> LiveStream:
        if self._stream is None:
            seen, end = self._look()
            leased = partial(self._workspace.leased, wait=False)
            parts = (self._workspace, self._connection, leased, seen, end, self._source)
            self._stream = LiveStream(*parts, self._limits)
        return self._stream

    def _look(self) -> tuple[SourcePosition, LogEnd]:
        seen = read_position(self._connection)
        if seen.server != self._server:
            raise SourceError(
                f"source {self._source.name} is answered by server {seen.server}, and its log was "
                f"read from {self._server}",
                source=self._source.name,
                next_step="`mirrorlake accept` takes another server",
                retryable=True,
            )
        end = read_end(self._connection, self._source)
        return replace(seen, clock=end.clock), end

    # --- a round ----------------------------------------------------------------------------------

    def take(self) -> FollowedRound:
        """One round.

        Raises:
            SourceError: the server was lost, refused, or is held.
            LedgerError: the ledger failed, or another follower took over.
        """
        refuse_held(self._workspace.ledger, self._source.name)
        self._workspace.ledger.check_lease(self._lease)
        try:
            return self._take()
        finally:
            for tenants in self._stream.tenants if self._stream is not None else ():
                tenants.release()

    def _take(self) -> FollowedRound:
        began = time.monotonic()
        read = self._advance()
        read = self._bring_altered(self._away(copied=True)) or read
        loaded = time.monotonic()
        failpoint("follow.loaded")
        done = self._fold()
        # The others don't wait for copies; once one is there, all are at one place again.
        self._copies.begin(self._workspace, self._away(copied=False))
        self._tenants.begin_syncs(self._stream)
        if (joined := self._bring_copied()) is not None:
            read = joined
            done += self._fold()
        failpoint("follow.folded")
        failed = {one.name: one.error for one in done if one.error is not None}
        failed = self._publish(done) | self._failed | failed | self._tenants.done.failed
        self._failed.clear()
        of_log = [one for one in done if one.result is not None and one.result.window == "log"]
        shown = [*(self._contracts[one.name] for one in of_log), *self._tenants.on_show]
        self._upkeep.after(self._workspace, shown)
        return self._report(began, loaded, read, done, failed)

    def _advance(self) -> Round:
        """Load what the log has of the tables that are followed."""
        if self._stream is None:
            return Round()
        read = self._stream.advance(*self._look())
        for name, loads in read.loads.items():
            self._unshown[name] = (*self._unshown.get(name, ()), *loads)
        # What other hands moved, be MySQL quiet or not, its sync puts right.
        config, ledger = self._workspace.config, self._workspace.ledger
        moved = self._moved.find(config, ledger, self._followed())
        self._stream.leave(read.altered | moved)
        self._tenants.heed(read.left)
        return read

    def _away(self, *, copied: bool) -> list[TableContract]:
        """The tables that can't merely be followed, and are to be synced now.

        Args:
            copied: whether those that have a copy, or the others.
        """
        ledger, followed = self._workspace.ledger, self._followed()
        away = self._contracts.keys() - followed - self._copies.names
        names = [n for n in self._contracts if n in away and self._retries.is_due(n)]
        found = [self._contracts[n] for n in names if not ledger.is_held(n)]
        return [c for c in found if has_copy(ledger, c) == copied and c.name not in self._failed]

    def _bring_altered(self, contracts: Sequence[TableContract]) -> Round | None:
        """Load what tables need before they can be followed, and follow them with the others; None
        where there are none. Those of which the log tells that they are to be copied are left.
        """
        if not contracts:
            return None
        ready = follow_tables(self._workspace, contracts)
        for name, found in ready.items():
            self._unshown[name] = (*self._unshown.get(name, ()), *found.loads)
            self._changes[name] = (*self._changes.get(name, ()), *found.changes)
        left = [c for c in contracts if c.name not in ready]
        left = [c for c in left if has_copy(self._workspace.ledger, c)]
        jobs = default_jobs(self._workspace.config, left) if left else 1
        self._note_loaded(load_tables(self._workspace, left, jobs=jobs, look=Look()))
        return self._follow_loaded(
            [c.name for c in contracts if c.name in ready or c.name in self._loaded]
        )

    def _bring_copied(self) -> Round | None:
        """Follow tables with the others whose copies are there, or whose tenants were synced; None
        where there are none."""
        alone = bool(self._copies.names) and not self._followed() and not self._tenants.tables
        copied = self._copies.take(await_one=alone)
        self._note_loaded(copied.values())
        tenants = self._tenants.take_synced()
        for one in tenants:
            self._tenants.note_joined(one, joined=self._opened().add_tenants(one))
        if not copied and not tenants:
            return None
        names = [name for name in copied if name in self._contracts and name in self._loaded]
        return self._follow_loaded(names)

    def _note_loaded(self, done: Iterable[Outcome[SyncResult]]) -> None:
        for one in done:
            if one.error is not None:
                self._note_failure(one.name, one.error)
            elif one.result is not None:
                self._loaded[one.name] = one.result
                self._unshown.setdefault(one.name, ())

    def _follow_loaded(self, names: Sequence[str]) -> Round:
        if names:
            self._follow(names)
        for name in set(names).difference(self._followed()):
            self._retries.again(name)
        return self._advance()

    def _note_failure(self, name: str, error: MirrorlakeError) -> None:
        if isinstance(error, LedgerError) and not isinstance(error, LeaseHeld):
            raise error
        self._failed[name] = error
        self._retries.again(name)

    def _fold(self) -> list[Outcome[SyncResult]]:
        """Fold what was loaded, and show it: all of it at one place of the log."""
        stream = self._stream
        if stream is None or (stream.is_apart and self._waited < MEETS):
            return self._fold_tables(None)
        loaded = self._tenants.has_loaded(stream)
        done = self._fold_tables(partial(self._tenants.stage, stream) if loaded else None)
        self._tenants.show(stream)
        self._tenants.heed(stream.round.left)
        return done

    def _fold_tables(self, beside: StageBeside | None) -> list[Outcome[SyncResult]]:
        stream = self._stream
        if stream is None or stream.as_of is None or stream.place is None:
            return []
        followed = self._followed()
        due = {name for name in self._retries if self._retries.is_due(name)}
        names = followed.intersection({*self._unshown, *due})
        names = {n for n in names if n in due or n not in self._retries}
        if not names or (stream.is_apart and self._waited < MEETS):
            # Some are further than others: what is shown is of one place.
            self._waited += bool(names)
            return []
        self._waited = 0
        chosen = [contract for name, contract in self._contracts.items() if name in names]
        place = None if stream.is_apart else stream.place
        known = {
            name: Followed(
                self._unshown.get(name, ()), stream.as_of, self._changes.get(name, ()), place
            )
            for name in names
        }
        jobs = default_jobs(self._workspace.config, chosen)
        done: list[Outcome[SyncResult]] = []
        for one in sync_tables(
            self._workspace, chosen, jobs=jobs, look=Look(), followed=known, beside=beside
        ):
            name = one.name
            self._unshown.pop(name, None)
            self._changes.pop(name, None)
            before = self._loaded.pop(name, None)
            if before is not None and one.result is not None:
                one = replace(one, result=add_results(before, one.result))
            done.append(one)
        self._heed(done)
        return done

    def _heed(self, done: Sequence[Outcome[SyncResult]]) -> None:
        """What became of tables that were synced: which to follow now, which to try again when."""
        again: list[str] = []
        for one in done:
            name = one.name
            if one.error is not None:
                self._note_failure(name, one.error)
                continue
            if one.result is not None and one.result.window not in ("log", "unchanged"):
                again.append(name)
            self._retries.pop(name, None)
        if again:
            self._follow(again)
        for name in set(again).difference(self._followed()):
            self._retries.again(name)

    def _publish(self, done: Sequence[Outcome[SyncResult]]) -> dict[str, MirrorlakeError]:
        """Publish what was loaded, where that is done by round, and what is left of earlier ones;
        what failed, by table. It is tried again, whether or not its table changes."""
        synced = {one.name for one in done}
        names = {n for n in self._contracts if n in synced and n not in self._unpublished}
        names |= {n for n, retry in self._unpublished.items() if retry.is_due}
        if not names:
            return {}
        found = publish_round(self._workspace, [self._contracts[name] for name in sorted(names)])
        failed = dict(found.failures)
        for name in names:
            retry = self._unpublished.pop(name, Retry())
            if name in failed:
                self._unpublished[name] = retry.next()
            elif name in found.waiting:
                self._unpublished[name] = Retry().next()
        return failed

    def _report(
        self,
        began: float,
        loaded: float,
        read: Round,
        done: Sequence[Outcome[SyncResult]],
        failed: Mapping[str, MirrorlakeError],
    ) -> FollowedRound:
        end, stream = read_end(self._connection, self._source), self._stream
        place = stream.place.log if stream is not None and stream.place is not None else None
        results = [one.result for one in done if one.result is not None]
        rows: Counter[str] = Counter()
        for result in (one for one in results if one.unchanged is None):
            rows[result.table] += result.rows
        behind = [n for n in self._contracts if n in failed or n not in self._followed()]
        tenants = self._tenants.reported()
        return FollowedRound(
            at=end.clock,
            lag_seconds=age_at(stream.as_of if stream is not None else None, end.clock),
            lag_bytes=distance(end.files, place, end.position) if place is not None else None,
            rows=dict(rows + tenants.rows),
            tenants=dict(tenants.tenants),
            changed={r.table: words for r in results if (words := words_of(r))} | tenants.changed,
            failed=failed,
            seconds=round(time.monotonic() - began, 3),
            load_seconds=round(loaded - began, 3),
            place=str(place or ""),
            reached=not read.enough,
            shown=max((*(r.shown for r in results), *tenants.shown.values()), default=""),
            left_out=(*behind, *self._tenants.left_out(stream)),
        )
