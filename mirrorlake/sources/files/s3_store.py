"""S3, or what speaks its API, as a store, by s3fs: `pip install 'mirrorlake[s3]'`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from mirrorlake.sources.files.store import (
    Entry,
    TranslatingStream,
    Wanted,
    already_there,
    changed,
    gone,
    library,
    refused,
)

_CLIENTS: dict[str | None, Any] = {}
_LOCK = threading.Lock()
_PART_BYTES = 8 * 2**20


@dataclass(frozen=True)
class S3Store:
    """A bucket of S3, or of what speaks its API (``endpoint``)."""

    url: str
    endpoint: str | None = None

    def describe(self, path: str) -> str:
        return f"{self.url}/{path}"

    def folders(self, path: str, first: str) -> list[str]:
        found = self._listed(path)
        names = (str(e["name"]).rstrip("/").rpartition("/")[2] for e in found if _is_folder(e))
        return sorted(name for name in names if name >= first)

    def files(self, path: str, wanted: Wanted) -> Iterator[Entry]:
        for found in self._listed(path):
            name = str(found["name"]).rpartition("/")[2]
            if not _is_folder(found) and name and wanted(name):
                yield _s3_entry(found, name)

    def entry(self, path: str) -> Entry | None:
        with self._translated(path):
            try:
                found = self._files().info(self._key(path))
            except FileNotFoundError:
                return None
        return None if _is_folder(found) else _s3_entry(found, path.rpartition("/")[2])

    def open(self, path: str, version: str | None = None) -> BinaryIO:
        found = self.entry(path)
        if found is None:
            raise gone(self.describe(path))
        if version is not None and found.version != version:
            raise changed(self.describe(path))
        with self._translated(path):
            return cast(BinaryIO, self._files().open(self._key(path), "rb"))

    def names(self, folder: str) -> list[str]:
        return [one.name for one in self.files(folder, lambda _: True)]

    @contextmanager
    def create(self, path: str, *, replace: bool = False) -> Iterator[BinaryIO]:
        if not replace and self.entry(path) is not None:
            raise already_there(self.describe(path))
        with self._translated(path):
            stream: Any = self._files().open(self._key(path), "wb", block_size=_PART_BYTES)
        try:
            yield cast(BinaryIO, TranslatingStream(stream, self._translated, path))
        except BaseException:
            with suppress(Exception):
                stream.discard()
                stream.closed = True
            raise
        with self._translated(path):
            stream.close()

    def remove(self, path: str) -> None:
        with self._translated(path), suppress(FileNotFoundError):
            self._files().rm_file(self._key(path))

    def _listed(self, path: str) -> list[dict[str, Any]]:
        with self._translated(path):
            try:
                return self._files().ls(self._key(path), detail=True, refresh=True)
            except FileNotFoundError:
                return []

    def _key(self, path: str) -> str:
        return f"{self.url.removeprefix('s3://')}/{path}"

    def _files(self) -> Any:
        with _LOCK:
            files = _CLIENTS.get(self.endpoint)
            if files is None:
                s3fs = library("s3fs", "s3")
                files = s3fs.S3FileSystem(endpoint_url=self.endpoint, use_listings_cache=False)
                _CLIENTS[self.endpoint] = files
        return files

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:
            # Of botocore's errors only those of an answer become OSErrors: no login, no way there.
            ours = isinstance(error, OSError)
            if not ours and not type(error).__module__.startswith(("botocore.", "aiobotocore.")):
                raise
            words = type(error).__name__
            denied = isinstance(error, PermissionError) or "Credentials" in words
            raise refused(self.describe(path), words, denied=denied) from error


def _is_folder(found: dict[str, Any]) -> bool:
    return found.get("type") == "directory"


def _s3_entry(found: dict[str, Any], name: str) -> Entry:
    etag = str(found.get("ETag", "")).strip('"')
    # An ETag of several parts is no MD5 of the content, and still its own.
    digest = f"etag:{etag}" if etag else ""
    return Entry(name, int(found["size"]), etag, digest, found.get("LastModified"))
