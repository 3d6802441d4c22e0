"""Originals of a batch, gathered by row."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.load.convert import _originals

PAIR = pa.struct([pa.field("column", pa.large_string()), pa.field("text", pa.large_string())])
KIND = pa.large_list(PAIR)
ROWS = 7
TEXTS = st.lists(st.none() | st.text(max_size=3), min_size=ROWS, max_size=ROWS)


@given(st.dictionaries(st.sampled_from(["a", "b", "B", "é"]), TEXTS))
def test_each_row_has_its_own_sorted_by_column(cells: dict[str, list[str | None]]) -> None:
    texts = {
        name: pa.array(found, pa.large_string() if name > "a" else pa.string())
        for name, found in cells.items()
    }
    wanted = [
        [
            {"column": name, "text": text}
            for name in sorted(cells)
            if (text := cells[name][row]) is not None
        ]
        for row in range(ROWS)
    ]
    assert _originals(texts, ROWS, KIND).to_pylist() == [pairs or None for pairs in wanted]
