"""How groups become ranges, candidates and verdicts: what is pure of the comparison."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.proof.comparing import compare
from mirrorlake.proof.comparing.check import CHUNK_ROWS
from mirrorlake.proof.comparing.compare import (
    Candidates,
    Digests,
    KeyCut,
    candidates,
    cut_for,
    proofs,
)
from mirrorlake.proof.comparing.recheck import Rechecked
from mirrorlake.proof.comparing.verdict import verdict_of
from mirrorlake.proof.forms.differences import Difference, Differing, Field, Value
from mirrorlake.proof.ranges import ranges
from mirrorlake.proof.ranges.ranges import Grid, Range, Span, Tally, bucket_count, plan_grid
from tests.unit.proof.test_order import parts_of
from tests.unit.proof.test_ranges import column

ID = column()
ONE, TWO = Tally(1, 11), Tally(2, 23)


def grid(first: int = 0, end: int = 40, width: int = 10, whole: Range | None = None) -> Grid:
    return Grid(ID, whole or Range(), first, end, width)


def target(rows: int) -> Any:
    return SimpleNamespace(table=SimpleNamespace(estimated_rows=rows), name="t")


def test_tallies_add_rows_and_digests() -> None:
    assert Tally(3, 34) == ONE + TWO
    assert ranges.total({0: ONE, 1: TWO}, [1]) == TWO
    assert ranges.differing({0: ONE}, {0: Tally(1, 12)}) == [0]
    assert ranges.differing({0: ONE}, {0: Tally(2, 11)}) == [0]
    assert ranges.differing({}, {5: Tally(0, 0)}) == []


def test_a_grid_has_groups_of_its_width() -> None:
    # 40,001 rows in ten groups of 4,000 and one more.
    found = plan_grid(ID, Range(), 1, 100, 40_001)
    assert (found.first, found.end, found.width, found.count) == (1, 101, 10, 10)
    assert plan_grid(ID, Range(), 5, 5, 0).count == 1
    assert plan_grid(ID, Range(), 5, 5, 0).width == 1
    assert plan_grid(ID, Range(), 1, 100, 0).count == 1
    assert plan_grid(ID, Range(), 0, 100, 8_000).width == 51
    assert found.range_of(-1) == Range(None, 1)
    assert found.range_of(0) == Range(1, 11)
    assert found.range_of(10) == Range(101, None)
    assert grid(0, 35).range_of(3) == Range(30, 35)
    assert grid().span_of(range(1, 3)) == Range(10, 30)


def test_statements_digest_so_many_rows_together() -> None:
    assert [*grid().queries(40)] == [range(4)]
    assert [*grid().queries(1_000_000)] == [range(2), range(2, 4)]
    assert [*grid(0, 50).queries(1_250_000)] == [range(2), range(2, 4), range(4, 5)]
    # 166,667 rows a group: three of them are one row too many.
    assert [*grid().queries(666_668)] == [range(2), range(2, 4)]
    assert [*grid(0, 300_000, 1).queries(10)] == [range(300_000)]
    assert [*grid().queries(9_000_000)] == [range(n, n + 1) for n in range(4)]


def test_wide_numbers_are_subtracted_as_decimals() -> None:
    assert "DECIMAL" not in Grid(ID, Range(), 0, 2**63 - 1, 7).source
    assert "DECIMAL" in Grid(ID, Range(), 1, 2**63, 7).source
    assert "DECIMAL" in Grid(ID, Range(), -(2**62), 2**62, 7).source
    assert grid(3, 9, 2).source == "(`id` - (3)) DIV 2"
    assert "CAST(`id` AS BIGINT)" in grid(3, 9, 2).lake
    assert "CAST(`id` AS DECIMAL(21,0))" in Grid(ID, Range(), 1, 2**63, 7).lake


def test_a_key_of_nulls_is_below_all() -> None:
    assert grid(3, 9, 2).lake.startswith("CASE WHEN `id` IS NULL OR `id` < 3 THEN -1")
    assert "WHEN `id` >= 9 THEN 3 ELSE" in grid(3, 9, 2).lake
    assert Range(None, 7).lake(ID) == "(`id` < 7 OR `id` IS NULL)"
    assert Range(7).lake(ID) == "`id` >= 7"
    assert Range().lake(ID) == ""
    assert Range(None, 7).source(ID) == "`id` < 7"
    assert (Range(1, 2).bounds, Range().bounds) == (("1", "2"), (None, None))


def test_buckets() -> None:
    assert [bucket_count(n) for n in (0, 3_999, 4_000, 9_000)] == [1, 1, 1, 2]
    assert cut_for(target(9_000), None) == KeyCut(None, 2)
    assert (KeyCut(None).buckets, Digests().bytes) == (1, 0)
    assert cut_for(target(9_000), grid()) == KeyCut(grid(), 1)


def test_ranges_are_proved_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "QUERY_ROWS", 20)
    found = Digests({0: ONE, 2: TWO}, {-1: ONE, 0: ONE, 2: TWO, 4: TWO})
    first, second = proofs(target(40), KeyCut(grid()), found)
    # What the lake has beyond MySQL's keys belongs to the ends.
    assert (first.range, first.source, first.lake) == (Range(None, 20), ONE, Tally(2, 22))
    assert (second.range, second.source, second.lake) == (Range(20, None), TWO, Tally(4, 46))
    assert (first.verdict, second.verdict) == ("undecided", "undecided")
    equal = Digests({0: ONE, 2: TWO}, {0: ONE, 2: Tally(2, 24)})
    assert [p.verdict for p in proofs(target(40), KeyCut(grid()), equal)] == ["equal", "undecided"]
    span = Span(("1",), ("2",))
    [whole] = proofs(target(40), KeyCut(None, 3, span), Digests({0: ONE}, {0: ONE, 1: ONE}))
    assert (whole.range, whole.source, whole.lake) == (span, ONE, Tally(2, 22))
    assert whole.verdict == "undecided"
    assert proofs(target(40), KeyCut(None), Digests())[0].verdict == "equal"


def test_the_verdict_of_a_check() -> None:
    none, one, unsure = Rechecked(), Rechecked(), Rechecked()
    one.differences.append("a difference")  # type: ignore[arg-type]
    unsure.undecided["why"] += 1
    # Whatever digests said: every candidate was judged again.
    assert verdict_of(none, 0) == "equal"
    assert verdict_of(one, 1) == "different"
    assert verdict_of(unsure, 0) == "undecided"
    assert verdict_of(none, 1) == "undecided"
    assert CHUNK_ROWS > 0


class Looks:
    """What `candidates` asks for, answered from lists; both sides and every cut in turn."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *finer: Digests) -> None:
        self.cuts: list[KeyCut] = []
        self.fetched: list[tuple[KeyCut, list[int]]] = []
        self._finer = list(finer)
        monkeypatch.setattr(compare, "read_source", self._read)
        monkeypatch.setattr(compare, "read_lake", self._read_lake)
        monkeypatch.setattr(compare, "_unlike", self._unlike)

    def _read_lake(self, *args: Any) -> dict[int, Tally]:
        assert args[1] == "the lake"
        return self._lake

    def _read(self, *args: Any) -> Digests:
        assert args[2] == "MySQL"
        self.cuts.append(args[3])
        found = self._finer.pop(0)
        self._lake = found.lake
        return found

    def _unlike(self, *args: Any) -> set[tuple[str, ...]]:
        self.fetched.append((args[3], list(args[5])))
        return {(str(group),) for group in args[5]}


def found_by(cut: KeyCut, digests: Digests) -> Candidates:
    sides: Any = ("MySQL", "the lake")
    return candidates(None, None, target(40), sides, cut, digests)  # type: ignore[arg-type]


def test_small_groups_are_fetched_together(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(monkeypatch)
    found = found_by(KeyCut(grid()), Digests({0: ONE, 1: ONE, 2: TWO}, {0: TWO, 1: ONE}))
    assert looks.fetched == [(KeyCut(grid()), [0, 2])]
    assert (found.keys, found.left, found.rows) == ({("0",), ("2",)}, 0, 4)


def test_large_groups_are_cut_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "FETCHED", 10)
    monkeypatch.setattr(ranges, "GROUP_ROWS", 3)
    finer = Digests({1: ONE}, {}, bytes=5)
    looks = Looks(monkeypatch, finer)
    digests = Digests({0: ONE, 1: Tally(11, 5)}, {0: TWO, 1: Tally(10, 5)}, bytes=2)
    found = found_by(KeyCut(grid()), digests)
    [again] = looks.cuts
    assert again.grid is not None
    assert (again.grid.whole, again.grid.first, again.grid.end) == (Range(10, 20), 10, 20)
    assert again.grid.width == 4
    assert looks.fetched == [(again, [1]), (KeyCut(grid()), [0])]
    assert (digests.bytes, found.left) == (7, 0)


@pytest.mark.parametrize("span", [2, 3, 1_000_000])
def test_a_group_that_is_cut_again_is_two_at_least(span: int) -> None:
    """One group would be cut again for ever."""
    cut = KeyCut(grid(0, span, span))
    again = compare._cut_again(cut, Digests({0: Tally(compare.FETCHED + 1, 1)}), 0)
    assert again is not None
    assert again.grid is not None
    assert again.grid.count == min(span, 5)
    assert compare._cut_again(cut, Digests({0: Tally(compare.FETCHED, 1)}), 0) is None
    # Wherever its keys lie.
    cut = KeyCut(grid(-span, 0, span))
    assert compare._cut_again(cut, Digests({0: Tally(compare.FETCHED + 1, 1)}), 0) is not None


def test_a_cut_that_is_no_finer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the two numbers are: it ends."""
    monkeypatch.setattr(ranges, "GROUP_ROWS", 100)
    monkeypatch.setattr(compare, "FETCHED", 60)
    assert compare._cut_again(KeyCut(grid()), Digests({1: Tally(199, 1)}), 1) is None
    again = compare._cut_again(KeyCut(grid()), Digests({1: Tally(200, 1)}), 1)
    assert again is not None
    looks = Looks(monkeypatch)
    found_by(KeyCut(grid()), Digests({1: Tally(199, 1)}, {}))
    assert (looks.cuts, looks.fetched) == ([], [(KeyCut(grid()), [1])])


def test_what_cannot_be_cut_is_fetched_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "FETCHED", 10)
    looks = Looks(monkeypatch)
    many = Tally(11, 1)
    # One key alone, and what is beyond MySQL's keys on either side.
    found_by(KeyCut(grid(0, 4, 1)), Digests({0: many}, {-1: many, 4: many}))
    assert looks.fetched == [(KeyCut(grid(0, 4, 1)), [-1, 0, 4])]
    assert looks.cuts == []


def test_buckets_are_cut_again_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "FETCHED", 10)
    monkeypatch.setattr(ranges, "GROUP_ROWS", 4)
    span = Span(("1",), None)
    cut = KeyCut(None, 2, span, "within")
    looks = Looks(monkeypatch, Digests({3: ONE}, {}))
    found = found_by(cut, Digests({0: Tally(12, 1), 1: Tally(12, 1)}, {}))
    assert looks.cuts == [KeyCut(None, 6, span, "within")]
    assert looks.fetched == [(KeyCut(None, 6, span, "within"), [3])]
    assert found.keys == {("3",)}
    # As fine as it gets: all rows are one key's.
    looks = Looks(monkeypatch)
    found_by(KeyCut(None, 6), Digests({0: Tally(24, 1)}, {}))
    assert looks.fetched == [(KeyCut(None, 6), [0])]


def test_groups_beyond_what_may_be_fetched_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MOST_ROWS", 3)
    looks = Looks(monkeypatch)
    digests = Digests(dict.fromkeys(range(4), TWO), {})
    found = found_by(KeyCut(grid()), digests)
    assert looks.fetched == [(KeyCut(grid()), [0])]
    assert (found.left, found.rows) == (3, 2)
    monkeypatch.setattr(compare, "MOST_ROWS", 4)
    found = found_by(KeyCut(grid()), digests)
    assert (found.left, found.rows) == (2, 4)


def test_conditions_of_groups() -> None:
    side: Any = SimpleNamespace(bucket=lambda n: f"b{n}")
    cut = KeyCut(grid(0, 20))
    source = list(compare._source_conditions(side, cut, [-1, 0, 1, 2]))
    # MySQL has nothing beyond its own keys.
    assert source == ["`id` >= 0 AND `id` < 10", "`id` >= 10 AND `id` < 20"]
    lake = compare._lake_condition(side, cut, [0, 1])
    assert lake == f"(`id` >= 0 AND `id` < 20) AND ({cut.grid.lake if cut.grid else ''} IN (0, 1))"
    assert list(compare._source_conditions(side, KeyCut(None, 3), [1, 2])) == ["b3 IN (1, 2)"]
    assert compare._lake_condition(side, KeyCut(None, 3), [1, 2]) == "b3 IN (1, 2)"
    assert compare._within_source(KeyCut(None, 3, None, "w"), range(3)) == "w"
    assert compare._within_source(cut, range(2)) == "`id` >= 0 AND `id` < 20"


def test_what_is_compared_never_changes() -> None:
    """Values, that sets may hold."""
    value, [part] = Value("a", None), parts_of(ID)
    values = (ONE, Range(), grid(), Span(), part, KeyCut(grid()), value, Field(value, value))
    assert len({*values, Difference("missing", ()), Differing((), gone=True)}) == 10
