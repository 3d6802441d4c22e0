"""Rounds of chunks: how much of a table was proved since they last began."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from mirrorlake.proof.coverage.coverage import round_of


def chunk(lo: str | None, hi: str | None, verdict: str = "equal", asked: str = "next") -> Any:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    return SimpleNamespace(lo=lo, hi=hi, verdict=verdict, asked=asked, lake_rows=10, started_at=at)


def test_a_round_begins_at_the_first_key() -> None:
    assert round_of([]) is None
    assert round_of([chunk("5", "9"), chunk(None, "9", asked="keys")]) is None
    old = [chunk(None, "5"), chunk("5", None)]
    found = round_of(
        [*old, chunk(None, "5"), chunk("5", "9", "different"), chunk("2", "3", asked="keys")]
    )
    assert found is not None
    assert (found.rows, found.chunks, found.equal, found.whole) == (10, 2, 1, False)
    assert found.percent(40) == 25.0


def test_a_chunk_that_is_looked_at_again_counts_once() -> None:
    found = round_of([chunk(None, "5"), chunk("5", "9", "different"), chunk("5", "9")])
    assert found is not None
    assert (found.rows, found.chunks, found.equal) == (20, 2, 2)


def test_a_chunk_that_was_repaired_counts_as_it_was_found_then() -> None:
    bad = chunk("5", "9", "different")
    halves = [chunk("5", "7", asked="keys"), chunk("7", "9", asked="keys")]
    found = round_of([chunk(None, "5"), bad, *halves])
    assert found is not None
    assert (found.rows, found.chunks, found.equal) == (20, 2, 2)
    for rest in (halves[:1], [halves[0], chunk("7", "9", "different", "keys")], []):
        found = round_of([*halves, chunk(None, "5"), bad, *rest])
        assert found is not None
        assert found.equal == 1


def test_a_whole_round_is_all_of_it() -> None:
    whole = round_of([chunk(None, "5"), chunk("5", None)])
    assert whole is not None
    # Rows that waited are in no chunk; the lake may tell deleted ones too.
    assert (whole.whole, whole.percent(99)) == (True, 100.0)
    one = round_of([chunk(None, None)])
    assert one is not None
    assert one.percent(0) == 100.0
    bad = round_of([chunk(None, None, "different")])
    assert bad is not None
    assert bad.percent(10) == 0.0
