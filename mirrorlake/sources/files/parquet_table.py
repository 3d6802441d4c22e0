"""A folder of Parquet files that somebody else writes: listed, and read as it was listed.

Its partitions are folders ``day=2024-05-01/shop=Paris``. Each file is read in the version that was
listed, and with the columns that are wanted, or not at all: a file that lacks a column, or has
another type, would else give NULL or other values.

What belongs here: files. What doesn't: which of them a model reads
(`mirrorlake.models.external_sources.tables`), and
how it looked when it was listed (`mirrorlake.sources.files.parquet_folder`).

Source: Apache Parquet, "Logical Types"; Spark SQL Guide, "Parquet Files", "Partition Discovery".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import LandingClosed, LandingError
from mirrorlake.runtime.at_once import map_at_once
from mirrorlake.schema.own_columns import IN_RAW
from mirrorlake.sources.files.parquet_folder import ParquetFile, ParquetFolder, PartitionValue
from mirrorlake.sources.files.store import Store
from mirrorlake.sources.files.tasks import carried, file_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NULL = "__HIVE_DEFAULT_PARTITION__"
_INSTANT, _WALL_CLOCK = pa.timestamp("us", "UTC"), pa.timestamp("us")
_ALIKE: Mapping[pa.DataType, tuple[pa.DataType, ...]] = {
    pa.int32(): (pa.int16(), pa.int8()),
    pa.int64(): (pa.int32(), pa.int16(), pa.int8()),
    pa.string(): (pa.large_string(),),
    pa.binary(): (pa.large_binary(),),
    pa.float64(): (pa.float32(),),
    _WALL_CLOCK: (pa.timestamp("ms"), pa.timestamp("ns")),
}
"""Types of a file whose values are all values of the wanted one; finer times are looked at."""
_LOOKS = 8
_BATCH_ROWS = 32_768


def list_files(folder: ParquetFolder) -> list[ParquetFile]:
    """All files of a folder, by their paths. What begins with ``_`` or ``.`` is not looked at, as
    Spark does not.

    Raises:
        LandingError: it can't be listed, or something in it is no Parquet or in no partition.
    """
    return sorted(_listed(folder, folder.path, ()), key=lambda one: one.path)


def _listed(
    folder: ParquetFolder, path: str, values: tuple[PartitionValue, ...]
) -> Iterator[ParquetFile]:
    store, depth = folder.store, len(values)
    for name in store.folders(path, ""):
        if name.startswith((".", "_")):
            continue
        below = f"{path}/{name}"
        if depth == folder.by:
            raise _strange(store, below, "is a folder where files are expected")
        yield from _listed(folder, below, (*values, _value(folder, depth, name, below)))
    for entry in store.files(path, lambda name: not name.startswith((".", "_"))):
        place = f"{path}/{entry.name}"
        if depth < folder.by:
            wanted = folder.partitions[depth].name
            raise _strange(store, place, f"is no folder {wanted}=…")
        if not entry.name.endswith(".parquet"):
            raise _strange(store, place, "is no .parquet")
        yield ParquetFile(place, entry.bytes, entry.version, values, entry.changed_at)


def _value(folder: ParquetFolder, depth: int, name: str, path: str) -> PartitionValue:
    field = folder.partitions[depth]
    begin, sign, text = name.partition("=")
    text = unquote(text)
    if not sign or begin != field.name:
        raise _strange(folder.store, path, f"is no folder {field.name}=…")
    if text == _NULL:
        return None
    try:
        if pa.types.is_date(field.type):
            return date.fromisoformat(text)
        return int(text) if pa.types.is_integer(field.type) else text
    except ValueError:
        raise _strange(folder.store, path, f"is no {field.type} of {field.name}") from None


def _strange(store: Store, path: str, words: str) -> LandingError:
    return LandingError(
        f"{store.describe(path)} {words}",
        next_step="Put it elsewhere, or correct what the table is declared to be",
    )


def check_files(folder: ParquetFolder, files: Sequence[ParquetFile]) -> list[int]:
    """The rows of each file, by its footer.

    Raises:
        LandingError: a file is not there any more, is no Parquet, or lacks a column or has it in
            another type.
    """
    return map_at_once(lambda one: _rows(folder, one), files, _LOOKS)


def _rows(folder: ParquetFolder, file: ParquetFile) -> int:
    with _opened(folder, file) as found:
        return found.metadata.num_rows


def _opened(folder: ParquetFolder, file: ParquetFile) -> pq.ParquetFile:
    """A file whose columns are those that are wanted."""
    place = folder.store.describe(file.path)
    try:
        stream = folder.store.open(file.path, file.version)
    except LandingClosed:
        raise
    except LandingError as error:
        if error.retryable:
            raise
        raise LandingError(
            f"{place} is gone, or was written again, since it was listed",
            next_step="Run it again: it reads the file as it is then",
            retryable=True,
        ) from None
    try:
        found = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
        _check_columns(folder, found, place)
    except (OSError, pa.ArrowInvalid):
        stream.close()
        raise LandingError(
            f"{place} is no whole file of Parquet", next_step="Have it written again"
        ) from None
    except LandingError:
        stream.close()
        raise
    return found


def _check_columns(folder: ParquetFolder, file: pq.ParquetFile, place: str) -> None:
    own = sorted({name.lower() for name in file.schema_arrow.names} & IN_RAW)
    if own:
        raise LandingError(
            f"{place} has {own[0]}, as only a mirror's own files have: columns that its contract "
            "hides would reach models",
            next_step="Read the clean table instead, by its own name",
        )
    for wanted in folder.in_files:
        words = _unlike(file, wanted)
        if words:
            raise LandingError(
                f"{place}: column {wanted.name} {words}",
                next_step="Declare it as it is, or have the file written again",
            )


def _unlike(file: pq.ParquetFile, wanted: pa.Field) -> str:
    """What is wrong with a column of a file; nothing of one that has values of the wanted type."""
    schema = file.schema_arrow
    if schema.names.count(wanted.name) != 1:
        return "is missing" if wanted.name not in schema.names else "is there twice"
    kind: Any = schema.field(wanted.name).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    is_time = pa.types.is_timestamp(kind)
    # Spark's own form of a moment is written as if it had no zone.
    is_moment = is_time and (kind.tz is not None or _is_int96(file, wanted.name))
    if is_moment and wanted.type == _INSTANT:
        return ""
    if not is_moment and (_is_same(kind, wanted.type) or kind in _ALIKE.get(wanted.type, ())):
        return ""
    return f"is {'a moment' if is_moment else kind} in the file, and not {wanted.type}"


def _is_same(kind: Any, wanted: Any) -> bool:
    """Whether two types are one, whatever elements are called, and whether they may be NULL."""
    for is_nested in (pa.types.is_list, pa.types.is_map, pa.types.is_struct):
        if is_nested(kind) and is_nested(wanted):
            pairs = [kind.field(n) for n in range(kind.num_fields)]
            others = [wanted.field(n) for n in range(wanted.num_fields)]
            same_names = [one.name for one in pairs] == [one.name for one in others]
            return (
                len(pairs) == len(others)
                and (same_names or not pa.types.is_struct(kind))
                and all(_is_same(a.type, b.type) for a, b in zip(pairs, others, strict=True))
            )
    return kind == wanted


def _is_int96(file: pq.ParquetFile, name: str) -> bool:
    footer: Any = file.schema
    found = [footer.column(number) for number in range(len(footer))]
    return any(one.path == name and one.physical_type == "INT96" for one in found)


def parquet_frame(
    session: Any, table: str, ddl: str, folder: ParquetFolder, files: Sequence[ParquetFile]
) -> DataFrame:
    """The rows of some files, each read by one task.

    Args:
        ddl: the columns in Spark's words.
    """
    with spark_errors(table):
        if not files:
            return session.createDataFrame([], ddl)
        return file_tasks(session, len(files)).mapInArrow(_reader(folder, tuple(files)), ddl)


def _reader(folder: ParquetFolder, files: tuple[ParquetFile, ...]) -> Any:
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                with carried():
                    yield from read_rows(folder, files[number])

    return read


def read_rows(folder: ParquetFolder, file: ParquetFile) -> Iterator[pa.RecordBatch]:
    """The rows of a file, in batches.

    Raises:
        LandingError: see `check_files`; or a value is none of its column's type, or is NULL and may
            not be.
    """
    place = folder.store.describe(file.path)
    with _opened(folder, file) as found:
        try:
            for batch in found.iter_batches(_BATCH_ROWS, columns=[f.name for f in folder.in_files]):
                yield _as_wanted(folder, file, batch)
        except (OSError, pa.ArrowInvalid):
            # Not chained: Arrow quotes values.
            raise LandingError(
                f"{place} is damaged, or has a value that its column can't hold exactly",
                next_step="Have it written again",
            ) from None


def _as_wanted(folder: ParquetFolder, file: ParquetFile, batch: pa.RecordBatch) -> pa.RecordBatch:
    arrays: list[Any] = []
    for field in folder.in_files:
        values: Any = batch.column(field.name)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_timestamp(values.type) and values.type.tz is None and field.type == _INSTANT:
            values = values.cast(pa.timestamp("us"), safe=True)
        arrays.append(values.cast(field.type, safe=True))
    for field, value in zip(folder.partitions, file.values, strict=True):
        arrays.append(pa.array([value] * batch.num_rows, field.type))
    for field, array in zip(folder.columns, arrays, strict=True):
        if field.name in folder.needed and array.null_count:
            raise LandingError(
                f"{folder.store.describe(file.path)}: column {field.name} is NULL, and is declared "
                "without NULL",
                next_step="Declare it `nullable: true`, or have the file written again",
            )
    return pa.RecordBatch.from_arrays(arrays, schema=folder.columns)
