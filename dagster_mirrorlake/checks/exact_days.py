"""The days of a table as its exact check reports them: each proved, differing or stale."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import dagster as dg

from dagster_mirrorlake.checks.days import NEWEST, Partition, ReportedDays
from mirrorlake.config import TableContract
from mirrorlake.ledger import Proof
from mirrorlake.operations.days.raw_days import RawFiles
from mirrorlake.operations.days.touched_days import touched_days
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.coverage.days import Proved, proved_days
from mirrorlake.runtime.plural import plural
from mirrorlake.workspace import Workspace

_LOOKED_AT = 7
"""Days that failed and are compared by themselves in one look, at most."""
_NEWLY = 100
"""Newly proved days that one look reports: Dagster writes each by itself."""
_DAY = timedelta(days=1)
_STALE = "Rows of it were written since it was proved: the next round compares them"
_UNPROVED = "no proofs that are kept show all its rows to be equal as they are now"
_ALONE = "Every row of it was compared, by itself"
_TOO_NEW = "rows of it may be too new to be compared"
_DAYLESS = "the table's cursor does not tell the day of a row"
_WRONG = "Rows that differ between MySQL and the lake are of this day, on one side at least"


@dataclass
class _Days:
    """What is known of days.

    Attributes:
        good: days of which every row was compared and is equal, with how that is known.
        differing: days of which rows differ, with how many keys.
        unproved: days of which a verdict was requested and is not known, with the reason.
    """

    workspace: Workspace
    contract: TableContract
    good: dict[date, str]
    differing: dict[date, int]
    unproved: dict[date, str] = field(default_factory=dict[date, str])

    def is_open(self, day: date) -> bool:
        """Whether neither is known of a day."""
        return day not in self.differing and day not in self.good

    def compare_alone(self, days: Iterable[date]) -> None:
        """Compare each of these days by itself."""
        for day in days:
            report, _ = prove_table(self.workspace, self.contract, Ask("partition", day=day))
            if report.verdict == "equal" and report.days is not None:
                self.good[day] = _ALONE
            elif report.verdict == "different":
                self.differing[day] = report.differing_days.get(day, 1)
            elif day in self.unproved:
                self.unproved[day] = undecided_words(report)
        for day in self.differing:
            self.good.pop(day, None)


def days_verdict(
    workspace: Workspace,
    reported: ReportedDays,
    report: Report,
    run_days: tuple[date, date] | None,
    compare_days: Collection[date],
    shown_since: tuple[set[date] | None, int],
) -> tuple[dict[str, Partition], dict[date, str]]:
    """Days are reported as failed where rows of them differ, as passed only where every row of
    them was compared, and as stale where something was written to them since; of all others
    nothing is said. What is newly proved comes some days at a time, the newest first.

    A day that failed before, and is in neither, is compared by itself: nothing else would ever
    report it again in a table of many chunks. So is one that was requested.

    Args:
        shown_since: the days whose verdicts Dagster shows no more, as they were materialised since
            (None: all), and the newest event's number.

    Returns:
        The days that are reported; and those that were requested and are not proved, with the
        reason: Dagster calls them skipped, which they are.
    """
    ledger, contract = workspace.ledger, reported.contract
    passed, through, _ = reported.passed()
    again, event = shown_since
    passed -= passed if again is None else again
    # What was loaded while it was compared is not in it.
    newest = min(ledger.newest_success(contract.name), report.through)
    proofs = ledger.proofs(contract.name)
    # Rows that were deleted in MySQL are what the sweep is for, and no difference.
    differing = {} if report.only_deleted else dict(report.differing_days)
    good = _proved_of(workspace, reported, report, proofs, run_days, passed)
    days = _Days(workspace, contract, good, differing)
    days.compare_alone(_alone(days, reported, report, proofs, compare_days))
    stale = (passed & _written_since(workspace, contract, through)) - {*days.good, *days.differing}
    known = {*days.differing, *days.good, *stale}
    unproved = {day: words for day, words in days.unproved.items() if day not in known}
    chosen = reported.choose(known, sorted(known), run_days)
    reported.record({*days.differing, *reported.failed()} - {*days.good})
    # What is too much for one look is left to the next.
    shown = set(chosen)
    kept = passed - {*days.differing, *unproved, *(stale & shown)} | (set(days.good) & shown)
    reported.record_passed(kept, newest if stale <= shown else through, event)
    found = _partitions(days, stale)
    return {str(day): found[day] for day in chosen}, unproved


def _proved_of(
    workspace: Workspace,
    reported: ReportedDays,
    report: Report,
    proofs: Sequence[Proof],
    run_days: tuple[date, date] | None,
    passed: Collection[date],
) -> dict[date, str]:
    """The proved days that may be reported, by the proofs that are kept and by this look."""
    ledger, contract = workspace.ledger, reported.contract
    mark = ledger.newest_mark(contract.name)
    loads = ledger.successful_loads(contract.name)
    proved = proved_days(proofs, loads, mark[0] if mark else None)
    listed = _listed(proved, reported.failed(), run_days)
    good = dict.fromkeys(
        [*listed, *_newly(workspace, proved, passed, reported)],
        _whole(proved),
    )
    own = report.ask.day if report.ask.kind == "partition" and report.verdict == "equal" else None
    if own is not None and report.days is not None and own in report.days:
        good[own] = _ALONE
    return good


def _alone(
    days: _Days,
    reported: ReportedDays,
    report: Report,
    proofs: Sequence[Proof],
    compare_days: Collection[date],
) -> list[date]:
    """The days to compare by themselves: those that failed, the longest not looked at first; and of
    those that were requested, the newest that are old enough. What was requested is unproved."""
    days.unproved = {day: _UNPROVED for day in compare_days if days.is_open(day)}
    if report.days is None:
        # Of a table whose cursor gives no day any more, nothing is left to look at.
        days.unproved = dict.fromkeys(days.unproved, _DAYLESS)
        return []
    left = [day for day in reported.failed() if days.is_open(day)]
    looked = {proof.day: number for number, proof in enumerate(proofs)}
    alone = sorted(left, key=lambda day: looked.get(day, -1))[:_LOOKED_AT]
    old = [day for day in sorted(days.unproved) if day in report.days]
    days.unproved |= {day: _TOO_NEW for day in days.unproved if day >= report.days.before}
    return alone + [day for day in reversed(old[-_LOOKED_AT:]) if day not in alone]


def _partitions(days: _Days, stale: Collection[date]) -> dict[date, Partition]:
    error, warning = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN
    found = {day: Partition(True, {}, words, error) for day, words in days.good.items()}
    found |= {day: Partition(False, {}, _STALE, warning) for day in stale}
    found |= {
        day: Partition(False, {"keys that differ": keys}, _WRONG, error)
        for day, keys in days.differing.items()
    }
    return found


def listed_days(unproved: Mapping[date, str]) -> str:
    """Days by their reason: of many the first and the last."""
    reasons: dict[str, list[date]] = {}
    for day in sorted(unproved):
        reasons.setdefault(unproved[day], []).append(day)
    return "; ".join(
        f"{days[0]}: {words}"
        if len(days) == 1
        else f"{plural(len(days), 'day')} from {days[0]} to {days[-1]}: {words}"
        for words, days in reasons.items()
    )


def _newly(
    workspace: Workspace, proved: Proved | None, passed: Collection[date], reported: ReportedDays
) -> list[date]:
    """Days that are proved and were not reported as such yet: those of which raw has rows first, of
    them the newest."""
    if proved is None or reported.begin is None:
        return []
    count = (proved.days.before - reported.begin).days
    days = (proved.days.before - n * _DAY for n in range(1, count + 1))
    found = [day for day in days if day in proved and day not in passed]
    if len(found) <= _NEWLY:
        return found
    rows = RawFiles(workspace.lake, workspace.ledger, reported.contract).rows
    return sorted(found, key=lambda day: not rows.get(day))[:_NEWLY]


def _written_since(workspace: Workspace, contract: TableContract, through: int) -> set[date]:
    """The days to which loads after a number wrote rows."""
    loads = {one.seq: one for one in workspace.ledger.successful_loads(contract.name, through)}
    if not loads:
        return set()
    files = RawFiles(workspace.lake, workspace.ledger, contract)
    touched = touched_days(workspace.ledger, contract, loads, files)
    return {day for one in touched.values() for day in one.days}


def _listed(
    proved: Proved | None, failed: Sequence[date], run_days: tuple[date, date] | None
) -> list[date]:
    """The proved days that may be reported: the newest, the run's own, and those that failed."""
    if proved is None:
        return []
    newest = [proved.days.before - timedelta(days=n) for n in range(1, NEWEST + 1)]
    first, last = run_days or (proved.days.before, proved.days.before)
    own = [first + timedelta(days=n) for n in range((last - first).days + 1)]
    return sorted(day for day in {*newest, *own, *failed} if day in proved)


def _whole(proved: Proved | None) -> str:
    """How a day is proved."""
    since = f"{proved.since:%Y-%m-%d %H:%M} UTC" if proved else ""
    return f"Every row of it was compared since {since}" if proved else ""


def undecided_words(report: Report) -> str:
    reasons = "; ".join(f"{plural(n, 'row')} {why}" for why, n in sorted(report.undecided.items()))
    return f"Not decidable yet: {reasons or 'too many rows differ'}"
