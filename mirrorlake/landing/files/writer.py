"""A snapshot's files as they are written: chunks of at most 2 GB, then the manifest."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from contextlib import AbstractContextManager, ExitStack, suppress
from datetime import date
from typing import Any, BinaryIO, Final

from mirrorlake.errors import MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.sources.files.layout import Compression, TableFolder
from mirrorlake.sources.files.store import Store, already_there

MOST_BYTES: Final = 2_000_000_000


class SnapshotWriter:
    """One snapshot. ``close`` or ``discard`` ends it.

    While it is written, ``<id>_export.part`` stands beside its files: one that was cut off is never
    taken for complete, however long its files don't change.
    """

    def __init__(
        self,
        store: Store,
        folder: TableFolder,
        snapshot: int,
        day: date,
        *,
        packed: bool,
        most: int,
    ) -> None:
        self._store, self._folder, self._snapshot = store, folder, snapshot
        self._place = folder.day_path(day)
        self._compression: Compression = "gz" if packed else ""
        self._most = most
        self._made: list[str] = []
        self._open: ChunkFile | None = None
        self.files: list[dict[str, Any]] = []

    @property
    def place(self) -> str:
        return self._store.describe(self._place)

    @property
    def bytes(self) -> int:
        """Of the chunks that are done, as they are stored."""
        return sum(int(file["bytes"]) for file in self.files)

    def begin(self) -> None:
        """Say that the snapshot is being written.

        Raises:
            LandingError: it is there, another writer is at it, or the place can't be written.
        """
        with self._store.create(self._part):
            pass
        self._made.append(self._part)
        own = f"{self._snapshot:014d}_"
        part = self._part.rpartition("/")[2]
        for name in self._store.names(self._place):
            if name.startswith(own) and name != part:
                raise already_there(self._store.describe(f"{self._place}/{name}"))
        self._next()

    @property
    def _part(self) -> str:
        return f"{self._place}/{self._snapshot:014d}_export.part"

    def _next(self) -> None:
        name = self._folder.chunk_name(self._snapshot, len(self.files), self._compression)
        self._open = ChunkFile(self._store, f"{self._place}/{name}", packed=bool(self._compression))

    def add(self, line: bytes) -> None:
        """One record, with its line end."""
        if self._open is None:
            raise ValueError("the snapshot was not begun")
        if self._open.size and self._open.size + len(line) > self._most:
            self._end_chunk()
            self._next()
        self._open.write(line)

    def _end_chunk(self) -> None:
        if self._open is None:
            return
        chunk, self._open = self._open, None
        self._made.append(chunk.path)
        self.files.append(chunk.close())
        failpoint("export.chunk")

    def close(self, rows: int) -> None:
        """End the last chunk, and write the manifest: the snapshot is complete."""
        self._end_chunk()
        manifest = f"{self._place}/{self._folder.manifest_name(self._snapshot)}"
        text = json.dumps({"version": 1, "rows": rows, "files": self.files}, indent=1)
        with self._store.create(manifest) as stream:
            stream.write(text.encode())
        self._made.append(manifest)
        failpoint("export.manifest")
        self._store.remove(self._part)

    def discard(self) -> None:
        """Remove what was written, the manifest first; never raises."""
        if self._open is not None:
            with suppress(MirrorlakeError, OSError):
                self._open.cancel()
        for path in reversed(self._made):
            with suppress(MirrorlakeError, OSError):
                self._store.remove(path)


class ChunkFile:
    """One file, which is there once it is closed: its records' bytes, and the digests of what is
    stored.

    Args:
        replace: whether one of this name may be there.
    """

    def __init__(self, store: Store, path: str, *, packed: bool, replace: bool = False) -> None:
        self.path, self.size = path, 0
        self._stack = ExitStack()
        inner: AbstractContextManager[BinaryIO] = store.create(path, replace=replace)
        self._stored = _Digested(self._stack.enter_context(inner))
        self._stream: Any = self._stored
        if packed:
            stored: Any = self._stored
            self._stream = gzip.GzipFile(filename="", fileobj=stored, mode="wb", mtime=0)

    def write(self, line: bytes) -> None:
        self._stream.write(line)
        self.size += len(line)

    def close(self) -> dict[str, Any]:
        """End it; its entry in the manifest."""
        try:
            if self._stream is not self._stored:
                self._stream.close()
        except BaseException:
            self.cancel()
            raise
        self._stack.close()
        return {"name": self.path.rpartition("/")[2], **self._stored.fields()}

    def cancel(self) -> None:
        """End it without a file."""
        error = _CancelledError()
        with suppress(_CancelledError):
            if not self._stack.__exit__(_CancelledError, error, None):
                raise error


class _CancelledError(Exception):
    """The file is not to be."""


class _Digested:
    """Counts and digests what is written, as the manifest and the stores give digests."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._bytes = 0
        self._sha256, self._md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)

    def write(self, block: bytes) -> int:
        self._stream.write(block)
        self._bytes += len(block)
        self._sha256.update(block)
        self._md5.update(block)
        return len(block)

    def flush(self) -> None:
        """Nothing is kept back here."""

    def fields(self) -> dict[str, Any]:
        md5 = base64.b64encode(self._md5.digest()).decode()
        return {"bytes": self._bytes, "sha256": self._sha256.hexdigest(), "md5": md5}
