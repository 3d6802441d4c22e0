"""The files below a folder, here or in a bucket, by their names relative to it.

A file is there as a whole or not at all, on the disk before its name is seen. Where both folders
are on one file system a copy is a link; in one bucket's store the store copies by itself.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from urllib.parse import urlparse

from pyarrow import fs
from pyiceberg.io.pyarrow import PyArrowFileIO

from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.destinations.iceberg.storage.durable import IMPLEMENTATION, flush_files, local_path
from mirrorlake.destinations.iceberg.storage.folders import warehouse_uri
from mirrorlake.destinations.iceberg.storage.listing import listed_path
from mirrorlake.errors import LakeError

_PART = 8 << 20
_UNFINISHED = ".mirrorlake-part"
"""How the name of a file ends that is being written here."""


@dataclass(frozen=True)
class StoredFile:
    """A file: its size, and when it was last written."""

    bytes: int
    written: datetime


class FileStore:
    """The files below a folder.

    Args:
        root: a path on this machine, from here if it is relative, or a URI; by default the
            warehouse.
        config: the lake's, by whose properties its storage is opened.

    Raises:
        LakeError: there is no such kind of storage.
    """

    def __init__(self, config: LakeConfig, root: str | None = None) -> None:
        if root is not None and not urlparse(root).scheme:
            root = str(Path(root).absolute())
        self.root = warehouse_uri(config.warehouse if root is None else root)
        self.folder = local_path(self.root)
        properties = {"py-io-impl": IMPLEMENTATION, **config.catalog.properties}
        io = open_storage(properties, self.root)
        if not isinstance(io, PyArrowFileIO):
            raise LakeError(
                f"the storage of {self.root} can't list files",
                next_step="Leave py-io-impl out of lake.catalog.properties; nothing was written",
            )
        scheme, bucket, _ = PyArrowFileIO.parse_location(self.root, io.properties)
        self._store: fs.FileSystem = io.fs_by_scheme(scheme, bucket)
        self._path = listed_path(self.root)

    def list(self, below: str = "") -> dict[str, StoredFile]:
        """Every file, but what is being written; a folder that is not there has none."""
        at = f"{self._path}/{below}" if below else self._path
        selector = fs.FileSelector(at, recursive=True, allow_not_found=True)
        return {
            info.path.removeprefix(f"{self._path}/"): StoredFile(
                info.size or 0, info.mtime or datetime.now(UTC)
            )
            for info in self._store.get_file_info(selector)
            if info.type == fs.FileType.File and not info.path.endswith(_UNFINISHED)
        }

    def folders(self) -> list[str]:
        """The folders in it, by name; a folder that is not there has none."""
        selector = fs.FileSelector(self._path, allow_not_found=True)
        found = self._store.get_file_info(selector)
        return sorted(info.base_name for info in found if info.type == fs.FileType.Directory)

    def is_on_disk_of(self, other: FileStore) -> bool:
        """Whether a file of the other may be a link here: both are on one file system."""
        if self.folder is None or other.folder is None:
            return False
        here, there = (_existing(folder).stat() for folder in (self.folder, other.folder))
        return here.st_dev == there.st_dev

    def has_link_of(self, other: FileStore, name: str) -> bool:
        """Whether a file here and the other's are one file on the disk."""
        if self.folder is None or other.folder is None:
            return False
        return (self.folder / name).samefile(other.folder / name)

    def size(self, name: str) -> int | None:
        """A file's size; None where it is not there."""
        if self.folder is not None:
            try:
                return (self.folder / name).stat().st_size
            except FileNotFoundError:
                return None
        info = self._store.get_file_info([f"{self._path}/{name}"])[0]
        return info.size if info.type == fs.FileType.File else None

    def read(self, name: str) -> bytes:
        """A file's content.

        Raises:
            FileNotFoundError: it is not there.
        """
        if self.folder is not None:
            return (self.folder / name).read_bytes()
        with self._store.open_input_stream(f"{self._path}/{name}") as stream:
            return stream.read()

    def digest(self, name: str) -> str:
        """SHA-256 of a file's bytes, in hexadecimal."""
        found = hashlib.sha256()
        for part in self._parts(name):
            found.update(part)
        return found.hexdigest()

    def write(self, name: str, content: bytes) -> None:
        """Write a file, in place of what it was. A checksum that Hadoop wrote beside it goes."""
        if self.folder is None:
            with self._store.open_output_stream(f"{self._path}/{name}", compression=None) as out:
                out.write(content)
            return
        with _new(self.folder / name) as out:
            out.write(content)
        _put(self.folder / name)

    def take(self, source: FileStore, name: str, to: str | None = None, *, link: bool) -> bool:
        """Copy a file of another folder; whether it is a link.

        Args:
            to: its name here; by default the same.
            link: whether it may be a link, where that can be: of a file that never changes.

        Raises:
            FileNotFoundError: it is not there any more.
        """
        to = to or name
        if self.folder is not None and source.folder is not None:
            return _take_here(source.folder / name, self.folder / to, link=link)
        if self.folder is None and source.folder is None:
            if source.size(name) is None:
                raise FileNotFoundError(name)
            self._store.copy_file(f"{source._path}/{name}", f"{self._path}/{to}")
            return False
        if self.folder is not None:
            with _new(self.folder / to) as out:
                out.writelines(source._parts(name))
            _put(self.folder / to)
            return False
        with self._store.open_output_stream(f"{self._path}/{to}", compression=None) as sink:
            for part in source._parts(name):
                sink.write(part)
        return False

    def flush(self, names: Iterable[str]) -> None:
        """Return when these files are on the disk."""
        if self.folder is not None:
            flush_files([self.folder / name for name in names])

    def _parts(self, name: str) -> Iterator[bytes]:
        if self.folder is not None:
            with (self.folder / name).open("rb") as stream:
                while part := stream.read(_PART):
                    yield part
            return
        with self._store.open_input_stream(f"{self._path}/{name}") as stream:
            while part := stream.read(_PART):
                yield part


def _existing(folder: Path) -> Path:
    while not folder.exists():
        folder = folder.parent
    return folder


def _take_here(source: Path, path: Path, *, link: bool) -> bool:
    """Copy a file on this machine; whether it is a link."""
    part = _part(path)
    part.parent.mkdir(parents=True, exist_ok=True)
    part.unlink(missing_ok=True)
    if link:
        try:
            os.link(source, part)
        except FileNotFoundError:
            raise
        except OSError:
            link = False  # another file system, or one without links
    if not link:
        shutil.copyfile(source, part)
    part.replace(path)
    part.unlink(missing_ok=True)  # rename(2) leaves both names of one file as they are
    return link


def _part(path: Path) -> Path:
    return path.with_name(f".{path.name}{_UNFINISHED}")


def _new(path: Path) -> IO[bytes]:
    part = _part(path)
    part.parent.mkdir(parents=True, exist_ok=True)
    part.unlink(missing_ok=True)
    return part.open("wb")


def _put(path: Path) -> None:
    part = _part(path)
    flush_files([part])
    part.replace(path)
    with suppress(FileNotFoundError):
        path.with_name(f".{path.name}.crc").unlink()
    flush_files([path])
