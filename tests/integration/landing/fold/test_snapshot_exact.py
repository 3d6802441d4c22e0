"""What readers see is traced to the snapshots that it is folded from, by code that knows nothing of
the fold: every kind of damage is named, and nothing is called equal that could not be looked at."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.landing.check import difference_lines, verdict_words
from mirrorlake.landing.fold.publish import list_versions
from mirrorlake.landing.fold.state import read_state
from mirrorlake.landing.fold.trace import Traced, trace_table
from mirrorlake.proof.forms.differences import Formatter
from tests.integration.conftest import Place
from tests.integration.landing.fold.test_snapshot_fold import (
    NUMBERS,
    TYPES,
    Mirror,
    _histories,
    _row,
)
from tests.integration.snapshot_model import Row

ONE, LATE, TWO, THREE = NUMBERS[:4]
HISTORY: dict[int, Sequence[Row]] = {
    ONE: [_row(1, 8), _row(2, 9, None, math.nan), _row(3, 10, "b", -0.0), _row(8, 9), _row(9, 10)],
    TWO: [_row(1, 8), _row(2, 9, None, math.nan), _row(3, 10, "c", -0.0), _row(9, 10)],
    THREE: [_row(1, 8), _row(2, 9, None, math.nan), _row(3, 10, "c", -0.0), _row(5, 10)],
}
"""Rows 8 and 9 are kept: the first since TWO, the second since THREE."""


def traced(mirror: Mirror, gone: Collection[int] = (), version: int | None = None) -> Traced:
    """The trace of what readers see, without the files of some snapshots."""
    table = mirror.place.lake.load(mirror.table.identifier)
    assert table is not None
    head = table.current_snapshot()
    assert head is not None
    spark = mirror.place.spark.get()
    frames = {
        number: spark.createDataFrame(list(rows), TYPES)
        for number, rows in mirror.taken.items()
        if number not in gone
    }
    unread = dict.fromkeys(gone, "is not there any more")
    return trace_table(
        spark, mirror.table, version or head.snapshot_id, read_state(table), frames, unread
    )


@pytest.fixture(scope="module")
def history(place: Place) -> Mirror:
    mirror = Mirror(place)
    for number, rows in HISTORY.items():
        mirror.fold(number, rows)
    return mirror


@contextmanager
def damaged(mirror: Mirror, damage: str) -> Iterator[None]:
    """The table after a statement of somebody else's, and as it was again."""
    table = mirror.place.lake.load(mirror.table.identifier)
    assert table is not None
    good = list_versions(mirror.place.lake, mirror.table.identifier)[0].version
    mirror.place.spark.get().sql(damage.format(t=mirror.table.identifier.sql))
    try:
        yield
    finally:
        table.refresh().manage_snapshots().set_current_snapshot(snapshot_id=good).commit()


@pytest.mark.full
def test_every_row_is_traced(history: Mirror) -> None:
    found = traced(history)
    assert (found.verdict, found.rows, found.kept, found.expected) == ("equal", 6, 2, 4)
    assert (found.snapshot, found.snapshots, found.differences) == (THREE, 3, ())


IN_SINCE = "`_mirror_snapshot` does not match between snapshot"
DAMAGES = {
    "a kept row lost": (
        "DELETE FROM {t} WHERE id = 8",
        f"missing (id=8): snapshot {ONE} has this row, the table has not",
    ),
    "a kept row altered": (
        "UPDATE {t} SET v = 'x' WHERE id = 9",
        f"changed (id=9): `v` does not match between snapshot {TWO} (val='a') and the lake "
        "(val='x')",
    ),
    "a kept row doubled": (
        "INSERT INTO {t} SELECT * FROM {t} WHERE id = 8",
        "extra (id=8): a second row of this key",
    ),
    "a kept row that no snapshot had": (
        f"INSERT INTO {{t}} VALUES (7, DATE'2026-01-08', 'a', 0.0, {ONE})",
        "extra (id=7): no snapshot ever held it",
    ),
    "a kept row's snapshot": (
        f"UPDATE {{t}} SET _mirror_snapshot = {TWO} WHERE id = 9",
        f"changed (id=9): {IN_SINCE} {TWO} (val={ONE}) and the lake (val={TWO})",
    ),
    "a changed row's snapshot": (
        f"UPDATE {{t}} SET _mirror_snapshot = {ONE} WHERE id = 3",
        f"changed (id=3): {IN_SINCE} {THREE} (val={TWO}) and the lake (val={ONE})",
    ),
    "a snapshot that there is not": (
        "UPDATE {t} SET _mirror_snapshot = 7 WHERE id = 1",
        f"changed (id=1): {IN_SINCE} {THREE} (val={ONE}) and the lake (val=7)",
    ),
    "no snapshot at all": (
        "UPDATE {t} SET _mirror_snapshot = NULL WHERE id = 1",
        f"changed (id=1): {IN_SINCE} {THREE} (val={ONE}) and the lake (val=NULL)",
    ),
    "a row lost": (
        "DELETE FROM {t} WHERE id = 1",
        f"missing (id=1): snapshot {THREE} has this row, the table has not",
    ),
    "a sign of zero": (
        "UPDATE {t} SET x = 0.0 WHERE id = 3",
        f"changed (id=3): `x` does not match between snapshot {THREE} (val=-0.0) and the lake "
        "(val=0.0)",
    ),
    "NULL and an empty text": (
        "UPDATE {t} SET v = '' WHERE id = 2",
        f"changed (id=2): `v` does not match between snapshot {THREE} (val=NULL) and the lake "
        "(val='')",
    ),
    "another day": (
        "UPDATE {t} SET day = DATE'2026-01-07' WHERE id = 2",
        f"changed (id=2): `day` does not match between snapshot {THREE} (val=2026-01-09) and the "
        "lake (val=2026-01-07)",
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", DAMAGES)
def test_every_damage_is_named(history: Mirror, name: str) -> None:
    damage, line = DAMAGES[name]
    with damaged(history, damage):
        found = traced(history)
    assert found.verdict == "different"
    assert found.differing == 1, found
    assert difference_lines(Formatter((), None), found.differences) == [line]


@pytest.mark.full
def test_damages_of_kept_rows_are_named_at_once(history: Mirror) -> None:
    """One lost, one altered in its value and in its snapshot; and a row under another key."""
    damage = (
        "MERGE INTO {t} t USING (SELECT explode(array(8, 9, 1)) AS id) s ON t.id = s.id "
        "WHEN MATCHED AND t.id = 8 THEN DELETE "
        f"WHEN MATCHED AND t.id = 9 THEN UPDATE SET v = 'x', _mirror_snapshot = {TWO} "
        "WHEN MATCHED AND t.id = 1 THEN UPDATE SET id = 7"
    )
    with damaged(history, damage):
        found = traced(history)
    assert (found.missing, found.extra, found.changed) == (2, 1, 1)
    assert difference_lines(Formatter({"v"}, None), found.differences) == [
        f"missing (id=1): snapshot {THREE} has this row, the table has not",
        "extra (id=7): no snapshot ever held it",
        f"missing (id=8): snapshot {ONE} has this row, the table has not",
        f"changed (id=9): `v` does not match between snapshot {TWO} (val=(hidden)) and the lake "
        "(val=(hidden))",
        f"changed (id=9): {IN_SINCE} {TWO} (val={ONE}) and the lake (val={TWO})",
    ]


@pytest.mark.full
@pytest.mark.parametrize(
    ("gone", "undecided", "since"),
    [
        ([ONE], 1, 4),  # row 8 is nowhere else; rows 1, 2, 3 and 9 may have been so before
        pytest.param([TWO], 2, 4, marks=pytest.mark.full),
        pytest.param([THREE], 6, 0, marks=pytest.mark.full),
        pytest.param([ONE, TWO, THREE], 6, 0, marks=pytest.mark.full),
    ],
)
def test_what_only_a_gone_file_could_say_is_undecided(
    history: Mirror, gone: list[int], undecided: int, since: int
) -> None:
    found = traced(history, gone)
    assert (found.verdict, found.differing) == ("undecided", 0)
    assert (found.undecided, found.undecided_since) == (undecided, since), verdict_words(found)


@pytest.mark.full
def test_what_contradicts_the_files_that_are_left_is_a_difference(history: Mirror) -> None:
    """Whatever the others might have said."""
    for name, gone in (
        ("a kept row altered", [ONE]),
        ("a kept row's snapshot", [THREE]),
        ("a changed row's snapshot", [THREE]),
        ("a snapshot that there is not", [THREE]),
        ("a sign of zero", [ONE]),
    ):
        with damaged(history, DAMAGES[name][0]):
            found = traced(history, gone)
        assert (found.verdict, found.changed) == ("different", 1), name


@pytest.mark.full
def test_a_snapshot_that_is_read_otherwise_now_is_not_believed(history: Mirror) -> None:
    """As many rows as were folded, or none of it counts."""
    mirror = replace_taken(history, {**HISTORY, ONE: HISTORY[ONE][:-1]})
    found = traced(mirror)
    assert found.verdict == "undecided"
    assert found.unread == {ONE: "was folded with 5 rows, and now 4 are read"}


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(_histories(), st.data())
def test_no_history_raises_a_false_alarm(
    place: Place,
    history: tuple[dict[str, Any], dict[int, list[Row]], list[int]],
    data: st.DataObject,
) -> None:
    """However snapshots came: traced as equal; and with files gone never as different."""
    how, snapshots, order = history
    mirror = Mirror(place, **how)
    for number in order:
        mirror.fold(number, snapshots[number], accept_smaller=True)
    found = traced(mirror)
    assert found.equal, found
    gone = data.draw(st.sets(st.sampled_from(sorted(snapshots)), min_size=1))
    left = traced(mirror, gone)
    assert not left.differing, left
    assert left.rows == found.rows


def replace_taken(mirror: Mirror, taken: dict[int, Sequence[Row]]) -> Mirror:
    other = copy.copy(mirror)
    other.taken = taken
    return other
