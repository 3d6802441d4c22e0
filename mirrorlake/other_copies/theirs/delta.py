"""Delta: a table's folder, read by the package `deltalake`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mirrorlake.errors import LakeError, ReaderMissing
from mirrorlake.other_copies.theirs.streamed import put_aside
from mirrorlake.other_copies.theirs.table import TheirRows
from mirrorlake.runtime.extras import library


@dataclass(frozen=True)
class DeltaFolder:
    """A table in a folder."""

    name: str
    folder: Path
    schema: str = ""

    @property
    def place(self) -> str:
        return f"Delta, {self.folder}"

    def open(self, database: Any, folder: Path) -> TheirRows:
        """See `TheirTable.open`.

        Raises:
            ReaderMissing: the package is not installed.
        """
        deltalake = library("deltalake", "delta", f"the Delta table {self.folder}", ReaderMissing)
        try:
            table = deltalake.DeltaTable(str(self.folder))
            builder = deltalake.QueryBuilder().register("theirs", table)
            found = pa.RecordBatchReader.from_stream(builder.execute("SELECT * FROM theirs"))
            version = f"version {table.version()}"
            return put_aside(database, folder, _plain(found.schema), found, version)
        except (OSError, ValueError, RuntimeError, deltalake.exceptions.DeltaError) as error:
            raise LakeError(
                f"{self.folder} can't be read as a Delta table: {str(error).splitlines()[0]}",
                next_step="See that its files and its _delta_log are whole, and that it uses no "
                "feature which the package deltalake does not read",
            ) from error


def _plain(schema: pa.Schema) -> pa.Schema:
    """The same columns in types that Parquet has."""
    views = {pa.string_view(): pa.string(), pa.binary_view(): pa.binary()}
    return pa.schema([field.with_type(views.get(field.type, field.type)) for field in schema])


def is_delta(folder: Path) -> bool:
    """Whether a folder is a Delta table."""
    return (folder / "_delta_log").is_dir()
