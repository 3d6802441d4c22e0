"""A landed snapshot as a Spark DataFrame: read where it landed, each file by one task.

Nothing is copied. Each reading of the frame reads the files again; a value that does not fit fails
it, with the file, the line and the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.landing.files.parquet import check_parquet, read_parquet
from mirrorlake.landing.files.records import Bad, LandedFile, Reading, read_records
from mirrorlake.runtime.at_once import map_at_once
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.sources.files.tasks import carried, file_tasks, landing_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_LOOKS = 8


def read_batches(
    reading: Reading, file: LandedFile, bad: list[Bad] | None = None
) -> Iterator[pa.RecordBatch]:
    """A file's rows in batches of the schema's types, whatever its format; see `read_records`."""
    read = read_parquet if reading.format == "parquet" else read_records
    return read(reading, file, bad.append if bad is not None else None)


def landed_frame(session: Any, reading: Reading, files: Sequence[LandedFile]) -> DataFrame:
    """The rows of these files, with exactly the columns of ``reading.schema.types()``.

    Raises:
        LandingError: a footer of Parquet says that the file can't be read as the contract's.
    """
    if reading.format == "parquet" and isinstance(reading.store, FolderStore):
        native = map_at_once(lambda file: check_parquet(reading, file), files, _LOOKS)
        if files and all(native):
            return _read_by_spark(session, reading, files)
    return _read_by_tasks(session, reading, files)


def _read_by_spark(session: Any, reading: Reading, files: Sequence[LandedFile]) -> DataFrame:
    from pyspark.sql import functions as f

    paths = [f"file://{reading.store.describe(file.path)}" for file in files]
    names = [column.name for column in reading.schema.columns]
    schema = _frame_schema(reading, with_originals=False)
    # A path with a wildcard's letters would be taken for several.
    escaped = [re.sub(r"([*?\[\]{}\\])", r"\\\1", path) for path in paths]
    with spark_errors(reading.table):
        rows = session.read.schema(schema).parquet(*escaped)
        if reading.schema.has_original:
            kind = _frame_schema(reading)[ORIGINAL].dataType
            rows = rows.withColumn(ORIGINAL, f.lit(None).cast(kind))
            names.append(ORIGINAL)
        return cast("DataFrame", rows.toDF(*names))


def _read_by_tasks(session: Any, reading: Reading, files: Sequence[LandedFile]) -> DataFrame:
    schema = _frame_schema(reading)
    with spark_errors(reading.table):
        if not files:
            return session.createDataFrame([], schema)
        return file_tasks(session, len(files)).mapInArrow(
            _row_reader(reading, tuple(files)), schema
        )


def count_landed(
    session: Any, reading: Reading, files: Sequence[LandedFile], shown: int = 20
) -> list[tuple[int, list[Bad], int]]:
    """Read every file once, keeping nothing: per file its rows, its first malformed records, and
    how many there are.

    Raises:
        LandingError: a file can't be read, or has more malformed records than may be left out.
    """
    if not files:
        return []
    with landing_errors(reading.table), spark_errors(reading.table):
        counted = file_tasks(session, len(files)).mapInArrow(
            _counter(reading, tuple(files), shown), "file long, counts string"
        )
        found = {row.file: json.loads(row.counts) for row in counted.collect()}
    return [
        (found[n]["rows"], [Bad(**bad) for bad in found[n]["bad"]], found[n]["count"])
        for n in range(len(files))
    ]


def _row_reader(reading: Reading, files: tuple[LandedFile, ...]) -> Any:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with carried():
                    yield from read_batches(reading, files[number])

    return read


def _counter(reading: Reading, files: tuple[LandedFile, ...], shown: int) -> Any:
    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                bad: list[Bad] = []
                with carried():
                    rows = sum(b.num_rows for b in read_batches(reading, files[number], bad))
                listed = [vars(one) for one in bad[:shown]]
                text = json.dumps({"rows": rows, "bad": listed, "count": len(bad)})
                yield pa.RecordBatch.from_pydict({"file": [number], "counts": [text]})

    return count


def _frame_schema(reading: Reading, *, with_originals: bool = True) -> Any:
    """The frame's schema in Spark's words."""
    from pyspark.sql import types as t

    plain = {
        "int": t.IntegerType(),
        "long": t.LongType(),
        "float": t.FloatType(),
        "double": t.DoubleType(),
        "string": t.StringType(),
        "binary": t.BinaryType(),
        "boolean": t.BooleanType(),
        "date": t.DateType(),
        "timestamp": t.TimestampNTZType(),
        "timestamptz": t.TimestampType(),
    }
    fields = [
        t.StructField(c.name, t.DecimalType(*c.digits) if c.digits else plain[c.iceberg])
        for c in reading.schema.columns
    ]
    if with_originals and reading.schema.has_original:
        entry = [t.StructField(name, t.StringType()) for name in ("column", "text")]
        fields.append(t.StructField(ORIGINAL, t.ArrayType(t.StructType(entry))))
    return t.StructType(fields)
