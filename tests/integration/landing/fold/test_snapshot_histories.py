"""Histories in which snapshots hold keys twice and the schema widens: as the model says, or refused
and counted."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.errors import LakeError
from tests.integration.conftest import Place
from tests.integration.landing.fold.test_snapshot_fold import COLUMNS, TYPES, Mirror
from tests.integration.snapshot_model import Model, Row, bits

_FIRST = date(2026, 1, 10)


@dataclass(frozen=True)
class History:
    """Snapshots in the order in which they come; from ``widened`` on there is a column ``w``, an
    int, and from ``longer`` on it is a long."""

    how: dict[str, Any]
    comes: tuple[tuple[int, tuple[Row, ...]], ...]
    widened: int
    longer: int

    def columns(self, at: int) -> tuple[tuple[str, str], ...]:
        if at < self.widened:
            return COLUMNS
        return (*COLUMNS, ("w", "long" if at >= self.longer else "int"))

    def types(self, at: int) -> str:
        if at < self.widened:
            return TYPES
        return f"{TYPES}, w {'bigint' if at >= self.longer else 'int'}"


@st.composite
def histories(draw: st.DrawFn) -> History:
    count = draw(st.integers(2, 5))
    widened = draw(st.integers(1, count))
    longer = draw(st.integers(widened, count + 1))
    numbers = [int(f"{_FIRST + timedelta(days=n // 2):%Y%m%d}{n:06d}") for n in range(count)]
    comes: list[tuple[int, tuple[Row, ...]]] = []
    for at, number in enumerate(draw(st.permutations(numbers))):
        largest = 2**40 if at >= longer else 5
        w = st.none() | st.integers(0, largest) if at >= widened else st.none()
        rows = draw(
            st.lists(
                st.tuples(
                    st.integers(1, 4),
                    st.integers(0, 4).map(lambda n: _FIRST - timedelta(days=n)),
                    st.sampled_from([None, "a", "b"]),
                    st.sampled_from([None, 0.0, math.nan, 1.5]),
                    w,
                ),
                max_size=6,
            )
        )
        comes.append((number, tuple(rows)))
    if draw(st.booleans()):
        comes.append(draw(st.sampled_from(comes)))
    how = {
        "retention_days": draw(st.sampled_from([None, 3])),
        "missing": draw(st.sampled_from(["kept", "removed"])),
        "strategy": draw(st.sampled_from(["auto", "diff", "merge", "rewrite"])),
        "duplicates": draw(st.sampled_from(["refused", "resolved"])),
    }
    return History(how, tuple(comes), widened, longer)


def greatest(row: Row) -> tuple[Any, ...]:
    """Rows of one key in their order: by day, then column by column; NULL is least, NaN greatest."""
    order: list[tuple[Any, ...]] = []
    for value in (row[1], row[2], row[3], row[4]):
        nan = isinstance(value, float) and math.isnan(value)
        order.append((0,) if value is None else (2,) if nan else (1, value))
    return tuple(order)


def inside(history: History, number: int, rows: tuple[Row, ...]) -> list[Row]:
    """The rows that lie in the snapshot's own window: of others nobody knows whether they repeat."""
    kept = history.how["retention_days"]
    if kept is None:
        return list(rows)
    text = str(number)
    floor = date(int(text[:4]), int(text[4:6]), int(text[6:8])) - timedelta(days=kept)
    return [row for row in rows if row[1] >= floor]


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(histories())
def test_keys_twice_and_a_wider_schema_are_as_the_model_says(
    place: Place, history: History
) -> None:
    mirror = Mirror(place, **history.how)
    told: dict[int, list[Row]] = {}
    for at, (number, rows) in enumerate(history.comes):
        mirror.table = replace(mirror.table, columns=history.columns(at))
        width = len(history.columns(at))
        given = [row[:width] for row in rows]
        taken = inside(history, number, rows)
        by_key: dict[int, list[Row]] = {}
        for row in taken:
            by_key.setdefault(row[0], []).append(row)
        several = sum(len(found) > 1 for found in by_key.values())
        how: dict[str, Any] = {"accept_smaller": True}
        if width > 4:
            how["types"] = history.types(at)
        if several and history.how["duplicates"] == "refused":
            words = f"{several:,} key{'s' * (several > 1)} more than once"
            with pytest.raises(LakeError, match=words):
                mirror.fold(number, given, **how)
        else:
            folded = mirror.fold(number, given, **how)
            assert folded.duplicates in (0, several)
            assert folded.duplicates == several or number in told or folded.strategy == "same"
            told[number] = [max(found, key=greatest) for found in by_key.values()]
        check(mirror, history, told, width)


def check(mirror: Mirror, history: History, told: dict[int, list[Row]], width: int) -> None:
    if not told:
        return
    model = Model((0,), 1, history.how["retention_days"], history.how["missing"] == "removed")
    wanted = {
        key: (bits(row[:width]), changed, missed)
        for key, (row, changed, missed) in model.fold(told).items()
    }
    assert mirror.held() == wanted
