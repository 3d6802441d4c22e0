"""Files that a power cut can't take back: on a local disk they are flushed to it when they are
closed.

The catalog and the ledger are databases that flush what they commit. A table's metadata and data
are plain files, which the system writes to the disk when it likes: after a power cut the catalog
could name files that are empty or not there. So what is written through PyIceberg, and every data
file of a load, is on the disk before the catalog names it. What Spark writes is flushed right after
its commit (`flush_commits`). Object stores keep what they have acknowledged by themselves.

Source: fsync(2), on files and on the folders that name them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyarrow.fs import GcsFileSystem
from pyiceberg.io import OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import ancestors_of

from mirrorlake.destinations.iceberg.manifests import entries_of, manifests_of
from mirrorlake.destinations.iceberg.storage.cloud_client import in_cloud_storage, open_store
from mirrorlake.destinations.iceberg.storage.stored_files import (
    READ_WHOLE,
    StoredInput,
    StoredOutput,
)
from mirrorlake.errors import LakeError

_FLUSHED_AT_ONCE = 16
_WORTH_THREADS = 3
"""Starting threads takes longer than flushing fewer files one after the other."""
IMPLEMENTATION = f"{__name__}.DurableFileIO"
"""What PyIceberg's property ``py-io-impl`` says."""
_NAMED: set[Path] = set()
"""Folders whose names this process flushed. One that is made again was not there just before."""


class DurableFileIO(PyArrowFileIO):
    """PyArrow's, whose local files are on the disk once they are closed, and which opens Cloud
    Storage as `open_store` does."""

    def _initialize_gcs_fs(self) -> GcsFileSystem:
        return open_store(self.properties)

    def new_output(self, location: str) -> Any:
        output = super().new_output(location)
        path = local_path(location)
        if path is not None:
            return _DurableOutput(output, path)
        return StoredOutput(output) if in_cloud_storage(location) else output

    def new_input(self, location: str) -> Any:
        found = super().new_input(location)
        whole = in_cloud_storage(location) and location.endswith(READ_WHOLE)
        return StoredInput(found) if whole else found


class _DurableOutput:
    """An output file: as the one it stands for, but for its streams."""

    def __init__(self, output: OutputFile, path: Path) -> None:
        self._output = output
        self._path = path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)

    def __len__(self) -> int:
        return len(self._output)

    def create(self, overwrite: bool = False) -> Any:
        folder = self._path.parent
        is_named = folder in _NAMED and folder.exists()
        return DurableStream(self._output.create(overwrite=overwrite), self._path, is_named)


class DurableStream:
    """An output stream that is flushed to the disk when it is closed; ``native`` is PyArrow's.

    Args:
        is_named: whether the file's folder is on the disk under its name already.
    """

    def __init__(self, native: Any, path: Path, is_named: bool = False) -> None:
        self.native = native
        self._path = path
        self._is_named = is_named

    def __getattr__(self, name: str) -> Any:
        return getattr(self.native, name)

    def __enter__(self) -> DurableStream:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it, and return when it is on the disk, its name too."""
        if self.native.closed:
            return
        self.native.close()
        folder = self._path.parent
        for path in (self._path, folder, *([] if self._is_named else [folder.parent])):
            _flush(path)
        _NAMED.add(folder)


def native(stream: Any) -> Any:
    """The stream as PyArrow's writers take it without going through Python."""
    return stream.native if isinstance(stream, DurableStream) else stream


def local_path(location: str) -> Path | None:
    """The file that a location names on this machine; None where it is elsewhere."""
    scheme, _, path = PyArrowFileIO.parse_location(location)
    return Path(path) if scheme == "file" else None


def flush_files(paths: Iterable[Path]) -> None:
    """Return when files are on the disk, and the names by which they are found: their folders', and
    those folders' in the ones above. A file that is gone is left out.

    Many at once: the disk's journal is written for all that wait, not once for each.
    """
    files = set(paths)
    folders = {folder for path in files for folder in (path.parent, path.parent.parent)}
    # Files first: a name without what it names is of no use.
    if len(files) < _WORTH_THREADS:
        for path in (*files, *folders):
            _flush(path)
        return
    with ThreadPoolExecutor(_FLUSHED_AT_ONCE) as pool:
        for group in (files, folders):
            list(pool.map(_flush, group))


def _flush(path: Path) -> None:
    try:
        at = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(at)
    finally:
        os.close(at)


def flush_commits(table: Table | None, head: int | None, branch: str = MAIN_BRANCH) -> None:
    """Flush what the commits of a table's branch after snapshot ``head`` wrote (None: all of them):
    for a writer that does not do so by itself. Files that a later commit replaced may be gone.

    What dead runs left on other branches is not looked at: it may be what a power cut left of it.
    """
    if table is None or local_path(table.metadata_location) is None:
        return
    before = table.snapshot_by_id(head) if head is not None else None
    number = (before.sequence_number or 0) if before is not None else 0
    named = [table.metadata_location]
    for snapshot in ancestors_of(table.snapshot_by_name(branch), table.metadata):
        if (snapshot.sequence_number or 0) <= number:
            continue
        named.append(snapshot.manifest_list)
        for manifest in manifests_of(table.io, snapshot):
            if manifest.added_snapshot_id != snapshot.snapshot_id:
                continue
            named.append(manifest.manifest_path)
            for entry in entries_of(table.io, manifest):
                if entry.status == ManifestEntryStatus.ADDED:
                    named.append(entry.data_file.file_path)
    flush_files(path for path in map(local_path, named) if path is not None)


def make_warehouse(folder: Path) -> None:
    """See that a lake's folder is there, and may be written.

    Raises:
        LakeError: it can't be made, or written.
    """
    probe = folder / ".mirrorlake-can-write"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink(missing_ok=True)  # another run that starts now tries the same file
    except OSError as error:
        raise LakeError(
            f"the lake's folder {folder} can't be written: {error.strerror}",
            next_step="Make it writable, or set lake.warehouse to another place",
        ) from error
