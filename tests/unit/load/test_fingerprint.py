"""Fingerprints depend on every cell of a row, in both lanes, and on nothing else."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.load.row_hashes.fingerprint import fingerprints, key_fingerprints

ENTRY = pa.struct([pa.field("column", pa.string()), pa.field("text", pa.string())])
NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8000000000001))[0]

CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "j": (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    "f": (pa.float64(), st.floats(allow_nan=False)),
    "g": (pa.float32(), st.floats(width=32, allow_nan=False)),
    "y": (pa.bool_(), st.booleans()),
    "n": (pa.decimal128(38, 2), st.decimals(-(10**30), 10**30, places=2)),
    "m": (pa.decimal128(18, 2), st.decimals(-(10**12), 10**12, places=2)),
    "s": (pa.string(), st.text(max_size=80) | st.text("\0a ", max_size=20)),
    "l": (pa.large_string(), st.text(max_size=80)),
    "b": (pa.binary(), st.binary(max_size=80) | st.sampled_from([b"", b"\0", b"\0\0", b"a\0"])),
    "t": (pa.timestamp("us"), st.integers(-(2**50), 2**50)),
    "o": (
        pa.large_list(ENTRY),
        st.lists(st.fixed_dictionaries({"column": st.just("t"), "text": st.text(max_size=9)})),
    ),
}
NAMES = list(CELLS)
KEY = ["i", "s"]
one_row = st.tuples(*(st.none() | cells for _, cells in CELLS.values()))


def table(rows: Sequence[Sequence[Any]]) -> pa.Table:
    columns = [pa.array([row[n] for row in rows], CELLS[name][0]) for n, name in enumerate(NAMES)]
    return pa.Table.from_arrays(columns, names=NAMES)


def prints(rows: Sequence[Sequence[Any]]) -> Any:
    return fingerprints(table(rows), NAMES, KEY)


@settings(deadline=None, max_examples=300)
@given(st.data(), one_row, st.sampled_from(NAMES))
def test_a_change_of_one_cell_changes_both_lanes(data: Any, row: Any, name: str) -> None:
    place = NAMES.index(name)
    other = list(row)
    other[place] = data.draw(st.none() | CELLS[name][1])
    # -0.0 and 0.0 are equal, and two values.
    same = repr(table([row])[name].to_pylist()) == repr(table([other])[name].to_pylist())
    found = prints([row, other])
    assert (found[0, 2:] == found[1, 2:]).tolist() == [same, same]
    assert (found[0, :2] == found[1, :2]).tolist() == [same or name not in KEY] * 2


@settings(deadline=None)
@given(st.lists(one_row, min_size=1, max_size=12), st.integers(0, 12))
def test_neither_what_stands_beside_a_row_nor_batches_count(rows: Any, cut: int) -> None:
    whole = table(rows)
    expected = np.concatenate([prints([row]) for row in rows])
    assert (fingerprints(whole, NAMES, KEY) == expected).all()
    parts = [part for part in (whole.slice(0, cut), whole.slice(cut)) if part.num_rows]
    found = np.concatenate([fingerprints(part, NAMES, KEY) for part in parts])
    assert (found == expected).all()
    assert (key_fingerprints(whole, NAMES, KEY) == expected[:, :2]).all()
    assert (key_fingerprints(whole.select(["s", "i"]), NAMES, KEY) == expected[:, :2]).all()


# Two cells that change at once, in ways that simple sums and chains don't see.
PAIRS: dict[str, tuple[list[Any], list[Any], pa.DataType]] = {
    "swapped": ([1, 2], [2, 1], pa.int64()),
    "a sum that stays": ([10, 20], [11, 19], pa.int64()),
    "an exclusive or that stays": ([5, 6], [5 ^ 8, 6 ^ 8], pa.int64()),
    "both signs": ([1.0, 2.0], [-1.0, -2.0], pa.float64()),
    "zeros' signs": ([0.0, -0.0], [-0.0, 0.0], pa.float64()),
    "NULL moves": ([None, 0], [0, None], pa.int64()),
    "text moves": (["ab", "c"], ["a", "bc"], pa.string()),
    "NUL moves": (["a\0", "b"], ["a", "\0b"], pa.string()),
    "empty and NULL": (["", None], [None, ""], pa.string()),
    "long texts": (["x" * 65, "y" * 70], ["y" * 70, "x" * 65], pa.string()),
    "words within a text": (["12345678abcdefgh", ""], ["abcdefgh12345678", ""], pa.string()),
    "two NaNs": ([float("nan"), 1.0], [NAN, 1.0], pa.float64()),
    "upper halves": ([Decimal(2**64), Decimal(0)], [Decimal(0), Decimal(2**64)], pa.decimal128(38)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_cells_that_change_together(name: str) -> None:
    before, after, kind = PAIRS[name]
    rows = pa.Table.from_arrays(
        [pa.array([b, a], kind) for b, a in zip(before, after, strict=True)], names=["p", "q"]
    )
    found = fingerprints(rows, ["p", "q"], ["p"])
    assert (found[0, 2:] != found[1, 2:]).all()


def test_what_lies_under_a_null_does_not_count() -> None:
    values = np.array([7, 7], dtype=np.int64)
    under = pa.array(values, mask=np.array([True, False]))
    rows = pa.table({"c": under, "k": pa.array([1, 1])})
    plain = pa.table({"c": pa.array([None, 7], pa.int64()), "k": pa.array([1, 1])})
    assert (fingerprints(rows, ["c", "k"], ["k"]) == fingerprints(plain, ["c", "k"], ["k"])).all()


def test_nulls_of_many_columns_are_told_apart() -> None:
    names = [f"c{n}" for n in range(130)]
    columns = [pa.array([None if n == row else 0 for row in range(130)]) for n in range(130)]
    found = fingerprints(pa.Table.from_arrays(columns, names=names), names, ["c0"])
    for lane in (2, 3):
        assert len(set(found[:, lane].tolist())) == 130


def test_fingerprints_are_spread_over_all_bits() -> None:
    rows = pa.table({"a": pa.array(range(100_000)), "b": pa.array([0] * 100_000)})
    found = fingerprints(rows, ["a", "b"], ["a"])
    for lane in range(4):
        assert len(np.unique(found[:, lane])) == 100_000
        for bit in range(64):
            share = ((found[:, lane] >> np.uint64(bit)) & np.uint64(1)).mean()
            assert 0.48 < share < 0.52
