"""When the partitions of a model can be computed, beside the first time that they then read of
another model.

What belongs here: the calendar of a reader, for a year to come. What doesn't: whether what it reads
is kept for so long (`mirrorlake.models.compile.lookback`).
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import TypeAlias

from sqlglot import exp

from mirrorlake.models.cache.scope_rules import (
    ModelRule,
    MovableBound,
    ReadRule,
    RuleBook,
    RuleFinder,
    at_day,
    value_of,
)
from mirrorlake.models.scope_values.comprehension import Scopes, ScopeValues, text_of
from mirrorlake.models.scope_values.on_demand import DayRange, ScopeProduct
from mirrorlake.models.scope_values.retention import moment_of, values_of
from mirrorlake.models.scope_values.series import bound_expression
from mirrorlake.models.spark_sql.constants.values import Constant
from mirrorlake.models.spark_sql.parser import parse_expression

YEAR = timedelta(days=400)
"""A year, with the last month of the one before it: longer, no calendar month is different."""
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class FirstRead:
    """The first value that is read of a time; ``inclusive``: whether it is read itself."""

    value: Constant
    inclusive: bool


@dataclass(frozen=True)
class PartitionReading:
    """What one partition reads of another model.

    Attributes:
        times: of the partition, by name.
        until: the moment until which it may be computed (UTC).
        firsts: of each mention of the other model; None: all from the beginning.
        fixed: whether it reads the same on every day to come.
    """

    times: tuple[tuple[str, Constant], ...]
    until: datetime
    firsts: tuple[FirstRead | None, ...]
    fixed: bool = False

    @property
    def words(self) -> str:
        """The partition's time, ``day=2024-05-01``; empty without one."""
        return " ".join(f"{name}={text_of(value)}" for name, value in self.times)


@dataclass(frozen=True)
class PartitionReader:
    """A model, as it reads another one.

    Attributes:
        scopes: what it is computed for.
        times: the names of its partitions that are dates or timestamps.
        rules: what its scopes read; ``look``: of one of which that is not known yet.
        now: from when on a year is looked at (UTC).
    """

    scopes: Scopes
    times: tuple[str, ...]
    rules: RuleBook
    look: RuleFinder
    now: datetime

    def of(self, above: str, name: str) -> Iterator[PartitionReading]:
        """What its partitions read of another model, in a year.

        Args:
            name: of the other model's time.
        """
        moves = _moves_with_clock(self.scopes, {*self.rules.used, *self.times})
        if self.times and not moves:
            yield from self._by_times(above, name)
            return
        # What is the same on each day is hardest to find on the last one.
        for number in range(0 if moves else YEAR.days, YEAR.days + 1):
            for one in self._of_day(self.now + number * _DAY, above, name):
                yield replace(one, fixed=not moves)

    def _by_times(self, above: str, name: str) -> Iterator[PartitionReading]:
        """The partitions of a year: until their time is over, and as long again."""
        scopes = self.scopes.all(self.now + YEAR)
        overs = {one: _Overs(values_of(scopes, one)) for one in self.times}
        scopes = _of_a_year(scopes, self.times, self.now)
        time = self.times[0]
        if isinstance(scopes, ScopeProduct) and len(self.times) == 1 and time in self.rules.used:
            yield from self._by_rules(scopes, overs[time], above, name)
            return
        for scope in scopes:
            until = max(overs[one].of(scope[one]) for one in self.times)
            yield self._reading(scope, until, above, name)

    def _by_rules(
        self, scopes: ScopeProduct, overs: _Overs, above: str, name: str
    ) -> Iterator[PartitionReading]:
        """Partitions that one rule holds for are looked at together; those that differ in other
        names alone, once."""
        (time,) = self.times
        place_of = self.rules.used.index(time)
        seen: set[object] = set()
        for place, rule, days in self.rules.cover(scopes, self.look):
            lows, own = _lows(rule, above, name), place[place_of]
            key = lows, own, days[0], days[-1], len(days)
            if key in seen:
                continue
            seen.add(key)
            for day in days if lows else ():
                value = value_of(own, day)
                firsts = _moved(lows, day)
                yield PartitionReading(((time, value),), overs.of(value), firsts)

    def _of_day(self, day: datetime, above: str, name: str) -> Iterator[PartitionReading]:
        """The partitions that can be computed on a day, which is over a day later."""
        scopes = self.scopes.all(day)
        overs = {one: _Overs(values_of(scopes, one)) for one in self.times}
        for scope in scopes:
            if not overs or max(one.of(scope[time]) for time, one in overs.items()) > day:
                yield self._reading(scope, day + _DAY, above, name)

    def _reading(
        self, scope: ScopeValues, until: datetime, above: str, name: str
    ) -> PartitionReading:
        rule, day = self.rules.find(scope, self.look)
        times = tuple((one, scope[one]) for one in self.times)
        return PartitionReading(times, until, _moved(_lows(rule, above, name), day))


def _lows(rule: ReadRule, above: str, name: str) -> _Lows:
    """The bound from which each mention of a model reads its time, and whether it is read."""
    return tuple(
        (part.low, part.from_low)
        for one in rule.inputs
        if isinstance(one, ModelRule) and one.table == above
        for mention in one.mentions
        for part in dict(mention)[name].parts
    )


_Lows: TypeAlias = "tuple[tuple[MovableBound, bool], ...]"


def _moved(lows: _Lows, day: int) -> tuple[FirstRead | None, ...]:
    found = ((at_day(low, day), inclusive) for low, inclusive in lows)
    return tuple(
        FirstRead(value, inclusive) if isinstance(value, date) else None
        for value, inclusive in found
    )


class _Overs:
    """When the times of a model's partitions are over, and have been for as long as they lasted."""

    def __init__(self, values: Sequence[Constant]) -> None:
        self._begins = [moment_of(value) for value in values]

    def of(self, value: Constant) -> datetime:
        begins, begin = self._begins, moment_of(value)
        place = bisect.bisect_left(begins, begin)
        if place + 1 < len(begins):
            return begins[place + 1] + (begins[place + 1] - begin)
        return begin + 2 * (begin - begins[place - 1] if place else _DAY)


def _of_a_year(
    scopes: Sequence[ScopeValues], times: Sequence[str], now: datetime
) -> Sequence[ScopeValues]:
    """The scopes of partitions that are not over yet, until the newest; of what ended before, those
    of its last year."""
    (time, *others), begins = times, [moment_of(one) for one in values_of(scopes, times[0])]
    if others:
        return scopes
    since = min(now, begins[-1] - YEAR)
    # Two before: their time is over, and not for as long as it lasted.
    first = max(bisect.bisect_left(begins, since) - 2, 0)
    values = scopes.columns[time] if isinstance(scopes, ScopeProduct) else None
    if isinstance(scopes, ScopeProduct) and isinstance(values, DayRange):
        return ScopeProduct({**scopes.columns, time: values[first:]})
    if isinstance(scopes, ScopeProduct) and values is not None:
        some = [one for one in values if moment_of(one) >= begins[first]]
        return ScopeProduct({**scopes.columns, time: some})
    return [scope for scope in scopes if moment_of(scope[time]) >= begins[first]]


def _moves_with_clock(scopes: Scopes, names: set[str]) -> bool:
    """Whether a scope of today is another one tomorrow: any of some names, or ``if``, asks the
    clock. A series that only ends by it has tomorrow one value more."""
    if scopes.condition is not None and bound_expression(scopes.condition).clock:
        return True
    moving: set[str] = set()
    for one in scopes.bindings:
        if not isinstance(one.values, str):
            continue
        text = bound_expression(one.values)
        if text.names & moving or (text.clock and not _only_ends(one.values)):
            moving.add(one.name)
    return bool(moving & names)


def _only_ends(text: str) -> bool:
    """Whether a series asks the clock for nothing but its end."""
    node = parse_expression(text)
    if not isinstance(node, exp.Anonymous) or str(node.this).upper() != "TIMESERIES":
        return False
    first, _, *others = node.expressions
    clock = (exp.CurrentDate, exp.CurrentTimestamp)
    return not any(one.find(*clock) for one in (first, *others))
