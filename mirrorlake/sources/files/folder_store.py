"""A folder as a store."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

from mirrorlake.errors import LandingError
from mirrorlake.sources.files.store import (
    Entry,
    Wanted,
    already_there,
    changed,
    gone,
    not_read,
    refused,
    unwritten,
)


@dataclass(frozen=True)
class FolderStore:
    """A folder of this machine, or one that every worker sees under the same path. Reading from a
    folder that is not there fails; writing makes it."""

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
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # renamed or removed since it was listed
            if modes.S_ISREG(status.st_mode):
                yield _entry(entry.name, status)

    def entry(self, path: str) -> Entry | None:
        with self._translated(path):
            try:
                status = self._at(path).stat()
            except FileNotFoundError:
                return None
        return _entry(Path(path).name, status)

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

    def names(self, folder: str) -> list[str]:
        with self._writing(folder):
            place = Path(self.root, folder)
            return [one.name for one in place.iterdir()] if place.is_dir() else []

    @contextmanager
    def create(self, path: str, *, replace: bool = False) -> Iterator[BinaryIO]:
        place = Path(self.root, path)
        draft = place.with_name(f".{place.name}.tmp" if replace else f"{place.name}.tmp")
        with self._writing(path):
            place.parent.mkdir(parents=True, exist_ok=True)
            if not replace and place.exists():
                raise already_there(self.describe(path))
            # What lies there is a dead run's, or a link that somebody planted: not written through.
            draft.unlink(missing_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            stream = os.fdopen(os.open(draft, flags, 0o666), "wb")
        try:
            with stream:
                yield cast(BinaryIO, stream)
                with self._writing(path):
                    stream.flush()
                    # Else a power cut could leave a manifest whose files are empty.
                    os.fsync(stream.fileno())
            with self._writing(path):
                draft.replace(place) if replace else _name(draft, place)
                _sync_folder(place.parent)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def remove(self, path: str) -> None:
        with self._writing(path):
            Path(self.root, path).unlink(missing_ok=True)

    def _open(self, path: str) -> BinaryIO:
        """A regular file inside the landing: a link may lead to another file of it, never out of
        it, even one that somebody with access placed there."""
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

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            raise already_there(self.describe(path)) from error
        except OSError as error:
            raise unwritten(self.describe(path), error.strerror or str(error)) from error


def _entry(name: str, status: os.stat_result) -> Entry:
    changed_at = datetime.fromtimestamp(status.st_mtime, UTC)
    return Entry(name, status.st_size, _version(status), changed_at=changed_at)


def _version(status: os.stat_result) -> str:
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


class _Translated:
    """What the file system says, in our words; those are found only where they are needed, for
    100,000 files are looked up one by one."""

    def __init__(self, store: FolderStore, path: str) -> None:
        self._store, self._path = store, path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, OSError) and not isinstance(error, FileNotFoundError):
            denied = error.errno in (errno.EACCES, errno.EPERM)
            place = self._store.describe(self._path)
            raise refused(place, error.strerror or str(error), denied=denied) from error


def _name(draft: Path, place: Path) -> None:
    """Give a draft its name, unless somebody else has it: a rename would replace theirs."""
    try:
        os.link(draft, place)
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        draft.replace(place)
        return
    draft.unlink()


def _sync_folder(folder: Path) -> None:
    number = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some file systems can't
            os.fsync(number)
    finally:
        os.close(number)
