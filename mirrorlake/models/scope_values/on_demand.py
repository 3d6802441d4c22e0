"""Values and scopes that are made when somebody asks for them.

What belongs here: sequences. What doesn't: which ones a model has
(`mirrorlake.models.scope_values.comprehension`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, overload


@dataclass(frozen=True)
class DayRange(Sequence[date]):
    """Days that are equally far apart, without a list of them."""

    numbers: range

    @overload
    def __getitem__(self, index: int) -> date: ...
    @overload
    def __getitem__(self, index: slice) -> DayRange: ...
    def __getitem__(self, index: int | slice) -> date | DayRange:
        if isinstance(index, slice):
            return DayRange(self.numbers[index])
        return date.fromordinal(self.numbers[index])

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[date]:
        return map(date.fromordinal, self.numbers)


class ScopeProduct(Sequence[Mapping[str, Any]]):
    """All combinations of some values; each is made when it is asked for.

    Attributes:
        columns: name → its values, the first name being the slowest.
    """

    def __init__(self, columns: Mapping[str, Sequence[Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return math.prod(map(len, self.columns.values()))

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        for values in itertools.product(*self.columns.values()):
            yield dict(zip(self.columns, values, strict=True))

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(index, slice):
            return [self[number] for number in range(len(self))[index]]
        left = range(len(self))[index]
        found: dict[str, Any] = {}
        for name, values in reversed([*self.columns.items()]):
            left, place = divmod(left, len(values))
            found[name] = values[place]
        return {name: found[name] for name in self.columns}
