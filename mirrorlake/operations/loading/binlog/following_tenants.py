"""The tenants of one table on their way through a source's log.

What belongs here: what is loaded of them, and what stops one. What doesn't: which tenants are
followed, and from where (`mirrorlake.operations.tenants.follow`), and the stream
(`mirrorlake.operations.loading.binlog.log_stream`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection
from typing_extensions import override

from mirrorlake.config import TableContract
from mirrorlake.config.contract import TenantTable
from mirrorlake.errors import MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger, Load, TenantPlace
from mirrorlake.load.following.log_rows import LogRows
from mirrorlake.load.tenants.log_load import TenantChanges, UnreadableChanges, load_tenant_changes
from mirrorlake.merge.tenant_due import add_due
from mirrorlake.operations.loading.binlog.following_table import InLog, LoggedName
from mirrorlake.operations.loading.binlog.held_changes import LoggedPiece
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.mysql.binlog.log_batches import LoggedStatement
from mirrorlake.sources.mysql.binlog.statements import may_define, mentions
from mirrorlake.sources.mysql.ddl.surroundings import read_surroundings
from mirrorlake.sources.mysql.following.altered_in_log import alter_by_log
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.sources.mysql.following.log_statements import moves_rows
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants_in_log import SourcePlaces, ended, record_places
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

ROWS_UNKNOWN = "a statement was logged without the rows that it changed"
Pieces = Mapping[LoggedName, Sequence[LoggedPiece]]
"""Changes by the table that they are of."""
GiveUp = Callable[["FollowingTenant", str], None]
"""What has a tenant read again as a whole, and why, and follows it no further."""


@dataclass
class TenantsInLog:
    """The tenants of one table that follow one source's log.

    Attributes:
        workspace: with the lease of the table of tenants, for as long as the log is read.
        places: how far they were followed, as the ledger has it.
        seq: the number of the table's newest load.
        loads: of their changes.
        touched: those that have some.
        lost: those that are to be read again as a whole → why.
        error: what stopped them all.
    """

    workspace: Workspace
    table: TenantTable
    source: str
    places: SourcePlaces
    seq: int
    loads: list[Load] = field(default_factory=list[Load])
    touched: set[TenantPlace] = field(default_factory=set[TenantPlace])
    lost: dict[TenantPlace, str] = field(default_factory=dict[TenantPlace, str])
    error: MirrorlakeError | None = None

    def load(
        self,
        members: Iterable[FollowingTenant],
        pieces: Pieces,
        moment: tuple[LogPlace, SourcePosition],
        give_up: GiveUp,
    ) -> bool:
        """Load the changes of whole transactions, those of one schema version at once; whether that
        was done. Else they are followed no further, and the ``error`` says why.

        Args:
            moment: from where on the log is to be read then, and where the source stood.
            give_up: called with a tenant whose changes can't be loaded, before those of others are.
        """
        try:
            self._load_all(members, pieces, moment, give_up)
        except MirrorlakeError as error:
            self.error = error
            logger.warning("table %s: its log is not followed: %s", self.table.name, error)
        return self.error is None

    def _load_all(
        self,
        members: Iterable[FollowingTenant],
        pieces: Pieces,
        moment: tuple[LogPlace, SourcePosition],
        give_up: GiveUp,
    ) -> None:
        alike: dict[str, list[FollowingTenant]] = {}
        for member in members:
            mine = pieces.get(member.name, ())
            if why := member.why_unreadable(mine):
                give_up(member, why)
            elif any(not piece.last < member.place.log for piece in mine):
                alike.setdefault(member.plan.raw.name, []).append(member)
        for some in alike.values():
            while some:
                try:
                    self._load(some, pieces, moment)
                    break
                except UnreadableChanges as error:
                    named = next(one for one in some if one.plan is error.plan)
                    give_up(named, str(error.error))
                    some.remove(named)

    def _load(
        self,
        members: Sequence[FollowingTenant],
        pieces: Pieces,
        moment: tuple[LogPlace, SourcePosition],
    ) -> None:
        touched = [_place_of(member.plan) for member in members]
        # Before the commit: who dies after it has left their names for the fold.
        add_due(self.workspace.ledger, deduped_of(self.table), touched, everything=False)
        failpoint("tenants.log_due")
        changes = [member.changes(pieces[member.name], moment[1]) for member in members]
        load = load_tenant_changes(self.workspace, self.table.name, changes, *moment)
        self.seq = load.seq
        self.loads.append(load)
        self.touched |= {*touched}
        failpoint("tenants.log_loaded")

    def note(self, members: Sequence[FollowingTenant], place: LogPlace) -> None:
        """Write down how far these were followed: all that are, but those that are further."""
        if all(member.place == place for member in members):
            return
        self.record(members, place)
        for member in members:
            member.place = place

    def record(self, members: Iterable[FollowingTenant], place: LogPlace) -> None:
        """Have the ledger know that these, which are all that are followed in their raw tables,
        were followed to a place."""
        raw_tables = {member.plan.raw.name for member in members}
        self.places = self.places.at(raw_tables, place, self.seq)
        record_places(self.workspace.ledger, self.table, self.source, self.places)

    def read_again(self, place: TenantPlace, reason: str) -> None:
        """Have a tenant read again as a whole."""
        self.lost[place] = reason
        ledger = self.workspace.ledger
        tenant = ledger.tenants(self.table.name)[place]
        ledger.record_tenants(self.table.name, [ended(tenant, self.seq)])


@dataclass
class FollowingTenant(InLog):
    """One tenant's table on its way through the log.

    Attributes:
        plan: of the table as its copy has it.
        place: up to which it was followed.
    """

    contract: TableContract
    plan: ResolvedTable
    place: LogPlace
    group: TenantsInLog

    @override
    def give_up(self, ledger: Ledger, server: str, reason: str) -> None:
        self.group.read_again(_place_of(self.plan), reason)

    def changes(self, pieces: Sequence[LoggedPiece], seen: SourcePosition) -> TenantChanges:
        """What is to be loaded of it: what it was not followed to yet."""
        since = self.place.log
        new = (piece.read() for piece in pieces if not piece.last < since)
        return TenantChanges(self.plan, LogRows(new, since, self.plan.key, seen))

    def why_unreadable(self, pieces: Sequence[LoggedPiece]) -> str:
        """Why changes of it can't be loaded; '' where they can, as far as their columns tell."""
        if any([n for n in p.columns if n != ORIGINAL] != self.columns for p in pieces):
            return "its rows in the log have other columns than its copy"
        return ""

    def why_altered(
        self, statements: Iterable[LoggedStatement], connection: Connection[Any]
    ) -> str:
        """Why its rows may be others by one of these statements; '' where none concerns them."""
        for statement in statements:
            if statement.transaction.at < self.place.log:
                continue
            if statement.rows_unknown:
                return f"{ROWS_UNKNOWN}: {beginning_of(statement.text)}"
            if self._is_altered_by(statement, connection):
                return f"a statement altered it: {beginning_of(statement.text)}"
        return ""

    def _is_altered_by(self, statement: LoggedStatement, connection: Connection[Any]) -> bool:
        """Whether a statement may have altered it, or put other rows under its name."""
        database, table = self.name
        text = statement.text
        here = database.lower() == statement.database.lower()
        if not here and not mentions(text, database):
            return False
        if not may_define(text, [self.name]):
            return False
        if moves_rows(text, database, table):
            return True
        around = read_surroundings(connection, database, table)
        return alter_by_log(self.plan.table, text, statement.database, around) is not None


def groups_of(
    members: Iterable[FollowingTenant],
) -> list[tuple[TenantsInLog, list[FollowingTenant]]]:
    """The tables of tenants, each with those of these tenants that are of it."""
    found: dict[str, list[FollowingTenant]] = {}
    for one in members:
        found.setdefault(one.group.table.name, []).append(one)
    return [(some[0].group, some) for some in found.values()]


def beginning_of(text: str) -> str:
    """Of a statement, for people."""
    return " ".join(text.split())[:80]


def _place_of(plan: ResolvedTable) -> TenantPlace:
    return plan.source.name, plan.table.database
