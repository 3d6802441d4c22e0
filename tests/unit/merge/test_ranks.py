"""Which version of a row is its key's current one: the last event of the last load that has it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import duckdb
import pytest

from mirrorlake.merge.row_sql.ranks import DELETED_AT, GONE, RANK, newest_by
from mirrorlake.schema.own_columns import EVENT, SEQ

Version = tuple[int, int | None, str | None]
"""A load's number, an event's in it, and a value; None: a tombstone."""


def current(
    versions: Sequence[Version], *, flagged: bool, events: bool = True
) -> tuple[str | None, str | None]:
    """The value of a key's current row, and the time at which it is flagged as deleted."""
    rows = ", ".join(
        f"(1, {seq}, {'NULL' if event is None else event}::BIGINT, {value is None},"
        f" {'NULL' if value is None else repr(value)}::VARCHAR,"
        f" {repr(f'{seq}.{event or 0}') if value is None else 'NULL'}::VARCHAR)"
        for seq, event, value in versions
    )
    sql = f"SELECT * FROM (VALUES {rows}) AS t(k, {SEQ}, {EVENT}, {GONE}, v, {DELETED_AT})"
    for name, added in newest_by(["k"], flagged=flagged, events=events):
        kept = f"* EXCLUDE ({DELETED_AT})" if name == DELETED_AT else "*"
        sql = f"SELECT {kept}, {added} AS {name} FROM ({sql})"
    (found,) = duckdb.sql(f"SELECT v, {DELETED_AT} FROM ({sql}) WHERE {RANK} = 1").fetchall()
    return found


@pytest.mark.parametrize(
    ("versions", "value", "flagged"),
    [
        # Two events of one key in one load.
        ([(7, 1, "a"), (7, 2, "b")], "b", ("b", None)),
        ([(7, 1, "a"), (7, 2, "b"), (7, 3, None)], None, ("b", "7.3")),
        ([(7, 1, None), (7, 2, "b")], "b", ("b", None)),
        ([(7, 1, "a"), (7, 2, None), (7, 3, None)], None, ("a", "7.2")),
        # A later load is later, whatever its events are called.
        ([(7, 9, "a"), (8, 1, "b")], "b", ("b", None)),
        ([(7, 9, "a"), (8, 1, None)], None, ("a", "8.1")),
        # Loads without events, before and after: absent is 0.
        ([(6, None, "a"), (7, 1, "b"), (8, None, "c")], "c", ("c", None)),
        ([(7, None, "a"), (7, 1, "b")], "b", ("b", None)),
        ([(6, None, "a"), (7, 4, None), (8, None, None)], None, ("a", "7.4")),
    ],
)
def test_versions_are_ordered_by_load_and_event(
    versions: list[Version], value: str | None, flagged: tuple[str | None, str | None]
) -> None:
    for order in permutations(versions):
        assert current(order, flagged=False)[0] == value, order
        assert current(order, flagged=True) == flagged, order


def test_loads_without_events_are_ordered_as_ever() -> None:
    versions: list[Version] = [(6, None, "a"), (7, None, None), (8, None, "b"), (9, None, None)]
    for order in permutations(versions):
        for events in (False, True):
            assert current(order, flagged=False, events=events)[0] is None
            assert current(order, flagged=True, events=events) == ("b", "9.0")
