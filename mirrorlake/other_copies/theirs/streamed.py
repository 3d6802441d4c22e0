"""Rows that DuckDB can't read from where they are: put into a Parquet file of ours first."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.other_copies.theirs.parquet import parquet_relation
from mirrorlake.other_copies.theirs.table import TheirRows, types_of


def put_aside(
    database: Any, folder: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch], version: str
) -> TheirRows:
    """Write batches to a file in a folder, one at a time, and give that to a database."""
    path = folder / "theirs.parquet"
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=1) as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_table(pa.Table.from_batches([batch]).cast(schema))
    relation = parquet_relation([path])
    return TheirRows(relation, types_of(database, relation), version)
