"""What the scopes of a model read, worked out once for many of them.

A rule is found by looking at one scope, whose days move
(`mirrorlake.models.spark_sql.constants.moving_days`). It holds for all scopes whose days lie on the
same ground and whose other names have the same values: there a bound is as many days from the
scope's day. Only names that stand in the query count.

What belongs here: rules, and which one holds for a scope. What doesn't: how one is found, and which
partitions its bounds mean (`mirrorlake.models.compile.dependencies`).
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias, cast

from mirrorlake.models.row_filters.value_sets import ValueSet
from mirrorlake.models.scope_values.on_demand import DayRange, ScopeProduct
from mirrorlake.models.spark_sql.constants.moving_days import DAY, Ground, MovingDay, MovingMoment
from mirrorlake.models.spark_sql.constants.values import Constant

MOST_RULES = 5_000
"""Rules that are kept of one model; one more, and all are found again as they are needed."""
_EVER = (1, date.max.toordinal())
_FIRST_MIDNIGHT = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Shifted:
    """A bound that moves with a scope's day: so long after its midnight.

    Attributes:
        moment: whether it is a moment (UTC); else a day.
    """

    by: timedelta
    moment: bool

    def at(self, day: int) -> date:
        """The bound for one day, which is counted as ``date.toordinal`` does."""
        if self.moment:
            return _FIRST_MIDNIGHT + (day - 1) * DAY + self.by
        return date.fromordinal(day + self.by.days)


MovableBound: TypeAlias = "Constant | Shifted"
MovablePeriod = tuple[MovableBound, MovableBound]
"""From one day to another, both in it; None is without an end."""
MentionBounds = tuple[tuple[str, ValueSet], ...]
"""Columns, each with the values that one mention of a table reads."""


@dataclass(frozen=True)
class MirrorRule:
    """Days of a mirrored table; bounds may move."""

    table: str
    column: str | None
    days: tuple[MovablePeriod, ...]

    @property
    def bounded(self) -> bool:
        return self.days != ((None, None),)


@dataclass(frozen=True)
class ModelRule:
    """Partitions of a model, or of a table that is made elsewhere: those that lie within all bounds
    of one of its mentions.

    Attributes:
        bounded: whether something bounds each mention.
    """

    table: str
    mentions: tuple[MentionBounds, ...]
    bounded: bool

    def at(self, day: int) -> tuple[MentionBounds, ...]:
        """The bounds for a scope of one day."""
        return tuple(
            tuple((name, moved(values, day)) for name, values in mention)
            for mention in self.mentions
        )

    def reads(self, scope: Mapping[str, Constant], day: int) -> bool:
        """Whether a scope of one day reads a partition."""
        return any(
            all(values.touches(scope[name], scope[name]) for name, values in mention)
            for mention in self.at(day)
        )

    def reading(self, scope: Mapping[str, Constant]) -> tuple[int, int]:
        """The days from and to which a partition is read, or more of them."""
        found = [_hull(mention, scope) for mention in self.mentions]
        if not found:
            return 1, 0
        return min(first for first, _ in found), max(last for _, last in found)


TableRule = MirrorRule | ModelRule


@dataclass(frozen=True)
class ReadRule:
    """What some scopes read: those of the days from ``first`` to ``last``, both counted as
    ``date.toordinal`` does."""

    first: int
    last: int
    inputs: tuple[TableRule, ...]


ScopeClass = tuple[Hashable, ...]
"""What scopes that one rule can hold for have in common; their days may differ."""
RuleFinder = Callable[[Mapping[str, Constant]], Iterable[TableRule]]


@dataclass
class RuleBook:
    """The rules of one model that were found so far.

    Attributes:
        used: the names of its scope that stand in its query, in lower case and in order.
        fresh: whether rules were found since the book was opened.
    """

    used: tuple[str, ...]
    rules: dict[ScopeClass, list[ReadRule]] = field(
        default_factory=dict[ScopeClass, "list[ReadRule]"]
    )
    fresh: bool = False

    def place(self, scope: Mapping[str, Constant]) -> tuple[ScopeClass, int]:
        """The class of a scope, and its day; without one the first day that there is."""
        names = {name.lower(): value for name, value in scope.items()}
        base = self._base(names)
        start = None if base is None else _FIRST_MIDNIGHT + (base - 1) * DAY
        found = tuple(_class_of(names[name], start) for name in self.used)
        return found, base or _EVER[0]

    def find(self, scope: Mapping[str, Constant], look: RuleFinder) -> tuple[ReadRule, int]:
        """The rule that holds for a scope, and the scope's day.

        Args:
            look: what is read by a scope of these names, if no rule is known yet.
        """
        place, day = self.place(scope)
        return self._known(place, day) or self._learn(place, scope, look), day

    def cover(
        self, scopes: Sequence[Mapping[str, Constant]], look: RuleFinder
    ) -> Iterator[tuple[ScopeClass, ReadRule, Sequence[int]]]:
        """The rules that hold for all of a model's scopes: each with the class of some of them, and
        their days in order."""
        for place, days, names in self._alike(scopes):
            first = 0
            while first < len(days):
                day = days[first]
                rule = self._known(place, day) or self._learn(place, names(day), look)
                last = bisect.bisect_right(days, rule.last, first)
                yield place, rule, days[first:last]
                first = last

    def _alike(
        self, scopes: Sequence[Mapping[str, Constant]]
    ) -> Iterator[tuple[ScopeClass, Sequence[int], Callable[[int], Mapping[str, Constant]]]]:
        """The scopes of each class: their days in order, and the names that stand in the query of
        the one of a day. Days that are listed by a series alone are not made one by one."""
        columns = _columns_of(scopes)
        dated = [name for name in self.used if columns and isinstance(columns[name], DayRange)]
        others = [name for name in self.used if columns and name not in dated]
        if len(dated) == 1 and not any(_has_days(columns[name]) for name in others):
            (day,) = dated
            numbers = columns[day]
            assert isinstance(numbers, DayRange)  # noqa: S101
            for values in itertools.product(*(columns[name] for name in others)):
                names = _on_day(day, dict(zip(others, values, strict=True)))
                yield self.place(names(numbers.numbers[0]))[0], numbers.numbers, names
            return
        classes: dict[ScopeClass, dict[int, Mapping[str, Constant]]] = {}
        for scope in _of_names(scopes, columns, self.used):
            place, day_of = self.place(scope)
            classes.setdefault(place, {}).setdefault(day_of, scope)
        for place, members in classes.items():
            yield place, sorted(members), members.__getitem__

    def spread(
        self, scopes: Sequence[Mapping[str, Constant]], look: RuleFinder
    ) -> Iterator[tuple[ReadRule, Sequence[tuple[int, int]]]]:
        """All scopes by the rules that hold for them: each a day, and the position of its scope;
        by day."""
        classes: dict[ScopeClass, list[tuple[int, int]]] = {}
        for number, scope in enumerate(scopes):
            place, day = self.place(scope)
            classes.setdefault(place, []).append((day, number))
        for members in classes.values():
            members.sort()
            first = 0
            while first < len(members):
                rule, _ = self.find(scopes[members[first][1]], look)
                last = bisect.bisect_right(members, rule.last, first, key=lambda one: one[0])
                yield rule, members[first:last]
                first = last

    def _base(self, names: Mapping[str, Constant]) -> int | None:
        """The day that a scope's days are counted from: that of the first name that has one."""
        days = (_midnight_of(names[name]) for name in self.used)
        first = next((day for day in days if day is not None), None)
        return None if first is None else first.toordinal()

    def _known(self, place: ScopeClass, day: int) -> ReadRule | None:
        known = self.rules.get(place, ())
        number = bisect.bisect_right(known, day, key=lambda one: one.first)
        return known[number - 1] if number and known[number - 1].last >= day else None

    def _learn(
        self, place: ScopeClass, scope: Mapping[str, Constant], look: RuleFinder
    ) -> ReadRule:
        rule = self._found(scope, look)
        if sum(map(len, self.rules.values())) >= MOST_RULES:
            self.rules = {}
        bisect.insort(self.rules.setdefault(place, []), rule, key=lambda one: one.first)
        self.fresh = True
        return rule

    def _found(self, scope: Mapping[str, Constant], look: RuleFinder) -> ReadRule:
        names = {name.lower(): value for name, value in scope.items()}
        base = self._base(names)
        used = {name: names[name] for name in self.used}
        if base is None:
            return ReadRule(*_EVER, tuple(_settled(one) for one in look(used)))
        ground = Ground(date.fromordinal(base))
        moving = {name: _moving(value, ground) for name, value in used.items()}
        inputs = tuple(_settled(one) for one in look(moving))
        return ReadRule(ground.first, ground.last, inputs)


def _columns_of(
    scopes: Sequence[Mapping[str, Constant]],
) -> Mapping[str, Sequence[Constant]]:
    """The values of each name, in lower case, where all are combined; else none."""
    if not isinstance(scopes, ScopeProduct):
        return {}
    return {name.lower(): values for name, values in scopes.columns.items()}


def _has_days(values: Sequence[Constant]) -> bool:
    return any(_midnight_of(value) is not None for value in values)


def _on_day(name: str, others: Mapping[str, Constant]) -> Callable[[int], Mapping[str, Constant]]:
    return lambda day: {**others, name: date.fromordinal(day)}


def _of_names(
    scopes: Sequence[Mapping[str, Constant]],
    columns: Mapping[str, Sequence[Constant]],
    names: Sequence[str],
) -> Iterable[Mapping[str, Constant]]:
    """All scopes, of which only some names count."""
    if not columns:
        return scopes
    return ScopeProduct({name: columns[name] for name in names})


def _midnight_of(value: Constant) -> date | None:
    """The day of a value, in UTC; None of what is no day, and never moves."""
    if isinstance(value, datetime):
        return value.date() if value.tzinfo is UTC else None
    return value if isinstance(value, date) else None


def _class_of(value: Constant, start: datetime | None) -> Hashable:
    """What a name has in common with others of its class: of days, how far from the first one."""
    day = _midnight_of(value)
    if day is None or start is None:
        return type(value).__name__, value
    if isinstance(value, datetime):
        return "moment", value - start
    return "day", day.toordinal() - start.toordinal()


def value_of(kind: Hashable, day: int) -> Constant:
    """The value of a name, from what it has in common with others of its class, and the day that
    is counted from."""
    name, value = cast("tuple[str, Any]", kind)
    if name == "moment":
        return _FIRST_MIDNIGHT + (day - 1) * DAY + value
    return date.fromordinal(day + value) if name == "day" else value


def _moving(value: Constant, ground: Ground) -> Constant:
    day = _midnight_of(value)
    if day is None:
        return value
    by = day.toordinal() - ground.at
    if isinstance(value, datetime):
        midnight = datetime(day.year, day.month, day.day, tzinfo=UTC)
        return MovingMoment(ground, by * DAY + (value - midnight))
    return MovingDay(ground, by)


def _settled(rule: TableRule) -> TableRule:
    """A rule whose bounds move by themselves, without the ground that they were found on."""
    if isinstance(rule, MirrorRule):
        days = tuple((_bound(low), _bound(high)) for low, high in rule.days)
        return MirrorRule(rule.table, rule.column, days)
    mentions = tuple(
        tuple((name, values.moved(_bound, _bound)) for name, values in mention)
        for mention in rule.mentions
    )
    return ModelRule(rule.table, mentions, rule.bounded)


def _bound(value: MovableBound) -> MovableBound:
    if isinstance(value, MovingDay):
        return Shifted(value.by * DAY, moment=False)
    return Shifted(value.by, moment=True) if isinstance(value, MovingMoment) else value


def moved(values: ValueSet, day: int) -> ValueSet:
    """A set for a scope of one day."""
    if not any(True for _ in shifts(values)):
        return values
    return values.moved(lambda bound: at_day(bound, day), lambda bound: at_day(bound, day))


def at_day(bound: MovableBound, day: int) -> Constant:
    """A bound for a scope of one day."""
    return bound.at(day) if isinstance(bound, Shifted) else bound


def shifts(values: ValueSet) -> Iterator[Shifted]:
    """The bounds of a set that move."""
    for part in values.parts:
        for bound in (part.low, part.high):
            if isinstance(bound, Shifted):
                yield bound


def _hull(mention: MentionBounds, scope: Mapping[str, Constant]) -> tuple[int, int]:
    """The days for which one mention may read a partition: by the bounds that move."""
    first, last = _EVER
    for name, values in mention:
        day = _midnight_of(scope[name])
        if day is None or not values.parts:
            continue
        # A bound that is so many days from a scope's day is on the partition's so many before it;
        # a moment may be on either side of a midnight.
        lows = [days for part in values.parts if (days := _days(part.low)) is not None]
        highs = [days for part in values.parts if (days := _days(part.high)) is not None]
        if len(highs) == len(values.parts):
            first = max(first, day.toordinal() - max(highs) - 1)
        if len(lows) == len(values.parts):
            last = min(last, day.toordinal() - min(lows) + 1)
    return first, last


def _days(bound: MovableBound) -> int | None:
    return bound.by // DAY if isinstance(bound, Shifted) else None
