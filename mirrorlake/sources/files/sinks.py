"""Where snapshots are written: a folder, ``gs://`` or ``s3://``. A file is there whole, or not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from mirrorlake.errors import LandingError
from mirrorlake.sources.files.buckets import GcsStore, S3Store
from mirrorlake.sources.files.store import refused

_PART_BYTES = 8 * 2**20


class Sink(Protocol):
    """What is asked of a place to write to. Paths are relative to it, with ``/`` between names."""

    def describe(self, path: str) -> str:
        """The path as a person would look for it."""
        ...

    def names(self, folder: str) -> list[str]:
        """The names of a folder's files, in no order."""
        ...

    @contextmanager
    def create(self, path: str, *, anew: bool = False) -> Iterator[BinaryIO]:
        """A file that is there when the block has ended well, and then only.

        Args:
            anew: whether one of this name may be there, and is replaced.

        Raises:
            LandingError: it is there already, or can't be written.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...


def open_sink(url: str, endpoint: str | None = None) -> Sink:
    """The place of a URL or folder; nothing is connected yet."""
    if url.startswith("gs://"):
        return GcsSink(GcsStore(url.rstrip("/"), endpoint))
    if url.startswith("s3://"):
        return S3Sink(S3Store(url.rstrip("/"), endpoint))
    return FolderSink(url)


@dataclass(frozen=True)
class FolderSink:
    """A folder of this machine; it is made if it is not there."""

    root: str

    def describe(self, path: str) -> str:
        return str(Path(self.root, path))

    def names(self, folder: str) -> list[str]:
        with self._translated(folder):
            place = Path(self.root, folder)
            return [one.name for one in place.iterdir()] if place.is_dir() else []

    @contextmanager
    def create(self, path: str, *, anew: bool = False) -> Iterator[BinaryIO]:
        place = Path(self.root, path)
        draft = place.with_name(f".{place.name}.tmp" if anew else f"{place.name}.tmp")
        with self._translated(path):
            place.parent.mkdir(parents=True, exist_ok=True)
            if not anew and place.exists():
                raise already_there(self.describe(path))
            stream = draft.open("wb")
        try:
            with stream:
                yield cast(BinaryIO, stream)
                with self._translated(path):
                    stream.flush()
                    # Else a power cut could leave a manifest whose files are empty.
                    os.fsync(stream.fileno())
            with self._translated(path):
                draft.replace(place) if anew else _name(draft, place)
                _sync_folder(place.parent)
        except BaseException:
            with suppress(OSError):
                draft.unlink(missing_ok=True)
            raise

    def remove(self, path: str) -> None:
        with self._translated(path):
            Path(self.root, path).unlink(missing_ok=True)

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            raise already_there(self.describe(path)) from error
        except OSError as error:
            raise _unwritten(self.describe(path), error.strerror or str(error)) from error


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


@dataclass(frozen=True)
class GcsSink:
    """A bucket of Google Cloud Storage; an object is there when its upload ends."""

    store: GcsStore

    def describe(self, path: str) -> str:
        return self.store.describe(path)

    def names(self, folder: str) -> list[str]:
        return [one.name for one in self.store.files(folder, lambda _: True)]

    @contextmanager
    def create(self, path: str, *, anew: bool = False) -> Iterator[BinaryIO]:
        if not anew and self.store.entry(path) is not None:
            raise already_there(self.describe(path))
        with self._translated(path):
            blob = self.store.blob(path)
            how: dict[str, Any] = {} if anew else {"if_generation_match": 0}
            stream: Any = blob.open("wb", chunk_size=_PART_BYTES, ignore_flush=True, **how)
        try:
            yield cast(BinaryIO, _Translating(stream, self._translated, path))
        except BaseException:
            with suppress(Exception):
                stream.terminate()
            # Else it would end its upload when it is forgotten, and the object would be there.
            stream._buffer.close()
            raise
        with self._translated(path):
            stream.close()

    def remove(self, path: str) -> None:
        with self._translated(path):
            try:
                self.store.blob(path).delete()
            except Exception as error:
                if getattr(error, "code", None) != 404:
                    raise

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            with self.store.translated(path):
                yield
        except LandingError as error:
            if getattr(error.__cause__, "code", None) == 412:
                raise already_there(self.describe(path)) from error
            raise


@dataclass(frozen=True)
class S3Sink:
    """A bucket of S3; an object is there when its upload ends."""

    store: S3Store

    def describe(self, path: str) -> str:
        return self.store.describe(path)

    def names(self, folder: str) -> list[str]:
        return [one.name for one in self.store.files(folder, lambda _: True)]

    @contextmanager
    def create(self, path: str, *, anew: bool = False) -> Iterator[BinaryIO]:
        if not anew and self.store.entry(path) is not None:
            raise already_there(self.describe(path))
        with self.store.translated(path):
            stream: Any = self.store.create(path)
        try:
            yield cast(BinaryIO, _Translating(stream, self.store.translated, path))
        except BaseException:
            with suppress(Exception):
                stream.discard()
                stream.closed = True
            raise
        with self.store.translated(path):
            stream.close()

    def remove(self, path: str) -> None:
        with self.store.translated(path):
            self.store.remove(path)


class _Translating:
    """A stream whose errors are ours."""

    def __init__(self, stream: Any, translated: Callable[[str], Any], path: str) -> None:
        self._stream, self._translated, self._path = stream, translated, path

    def write(self, block: bytes) -> int:
        with self._translated(self._path):
            return self._stream.write(block)


def already_there(place: str) -> LandingError:
    return LandingError(
        f"{place} is there already",
        next_step="A snapshot is written once. Export again: in the next second it has another id",
    )


def _unwritten(place: str, words: str) -> LandingError:
    error = refused(place, words, denied=False)
    return LandingError(
        f"{place} can't be written: {words}",
        next_step="See that it can be written and has room, then export again",
        retryable=error.retryable,
    )
