"""Which tenants of a table are due: one decision, for a sync and for the sensor that requests it.

A look reads what the sources show of every tenant, and what the ledger has of it; no row is read,
and Spark is not started.

What belongs here: the decision. What doesn't: reading tenants
(`mirrorlake.operations.tenants.sync`), starting anything, and remembering the marks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from mirrorlake.config.contract import TenantTable
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.merge.tenant_due import read_due
from mirrorlake.operations.tenants.survey import TenantSurvey, survey_tenants
from mirrorlake.sources.mysql.changes.change_stamps import ChangeStamp, why_replaced, why_unchanged
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import raw_of, terms_of
from mirrorlake.workspace import Workspace

REPLACED = "made again, truncated or altered"
"""Why a tenant is due whose table has the columns that it had, and may have other rows."""
READ_AGAIN = frozenset({"new", "there again", "altered", "moved", REPLACED, "never read"})
_FAILED_AGAIN = timedelta(hours=1)
"""Tenants that a requested run left as they were (they failed, or are gone and were not taken as
gone) are a reason for another one after this time, or once they change."""


@dataclass(frozen=True)
class TenantMark:
    """What was last requested of a table of tenants.

    Attributes:
        requested_at: when (UTC, ISO).
        left: a digest of the tenants that had failed before that, or were gone, as they were.
    """

    requested_at: str
    left: str = ""

    def __post_init__(self) -> None:
        """A person may edit a sensor's cursor: a time that is not one must be noticed here.

        Raises:
            ValueError: the time is not one, or has no zone.
        """
        if datetime.fromisoformat(self.requested_at).tzinfo is None:
            raise ValueError("a mark's time has a zone")


@dataclass(frozen=True)
class TenantsSeen:
    """One look at a table of tenants.

    Attributes:
        tenants: how many the sources have.
        refused: how many of them can't be kept as they are.
        due: those that a sync would do something about, and why, in two or three words.
        failing: those of them that had failed before, or are gone.
        lost: sources that could not be looked at; their tenants are in no count.
        left_out: what the contract names and that is no tenant → why.
        until: the table was requested so recently that nothing was looked at; until then.
        mark: to be remembered once what is due is requested; None: nothing is to be requested.
        run_key: one text for one set of tenants after one mark.
    """

    tenants: int = 0
    refused: int = 0
    due: Mapping[TenantPlace, str] = field(default_factory=dict[TenantPlace, str])
    failing: frozenset[TenantPlace] = frozenset()
    lost: Mapping[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    until: datetime | None = None
    mark: TenantMark | None = None
    run_key: str = ""


def detect_tenants(
    workspace: Workspace,
    table: TenantTable,
    mark: TenantMark | None,
    now: datetime | None = None,
    sources: Collection[str] = (),
) -> TenantsSeen:
    """Which tenants are due, and whether a sync is to be requested for them. Writes nothing.

    A table is left alone for its ``every`` after its last request.

    Args:
        mark: of the last request.
        now: this moment.
        sources: only tenants of these; of all where there is none.

    Raises:
        LakeError: the catalog can't be read.
        LedgerError: the ledger can't be read.
    """
    now = now or datetime.now(UTC)
    since = None if mark is None else now - datetime.fromisoformat(mark.requested_at)
    # A clock that was set back waits for nothing.
    if since is not None and timedelta() <= since < table.every:
        return TenantsSeen(until=now - since + table.every)
    known = workspace.ledger.tenants(table.name)
    survey = survey_tenants(workspace, table, sources)
    due = due_tenants(workspace, table, survey, known)
    failing = frozenset(p for p, why in due.items() if _is_failing(known.get(p), why))
    left = _digest([*_shown(place, due[place], survey)] for place in sorted(failing))
    waits = since is not None and timedelta() <= since < _FAILED_AGAIN
    same = mark is not None and mark.left == left and waits
    requested = due.keys() - (failing if same else frozenset[TenantPlace]())
    before = "" if mark is None else mark.requested_at
    key = _digest([[table.name, before, *([*place, due[place]] for place in sorted(due))]])
    return TenantsSeen(
        tenants=len(survey.plans) + len(survey.failed),
        refused=len(survey.failed),
        due=due,
        failing=failing,
        lost={name: e for name, e in survey.lost.items() if name not in survey.skipped},
        left_out={one.label: one.why for one in survey.left_out},
        mark=TenantMark(now.isoformat(), left) if requested else None,
        run_key=f"{table.name}-{key[:16]}",
    )


def due_tenants(
    workspace: Workspace,
    table: TenantTable,
    survey: TenantSurvey,
    known: Mapping[TenantPlace, Tenant],
) -> dict[TenantPlace, str]:
    """The tenants that a sync would do something about, and why, in two or three words; of those
    with a reason of `READ_AGAIN` rows are read. Writes nothing."""
    found: dict[TenantPlace, str] = {}
    present = present_versions(workspace, table)
    same = partial(_is_followed, survey) if table.by_log else partial(_is_same, survey, present)
    unfolded = read_due(workspace.ledger, deduped_of(table)).places
    for place, plan in survey.plans.items():
        tenant = known.get(place)
        if tenant is None:
            found[place] = "new"
        elif tenant.gone_at is not None:
            found[place] = "there again"
        elif tenant.version is not None and tenant.version != plan.version.hash:
            found[place] = "altered"
        elif not same(tenant, plan):
            moved = "moved" if replaced_since(tenant, plan, survey) is None else REPLACED
            found[place] = moved if tenant.load_id else "never read"
        elif tenant.folded != tenant.load_id or place in unfolded:
            found[place] = "not folded"
    for place in survey.failed:
        tenant = known.get(place)
        if tenant is None or tenant.error is None or tenant.gone_at is not None:
            found[place] = "can't be kept"
    found |= dict.fromkeys(gone_tenants(table, survey, known), "gone")
    if table.dropped == "remove":
        there = {*survey.plans, *survey.failed}
        left = (p for p, t in known.items() if t.gone_at is not None and t.folded is not None)
        left = (p for p in left if p not in there and p[0] not in survey.skipped)
        found |= dict.fromkeys(left, "not removed")
    return found


def _is_same(
    survey: TenantSurvey, present: Collection[str], tenant: Tenant, plan: ResolvedTable
) -> bool:
    return is_same(tenant, plan, survey, present)


def _is_followed(survey: TenantSurvey, tenant: Tenant, plan: ResolvedTable) -> bool:
    """Whether a log continues a tenant's copy, and has nothing new of it, as far as the server
    shows without it."""
    shown = survey.stamps.get(tenant.place)
    if shown is None or tenant.shown is None or tenant.log_place is None:
        return False
    before = ChangeStamp.from_json(tenant.shown)
    unchanged = before is not None and why_unchanged(before, shown) is not None
    return unchanged and tenant.terms == terms_of(plan)


def _is_failing(tenant: Tenant | None, why: str) -> bool:
    return why in ("gone", "not removed") or (tenant is not None and tenant.error is not None)


def _shown(place: TenantPlace, why: str, survey: TenantSurvey) -> Iterable[object]:
    """What is known of a tenant's table, but its rows."""
    plan, stamp = survey.plans.get(place), survey.stamps.get(place)
    terms = None if plan is None else terms_of(plan)
    if stamp is None:
        return (*place, why, terms)
    return (*place, why, terms, stamp.made, stamp.changed, stamp.innodb_id, stamp.partitions)


def _digest(listed: Iterable[object]) -> str:
    return hashlib.sha256(json.dumps([*listed]).encode()).hexdigest()


# --- what a sync decides by, too ------------------------------------------------------------------


def gone_tenants(
    table: TenantTable, survey: TenantSurvey, known: Mapping[TenantPlace, Tenant]
) -> list[TenantPlace]:
    """The tenants of sources that were looked at whose database, or table, is no more, or that the
    contract means no more, and of which that is not written down yet."""
    there = {*survey.plans, *survey.failed}
    return [
        place
        for place, tenant in known.items()
        if (place[0] not in table.sources or place[0] not in survey.lost)
        and place not in there
        and tenant.gone_at is None
    ]


def present_versions(workspace: Workspace, table: TenantTable) -> set[str]:
    """The schema versions that the lake has a raw table of, by their hashes."""
    versions = workspace.ledger.schema_versions(table.name)
    lake = workspace.lake
    return {v.hash for v in versions if lake.load(raw_of(table, v.raw_table)) is not None}


def is_same(
    tenant: Tenant, plan: ResolvedTable, survey: TenantSurvey, present: Collection[str]
) -> bool:
    """Whether a tenant's newest copy is known to be what MySQL has.

    Args:
        present: see `present_versions`.
    """
    shown = survey.stamps.get(tenant.place)
    if shown is None or tenant.shown is None or not _is_current(tenant, plan, shown, present):
        return False
    before = ChangeStamp.from_json(tenant.shown)
    return before is not None and why_unchanged(before, shown) is not None


def is_unsure(
    tenant: Tenant, plan: ResolvedTable, survey: TenantSurvey, present: Collection[str]
) -> bool:
    """Whether only a digest of its rows tells if a tenant's newest copy is what MySQL has: the
    server does not know when it last changed, as of a table that nobody wrote to since it was
    started; or its table may be another, or was merely rebuilt.

    Args:
        present: see `present_versions`.
    """
    shown = survey.stamps.get(tenant.place)
    if shown is None or tenant.digest is None:
        return False
    if shown.changed is not None and replaced_since(tenant, plan, survey) is None:
        return False
    return _is_current(tenant, plan, shown, present)


def replaced_since(tenant: Tenant, plan: ResolvedTable, survey: TenantSurvey) -> str | None:
    """What shows that a tenant's table, with the columns that it had, may have other rows than were
    read, though nobody wrote to it; None where nothing does."""
    shown = survey.stamps.get(tenant.place)
    if shown is None or tenant.shown is None or tenant.terms != terms_of(plan):
        return None
    before = ChangeStamp.from_json(tenant.shown)
    return None if before is None else why_replaced(before, shown)


def _is_current(
    tenant: Tenant, plan: ResolvedTable, shown: ChangeStamp, present: Collection[str]
) -> bool:
    """Whether a tenant's newest copy is of its table as it is declared now, and was read not too
    long ago."""
    limit = plan.source.skip_unchanged
    if limit is None or tenant.read_at is None or tenant.load_id is None:
        return False
    if tenant.version not in present or tenant.version != plan.version.hash:
        return False
    clock = datetime.fromisoformat(shown.clock).replace(tzinfo=UTC)
    timely = timedelta() <= clock - tenant.read_at < limit
    return timely and tenant.terms == terms_of(plan)
