"""One version of a lake table, as a Trino reads it by its own catalog.

Trino is a server: it is asked by SQL over HTTP (package ``trino``, an extra), and its rows are
turned into Arrow here, by types that are compared before any row is read.

Source: Trino, "Iceberg connector" (type mapping; time travel queries).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pyarrow as pa
import requests

from mirrorlake.config.sections.readers import TrinoConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LakeError
from mirrorlake.runtime.extras import library

_ROWS = 10_000
"""In one batch."""
_TYPES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double",
    pa.string(): "varchar",
    pa.large_string(): "varchar",
    pa.binary(): "varbinary",
    pa.large_binary(): "varbinary",
    pa.date32(): "date",
    pa.timestamp("us"): "timestamp(6)",
    pa.timestamp("us", "UTC"): "timestamp(6) with time zone",
}


def read_by_trino(
    server: TrinoConfig, identifier: Identifier, version: int, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """All rows of a version, by a Trino; they come as text over HTTP, and are held by the batch.

    Args:
        server: where it is, and what it calls the lake.
        identifier: the lake table.
        version: the snapshot.
        schema: the columns and types of it.

    Raises:
        LakeError: the client is not installed; Trino can't be reached, refuses or can't read the
            table; it has a column in another type.
    """
    client = _client()
    place = ".".join(_quoted(part) for part in (server.catalog, *identifier.path))
    # A bigint in any case: a small number is an integer to Trino, which takes none for a version.
    place += f" FOR VERSION AS OF CAST({version} AS bigint)"
    names = ", ".join(_quoted(name) for name in schema.names)
    columns = ", ".join(_exactly(field) for field in schema)
    with (
        _translated(client, server, identifier),
        closing(_connect(client, server)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute(f"SELECT {names} FROM {place} LIMIT 0")  # noqa: S608
        _compare_types([column.type_code for column in cursor.description], schema)
        cursor.execute(f"SELECT {columns} FROM {place}")  # noqa: S608
        while rows := cursor.fetchmany(_ROWS):
            yield _batch(rows, schema)


def _connect(client: Any, server: TrinoConfig) -> Any:
    password = server.password
    login = None
    if password is not None:
        login = client.auth.BasicAuthentication(server.user, password.get_secret_value())
    return client.dbapi.connect(
        host=server.host,
        port=server.port,
        http_scheme=server.scheme,
        user=server.user,
        auth=login,
        source="mirrorlake",
        timezone="UTC",
        # Rows come from the coordinator itself, not out of a storage that it names.
        encoding=None,
    )


def _client() -> Any:
    return library("trino", "trino", "readers.trino", LakeError)


@contextmanager
def _translated(client: Any, server: TrinoConfig, identifier: Identifier) -> Iterator[None]:
    """Errors of Trino, of its client, of HTTP, and of what is no Trino, as LakeErrors."""
    errors = client.exceptions
    table = str(identifier)
    try:
        yield
    except (errors.DataError, errors.NotSupportedError, pa.ArrowException):
        # Neither repeated nor chained: the words hold a value of a row.
        raise LakeError(
            f"Trino gave a value of lake table {table} that its type can't have",
            table=table,
            next_step="Compare the columns with those of another engine",
        ) from None
    except errors.TrinoQueryError as error:
        raise LakeError(
            f"Trino can't read lake table {table}: {_first_line(error.message)}",
            table=table,
            next_step=f"Look at the query {error.query_id} in {server.url}",
        ) from error
    except (errors.Error, errors.HttpError, requests.RequestException) as error:
        raise LakeError(
            f"Trino at {server.url} can't be queried: {_first_line(str(error))}",
            table=table,
            next_step="See readers.trino in the contract file, and whether Trino is up",
            retryable=True,
        ) from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        # Nor these: the client has no errors of its own for what is no answer of a Trino.
        raise LakeError(
            f"Trino's client can't read what {server.url} answers ({type(error).__name__})",
            table=table,
            next_step="See readers.trino.url in the contract file",
        ) from None


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["no reason"])[0]


def _compare_types(given: Sequence[str], schema: pa.Schema) -> None:
    for kind, field in zip(given, schema, strict=True):
        if _plain(kind) != _plain(_trino_type(field.type)):
            raise LakeError(
                f"column {field.name!r} is read as {kind}, and is {_trino_type(field.type)}",
                column=field.name,
                next_step="Its values may be the same: compare them",
            )


def _plain(kind: str) -> str:
    """A type without spaces, quotes and case, in which Trino writes one type differently."""
    return re.sub(r'[\s"]', "", kind).lower()


def _trino_type(kind: pa.DataType) -> str:
    """What Trino makes of a column of Iceberg's."""
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"array({_trino_type(kind.value_type)})"
    if pa.types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return f"row({', '.join(f'{f.name} {_trino_type(f.type)}' for f in fields)})"
    return _TYPES.get(kind, f"{kind}, which is not compared here")


def _exactly(field: pa.Field) -> str:
    """A column as text loses nothing of it: the digits of a real are read as those of a double."""
    name = _quoted(field.name)
    return f"CAST({name} AS double)" if pa.types.is_float32(field.type) else name


def _batch(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [
        pa.array([_value(one, field.type) for one in values], field.type)
        for values, field in zip(columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _value(value: Any, kind: pa.DataType) -> Any:
    """Rows in arrays by the names of their fields, as Arrow takes them."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        return {f.name: _value(one, f.type) for f, one in zip(fields, value, strict=True)}
    return [_value(one, kind.value_type) for one in value]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
