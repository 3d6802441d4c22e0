"""Tenants that follow their servers' logs: which of them, from where on, and what became of each.

A source's log is read once for all tenants of a table. One that can't be followed any further is
written down as to be read again before the others' changes are loaded: a load says of all tenants
of its raw table that they were followed up to its place.

What belongs here: which tenants are followed. What doesn't: what is loaded of a log
(`mirrorlake.operations.loading.binlog`), and copies
(`mirrorlake.operations.tenants.logged_copies`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection

from mirrorlake.config.contract import TenantTable
from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.operations.loading.quiet_log import find_changed
from mirrorlake.operations.tenants.detect import present_versions, replaced_since
from mirrorlake.operations.tenants.survey import TenantSurvey
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import terms_of
from mirrorlake.table.tenants_in_log import CopyPlace, ended, newest_seq, read_places
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:  # the decoder is imported once a table follows a log
    from mirrorlake.operations.loading.binlog.following_table import InLog
    from mirrorlake.operations.loading.binlog.following_tenants import (
        FollowingTenant,
        TenantsInLog,
    )
    from mirrorlake.sources.mysql.following.log_state import LogEnd

_COPIED_OTHERWISE = "its table, or its contract, is not what it was when it was copied"


@dataclass
class TenantsFollowed:
    """What became of tenants that follow their servers' logs.

    Attributes:
        done: those of which raw has all that was committed when their log's end was looked at, as
            the ledger is to have them.
        touched: those that had changes.
        lost: those that are to be read again as a whole → why.
        rows: of their changes.
        bytes: of the files that were written.
    """

    done: dict[TenantPlace, Tenant] = field(default_factory=dict[TenantPlace, Tenant])
    touched: set[TenantPlace] = field(default_factory=set[TenantPlace])
    lost: dict[TenantPlace, str] = field(default_factory=dict[TenantPlace, str])
    rows: int = 0
    bytes: int = 0

    def then(self, later: TenantsFollowed, sources: Collection[str]) -> TenantsFollowed:
        """What became of them once the logs of these sources were read on."""
        stayed = {p: t for p, t in self.done.items() if p[0] not in sources}
        return TenantsFollowed(
            done=stayed | later.done,
            touched=self.touched | later.touched,
            lost=self.lost | later.lost,
            rows=self.rows + later.rows,
            bytes=self.bytes + later.bytes,
        )


@dataclass(frozen=True)
class Following:
    """What is known of a table before the log of one of its sources is read."""

    workspace: Workspace
    connection: Connection[Any]
    table: TenantTable
    survey: TenantSurvey
    source: SourceConfig
    copies: Mapping[TenantPlace, Tenant]

    @property
    def server(self) -> str:
        return self.survey.servers[self.source.name]


def follow_tenants(
    workspace: Workspace,
    table: TenantTable,
    survey: TenantSurvey,
    sources: Iterable[str],
    copies: Mapping[TenantPlace, Tenant] = MappingProxyType({}),
) -> TenantsFollowed:
    """Load what the logs of these sources say of a table's tenants, and write down until when those
    are what MySQL has that were followed to its end. A source that was lost is then among those of
    the survey.

    Args:
        workspace: with the lease of the table of tenants.
        copies: tenants that were just copied, and that the ledger has only once their log was read
            to its end: before that a copy has rows of a later moment than what came of the log.

    Raises:
        LakeError, LedgerError: it failed; what was committed stands.
        LeaseHeld: another run took the table over.
    """
    found = TenantsFollowed()
    for name in sources:
        source = workspace.config.sources[name]
        mine = {place: tenant for place, tenant in copies.items() if place[0] == name}
        try:
            with session(source) as connection:
                refuse_changed_server(survey, name, read_position(connection).server)
                _follow(Following(workspace, connection, table, survey, source, mine), found)
        except SourceError as error:
            survey.lost[name] = error
    return found


def _follow(of: Following, found: TenantsFollowed) -> None:
    group, members = find_members(of)
    if members:
        done, end = read_log(of.workspace, of.connection, of.source, members)
        names = {one.name for one in done}
        members = [member for member in members if member.name in names]
        take_followed(of, group, members, end.clock.replace(tzinfo=UTC), found)
    found.lost |= group.lost
    if group.error is not None:
        raise group.error


def read_log(
    workspace: Workspace, connection: Connection[Any], source: SourceConfig, tables: Sequence[InLog]
) -> tuple[Sequence[InLog], LogEnd]:
    """Read a source's log for these tables up to where it ends now; those that were followed to
    there, and where that is.

    Args:
        workspace: with their leases.
    """
    from mirrorlake.operations.loading.binlog.log_stream import LogStream
    from mirrorlake.sources.mysql.following.log_state import read_end

    end = read_end(connection, source)
    if all(one.place.log == end.position for one in tables):
        return tables, end
    seen = replace(read_position(connection), clock=end.clock)
    own = nullcontext(workspace)
    parts = (workspace, connection, lambda _: own, seen, end, tables, source)
    stream = LogStream(*parts, raises=False)
    stream.follow()
    return stream.done, end


def refuse_changed_server(survey: TenantSurvey, name: str, server: str) -> None:
    """See that a source answers from the server that was surveyed.

    Raises:
        SourceError: another one does.
    """
    if survey.servers[name] != server:
        raise SourceError(
            f"source {name} answered from server {survey.servers[name]}, and then from {server}",
            source=name,
            next_step="Sync again: its address leads to another server now",
            retryable=True,
        )


def find_members(of: Following) -> tuple[TenantsInLog, list[FollowingTenant]]:
    """The tenants of a source that are followed from where they stand. Any other whose copy a log
    continued is written down as to be read again."""
    from mirrorlake.operations.loading.binlog.following_tenants import FollowingTenant, TenantsInLog

    ledger, name, survey = of.workspace.ledger, of.source.name, of.survey
    seq = newest_seq(ledger, of.table)
    places = read_places(ledger, of.table, name, of.server)
    group = TenantsInLog(of.workspace, of.table, name, places, seq)
    known = {p: t for p, t in ledger.tenants(of.table.name).items() if p[0] == name}
    present = present_versions(of.workspace, of.table)
    members: list[FollowingTenant] = []
    why: dict[TenantPlace, str] = {}
    for at, tenant in {**known, **of.copies}.items():
        if tenant.log_place is None:
            continue
        plan = survey.plans.get(at)
        reason = _COPIED_OTHERWISE
        if plan is not None and not (reason := _why_not(tenant, plan, survey, present)):
            place = places.place_of(tenant, plan.raw.name)
            if place is not None:
                members.append(FollowingTenant(plan.contract, plan, place, group))
                continue
            reason = "its source is another server than the one whose log was followed"
        why[at] = reason
    if words := _gone_back(of, members):
        why |= {(name, member.name[0]): words for member in members}
        members = []
    records = [(known[at], ended(known[at], seq)) for at in why]
    ledger.record_tenants(of.table.name, [now for before, now in records if now != before])
    group.lost |= {at: reason for at, reason in why.items() if at in survey.plans}
    return group, members


def _gone_back(of: Following, members: Iterable[FollowingTenant]) -> str:
    """Why the server is not the one any more whose log was followed, though it has its name; ''
    where it is."""
    from mirrorlake.sources.mysql.following.executed_sets import gone_back

    places = [member.place for member in members]
    if not places:
        return ""
    furthest = max(places, key=lambda place: place.log)
    return gone_back(of.connection, of.source, of.server, furthest)


def _why_not(
    tenant: Tenant, plan: ResolvedTable, survey: TenantSurvey, present: Collection[str]
) -> str:
    """Why a log can't continue a tenant's copy, as far as its table tells; '' where it can."""
    copied = CopyPlace.of(tenant)
    if copied is not None and copied.until is not None:
        return "an earlier run found that its log does not continue its copy"
    if tenant.gone_at is not None or tenant.version not in present or copied is None:
        return _COPIED_OTHERWISE
    if tenant.version != plan.version.hash or tenant.terms != terms_of(plan):
        return _COPIED_OTHERWISE
    if copied.key != plan.key:
        return "the contract names another key"
    return replaced_since(tenant, plan, survey) or ""


def take_followed(
    of: Following,
    group: TenantsInLog,
    members: Iterable[FollowingTenant],
    at: datetime,
    found: TenantsFollowed,
) -> None:
    """Write down tenants that were followed to their log's end.

    Args:
        at: until when (UTC, by the source) they are then what MySQL has.
    """
    ledger = of.workspace.ledger
    known = {**ledger.tenants(of.table.name), **of.copies}
    done: dict[TenantPlace, Tenant] = {}
    for member in members:
        place = (group.source, member.name[0])
        tenant, stamp = known[place], of.survey.stamps.get(place)
        done[place] = replace(
            tenant,
            seen_at=at,
            read_at=at if place in group.touched else tenant.read_at,
            shown=tenant.shown if stamp is None else stamp.to_json(),
            error=None,
            failed_at=None,
        )
    failpoint("tenants.log_ended")
    ledger.record_tenants(of.table.name, done.values())
    found.done |= done
    found.touched |= group.touched
    for load in group.loads:
        assert load.receipt is not None  # noqa: S101 - a success has one
        found.rows, found.bytes = found.rows + load.receipt.rows, found.bytes + load.receipt.bytes


def find_changed_tenants(
    workspace: Workspace,
    table: TenantTable,
    survey: TenantSurvey,
    plans: Mapping[TenantPlace, ResolvedTable],
) -> set[TenantPlace]:
    """Of which of these tenants their logs have, or may have, something that was not read yet; a
    source that is lost is then among those of the survey."""
    known, found = workspace.ledger.tenants(table.name), set[TenantPlace]()
    mine = {p: plan for p, plan in plans.items() if known[p].log_place is not None}
    for name in dict.fromkeys(source for source, _ in mine):
        of_source = {p: plan for p, plan in mine.items() if p[0] == name}
        source, server = workspace.config.sources[name], survey.servers[name]
        places = read_places(workspace.ledger, table, name, server)
        at = {p: places.place_of(known[p], plan.raw.name) for p, plan in of_source.items()}
        looked = {
            plan.name: (plan.contract, place)
            for p, plan in of_source.items()
            if (place := at[p]) is not None
        }
        try:
            with session(source) as connection:
                changed = find_changed(connection, source, server, looked)
        except SourceError as error:
            survey.lost.setdefault(name, error)
            changed = {plan.name for plan in of_source.values()}
        found |= {p for p, plan in of_source.items() if plan.name in changed or at[p] is None}
    return found
