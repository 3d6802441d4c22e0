"""The type of each column of the lake in BigQuery, or its refusal."""

from __future__ import annotations

import pyarrow as pa
import pytest

from mirrorlake.bigquery.api.types import FieldJson, canonical, fields_of, type_of
from mirrorlake.errors import TypeRefused


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.int32(), "INTEGER"),
        (pa.int64(), "INTEGER"),
        (pa.float32(), "FLOAT"),
        (pa.float64(), "FLOAT"),
        (pa.string(), "STRING"),
        (pa.binary(), "BYTES"),
        (pa.date32(), "DATE"),
        (pa.timestamp("us"), "DATETIME"),
        (pa.timestamp("us", "UTC"), "TIMESTAMP"),
        (pa.bool_(), "BOOLEAN"),
        (pa.decimal128(38, 9), "NUMERIC"),
        (pa.decimal128(29, 0), "NUMERIC"),
        (pa.decimal128(30, 0), "BIGNUMERIC"),  # a digit more than NUMERIC has before its point
        (pa.decimal128(38, 10), "BIGNUMERIC"),
        (pa.decimal128(38, 38), "BIGNUMERIC"),
        (pa.decimal128(38, 0), "BIGNUMERIC"),
        (pa.decimal256(39, 0), None),
        (pa.uint64(), None),
        (pa.timestamp("ns"), None),
        (pa.time64("us"), None),
        (pa.list_(pa.int32()), None),
    ],
)
def test_a_type_is_exact_or_there_is_none(kind: pa.DataType, expected: str | None) -> None:
    assert type_of(kind) == expected


def test_a_column_without_a_type_is_refused_by_name() -> None:
    schema = pa.schema([("id", pa.int32()), ("spans", pa.list_(pa.int32()))])
    with pytest.raises(TypeRefused, match="column 'spans' has type list<") as found:
        fields_of("s.d.t", schema)
    assert found.value.column == "spans"


@pytest.mark.parametrize(
    "name", ["a b", "größe", "1st", "", "_PARTITIONTIME", "_file_x", "_CHANGE_TYPE", "a" * 301]
)
def test_a_name_that_it_cannot_have_is_refused(name: str) -> None:
    with pytest.raises(TypeRefused, match="by this name"):
        fields_of("s.d.t", pa.schema([(name, pa.int32())]))


def test_original_texts_are_a_repeated_record() -> None:
    entry = pa.struct([("column", pa.string()), ("text", pa.string())])
    [field] = fields_of("s.d.t", pa.schema([("_mirror_original", pa.list_(entry))]))
    assert (field["type"], field["mode"]) == ("RECORD", "REPEATED")
    assert [one["name"] for one in field.get("fields", [])] == ["column", "text"]


def test_other_names_of_a_type_are_the_same() -> None:
    written = FieldJson(name="a", type="INT64", mode="REQUIRED")
    assert canonical([written]) == [FieldJson(name="a", type="INTEGER", mode="NULLABLE")]
