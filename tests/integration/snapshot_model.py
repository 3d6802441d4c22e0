"""What a table must hold after a set of snapshots: in plain Python, one dictionary by key.

The rule, of which the engine knows nothing: snapshots are applied in the order of their numbers,
whichever way they came.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, TypeAlias

Row: TypeAlias = tuple[Any, ...]
"""(key…, day, values…) as the test lays it out."""


@dataclass
class Model:
    """``rows``: key → (row, the snapshot it changed in, the first snapshot that lacks it or
    None)."""

    key: tuple[int, ...]
    day: int | None
    retention_days: int | None = None
    removes: bool = False

    def fold(
        self, snapshots: Mapping[int, Sequence[Row]]
    ) -> dict[Row, tuple[Row, int, int | None]]:
        held: dict[Row, tuple[Row, int, int | None]] = {}
        for number in sorted(snapshots):
            floor = self._floor(number)
            seen = {
                tuple(row[i] for i in self.key): row
                for row in snapshots[number]
                if floor is None or row[self.day] is None or row[self.day] >= floor
            }
            for key, (row, changed, missed) in list(held.items()):
                if key in seen:
                    continue
                if self.removes:
                    del held[key]
                else:
                    held[key] = (row, changed, number if missed is None else missed)
            for key, row in seen.items():
                before = held.get(key)
                same = before is not None and bits(before[0]) == bits(row) and before[2] is None
                held[key] = (row, before[1] if same and before else number, None)
            if floor is not None:
                held = {
                    k: v
                    for k, v in held.items()
                    if v[0][self.day] is None or v[0][self.day] >= floor
                }
        return held

    def _floor(self, number: int) -> date | None:
        if self.retention_days is None:
            return None
        text = str(number)
        day = date(int(text[:4]), int(text[4:6]), int(text[6:8]))
        return day - timedelta(days=self.retention_days)


def bits(row: Row) -> Row:
    """Values told apart as they are stored: -0.0 is not 0.0, and NaN is NaN."""
    return tuple(struct.pack(">d", v) if isinstance(v, float) else v for v in row)
