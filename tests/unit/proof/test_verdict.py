"""What a check may say of rows that it did not compare: nothing, and how many they are."""

from __future__ import annotations

from mirrorlake.proof.comparing.rows_beside_bounds import Beside
from mirrorlake.proof.comparing.verdict import (
    LEFT,
    NOTHING_OLD,
    is_any_compared,
    settled_ranges,
    uncompared,
)
from mirrorlake.proof.ranges.ranges import Range, RangeProof, Span, Tally

NONE, ONE, TWO = Tally(0, 0), Tally(1, 11), Tally(2, 23)


def ranges(*proofs: RangeProof) -> list[str]:
    return [one.verdict for one in settled_ranges(proofs, "different", Beside())]


def test_rows_that_wait_are_undecided_where_nothing_else_was_compared() -> None:
    empty, one = RangeProof(None, NONE, NONE, "equal"), RangeProof(None, ONE, ONE, "equal")
    assert uncompared([empty], Beside(), 5) == {NOTHING_OLD: 5}
    assert uncompared([empty], Beside(), 0) == {}, "an empty table is equal to an empty one"
    assert uncompared([empty, one], Beside(), 5) == {}
    assert uncompared([empty], Beside(equal=1), 5) == {}
    for side in (RangeProof(None, ONE, NONE, "equal"), RangeProof(None, NONE, ONE, "equal")):
        assert is_any_compared([side], Beside())
    # Rows of the lake that were left are told whatever else was compared.
    assert uncompared([one], Beside(left=3), 5) == {LEFT: 3}
    assert uncompared([empty], Beside(left=3), 5) == {LEFT: 3, NOTHING_OLD: 5}


def test_a_range_has_the_verdict_of_what_may_lie_in_it() -> None:
    low, high = (RangeProof(keys, ONE, ONE, "equal") for keys in (Range(None, 9), Range(9, None)))
    unlike = RangeProof(Range(9, None), ONE, TWO, "undecided")
    assert ranges(low, high) == ["equal", "equal"]
    assert ranges(low, unlike) == ["equal", "different"]
    for key, found in (("8", ["different", "equal"]), ("9", ["equal", "different"])):
        told = settled_ranges([low, high], "different", Beside(keys={(key, "x")}))
        assert [one.verdict for one in told] == found
    # A key that is NULL lies in the first range; of a span nothing is known.
    told = settled_ranges([low, high], "different", Beside(keys={("N",)}))
    assert [one.verdict for one in told] == ["different", "equal"]
    span = RangeProof(Span(("1",)), ONE, ONE, "equal")
    [told_] = settled_ranges([span], "different", Beside(keys={("N",)}))
    assert told_.verdict == "different"
    # Rows that were not compared may lie anywhere, and so may all where none was.
    told = settled_ranges([low, high], "undecided", Beside(left=1))
    assert [one.verdict for one in told] == ["undecided", "undecided"]
    empty = RangeProof(Range(), NONE, NONE, "equal")
    assert ranges(empty) == ["different"]
    assert ranges(empty, low) == ["equal", "equal"]
