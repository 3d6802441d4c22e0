"""Repeated and common values, against what Python's own sets say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.runtime import repeats
from mirrorlake.runtime.repeats import common_values, count_repeats, hash_rows


def reader(rows: pa.Table, size: int = 3) -> Callable[[], Iterator[pa.RecordBatch]]:
    return lambda: iter(rows.to_batches(max_chunksize=size))


ints = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([2**63 - 1, -(2**63)]))
texts = st.one_of(st.none(), st.sampled_from(["", "a", "A", "a ", "ä", "1"]))


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(st.tuples(ints, texts), max_size=20))
def test_repeats_are_what_a_set_says(rows: list[tuple[Any, Any]]) -> None:
    table = pa.table(
        {
            "i": pa.array([i for i, _ in rows], pa.int64()),
            "t": pa.array([t for _, t in rows], pa.string()),
        }
    )
    assert count_repeats(reader(table)) == len(rows) - len(set(rows))
    assert count_repeats(reader(table.select(["i"]))) == len(rows) - len({i for i, _ in rows})


@settings(max_examples=60, deadline=None)
@given(left=st.lists(texts), right=st.lists(texts))
def test_common_values_are_what_sets_say(left: list[Any], right: list[Any]) -> None:
    found = common_values(
        reader(pa.table({"x": pa.array(left, pa.string())})),
        reader(pa.table({"x": pa.array(right, pa.large_string())})),
    )
    assert found == (set(left) & set(right)) - {None}


def test_rows_of_one_hash_are_told_apart() -> None:
    """Python hashes -1 and -2 alike: only the rows themselves can tell."""
    rows = pa.table({"a": [Decimal(-1), Decimal(-2)], "b": ["x", "x"]})
    assert len(np.unique(hash_rows(rows.to_batches()[0]))) == 1
    assert count_repeats(reader(rows)) == 0


def test_very_many_repeats_are_counted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "SUSPECTS", 5)
    rows = pa.table({"a": [*range(100), *range(100)]})
    assert count_repeats(reader(rows)) == 100


def test_nothing_repeats_in_nothing() -> None:
    assert count_repeats(reader(pa.table({"a": pa.array([], pa.int64())}))) == 0
