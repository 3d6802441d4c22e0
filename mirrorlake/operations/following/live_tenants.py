"""The tenants of one table on their way through a log that is held open.

Rounds load what the log has of their rows, and nothing else. Where there is more to do (a statement
that altered a tenant or made one, rows that can't be read, another run that was here) all of them
leave the log, at the place that the ledger has, and the table's own sync reads on from there.

What belongs here: what a round loads of them. What doesn't: their sync, and when it is due
(`mirrorlake.operations.following.tenant_rounds`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import LakeError, MirrorlakeError
from mirrorlake.ledger import TenantPlace
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.operations.following.turns import Turns
from mirrorlake.operations.loading.binlog.following_tenants import (
    FollowingTenant,
    Pieces,
    TenantsInLog,
    beginning_of,
)
from mirrorlake.operations.tenants.follow import (
    Following,
    TenantsFollowed,
    find_members,
    refuse_changed_server,
    take_followed,
)
from mirrorlake.operations.tenants.survey import TenantSurvey, survey_tenants
from mirrorlake.sources.mysql.binlog.log_batches import LogBatch, LoggedStatement
from mirrorlake.sources.mysql.binlog.statements import may_define
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.sources.mysql.sessions.connect import SourcePosition, read_position
from mirrorlake.table.tenants_in_log import SourcePlaces, newest_seq, read_places
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Known:
    """What the ledger has of the tenants of one source: whatever another run does changes it."""

    places: SourcePlaces
    tenants: Mapping[TenantPlace, tuple[object, ...]]


@dataclass
class LiveTenants:
    """The tenants of one source, of one table, that are followed from round to round.

    Attributes:
        members: those that are followed.
        place: how far the log was read for them; None of none.
        missing: whether there are tenants that are not followed.
        why: why they left the log, in words; empty while they are followed.
        touched: those of which something was loaded and is not shown yet.
        rows: that were loaded in this round.
    """

    turns: Turns
    source: SourceConfig
    connection: Connection[Any]
    group: TenantsInLog
    members: Sequence[FollowingTenant]
    missing: bool
    known: _Known
    place: LogPlace | None
    why: str = ""
    touched: set[TenantPlace] = field(default_factory=set[TenantPlace])
    rows: int = 0
    _leased: Workspace | None = None
    _holding: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def begin(cls, turns: Turns, source: SourceConfig, connection: Connection[Any]) -> LiveTenants:
        """The tenants that can be followed from where they stand. Any other whose copy a log
        continued is written down as to be read again.

        Raises:
            MirrorlakeError: another run has the table, or its source could not be read.
        """
        with turns.take() as leased:
            if leased.moved:
                raise _needs_sync(turns, "other hands moved its layers")
            settle_loads(leased, turns.table)
            survey = survey_tenants(leased, turns.table, (source.name,))
            if (lost := survey.lost.get(source.name)) is not None:
                raise lost
            refuse_changed_server(survey, source.name, read_position(connection).server)
            of = Following(leased, connection, turns.table, survey, source, {})
            group, members = find_members(of)
            there = {*survey.plans, *survey.failed}
            starts = [member.place for member in members]
            return cls(
                *(turns, source, connection, group, members),
                missing=len(there) > len(members),
                known=_known(leased, group),
                place=min(starts, key=lambda place: place.log) if starts else None,
            )

    @property
    def name(self) -> str:
        return self.turns.name

    # --- a round ----------------------------------------------------------------------------------

    def take(
        self,
        batch: LogBatch,
        members: Sequence[FollowingTenant],
        pieces: Pieces,
        moment: tuple[LogPlace, SourcePosition],
    ) -> bool:
        """Load what a batch has of these members; False where they are to leave the log, and of
        this batch nothing was taken into account that is not in the ledger.

        Args:
            members: those that the batch has changes of.
            moment: from where on the log is to be read then, and where the source stood.
        """
        if statement := self._first_for_a_sync(batch.statements):
            return self._leaves(f"a statement may have altered a tenant: {beginning_of(statement)}")
        new = [m for m in members if any(not p.last < m.place.log for p in pieces[m.name])]
        for member in new:
            if why := member.why_unreadable(pieces[member.name]):
                return self._leaves(f"{member.plan.name}: {why}")
        if not new:
            return True
        try:
            return self._load(new, pieces, moment)
        except MirrorlakeError as error:
            return self._leaves(str(error))

    def _load(
        self,
        members: Sequence[FollowingTenant],
        pieces: Pieces,
        moment: tuple[LogPlace, SourcePosition],
    ) -> bool:
        group = self.group
        if not self._hold():
            return self._leaves("another run was here")
        before = len(group.loads)

        def give_up(member: FollowingTenant, why: str) -> None:
            # Its sync reads this piece again, and has it read as a whole before others go on.
            raise _needs_sync(self.turns, f"{member.plan.name}: {why}")

        done = group.load(members, pieces, moment, give_up)
        receipts = [load.receipt for load in group.loads[before:]]
        self.rows += sum(receipt.rows for receipt in receipts if receipt is not None)
        self.touched |= group.touched
        if not done:
            return self._leaves(str(group.error))
        return True

    def _first_for_a_sync(self, statements: Iterable[LoggedStatement]) -> str | None:
        """The text of the first statement that may have altered a tenant, made one or taken one
        away."""
        table = self.turns.table.table
        for one in statements:
            if self.place is not None and one.transaction.at < self.place.log:
                continue
            if one.rows_unknown or may_define(one.text, [(None, table)]):
                return one.text
        return None

    def _leaves(self, why: str) -> bool:
        self.why = why
        logger.info("table %s: its own sync reads the log: %s", self.name, why)
        return False

    # --- the lease --------------------------------------------------------------------------------

    def _hold(self) -> bool:
        """Take the table's lease until the round's end, if it is not held yet; whether the ledger
        has of these tenants what it had when it was last given back."""
        if self._leased is not None:
            return True
        leased = self._holding.enter_context(self.turns.take())
        settle_loads(leased, self.turns.table)
        if leased.moved or _known(leased, self.group) != self.known:
            self._holding.close()
            return False
        self.group.workspace = self._leased = leased
        self.group.places = self.known.places
        self.group.seq = newest_seq(leased.ledger, self.turns.table)
        return True

    def hold(self) -> Workspace | None:
        """The workspace with the table's lease, until `release`; None where another run was here.

        Raises:
            MirrorlakeError: it can't be had.
        """
        return self._leased if self._hold() else None

    def release(self) -> None:
        """Give the lease back, if it is held."""
        leased, self._leased = self._leased, None
        if leased is not None and not self.why:
            self.known = _known(leased, self.group)
        self._holding.close()
        self.group.loads.clear()
        self.group.touched.clear()

    # --- how far ----------------------------------------------------------------------------------

    def record(self, leased: Workspace, at: datetime, *, everyone: bool) -> None:
        """Write down until when (UTC, by the source) those that had changes are what MySQL has, or
        all of them, and how far they were followed.

        Args:
            leased: with the table's lease.
            everyone: all; they are at one place then.
        """
        there = {(self.source.name, member.name[0]): member for member in self.members}
        chosen = there.values() if everyone else [there[p] for p in self.touched if p in there]
        if everyone and self.place is not None:
            self.group.record(self.members, self.place)
        unseen = TenantSurvey(servers={self.source.name: self.group.places.server})
        of = Following(leased, self.connection, self.turns.table, unseen, self.source, {})
        self.group.touched |= self.touched
        take_followed(of, self.group, chosen, at, TenantsFollowed())


def _known(leased: Workspace, group: TenantsInLog) -> _Known:
    table, ledger = group.table, leased.ledger
    tenants = {
        place: (one.load_id, one.log_place, one.version, one.terms, one.gone_at)
        for place, one in ledger.tenants(table.name).items()
        if place[0] == group.source
    }
    places = read_places(ledger, table, group.source, group.places.server)
    return _Known(places, tenants)


def _needs_sync(turns: Turns, why: str) -> LakeError:
    return LakeError(f"table {turns.name}: {why}", table=turns.name, retryable=True)
