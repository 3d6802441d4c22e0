"""Files in an object store, opened and written with as few calls as that takes: each call is waited
for, and paid for.

PyIceberg looks whether a file is there before it writes one, which is two calls that settle
nothing: another writer could come between. Every file of a lake has a name that is nobody else's,
with the load's or a random number in it. It asks for the length of what it has just written, and
for that of a file that it reads from its first byte to its last. And one sync looks through the
manifests of a table some six times, of which there are as many as there were commits since the last
maintenance: none of them ever changes, so what was read of one is read again for a minute from
memory.

Source: Cloud Storage documentation, "Request preconditions", "Pricing".
"""

from __future__ import annotations

import io
import threading
import time
from collections import OrderedDict
from typing import Any

from pyiceberg.io import InputFile, OutputFile

READ_WHOLE = (".metadata.json", ".avro")
"""How the names end of files that are only ever read as a whole."""


_AGAIN = ".avro"
_SECONDS, _KEPT = 60.0, 32 * 2**20
"""For how long manifests are kept, and how many bytes of them."""


class _Recent:
    """What was read of files that never change, by their names; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._size = 0

    def find(self, location: str) -> bytes | None:
        """What was read of a file a moment ago."""
        with self._lock:
            read_at, content = self._read.get(location, (0.0, b""))
        return content if read_at and time.monotonic() - read_at < _SECONDS else None

    def keep(self, location: str, content: bytes) -> None:
        """Keep what was read now, in place of what was read longest ago."""
        with self._lock:
            self._forget(location)
            self._read[location] = (time.monotonic(), content)
            self._size += len(content)
            while self._size > _KEPT:
                self._forget(next(iter(self._read)))

    def _forget(self, location: str) -> None:
        _, content = self._read.pop(location, (0.0, b""))
        self._size -= len(content)


_RECENT = _Recent()


class StoredInput:
    """A file that is read as a whole: its length is not asked for first."""

    def __init__(self, file: InputFile) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __len__(self) -> int:
        return len(self._file)

    def open(self, seekable: bool = True) -> Any:  # noqa: ARG002 - PyIceberg's words
        """A stream from its first byte on.

        Raises:
            FileNotFoundError: it is not there.
        """
        location = self._file.location
        if not location.endswith(_AGAIN):
            return self._file.open(seekable=False)
        content = _RECENT.find(location)
        if content is None:
            with self._file.open(seekable=False) as stream:
                content = stream.read()
            _RECENT.keep(location, content)
        return io.BytesIO(content)


class StoredOutput:
    """A file that is written, under a name that no other file has."""

    def __init__(self, file: OutputFile) -> None:
        self._file = file
        self._stream: _Measured | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __len__(self) -> int:
        written = self._stream.length if self._stream is not None else None
        return len(self._file) if written is None else written

    def create(self, overwrite: bool = False) -> Any:  # noqa: ARG002 - as the name is its own
        """Its stream. It is there, as a whole, once that is closed."""
        stream = self._file.create(overwrite=True)
        if not self._file.location.endswith(READ_WHOLE):
            return stream
        self._stream = _Measured(stream)
        return self._stream


class _Measured:
    """A stream that still knows how long it was when it is closed."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.length: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> _Measured:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close it, and note its length once the store has it."""
        if self._stream.closed:
            return
        length = self._stream.tell()
        self._stream.close()
        self.length = length
