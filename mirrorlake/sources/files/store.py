"""Where files land: a local folder, ``gs://`` or ``s3://``, behind four questions.

A store is small and can be pickled: workers open it anew, with the login of their own machine.
It never writes; `mirrorlake.sources.files.sinks` writes.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from mirrorlake.config import LandingConfig
from mirrorlake.errors import LandingClosed, LandingError


@dataclass(frozen=True)
class Entry:
    """A file of a folder.

    Attributes:
        version: what tells this content from another one under the same name, as far as the store
            says it without reading: size and times of a local file, a bucket's generation or ETag.
        digest: the digest that the store keeps of the content (``md5:…``); '' where it keeps none.
    """

    name: str
    bytes: int
    version: str
    digest: str = ""


Wanted = Callable[[str], bool]
"""Whether more than its name is asked of a file."""


class Store(Protocol):
    """What is asked of a landing. Paths are relative to it, with ``/`` between names."""

    def describe(self, path: str) -> str:
        """The path as a person would look for it."""
        ...

    def folders(self, path: str, first: str) -> list[str]:
        """The names of a folder's folders from ``first`` on, sorted; none where it is not there."""
        ...

    def files(self, path: str, wanted: Wanted) -> Iterator[Entry]:
        """The wanted files of a folder, in no order; none where it is not there."""
        ...

    def entry(self, path: str) -> Entry | None:
        """One file; None where it is not there."""
        ...

    def open(self, path: str, version: str | None = None) -> BinaryIO:
        """A file from its beginning, of that version if one is asked for.

        Raises:
            LandingError: it is not there any more, is another one now, or may not be read.
        """
        ...


def open_store(landing: LandingConfig) -> Store:
    """The store of a landing; nothing is connected yet.

    Raises:
        LandingError: the folder is not there, or the store's library is not installed.
    """
    if landing.url.startswith("gs://"):
        from mirrorlake.sources.files.buckets import GcsStore

        return GcsStore(landing.url, landing.endpoint)
    if landing.url.startswith("s3://"):
        from mirrorlake.sources.files.buckets import S3Store

        return S3Store(landing.url, landing.endpoint)
    return FolderStore(landing.url)


@dataclass(frozen=True)
class FolderStore:
    """A folder of this machine, or one that every worker sees under the same path."""

    root: str

    def describe(self, path: str) -> str:
        return str(Path(self.root, path))

    def folders(self, path: str, first: str) -> list[str]:
        with self._translated(path):
            try:
                with os.scandir(self._at(path)) as found:
                    return sorted(e.name for e in found if e.name >= first and e.is_dir())
            except FileNotFoundError:
                self._root_is_there()
                return []

    def files(self, path: str, wanted: Wanted) -> Iterator[Entry]:
        with self._translated(path):
            try:
                with os.scandir(self._at(path)) as found:
                    entries = [e for e in found if wanted(e.name)]
            except FileNotFoundError:
                self._root_is_there()
                return
        for entry in entries:
            with self._translated(f"{path}/{entry.name}"):
                try:
                    told = entry.stat()
                except FileNotFoundError:
                    continue  # renamed or removed since it was listed
            if modes.S_ISREG(told.st_mode):
                yield Entry(entry.name, told.st_size, _version(told))

    def entry(self, path: str) -> Entry | None:
        with self._translated(path):
            try:
                told = self._at(path).stat()
            except FileNotFoundError:
                return None
        return Entry(Path(path).name, told.st_size, _version(told))

    def open(self, path: str, version: str | None = None) -> BinaryIO:
        with self._translated(path):
            try:
                stream = self._open(path)
            except FileNotFoundError as error:
                raise gone(self.describe(path)) from error
        if version is not None and _version(os.fstat(stream.fileno())) != version:
            stream.close()
            raise changed(self.describe(path))
        return stream

    def _open(self, path: str) -> BinaryIO:
        """A regular file inside the landing: a link may lead to another file of it, never out of
        it, whoever can write there."""
        place = Path(os.path.realpath(self._at(path), strict=True))
        if not place.is_relative_to(os.path.realpath(self.root)):
            raise not_read(self.describe(path), "it is a link that leads out of the landing")
        # What is not there to be read, like a pipe, would be waited for.
        number = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        if not modes.S_ISREG(os.fstat(number).st_mode):
            os.close(number)
            raise not_read(self.describe(path), "it is no file")
        return os.fdopen(number, "rb")

    def _at(self, path: str) -> Path:
        return Path(self.root, path)

    def _root_is_there(self) -> None:
        """A landing that isn't there (a disk that is not mounted) is not an empty one."""
        if not Path(self.root).is_dir():
            raise LandingError(
                f"there is no landing folder {self.root}",
                next_step="Make it, mount it, or correct landing.url",
                retryable=True,
            )

    def _translated(self, path: str) -> _Translated:
        return _Translated(self, path)


def _version(told: os.stat_result) -> str:
    return f"{told.st_size}-{told.st_mtime_ns}-{told.st_ino}"


class _Translated:
    """What the file system says, in our words; those are found only where they are needed, for
    100,000 files are asked for one by one."""

    def __init__(self, store: FolderStore, path: str) -> None:
        self._store, self._path = store, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            denied = error.errno in (errno.EACCES, errno.EPERM)
            place = self._store.describe(self._path)
            raise refused(place, error.strerror or str(error), denied=denied) from error


def gone(place: str) -> LandingError:
    """A file that was listed is not there any more."""
    return LandingError(
        f"{place} is not there any more",
        next_step="Nothing of its snapshot was taken. Land the snapshot whole, under a new id",
    )


def changed(place: str) -> LandingError:
    """A file is not the one that was listed."""
    return LandingError(
        f"{place} was written again after its snapshot was taken for complete",
        next_step="Nothing of it was taken. Land what is new as another snapshot",
    )


def not_read(place: str, words: str) -> LandingError:
    """A file that we don't read, whoever would let us."""
    return LandingError(
        f"{place} is not read: {words}",
        next_step="Nothing of its snapshot was taken. Put the file itself there",
    )


def refused(place: str, words: str, *, denied: bool) -> LandingError:
    """The store would not answer."""
    if denied:
        step = "Give whoever runs Mirrorlake the right to list and to read it"
        return LandingClosed(f"{place} can't be read: {words}", next_step=step)
    return LandingError(
        f"{place} can't be read: {words}",
        next_step="See that the store can be reached, then try again",
        retryable=True,
    )
