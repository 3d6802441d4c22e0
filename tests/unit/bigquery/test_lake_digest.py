"""The digest of a lake's rows: by its definition, and by no order; what is withheld is not in it."""

from __future__ import annotations

import hashlib
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

from mirrorlake.bigquery.lake_digest import digest_rows
from mirrorlake.bigquery.loads.table_form import without

ENTRY = pa.struct([("column", pa.string()), ("text", pa.string())])
ROW = {
    "whole": pa.array([-7], pa.int64()),
    "number": pa.array([Decimal("-10.500")], pa.decimal128(10, 3)),
    "round": pa.array([Decimal("100")], pa.decimal128(20, 0)),
    "real": pa.array([0.1], pa.float64()),
    "text": pa.array(["ü:"]),
    "raw": pa.array([b"\x00\xff"]),
    "day": pa.array([date(1969, 12, 31)]),
    "at": pa.array([datetime(1970, 1, 1, 0, 0, 1, 5)], pa.timestamp("us")),
    "stamp": pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "none": pa.nulls(1, pa.string()),
    "kept": pa.array([[{"column": "a", "text": "0000-00-00"}]], pa.list_(ENTRY)),
    "empty": pa.array([[]], pa.list_(ENTRY)),
}
TEXT = (
    "2:-7" "5:-10.5" "3:100" "19:0.10000000000000001" "3:ü:" "4:00ff" "2:-1" "7:1000005"
    "16:1577836800000000" "-" "16:1:a10:0000-00-00" "-"
)  # fmt: skip


def test_the_digest_is_the_one_of_its_definition() -> None:
    digest = hashlib.md5(TEXT.encode(), usedforsecurity=False).hexdigest()
    parts = tuple(int(digest[at : at + 8], 16) for at in range(0, 32, 8))
    assert digest_rows([pa.RecordBatch.from_pydict(ROW)]) == (1, *parts)


def test_order_and_batches_are_no_part_of_it() -> None:
    rows = pa.RecordBatch.from_pydict({"a": ["x", "y", None], "b": ["", "-", "y"]})
    turned = rows.take(pa.array([2, 0, 1]))
    assert digest_rows([rows]) == digest_rows([turned.slice(0, 1), turned.slice(1)])


def test_cells_are_never_taken_for_one_another() -> None:
    rows = [
        {"a": "1:x", "b": ""},
        {"a": "", "b": "1:x"},
        {"a": None, "b": "-"},
        {"a": "-", "b": None},
    ]
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    found = {digest_rows([pa.RecordBatch.from_pylist([row], schema)]) for row in rows}
    assert len(found) == len(rows)


def test_original_texts_of_withheld_columns_are_left_out() -> None:
    entries = pa.array(
        [[{"column": "a", "text": "1"}, {"column": "b", "text": "2"}], None], pa.list_(ENTRY)
    )
    assert without(entries, ("a",)).to_pylist() == [[{"column": "b", "text": "2"}], None]
