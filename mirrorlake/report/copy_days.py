"""The days of tables that are copied as a whole, of snapshots and of models: what was recorded on
each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta

from mirrorlake.ledger import Proof
from mirrorlake.ledger.reports.since import LoadFigures
from mirrorlake.operations.status.copies import RecordedCopy
from mirrorlake.proof.coverage.covered import newest_of
from mirrorlake.report.calendar import DayRun, DayState, runs_of
from mirrorlake.runtime.plural import plural

_DAY = timedelta(days=1)


def load_days(
    loads: Sequence[LoadFigures], proofs: Sequence[Proof], first: date, today: date
) -> list[DayRun]:
    """What was recorded on each day of a table that is copied: what its copies came to, and what
    checks of the whole table found that day."""
    good, bad = dict[date, int](), dict[date, str]()
    for load in loads:
        day = (load.finished_at or load.started_at).date()
        if load.state == "success":
            good[day] = good.get(day, 0) + 1
            bad.pop(day, None)
        elif load.state == "errored":
            bad[day] = load.error or "it failed"
    checked: dict[date, list[Proof]] = {}
    for proof in proofs:
        day = proof.started_at.date()
        before = checked.get(day, [])
        same = before and before[0].check_id == proof.check_id
        checked[day] = [*before, proof] if same else [proof]

    def said(day: date) -> tuple[DayState, str]:
        read = plural(good.get(day, 0), "copy", "copies")
        looked = checked.get(day, [])
        if any(p.verdict == "different" for p in looked):
            rows = plural(looked[0].differences, "row differs", "rows differ")
            return "different", f"{rows}: checked {looked[0].started_at:%Y-%m-%d %H:%M}"
        if day in bad:
            return "errored", bad[day]
        if looked and newest_of(reversed(looked)).whole and _all_equal(looked):
            at = f"{looked[0].started_at:%Y-%m-%d %H:%M}"
            return "proved", f"the whole table was equal when it was checked {at}; {read} that day"
        if day in good:
            return "loaded", f"{read}; the whole table was not compared that day"
        return "none", "no copy that day"

    return runs_of((day, *said(day)) for day in _days(first, today))


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
