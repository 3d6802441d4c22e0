"""MySQL's side: a table's rows by the project's own reader, exact, in one consistent read."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.config.server import SourceConfig
from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.destinations.iceberg.tables.schemas import current_schema, has_original
from mirrorlake.errors import SchemaError
from mirrorlake.load.chunks.select_rows import SELECT
from mirrorlake.load.chunks.statements import ChunkPlan
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.schema.versions import Exact
from mirrorlake.sources.mysql.reading.reader import BATCH_ROWS
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.sources.mysql.types.exact_types import exact_column
from mirrorlake.sources.mysql.types.registry import HUGE, LARGE

_GROUP_ROWS = 122_880
_GROUP_BYTES = 64 * 2**20


@dataclass(frozen=True)
class OurColumn:
    """A column of MySQL's that can be compared, and how its values are kept while that is done."""

    column: Column
    exact: Exact


@dataclass(frozen=True)
class OurRows:
    """What MySQL had of a table at one moment.

    Attributes:
        path: a Parquet file with its columns, and the originals beside them.
        seen: which server answered, and where it stood just before.
    """

    path: Path
    rows: int
    seen: SourcePosition
    originals: bool


def columns_of(table: SourceTable) -> tuple[list[OurColumn], dict[str, str]]:
    """The columns that are compared, and why the others are not.

    Raises:
        SchemaError: a column has the name of the mirror's own column of originals.
    """
    ours: list[OurColumn] = []
    left: dict[str, str] = {}
    for column in table.columns:
        if column.name.lower() == ORIGINAL:
            raise SchemaError(
                f"table {table.database}.{table.name} has a column {column.name}: it is "
                "Mirrorlake's own name",
                table=f"{table.database}.{table.name}",
                next_step="Compare a view of it in which the column has another name",
            )
        exact = exact_column(column)
        if exact is None:
            left[column.name] = f"{column.column_type} can't be read exactly"
        else:
            ours.append(OurColumn(column, exact))
    return ours, left


def read_ours(
    source: SourceConfig, table: SourceTable, columns: Sequence[OurColumn], folder: Path
) -> OurRows:
    """Read these columns into a file in a folder; memory does not grow with the table.

    Raises:
        SourceError: the server was lost, refused, or gave what can't be taken exactly.
    """
    plan = _plan(source, table, [one.exact for one in columns])
    path, rows = folder / "mysql.parquet", 0
    found = SELECT.read(plan)
    with (
        pq.ParquetWriter(path, plan.schema, compression="zstd", compression_level=1) as writer,
        closing(found.batches),
    ):
        held: list[pa.Table] = []
        for batch in found.batches:
            held.append(batch)
            rows += batch.num_rows
            if _is_group(held):
                writer.write_table(pa.concat_tables(held))
                held = []
        if held:
            writer.write_table(pa.concat_tables(held))
    return OurRows(path, rows, found.seen, has_original(plan.columns))


def _is_group(held: Sequence[pa.Table]) -> bool:
    rows = sum(one.num_rows for one in held)
    return rows >= _GROUP_ROWS or sum(one.nbytes for one in held) >= _GROUP_BYTES


def _plan(source: SourceConfig, table: SourceTable, columns: Sequence[Exact]) -> ChunkPlan:
    """One SELECT of the whole table."""
    kinds: Any = [(one.name, one.iceberg) for one in columns]
    schema = arrow_schema(current_schema(kinds, has_original(columns)), field_ids=False)
    read = {one.name for one in columns}
    kept = [column for column in table.columns if column.name in read]
    large = {column.data_type for column in kept} & (HUGE | LARGE)
    return ChunkPlan(
        source=source,
        database=table.database,
        table=table.name,
        columns=tuple(columns),
        schema=schema,
        location="",
        storage={},
        load_id="check-against",
        attempt=0,
        seq=0,
        number=0,
        where="",
        day=date(1970, 1, 1),
        day_column=None,
        cursor=None,
        server="",
        batch_rows=(64 if large & HUGE else 1_024) if large else BATCH_ROWS,
        near=True,
        widest=tuple(column.sql for column in kept if column.data_type in large),
    )
