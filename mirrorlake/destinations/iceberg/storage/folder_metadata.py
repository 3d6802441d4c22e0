"""The metadata files in a table's folder, whether the catalog names them or not.

A catalog that was lost, put back from a backup, or copied with its folder names less than the
folder holds. What the catalog does not know there may be the only way to rows that nobody has any
more, so nothing is removed from such a folder. What is left on purpose has a mark beside it
(`retire`), and what a failed commit left is recognised by its place right after the catalog's.

Source: Iceberg specification, "Table Metadata Fields".
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV1

from mirrorlake.destinations.iceberg.model import Storage
from mirrorlake.destinations.iceberg.storage.listing import list_folder, listed_path
from mirrorlake.errors import LakeError

RETIRED, RENAMED = ".retired", ".renamed"
"""How the name of a file ends that marks a table, by its uuid: as one that we took away, or that
has another name now, so that its files stay beside its successor's."""
MARKS = (RETIRED, RENAMED)
_OURS = "mirrorlake."
_METADATA = (".metadata.json", ".metadata.json.gz")


@dataclass(frozen=True)
class FolderMetadata:
    """A metadata file.

    Attributes:
        path: where it is.
        uuid: of the table that it is about.
        sequence: the number of the table's last commit; 0 of a table without any.
        after: the metadata file that it replaced, as its storage lists it; None of a table's first.
        location: the table's folder, as it is written there.
        updated: when it was written, in milliseconds.
        properties: the table's.
        renamed: whether the table has another name than its folder.
        may_be_ours: whether its newest version may be of a run of ours that died: it has a property
            of ours, or is of an operation that Spark gives none.
    """

    path: str
    uuid: str
    sequence: int
    after: str | None
    location: str = ""
    updated: int = 0
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    renamed: bool = False
    may_be_ours: bool = True


def refuse_unknown_metadata(table: Table) -> str | None:
    """See that no metadata in a table's folder says more than the catalog does. A metadata file of
    a table that was there and has another name now, if there is one: then no file in the folder is
    an orphan, for it may be that table's, even if nothing names that any more.

    Raises:
        LakeError: the folder has metadata of another table, or newer metadata of this one.
        OSError: the storage failed.
    """
    beside: str | None = None
    for found in _unknown(table):
        another = found.uuid != str(table.metadata.table_uuid)
        if another and found.renamed:
            beside = found.path
            continue
        if another:
            raise _refused(table, found, "is of another table, which the catalog does not know")
        newer = found.sequence > last_sequence(table)
        # Right after the catalog's: a commit that was being made when its run died.
        died = found.may_be_ours and found.after == listed_path(table.metadata_location)
        if newer and not died:
            raise _refused(table, found, "is newer than what the catalog names")
    return beside


def last_sequence(table: Table) -> int:
    """The number of a table's last commit; of format 1, which counts none, how many there are."""
    metadata = table.metadata
    if isinstance(metadata, TableMetadataV1):
        return len(metadata.snapshots)
    return metadata.last_sequence_number


def retire(table: Table) -> None:
    """Write down in a table's folder that the table is taken away on purpose: maintenance may then
    remove what only its metadata names."""
    mark(table.io, table.location(), [str(table.metadata.table_uuid)], RETIRED)


def mark(io: Storage, location: str, uuids: Iterable[str], how: str) -> None:
    """Write one of `MARKS` into a folder, for tables that are, or were, in it."""
    for uuid in sorted(set(uuids)):
        with io.new_output(f"{location}/metadata/{uuid}{how}").create(overwrite=True) as stream:
            stream.write(b"{}")


def read_folder(io: Storage, location: str, name: str) -> list[FolderMetadata]:
    """What the metadata files in a table's folder say, whether the catalog names them or not: those
    with commits that were not retired. One that can't be read is left out: a writer died over it.

    Raises:
        LakeError: the storage can't list.
        OSError: it failed.
    """
    folder = f"{location}/metadata"
    files = [file.path for file in list_folder(io, folder, name).files]
    prefix = folder.removesuffix(listed_path(folder))
    return read_files(io, [f"{prefix}{path}" for path in files])


def read_files(io: Storage, paths: Sequence[str]) -> list[FolderMetadata]:
    """`read_folder` of the files that one folder lists."""
    names = [path.rpartition("/")[2] for path in paths]
    retired, renamed = (
        {name.removesuffix(how) for name in names if name.endswith(how)} for how in MARKS
    )
    found: list[FolderMetadata] = []
    for path in paths:
        if path.endswith(_METADATA):
            with io.new_input(path).open(seekable=False) as stream:
                said = _parsed(path, stream.read())
            if said is not None and said.sequence and said.uuid not in retired:
                found.append(replace(said, renamed=said.uuid in renamed))
    return found


def _unknown(table: Table) -> Iterator[FolderMetadata]:
    """Metadata with commits that the catalog's does not come of, and that was not retired."""
    metadata = table.metadata
    named = {table.metadata_location, *(one.metadata_file for one in metadata.metadata_log)}
    known = {listed_path(path) for path in named}
    name = ".".join(table.name())
    return (
        found
        for found in read_folder(table.io, table.location(), name)
        if listed_path(found.path) not in known
    )


def _parsed(path: str, content: bytes) -> FolderMetadata | None:
    try:
        text = gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content
        said: dict[str, Any] = json.loads(text)
        log: list[dict[str, Any]] = said.get("metadata-log") or []
        # Of format 1 commits have no numbers: then their count stands for them.
        sequence = said.get("last-sequence-number") or len(said.get("snapshots") or ())
        return FolderMetadata(
            path=path,
            uuid=str(said["table-uuid"]),
            sequence=int(sequence),
            after=listed_path(str(log[-1]["metadata-file"])) if log else None,
            location=str(said.get("location", "")),
            updated=int(said.get("last-updated-ms", 0)),
            may_be_ours=_may_be_ours(said.get("snapshots") or ()),
            properties={str(k): str(v) for k, v in (said.get("properties") or {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError, EOFError, OSError):
        return None


def _may_be_ours(snapshots: Sequence[Mapping[str, Any]]) -> bool:
    newest = max(snapshots, key=lambda one: one.get("sequence-number", 0), default={})
    summary = newest.get("summary") or {}
    by_spark_alone = summary.get("operation") in ("delete", "replace")
    return by_spark_alone or any(str(name).startswith(_OURS) for name in summary)


def _refused(table: Table, found: FolderMetadata, what: str) -> LakeError:
    name = ".".join(table.name()[-2:])
    return LakeError(
        f"lake table {name}: nothing was removed from its folder: {found.path} {what}",
        table=name,
        next_step="If the catalog is an old copy, or was lost, put back the newest one, or run "
        "`mirrorlake lake find`; if another project uses this folder, give each its own "
        "lake.warehouse; if nobody needs that file, move it away",
    )
