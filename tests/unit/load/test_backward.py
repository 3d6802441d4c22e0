"""Rows whose time went back are counted in parts as they are in one go."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as _compute
import pyarrow.dataset as _dataset
import pytest

from mirrorlake.load.reloads import backward
from mirrorlake.load.reloads.backward import went_back

pc: Any = _compute
ds: Any = _dataset
START = datetime(2026, 1, 1)
SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("at", pa.timestamp("us"))])
Row = tuple[int, str, datetime | None]


def drawn(count: int, seed: int) -> list[Row]:
    """A row per key at most, at one of a few moments; some of them without."""
    rng = random.Random(seed)  # noqa: S311
    keys = rng.sample([(n, part) for n in range(count) for part in "ab"], count)
    return [
        (n, part, None if rng.random() < 0.1 else START + timedelta(minutes=rng.randrange(9)))
        for n, part in keys
    ]


def reader(rows: list[Row], size: int) -> Any:
    whole = pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in rows], SCHEMA)

    def read(where: Any) -> Iterable[pa.Table]:
        asked.append(where)
        kept = whole if where is None else whole.filter(where)
        return [pa.Table.from_batches([b], SCHEMA) for b in kept.to_batches(max_chunksize=size)]

    asked: list[Any] = []
    read.asked = asked  # type: ignore[attr-defined]
    return read


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("most", [2, 7, 1_000_000])
def test_parts_count_as_the_whole(monkeypatch: pytest.MonkeyPatch, seed: int, most: int) -> None:
    now, before = drawn(60, seed), drawn(60, seed + 100)
    old = {(n, part): at for n, part, at in before}
    expected = sum(
        1 for n, part, at in now if at and (was := old.get((n, part))) is not None and at < was
    )
    assert expected > 3
    parts: list[int] = []
    count = backward._count

    def counted(rows: Any, seen: pa.Table, *rest: Any) -> int:
        parts.append(seen.num_rows)
        return count(rows, seen, *rest)

    monkeypatch.setattr(backward, "MOST", most)
    monkeypatch.setattr(backward, "_count", counted)
    rows = reader(now, 5)
    seen = reader(before, min(most, 3))
    assert went_back(rows(None), rows, seen, ["id", "part"], "at") == expected
    assert max(parts) <= most
    # The window is read once for its earliest time, and once for each part.
    assert len(rows.asked) == 1 + len(parts)


def test_windows_without_any_time_and_loads_without_any_later_row() -> None:
    empty, later = reader([], 5), reader([(1, "a", START)], 5)
    for rows, seen in ((empty, later), (later, empty), (reader([(1, "a", None)], 5), later)):
        assert went_back(rows(None), rows, seen, ["id", "part"], "at") == 0
    assert went_back(later(None), later, later, ["id", "part"], "at") == 0
