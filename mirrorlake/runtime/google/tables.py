"""Tables of BigQuery that somebody else writes: looked at, and read page by page.

Both are requests that BigQuery does not bill (``tables.get`` and ``tabledata.list``); no job runs.

Source: BigQuery, "REST reference: tables", "tabledata.list"; "Pricing: free operations".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

import pyarrow as pa

from mirrorlake.runtime.google.clients import (
    LOOK_PATIENCE,
    is_missing,
    library,
    open_warehouse,
    patience,
    translated,
)

if TYPE_CHECKING:
    from google.cloud import bigquery

PAGE_ROWS = 20_000
"""Rows of a page at most; Google makes pages of wide rows smaller."""


@dataclass(frozen=True)
class BigQueryTable:
    """A table's project, dataset and name."""

    project: str
    dataset: str
    name: str

    def __str__(self) -> str:
        return f"{self.project}.{self.dataset}.{self.name}"


class ColumnJson(TypedDict):
    """A column as BigQuery's API says it, with what a type is written with."""

    name: str
    type: str
    mode: NotRequired[str]
    precision: NotRequired[str]
    scale: NotRequired[str]
    timestampPrecision: NotRequired[str]
    fields: NotRequired[list[ColumnJson]]


@dataclass(frozen=True)
class StreamedRows:
    """Rows that were streamed into a table and are in no version of it yet.

    Attributes:
        estimated: about how many; BigQuery does not count them.
        oldest_at: when the oldest came (UTC).
    """

    estimated: int
    oldest_at: datetime | None


@dataclass(frozen=True)
class TableSeen:
    """A table as it was when it was looked at.

    Attributes:
        kind: ``TABLE``, ``VIEW``, ``MATERIALIZED_VIEW``, ``EXTERNAL`` or ``SNAPSHOT``.
        columns: all of them, in order.
        version: another one whenever anything of the table changed, its description too.
        changed_at: when that was last (UTC).
        streaming: rows that were streamed in and are in no version yet; None without any.
    """

    table: BigQueryTable
    kind: str
    location: str
    columns: tuple[ColumnJson, ...]
    version: str
    rows: int
    bytes: int
    changed_at: datetime | None
    streaming: StreamedRows | None

    @property
    def name(self) -> str:
        """The table's whole name."""
        return str(self.table)

    @property
    def column_names(self) -> list[str]:
        return [column["name"] for column in self.columns]


class BigQueryReader:
    """Looks at tables, and reads them, as one who may do nothing else.

    Raises:
        BigQueryError: Google's library is not installed, or nobody is logged in.
    """

    def __init__(self, project: str) -> None:
        self._warehouse: bigquery.Client = open_warehouse(project, None)

    def look(self, table: BigQueryTable) -> TableSeen | None:
        """A table as it is now; None where there is none.

        Raises:
            BigQueryError: Google refuses, or can't be reached.
        """
        with translated(f"table {table}"):
            try:
                found = self._warehouse.get_table(
                    str(table), retry=patience("bigquery", LOOK_PATIENCE)
                )
            except Exception as error:
                if not is_missing(error):
                    raise
                return None
        return _seen(table, found)

    def read(self, seen: TableSeen, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, a page at a time; in which order nobody knows.

        Raises:
            BigQueryError: Google refuses, or can't be reached.
        """
        field = library("google.cloud.bigquery").SchemaField
        wanted = [field.from_api_repr(dict(one)) for one in seen.columns if one["name"] in names]
        with translated(f"table {seen.table}"):
            rows = self._warehouse.list_rows(
                str(seen.table),
                selected_fields=wanted,
                page_size=PAGE_ROWS,
                retry=patience("bigquery"),
            )
            yield from rows.to_arrow_iterable()


def _seen(table: BigQueryTable, found: Any) -> TableSeen:
    parts = (found.etag, found.created, found.modified, found.num_rows, found.num_bytes)
    return TableSeen(
        table=table,
        kind=str(found.table_type or ""),
        location=str(found.location or ""),
        columns=tuple(field.to_api_repr() for field in found.schema),
        version=hashlib.sha256(repr(parts).encode()).hexdigest()[:16],
        rows=int(found.num_rows or 0),
        bytes=int(found.num_bytes or 0),
        changed_at=found.modified,
        streaming=_streamed(found.streaming_buffer),
    )


def _streamed(buffer: Any) -> StreamedRows | None:
    if buffer is None:
        return None
    return StreamedRows(int(buffer.estimated_rows or 0), buffer.oldest_entry_time)
