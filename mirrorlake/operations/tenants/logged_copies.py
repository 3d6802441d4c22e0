"""Copies of tenants that their servers' logs continue, in one sync of a table.

A copy has rows of a later moment than the place from which its log is read. So it is recorded once
the log was read to its end: who dies before that reads the tenant again.

What belongs here: what comes before and after these copies. What doesn't: copying
(`mirrorlake.operations.tenants.sync`), and the log (`mirrorlake.operations.tenants.follow`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.contract import TenantTable
from mirrorlake.errors import MirrorlakeError, SchemaError, SourceError
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.operations.tenants.follow import (
    TenantsFollowed,
    follow_tenants,
    refuse_changed_server,
)
from mirrorlake.operations.tenants.moved_tenants import TenantMoves, moved_by_log
from mirrorlake.operations.tenants.results import SyncTerms
from mirrorlake.operations.tenants.survey import UNFOLLOWED_STEP, TenantSurvey
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.log_place import refuse_unlogged
from mirrorlake.table.resolve import ResolvedTable, plan_table
from mirrorlake.table.tenants import FailedTenants, Plans, terms_of
from mirrorlake.table.tenants_in_log import CopyPlace, ended, newest_seq
from mirrorlake.workspace import Workspace


@dataclass
class LoggedCopies:
    """One sync of tenants that follow their servers' logs.

    Attributes:
        workspace: with the lease of the table of tenants.
        followed: what became of the logs so far.
    """

    workspace: Workspace
    table: TenantTable
    survey: TenantSurvey
    followed: TenantsFollowed
    _places: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])

    def find_moved(self, terms: SyncTerms) -> TenantMoves:
        """The tenants that are to be read as a whole, once the others were brought to the ends of
        their logs.

        Raises:
            MirrorlakeError: see `follow_tenants`.
        """
        sources = [*self.survey.servers]
        now = follow_tenants(self.workspace, self.table, self.survey, sources)
        self.followed = self.followed.then(now, sources)
        return moved_by_log(self.survey, self.followed, terms)

    def begin(self, plans: Plans, known: Mapping[TenantPlace, Tenant]) -> FailedTenants:
        """Find from where on logs continue copies of these tenants; why some can't be followed."""
        from mirrorlake.sources.mysql.following.copy_start import read_copy_start

        ledger, failed = self.workspace.ledger, FailedTenants()
        seq = newest_seq(ledger, self.table)
        # What is loaded of their logs from now on is not behind the copies that they have.
        again = [ended(known[place], seq) for place in plans if place in known]
        ledger.record_tenants(self.table.name, again)
        for name in dict.fromkeys(source for source, _ in plans):
            mine = {place: plan for place, plan in plans.items() if place[0] == name}
            source, server = self.workspace.config.sources[name], self.survey.servers[name]
            try:
                with session(source) as connection:
                    refuse_changed_server(self.survey, name, read_position(connection).server)
                    place = read_copy_start(connection, source, server)
                    # Whatever alters a table later is in the log behind this place.
                    failed |= _refused(connection, mine)
                self._places[name] = server, place.to_text()
            except SourceError as error:
                failed |= dict.fromkeys(mine, error)
        return failed

    def place_of(self, plan: ResolvedTable) -> str:
        """From where on a log continues a tenant's copy, as its record says it."""
        return CopyPlace(*self._places[plan.source.name], plan.key).to_text()

    def end(
        self, copies: Mapping[TenantPlace, Tenant]
    ) -> tuple[dict[TenantPlace, Tenant], FailedTenants]:
        """Read the logs to their ends that continue these copies; the copies that the ledger has
        then, and why it has not the others.

        Raises:
            MirrorlakeError: see `follow_tenants`.
        """
        sources = dict.fromkeys(source for source, _ in copies)
        later = follow_tenants(self.workspace, self.table, self.survey, sources, copies)
        self.followed = self.followed.then(later, sources)
        done = {place: tenant for place, tenant in later.done.items() if place in copies}
        left = copies.keys() - done.keys()
        return done, {place: self._why_left(later, place) for place in left}

    def _why_left(self, later: TenantsFollowed, place: TenantPlace) -> MirrorlakeError:
        if (error := self.survey.lost.get(place[0])) is not None:
            return error
        why = later.lost.get(place, "its log was not read to its end")
        return SourceError(
            f"table {'.'.join(place)}.{self.table.table}: it was copied, and then {why}",
            source=place[0],
            table=self.table.name,
            next_step="Nothing of that copy is visible: sync again",
            retryable=True,
        )


def _refused(connection: Connection[Any], plans: Plans) -> FailedTenants:
    """The tenants of one source whose tables are not what they were when they were surveyed, or
    whose rows a foreign key has the server change by itself.

    Raises:
        SourceError: the server was lost.
    """
    failed = FailedTenants()
    for place, plan in plans.items():
        try:
            _refuse_altered(connection, plan)
        except SourceError:
            raise
        except MirrorlakeError as error:
            failed[place] = error
    return failed


def _refuse_altered(connection: Connection[Any], plan: ResolvedTable) -> None:
    there = read_table(connection, plan.table.database, plan.table.name)
    now = plan_table(plan.contract, plan.source, there)
    refuse_unlogged(now, UNFOLLOWED_STEP)
    if terms_of(now) != terms_of(plan):
        raise SchemaError(
            f"table {plan.name}: its schema changed in MySQL before it was read",
            table=plan.name,
            next_step="Nothing of it was read: sync again",
            retryable=True,
        )
