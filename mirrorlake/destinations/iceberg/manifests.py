"""Reading manifests, and the lists of them; one that is cut is named.

Source: the Iceberg specification, "Manifests", "Manifest Lists".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyiceberg.exceptions import RESTError
from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestEntry, ManifestFile
from pyiceberg.table.snapshots import Snapshot

_Read = TypeVar("_Read")


class ManifestCut(OSError):
    """A file of a lake table's metadata that is cut, or is none of its kind.

    Attributes:
        path: the file.
        what: what is wrong with it, in words that follow the path.
    """

    what = "is cut, or is no manifest"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} {self.what}")
        self.path = path


def manifests_of(io: FileIO, snapshot: Snapshot | None) -> list[ManifestFile]:
    """The manifests that a version names; none of no version.

    Raises:
        FileNotFoundError: their list is not there.
        ManifestCut: their list is cut.
        OSError: the storage does not give it.
    """
    if snapshot is None:
        return []
    return _read(snapshot.manifest_list, lambda: snapshot.manifests(io))


def entries_of(io: FileIO, manifest: ManifestFile, *, live: bool = True) -> list[ManifestEntry]:
    """The entries of a manifest, one for each file.

    Args:
        live: whether those of files that the version no longer has are left out.

    Raises:
        FileNotFoundError: it is not there.
        ManifestCut: it is cut.
        OSError: the storage does not give it.
    """
    return _read(
        manifest.manifest_path, lambda: manifest.fetch_manifest_entry(io, discard_deleted=live)
    )


def _read(path: str, read: Callable[[], list[_Read]]) -> list[_Read]:
    try:
        return read()
    except (OSError, MemoryError, RESTError):
        raise
    except Exception as error:
        # Bytes that are cut make a decoder raise anything: of Unicode, of a length, of an index.
        raise ManifestCut(path) from error
