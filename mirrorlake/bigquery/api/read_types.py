"""The type of Spark that holds every value of a BigQuery column, or none.

Source: BigQuery, "Data types" (GoogleSQL), "REST reference: tables, TableFieldSchema".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mirrorlake.bigquery.api.types import NUMERIC_SCALE, NUMERIC_WHOLE
from mirrorlake.runtime.google.tables import DECIMALS, ColumnJson, is_array

MOST_DIGITS = 38
"""Of a decimal of Spark's."""


def type_read(column: ColumnJson) -> str | None:
    """The type of Spark that is exactly a column's; None: there is none.

    >>> type_read({"name": "n", "type": "NUMERIC"})
    'decimal(38,9)'
    >>> type_read({"name": "n", "type": "STRING", "mode": "REPEATED"})
    'array<string>'
    """
    inner = _of_one(column)
    if inner is not None and is_array(column):
        return f"array<{inner}>"
    return inner


def may_fit(column: ColumnJson, declared: str) -> bool:
    """Whether values of a column may be read as decimals, each of which is looked at: a BIGNUMERIC
    has more digits than any decimal of Spark's, and few use them."""
    return (
        column["type"] in ("BIGNUMERIC", "BIGDECIMAL")
        and not is_array(column)
        and declared.startswith("decimal(")
        and type_read(column) is None
    )


def is_required(column: ColumnJson) -> bool:
    """Whether a column is never NULL; an array is empty instead."""
    return column.get("mode") == "REQUIRED" or is_array(column)


def _of_one(column: ColumnJson) -> str | None:
    kind = column["type"]
    if kind in ("RECORD", "STRUCT"):
        return _struct(column.get("fields", []))
    if kind in DECIMALS:
        return _decimal(column)
    if kind == "TIMESTAMP" and column.get("timestampPrecision", "6") != "6":
        return None
    return _PLAIN.get(kind)


def _decimal(column: ColumnJson) -> str | None:
    if "precision" in column:
        precision, scale = int(column["precision"]), int(column.get("scale", "0"))
    elif column["type"] in ("NUMERIC", "DECIMAL"):
        precision, scale = NUMERIC_WHOLE + NUMERIC_SCALE, NUMERIC_SCALE
    else:
        return None
    return f"decimal({precision},{scale})" if precision <= MOST_DIGITS else None


def _struct(columns: Iterable[ColumnJson]) -> str | None:
    inner = [(one["name"], type_read(one)) for one in columns]
    if any(kind is None for _, kind in inner):
        return None
    return "struct<" + ",".join(f"{name}:{kind}" for name, kind in inner) + ">"


_PLAIN: Final = {
    "INTEGER": "bigint",
    "INT64": "bigint",
    "FLOAT": "double",
    "FLOAT64": "double",
    "BOOLEAN": "boolean",
    "BOOL": "boolean",
    "STRING": "string",
    "BYTES": "binary",
    "DATE": "date",
    "DATETIME": "timestamp_ntz",
    "TIMESTAMP": "timestamp",
}
