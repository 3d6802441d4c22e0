"""Making a cut: tables are followed to one place of their log, folded there, and tagged.

A cut is listed once it is whole. A run that dies leaves tags, which the next cut of its source
drops. No other process follows the log meanwhile: it would move tables on.

What belongs here: which tables are at the place, and their tags. What doesn't: what is compared
there (`mirrorlake.cuts.prove`).
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config import Config, TableContract
from mirrorlake.cuts.config import CutsConfig
from mirrorlake.cuts.drop import drop_cut, drop_old
from mirrorlake.cuts.foreign_keys import SeenKeys, check_keys, read_keys
from mirrorlake.cuts.ledger import Cut, Cuts, CutTable
from mirrorlake.cuts.moment import Moment, open_moment
from mirrorlake.cuts.others import add_others, other_tables
from mirrorlake.cuts.prove import prove_table
from mirrorlake.cuts.published import begin_published, publish_cut
from mirrorlake.cuts.shown import ShownCut, show_newest, why_not_shown
from mirrorlake.cuts.tags import leave_out, put_back_tags, shown_of, tag_shown
from mirrorlake.errors import ConfigError, LakeError, LeaseHeld, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.operations.following.followed_tables import FollowedTables, followed_tables
from mirrorlake.operations.following.log_owner import WANTED_FOR, follower_lease, has_log, want_log
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.follow_log import Followed, follow_tables
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.loading.workers import default_jobs
from mirrorlake.operations.publishers import PublishedVersions
from mirrorlake.runtime.plural import plural
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.table.log_place import place_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

TRIES: Final = 3
"""How many places in the log are tried while other runs keep moving tables past them."""
WAITS: Final = WANTED_FOR.total_seconds()
_PAUSE: Final = 0.5
NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,58}")
OnCutStep = Callable[[str], None]
"""Told what is done next, in words."""


@dataclass(frozen=True)
class CutTerms:
    """How a cut is made.

    Attributes:
        name: by default the source's and the second's.
        keep: after which time the next cut of the source drops it; None: by hand.
        prove: whether every row of it is compared with MySQL.
        lock: whether writers of MySQL may be held up for that.
        others: whether tables of other modes are synced before, and are in the cut where they equal
            MySQL at its place; needs ``prove``.
    """

    name: str | None = None
    keep: timedelta | None = None
    prove: bool = False
    lock: bool = False
    others: bool = False


@dataclass(frozen=True)
class MadeCut:
    """A cut that was made just now.

    Attributes:
        left_out: tables that follow the log and are not in it → why.
        near: tables of other modes that were asked for, and are not in it → how far from it.
        not_asked: tables of other modes, where they were not asked for.
        tenants: tables of tenants that follow the log: no cut has them.
        tries: how often a place was taken.
        shown: where readers of the newest cut see it; None where they don't.
        not_shown: why they keep the one before it; None where they see this one, or the section
            `cuts` has no such readers.
        published: what of it is outside of the lake, too.
    """

    cut: Cut
    left_out: dict[str, str]
    near: dict[str, str]
    tries: int
    shown: ShownCut | None = None
    not_shown: str | None = None
    published: PublishedVersions = field(default_factory=PublishedVersions)
    not_asked: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()


class _MovedOn(Exception):
    """Another run brought a table beyond the cut's place: no error, but a reason to try again."""


def make_cut(workspace: Workspace, source: str, terms: CutTerms, say: OnCutStep) -> MadeCut:
    """Bring the tables that follow a source's log to one place of it, and tag them there.

    Raises:
        ConfigError: none follows it, or the name is none.
        LeaseHeld: a process follows the log.
        LedgerError: there is a cut of this name.
        SourceError: the source can't be read, or does not say where its log is.
        LakeError: no table could be brought there.
    """
    followed = followed_of_cuts(workspace.config, source)
    contracts = followed.tables
    if terms.name is not None and not NAME.fullmatch(terms.name):
        raise ConfigError(
            f"{terms.name!r} is no name of a cut",
            next_step="Use small letters, digits and _, a letter first, up to 59 of them",
        )
    if terms.name is not None:
        Cuts(workspace.ledger).refuse_taken(terms.name)
    with _alone(workspace, source, say):
        drop_old(workspace, source)
        of_other_modes = other_tables(workspace.config, source)
        others = of_other_modes if terms.others else []
        say(f"syncing {plural(len(contracts) + len(others), 'table')}")
        failed = _sync(workspace, [*others, *contracts])
        making = _Making(workspace, source, terms, say, others)
        for number in range(1, TRIES + 1):
            made = making.attempt(contracts, failed, last=number == TRIES)
            if made is not None:
                names = () if terms.others else tuple(one.name for one in of_other_modes)
                tenants = tuple(one.name for one in followed.tenants)
                cut = MadeCut(*made, tries=number, not_asked=names, tenants=tenants)
                shown = _shown(workspace, cut)
                return replace(shown, published=publish_cut(workspace, shown.cut))
    raise AssertionError("unreachable")


def followed_of_cuts(config: Config, source: str) -> FollowedTables:
    """What follows the log of a source whose tables cuts have versions of.

    Raises:
        ConfigError: there is no such source, or none of its tables follows its log.
    """
    followed = followed_tables(config, source)
    if not followed.tables:
        names = ", ".join(table.name for table in followed.tenants)
        raise ConfigError(
            f"source {source}: only tables of tenants follow its log ({names}), and no cut has "
            "their versions",
            next_step="Write `mode: binlog` for a table of its own (docs/binlog.md)",
        )
    return followed


def _shown(workspace: Workspace, made: MadeCut) -> MadeCut:
    """Show a cut to readers of the newest one, where there are to be any. The cut is made, whatever
    becomes of that."""
    if not workspace.config.section(CutsConfig).of(made.cut.source).at_cut:
        return made
    why = why_not_shown(made.cut, made.left_out)
    if why is None:
        try:
            shown = show_newest(workspace, made.cut)
            drop_old(workspace, made.cut.source)  # one that was shown until now
            return replace(made, shown=shown)
        except MirrorlakeError as error:
            why = str(error)
    return replace(made, not_shown=why)


@contextmanager
def _alone(workspace: Workspace, source: str, say: OnCutStep) -> Iterator[None]:
    """No other process follows the log while the block lasts: one that does leaves it for so long
    when its round ends.

    Raises:
        LeaseHeld: it does not.
    """
    ledger, deadline, asked = workspace.ledger, time.monotonic() + WAITS, False
    with ExitStack() as holding:
        while True:
            try:
                holding.enter_context(ledger.lease(follower_lease(source), workspace.run_id))
                break
            except LeaseHeld as error:
                if time.monotonic() > deadline:
                    raise LeaseHeld(
                        f"source {source}: another process follows its log, or makes a cut, and "
                        f"did not leave it within {WAITS:.0f} s: {error.message}",
                        source=source,
                        next_step="Stop `mirrorlake follow` for it, then make the cut",
                        retryable=True,
                    ) from error
                if not asked:
                    say(f"waiting for the process that follows {source}")
                    want_log(ledger, source)
                    asked = True
            time.sleep(_PAUSE)
        has_log(ledger, source)
        yield


def _sync(workspace: Workspace, contracts: Sequence[TableContract]) -> dict[str, str]:
    """Bring tables to about now: those that can merely be followed are read, and folded once they
    are at the cut's place; first copies, statements and other modes take a whole sync. Why one
    could not be."""
    followed = follow_tables(workspace, contracts)
    others = [one for one in contracts if one.name not in followed]
    jobs = default_jobs(workspace.config, others) if others else 1
    done = list(sync_tables(workspace, others, jobs=jobs)) if others else []
    return {one.name: str(one.error) for one in done if one.error is not None}


@dataclass
class _Making:
    workspace: Workspace
    source: str
    terms: CutTerms
    say: OnCutStep
    others: Sequence[TableContract]
    cuts: Cuts = field(init=False)

    def __post_init__(self) -> None:
        self.cuts = Cuts(self.workspace.ledger)

    @cached_property
    def _older(self) -> list[Cut]:
        return self.cuts.all(self.source)

    def attempt(
        self, contracts: Sequence[TableContract], failed: dict[str, str], *, last: bool
    ) -> tuple[Cut, dict[str, str], dict[str, str]] | None:
        """One cut at the log's end as it is now, and what is not in it, and near it; None where a
        table was moved on by another run, and it is to be tried again."""
        before = {c.name: _newest(self.workspace, c) for c in contracts}
        config = self.workspace.config.sources[self.source]
        seen = read_keys(self.workspace, [*contracts, *self.others])
        with open_moment(config, seen=self.terms.prove, lock=self.terms.lock) as moment:
            self.say(f"following the log to {moment.end.position}")
            followed = follow_tables(self.workspace, contracts, ends={self.source: moment.end})
            there = [c for c in contracts if c.name in followed]
            left = {c.name: failed.get(c.name, _NOT_THERE) for c in contracts if c not in there}
            if not there:
                raise LakeError(
                    f"source {self.source}: no table could be followed to {moment.end.position}",
                    source=self.source,
                    next_step="`mirrorlake sync` says why",
                )
            cut, place = self._begun(moment, there[0])
            failpoint("cut.begun")
            self._show(there, followed)
            tables: list[CutTable] = []
            moved = False
            for number, contract in enumerate(there, 1):
                self.say(f"{number} of {len(there)}: {contract.name}")
                try:
                    found = self._tag(contract, cut, place, before[contract.name])
                    tables += [self._proved(contract, cut, moment, one) for one in found]
                except (_MovedOn, MirrorlakeError) as error:
                    moved = moved or isinstance(error, _MovedOn)
                    left[contract.name] = str(error)
                    leave_out(self.workspace, contract, cut)
            cut, again = replace(cut, tables=tuple(tables)), moved and not last
            if again or not tables:
                drop_cut(self.workspace, cut)
            if again:
                return None
            if not tables:
                name, why = next(iter(left.items()))
                raise LakeError(
                    f"source {self.source}: no table is at {cut.place}: {name}: {why}",
                    source=self.source,
                    next_step="`mirrorlake sync` says why",
                )
            near = add_others(self.workspace, self.others, moment, tables, cut, self.say)
            cut = replace(cut, tables=tuple(tables))
            return self._finished(cut, seen, moment), left, near

    def _show(self, contracts: Sequence[TableContract], followed: Mapping[str, Followed]) -> None:
        """Have readers see at one moment what was loaded up to there. A table that fails is folded,
        or refused, when it is to be tagged."""
        waiting = self.workspace.ledger.unfolded_tables("deduped")
        moved = [contract for contract in contracts if contract.name in waiting]
        if moved:
            jobs = default_jobs(self.workspace.config, moved)
            for _ in sync_tables(self.workspace, moved, jobs=jobs, followed=followed):
                pass

    def _finished(self, cut: Cut, seen: SeenKeys, moment: Moment) -> Cut:
        """A cut of which every table is tagged, listed."""
        self.cuts.add(cut.name, list(cut.tables))
        failpoint("cut.tagged")
        if seen.found:
            self.say(f"foreign keys: {len(seen.found)}")
        keys = check_keys(self.workspace, seen, cut.tables, moment.connection)
        self.cuts.add_keys(cut.name, keys)
        begin_published(self.workspace.config, self.workspace.ledger, cut)
        self.cuts.finish(cut.name)
        failpoint("cut.made")
        return replace(cut, foreign_keys=keys)

    def _begun(self, moment: Moment, first: TableContract) -> tuple[Cut, LogPlace]:
        place = place_of(self.workspace.ledger, first.name)
        assert place is not None  # noqa: S101 (it was followed just now)
        gtids = place.position.gtids
        now = datetime.now(UTC)
        at = moment.end.clock.replace(tzinfo=UTC)
        name = self.terms.name or self._free(f"{_plain(self.source)}_{now:%Y%m%d_%H%M%S}")
        cut = Cut(
            name=name,
            source=self.source,
            place=str(place.log),
            gtid=None if gtids is None else str(gtids),
            at=at,
            made_at=now,
            keep_until=None if self.terms.keep is None else now + self.terms.keep,
        )
        self.cuts.begin(cut)
        return cut, place

    def _free(self, name: str) -> str:
        """A name that no cut has: several may be made in a second."""
        taken = {*self.cuts.names(), *self.cuts.names(made=False)}
        others = (f"{name}_{number}" for number in itertools.count(2))
        return next(one for one in (name, *itertools.islice(others, 100)) if one not in taken)

    def _tag(
        self, contract: TableContract, cut: Cut, place: LogPlace, before: int
    ) -> list[CutTable]:
        """Fold a table to its place in the log, and tag what is shown there."""
        found: list[CutTable] = []

        def tag(leased: Workspace, _: Connection[Any], plan: ResolvedTable) -> None:
            refuse_elsewhere(leased, contract, place, before)
            found.extend(shown_of(leased, plan))
            tag_shown(leased, contract, cut, found)
            for older, one in put_back_tags(leased, contract, self._older):
                self.say(f"{one.identifier}: tag {older.tag} was moved or taken away: put back")

        fold_table(self.workspace, contract, tag)
        return found

    def _proved(self, contract: TableContract, cut: Cut, moment: Moment, one: CutTable) -> CutTable:
        if moment.connection is None:
            return one
        return prove_table(self.workspace, contract, moment.connection, cut, one)


_NOT_THERE = "its log was not followed to there: its next sync says why"


def refuse_elsewhere(
    workspace: Workspace, contract: TableContract, place: LogPlace, before: int
) -> None:
    """See that deduped has what was committed before a place of the log, and nothing else.

    Args:
        workspace: with the table's lease, under which it was just folded.
        before: the number of its newest load before that place was taken.

    Raises:
        LakeError: it is to be read again.
        _MovedOn: it has something else.
    """
    ledger = workspace.ledger
    if (mark := ledger.unproved(contract.name)) is not None:
        raise LakeError(f"it is to be read again: {mark.reason}", table=contract.name)
    at = place_of(ledger, contract.name)
    if at is None or at.log != place.log or at.made != place.made:
        raise _MovedOn(f"it is at {at.log if at else 'no place'} of its log, not at {place.log}")
    later = [x for x in ledger.successful_loads(contract.name) if x.seq > before]
    if other := next((x.window.kind for x in later if x.window.kind != "log"), None):
        # What such a load read was there when it read it, not at the place.
        raise _MovedOn(f"a load of another kind came meanwhile ({other})")
    if contract.name in ledger.unfolded_tables("deduped"):
        raise _MovedOn("a load of it is not folded")


def _newest(workspace: Workspace, contract: TableContract) -> int:
    found = workspace.ledger.last_load(contract.name, "success")
    return found.seq if found is not None else 0


def _plain(source: str) -> str:
    """A source's name as the beginning of a cut's."""
    text = re.sub(r"[^a-z0-9]+", "_", source.lower()).strip("_")
    return (text if text[:1].isalpha() else f"cut_{text}")[:40].strip("_")
