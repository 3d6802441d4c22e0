"""Rows of one lake table that become rows of another as whole files, byte for byte.

Nothing is decoded. A data file says by field ids which of its columns is which, so both tables must
have the same ones (`mirrorlake.destinations.iceberg.tables.field_ids`). Columns of the file that
the table does not have are not read.

The copy belongs to the table alone: what becomes of the original file, by expiry or by damage, does
not concern it. Object stores copy by themselves; a local file's bytes are compared on the way with
the checksum that its writer recorded.

Source: Iceberg specification, "Column Projection", "Manifests".
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import index_by_id
from pyiceberg.table import CreateTableTransaction, Table
from pyiceberg.typedef import Record

from mirrorlake.destinations.base import MAIN, Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.commits.commit import head_shown, remove_files
from mirrorlake.destinations.iceberg.model import history, snapshot_property
from mirrorlake.destinations.iceberg.storage.durable import local_path, native
from mirrorlake.destinations.iceberg.tables.integrity import RAW_STEP
from mirrorlake.errors import CommitConflict, CommitUnknown, LakeDamaged
from mirrorlake.failpoints import failpoint
from mirrorlake.runtime.at_once import map_at_once

COPIED = "mirrorlake.copied"
"""On a commit that replaced all of a table's files: a unique token, to find the commit by."""
_BLOCK = 4 * 2**20
_AT_ONCE = 2
_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


@dataclass(frozen=True)
class CopiedFiles:
    """What a table is to hold in place of its own files.

    Attributes:
        source, target: the tables, as they were loaded when this was decided.
        files: of the source, each with the SHA-256 that it must have, in hexadecimal.
        held: the target's own.
        creation: what makes the target, where it is not there yet.
    """

    source: Table
    target: Table
    files: tuple[tuple[DataFile, str], ...]
    held: tuple[DataFile, ...]
    creation: CreateTableTransaction | None = None


def copy_rows(
    lake: Connection,
    copied: CopiedFiles,
    identifier: Identifier,
    at: int | None,
    properties: Mapping[str, str],
    branch: str = MAIN,
) -> int:
    """Make a table hold exactly the rows of another table's files, in one commit; how many bytes
    were copied.

    Args:
        identifier: the target's name.
        at: the target's snapshot by which it was decided to write it, None for an empty table.
        properties: of the new snapshot.
        branch: that it is written on, and that ``at`` is the head of.

    Raises:
        CommitConflict: the table is not at ``at`` any more; nothing of this is visible.
        CommitUnknown: nobody said whether it was made; the copies stay.
        LakeDamaged: a file is not what its writer recorded.
        LakeError: the catalog or the storage failed; the table is as it was.
    """
    target, token = copied.target, uuid.uuid4().hex
    if head_shown(target, branch) != at:
        raise conflict(identifier)
    begun: list[str] = []

    def copy(number: int) -> str:
        path = f"{target.location()}/data/{token}-{number}.parquet"
        begun.append(path)
        _copy(copied.source, *copied.files[number], path)
        return path

    try:
        with lake.translated(identifier):
            paths = map_at_once(copy, range(len(copied.files)), _AT_ONCE, "copy")
        failpoint("fold.copied")
        originals = (file for file, _ in copied.files)
        files = [_as_of(target, *pair) for pair in zip(originals, paths, strict=True)]
        change = FilesReplaced(target, copied.held, tuple(files), copied.creation)
        replace_files(lake, identifier, change, {**properties, COPIED: token}, branch)
    except CommitUnknown:
        raise  # they may be the table's by now
    except BaseException:
        remove_files(target, begun)
        raise
    return sum(file.file_size_in_bytes for file, _ in copied.files)


@dataclass(frozen=True)
class FilesReplaced:
    """Data files that take the place of all of a table's.

    Attributes:
        target: the table, as it was loaded when this was decided.
        held: its files.
        files: those that take their place; they are in its folder.
        creation: what makes the target, where it is not there yet.
    """

    target: Table
    held: tuple[DataFile, ...]
    files: tuple[DataFile, ...]
    creation: CreateTableTransaction | None = None


def replace_files(
    lake: Connection,
    identifier: Identifier,
    change: FilesReplaced,
    properties: Mapping[str, str],
    branch: str,
) -> None:
    """Make the commit by which a table holds these files and no others.

    Args:
        properties: of the new snapshot; what `COPIED` names must be of this commit alone.

    Raises:
        CommitConflict: the table was changed since it was loaded; nothing of this is visible.
        CommitUnknown: nobody said whether it was made.
        LakeError: the catalog or the storage failed; the table is as it was.
    """

    def landed() -> bool:
        table = lake.load(identifier)
        head = head_shown(table, branch) if table is not None else None
        return table is not None and any(
            snapshot_property(one, COPIED) == properties[COPIED] for one in history(table, head)
        )

    with (
        lake.committing(identifier, landed, lambda: conflict(identifier)),
        change.creation or change.target.transaction() as transaction,
    ):
        update = transaction.update_snapshot({**properties}, branch=branch)
        producer = update.overwrite() if change.held else update.fast_append()
        for file in change.held:
            producer.delete_data_file(file)
        for file in change.files:
            producer.append_data_file(file)
        producer.commit()


def _copy(source: Table, file: DataFile, checksum: str, path: str) -> None:
    """Copy one file of the lake to another place of the same storage."""
    io = source.io
    if isinstance(io, PyArrowFileIO) and local_path(path) is None:
        scheme, netloc, start = io.parse_location(file.file_path)
        _, _, end = io.parse_location(path)
        io.fs_by_scheme(scheme, netloc).copy_file(start, end)
        return
    read = hashlib.sha256()
    with (
        io.new_input(file.file_path).open(seekable=False) as stream,
        io.new_output(path).create() as sink,
    ):
        while block := stream.read(_BLOCK):
            read.update(block)
            native(sink).write(block)
    if read.hexdigest() != checksum:
        name = ".".join(source.name()[-2:])
        raise LakeDamaged(
            f"lake table {name}: {file.file_path} has other bytes than its load wrote",
            table=name,
            next_step=RAW_STEP,
        )


def _as_of(target: Table, file: DataFile, path: str) -> DataFile:
    """A copied file as the table's manifest names it: what it says of columns that the table has
    not is left out."""
    ids = set(index_by_id(target.schema()))

    def known(name: str) -> Any:
        found = getattr(file, name)
        return None if found is None else {k: v for k, v in found.items() if k in ids}

    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.record_count,
        file_size_in_bytes=file.file_size_in_bytes,
        split_offsets=file.split_offsets,
        sort_order_id=None,
        equality_ids=None,
        key_metadata=None,
        spec_id=target.metadata.default_spec_id,
        **{name: known(name) for name in (*_COUNTS, *_BOUNDS)},
    )


def table_to_make(creation: CreateTableTransaction) -> Table:
    """The table that this makes, as it will be before its first rows."""
    staged = creation._table  # pyright: ignore[reportPrivateUsage]
    metadata = creation.table_metadata
    return Table(staged.name(), metadata, staged.metadata_location, staged.io, staged.catalog)


def conflict(identifier: Identifier) -> CommitConflict:
    """What to raise where a table is not as it was when it was decided to write it."""
    return CommitConflict(
        f"lake table {identifier} was changed while its rows were written",
        table=str(identifier),
        next_step="Nothing of this is visible: sync again",
        retryable=True,
    )
