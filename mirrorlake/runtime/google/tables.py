"""Tables of BigQuery that somebody else writes: looked at, and read page by page.

Both are requests that BigQuery does not bill (``tables.get``, ``tables.list``,
``tabledata.list``); no job runs.

Source: BigQuery, "REST reference: tables", "tabledata.list"; "Pricing: free operations".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NotRequired, TypedDict

from mirrorlake.errors import BigQueryError
from mirrorlake.runtime.google.clients import (
    LOOK_PATIENCE,
    is_missing,
    library,
    open_warehouse,
    patience,
    translated,
)

if TYPE_CHECKING:
    import pyarrow as pa
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


DECIMALS: Final = ("NUMERIC", "DECIMAL", "BIGNUMERIC", "BIGDECIMAL")
"""The types of decimals, by both names that BigQuery has for each."""


def is_array(column: ColumnJson) -> bool:
    """Whether each value of a column is an array."""
    return column.get("mode") == "REPEATED"


def written(column: ColumnJson) -> str:
    """A column's type in BigQuery's words.

    >>> written({"name": "n", "type": "NUMERIC", "precision": "12", "scale": "2"})
    'NUMERIC(12, 2)'
    """
    given = (column.get("precision"), column.get("scale"))
    digits = ", ".join(one for one in given if one is not None)
    kind = f"{column['type']}({digits})" if digits else column["type"]
    return f"ARRAY<{kind}>" if is_array(column) else kind


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

    def tables(self, dataset: str) -> list[BigQueryTable]:
        """The tables, and views, of a dataset, by name.

        Raises:
            BigQueryError: there is no such dataset, Google refuses, or can't be reached.
        """
        whole = f"{self._warehouse.project}.{dataset}"
        with translated(f"dataset {whole}"):
            listed = self._warehouse.list_tables(whole, retry=patience("bigquery", LOOK_PATIENCE))
            try:
                names = sorted(str(one.table_id) for one in listed)
            except Exception as error:
                if not is_missing(error):
                    raise
                raise BigQueryError(
                    f"there is no dataset {whole} in BigQuery",
                    next_step="Check its name, and that this account may read it",
                ) from error
        return [BigQueryTable(self._warehouse.project, dataset, name) for name in names]

    def read(self, seen: TableSeen, columns: Sequence[ColumnJson]) -> Iterator[pa.RecordBatch]:
        """Some columns of all rows, a page at a time; in which order nobody knows.

        Before and after, the table is what was looked at: of the pages between nobody could tell
        which version they are of.

        Args:
            columns: of the table's, each with the type that its values are taken for. Of a
                ``STRING`` they are what BigQuery prints.

        Raises:
            BigQueryError: the table was changed since or meanwhile, rows were not given, Google
                refuses, or can't be reached.
        """
        self._refuse_change(seen)
        count = 0
        for batch in self._pages(seen, columns):
            count += batch.num_rows
            yield batch
        self._refuse_change(seen)
        if count != seen.rows:
            raise BigQueryError(
                f"{seen.table} has {seen.rows:,} rows, and {count:,} of them were read",
                next_step="Check that the account that runs Mirrorlake may read all of the "
                "table's rows, then run it again",
            )

    def _pages(self, seen: TableSeen, columns: Sequence[ColumnJson]) -> Iterator[pa.RecordBatch]:
        field = library("google.cloud.bigquery").SchemaField
        with translated(f"table {seen.table}"):
            rows = self._warehouse.list_rows(
                str(seen.table),
                selected_fields=[field.from_api_repr(dict(one)) for one in columns],
                page_size=PAGE_ROWS,
                retry=patience("bigquery"),
            )
            yield from rows.to_arrow_iterable()

    def _refuse_change(self, seen: TableSeen) -> None:
        now = self.look(seen.table)
        if now is None or now.version != seen.version or now.streaming:
            raise BigQueryError(
                f"{seen.table} changed since it was looked at",
                next_step="Run it again: it reads the table as it is then",
                retryable=True,
            )


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
