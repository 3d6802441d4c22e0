"""Types of Spark as Arrow has them."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from mirrorlake.models.spark_sql import types


def arrow_type(kind: str) -> pa.DataType:
    """Spark's type as Arrow has it.

    >>> arrow_type("map<string,array<decimal(5,2)>>")
    MapType(map<string, list<item: decimal128(5, 2)>>)
    """
    digits = types.digits_of(kind) if types.is_decimal(kind) else None
    if digits is not None:
        return pa.decimal128(*digits)
    if kind.startswith("array<"):
        return pa.list_(arrow_type(kind[6:-1]))
    pair, fields = types.map_of(kind), types.fields_of(kind)
    if pair is not None:
        return pa.map_(*map(arrow_type, pair))
    if fields is not None:
        return pa.struct([pa.field(name, arrow_type(inner)) for name, inner in fields.items()])
    return _PLAIN[kind]


_PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
