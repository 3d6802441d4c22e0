"""Tenants: many databases that hold the same table, kept as one; and what became of each.

A sync looks at every tenant at once: which databases there are, which of their tables moved since
they were read. Those are read together, a commit for each schema version, and folded together. A
tenant that fails keeps its rows as they were, and stops no other.

What belongs here: which tenants are read, and what the ledger keeps of them. What doesn't: how they
are read (`mirrorlake.load.tenants`) and folded (`mirrorlake.merge.tenants`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from mirrorlake.config.contract import TenantTable
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.load.tenants.protocol import load_tenants
from mirrorlake.merge.tenant_shapes import read_shapes
from mirrorlake.operations.other_writers.moved_layers import accept_made, put_right
from mirrorlake.operations.schema_changes.recorded_contracts import record_contract
from mirrorlake.operations.tenants.detect import gone_tenants
from mirrorlake.operations.tenants.exchanges import record_tenant_columns, record_tenant_exchanges
from mirrorlake.operations.tenants.follow import TenantsFollowed
from mirrorlake.operations.tenants.logged_copies import LoggedCopies
from mirrorlake.operations.tenants.looks import (
    MassDrop,
    TenantLook,
    mass_drops,
    read_look,
    record_look,
    with_drops,
)
from mirrorlake.operations.tenants.moved_tenants import TenantMoves, find_moved_tenants
from mirrorlake.operations.tenants.names import no_tenant, refuse_unknown
from mirrorlake.operations.tenants.reports import recorded_refusal
from mirrorlake.operations.tenants.results import SyncTerms, TenantsSynced, count_tenants
from mirrorlake.operations.tenants.rules import refuse_read_already
from mirrorlake.operations.tenants.show import record_on_show, show_tenants
from mirrorlake.operations.tenants.survey import (
    TenantSurvey,
    look_of,
    record_version,
    survey_tenants,
)
from mirrorlake.runtime.extras import require
from mirrorlake.serving.tenant_clean import refuse_hashes
from mirrorlake.table.columns.new_columns import why_held
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import Plans, held_of, terms_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

Take = Callable[[TenantTable], AbstractContextManager[Workspace]]
"""What gives a workspace with the lease of a table of tenants."""


def sync_tenants(
    workspace: Workspace,
    table: TenantTable,
    terms: SyncTerms | None = None,
    followed: TenantsFollowed | None = None,
    take: Take | None = None,
) -> TenantsSynced:
    """Read every tenant that moved, fold them, and show them.

    Args:
        followed: what was loaded just before of the tenants that follow logs.
        take: gives the workspace with the table's lease, in place of `Workspace.leased`.

    Raises:
        ConfigError: no database of any source is a tenant, or none has the name that was requested.
        SourceHeld: a person asked us to leave all of its sources alone.
        LakeError: the lake failed; what was committed is folded by the next sync.
        LeaseHeld: another run works on the table.
        MachineError: Spark, which folds tenants, is not installed; nothing was read.
    """
    require("pyspark", "spark", f"table {table.name}: folding tenants")
    terms = terms or SyncTerms()
    started = time.monotonic()
    with take(table) if take is not None else workspace.leased(table) as leased:
        repaired = put_right(leased, table) if leased.moved else []
        settle_loads(leased, table)
        with recorded_refusal(leased.ledger, table):
            survey, look = _look(leased, table, terms.sources)
        # A name that a person mistyped is no fault of the table's.
        there = {*survey.plans, *survey.failed, *leased.ledger.tenants(table.name)}
        refuse_unknown(table.name, terms.databases, there)
        with recorded_refusal(leased.ledger, table):
            logged = None
            if table.by_log:
                logged = LoggedCopies(leased, table, survey, followed or TenantsFollowed())
            done = _Sync(leased, table, terms, started, survey, look, logged).run()
        repaired = accept_made(leased, table, repaired)
        leased.ledger.forget_refusal(table.name)
        record_contract(leased.ledger, table)
    return replace(done, put_right=tuple(repaired))


def _look(
    workspace: Workspace, table: TenantTable, sources: Collection[str]
) -> tuple[TenantSurvey, TenantLook]:
    """What the sources show of a table that can be synced; what is no tenant is written down.

    Raises:
        MirrorlakeError: it can't be synced, whatever its tenants are.
    """
    ledger = workspace.ledger
    refuse_read_already(workspace, table)
    shapes = read_shapes(workspace, table)  # one that somebody edited stops it here
    if any(rule.pii == "hash" for rule in table.columns.values()):
        refuse_hashes(workspace, table, shapes)
    survey = survey_tenants(workspace, table, sources)
    survey.refuse_all_held(table)
    look = look_of(survey, read_look(ledger, table))
    record_look(ledger, table, look)
    there = {*survey.plans, *survey.failed, *ledger.tenants(table.name)}
    if not there and not survey.lost:
        raise no_tenant(table, survey.left_out)
    return survey, look


@dataclass
class _Sync:
    workspace: Workspace
    table: TenantTable
    terms: SyncTerms
    started: float
    survey: TenantSurvey
    look: TenantLook
    logged: LoggedCopies | None
    rows: int = 0
    bytes: int = 0
    read: set[TenantPlace] = field(default_factory=set[TenantPlace])
    joined: list[TenantPlace] = field(default_factory=list[TenantPlace])
    new: set[TenantPlace] = field(default_factory=set[TenantPlace])
    copies: dict[TenantPlace, Tenant] = field(default_factory=dict[TenantPlace, Tenant])
    moves: TenantMoves = field(default_factory=TenantMoves)
    kept: set[TenantPlace] = field(default_factory=set[TenantPlace])
    failed: dict[TenantPlace, MirrorlakeError] = field(
        default_factory=dict[TenantPlace, MirrorlakeError]
    )

    def run(self) -> TenantsSynced:
        table, ledger, survey, look = self.table, self.workspace.ledger, self.survey, self.look
        known = ledger.tenants(table.name)
        gone = self._note_gone(known)
        look = with_drops(look, self._refuse_many(known, look.drops))
        record_look(ledger, table, look)
        self.failed |= {p: e for p, e in survey.failed.items() if self.terms.means(p)}
        self.moves = self._find_moved(known)
        moved = self.moves.moved
        unasked = record_tenant_exchanges(self.workspace, table, moved, known)
        self.failed |= unasked
        moved = {place: plan for place, plan in moved.items() if place not in unasked}
        self._note_new(moved.keys() - known.keys())
        self._load_all(moved, known)
        self._note_failed(ledger.tenants(table.name))
        shown = show_tenants(self.workspace, table, self.kept)
        shapes, removed = shown.shapes, shown.removed
        held = held_of(ledger, table, shapes.columns)
        record_look(ledger, table, replace(look, held=held))
        record_on_show(self.workspace, table, shapes)
        everything = ledger.tenants(table.name)
        return TenantsSynced(
            table=table.name,
            tenants=len(everything),
            shapes=len(shapes.tables),
            read=len(self.read),
            unchanged=len(self.moves.unchanged),
            counts=count_tenants(everything, self.read, self.moves.unchanged, self.failed),
            joined=tuple(f"{s}.{d}" for s, d in self.joined),
            replaced=self.moves.replaced_words(self.read),
            gone=tuple(f"{s}.{d}" for s, d in gone),
            kept={f"{s}.{d}": t.rows or 0 for (s, d), t in sorted(everything.items()) if t.gone_at},
            folded=len(shown.folded.moved),
            removed={f"{s}.{d}": count for (s, d), count in removed.items()},
            rows_removed=sum(removed.values()),
            rows=self.rows,
            bytes=self.bytes,
            seconds=round(time.monotonic() - self.started, 2),
            failed={
                **{source: str(error) for source, error in survey.unreachable.items()},
                **{f"{s}.{d}": str(error) for (s, d), error in sorted(self.failed.items())},
            },
            clean=table.clean,
            clean_made=shown.clean.whole,
            clean_written=shown.clean.tenants,
            held={source: str(error) for source, error in survey.held.items()},
            left_out=look.reasons,
            without=look.without,
            held_columns=held,
            why_held=tuple(why_held(ledger, table, held)),
        )

    def _note_gone(self, known: dict[TenantPlace, Tenant]) -> list[TenantPlace]:
        """Write down which tenants are no more, and which are there again; those that went now."""
        survey = self.survey
        there = {*survey.plans, *survey.failed}
        looked = [p for p in known if p[0] not in survey.lost and p[0] in self.table.sources]
        gone = gone_tenants(self.table, survey, known)
        now = datetime.now(UTC)
        records = [replace(known[p], gone_at=now, error=None, failed_at=None) for p in gone]
        # One that came back is read whatever it shows: it may be another database of the name.
        records += [
            replace(
                known[p],
                gone_at=None,
                terms=None,
                verdict=None,
                verdict_words=None,
                checked_at=None,
            )
            for p in looked
            if p in there and known[p].gone_at is not None
        ]
        self.workspace.ledger.record_tenants(self.table.name, records)
        known.update({record.place: record for record in records})
        return gone

    def _refuse_many(
        self, known: Mapping[TenantPlace, Tenant], before: Iterable[MassDrop]
    ) -> tuple[MassDrop, ...]:
        """Where most tenants of a source would be removed at once, keep their rows until a person
        confirms it."""
        if self.table.dropped != "remove":
            return ()
        accepted = [p for p in known if self.terms.accept_smaller and self.terms.means(p)]
        drops, self.kept = mass_drops(known, accepted, before)
        for drop in drops:
            self.failed[drop.source, "*"] = SourceError(
                f"table {self.table.name}: {drop.words}",
                source=drop.source,
                table=self.table.name,
                next_step=drop.next_step(self.table.name),
            )
        return drops

    def _find_moved(self, known: dict[TenantPlace, Tenant]) -> TenantMoves:
        """The tenants that are to be read as a whole."""
        table, ledger = self.table, self.workspace.ledger
        if self.logged is not None:
            moves = self.logged.find_moved(self.terms)
            known.update(ledger.tenants(table.name))
            return moves
        # What a log continued is more than a copy: a fold takes them together.
        left = [replace(t, terms=None) for t in known.values() if t.log_place and t.terms]
        ledger.record_tenants(table.name, left)
        known.update({tenant.place: tenant for tenant in left})
        return find_moved_tenants(self.workspace, table, self.survey, known, self.terms)

    def _load_all(self, plans: Plans, known: Mapping[TenantPlace, Tenant]) -> None:
        """Read these tenants; where they follow logs, read those on to their ends, too."""
        logged = self.logged
        if logged is not None and plans:
            refused = logged.begin(plans, known)
            self.failed |= refused
            plans = {place: plan for place, plan in plans.items() if place not in refused}
        for some in _by_version(plans).values():
            self._load(some, known)
            if logged is None:
                self._record_copies()
        if logged is None:
            return
        if self.copies:
            self.copies, left = logged.end(self.copies)
            self.failed |= left
            self._record_copies()
        self.read |= logged.followed.touched & logged.followed.done.keys()
        self.rows, self.bytes = self.rows + logged.followed.rows, self.bytes + logged.followed.bytes

    def _record_copies(self) -> None:
        """Write down which load holds the newest copy of each tenant that was read."""
        ledger, table, copies = self.workspace.ledger, self.table, self.copies
        ledger.record_tenants(table.name, copies.values())
        record_tenant_columns(ledger, table, {p: self.survey.plans[p] for p in copies})
        self.joined += [place for place in copies if place in self.new]
        self.read |= copies.keys()
        self.copies = {}

    def _note_new(self, places: Iterable[TenantPlace]) -> None:
        """Write tenants down before they are read: if this run dies, somebody misses them."""
        now = datetime.now(UTC)
        new = [Tenant(*place, first_seen=now) for place in sorted(places)]
        self.workspace.ledger.record_tenants(self.table.name, new)

    def _load(
        self,
        plans: Mapping[TenantPlace, ResolvedTable],
        known: Mapping[TenantPlace, Tenant],
    ) -> None:
        """Read the tenants of one schema version, and write down what the ledger must know."""
        survey = self.survey
        ledger, name = self.workspace.ledger, self.table.name
        before = {
            place: rows
            for place in plans
            if not self.terms.accept_smaller
            and (tenant := known.get(place)) is not None
            and (rows := tenant.rows) is not None
        }
        refused = record_version(ledger, name, plans)
        self.failed |= refused
        plans = {place: plan for place, plan in plans.items() if place not in refused}
        if not plans:
            return
        found = load_tenants(
            *(self.workspace, name, list(plans.values()), survey.servers, before),
            self.terms.progress,
            with_events=self.logged is not None,
        )
        self.failed |= found.failed
        self.rows += found.rows
        self.bytes += found.bytes
        if found.load is None:
            return
        for place, copy in found.copies.items():
            tenant = known.get(place) or Tenant(*place, first_seen=datetime.now(UTC))
            if tenant.load_id is None:
                self.new.add(place)
            stamp, logged = survey.stamps.get(place), self.logged
            self.copies[place] = replace(
                tenant,
                version=plans[place].version.hash,
                load_id=found.load.load_id,
                seq=found.load.seq,
                rows=copy.rows,
                digest=copy.digest,
                form=copy.form,
                shown=None if stamp is None else stamp.to_json(),
                terms=terms_of(plans[place]),
                log_place=None if logged is None else logged.place_of(plans[place]),
                read_at=survey.clocks[place[0]],
                seen_at=survey.clocks[place[0]],
                error=None,
                failed_at=None,
            )

    def _note_failed(self, known: Mapping[TenantPlace, Tenant]) -> None:
        now = datetime.now(UTC)
        records = [
            replace(
                known.get(place) or Tenant(*place, first_seen=now),
                error=str(error),
                failed_at=now,
            )
            for place, error in self.failed.items()
            if place[1] != "*"
        ]
        self.workspace.ledger.record_tenants(self.table.name, records)
        for (source, database), error in sorted(self.failed.items()):
            logger.info("table %s: tenant %s.%s: %s", self.table.name, source, database, error)


def _by_version(
    plans: Mapping[TenantPlace, ResolvedTable],
) -> dict[str, Plans]:
    """The plans of each schema version, those of most tenants first."""
    found: dict[str, Plans] = {}
    for place, plan in plans.items():
        found.setdefault(plan.version.hash, {})[place] = plan
    return dict(sorted(found.items(), key=lambda one: -len(one[1])))
