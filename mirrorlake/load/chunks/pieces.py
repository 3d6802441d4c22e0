"""Pieces of a range that an index was queried for: neighbours merged by its estimates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Piece: TypeAlias = tuple[int, int, int]
"""Start, end (excluded), and how many rows the server expects between."""


def merge_pieces(pieces: Sequence[Piece], rows: int, step: int) -> list[Piece]:
    """Merge neighbours where the index claims more rows than the table has.

    InnoDB doubles what it expects of a range that it did not count page by page (both servers:
    twice the rows of each range of a table of 6 million): pieces come out half as large as they may
    be, and each piece costs a session, a process and the first row's wait. It is believed to have
    doubled, and no more than that: a table's own number of rows may be old.
    """
    said = sum(expected for _, _, expected in pieces)
    share = max(rows / said, 0.5) if said > rows else 1.0
    merged: list[Piece] = []
    for start, end, expected in pieces:
        if merged and (merged[-1][2] + expected) * share <= step:
            before = merged.pop()
            start, expected = before[0], before[2] + expected
        merged.append((start, end, expected))
    return merged
