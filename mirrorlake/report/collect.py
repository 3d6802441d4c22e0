"""Reads what a report says, from the ledger and the catalog alone: no source, no Spark. Few queries
for all tables where there can be many of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from mirrorlake.config import Config, Mirrored, TableContract, TenantTable
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Cost, Ledger, Load, Proof, Receipt, Repair
from mirrorlake.ledger.lake.lake_heads import OF_MODELS
from mirrorlake.ledger.records import Unproved
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.operations.days.gaps import stretches_of, unknown_stretches, why_unproved
from mirrorlake.operations.other_writers.moved_lake import find_all_moved
from mirrorlake.operations.status.all_tables import AllStatuses, all_statuses
from mirrorlake.operations.status.attention import Attention
from mirrorlake.operations.status.copies import COPIES, RecordedCopy
from mirrorlake.operations.status.history import history_of
from mirrorlake.operations.status.layer_status import newest_proof
from mirrorlake.operations.status.table_status import TableStatus
from mirrorlake.proof.coverage.covered import newest_of
from mirrorlake.report import MOST_DAYS
from mirrorlake.report.calendar import DayProofs, DayRun, calendar_of
from mirrorlake.report.copy_days import CopyChecks, copy_days, load_days
from mirrorlake.report.figures import (
    LoadedDays,
    MirrorReport,
    ReportedTable,
    ReportedTenant,
    TableProof,
    check_costs,
    findings_of,
    loaded_days,
)

_DAY = timedelta(days=1)
_COMPARED = ("raw", "deduped")
"""The layers that hold a table's rows; a check compares the second with MySQL."""


def make_report(
    config: Config,
    ledger: Ledger,
    mirrored: Sequence[Mirrored],
    *,
    days: int,
    besides: bool,
    now: datetime | None = None,
) -> MirrorReport:
    """What is known of these tables over the last days, today included.

    Args:
        besides: whether models are meant, too.
        now: by default the clock's (UTC).

    Raises:
        ConfigError: it can't show so many days.
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    if not 1 <= days <= MOST_DAYS:
        raise ConfigError(
            f"days: a report can't show {days:,} of them",
            next_step=f"Ask for 1 to {MOST_DAYS}, by `--days` or `days` in the run's config",
        )
    now = now or datetime.now(UTC)
    found = all_statuses(config, ledger, mirrored, besides=besides)
    wrong = found.not_right(ledger)
    reader = _Reader(config, ledger, found, wrong, now, days)
    tables = [*reader.tables(), *reader.tenants(), *(reader.models() if besides else ())]
    return MirrorReport(
        name=config.path.resolve().parent.name,
        made_at=now,
        first=reader.first,
        last=now.date(),
        loads=ledger.highest_seq(),
        tables=tables,
        not_right=wrong,
    )


@dataclass(frozen=True)
class _Recorded:
    """What the ledger has of all tables since the report's first day."""

    loads: Mapping[str, Sequence[LoadFigures]]
    costs: Mapping[str, Sequence[Cost]]
    proofs: Mapping[str, Sequence[Proof]]
    day_proofs: Mapping[str, Sequence[Proof]]
    repairs: Mapping[str, Sequence[Repair]]
    marks: Mapping[str, tuple[datetime, str]]
    unproved: Mapping[str, Unproved]
    landmarks: Mapping[str, Sequence[Load]]
    unread: set[str]
    copies: Mapping[str, Sequence[RecordedCopy]]
    proved: frozenset[str]
    receipts: Mapping[str, Receipt]


class _Reader:
    """One look at the ledger."""

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        found: AllStatuses,
        wrong: Sequence[Attention],
        now: datetime,
        days: int,
    ) -> None:
        self._ledger, self._found, self._now, self._count = ledger, found, now, days
        self.first = now.date() - (days - 1) * _DAY
        self._since = datetime.combine(self.first, time.min, UTC)
        self._status = {one.table: one for one in found.every}
        self._wrong: dict[str, list[Attention]] = {}
        for one in wrong:
            self._wrong.setdefault(one.table, []).append(one)
        moved = find_all_moved(config, ledger, found.contracts) if found.contracts else {}
        self._moved = moved
        self._known = _Recorded(
            loads=ledger.loads_since(self._since),
            costs=ledger.costs_since(self._since),
            proofs=ledger.proofs_since(self._since),
            day_proofs=ledger.day_proofs_since(self.first),
            repairs=ledger.repairs_since(self._since),
            marks=ledger.newest_marks(),
            unproved=ledger.unproved_tables(),
            landmarks=ledger.landmarks_of_all(),
            unread=ledger.unread_tables(),
            copies=_recorded_copies(ledger, self._since),
            proved=frozenset(ledger.proved_tables()),
            receipts=ledger.newest_receipts(),
        )

    # --- tables ---------------------------------------------------------------------------------

    def tables(self) -> list[ReportedTable]:
        """Those of the contract file but tables of tenants."""
        return [self._table(contract) for contract in self._found.contracts]

    def _table(self, contract: TableContract) -> ReportedTable:
        name, known = contract.name, self._known
        status, loads = self._status[name], known.loads.get(name, ())
        proofs = self._proofs_of(contract)
        by_copies = contract.copies or contract.landed
        copies = known.copies.get(name, ())
        if contract.landed:
            days = copy_days(copies, self.first, self._now.date())
        elif contract.copies:
            checks = CopyChecks(known.proofs.get(name, ()), known.marks.get(name), self._gone(name))
            days = load_days(loads, checks, self.first, self._now.date())
        else:
            days = self._days_of(contract, proofs)
        proof, differences = self._proof_of(status, proofs)
        if contract.landed and proof == "not compared":
            proof = self._landed_proof(name)
        return ReportedTable(
            table=name,
            mode=contract.mode,
            status=status,
            proof=proof,
            days=days,
            by_copies=by_copies,
            loaded=None if contract.landed else self._loaded(loads, copies=contract.copies),
            history=None
            if contract.landed
            else history_of(name, loads, status.freshness, known.costs.get(name, ())),
            checks=check_costs(self._recent(name)),
            findings=findings_of(self._recent(name), known.repairs.get(name, ())),
            copies=copies,
            not_right=self._wrong.get(name, ()),
            differences=differences,
            proved_loads=_proved_loads(loads),
        )

    def _gone(self, name: str) -> str:
        """What other hands did to the rows of a table; empty for nothing."""
        moved = self._moved.get(name, ())
        return "; ".join(one.said for one in moved if one.layer in _COMPARED)

    def _loaded(self, loads: Sequence[LoadFigures], *, copies: bool) -> LoadedDays:
        return loaded_days(loads, self.first, self._count, copies=copies)

    def _recent(self, name: str) -> list[Proof]:
        """The checks of a table that began on the report's days."""
        return [p for p in self._known.proofs.get(name, ()) if p.started_at >= self._since]

    def _proofs_of(self, contract: TableContract) -> DayProofs:
        """What checks say of a table; no more of them is read than says something of it now."""
        name, known = contract.name, self._known
        marked = known.marks.get(name)
        if name not in known.proved:
            return DayProofs(marked=marked)
        proofs = known.proofs.get(name, ())
        if not newest_of(reversed(proofs)).whole:
            # Older ones count as well, as far back as it takes.
            read: list[Proof] = []

            def each() -> Iterator[Proof]:
                for proof in self._ledger.newest_proofs(name):
                    read.append(proof)
                    yield proof

            newest_of(each())
            proofs = read[::-1] if len(read) > len(proofs) else proofs
        seen = {(p.check_id, p.lo, p.hi) for p in proofs}
        days = known.day_proofs.get(name, ())
        older = [p for p in days if (p.check_id, p.lo, p.hi) not in seen]
        proofs = [*older, *proofs]
        return DayProofs(proofs, self._newer_loads(name, proofs), marked)

    def _newer_loads(self, name: str, proofs: Sequence[Proof]) -> Sequence[Load]:
        """The successful loads of a table's current history that came after the oldest of the
        checks that say something of its days."""
        return self._ledger.successful_loads(name, _oldest_needed(proofs))

    def _days_of(self, contract: TableContract, proofs: DayProofs) -> list[DayRun]:
        """As `find_stretches`, with what is known of all tables at once."""
        name, known, today = contract.name, self._known, self._now.date()
        newest = known.receipts.get(name)
        loads = known.landmarks.get(name, ())
        if newest is not None and newest.began > (loads[0].seq if loads else 0):
            loads = self._ledger.landmarks(name)
        unread = self._ledger.open_windows(name) if name in known.unread else ()
        why = why_unproved(contract, known.unproved.get(name), newest)
        stretches = stretches_of(contract, loads, unread, today, why)
        stretches = unknown_stretches(stretches, self._moved.get(name, ()), _COMPARED)
        return calendar_of(stretches, proofs, self.first, today)

    def _proof_of(self, status: TableStatus, known: DayProofs) -> tuple[TableProof, int]:
        """What is known of a table as a whole, and how many rows differ."""
        if status.state == "moved" or any(
            one.kind in ("moved", "unproved", "unknown")
            for one in self._wrong.get(status.table, ())
        ):
            return "unknown", 0
        marked = known.marked[0] if known.marked else None
        newest = newest_of(
            p for p in reversed(known.proofs) if marked is None or p.started_at > marked
        )
        standing = [*newest.by_keys, *_newest_others(newest.others)]
        wrong = [p for p in standing if p.verdict == "different"]
        if wrong:
            return "different", max(p.differences for p in wrong)
        proved = status.proved
        if proved is None:
            return ("undecided" if standing else "not compared"), 0
        if not proved.whole:
            return "partly", 0
        return ("stale" if proved.loads_since else "proved"), 0

    def _landed_proof(self, name: str) -> TableProof:
        """What the newest check of a table of snapshots found, where it found nothing equal."""
        newest = newest_proof(self._ledger, name, "deduped")
        if newest is None:
            return "not compared"
        return "different" if newest.verdict == "different" else "undecided"

    # --- tables of tenants, models --------------------------------------------------------------

    def tenants(self) -> list[ReportedTable]:
        """Tables of tenants: of each tenant what is not right."""
        return [self._tenants(table) for table in self._found.tenants]

    def _tenants(self, table: TenantTable) -> ReportedTable:
        name, known = table.name, self._known
        loads, status = known.loads.get(name, ()), self._status[name]
        tenants = list(self._ledger.tenants(name).values())
        there = [one for one in tenants if one.gone_at is None]
        wrong = [one for one in there if one.state != "mirrored" or one.verdict_now != "equal"]
        different = [one for one in there if one.verdict_now == "different"]
        proof, _ = self._proof_of(status, DayProofs())
        return ReportedTable(
            table=name,
            mode="tenants",
            status=status,
            proof="different" if different and proof != "unknown" else proof,
            days=load_days(loads, CopyChecks(), self.first, self._now.date()),
            by_copies=True,
            loaded=self._loaded(loads, copies=False),
            history=history_of(name, loads, status.freshness, known.costs.get(name, ())),
            checks=check_costs(self._recent(name)),
            findings=findings_of(self._recent(name), known.repairs.get(name, ())),
            tenants=[
                ReportedTenant(
                    f"{one.source}.{one.database}",
                    one.state,
                    one.verdict_now or "never checked",
                    one.error or one.verdict_words or "",
                )
                for one in wrong
            ],
            tenant_count=len(there),
            proved_loads=_proved_loads(loads),
            not_right=self._wrong.get(name, ()),
        )

    def models(self) -> list[ReportedTable]:
        """Models of which something was recorded, or whose tables other hands changed."""
        moved = {name for name in self._status if name.startswith(OF_MODELS)}
        names = {name for name in self._known.copies if name.startswith(OF_MODELS)}
        return [
            ReportedTable(
                table=name,
                mode="model",
                status=self._status.get(name),
                proof="unknown" if name in moved else None,
                days=copy_days(self._known.copies.get(name, ()), self.first, self._now.date()),
                by_copies=True,
                copies=self._known.copies.get(name, ()),
                not_right=self._wrong.get(name, ()),
            )
            for name in sorted(moved | names)
        ]


def _proved_loads(loads: Sequence[LoadFigures]) -> int:
    return sum(one.proved for one in loads if one.state == "success")


def _oldest_needed(proofs: Sequence[Proof]) -> int:
    """The newest load that each proof saw which says something of days: later ones matter."""
    newest = newest_of(reversed(proofs))
    days = [p for p in proofs if p.day is not None and p.verdict == "equal"]
    return min((p.through_seq for p in (*newest.by_keys, *newest.others, *days)), default=0)


def _newest_others(others: Sequence[Proof]) -> list[Proof]:
    """Of checks of days and conditions the newest of each."""
    newest: dict[tuple[str, date | None], str] = {}
    for proof in others:  # the newest first
        newest.setdefault((proof.asked, proof.day), proof.check_id)
    return [p for p in others if newest[p.asked, p.day] == p.check_id]


def _recorded_copies(ledger: Ledger, since: datetime) -> dict[str, Sequence[RecordedCopy]]:
    found: dict[str, Sequence[RecordedCopy]] = {}
    for copies in COPIES:
        found |= copies(ledger, since)
    return found
