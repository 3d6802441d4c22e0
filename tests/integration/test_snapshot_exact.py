"""What readers see is held against the newest snapshot's own content, by code that knows nothing of
the fold: each kind of damage is counted."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from mirrorlake.snapshots.exact import Compared, compare_newest
from tests.integration.conftest import Place
from tests.integration.snapshot_model import Row
from tests.integration.test_snapshot_fold import NUMBERS, TYPES, Mirror, _row


def compared(mirror: Mirror, rows: Sequence[Row]) -> Compared:
    frame = mirror.place.spark.get().createDataFrame(list(rows), TYPES)
    return compare_newest(mirror.place.lake, mirror.table, frame)


@pytest.mark.full
def test_a_sign_of_zero_is_a_difference(place: Place) -> None:
    mirror = Mirror(place, retention_days=4)
    rows = [_row(1, 8), _row(2, 9, None, math.nan), _row(3, 10, "b", -0.0)]
    mirror.fold(NUMBERS[0], [*rows, _row(9, 10, "kept")])
    mirror.fold(NUMBERS[1], [*rows, _row(4, 2, "before the window")])
    before = Compared(NUMBERS[1], 3, 0, 0)
    assert compared(mirror, [*rows, _row(4, 2, "before the window")]) == before
    spark = place.spark.get()
    spark.sql(f"UPDATE {mirror.table.identifier.sql} SET x = 0.0 WHERE id = 3")
    assert compared(mirror, rows) == Compared(NUMBERS[1], 3, 1, 1)


@pytest.mark.full
@pytest.mark.parametrize(
    ("damage", "missing", "extra"),
    [
        ("DELETE FROM {t} WHERE id = 1", 1, 0),
        ("INSERT INTO {t} SELECT * FROM {t} WHERE id = 1", 0, 1),
        ("UPDATE {t} SET v = '' WHERE id = 2", 1, 1),
        ("UPDATE {t} SET day = DATE'2026-01-07' WHERE id = 2", 1, 1),
        ("DELETE FROM {t} WHERE id = 9", 0, 0),  # kept, and the snapshot lacks it
    ],
)
def test_every_damage_is_counted(place: Place, damage: str, missing: int, extra: int) -> None:
    mirror = Mirror(place)
    rows: list[Any] = [_row(1, 8), _row(2, 9, None, math.nan), _row(3, 10, "b", -0.0)]
    mirror.fold(NUMBERS[0], [*rows, _row(9, 10, "kept")])
    mirror.fold(NUMBERS[1], rows)
    assert compared(mirror, rows).equal
    place.spark.get().sql(damage.format(t=mirror.table.identifier.sql))
    found = compared(mirror, rows)
    assert (found.missing, found.extra) == (missing, extra)
