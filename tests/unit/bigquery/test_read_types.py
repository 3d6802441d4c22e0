"""Which type of Spark's holds every value of a column of BigQuery."""

from __future__ import annotations

import pytest

from mirrorlake.bigquery.api.read_types import is_required, may_fit, type_read
from mirrorlake.runtime.google.tables import ColumnJson, written


def column(kind: str, mode: str = "NULLABLE", **more: str) -> ColumnJson:
    return ColumnJson(name="c", type=kind, mode=mode, **more)  # type: ignore[typeddict-item]


EXACT = [
    (column("INTEGER"), "bigint"),
    (column("FLOAT"), "double"),
    (column("BOOLEAN"), "boolean"),
    (column("BYTES"), "binary"),
    (column("DATETIME"), "timestamp_ntz"),
    (column("TIMESTAMP"), "timestamp"),
    (column("NUMERIC"), "decimal(38,9)"),
    (column("NUMERIC", precision="12"), "decimal(12,0)"),
    (column("BIGNUMERIC", precision="38", scale="30"), "decimal(38,30)"),
    (column("DATE", "REPEATED"), "array<date>"),
]


@pytest.mark.parametrize(("one", "kind"), EXACT)
def test_types_that_are_exact(one: ColumnJson, kind: str) -> None:
    assert type_read(one) == kind


NONE = [
    column("TIME"),
    column("JSON"),
    column("GEOGRAPHY"),
    column("INTERVAL"),
    column("RANGE"),
    column("BIGNUMERIC"),
    column("BIGNUMERIC", precision="39", scale="0"),
    column("TIMESTAMP", timestampPrecision="12"),
]


@pytest.mark.parametrize("one", NONE)
def test_types_that_are_none_of_sparks(one: ColumnJson) -> None:
    assert type_read(one) is None
    inside = ColumnJson(name="r", type="RECORD", fields=[column("INTEGER"), one])
    assert type_read(inside) is None


def test_a_record_has_the_names_of_its_columns() -> None:
    inner = [ColumnJson(name="A", type="STRING"), ColumnJson(name="b", type="NUMERIC")]
    record = ColumnJson(name="r", type="RECORD", mode="REPEATED", fields=inner)
    assert type_read(record) == "array<struct<A:string,b:decimal(38,9)>>"
    assert (is_required(record), is_required(inner[0])) == (True, False)


def test_values_of_a_bignumeric_are_looked_at() -> None:
    assert may_fit(column("BIGNUMERIC"), "decimal(20,3)")
    assert may_fit(column("BIGNUMERIC", precision="60", scale="10"), "decimal(38,10)")
    assert not may_fit(column("BIGNUMERIC"), "string")
    assert not may_fit(column("BIGNUMERIC", precision="10", scale="2"), "decimal(12,2)")
    assert not may_fit(column("BIGNUMERIC", "REPEATED"), "decimal(38,9)")
    assert not may_fit(column("NUMERIC"), "decimal(12,2)")


def test_a_type_as_bigquery_writes_it() -> None:
    assert written(column("NUMERIC", precision="12", scale="2")) == "NUMERIC(12, 2)"
    assert written(column("TIME", "REPEATED")) == "ARRAY<TIME>"
