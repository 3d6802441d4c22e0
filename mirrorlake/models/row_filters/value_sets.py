"""Sets of values of one column: intervals, from one bound to another.

A set may hold more values than are meant, and never fewer: it says which partitions a query could
read.

>>> str(ValueSet.of(">=", 3) & ValueSet.of("<", 7))
'[3, 7)'
>>> str(ValueSet.of("=", 1) | ValueSet.of("=", 5))
'{1} ∪ {5}'
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from mirrorlake.models.spark_sql.constants.evaluate import alike
from mirrorlake.models.spark_sql.constants.values import Constant, Unknown


@dataclass(frozen=True)
class Interval:
    """From ``low`` to ``high``; None: without an end. ``from_low``, ``to_high``: whether they are
    in it."""

    low: Any = None
    high: Any = None
    from_low: bool = True
    to_high: bool = True

    def meets(self, other: Interval) -> Interval | None:
        """What both have; None: nothing.

        Raises:
            Unknown: their bounds are of two kinds.
        """
        low, from_low = _later(self.low, self.from_low, other.low, other.from_low)
        high, to_high = _earlier(self.high, self.to_high, other.high, other.to_high)
        if low is not None and high is not None:
            a, b = alike(low, high)
            if a > b or (a == b and not (from_low and to_high)):
                return None
        return Interval(low, high, from_low, to_high)

    def __str__(self) -> str:
        if self.low is not None and self.low == self.high:
            return f"{{{_shown(self.low)}}}"
        left = "(-∞" if self.low is None else f"{'[' if self.from_low else '('}{_shown(self.low)}"
        right = "∞)" if self.high is None else f"{_shown(self.high)}{']' if self.to_high else ')'}"
        return f"{left}, {right}"


def _shown(value: Constant) -> str:
    return value.isoformat(sep=" ") if hasattr(value, "hour") else str(value)  # type: ignore[union-attr]


def _later(a: Any, a_in: bool, b: Any, b_in: bool) -> tuple[Any, bool]:
    if a is None or b is None:
        return (b, b_in) if a is None else (a, a_in)
    x, y = alike(a, b)
    if x == y:
        return a, a_in and b_in
    return (a, a_in) if x > y else (b, b_in)


def _earlier(a: Any, a_in: bool, b: Any, b_in: bool) -> tuple[Any, bool]:
    if a is None or b is None:
        return (b, b_in) if a is None else (a, a_in)
    x, y = alike(a, b)
    if x == y:
        return a, a_in and b_in
    return (a, a_in) if x < y else (b, b_in)


@dataclass(frozen=True)
class ValueSet:
    """A set of values: the union of some intervals. NULL is in none but `ALL`."""

    parts: tuple[Interval, ...] = (Interval(),)

    @staticmethod
    def of(operator: str, value: Constant) -> ValueSet:
        """The values that compare so with one; none do with NULL."""
        if value is None:
            return NONE
        return ValueSet((_COMPARED[operator](value),))

    @property
    def is_all(self) -> bool:
        return self == ALL

    @property
    def is_none(self) -> bool:
        return not self.parts

    def __and__(self, other: ValueSet) -> ValueSet:
        """What both hold; where that can't be said, the first."""
        if other.is_all or self.is_all:
            return self if other.is_all else other
        if self == other:
            return self
        try:
            found = [a.meets(b) for a in self.parts for b in other.parts]
        except Unknown:
            return self
        parts = _apart(one for one in found if one is not None)
        # Parts that are not of one kind are not joined: rather a larger set than ever more of them.
        return ValueSet(parts) if len(parts) <= _MOST_PARTS else self

    def __or__(self, other: ValueSet) -> ValueSet:
        if self.is_all or other.is_all:
            return ALL
        parts = _apart((*self.parts, *other.parts))
        return ValueSet(parts) if len(parts) <= _MOST_PARTS else ALL

    def moved(self, low: Callable[[Any], Any], high: Callable[[Any], Any]) -> ValueSet:
        """The set whose bounds are others, made of its own.

        Raises:
            Unknown: by ``low`` or ``high``.
        """
        return ValueSet(
            tuple(
                Interval(
                    None if one.low is None else low(one.low),
                    None if one.high is None else high(one.high),
                    one.from_low,
                    one.to_high,
                )
                for one in self.parts
            )
        )

    def widened(self, low: Callable[[Any], Any], high: Callable[[Any], Any]) -> ValueSet:
        """`moved`, with both bounds in the set."""
        moved = self.moved(low, high)
        return ValueSet(tuple(Interval(one.low, one.high) for one in moved.parts))

    def under(self, floor: Callable[[Any], Any], after: Callable[[Any], Any]) -> ValueSet:
        """The values that a rounding takes into this set.

        Args:
            floor: the first value of the unit that a bound is in.
            after: the first value of the unit after that.

        Raises:
            Unknown: by ``floor`` or ``after``.
        """

        def begins(one: Interval) -> Any:
            if one.low is None:
                return None
            begun = floor(one.low)
            there = one.from_low and alike(begun, one.low)[0] == alike(begun, one.low)[1]
            return begun if there else after(one.low)

        def ends(one: Interval) -> Any:
            if one.high is None:
                return None
            begun = floor(one.high)
            there = not one.to_high and alike(begun, one.high)[0] == alike(begun, one.high)[1]
            return begun if there else after(one.high)

        found = [Interval(begins(one), ends(one), True, one.high is None) for one in self.parts]
        return ValueSet(
            tuple(one for one in found if None in (one.low, one.high) or one.low < one.high)
        )

    def touches(self, low: Any, high: Any, *, to_high: bool = True) -> bool:
        """Whether some value from ``low`` to ``high`` may be in the set; yes where that can't be
        said."""
        wanted = Interval(low, high, True, to_high)
        try:
            return any(one.meets(wanted) is not None for one in self.parts)
        except Unknown:
            return True

    def __str__(self) -> str:
        if self.is_all:
            return "all"
        return " ∪ ".join(map(str, self.parts)) or "none"


ALL, NONE = ValueSet(), ValueSet(())
_COMPARED: dict[str, Callable[[Any], Interval]] = {
    "=": lambda v: Interval(v, v),
    "<": lambda v: Interval(None, v, True, False),
    "<=": lambda v: Interval(None, v),
    ">": lambda v: Interval(v, None, False, True),
    ">=": lambda v: Interval(v, None),
}


def _apart(parts: Iterable[Interval]) -> tuple[Interval, ...]:
    """Intervals in order, those that overlap as one; as they are where they can't be compared."""
    several = tuple(parts)
    kinds = {_kind(bound) for one in several for bound in (one.low, one.high) if bound is not None}
    if len(kinds) > 1 or None in kinds:
        return tuple(dict.fromkeys(several))
    found: list[Interval] = []
    for one in sorted(several, key=_begins):
        before = found[-1] if found else None
        if before is not None and _reaches(before, one):
            high, to_high = _further(before, one)
            found[-1] = Interval(before.low, high, before.from_low, to_high)
        else:
            found.append(one)
    return tuple(found)


def _kind(value: Any) -> str | None:
    """Values of one kind can be ordered."""
    if isinstance(value, datetime):
        return "moment"
    if isinstance(value, date):
        return "day"
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | Decimal) else None


def _begins(one: Interval) -> tuple[bool, Any, bool]:
    # Without a beginning first; of two that begin at one value the one that has it.
    return (one.low is not None, 0 if one.low is None else one.low, not one.from_low)


def _reaches(before: Interval, after: Interval) -> bool:
    """Whether nothing lies between the end of one and the beginning of a later one."""
    if before.high is None or after.low is None:
        return True
    if before.high == after.low:
        return before.to_high or after.from_low
    return bool(before.high > after.low)


def _further(one: Interval, other: Interval) -> tuple[Any, bool]:
    if one.high is None or other.high is None:
        return None, True
    if one.high == other.high:
        return one.high, one.to_high or other.to_high
    later = one if one.high > other.high else other
    return later.high, later.to_high


_MOST_PARTS = 10_000
