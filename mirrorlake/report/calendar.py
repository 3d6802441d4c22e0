"""What is known of each day of a table: loaded, proved, stale, different, failed, unknown, never
requested. Pure.

A day is what `gaps` says of it. One that was read is proved only where every row of it was
compared, found equal, and none was written since: as the check `exact_match` has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Final, Literal, TypeAlias

from mirrorlake.ledger import Load, Proof
from mirrorlake.operations.days.gaps import READ, Stretch
from mirrorlake.proof.coverage.days import Proved, days_proved_alone, proved_days
from mirrorlake.runtime.plural import plural

DayState: TypeAlias = Literal[
    "proved", "loaded", "stale", "different", "errored", "unknown", "not asked", "none"
]
STATES: Final[Mapping[DayState, str]] = {
    "proved": "every row was compared with MySQL, is equal, and none was written since",
    "loaded": "it was read; not every row of it was compared, or not by itself",
    "stale": "what was proved or read may not hold any more: rows were written since, or the table "
    "was marked unproved",
    "different": "its newest check found rows that differ",
    "errored": "its newest load failed",
    "unknown": "it was loaded, and the lake does not hold it any more, or may not",
    "not asked": "no load has read it",
    "none": "nothing is recorded",
}
"""What a cell of a calendar says."""
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True)
class DayRun:
    """Consecutive days in one state, for one reason; both ends included."""

    first: date
    last: date
    state: DayState
    words: str

    @property
    def days(self) -> int:
        return (self.last - self.first).days + 1

    def __contains__(self, day: date) -> bool:
        return self.first <= day <= self.last


@dataclass(frozen=True)
class DayProofs:
    """What checks say of a table's days.

    Attributes:
        proofs: the table's, oldest first, back to where they hold all keys; of days, all that
            matter.
        loads: its successful loads of the current history, as far as they came after the oldest of
            them looked.
        marked: when it was last marked unproved (UTC), and why.
    """

    proofs: Sequence[Proof] = ()
    loads: Sequence[Load] = ()
    marked: tuple[datetime, str] | None = None
    by_day: Mapping[date, Proof] = field(init=False)

    def __post_init__(self) -> None:
        newest = {p.day: p for p in self.proofs if p.day is not None}
        object.__setattr__(self, "by_day", newest)


def calendar_of(
    stretches: Sequence[Stretch], known: DayProofs, first: date, today: date
) -> list[DayRun]:
    """The days of a table from ``first`` to ``today``, in order, each in one run.

    Args:
        stretches: what `find_stretches` says of it.
    """
    looked = _Looked(known)
    days = ((day, *looked.state_of(day, one)) for day, one in _each_day(stretches, first, today))
    return runs_of(days)


def runs_of(days: Iterable[tuple[date, DayState, str]]) -> list[DayRun]:
    """Days in order, joined where they follow one another and say the same."""
    found: list[DayRun] = []
    for day, state, words in days:
        before = found[-1] if found else None
        if before and (before.state, before.words, before.last + _DAY) == (state, words, day):
            found[-1] = DayRun(before.first, day, state, words)
        else:
            found.append(DayRun(day, day, state, words))
    return found


def count_days(runs: Iterable[DayRun]) -> dict[DayState, int]:
    """How many days there are of each state; those of which nothing is recorded are left out."""
    found: dict[DayState, int] = {}
    for run in runs:
        if run.state != "none":
            found[run.state] = found.get(run.state, 0) + run.days
    return {state: found[state] for state in STATES if state in found}


def _each_day(
    stretches: Sequence[Stretch], first: date, today: date
) -> Iterator[tuple[date, Stretch | None]]:
    number, day = 0, first
    while day <= today:
        while number < len(stretches) and stretches[number].last < day:
            number += 1
        one = stretches[number] if number < len(stretches) else None
        begun = one is not None and (one.first is None or one.first <= day)
        yield day, one if begun else None
        day += _DAY


class _Looked:
    """What checks say of each day: now, and what they said before something changed."""

    def __init__(self, known: DayProofs) -> None:
        proofs, loads = known.proofs, known.loads
        at = known.marked[0] if known.marked else None
        self._known = known
        self._proved = proved_days(proofs, loads, at)
        self._alone = days_proved_alone(proofs, loads, at)
        self._were = proved_days(proofs, ())
        self._were_alone = days_proved_alone(proofs, ())
        self._now_words = _by_keys(self._proved) if self._proved else ""
        self._then_words = f"{_by_keys(self._were)}; {self._since()}" if self._were else ""

    def state_of(self, day: date, stretch: Stretch | None) -> tuple[DayState, str]:
        if stretch is None:
            return "none", "before the first load"
        if stretch.state not in READ:
            return _unread(stretch)
        check = self._known.by_day.get(day)
        if stretch.state == "unproved":
            return "stale", stretch.reason
        if self._proved is not None and day in self._proved:
            return "proved", self._now_words
        if day in self._alone:
            return "proved", f"compared by itself {_at(self._alone[day].started_at)}"
        if check is not None and check.verdict == "different" and not self._outdated(day, check):
            rows = plural(check.differences, "row differs", "rows differ")
            return "different", f"{rows}: checked {_at(check.started_at)}"
        if self._were is not None and day in self._were:
            return "stale", self._then_words
        if day in self._were_alone:
            before = _at(self._were_alone[day].started_at)
            return "stale", f"compared by itself {before}; {self._since()}"
        read = "read again as a whole" if stretch.state == "reloaded" else "loaded"
        if check is not None and check.verdict == "undecided":
            return "loaded", f"{read}; a check could not decide {_at(check.started_at)}"
        return "loaded", f"{read}; not every row of it was compared"

    def _outdated(self, day: date, check: Proof) -> bool:
        """Whether a check of one day says nothing of it any more."""
        marked, later = self._known.marked, self._were
        if marked is not None and check.started_at <= marked[0]:
            return True
        return later is not None and day in later and later.since > check.started_at

    def _since(self) -> str:
        if self._known.marked is not None and self._known.proofs:
            newest = max(p.started_at for p in self._known.proofs)
            if newest <= self._known.marked[0]:
                return f"marked unproved since: {self._known.marked[1]}"
        return "rows of it were, or may have been, written since"


def _unread(stretch: Stretch) -> tuple[DayState, str]:
    states: Mapping[str, DayState] = {"errored": "errored", "not asked": "not asked"}
    return states.get(stretch.state, "unknown"), stretch.reason


def _by_keys(proved: Proved) -> str:
    return f"compared since {_at(proved.since)}, in {plural(proved.checks, 'check')}"


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
