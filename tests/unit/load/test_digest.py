"""The receipt's digest depends on every value and on nothing else."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.load.row_hashes.digest import digest_of

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int32(), [None, 0, 1, -1, 2**31 - 1]),
    "long": (pa.int64(), [None, 0, 1, -1, 2**63 - 1, -(2**63)]),
    "double": (pa.float64(), [None, 0.0, -0.0, 1.5]),
    "float": (pa.float32(), [None, 0.0, -0.0, 1.5]),
    "boolean": (pa.bool_(), [None, True, False]),
    "small decimal": (pa.decimal128(18, 2), [None, Decimal("0.00"), Decimal("-0.01"), Decimal(1)]),
    "decimal": (
        pa.decimal128(38, 0),
        [None, Decimal(0), Decimal(-1), Decimal(2**64), Decimal(2**65)],
    ),
    "string": (pa.string(), [None, "", "a", "a ", "\0", "a\0", "b" * 64, "b" * 65, "ü" * 200]),
    "list": (pa.list_(pa.string()), [None, [], [None], ["a"], ["a", "b"]]),
    "large list": (pa.large_list(pa.string()), [None, [], [None], ["a"], ["a", "b"]]),
    "binary": (pa.binary(), [None, b"", b"\0", b"\0\0", b"\xff" * 9, b"x" * 100]),
}


@pytest.mark.parametrize("name", TYPES)
def test_different_values_have_different_digests(name: str) -> None:
    kind, values = TYPES[name]
    digests = [digest_of(pa.table({"c": pa.array([v], kind)})) for v in values]
    assert len(set(digests)) == len(values)


@pytest.mark.parametrize("name", TYPES)
def test_columns_are_told_apart(name: str) -> None:
    kind, values = TYPES[name]
    a, b = pa.array([values[1]], kind), pa.array([values[-1]], kind)
    assert digest_of(pa.table({"c": a, "d": b})) != digest_of(pa.table({"c": b, "d": a}))


rows = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**31), 2**31 - 1),
        st.none() | st.text(max_size=90),
        st.none() | st.binary(max_size=90),
    ),
    max_size=20,
)


@settings(deadline=None)
@given(rows, st.randoms(), st.integers(0, 20))
def test_neither_order_nor_batches_count(found: list[Any], random: Any, cut: int) -> None:
    kinds = (pa.int64(), pa.string(), pa.binary())

    def table(part: list[Any]) -> pa.Table:
        columns = [[row[i] for row in part] for i in range(3)]
        return pa.table({f"c{i}": pa.array(columns[i], kinds[i]) for i in range(3)})

    whole = digest_of(table(found))
    sliced = table(found)
    parts = digest_of(sliced.slice(0, cut)) + digest_of(sliced.slice(cut))
    assert parts % 2**64 == whole
    random.shuffle(found)
    assert digest_of(table(found)) == whole
