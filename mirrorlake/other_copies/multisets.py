"""Rows without a key: how often each is on either side."""

from __future__ import annotations

from typing import Any

from mirrorlake.other_copies.paired_columns import PairedColumns
from mirrorlake.other_copies.verdict import CopyDifference


def compare_multisets(database: Any, paired: PairedColumns) -> tuple[list[CopyDifference], int]:
    """The rows that one side has more often than the other, and how many are on both.

    Where rows differ, the columns are compared by themselves: one whose values are the same on both
    sides, each as often, has no part in it.
    """
    cells = [_cells(paired, number) for number in range(len(paired.columns))]
    missing, extra, same = _differ(database, [one for one, _ in cells], [two for _, two in cells])
    found: list[CopyDifference] = []
    if missing or extra:
        wrong = [
            paired.columns[number].name
            for number, (ours, theirs) in enumerate(cells)
            if _differ(database, [ours], [theirs])[:2] != (0, 0)
        ]
        detail = f"in {', '.join(wrong)}" if wrong else "in how values of several columns go along"
        found += [CopyDifference("missing", None, missing, detail)] if missing else []
        found += [CopyDifference("extra", None, extra, detail)] if extra else []
    return found, same


def _cells(paired: PairedColumns, number: int) -> tuple[str, str]:
    """SQL of a text that equal values have on both sides, and no others."""
    pairing = paired.columns[number].pairing
    o, x, t = f"o.c{number}", f"o.x{number}", f"t.c{number}"
    theirs_x = f"t.x{number}" if paired.copy_has_originals else "CAST(NULL AS VARCHAR)"
    text = f"CAST({t} AS VARCHAR)"
    ours = (
        f"CASE WHEN {x} IS NOT NULL THEN 'o' || {x} WHEN {o} IS NULL THEN 'n' "
        f"ELSE 'v' || CAST({pairing.ours} AS VARCHAR) END"
    )
    theirs = (
        f"CASE WHEN {theirs_x} IS NOT NULL THEN 'o' || {theirs_x} WHEN {t} IS NULL THEN 'n' "
        f"WHEN TRY({pairing.theirs}) IS NOT NULL THEN 'v' || CAST({pairing.theirs} AS VARCHAR) "
        f"ELSE 'o' || {text} END"
    )
    return ours, theirs


def _differ(database: Any, ours: list[str], theirs: list[str]) -> tuple[int, int, int]:
    """Rows that MySQL has more often, that the copy has more often, and those that both have."""
    sides = [
        f"SELECT {_digest(cells)} AS h, {count} AS n FROM {name} {letter} WHERE {letter}.w"  # noqa: S608
        for cells, count, name, letter in ((ours, 1, "ours", "o"), (theirs, -1, "theirs", "t"))
    ]
    grouped = (
        f"SELECT h, sum(n) AS over, count(*) FILTER (n = 1) AS mine FROM ({sides[0]} UNION ALL "  # noqa: S608
        f"{sides[1]}) GROUP BY h"
    )
    [found] = database.execute(
        f"SELECT coalesce(sum(greatest(over, 0)), 0), coalesce(sum(greatest(-over, 0)), 0), "  # noqa: S608
        f"coalesce(sum(mine - greatest(over, 0)), 0) FROM ({grouped})"
    ).fetchall()
    return int(found[0]), int(found[1]), int(found[2])


def _digest(cells: list[str]) -> str:
    """SQL of one digest of a row; each text bears its length, so that no two rows have one text."""
    parts = ", ".join(f"strlen({cell}), ':', {cell}" for cell in cells)
    return f"sha256(concat({parts}))"
