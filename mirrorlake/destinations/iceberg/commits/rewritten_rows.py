"""A small table's rows, read as a whole and written as a whole, in this process.

Nothing is converted on the way: rows are Arrow's, in the table's own types, and those that stay are
written as they were read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.io.pyarrow import (
    _dataframe_to_data_files,  # pyright: ignore[reportPrivateUsage] (what `append` writes by)
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata

from mirrorlake.destinations.base import EVERY_ROW, MAIN, Condition, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.commits.commit import head_shown, remove_files
from mirrorlake.destinations.iceberg.commits.copied_files import (
    COPIED,
    FilesReplaced,
    conflict,
    replace_files,
)
from mirrorlake.destinations.iceberg.reading.stream import read_rows
from mirrorlake.errors import CommitUnknown
from mirrorlake.failpoints import failpoint

_ROW_GROUP = TableProperties.PARQUET_ROW_GROUP_SIZE_BYTES


@dataclass(frozen=True)
class HeldFiles:
    """A table and the files of the version that it was loaded at."""

    table: Table
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.file_size_in_bytes for file in self.files)


def held_files(lake: Connection, table: Table) -> HeldFiles | None:
    """The files of an unpartitioned table; None where it has partitions, or rows of its files were
    deleted beside them, which no commit of whole files takes away.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    if not table.spec().is_unpartitioned():
        return None
    with lake.translated(".".join(table.name())):
        tasks = list(table.scan().plan_files())
    if any(task.delete_files for task in tasks):
        return None
    return HeldFiles(table, tuple(task.file for task in tasks))


def read_whole(
    lake: Connection, table: Table, columns: list[str], rows: Condition = EVERY_ROW
) -> pa.Table:
    """These columns of a table's rows, in its types.

    Raises:
        LakeError: the catalog or the storage failed.
    """
    fields = schema_to_pyarrow(table.schema(), include_field_ids=False)
    schema = pa.schema([fields.field(name) for name in columns])
    batches = read_rows(lake, table, columns, rows, None)
    found = [pa.Table.from_batches([batch]).select(columns).cast(schema) for batch in batches]
    return pa.concat_tables(found) if found else schema.empty_table()


def rewrite_rows(
    lake: Connection,
    held: HeldFiles,
    rows: pa.Table,
    identifier: Identifier,
    at: int | None,
    properties: Mapping[str, str],
    branch: str = MAIN,
) -> None:
    """Make a table hold these rows and no others, in one commit.

    Args:
        held: what it holds.
        rows: in its columns and types.
        at: its snapshot by which that was decided, None for an empty table.
        properties: of the new snapshot.
        branch: that it is written on, and that ``at`` is the head of.

    Raises:
        CommitConflict: the table is not at ``at`` any more; nothing of this is visible.
        CommitUnknown: nobody said whether it was made; the files stay.
        LakeError: the catalog or the storage failed; the table is as it was.
    """
    table, token = held.table, uuid.uuid4()
    if head_shown(table, branch) != at:
        raise conflict(identifier)
    files: list[DataFile] = []
    try:
        with lake.translated(identifier):
            if rows.num_rows:
                files.extend(_dataframe_to_data_files(_as_known(table), rows, table.io, token))
        failpoint("fold.rewritten")
        change = FilesReplaced(table, held.files, tuple(files))
        replace_files(lake, identifier, change, {**properties, COPIED: token.hex}, branch)
    except CommitUnknown:
        raise  # they may be the table's by now
    except BaseException:
        remove_files(table, [file.file_path for file in files])
        raise


def _as_known(table: Table) -> TableMetadata:
    """A table's metadata without what PyIceberg warns that it does not know: it writes row groups
    by rows, and these are few."""
    known = {k: v for k, v in table.properties.items() if k != _ROW_GROUP}
    return table.metadata.model_copy(update={"properties": known})
