"""Where files land: a local folder, ``gs://`` or ``s3://``, behind one protocol.

What belongs here: the protocol, and what a store says in our words. Each kind of store is one class
that reads and writes, in `folder_store`, `gcs_store` and `s3_store`; `stores` opens one. A store is
small and can be pickled: workers open it again, with the login of their own machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, BinaryIO, Protocol

from mirrorlake.errors import LandingClosed, LandingError
from mirrorlake.runtime import extras


@dataclass(frozen=True)
class Entry:
    """A file of a folder.

    Attributes:
        version: what distinguishes this content from another under the same name, as far as the
            store says it without reading: size and times of a local file, a bucket's generation or
            ETag.
        digest: the digest that the store keeps of the content (``md5:…``); '' where it keeps none.
        changed_at: when it was last written, as the store says it (UTC).
    """

    name: str
    bytes: int
    version: str
    digest: str = ""
    changed_at: datetime | None = field(default=None, compare=False)


Wanted = Callable[[str], bool]
"""Whether more than a file's name is wanted."""


class Store(Protocol):
    """One landing, read and written. Paths are relative to it, with ``/`` between names.

    What only reads (every load) uses the first five; `mirrorlake export`, `init` and `keep_landed`
    write.
    """

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
        """A file from its beginning, of that version if one is given.

        Raises:
            LandingError: it is not there any more, is another one now, or may not be read.
        """
        ...

    def names(self, folder: str) -> list[str]:
        """The names of a folder's files, in no order."""
        ...

    @contextmanager
    def create(self, path: str, *, replace: bool = False) -> Iterator[BinaryIO]:
        """A file that is there when the block has ended well, and then only.

        Args:
            replace: whether one of this name may be there.

        Raises:
            LandingError: it is there already, or can't be written.
        """
        ...

    def remove(self, path: str) -> None:
        """Remove a file, if it is there."""
        ...


class TranslatingStream:
    """A stream to write by, whose errors are ours."""

    def __init__(self, stream: Any, translated: Callable[[str], Any], path: str) -> None:
        self._stream, self._translated, self._path = stream, translated, path

    def write(self, block: bytes) -> int:
        with self._translated(self._path):
            return self._stream.write(block)


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
    """A file that we don't read, even where we may."""
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


def already_there(place: str) -> LandingError:
    return LandingError(
        f"{place} is there already",
        next_step="A snapshot is written once. Export again: in the next second it has another id",
    )


def unwritten(place: str, words: str) -> LandingError:
    error = refused(place, words, denied=False)
    return LandingError(
        f"{place} can't be written: {words}",
        next_step="See that it can be written and has room, then export again",
        retryable=error.retryable,
    )


def library(name: str, extra: str) -> Any:
    """A library that only one kind of store needs.

    Raises:
        LandingError: it is not installed.
    """
    return extras.library(name, extra, "a landing in a bucket", LandingError)
