"""The files that a table's storage lists, whether a snapshot names them or not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO

from mirrorlake.destinations.iceberg.model import LakeTable, Storage
from mirrorlake.errors import LakeError


@dataclass(frozen=True)
class ListedFile:
    """A file as its storage lists it.

    Attributes:
        path: its name there, as `listed_path` has it; without a scheme.
        bytes: its size.
        written: when it was last written, by the storage's clock.
    """

    path: str
    bytes: int
    written: datetime


@dataclass(frozen=True)
class ListedFolder:
    """The files below a folder, when it was listed. A folder that is not there has none."""

    files: tuple[ListedFile, ...]
    _store: fs.FileSystem

    def remove(self, file: ListedFile) -> None:
        """Remove a file.

        Raises:
            OSError: it can't be removed.
        """
        self._store.delete_file(file.path)


def list_files(table: LakeTable, folder: str) -> ListedFolder:
    """The files below a folder of a table, by the storage that the table's own files are read from.

    Raises:
        LakeError: that storage can't list.
        OSError: it failed.
    """
    return list_folder(table.io, folder, ".".join(table.name()))


def list_folder(io: Storage, folder: str, name: str) -> ListedFolder:
    """`list_files` of a folder that may be no table's any more.

    Args:
        name: of the table that it is, or was.
    """
    if not isinstance(io, PyArrowFileIO):
        raise LakeError(
            f"lake table {name}: its storage can't list files",
            table=name,
            next_step="Leave py-io-impl out of lake.catalog.properties; nothing was removed",
        )
    scheme, bucket, _ = PyArrowFileIO.parse_location(folder, io.properties)
    store: fs.FileSystem = io.fs_by_scheme(scheme, bucket)
    selector = fs.FileSelector(listed_path(folder), recursive=True, allow_not_found=True)
    found = (info for info in store.get_file_info(selector) if info.type == fs.FileType.File)
    return ListedFolder(tuple(ListedFile(i.path, i.size, i.mtime) for i in found), store)


def listed_path(location: str) -> str:
    """A file's name as its storage lists it: as it is written, without the scheme.

    >>> listed_path("file:///srv/lake/a%2Fb c"), listed_path("gs://bucket/lake/a%2Fb c")
    ('/srv/lake/a%2Fb c', 'bucket/lake/a%2Fb c')
    """
    if location.startswith("file:"):  # a raw path follows, which need not be a valid URI
        return "/" + location.removeprefix("file:").lstrip("/")
    return PyArrowFileIO.parse_location(location)[2]
