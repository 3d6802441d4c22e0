"""Which tenants a sync reads again.

What belongs here: the tenants that moved, and what is written down of the others. What doesn't: how
one is recognised (`mirrorlake.operations.tenants.detect`), and reading them
(`mirrorlake.operations.tenants.sync`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from mirrorlake.config.contract import TenantTable
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.load.tenants.digests import TenantDigests, read_digests
from mirrorlake.operations.tenants.detect import (
    is_same,
    is_unsure,
    present_versions,
    replaced_since,
)
from mirrorlake.operations.tenants.follow import TenantsFollowed
from mirrorlake.operations.tenants.results import SyncTerms
from mirrorlake.operations.tenants.survey import TenantSurvey
from mirrorlake.proof.comparing.report import digest_text
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import Plans
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class TenantMoves:
    """What a sync found of the tenants that it was to look at.

    Attributes:
        moved: those that are to be read.
        unchanged: those that are not, as nothing happened, or their rows are the very same.
        replaced: those whose table may be another → what showed it.
    """

    moved: Plans = field(default_factory=dict[TenantPlace, ResolvedTable])
    unchanged: frozenset[TenantPlace] = frozenset()
    replaced: Mapping[TenantPlace, str] = field(default_factory=dict[TenantPlace, str])

    def replaced_words(self, read: Collection[TenantPlace]) -> dict[str, str]:
        """The tenants whose table may be another: what showed it, and what was done.

        Args:
            read: those that were read since.
        """
        found: dict[str, str] = {}
        for place, words in sorted(self.replaced.items()):
            done = "it was not read"
            if place in self.unchanged:
                done = "its rows were compared, and are those of the mirror"
            elif place in read:
                done = "it was read again"
            found[".".join(place)] = f"{words}: {done}"
        return found


def find_moved_tenants(
    workspace: Workspace,
    table: TenantTable,
    survey: TenantSurvey,
    known: Mapping[TenantPlace, Tenant],
    terms: SyncTerms,
) -> TenantMoves:
    """The tenants that are to be read; of the others, until when they are unchanged is written
    down."""
    moved: Plans = {}
    same: list[Tenant] = []
    unsure: Plans = {}
    replaced: dict[TenantPlace, str] = {}
    present = present_versions(workspace, table)
    for place, plan in survey.plans.items():
        if not terms.means(place):
            continue
        tenant = known.get(place)
        if tenant is None or terms.again or not is_same(tenant, plan, survey, present):
            moved[place] = plan
            if tenant is not None and (words := replaced_since(tenant, plan, survey)):
                replaced[place] = words
            if tenant is not None and not terms.again:
                unsure |= {place: plan} if is_unsure(tenant, plan, survey, present) else {}
        else:
            clock = survey.clocks[place[0]]
            same.append(replace(tenant, seen_at=clock, error=None, failed_at=None))
    for tenant in _equal(workspace, survey, unsure, known):
        del moved[tenant.place]
        same.append(tenant)
    workspace.ledger.record_tenants(table.name, same)
    return TenantMoves(moved, frozenset(tenant.place for tenant in same), replaced)


def moved_by_log(survey: TenantSurvey, followed: TenantsFollowed, terms: SyncTerms) -> TenantMoves:
    """The same of tenants that follow their servers' logs, once these were read: all that could not
    be followed to its end are to be read, but those of sources that were lost."""
    there = {p: plan for p, plan in survey.plans.items() if p[0] not in survey.lost}
    moved = {
        place: plan
        for place, plan in there.items()
        if terms.means(place) and (terms.again or place not in followed.done)
    }
    unchanged = frozenset(followed.done.keys() - followed.touched - moved.keys())
    replaced = {place: why for place, why in followed.lost.items() if place in moved}
    return TenantMoves(moved, unchanged, replaced)


def _equal(
    workspace: Workspace,
    survey: TenantSurvey,
    plans: Plans,
    known: Mapping[TenantPlace, Tenant],
) -> list[Tenant]:
    """Of tenants of which the server does not know when they changed, or whose table may be
    another, those that have the very rows that were read: the server digests them, and none is
    read."""
    digests = read_digests(workspace, plans.values()) if plans else TenantDigests()
    found: list[Tenant] = []
    for place, tally in digests.tallies.items():
        tenant, form = known[place], digests.forms[place]
        if (tenant.form, tenant.digest) == (form.fingerprint, digest_text(tally)):
            stamp, clock = survey.stamps[place], survey.clocks[place[0]]
            moment = {"shown": stamp.to_json(), "read_at": clock, "seen_at": clock}
            found.append(replace(tenant, error=None, failed_at=None, **moment))
    return found
