"""The type that a column of the lake has in BigQuery: exact, or the column is refused by name.

Source: BigQuery, "Data types" (GoogleSQL), "Loading Parquet data from Cloud Storage: Parquet
conversions".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NotRequired, TypedDict

import pyarrow as pa

from mirrorlake.errors import TypeRefused
from mirrorlake.schema.reserved_names import column_in_bigquery

NUMERIC_WHOLE, NUMERIC_SCALE = 29, 9
"""The digits that a NUMERIC has before and after its point."""


class FieldJson(TypedDict):
    """A column as BigQuery's API writes it."""

    name: str
    type: str
    mode: str
    fields: NotRequired[list[FieldJson]]


def fields_of(table: str, schema: pa.Schema) -> list[FieldJson]:
    """The columns of a table in BigQuery, in the lake's order.

    Raises:
        TypeRefused: BigQuery can't have a column's type or name; the first one.
    """
    return [_field(table, field) for field in schema]


def canonical(fields: Iterable[FieldJson]) -> list[FieldJson]:
    """Columns as `fields_of` gives them, of what the API says of a table."""
    found: list[FieldJson] = []
    for field in fields:
        mode = "REPEATED" if field.get("mode") == "REPEATED" else "NULLABLE"
        kind = _STANDARD.get(field["type"], field["type"])
        one = FieldJson(name=field["name"], type=kind, mode=mode)
        if field.get("fields"):
            one["fields"] = canonical(field.get("fields", []))
        found.append(one)
    return found


_STANDARD: Final = {"INT64": "INTEGER", "FLOAT64": "FLOAT", "BOOL": "BOOLEAN", "STRUCT": "RECORD"}


def _field(table: str, field: pa.Field) -> FieldJson:
    name = field.name
    if not column_in_bigquery(name):
        raise TypeRefused(
            f"table {table}: column {name!r} can't be in BigQuery by this name: letters, digits and"
            " _ alone, and none of the beginnings that it keeps for itself",
            table=table,
            column=name,
            next_step="Give it another name (`name_in_lake` in a contract, AS in a model), or "
            "publish this table in the lake alone (publish: [lake])",
        )
    if _is_entries(field.type):
        text = FieldJson(name="text", type="STRING", mode="NULLABLE")
        column = FieldJson(name="column", type="STRING", mode="NULLABLE")
        return FieldJson(name=name, type="RECORD", mode="REPEATED", fields=[column, text])
    kind = type_of(field.type)
    if kind is None:
        raise TypeRefused(
            f"table {table}: column {name!r} has type {field.type} in the lake, for which BigQuery"
            " has no exact type",
            table=table,
            column=name,
            next_step="Publish this table in the lake alone (publish: [lake])",
        )
    return FieldJson(name=name, type=kind, mode="NULLABLE")


def type_of(kind: pa.DataType) -> str | None:
    """BigQuery's name of the type that holds every value of one of Arrow's; None: there is none.

    >>> type_of(pa.decimal128(20, 0)), type_of(pa.decimal128(38, 10))
    ('NUMERIC', 'BIGNUMERIC')
    """
    if pa.types.is_decimal(kind):
        whole = kind.precision - kind.scale
        if kind.scale <= NUMERIC_SCALE and whole <= NUMERIC_WHOLE:
            return "NUMERIC"
        # BIGNUMERIC has 38 digits after its point, and before it every whole number of 38.
        return "BIGNUMERIC" if kind.precision <= 38 and 0 <= kind.scale <= 38 else None
    if pa.types.is_timestamp(kind):
        if kind.unit != "us":
            return None
        return "DATETIME" if kind.tz is None else "TIMESTAMP"
    return next((name for fits, name in _TYPES if fits(kind)), None)


_TYPES: Sequence[tuple[Callable[[pa.DataType], bool], str]] = (
    (pa.types.is_boolean, "BOOLEAN"),
    (pa.types.is_signed_integer, "INTEGER"),
    (pa.types.is_float32, "FLOAT"),
    (pa.types.is_float64, "FLOAT"),
    (pa.types.is_string, "STRING"),
    (pa.types.is_large_string, "STRING"),
    (pa.types.is_binary, "BYTES"),
    (pa.types.is_large_binary, "BYTES"),
    (pa.types.is_date32, "DATE"),
)


def _is_entries(kind: pa.DataType) -> bool:
    """Whether a column holds original texts: a list of column and text."""
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        return False
    inner = kind.value_type
    return pa.types.is_struct(inner) and [one.name for one in inner] == ["column", "text"]
