"""Rows as the server gave them, made exact: nothing is lost, and originals are gathered by row."""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.load.chunks.convert import exact_rows
from mirrorlake.load.chunks.statements import ChunkPlan, Equality
from mirrorlake.schema.originals import gather_originals
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.reading.reader import WITNESS

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
    assert gather_originals(texts, ROWS, KIND).to_pylist() == [pairs or None for pairs in wanted]


COLUMNS = (
    Exact("id", "int", "`id`"),
    Exact("text", "string", "CONVERT(`text` USING utf8mb4)"),
    Exact("day", "date", "NULLIF(`day`, 0)", original="IF(`day` = 0, '0', NULL)"),
)
EQUAL = (
    Equality("_mirror_key", ("a", "b"), "UNHEX(…)"),
    Equality("_mirror_token", ("token",), "UNHEX(…)"),
)
OWN = [("_mirror_key", pa.binary()), ("_mirror_token", pa.binary()), ("_mirror_original", KIND)]


def rows_with(**changed: Any) -> pa.Table:
    """One row of a chunk, of which the server says that all of text and day have values."""
    there: dict[str, Any] = {"c0": 1, "c1": "x", "c2": date(2024, 1, 1), "k0": b"k", "k1": b"t"}
    cells = there | {"o2": None, WITNESS: 2} | changed
    kinds = {"c2": pa.date32(), "o2": pa.string(), "k0": pa.binary(), "k1": pa.binary()}
    arrays = {n: pa.array([v], kinds.get(n)) for n, v in cells.items()}
    return pa.table(arrays | {"c1": pa.array([cells["c1"]], pa.string())})


def chunk() -> ChunkPlan:
    fields = [("id", pa.int32()), ("text", pa.string()), ("day", pa.date32()), *OWN]
    source = SourceConfig(name="s", host="h", user="u")
    return ChunkPlan(
        source, "shop", "t", COLUMNS, pa.schema(fields), "", {}, "l", 1, 1, 0, "",
        date(2024, 1, 1), None, None, "", equality_columns=EQUAL,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("lost", "words"),
    [
        ({"c1": None}, "a value of 'text' came as NULL"),
        ({"c2": None}, "a value of 'day' came as NULL"),
        ({"k0": None}, "_mirror_key, which is computed of 'a', 'b', came as NULL"),
        ({"k1": None}, "_mirror_token, which is computed of 'token', came as NULL"),
        ({WITNESS: 1}, "a value of 'text', 'day' came as NULL"),
    ],
)
def test_a_null_that_is_none_in_mysql_is_never_a_row(lost: dict[str, Any], words: str) -> None:
    with pytest.raises(SourceError, match=f"reading shop.t .*{words}.* Raise max_allowed_packet"):
        exact_rows(chunk(), rows_with(**lost), "position")


def test_a_null_that_mysql_has_is_kept() -> None:
    null = exact_rows(chunk(), rows_with(c1=None, **{WITNESS: 1}), "position")
    assert null["text"].to_pylist() == [None]
    zero = exact_rows(chunk(), rows_with(c2=None, o2="0000-00-00"), "position")
    assert zero["_mirror_original"].to_pylist() == [[{"column": "day", "text": "0000-00-00"}]]
