"""The rows of a test, given to Spark and taken from it, to the value.

A test's tables are views in a catalog in memory, each row written out with its types: no file is
written, and what the query names is found under the name that it has in the lake.

What belongs here: values on their way into Spark and out of it. What doesn't: whether they are
those that a test expects (`mirrorlake.models.testing.run_tests`).

Source: Iceberg documentation, "Spark Configuration", custom catalogs (``InMemoryCatalog``).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.models.files.cells import Cell, as_sql, binary_text, ordered
from mirrorlake.models.spark_sql import types
from mirrorlake.models.testing.bound_tests import Fixture

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

MOST_ROWS = 10_000
"""Rows that are taken from Spark: a test that gives more says nothing to anybody."""
_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
_IN_MEMORY = {
    "catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
    "io-impl": "org.apache.iceberg.inmemory.InMemoryFileIO",
    "cache-enabled": "false",
}


@contextmanager
def given_tables(spark: SparkSession, fixtures: Sequence[Fixture]) -> Iterator[str]:
    """The name of a catalog that has these tables and no others, while the block runs."""
    name = f"given_{uuid.uuid4().hex[:12]}"
    prefix = f"spark.sql.catalog.{name}"
    settings = {prefix: _CATALOG, **{f"{prefix}.{k}": v for k, v in _IN_MEMORY.items()}}
    settings[f"{prefix}.warehouse"] = f"memory://{name}"
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        for namespace in dict.fromkeys(one.identifier.namespace for one in fixtures):
            spark.sql(f"CREATE NAMESPACE {name}.{as_sql_identifier(namespace)}")
        for one in fixtures:
            spark.sql(_view(name, one))
        yield name
    finally:
        for one in fixtures:
            spark.sql(f"DROP VIEW IF EXISTS {_name(name, one)}")
        for key in settings:
            spark.conf.unset(key)


def _name(catalog: str, fixture: Fixture) -> str:
    return ".".join((catalog, *map(as_sql_identifier, fixture.identifier.path)))


def _view(catalog: str, fixture: Fixture) -> str:
    """The statement that makes a table of a test."""
    names = ", ".join(as_sql_identifier(name) for name, _ in fixture.columns)
    kinds = [kind for _, kind in fixture.columns]
    rows = [
        f"({', '.join(as_sql(value, kind) for value, kind in zip(row, kinds, strict=True))})"
        for row in fixture.rows
    ]
    nothing = f"({', '.join(as_sql(None, kind) for kind in kinds)})"
    values = ",\n".join(rows or [nothing])
    whole = f"SELECT * FROM VALUES {values}"  # noqa: S608 - written by `as_sql`
    return f"CREATE VIEW {_name(catalog, fixture)} ({names}) AS {whole}" + (
        "" if rows else " WHERE FALSE"
    )


def taken_rows(rows: DataFrame, columns: Sequence[tuple[str, str]]) -> list[tuple[Cell, ...]]:
    """The rows of some columns, in the order in which Spark gives them; one more than `MOST_ROWS`
    where there are more.

    Args:
        columns: name and type.
    """
    chosen = [
        rows[as_sql_identifier(name)]
        .cast(_that_may_be_null(rows.schema[name].dataType))
        .alias(name)
        for name, _ in columns
    ]
    table = rows.select(*chosen).limit(MOST_ROWS + 1).toArrow()
    taken = [
        [_cell(one, kind) for one in column]
        for column, (_, kind) in zip(table.columns, columns, strict=True)
    ]
    return list(zip(*taken, strict=True))


def _that_may_be_null(kind: DataType) -> DataType:
    """A type whose parts may all be NULL. Arrow can't take a NULL struct whose fields never are."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StructType):
        fields = [t.StructField(f.name, _that_may_be_null(f.dataType)) for f in kind.fields]
        return t.StructType(fields)
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_that_may_be_null(kind.elementType))
    if isinstance(kind, t.MapType):
        return t.MapType(_that_may_be_null(kind.keyType), _that_may_be_null(kind.valueType))
    return kind


def _cell(scalar: Any, kind: str) -> Cell:
    """A value of Arrow's as tests compare it."""
    if not scalar.is_valid:
        return None
    fields, pair = types.fields_of(kind), types.map_of(kind)
    if fields is not None:
        return tuple(_cell(scalar[n], inner) for n, inner in enumerate(fields.values()))
    if pair is not None:
        entries = ((_cell(one[0], pair[0]), _cell(one[1], pair[1])) for one in scalar.values)
        return ordered(entries)
    if kind.startswith("array<"):
        inner = types.element(kind) or ""
        return tuple(_cell(one, inner) for one in scalar.values)
    if kind in types.MOMENTS:
        return cast("int", scalar.value)  # days, or microseconds, since 1970
    value = scalar.as_py()
    return binary_text(value, kind) if kind in types.FRACTIONS else cast("Cell", value)
