"""Parquet: a file, a folder of files (partitions in its folders' names too), or a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from mirrorlake.errors import LakeError
from mirrorlake.other_copies.their_columns import literal
from mirrorlake.other_copies.theirs.table import TheirRows, types_of
from mirrorlake.runtime.plural import plural

SUFFIXES = (".parquet", ".parq", ".pq")


@dataclass(frozen=True)
class ParquetTable:
    """Files of one table."""

    name: str
    base: Path
    files: tuple[Path, ...]
    schema: str = ""

    @property
    def place(self) -> str:
        return f"Parquet, {self.base}"

    def open(self, database: Any, folder: Path) -> TheirRows:
        """See `TheirTable.open`."""
        try:
            seen = _seen(self.files)
            files = _with_text_for_large_decimals(self.files, self.base, folder)
            relation = parquet_relation(files, partitioned=self._is_partitioned())
            columns = types_of(database, relation)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            raise LakeError(
                f"{self.base} can't be read as Parquet: {str(error).splitlines()[0]}",
                next_step="See that every file there is a whole Parquet file of this one table",
            ) from error
        changed = max(one.stat().st_mtime for one in self.files)
        when = f"{datetime.fromtimestamp(changed, UTC):%Y-%m-%d %H:%M:%S}"
        version = f"{plural(len(self.files), 'file')}, the newest written {when} UTC"
        return TheirRows(relation, columns, version, lambda: _seen(self.files) == seen)

    def _is_partitioned(self) -> bool:
        top = self.base if self.base.is_dir() else self.base.parent
        within = [one.relative_to(top).parts[:-1] for one in self.files if one.is_relative_to(top)]
        return any(re.fullmatch(r"[^=]+=.*", part) for parts in within for part in parts)


def _seen(files: Sequence[Path]) -> list[tuple[int, ...]]:
    """What tells that files are the ones that were looked at before."""
    try:
        found = [one.stat() for one in files]
    except FileNotFoundError:
        return []
    return [(one.st_ino, one.st_size, one.st_mtime_ns) for one in found]


def _with_text_for_large_decimals(
    files: Sequence[Path], base: Path, folder: Path
) -> Sequence[Path]:
    """The files, with decimals of more than 38 digits as text: DuckDB 1.5 makes other numbers of
    them."""
    large = {
        field.name
        for one in files
        for field in pq.read_schema(one)
        if pa.types.is_decimal256(field.type)
    }
    return [_copied(one, base, folder, large) for one in files] if large else files


def _copied(file: Path, base: Path, folder: Path, large: set[str]) -> Path:
    """A copy of a file, in the same partition, with some columns as text."""
    top = base if base.is_dir() else base.parent
    within = file.relative_to(top) if file.is_relative_to(top) else Path(file.name)
    copy = folder / "theirs" / within
    copy.parent.mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [
            field.with_type(pa.string()) if field.name in large else field
            for field in pq.read_schema(file)
        ]
    )
    with pq.ParquetFile(file) as source, pq.ParquetWriter(copy, schema) as writer:
        for batch in source.iter_batches():
            writer.write_table(pa.Table.from_batches([batch]).cast(schema))
    return copy


def parquet_relation(files: Sequence[Path], *, partitioned: bool = False) -> str:
    """SQL of the rows of files; columns are brought together by their names."""
    listed = ", ".join(literal(str(one)) for one in files)
    hive = str(partitioned).lower()
    # A partition's value is a text: 007 is not 7.
    types = ", hive_types_autocast=false" if partitioned else ""
    return f"read_parquet([{listed}], union_by_name=true, hive_partitioning={hive}{types})"


def parquet_files(folder: Path) -> list[Path]:
    """The Parquet files in a folder and those below it; hidden ones and a tool's notes (``_…``)
    are none."""
    found = (one for one in sorted(folder.rglob("*")) if one.suffix.lower() in SUFFIXES)
    return [
        one
        for one in found
        if one.is_file()
        and not any(
            part.startswith((".", "_")) and "=" not in part
            for part in one.relative_to(folder).parts
        )
    ]
