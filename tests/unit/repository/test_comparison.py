"""The seconds and MB of the comparison with other tools are those of the committed benchmarks."""

from __future__ import annotations

import json

import pytest

from benchmarks.report import RESULTS, ROOT

PAGE = (ROOT / "docs" / "comparison.md").read_text("utf-8")
OURS = "mirrorlake sync"


def figure(part: str, section: int, column: str, *row: str) -> float:
    """A cell of a table of a part's results; its row by how the first cells begin."""
    result = json.loads((RESULTS / f"{part}.json").read_text("utf-8"))
    table = result["figures"][section]
    [found] = [
        cells
        for cells in table["rows"]
        if all(cell.startswith(wanted) for cell, wanted in zip(cells, row, strict=False))
    ]
    return float(found[table["columns"].index(column)].replace(",", ""))


def seconds(part: str, section: int, *row: str) -> str:
    return f"{figure(part, section, 'median s', *row):.1f} s"


def memory(section: int, side: str) -> str:
    return f"{figure('first', section, 'peak MB', side):,.0f} MB"


SENTENCES = {
    "dlt, a large table": (
        f"copies a table of 6 M rows in {seconds('first', 0, 'dlt')}, where Mirrorlake takes "
        f"{seconds('first', 0, OURS)} to copy *and* prove it, with {memory(0, 'dlt')} and "
        f"{memory(0, OURS)} of memory"
    ),
    "rivet, a large table": (
        f"exports 6 M rows with its row hashes in {seconds('first', 1, 'rivet')}, "
        f"{memory(1, 'rivet')}; Mirrorlake copies, proves and folds them in "
        f"{seconds('first', 1, OURS)}, {memory(1, OURS)}"
    ),
    "dlt, many tables": (
        f"100 small tables: {seconds('many', 0, 'first', 'dlt')} each time; Mirrorlake takes "
        f"{seconds('many', 0, 'first', OURS)} at first, "
        f"{seconds('many', 0, '2 full', OURS)} when two changed, "
        f"{seconds('many', 0, 'nothing', OURS)} when nothing did"
    ),
    "Spark, a large table": (
        f"the same 6 M rows into Iceberg: {seconds('extract', 0, 'Spark JDBC')}; Mirrorlake's load "
        f"alone, without fold and check: {seconds('extract', 0, 'mirrorlake')}"
    ),
}


@pytest.mark.parametrize("what", SENTENCES)
def test_the_page_says_what_was_measured(what: str) -> None:
    assert SENTENCES[what] in PAGE
