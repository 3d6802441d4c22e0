"""Snapshots are folded as the model says, whatever their order, and by each strategy."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import list_branches
from mirrorlake.errors import ConfigError, LakeError, MirrorlakeError, SchemaError
from mirrorlake.landing.fold import Folded, SnapshotTable, fold_snapshot
from mirrorlake.landing.fold.changes import WAS
from mirrorlake.landing.fold.stage import read_missing
from mirrorlake.landing.fold.state import read_state
from mirrorlake.ledger import Ledger
from tests.integration.conftest import Place
from tests.integration.snapshot_model import Model, Row, bits

COLUMNS = (("id", "long"), ("day", "date"), ("v", "string"), ("x", "double"))
TYPES = "id bigint, day date, v string, x double"
D = date
NUMBERS = (20260110000000, 20260110120000, 20260111000000, 20260113000000, 20260114000000)


class Mirror:
    """One table of the test's own, folded into and compared with the model."""

    def __init__(self, place: Place, **settings: Any) -> None:
        self.place = place
        self.ledger = Ledger(f"sqlite:///{place.folder}/snapshots.db")
        name = settings.pop("name", f"t{uuid.uuid4().hex[:8]}")
        given = {"key": ("id",), "day": "day", "shrink_limit": None, **settings}
        self.table = SnapshotTable(name, Identifier("snapshots", name), COLUMNS, **given)
        self.taken: dict[int, Sequence[Row]] = {}

    def fold(self, number: int, rows: Sequence[Row], **how: Any) -> Folded:
        spark = self.place.spark.get()
        types = TYPES if self.table.columns == COLUMNS else how.pop("types")
        frame = spark.createDataFrame(list(rows), types)
        with self.ledger.lease(self.table.name, "test") as lease:
            folded = fold_snapshot(
                self.place.lake, self.ledger, self.table, frame, number, lease=lease, **how
            )
        self.taken[number] = rows
        return folded

    def held(self) -> dict[Row, tuple[Row, int, int | None]]:
        """As the model tells it, read from the lake."""
        spark, table = self.place.spark.get(), self.table
        lake_table = self.place.lake.load(table.identifier)
        assert lake_table is not None
        missing = read_missing(spark, table, read_state(lake_table).missing)
        listed = [] if missing is None else missing.collect()
        missed = {tuple(r[k] for k in table.key): r[WAS] for r in listed}
        found: dict[Row, tuple[Row, int, int | None]] = {}
        names = [name for name, _ in table.columns]
        for row in spark.table(table.identifier.sql).collect():
            key = tuple(row[k] for k in table.key)
            assert key not in found, f"key {key} is there twice"
            values = tuple(row[n] for n in names)
            found[key] = (bits(values), row["_mirror_snapshot"], missed.get(key))
        return found

    def check(self) -> None:
        table = self.table
        names = [name for name, _ in table.columns]
        model = Model(
            tuple(names.index(k) for k in table.key),
            names.index(str(table.day)),
            table.retention_days,
            table.missing == "removed",
        )
        wanted = {k: (bits(r), c, m) for k, (r, c, m) in model.fold(self.taken).items()}
        assert self.held() == wanted


def _row(number: int, day: int, v: str | None = "a", x: float | None = 0.0) -> Row:
    return (number, date(2026, 1, day), v, x)


FIRST = [_row(1, 5), _row(2, 8), _row(3, 9), _row(4, 10), _row(7, 8, None, math.nan)]
SECOND = [_row(1, 5), _row(2, 8, "b"), _row(3, 9, "a", -0.0), _row(4, 9), _row(5, 10)]
THIRD = [_row(2, 8, "b"), _row(3, 9, "a", -0.0), _row(5, 10), _row(7, 8, None, math.nan)]
LATE = [_row(1, 6), _row(2, 8, "late"), _row(6, 10), _row(5, 10)]


@pytest.mark.full
def test_a_history_of_snapshots_is_folded_as_the_model_says(place: Place) -> None:
    """Added, changed (by a sign of zero too), moved, missing and back, late, again, and days that
    leave by metadata alone; only what differs is written."""
    mirror = Mirror(place, retention_days=4)
    assert mirror.fold(NUMBERS[0], FIRST).strategy == "first"  # the 5th is before the window
    folded = mirror.fold(NUMBERS[2], SECOND)
    mirror.check()
    assert (folded.added, folded.changed, folded.missing) == (1, 3, 1)
    assert mirror.fold(NUMBERS[1], LATE).late
    mirror.check()
    folded = mirror.fold(NUMBERS[3], THIRD)
    mirror.check()
    assert folded.dropped_before == D(2026, 1, 9)
    again = mirror.fold(NUMBERS[1], LATE)
    assert not again.published
    mirror.check()
    drop = _commit_of(mirror, "delete")
    assert drop["deleted-data-files"] != "0"
    assert drop.get("added-data-files", "0") == drop.get("added-delete-files", "0") == "0"


def _commit_of(mirror: Mirror, operation: str) -> dict[str, str]:
    table = mirror.place.lake.load(mirror.table.identifier)
    assert table is not None
    found = [s.summary for s in table.snapshots() if s.summary]
    return next(s.additional_properties for s in reversed(found) if s.operation.value == operation)


TWICE = {
    "as it was": [_row(2, 8)],
    "as it was, thrice": [_row(2, 8), _row(2, 8)],
    "once as it was": [_row(2, 8, "other")],
    "as nobody had it": [_row(9, 8, "x"), _row(9, 8, "y")],
    "new": [_row(9, 8), _row(9, 8)],
}


WITHOUT_DAYS, IN_DAYS, OVER_DAYS = {"day": None}, {"key": ("id", "day")}, {}


@pytest.mark.full
@pytest.mark.parametrize("days", [WITHOUT_DAYS, IN_DAYS, OVER_DAYS])
@pytest.mark.parametrize("strategy", ["diff", "merge", "rewrite"])
def test_a_key_that_comes_twice_is_refused(place: Place, strategy: str, days: Any) -> None:
    """Whichever of its rows the table has already, and however the rows are written."""
    mirror = Mirror(place, strategy=strategy, **days)
    mirror.fold(NUMBERS[0], FIRST)
    before = mirror.place.lake.load(mirror.table.identifier)
    assert before is not None
    for name, rows in TWICE.items():
        with pytest.raises(LakeError, match="holds 1 key more than once") as told:
            mirror.fold(NUMBERS[1], [*FIRST, *rows])
        assert not told.value.retryable, name
        assert before.refresh().current_snapshot() == before.current_snapshot()
        assert not [b for b in list_branches(place.lake, mirror.table.identifier) if "fold" in b]


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["merge", "diff", "rewrite"])
def test_no_name_of_a_column_is_taken_for_one_of_ours(place: Place, strategy: str) -> None:
    """A snapshot may have columns that are called as those that the fold itself works with."""
    names = ("_row", "_copies", "_kind", "_was", "_since", "_new", "_old", "_c", "_differs",
             "_taken", "_hash", "_h1", "cell", "n", "a", "t", "s", "snapshot")  # fmt: skip
    key, values = names[::2], names[1::2]
    columns = (("day", "date"), *((name, "long") for name in names))
    mirror = Mirror(place, strategy=strategy)
    mirror.table = replace(mirror.table, columns=columns, key=("day", *key))
    types = "day date, " + ", ".join(f"`{name}` bigint" for name in names)

    def row(number: int, value: int) -> Row:
        given = {"day": D(2026, 1, 5), **dict.fromkeys(key, number), **dict.fromkeys(values, value)}
        return tuple(given[name] for name, _ in columns)

    mirror.fold(NUMBERS[0], [row(1, 7), row(2, 7), row(3, 7)], types=types)
    mirror.check()
    mirror.fold(NUMBERS[2], [row(1, 8), row(2, 7), row(4, 9)], types=types)
    mirror.check()
    mirror.fold(NUMBERS[1], [row(1, 8), row(3, 6)], types=types)
    mirror.check()


def test_a_key_called_like_the_list_of_missing_keys_is_refused(place: Place) -> None:
    with pytest.raises(ConfigError, match="'Missed_Day', which the list of missing keys"):
        SnapshotTable("t", Identifier("n", "t"), (("Missed_Day", "date"),), ("Missed_Day",))


@pytest.mark.full
def test_what_is_refused_leaves_the_table_as_it_was(place: Place) -> None:
    """Keys twice or NULL, another content under a known number, far fewer rows, other columns."""
    mirror = Mirror(place, shrink_limit=0.5)
    mirror.fold(NUMBERS[0], FIRST)
    before = mirror.place.lake.load(mirror.table.identifier)
    assert before is not None
    bad: list[tuple[int, Sequence[Row], str, type[MirrorlakeError]]] = [
        (NUMBERS[1], [*FIRST, _row(1, 9, "twice")], "1 key more than once", LakeError),
        (NUMBERS[1], [*FIRST, (None, D(2026, 1, 9), "n", 0.0)], "without a key", LakeError),
        (NUMBERS[0], [*FIRST[1:], _row(1, 5, "other")], "was folded with 5 rows", LakeError),
        (NUMBERS[1], FIRST[:1], "80% less", LakeError),
    ]
    for number, rows, words, kind in bad:
        taken = dict(mirror.taken)
        with pytest.raises(kind, match=words):
            mirror.fold(number, rows)
        mirror.taken = taken
    frame = place.spark.get().createDataFrame(
        [(1, D(2026, 1, 5), "a")], TYPES.removesuffix(", x double")
    )
    with (
        mirror.ledger.lease(mirror.table.name, "test") as lease,
        pytest.raises(SchemaError, match="'x' of the snapshot is missing"),
    ):
        fold_snapshot(place.lake, mirror.ledger, mirror.table, frame, NUMBERS[1], lease=lease)
    after = before.refresh()
    assert list(list_branches(place.lake, mirror.table.identifier)) == ["main"]
    assert after.current_snapshot() == before.current_snapshot()
    mirror.fold(NUMBERS[1], FIRST[:1], accept_smaller=True)
    mirror.check()


@pytest.mark.full
def test_one_row_of_a_key_is_taken_where_that_is_asked_for(place: Place) -> None:
    """The same one in any order of the rows, and they are counted."""
    rows = [_row(1, 5, "b"), _row(1, 5, "c"), _row(1, 4, "z"), _row(2, 5)]
    mirror = Mirror(place, duplicates="resolved")
    assert mirror.fold(NUMBERS[0], [_row(1, 5, "c"), _row(3, 5)]).duplicates == 0
    assert mirror.fold(NUMBERS[1], rows).duplicates == 1
    assert mirror.fold(NUMBERS[2], rows[::-1]).strategy == "same"
    held = mirror.held()
    assert held[(1,)] == (bits(_row(1, 5, "c")), NUMBERS[0], None)
    assert held[(2,)][1] == NUMBERS[1]
    assert held[(3,)][2] == NUMBERS[1]


@pytest.mark.full
def test_a_column_that_came_and_a_wider_type(place: Place) -> None:
    """The rows that have the new column's value have changed; the others have not."""
    mirror = Mirror(place, key=("id",))
    mirror.fold(NUMBERS[0], [_row(1, 5), _row(2, 5)])
    wider = (("id", "long"), ("day", "date"), ("v", "string"), ("x", "double"), ("w", "int"))
    mirror.table = replace(mirror.table, columns=wider)
    rows = [(*_row(1, 5), None), (*_row(2, 5), 7)]
    folded = mirror.fold(NUMBERS[1], rows, types=f"{TYPES}, w int")
    assert (folded.changed, folded.added) == (1, 0)
    mirror.table = replace(mirror.table, columns=(*wider[:-1], ("w", "long")))
    folded = mirror.fold(NUMBERS[2], rows, types=f"{TYPES}, w bigint")
    assert (folded.changed, folded.added, folded.missing) == (0, 0, 0)
    mirror.table = replace(mirror.table, columns=wider)
    with pytest.raises(SchemaError, match="'w' is long in the lake, and int"):
        mirror.fold(NUMBERS[3], rows, types=f"{TYPES}, w int")


@pytest.mark.full
def test_a_commit_of_somebody_else_is_noticed(place: Place) -> None:
    """Kept digests are believed only of the version that they were made of."""
    mirror = Mirror(place)
    mirror.fold(NUMBERS[0], FIRST)
    spark = place.spark.get()
    spark.sql(f"UPDATE {mirror.table.identifier.sql} SET v = 'foreign' WHERE id = 3")
    assert mirror.fold(NUMBERS[1], FIRST).changed == 1
    assert {key: row for key, (row, _, _) in mirror.held().items()} == {
        (row[0],): bits(row) for row in FIRST
    }


_cells = st.tuples(
    st.sampled_from([None, "a", "b"]), st.sampled_from([None, 0.0, -0.0, math.nan, 1.5])
)


@st.composite
def _histories(draw: st.DrawFn) -> tuple[dict[str, Any], dict[int, list[Row]], list[int]]:
    in_key = draw(st.booleans())
    how = {
        "key": ("id", "day") if in_key else ("id",),
        "retention_days": draw(st.sampled_from([None, 2, 4])),
        "missing": draw(st.sampled_from(["kept", "removed"])),
        "strategy": draw(st.sampled_from(["auto", "diff", "merge", "rewrite"])),
    }
    snapshots: dict[int, list[Row]] = {}
    world: dict[Row, Row] = {}
    for place in range(draw(st.integers(2, 5))):
        today = D(2026, 1, 10) + timedelta(days=place // 2)
        days = st.integers(0, 5).map(lambda n, today=today: today - timedelta(days=n))
        for number, day, (v, x) in draw(
            st.lists(st.tuples(st.integers(1, 6), days, _cells), max_size=5)
        ):
            world[(number, day) if in_key else (number,)] = (number, day, v, x)
        for key in draw(st.lists(st.sampled_from(sorted(world) or [()]), max_size=2)):
            world.pop(key, None)
        snapshots[int(f"{today:%Y%m%d}{place:06d}")] = list(world.values())
    order = draw(st.permutations(sorted(snapshots)))
    again = draw(st.lists(st.sampled_from(order), max_size=1))
    return how, snapshots, [*order, *again]


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(_histories())
def test_any_order_of_snapshots_gives_the_models_table(
    place: Place, history: tuple[dict[str, Any], dict[int, list[Row]], list[int]]
) -> None:
    """Order, repetition, late ones, empty ones, days that leave, keys that move between days."""
    how, snapshots, order = history
    mirror = Mirror(place, **how)
    for number in order:
        mirror.fold(number, snapshots[number], accept_smaller=True)
        mirror.check()


@pytest.mark.full
def test_a_key_is_back_in_a_day_that_did_not_change(place: Place) -> None:
    """Its other rows are not taken for missing: seen with days that are no part of the key."""
    mirror = Mirror(place)
    still = [_row(n, 5 + n % 2) for n in range(2, 40)]
    mirror.fold(NUMBERS[0], [_row(1, 5), *still])
    mirror.fold(NUMBERS[1], still)
    folded = mirror.fold(NUMBERS[2], [_row(1, 8), *still])
    assert (folded.back, folded.missing) == (1, 0)
    mirror.check()
