"""Pieces are put together where the server expects twice the rows that there are."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.load.chunks.pieces import Piece, merge_pieces


def pieces_of(expected: list[int]) -> list[Piece]:
    return [(n, n + 1, rows) for n, rows in enumerate(expected)]


def test_as_large_as_they_may_be_where_the_server_doubles() -> None:
    # Like lineitem at scale factor 1, of which MariaDB expects twice; a step is two million rows.
    expected = [
        1_568_804,
        1_607_233,
        1_517_620,
        1_561_230,
        1_633_050,
        1_560_000,
        1_540_000,
        1_570_000,
    ]
    merged = merge_pieces(pieces_of(expected), 5_928_300, 2_000_000)
    assert [(start, end) for start, end, _ in merged] == [(0, 2), (2, 4), (4, 6), (6, 8)]


def test_left_alone_where_the_server_counted() -> None:
    pieces = pieces_of([1_500_000] * 4)
    assert merge_pieces(pieces, 6_000_000, 2_000_000) == pieces


def test_an_old_number_of_rows_is_believed_by_half() -> None:
    # Statistics of when the table had ten rows.
    merged = merge_pieces(pieces_of([900] * 8), 10, 1_000)
    assert [rows for _, _, rows in merged] == [1_800] * 4


@given(
    st.lists(st.integers(0, 5_000), min_size=1, max_size=40),
    st.integers(0, 100_000),
    st.integers(1, 2_000),
)
def test_every_piece_once_and_none_past_twice_a_step(
    expected: list[int], rows: int, step: int
) -> None:
    pieces = pieces_of(expected)
    merged = merge_pieces(pieces, rows, step)
    assert merged[0][0] == 0
    assert merged[-1][1] == len(pieces)
    assert all(before[1] == after[0] for before, after in pairwise(merged))
    for start, end, told in merged:
        assert told == sum(expected[start:end])
        # One alone may be larger: a value that can't be cut further here.
        assert told <= 2 * step or end == start + 1
