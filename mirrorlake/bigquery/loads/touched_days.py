"""The days that a load touches: by them a MERGE leaves the other partitions unread.

A row is found where it was, so the days of the rows that a load replaces are among them, and those
of the rows that it brings, so that a statement that is run twice finds these, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

import numpy as np
import pyarrow as pa

MOST_PARTITIONS = 4_000
"""BigQuery: how many partitions one job may write."""
MOST_RANGES = 50
"""Ranges of days in one statement; more are joined where the gaps are smallest."""
FIRST_DAY, LAST_DAY = date(1960, 1, 1), date(2159, 12, 31)
"""BigQuery: rows of earlier and later days share one partition."""
_EPOCH = date(1970, 1, 1)
_DAY = 86_400_000_000


@dataclass
class DaysTouched:
    """Days (UTC), as numbers since 1970-01-01.

    Attributes:
        unset: whether there are rows without a day.
    """

    days: set[int] = field(default_factory=set[int])
    unset: bool = False

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Add the days of a column of dates or times."""
        self.unset = self.unset or values.null_count > 0
        dated = values.drop_null()
        if pa.types.is_date32(values.type):
            found = dated.cast(pa.int32()).to_numpy()
        else:
            found = np.floor_divide(dated.cast(pa.int64()).to_numpy(), _DAY)
        self.days.update(np.unique(found).tolist())

    def ranges(self) -> list[tuple[date, date]]:
        """Ranges that hold all days, both ends included, in order."""
        spans: list[tuple[int, int]] = []
        for day in sorted(self.days):
            if spans and spans[-1][1] == day - 1:
                spans[-1] = (spans[-1][0], day)
            else:
                spans.append((day, day))
        return [(_day(first), _day(last)) for first, last in _joined(spans)]

    def partitions(self, per: str) -> int:
        """In how many partitions of a day or a month the rows are."""
        within = [day for day in map(_day, self.days) if FIRST_DAY <= day <= LAST_DAY]
        found = {(day.year, day.month, 0 if per == "MONTH" else day.day) for day in within}
        return len(found) + (len(within) < len(self.days)) + self.unset

    def to_json(self) -> str:
        ranges = [[first.isoformat(), last.isoformat()] for first, last in self.ranges()]
        return json.dumps({"ranges": ranges, "unset": self.unset})


def read_ranges(text: str) -> tuple[list[tuple[date, date]], bool]:
    """The ranges that `DaysTouched.to_json` wrote, and whether there are rows without a day."""
    found = json.loads(text)
    ranges = [(date.fromisoformat(lo), date.fromisoformat(hi)) for lo, hi in found["ranges"]]
    return ranges, found["unset"]


def _joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those with the smallest gaps between them joined."""
    gaps = sorted(range(1, len(spans)), key=lambda at: spans[at][0] - spans[at - 1][1])
    kept = {0, *gaps[len(spans) - MOST_RANGES :]} if len(spans) > MOST_RANGES else None
    if kept is None:
        return [*spans]
    joined: list[tuple[int, int]] = []
    for at, (first, last) in enumerate(spans):
        if at in kept:
            joined.append((first, last))
        else:
            joined[-1] = (joined[-1][0], last)
    return joined


def _day(number: int) -> date:
    return _EPOCH + timedelta(days=number)
