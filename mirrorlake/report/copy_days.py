"""The days of tables that are copied as a whole, of snapshots and of models: what was recorded on
each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from mirrorlake.ledger import Proof
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.operations.status.copies import RecordedCopy
from mirrorlake.proof.coverage.covered import newest_of
from mirrorlake.report.calendar import DayRun, DayState, runs_of
from mirrorlake.runtime.plural import plural

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class CopyChecks:
    """What checks say of a table that is copied, and what takes it from them.

    Attributes:
        proofs: in the order in which they were recorded.
        marked: when it was last marked unproved (UTC), and why.
        moved: what other hands did to its rows in the lake; empty for nothing.
    """

    proofs: Sequence[Proof] = ()
    marked: tuple[datetime, str] | None = None
    moved: str = ""


def load_days(
    loads: Sequence[LoadFigures], checks: CopyChecks, first: date, today: date
) -> list[DayRun]:
    """What was recorded on each day of a table that is copied: what its copies came to, and what
    checks of the whole table found that day. One is proved if the newest copy of that day was
    compared."""
    good, bad = dict[date, list[int]](), dict[date, str]()
    for load in loads:
        day = (load.finished_at or load.started_at).date()
        if load.state == "success":
            good.setdefault(day, []).append(load.seq)
            bad.pop(day, None)
        elif load.state == "errored":
            bad[day] = load.error or "it failed"
    checked: dict[date, list[Proof]] = {}
    for proof in checks.proofs:
        day = proof.started_at.date()
        before = checked.get(day, [])
        same = before and before[0].check_id == proof.check_id
        checked[day] = [*before, proof] if same else [proof]

    def said(day: date) -> tuple[DayState, str]:
        copies, looked = good.get(day, []), checked.get(day, [])
        read = plural(len(copies), "copy", "copies")
        if any(p.verdict == "different" for p in looked):
            rows = plural(looked[0].differences, "row differs", "rows differ")
            return "different", f"{rows}: checked {looked[0].started_at:%Y-%m-%d %H:%M}"
        if day in bad:
            return "errored", bad[day]
        if looked and newest_of(reversed(looked)).whole and _all_equal(looked):
            return _proved_once(looked, copies, checks)
        if copies:
            return "loaded", f"{read}; the whole table was not compared that day"
        return "none", "no copy that day"

    return runs_of((day, *said(day)) for day in _days(first, today))


def _proved_once(
    looked: Sequence[Proof], copies: Sequence[int], checks: CopyChecks
) -> tuple[DayState, str]:
    """A day on which the whole table was found equal: by what was done since, it may not hold."""
    read = plural(len(copies), "copy", "copies")
    words = f"the whole table was equal when it was checked {looked[0].started_at:%Y-%m-%d %H:%M}"
    later = sum(seq > min(p.through_seq for p in looked) for seq in copies)
    if checks.moved:
        return "unknown", f"{words}; {checks.moved}"
    if checks.marked and min(p.started_at for p in looked) <= checks.marked[0]:
        return "stale", f"{words}; marked unproved since: {checks.marked[1]}"
    if later:
        return "stale", f"{words}; {plural(later, 'copy', 'copies')} came later that day"
    return "proved", f"{words}; {read} that day"


def _all_equal(proofs: Sequence[Proof]) -> bool:
    return all(p.verdict == "equal" for p in proofs)


def copy_days(copies: Sequence[RecordedCopy], first: date, today: date) -> list[DayRun]:
    """What became of copies, or partitions, on each day."""
    by_day: dict[date, list[RecordedCopy]] = {}
    for one in copies:
        by_day.setdefault(one.at.date(), []).append(one)

    def said(day: date) -> tuple[DayState, str]:
        here = by_day.get(day, [])
        counts = {state: sum(x.state == state for x in here) for state in {x.state for x in here}}
        words = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
        if any(one.failed for one in here):
            return "errored", words
        shown = any(one.shown for one in here)
        return ("loaded" if shown else "none"), words or "nothing that day"

    return runs_of((day, *said(day)) for day in _days(first, today))


def _days(first: date, last: date) -> Iterator[date]:
    return (first + n * _DAY for n in range((last - first).days + 1))
