"""Casts of Spark SQL: which may give NULL of a value, and types as they stand in a query.

Source: Spark's ``Cast.forceNullable``; Spark SQL Reference, "Data Types".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlglot import exp

from mirrorlake.models.spark_sql import types


def may_lose(before: str, now: str) -> bool:
    """Whether Spark says of a cast that it may give NULL of a value."""
    if before == now or before == types.VOID:
        return False
    if before == "string":
        return now != "binary"
    if types.is_decimal(now):
        held, wanted = types.digits_of(before), types.digits_of(now)
        if held is None or wanted is None:
            return True
        return held[0] - held[1] > wanted[0] - wanted[1] or held[1] > wanted[1]
    if now in types.INTEGERS:
        return before in types.FRACTIONS or types.is_decimal(before)
    return now in types.MOMENTS and before in types.FRACTIONS


_SINGLE = (*types.INTEGERS, *types.FRACTIONS, *types.MOMENTS, "string", "boolean", "binary")
_CASTS: Mapping[str, frozenset[str]] = {
    "whole": frozenset({"whole", "real", "string", "boolean", "timestamp"}),
    "real": frozenset({"whole", "real", "string", "boolean", "timestamp"}),
    "boolean": frozenset({"whole", "real", "string", "boolean"}),
    "string": frozenset({"whole", "real", "string", "boolean", "binary", *types.MOMENTS}),
    "binary": frozenset({"binary", "string"}),
    "date": frozenset({"string", *types.MOMENTS}),
    "timestamp_ntz": frozenset({"string", *types.MOMENTS}),
    "timestamp": frozenset({"whole", "real", "string", *types.MOMENTS}),
}
"""Kind of a type → the kinds that it can be cast to."""


def is_single(kind: str) -> bool:
    """Whether a type is of single values, and no interval."""
    return kind in _SINGLE or kind == types.VOID or types.is_decimal(kind)


def is_castable(before: str, now: str) -> bool:
    """Whether Spark casts one type to another."""
    if before in (now, types.VOID):
        return True
    if is_single(before) and is_single(now):
        return _kind(now) in _CASTS[_kind(before)]
    if before.startswith("array<") and now.startswith("array<"):
        return is_castable(before[6:-1], now[6:-1])
    one, other = types.fields_of(before), types.fields_of(now)
    if one is not None and other is not None and len(one) == len(other):
        return all(map(is_castable, one.values(), other.values()))
    if before.startswith("interval"):
        return before in ("interval day", "interval month") and now in (*types.INTEGERS, "string")
    return now == "string"


def _kind(name: str) -> str:
    if name in types.INTEGERS:
        return "whole"
    return "real" if name in types.FRACTIONS or types.is_decimal(name) else name


_WRITTEN = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "text": "string",
    "varchar": "string",
    "char": "string",
    "timestamptz": "timestamp",
    "timestampltz": "timestamp",
    "timestampntz": "timestamp_ntz",
    "varbinary": "binary",
}


def written_type(kind: exp.DataType) -> str:
    """A type as Spark writes it, of one that stands in a query."""
    name = kind.this.value.lower() if hasattr(kind.this, "value") else str(kind.this).lower()
    name = _WRITTEN.get(name, name)
    inner = [_written(one) for one in kind.expressions]
    if name == "decimal":
        precision, scale = [*inner, "10", "0"][:2] if len(inner) != 1 else (inner[0], "0")
        return f"decimal({precision},{scale})"
    if name in ("array", "map", "struct"):
        return f"{name}<{','.join(inner)}>"
    return name


def _written(node: Any) -> str:
    if isinstance(node, exp.DataType):
        return written_type(node)
    if isinstance(node, exp.ColumnDef):
        return f"{node.name}:{written_type(node.args['kind'])}"
    return str(node.this if isinstance(node, exp.DataTypeParam) else node)
