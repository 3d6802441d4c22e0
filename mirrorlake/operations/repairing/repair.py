"""Repair: what differs is read again from MySQL, and proved again, until nothing does.

Where there is a key, exactly the keys that differ are read again (`repair_keys`); a table without
one is read again as it is loaded, day by day or whole. Where that does not help, deduped is written
from raw again.

Every round is a load by the commit protocol, so a crash between any two lines leaves what a crash
of a load leaves: `recover`, or the next load, puts it right, and repairing again is harmless. What
was repaired, why, and what both sides were before and after is kept in the ledger.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Repair
from mirrorlake.load.shrink_guard import refuse_removals
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, reload_days
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair_journal import begin_repair, end_repair
from mirrorlake.operations.repairing.repair_keys import RepairRound, reread_keys, round_of
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.forms.differences import Difference, Differing
from mirrorlake.table.surplus import SURPLUS
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

MOST_KEYS = 10_000
"""Keys that one round reads again; what differs beyond is found by the next check."""
ROUNDS = 20
_SWEEPS = 3
"""Rounds after which rows that were deleted meanwhile are left to the next look: while an
application deletes, there are always some."""
PATIENCE = 4
"""Rounds in a row after which the same rows still differ, before it is given up."""
_WHOLE_AFTER = 2
"""Rounds in a row after which deduped is written from raw: somebody wrote what no key finds."""
PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class Repaired:
    """What came of a repair.

    Attributes:
        outcome: the last verdict: equal, different or undecided.
        why: what differed, in words.
        keys: rows that differed at first, those included that were not looked at.
        rows, gone: read again, and found to be no more.
        loads: ids of the loads that brought them.
        rounds: how often something was repaired; 0 where nothing differed.
        before, after: the reports of the first and the last check.
        evidence: their evidence files and those between, in order.
        repair_id: of the journal's entry; None where nothing was repaired.
    """

    table: str
    outcome: str
    why: str
    keys: int
    rows: int
    gone: int
    loads: tuple[str, ...]
    rounds: int
    before: Report
    after: Report
    evidence: tuple[Path, ...]
    repair_id: str | None
    seconds: float


def refuse_repair(contract: TableContract) -> None:
    """See that the contract lets a table be repaired at all.

    Raises:
        ConfigError: it says `repair: off`.
    """
    if contract.repair == "off":
        raise ConfigError(
            f"table {contract.name} is not repaired: its contract says repair: off",
            table=contract.name,
            next_step="Set repair to ask or auto, or load the days again with mirrorlake backfill",
        )


def repair_table(
    workspace: Workspace,
    contract: TableContract,
    ask: Ask,
    *,
    found: tuple[Report, str | os.PathLike[str]] | None = None,
    only_deletes: bool = False,
    accept_smaller: bool = False,
    evidence: str | os.PathLike[str] | None = None,
) -> Repaired:
    """Check these rows, read again what differs, and prove it again, in bounded rounds.

    Args:
        found: a check of these rows that was made just now, by which to begin.
        only_deletes: leave alone what MySQL still has; see `deletes` in the contract.
        accept_smaller: whether rows that are gone from MySQL are taken out of the mirror though
            that leaves it far smaller.
        evidence: the folder of evidence files.

    Raises:
        ConfigError: the contract forbids it, or the table can't be repaired by what differs.
        TooFewRows: MySQL has so few of the mirror's rows that a person has to look; nothing was
            repaired.
        MirrorlakeError: see checking, loading and folding; what was repaired before stays.
    """
    refuse_repair(contract)
    started, clock = datetime.now(UTC), time.monotonic()
    first, path = found or prove_table(workspace, contract, ask, evidence, MOST_KEYS)
    path = Path(path)
    if not accept_smaller and not contract.copies:
        refuse_removals(contract, workspace.lake, removed_by(contract, first))
    work = _Work(workspace, contract, evidence, only_deletes, [path])
    journal: Repair | None = None
    if work.differing(first):
        journal = begin_repair(workspace, contract, first, why(first), started, path)
    last = first
    try:
        if journal is not None:
            last = work.repair_until_equal(first)
    except BaseException:
        end_repair(workspace, journal, work.done, work.evidence, None, "failed")
        raise
    end_repair(workspace, journal, work.done, work.evidence, last, last.verdict)
    if first.ask.kind == "full" and not first.unlooked and last.verdict == "equal":
        # Each row that only the mirror had was looked up, whatever the last look was at.
        workspace.ledger.forget_definition(SURPLUS + contract.name)
    return work.repaired(first, last, journal, time.monotonic() - clock)


def removed_by(contract: TableContract, report: Report) -> int:
    """How many rows a repair of what was found would take out of the mirror: those that were looked
    at one by one, or by how many the mirror has more where there are too many for that."""
    gone = sum(key.gone for key in report.keys)
    if contract.deletes != "remove" or not report.unlooked:
        return gone
    return max(gone, report.lake.rows - report.source.rows)


def why(report: Report) -> str:
    """What a check found, without any value: how many rows are missing, extra and changed."""
    kinds = Counter(difference.kind for difference in report.differences)
    parts = [f"{kinds[kind]} {kind}" for kind in ("changed", "missing", "extra") if kinds[kind]]
    parts += [f"{report.unlooked} not looked at"] if report.unlooked else []
    return ", ".join(parts) or "nothing"


class _Work:
    """The rounds of one repair, and what they did."""

    def __init__(
        self,
        workspace: Workspace,
        contract: TableContract,
        evidence: str | os.PathLike[str] | None,
        only_deletes: bool,
        paths: list[Path],
    ) -> None:
        self._workspace, self._contract = workspace, contract
        self._folder, self._only_deletes = evidence, only_deletes
        self.evidence = paths
        self.done: list[RepairRound] = []

    def differing(self, report: Report) -> bool:
        """Whether there is something to repair."""
        if self._contract.by_keys:
            return bool(self._keys(report))
        return report.verdict == "different" and not self._only_deletes

    def _keys(self, report: Report) -> list[Differing]:
        return [key for key in report.keys if key.gone or not self._only_deletes]

    def repair_until_equal(self, report: Report) -> Report:
        """Rounds until nothing is left to repair; the last check's report."""
        stuck = 0
        before: set[str] = set()
        for _ in range(ROUNDS):
            if self.differing(report):
                if report.only_deleted and len(self.done) >= _SWEEPS:
                    return report
                now = _named(report)
                stuck = stuck + 1 if now & before else 0
                before = now
                if stuck == PATIENCE:
                    return report
                self._repair(report, whole=stuck >= _WHOLE_AFTER)
            elif report.verdict == "undecided" and stuck < PATIENCE:
                stuck += 1
                time.sleep(PAUSE_SECONDS)
            else:
                return report
            report = self._prove(report)
        return report

    def _repair(self, report: Report, *, whole: bool) -> None:
        workspace, contract = self._workspace, self._contract
        if whole:
            logger.warning("table %s: deduped is written from raw as a whole", contract.name)
            refold_table(workspace, contract)
            self.done.append(RepairRound())
        elif contract.copies or contract.by_count:
            self.done.append(copy_again(workspace, contract))
        elif self._contract.by_keys:
            self.done.append(reread_keys(workspace, contract, self._keys(report)))
        else:
            self.done.append(reread_days(workspace, contract, report.differences))
        logger.info(
            "table %s: %s: %d rows read again, %d gone from MySQL",
            *(contract.name, why(report), self.done[-1].rows, self.done[-1].gone),
        )

    def repaired(
        self, first: Report, last: Report, journal: Repair | None, seconds: float
    ) -> Repaired:
        """What all rounds together came to."""
        return Repaired(
            table=self._contract.name,
            outcome=last.verdict,
            why=why(first),
            keys=len(first.differences) + first.unlooked,
            rows=sum(m.rows for m in self.done),
            gone=sum(m.gone for m in self.done),
            loads=tuple(load for m in self.done for load in m.loads),
            rounds=len(self.done),
            before=first,
            after=last,
            evidence=tuple(self.evidence),
            repair_id=journal.repair_id if journal else None,
            seconds=round(seconds, 3),
        )

    def _prove(self, report: Report) -> Report:
        again, path = prove_table(
            self._workspace, self._contract, again_of(report), self._folder, MOST_KEYS
        )
        self.evidence.append(path)
        return again


def again_of(report: Report) -> Ask:
    """The rows to prove again: from the first range that was not equal to the last one."""
    if report.ask.kind not in ("full", "next", "keys"):
        return report.ask
    open_ = [r.range for r in report.ranges if r.verdict != "equal"]
    ranges = [r for r in open_ if r is not None]
    if not ranges:
        return Ask() if report.ask.kind == "next" else report.ask
    return Ask("keys", keys=replace(ranges[0], hi=ranges[-1].hi))


def _named(report: Report) -> set[str]:
    """The rows that differ, by their keys; without a key, by all that is shown of them."""
    if report.keys:
        return {repr(key.texts[0]) for key in report.keys}
    return {repr(difference.key) for difference in report.differences} or {"all"}


# --- by days, and whole ---------------------------------------------------------------------------


def reread_days(
    workspace: Workspace, contract: TableContract, found: Sequence[Difference]
) -> RepairRound:
    """Read the days of these rows again, whole, and fold: the way of tables without a key.

    Raises:
        ConfigError: no column gives a row's day.
        SourceError: MySQL has fewer rows of a day than raw: they would be lost.
        MirrorlakeError: see loading and folding.
    """
    days = sorted({day for difference in found for day in _days_of(contract, difference)})
    if not days:
        raise ConfigError(
            f"table {contract.name} has no key, and its rows that differ have no day that could be "
            "read again",
            table=contract.name,
            next_step="Name a key in its contract, or mirror it again in mode full",
        )
    before = workspace.ledger.highest_seq()
    for first, last in _spans(days):
        reload_days(workspace, contract, first, last)
    fold_table(workspace, contract)
    return round_of(workspace.ledger.successful_loads(contract.name, before))


def copy_again(workspace: Workspace, contract: TableContract) -> RepairRound:
    """A new full copy, and deduped made of it (and of what the log says since).

    Raises:
        MirrorlakeError: see loading and folding.
    """
    ledger, name = workspace.ledger, contract.name
    before = ledger.highest_seq()
    if contract.by_count and (receipt := ledger.newest_receipt(name)) is not None:
        ledger.mark_unproved(name, receipt.server, "its rows differ from MySQL's")
    load_table(workspace, contract, complete=True)
    refold_table(workspace, contract)
    return round_of(ledger.successful_loads(name, before))


def _days_of(contract: TableContract, difference: Difference) -> list[date]:
    """The day of a row without a key, by its cursor; none where that has no place in a calendar."""
    wanted = (contract.cursor or "").lower()
    shown = [v.shown for v in difference.key if v.column.lower() == wanted and v.shown]
    found: list[date] = []
    for text in shown:
        try:
            found.append(date.fromisoformat(text[:10]))
        except ValueError:
            continue
    return found


def _spans(days: Sequence[date]) -> list[tuple[date, date]]:
    """Days in a row, as ranges with both ends included."""
    starts = [days[0], *(b for a, b in pairwise(days) if b - a > timedelta(days=1))]
    ends = [*(a for a, b in pairwise(days) if b - a > timedelta(days=1)), days[-1]]
    return list(zip(starts, ends, strict=True))
