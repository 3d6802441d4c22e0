"""BigQuery: ``bigquery://project/dataset/table``, read by requests that it does not bill.

Source: BigQuery, "REST reference: tabledata.list"; "Data types" (GoogleSQL).
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.other_copies.theirs.streamed import put_aside
from mirrorlake.other_copies.theirs.table import TheirRows
from mirrorlake.runtime.google.tables import (
    DECIMALS,
    BigQueryReader,
    BigQueryTable,
    ColumnJson,
    TableSeen,
    is_array,
    written,
)
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.reserved_names import dataset_in_bigquery, table_in_bigquery

SCHEME: Final = "bigquery://"
_MOST_DIGITS = 38
"""Of a decimal of DuckDB's."""
_AS_PRINTED: Final = ("JSON", "INTERVAL", "RANGE", "GEOGRAPHY", "BIGNUMERIC", "BIGDECIMAL")
"""Types whose values are read as BigQuery prints them: Arrow, DuckDB or Google's library has none
that holds each of them as it is."""


@dataclass(frozen=True)
class BigQueryCopy:
    """A table in a dataset."""

    table: BigQueryTable

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def schema(self) -> str:
        return self.table.dataset

    @property
    def place(self) -> str:
        return f"BigQuery, {self.table}"

    def open(self, database: Any, folder: Path) -> TheirRows:
        """See `TheirTable.open`.

        Raises:
            BigQueryError: Google refuses or can't be reached, or the table was changed meanwhile.
        """
        reader = BigQueryReader(self.table.project)
        seen = _readable(self.table, reader.look(self.table))
        pages = reader.read(seen, [_as_read(column) for column in seen.columns])
        first = next(pages)  # an empty table's one page says its columns, too
        schema = pa.schema([_field(one, first.schema) for one in seen.columns])
        batches = _rows(chain([first], pages), seen.columns, schema)
        put = put_aside(database, folder, schema, batches, _version(seen))
        return replace(put, written={one["name"]: written(one) for one in seen.columns})


def bigquery_tables(uri: str) -> list[BigQueryCopy]:
    """What ``bigquery://project/dataset[/table]`` names; of a dataset, all that is in it.

    Raises:
        ConfigError: it names no dataset, or what BigQuery can't have.
        BigQueryError: Google's library is not installed, nobody is logged in, Google refuses.
    """
    project, dataset, name = _parts(uri)
    if name is not None:
        return [BigQueryCopy(BigQueryTable(project, dataset, name))]
    return [BigQueryCopy(table) for table in BigQueryReader(project).tables(dataset)]


def _parts(uri: str) -> tuple[str, str, str | None]:
    project, *names = uri.removeprefix(SCHEME).rstrip("/").split("/")
    sayable = [check(one) for check, one in zip(_SAYABLE, names, strict=False)]
    if not project or len(names) not in (1, 2) or not all(sayable):
        raise ConfigError(
            f"--against {uri} names no dataset or table of BigQuery's",
            next_step="Write bigquery://project/dataset/table, or bigquery://project/dataset for "
            "each of its tables",
        )
    return project, names[0], names[1] if len(names) == 2 else None


_SAYABLE = (dataset_in_bigquery, table_in_bigquery)


def _readable(table: BigQueryTable, seen: TableSeen | None) -> TableSeen:
    """See that a table has rows that can be read, each of them."""
    if seen is None:
        raise LakeError(
            f"there is no table {table} in BigQuery",
            next_step="Check its name, and that this account may read it",
        )
    copied = "Compare a table that a query made of it: CREATE TABLE … AS SELECT * FROM …"
    if seen.kind != "TABLE":
        raise LakeError(
            f"{table} is no table ({seen.kind}): its rows can't be read without a query",
            next_step=copied,
        )
    if seen.streaming is not None:
        raise LakeError(
            f"rows are streamed into {table}: those that just came can't be read without a query",
            next_step=f"{copied}, or wait: they can be read some 90 minutes after the last came",
            retryable=True,
        )
    return seen


def _as_read(column: ColumnJson) -> ColumnJson:
    """A column with the type that its values are taken for."""
    if column["type"] in _AS_PRINTED:
        return {"name": column["name"], "type": "STRING", "mode": column.get("mode", "NULLABLE")}
    if "fields" in column:
        return {**column, "fields": [_as_read(one) for one in column["fields"]]}
    return column


def _field(column: ColumnJson, read: pa.Schema) -> pa.Field:
    """A column as it is kept: a decimal has the digits that it was made with."""
    field = read.field(column["name"])
    digits = (int(column.get("precision", "0")), int(column.get("scale", "0")))
    if _is_document(column):
        return pa.field(field.name, pa.string())
    if column["type"] in DECIMALS and not is_array(column) and 0 < digits[0] <= _MOST_DIGITS:
        return pa.field(field.name, pa.decimal128(*digits))
    return field


def _rows(
    pages: Iterator[pa.RecordBatch], columns: Sequence[ColumnJson], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for page in pages:
        arrays = [
            _documents(array, column) if _is_document(column) else array
            for array, column in zip(page.columns, columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=page.schema.names).cast(schema)


# --- documents ------------------------------------------------------------------------------------


def _is_document(column: ColumnJson) -> bool:
    """Whether an array or struct is kept as JSON: its JSON would be a text within it, and its
    decimals would have zeros that say nothing."""
    nested = is_array(column) or "fields" in column
    return nested and any(one["type"] in ("JSON", *DECIMALS) for one in _leaves(column))


def _leaves(column: ColumnJson) -> Iterator[ColumnJson]:
    if "fields" not in column:
        yield column
        return
    for field in column["fields"]:
        yield from _leaves(field)


def _documents(array: Any, column: ColumnJson) -> Any:
    texts = [None if value is None else _document(value, column) for value in array.to_pylist()]
    return pa.array(texts, pa.string())


def _document(value: Any, column: ColumnJson) -> str:
    """A value as JSON; what JSON has no type for as a text."""
    if value is None:
        return "null"
    if is_array(column):
        one: ColumnJson = {**column, "mode": "NULLABLE"}
        return f"[{', '.join(_document(each, one) for each in value)}]"
    if "fields" in column:
        members = (
            f"{json.dumps(f['name'])}: {_document(value[f['name']], f)}" for f in column["fields"]
        )
        return f"{{{', '.join(members)}}}"
    if column["type"] == "JSON":
        return str(value)
    if column["type"] in DECIMALS:
        return _plain_number(format(Decimal(value), "f"))
    if isinstance(value, bytes):
        return json.dumps(b64encode(value).decode())
    return json.dumps(value, ensure_ascii=False, default=str)


def _plain_number(digits: str) -> str:
    """A number without zeros at its end that say nothing; `Decimal.normalize` rounds to 28 digits.

    >>> _plain_number("100.500000000"), _plain_number("100"), _plain_number("-0.000000000")
    ('100.5', '100', '-0')
    """
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _version(seen: TableSeen) -> str:
    changed = f", changed {seen.changed_at:%Y-%m-%d %H:%M:%S} UTC" if seen.changed_at else ""
    return f"{plural(seen.rows, 'row')}, location {seen.location}{changed}"
