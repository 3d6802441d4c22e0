"""The partitions of a model by their values: those within some bounds are found without a look at
all of them.

What belongs here: looking partitions up. What doesn't: what a query reads
(`mirrorlake.models.compile.dependencies`), and which scopes there are
(`mirrorlake.models.scope_values.comprehension`).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from mirrorlake.models.row_filters.value_sets import Interval, ValueSet
from mirrorlake.models.spark_sql.constants.values import Constant


@dataclass(frozen=True)
class _Column:
    """One column by which a model is partitioned.

    Attributes:
        values: those that it has, each once; in their order where all are of one kind.
        places: value → the scopes that have it, by position.
        each: the value of each scope.
        kind: of all values; None where they are of several.
    """

    values: tuple[Any, ...]
    places: Mapping[Any, Sequence[int]]
    each: Sequence[Any]
    kind: str | None

    @staticmethod
    def of(values: Iterable[Constant]) -> _Column:
        places: dict[Any, list[int]] = {}
        each = tuple(values)
        for place, value in enumerate(each):
            places.setdefault(value, []).append(place)
        kinds = {_kind(value) for value in places}
        kind = kinds.pop() if len(kinds) == 1 else None
        return _Column(tuple(places if kind is None else sorted(places)), places, each, kind)

    def within(self, bounds: ValueSet) -> Sequence[Any]:
        """The values that some bounds touch."""
        if bounds.is_all:
            return self.values
        if self.kind is not None and all(self._fits(part) for part in bounds.parts):
            parts = [self._between(part) for part in bounds.parts]
            return parts[0] if len(parts) == 1 else list(dict.fromkeys(v for p in parts for v in p))
        return [value for value in self.values if bounds.touches(value, value)]

    def _fits(self, part: Interval) -> bool:
        ends = (part.low, part.high)
        return all(end is None or _kind(end) == self.kind for end in ends)

    def _between(self, part: Interval) -> Sequence[Any]:
        first, last = 0, len(self.values)
        if part.low is not None:
            side = bisect.bisect_left if part.from_low else bisect.bisect_right
            first = side(self.values, part.low)
        if part.high is not None:
            side = bisect.bisect_right if part.to_high else bisect.bisect_left
            last = side(self.values, part.high)
        return self.values[first:last]


def _kind(value: Constant) -> str | None:
    """Values of one kind are compared as they are; None of what is compared as another."""
    if isinstance(value, datetime):
        return "moment" if value.tzinfo is not None else None
    if isinstance(value, date):
        return "day"
    if isinstance(value, bool) or value is None:
        return None
    return "number" if isinstance(value, int | Decimal) else "text"


@dataclass(frozen=True)
class PartitionIndex:
    """All partitions of a model.

    Attributes:
        keys: their names, by position of their scopes.
    """

    keys: tuple[str, ...]
    _distinct: tuple[str, ...]
    _columns: Mapping[str, _Column]

    @staticmethod
    def of(
        scopes: Sequence[Mapping[str, Constant]],
        by: Sequence[str],
        key_of: Callable[[Mapping[str, Constant]], str],
    ) -> PartitionIndex:
        """
        Args:
            by: the names by which they are partitioned.
        """
        keys = tuple(key_of(scope) for scope in scopes)
        columns = {name: _Column.of(scope[name] for scope in scopes) for name in by}
        return PartitionIndex(keys, tuple(dict.fromkeys(keys)), columns)

    def within(self, mentions: Sequence[Sequence[tuple[str, ValueSet]]]) -> tuple[str, ...]:
        """The partitions that any of some mentions may read, in the order of their scopes."""
        found: set[int] = set()
        for bounds in mentions:
            bounded = [(name, values) for name, values in bounds if not values.is_all]
            if not bounded:
                return self._distinct
            found.update(self._places(bounded))
        return tuple(dict.fromkeys(self.keys[place] for place in sorted(found)))

    def values_within(self, name: str, bounds: ValueSet) -> Sequence[Constant]:
        """The values of one column that some bounds touch."""
        return self._columns[name].within(bounds)

    def _places(self, bounds: Sequence[tuple[str, ValueSet]]) -> Iterable[int]:
        """The scopes within all bounds."""
        columns = [self._columns[name] for name, _ in bounds]
        within = [
            (column, values, sum(len(column.places[value]) for value in values))
            for column, (_, one) in zip(columns, bounds, strict=True)
            for values in [column.within(one)]
        ]
        (column, values, _), *others = sorted(within, key=lambda one: one[2])
        allowed = [(other, set(some)) for other, some, _ in others]
        return [
            place
            for value in values
            for place in column.places[value]
            if all(other.each[place] in some for other, some in allowed)
        ]
