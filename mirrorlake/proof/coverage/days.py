"""Which days are proved: of a day, every row was old enough, was compared, and is equal.

A chunk is a range of keys, and a day's rows lie in many. So a day is proved only when the newest
proofs hold all keys between them, each found equal, and nothing was written to the day's rows since
the oldest of them looked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from mirrorlake.ledger.proofs.proof_records import Proof
from mirrorlake.ledger.records import Load
from mirrorlake.proof.coverage.covered import newest_of
from mirrorlake.proof.forms.rows import Row
from mirrorlake.proof.ranges.scope import TIMES
from mirrorlake.proof.ranges.target import Target

_DAY = timedelta(days=1)
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")


@dataclass(frozen=True)
class Days:
    """The days [first, before); no ``first``: from the earliest."""

    first: date | None
    before: date

    def __contains__(self, day: date) -> bool:
        return day < self.before and (self.first is None or day >= self.first)


@dataclass(frozen=True)
class Proved:
    """The days that are proved, but for some.

    Attributes:
        but: days that a check of theirs alone did not find equal since.
        since: when the oldest of the proofs began (UTC).
        checks: how many checks they are of.
    """

    days: Days
    but: frozenset[date]
    since: datetime
    checks: int

    def __contains__(self, day: date) -> bool:
        return day in self.days and day not in self.but


def whole_days(target: Target) -> Days | None:
    """The days all of whose rows are old enough to be compared; None where the table's cursor does
    not tell a row's day."""
    scope = target.scope
    if not scope.cursor:
        return None
    if target.table.column(scope.cursor).data_type not in TIMES:
        return None
    before = _day_of(scope.below)
    return None if before is None else Days(_day_of(scope.first), before)


def _day_of(text: str | None) -> date | None:
    """The day of a value as it is shown, or of a literal; None where it is none."""
    found = _DATE.match((text or "").strip("'"))
    try:
        return date.fromisoformat(found[0]) if found else None
    except ValueError:
        return None


def days_of(target: Target, rows: Sequence[Row]) -> set[date]:
    """The days of some rows, as either side has them."""
    cursor = target.scope.cursor.lower()
    numbers = [n for n, cell in enumerate(target.rows.cells) if cell.name.lower() == cursor]
    found = {_day_of(row.shown[number]) for row in rows for number in numbers}
    return {day for day in found if day is not None}


def proved_days(
    proofs: Sequence[Proof], loads: Sequence[Load], marked: datetime | None = None
) -> Proved | None:
    """The days that a table's proofs (oldest first) prove; None for none.

    Args:
        loads: the table's successful ones.
        marked: when the table was last marked unproved (UTC).
    """
    newest_proofs = newest_of(reversed(proofs))
    if not newest_proofs.whole:
        return None
    rest, others = newest_proofs.by_keys, newest_proofs.others
    if any(p.verdict != "equal" or (marked and p.started_at <= marked) for p in rest):
        return None
    days = _all_of(rest)
    newest: dict[date | None, str] = {}
    for p in others:
        newest.setdefault(p.day, p.check_id)
    wrong = [p for p in others if p.verdict != "equal" and newest[p.day] == p.check_id]
    if days is None or any(p.day is None for p in wrong):
        return None
    checks = {p.check_id for p in rest}
    # Nothing may have been written since the oldest of them looked.
    seen = min(p.through_seq for p in rest)
    days = _left_alone(days, [load for load in loads if load.seq > seen])
    if days is None:
        return None
    but = frozenset(p.day for p in wrong if p.day is not None)
    return Proved(days, but, min(p.started_at for p in rest), len(checks))


def days_proved_alone(
    proofs: Sequence[Proof], loads: Sequence[Load], marked: datetime | None = None
) -> dict[date, Proof]:
    """The days that the newest check of each by itself found equal, with that check; of a table
    whose keys were found different since, none that is older.

    Args:
        proofs: the table's, oldest first: those of days, and newer ones of keys.
        loads, marked: as for `proved_days`.
    """
    wrong = max(
        (p.started_at for p in proofs if p.day is None and p.verdict != "equal"), default=None
    )
    checks: dict[date, list[Proof]] = {}
    for proof in proofs:
        if proof.day is None or proof.asked != "partition":
            continue
        before = checks.get(proof.day, [])
        same = before and before[0].check_id == proof.check_id
        checks[proof.day] = [*before, proof] if same else [proof]
    found: dict[date, Proof] = {}
    for day, ranges in checks.items():
        oldest = min(ranges, key=lambda p: p.started_at)
        older = [at for at in (marked, wrong) if at is not None and oldest.started_at <= at]
        days = _all_of(ranges)
        if older or days is None or any(p.verdict != "equal" for p in ranges):
            continue
        seen = min(p.through_seq for p in ranges)
        left = _left_alone(days, [load for load in loads if load.seq > seen])
        if left is not None and day in left:
            found[day] = oldest
    return found


def _all_of(proofs: Sequence[Proof]) -> Days | None:
    """The days that each of them compared as a whole in its range."""
    firsts = [p.days_from for p in proofs if p.days_from is not None]
    befores = [p.days_before for p in proofs if p.days_before is not None]
    if len(befores) < len(proofs):
        return None
    return Days(max(firsts, default=None), min(befores))


def _left_alone(days: Days, loads: Sequence[Load]) -> Days | None:
    """Those days of which no load wrote a row; None where that is not known."""
    before = days.before
    for load in loads:
        first = _first_written(load)
        if first is None:
            return None
        before = min(before, first)
    return Days(days.first, before)


def _first_written(load: Load) -> date | None:
    """The earliest day of which a load may have written rows; None where that is not known.

    A live window reads from a moment on. A reload writes its days, and rows that have moved on from
    them: to later days, unless it says that some went back.
    """
    window, receipt = load.window, load.receipt
    if window.lo is None or receipt is None or window.kind not in ("live", "reload"):
        return None
    if window.kind == "reload" and receipt.looked_up and receipt.backward != 0:
        return None
    first = _day_of(window.lo)
    # Windows are recorded in UTC, days by the clock that the application writes.
    return None if first is None else first - _DAY
