"""Rows of the lake beside the bounds of a check, and keys that no row of MySQL can have."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.proof.comparing import rows_beside_bounds, unchanged_since_load
from mirrorlake.proof.comparing.rows_beside_bounds import Beside, compare_beside, read_beside
from mirrorlake.proof.comparing.unchanged_since_load import is_still, is_unchanged
from mirrorlake.proof.ranges.impossible_keys import can_hold, convertible_equals, is_convertible
from mirrorlake.proof.ranges.target import named
from mirrorlake.proof.sides.mysql_side import SourceSide, _equals
from tests.unit.proof.test_ranges import column

Answer = list[tuple[Any, ...]]


class Source:
    """MySQL, answered from a list of rows: digest, key, whether it is past the bound."""

    def __init__(self, *rows: tuple[int, str, int]) -> None:
        self.rows, self.asked = rows, list[str]()

    def key_condition(self, key: tuple[str, ...]) -> str:
        return f"k{key[0]}"

    def found_sql(self, flag: str, condition: str) -> str:
        self.asked.append(f"{flag} of {condition}")
        return condition

    def answer(self, _: Any, condition: str) -> Answer:
        return [row for row in self.rows if f"(k{row[1]})" in condition or "LIMIT" in condition]


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_beside_bounds, "reading", lambda _: nullcontext())
    monkeypatch.setattr(rows_beside_bounds, "one_state", lambda _: nullcontext())
    monkeypatch.setattr(
        rows_beside_bounds, "leaving_out", lambda _, keys: nullcontext(f"view of {len(keys)}")
    )


def target(newer: str = "", later: str = "", *, keyed: bool = True) -> Any:
    scope = SimpleNamespace(newer=newer, later=later)
    return SimpleNamespace(key=("id",) if keyed else (), scope=scope, source="source")


def compared(
    monkeypatch: pytest.MonkeyPatch,
    side: Source,
    lake: list[tuple[str, int]],
    *newer: str,
    about: Any = None,
) -> Beside:
    monkeypatch.setattr(rows_beside_bounds, "rows_of", side.answer)
    rows = [((key,), digest) for key, digest in lake]
    mine: Any = side
    about = about or target("at > 1")
    return compare_beside(None, about, mine, rows, [(key,) for key in newer])  # type: ignore[arg-type]


def test_a_row_that_mysql_has_just_so_is_equal_at_any_age(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Source((10, "1", 0), (20, "2", 1))
    found = compared(monkeypatch, side, [("1", 10), ("2", 20)])
    assert found == Beside(equal=2, awaited=1)
    assert side.asked == ["at > 1 of (k1) OR (k2)"]
    assert compared(monkeypatch, side, []) == Beside()
    assert len(side.asked) == 1


def test_any_other_row_is_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Source((10, "1", 0), (None, "3", 0))  # type: ignore[arg-type]
    found = compared(monkeypatch, side, [("1", 11), ("2", 20), ("3", 30)])
    assert found == Beside(keys={("1",), ("2",), ("3",)})
    # MySQL has moved it past the bound: the next load brings it.
    assert compared(monkeypatch, side, [("1", 11), ("2", 20)], "1") == Beside(keys={("2",)})
    # Two rows under one key are no row of MySQL, whichever is equal and however new it is.
    for lake in ([("1", 10), ("1", 11)], [("1", 10), ("1", 10)]):
        assert compared(monkeypatch, side, lake, "1") == Beside(keys={("1",)})


def test_keys_are_looked_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_beside_bounds, "KEYS_AT_ONCE", 2)
    side = Source((10, "1", 1), (10, "2", 1), (10, "3", 1))
    about = target(later="c > 5")
    found = compared(monkeypatch, side, [("3", 10), ("1", 10), ("2", 10)], about=about)
    assert found == Beside(equal=3, awaited=3)
    assert side.asked == ["c > 5 of (k1) OR (k2)", "c > 5 of (k3)"]
    compared(monkeypatch, side, [("1", 10)], about=target())
    assert side.asked[-1] == "0 of (k1)"


def test_without_a_key_rows_are_a_multiset(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Source((10, "", 1), (10, "", 1), (None, "", 1), (20, "", 1))  # type: ignore[arg-type]
    lake = [("10", 10), ("10", 10), ("10", 10), ("30", 30)]
    found = compared(monkeypatch, side, lake, about=target(later="c > 5", keyed=False))
    assert found == Beside(equal=2, awaited=2, left=2)
    assert side.asked == [f"1 of c > 5 LIMIT {rows_beside_bounds.MOST_BESIDE}"]
    # Where no row is later, there is nothing to look among.
    found = compared(monkeypatch, side, lake, about=target(keyed=False))
    assert found == Beside(left=4)
    # Where the lake has none, MySQL is not asked.
    asked = len(side.asked)
    found = compared(monkeypatch, side, [], about=target(later="c > 5", keyed=False))
    assert (found, found.left, len(side.asked)) == (Beside(), 0, asked)


def test_which_keys_past_the_bound_are_compared_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirrorlake.proof.ranges.target.MOST_NEWER", 2)
    assert named(target(), [("1",), ("2",)]) == [("1",), ("2",)]
    assert named(target(), [("1",), ("2",), ("3",)]) == ()
    assert named(target(keyed=False), [("1",)]) == ()


class Lake:
    """The lake, with so many rows beside the bounds."""

    def __init__(self, rows: int, where: str = "where") -> None:
        self.rows, self.where, self.asked = rows, where, list[str]()

    def digests_sql(self) -> str:
        return "beside"

    def among_sql(self, view: str, keys: Any) -> str:
        return f"among {view} {keys}"

    def count_sql(self) -> str:
        return "count"

    def read_digests(self, _: Any, statement: str) -> list[Any]:
        self.asked.append(statement)
        if statement.startswith("among"):
            return [(("moved",), 1)]
        limit = int(statement.rpartition(" ")[2])
        return [((str(n),), n) for n in range(min(limit, self.rows))]

    def sql(self, statement: str) -> Any:
        self.asked.append(statement)
        return SimpleNamespace(collect=lambda: [(self.rows,)])


def test_more_rows_than_can_be_looked_up_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_beside_bounds, "MOST_BESIDE", 3)
    side: Any = Lake(3)
    rows, left = read_beside(side, side, side, [])
    assert (len(rows), left, side.asked) == (3, 0, ["beside LIMIT 4"])
    side = Lake(5)
    rows, left = read_beside(side, side, side, [])
    assert (len(rows), left, side.asked[-1]) == (3, 2, "count")
    # No condition: there are no such rows.
    side = Lake(5, where="")
    assert read_beside(side, side, side, []) == ([], 0)
    assert read_beside(side, side, side, [("1",)]) == ([(("moved",), 1)], 0)
    assert side.asked == ["among view of 1 [('1',)]"]
    # Those that were moved since they were counted are no less than none.
    side = Lake(5)
    side.sql = lambda _: SimpleNamespace(collect=lambda: [(1,)])
    assert read_beside(side, side, side, [])[1] == 0


# --- a source at rest -----------------------------------------------------------------------------

MOMENT = datetime(2026, 1, 1, 12, 0, 0, 900_000)


@pytest.mark.parametrize(
    ("position", "seconds", "unchanged"),
    [
        ("0-1-7", None, True),
        ("0-1-8", None, False),
        # A server without a binary log has no position.
        ("", None, False),
        ("0-1-8", -2, True),
        # Told in whole seconds: the second before is not decided by the time alone.
        ("0-1-8", -1, False),
        ("0-1-7", -1, True),
        ("0-1-7", 0, True),
        ("0-1-7", 1, True),
        # The table was changed, whatever the position says.
        ("0-1-7", 2, False),
    ],
)
def test_whether_mysql_has_changed_a_table_since_a_load(
    position: str, seconds: int | None, unchanged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipt: Any = SimpleNamespace(moment=str(MOMENT), position="0-1-7" if position else "")
    whole = MOMENT.replace(microsecond=0)
    changed = None if seconds is None else whole + timedelta(seconds=seconds)
    assert is_unchanged(receipt, position, changed) is unchanged
    monkeypatch.setattr(unchanged_since_load, "changed_at", lambda *_: changed)
    read = SimpleNamespace(position=position)
    monkeypatch.setattr(unchanged_since_load, "read_position", lambda _: read)
    load: Any = SimpleNamespace(receipt=receipt)
    own: Any = SimpleNamespace(primary=None)
    nothing: Any = None
    assert is_still(nothing, own, nothing, load) is unchanged
    given: Any = SimpleNamespace(position=position)
    assert is_still(nothing, own, nothing, load, given) is unchanged
    # A replica is about to apply what its primary has already: it is never known to rest.
    replica: Any = SimpleNamespace(primary="a server")
    assert is_still(nothing, replica, nothing, load) is False
    assert is_still(nothing, own, nothing, SimpleNamespace(receipt=None)) is False  # type: ignore[arg-type]


# --- keys that no row can have --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "held", "foreign"),
    [
        ("date", ("2020-01-02", "0000-00-00"), ("+12345-01-01", "-0001-01-01", "2020-01-02 00")),
        ("datetime", ("2020-01-02 03:04:05.678",), ("+12345-01-01 00:00:00", "2020-01-02")),
        ("timestamp", ("2020-01-02 03:04:05",), ("12345-01-01 00:00:00",)),
        ("time", ("10:-838:59:59", "15:12:34:56.789012"), ("4:what", "8:12:34:60", "5:12:34")),
        ("year", ("0", "1901", "2155"), ("70", "1900", "2156", "-1", "x")),
        ("decimal", ("1.50", "-3", "6:123.45"), ("3:12x", "1:", "x")),
        ("uuid", (f"36:{'0' * 8}-{'a' * 4}-{'F' * 4}-{'1' * 4}-{'2' * 12}",), ("4:what",)),
        ("inet4", ("9:127.0.0.1",), ("4:what",)),
        ("inet6", ("3:::1", "17:::ffff:192.0.2.128"), ("4:what",)),
        ("int", ("7", "-7"), ()),
        ("enum", ("1:a", "E"), ()),
    ],
)
def test_what_a_column_can_hold(kind: str, held: tuple[str, ...], foreign: tuple[str, ...]) -> None:
    one = column("k", kind)
    assert [cell for cell in held if not can_hold(one, cell)] == []
    assert [cell for cell in foreign if can_hold(one, cell)] == []
    # An original that has no business there is compared by the form itself.
    assert can_hold(one, "!")


def test_a_charset_that_lacks_a_character() -> None:
    for charset in ("utf8mb3", "utf8"):
        one = column("k", "varchar", charset=charset)
        assert can_hold(one, "2:\uffff")
        assert not can_hold(one, "4:😶")
        assert not can_hold(one, "4:\U00010000"), "the first that takes four bytes"
        assert is_convertible(one, "ä")
    assert can_hold(column("k", "varchar", charset="utf8mb4"), "4:😶")
    latin, seven = (column("k", "varchar", charset=name) for name in ("latin1", "swe7"))
    assert is_convertible(latin, "a[")
    assert not is_convertible(latin, "ä")
    assert not is_convertible(seven, "a[")
    assert is_convertible(column("k", "time"), "ä")


def test_the_condition_of_a_key() -> None:
    """Only what the charset may lack is converted: all else goes through the index as it is."""
    from mirrorlake.proof.forms.canonical import form_of

    more = {"charset": "latin1", "collation": "latin1_bin", "length": 9}
    latin = column("k", "varchar", **more)
    form = form_of(latin, originals=False)
    assert _equals(latin, form, "1:a") == "`k` = _utf8mb4 x'61'"
    there = "CONVERT(_utf8mb4 x'c3a4' USING latin1)"
    converted = (
        f"(`k` = {there} COLLATE latin1_bin AND CONVERT({there} USING utf8mb4) COLLATE utf8mb4_bin"
        " = _utf8mb4 x'c3a4' COLLATE utf8mb4_bin)"
    )
    assert _equals(latin, form, "2:ä") == converted
    bare = column("k", "varchar", charset="latin1")
    assert convertible_equals(bare, "x").startswith("(`k` = CONVERT(x USING latin1) AND ")
    year = column("k", "year")
    assert _equals(year, form_of(year, originals=False), "70") == "0 = 1"
    assert _equals(year, form_of(year, originals=False), "N") == "`k` IS NULL"
    side = SourceSide(SimpleNamespace(), SimpleNamespace(cells=()), (), "")  # type: ignore[arg-type]
    assert side.key_condition(()) == ""
