"""Of all that raw observed of a key, which row is the current one: every short history, by Spark."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from mirrorlake.merge import current_rows
from mirrorlake.merge.row_sql.ranks import GONE
from mirrorlake.schema.own_columns import DELETED_AT, KEY, ORIGINAL, SEQ
from mirrorlake.table.resolve import ResolvedTable
from tests.integration.conftest import Place
from tests.unit.plans import planned, time_column
from tests.unit.tables import column

START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = (None, "a", "NULL", "gone")
"""What a load may have observed of a key: nothing, one of two rows, or that it is gone."""
HISTORIES = list(enumerate(product(KINDS, repeat=4)))
"""Of four loads, numbered from 1; each history is a key of its own."""
TYPES = f"id bigint, v string, {SEQ} bigint, {GONE} boolean"
Now = dict[int, tuple[str, Any]]
"""By key: the row, or ``gone``, and since when it is flagged as deleted."""


def plan_of(deletes: str) -> ResolvedTable:
    return planned(column("v"), mode="append", cursor="id", deletes=deletes)


def at(seq: int) -> datetime:
    return START + timedelta(minutes=seq)


def frame(place: Place, deletes: str, histories: Any = HISTORIES) -> Any:
    """What raw has of these histories, in no order."""
    rows = [
        (key, "a" if what == "a" else None, seq, what == "gone", at(seq))
        for key, history in histories
        for seq, what in enumerate(history, start=1)
        if what is not None
    ]
    random.Random(7).shuffle(rows)  # noqa: S311
    spark = place.spark.get()
    told = spark.createDataFrame(rows, f"{TYPES}, {DELETED_AT} timestamp")
    when = f"CASE WHEN {GONE} THEN {DELETED_AT} END AS {DELETED_AT}"
    return told.selectExpr("id", "v", SEQ, GONE, *([when] if deletes == "flag" else []))


def found(rows: Any, deletes: str) -> Now:
    """What was chosen; no key twice."""
    chosen = rows.collect()
    assert len({row["id"] for row in chosen}) == len(chosen), "a key has one row"
    since = (lambda row: row[DELETED_AT]) if deletes == "flag" else (lambda _: None)
    return {row["id"]: ("gone" if row[GONE] else row["v"] or "NULL", since(row)) for row in chosen}


def told(history: tuple[str | None, ...], deletes: str, start: int = 1) -> tuple[str, Any] | None:
    """What these loads leave of a key, as the contract has deleted rows; None: nothing."""
    seen = [(seq, what) for seq, what in enumerate(history, start=start) if what is not None]
    alive = [(seq, what) for seq, what in seen if what != "gone"]
    if deletes == "ignore":
        return (alive[-1][1], None) if alive else None
    if not seen:
        return None
    if deletes == "remove":
        return (seen[-1][1], None)
    last, row = alive[-1] if alive else (0, "gone")
    gone = [at(seq).replace(tzinfo=None) for seq, what in seen if what == "gone" and seq > last]
    return (row, min(gone) if gone else None)


def naive(now: Now) -> Now:
    """Without the session's zone, which is UTC."""
    return {key: (row, since and since.replace(tzinfo=None)) for key, (row, since) in now.items()}


@pytest.mark.parametrize("deletes", ["remove", "ignore", "flag"])
def test_the_latest_observation_of_a_key_is_its_row(place: Place, deletes: str) -> None:
    """Whatever was written in between, and in whatever order the rows come."""
    chosen = current_rows._current(frame(place, deletes), plan_of(deletes))
    expected = {key: told(history, deletes) for key, history in HISTORIES}
    assert naive(found(chosen, deletes)) == {k: now for k, now in expected.items() if now}


@pytest.mark.parametrize("deletes", ["remove", "ignore", "flag"])
def test_a_key_that_is_as_the_loads_before_left_it_has_not_changed(
    place: Place, deletes: str
) -> None:
    """The first two loads are known, the others new: only what these change is left."""
    known: Any = [type("Load", (), {"seq": seq}) for seq in (1, 2)]
    chosen = current_rows._unknown(frame(place, deletes), known, plan_of(deletes))
    expected: Now = {}
    for key, history in HISTORIES:
        before, after = told(history[:2], deletes), told(history[2:], deletes, 3)
        if after is not None and after != before:
            expected[key] = after
    assert naive(found(chosen, deletes)) == expected


def test_a_row_whose_original_text_alone_changed_has_changed(place: Place) -> None:
    """A zero date became a partial one: both are NULL."""
    plan = planned(time_column(), mode="append", cursor="id")
    zero, partial = [("at", "0000-00-00")], [("at", "2020-00-00")]
    rows = versions(
        place,
        f"id bigint, at timestamp_ntz, {ORIGINAL} array<struct<column:string,text:string>>",
        *((key, None, zero, 1, False) for key in (1, 2)),
        (1, None, partial, 2, False),
        (2, None, zero, 2, False),
    )
    known: Any = [type("Load", (), {"seq": 1})]
    assert [row["id"] for row in current_rows._unknown(rows, known, plan).collect()] == [1]


@pytest.mark.full
def test_one_load_and_a_table_without_a_key_are_taken_as_they_are(place: Place) -> None:
    rows = frame(place, "remove", [(1, ("a",)), (1, ("a",)), (2, ("gone",))])
    keyless = planned(time_column(), mode="append", cursor="at", key=())
    for chosen in (
        current_rows._current(rows, plan_of("remove"), several=False),
        current_rows._current(rows, keyless),
    ):
        assert sorted((row["id"], row["v"]) for row in chosen.collect()) == [
            (1, "a"),
            (1, "a"),
            (2, None),
        ]
    # Rows that are gone are none where the contract ignores them, of one load too.
    left = current_rows._current(rows, plan_of("ignore"), several=False)
    assert [row["v"] for row in left.collect()] == ["a", "a"]


@pytest.mark.parametrize("deletes", ["remove", "flag"])
def test_a_load_that_has_a_key_twice_leaves_one_row_of_it(place: Place, deletes: str) -> None:
    rows = frame(place, deletes, [(1, (None, "a")), (1, (None, "a")), (1, ("NULL",))])
    assert found(current_rows._current(rows, plan_of(deletes)), deletes) == {1: ("a", None)}


def versions(place: Place, types: str, *rows: tuple[Any, ...]) -> Any:
    return place.spark.get().createDataFrame(list(rows), f"{types}, {SEQ} bigint, {GONE} boolean")


def test_two_texts_that_the_server_calls_one_key_are_one(place: Place) -> None:
    text = replace(column("v"), collation="utf8mb4_general_ci")
    plan = planned(text, time_column(), mode="incremental", cursor="at", key=("v",))
    rows = versions(
        place,
        f"v string, {KEY} binary",
        ("a", bytearray(b"A"), 1, False),
        ("A", bytearray(b"A"), 2, False),
        ("b", bytearray(b"B"), 1, False),
    )
    assert sorted(row["v"] for row in current_rows._current(rows, plan).collect()) == ["A", "b"]


def test_one_key_may_have_a_text_with_an_original_and_one_without(place: Place) -> None:
    """The server's own key decides, where raw has it."""
    text = replace(column("v"), charset="sjis", collation="sjis_japanese_ci")
    plan = planned(text, time_column(), mode="incremental", cursor="at", key=("v",))
    rows = versions(
        place,
        f"v string, {KEY} binary, {ORIGINAL} array<struct<column:string,text:string>>",
        (None, bytearray(b"A"), [("v", "815F")], 1, False),
        ("a", bytearray(b"A"), None, 2, False),
    )
    assert [row["v"] for row in current_rows._current(rows, plan).collect()] == ["a"]


def test_keys_without_a_place_in_their_type_are_told_apart_by_their_originals(place: Place) -> None:
    plan = planned(time_column(), mode="append", cursor="id", key=("at",))
    kept = f"at timestamp_ntz, {ORIGINAL} array<struct<column:string,text:string>>"
    zero, partial = [("at", "0000-00-00")], [("at", "2020-00-00")]
    rows = versions(
        place,
        kept,
        (None, zero, 1, False),
        (None, zero, 2, False),
        (None, partial, 1, False),
    )
    chosen = current_rows._current(rows, plan).collect()
    assert sorted((row[ORIGINAL][0]["text"], row[SEQ]) for row in chosen) == [
        ("0000-00-00", 2),
        ("2020-00-00", 1),
    ]
