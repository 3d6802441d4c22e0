"""Buckets as stores: ``gs://`` by Google's own client, ``s3://`` by s3fs.

Both libraries are asked for when a bucket is: `pip install 'mirrorlake[gcs]'`, `'mirrorlake[s3]'`.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from mirrorlake.errors import LandingError
from mirrorlake.sources.files.store import Entry, Wanted, changed, gone, refused

_CLIENTS: dict[tuple[str, str | None], Any] = {}
_LOCK = threading.Lock()


def use_client(endpoint: str | None, client: Any) -> None:
    """Let this process read ``gs://`` of an endpoint by a client that somebody made (Dagster's
    GCSResource). Workers make their own."""
    with _LOCK:
        _CLIENTS["gs", endpoint] = client


@dataclass(frozen=True)
class GcsStore:
    """A bucket of Google Cloud Storage, or of what speaks its API (``endpoint``).

    Listing begins at a name and ends at a folder: what is older is not listed.
    """

    url: str
    endpoint: str | None = None

    def describe(self, path: str) -> str:
        return f"{self.url}/{path}"

    def folders(self, path: str, first: str) -> list[str]:
        prefix = f"{self._key(path)}/"
        with self.translated(path):
            listed = self._bucket().client.list_blobs(
                self._bucket_name(),
                prefix=prefix,
                delimiter="/",
                start_offset=prefix + first,
                retry=_patience(),
            )
            for _ in listed.pages:
                pass
            names = (str(found).removeprefix(prefix).rstrip("/") for found in listed.prefixes)
            return sorted(name for name in names if name >= first)

    def files(self, path: str, wanted: Wanted) -> Iterator[Entry]:
        prefix = f"{self._key(path)}/"
        with self.translated(path):
            for blob in self._bucket().client.list_blobs(
                self._bucket_name(), prefix=prefix, delimiter="/", retry=_patience()
            ):
                name = str(blob.name).removeprefix(prefix)
                if name and wanted(name):
                    yield _entry(blob, name)

    def entry(self, path: str) -> Entry | None:
        with self.translated(path):
            blob = self._bucket().get_blob(self._key(path), retry=_patience())
        return None if blob is None else _entry(blob, path.rpartition("/")[2])

    def open(self, path: str, version: str | None = None) -> BinaryIO:
        with self.translated(path):
            blob = self._bucket().get_blob(self._key(path), retry=_patience())
            if blob is None:
                raise gone(self.describe(path))
            if version is not None and str(blob.generation) != version:
                raise changed(self.describe(path))
            # Every later read asks for this generation, or fails.
            return cast(BinaryIO, blob.open("rb", chunk_size=8 * 2**20))

    def blob(self, path: str) -> Any:
        """The object of a path, whether it is there or not; to write it."""
        return self._bucket().blob(self._key(path))

    def _bucket_name(self) -> str:
        return self.url.removeprefix("gs://").partition("/")[0]

    def _key(self, path: str) -> str:
        prefix = self.url.removeprefix("gs://").partition("/")[2]
        return f"{prefix}/{path}" if prefix else path

    def _bucket(self) -> Any:
        with _LOCK:
            client = _CLIENTS.get(("gs", self.endpoint))
            if client is None:
                client = _CLIENTS["gs", self.endpoint] = gcs_client(self.endpoint)
        return client.bucket(self._bucket_name())

    @contextmanager
    def translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except LandingError:
            raise
        except Exception as error:
            if not type(error).__module__.startswith(("google.", "requests.", "urllib3.")):
                raise
            code = getattr(error, "code", None)
            words = f"{type(error).__name__} {code or ''}".strip()
            raise refused(self.describe(path), words, denied=code in (401, 403)) from error


def _patience() -> Any:
    """How long an answer is asked for again: a sensor's tick has a minute."""
    return importlib.import_module("google.cloud.storage.retry").DEFAULT_RETRY.with_timeout(20)


def gcs_client(endpoint: str | None, project: str | None = None) -> Any:
    """Google's client. Over ``http://`` (an emulator) nobody logs in.

    Raises:
        LandingError: the library is not installed, or nobody is logged in.
    """
    storage = _library("google.cloud.storage", "gcs")
    options = {"api_endpoint": endpoint} if endpoint else None
    if endpoint and endpoint.startswith("http://"):
        anonymous = importlib.import_module("google.auth.credentials").AnonymousCredentials()
        return storage.Client(
            project=project or "mirrorlake", credentials=anonymous, client_options=options
        )
    try:
        return storage.Client(project=project, client_options=options)
    except Exception as error:
        if not type(error).__module__.startswith("google."):
            raise
        raise LandingError(
            "nobody is logged in to Google Cloud Storage",
            next_step="Log in as Google's tools ask it, or set GOOGLE_APPLICATION_CREDENTIALS",
        ) from error


def _entry(blob: Any, name: str) -> Entry:
    digest = f"md5:{blob.md5_hash}" if blob.md5_hash else f"crc32c:{blob.crc32c}"
    return Entry(name, int(blob.size), str(blob.generation), digest)


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
        with self.translated(path):
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
        with self.translated(path):
            return cast(BinaryIO, self._files().open(self._key(path), "rb"))

    def create(self, path: str) -> Any:
        """A stream to write an object by; it is there once the stream is closed."""
        return self._files().open(self._key(path), "wb", block_size=8 * 2**20)

    def remove(self, path: str) -> None:
        """Remove an object, if it is there."""
        with suppress(FileNotFoundError):
            self._files().rm_file(self._key(path))

    def _listed(self, path: str) -> list[dict[str, Any]]:
        with self.translated(path):
            try:
                return self._files().ls(self._key(path), detail=True, refresh=True)
            except FileNotFoundError:
                return []

    def _key(self, path: str) -> str:
        return f"{self.url.removeprefix('s3://')}/{path}"

    def _files(self) -> Any:
        with _LOCK:
            files = _CLIENTS.get(("s3", self.endpoint))
            if files is None:
                library = _library("s3fs", "s3")
                files = library.S3FileSystem(endpoint_url=self.endpoint, use_listings_cache=False)
                _CLIENTS["s3", self.endpoint] = files
        return files

    @contextmanager
    def translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            denied = isinstance(error, PermissionError)
            words = type(error).__name__
            raise refused(self.describe(path), words, denied=denied) from error


def _is_folder(found: dict[str, Any]) -> bool:
    return found.get("type") == "directory"


def _s3_entry(found: dict[str, Any], name: str) -> Entry:
    etag = str(found.get("ETag", "")).strip('"')
    # An ETag of several parts is no MD5 of the content, and still its own.
    return Entry(name, int(found["size"]), etag, f"etag:{etag}" if etag else "")


def _library(name: str, extra: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise LandingError(
            f"the library {name} is not installed",
            next_step=f"Install it: pip install 'mirrorlake[{extra}]'",
        ) from error
