"""Google Cloud Storage as a store, by Google's own client: `pip install 'mirrorlake[gcs]'`."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from mirrorlake.errors import LandingError
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


def use_client(endpoint: str | None, client: Any) -> None:
    """Let this process read ``gs://`` of an endpoint by a client that somebody made (Dagster's
    GCSResource). Workers make their own."""
    with _LOCK:
        _CLIENTS[endpoint] = client


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
        with self._translated(path):
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
        with self._translated(path):
            for blob in self._bucket().client.list_blobs(
                self._bucket_name(), prefix=prefix, delimiter="/", retry=_patience()
            ):
                name = str(blob.name).removeprefix(prefix)
                if name and wanted(name):
                    yield _entry(blob, name)

    def entry(self, path: str) -> Entry | None:
        with self._translated(path):
            blob = self._bucket().get_blob(self._key(path), retry=_patience())
        return None if blob is None else _entry(blob, path.rpartition("/")[2])

    def open(self, path: str, version: str | None = None) -> BinaryIO:
        with self._translated(path):
            blob = self._bucket().get_blob(self._key(path), retry=_patience())
            if blob is None:
                raise gone(self.describe(path))
            if version is not None and str(blob.generation) != version:
                raise changed(self.describe(path))
            # Every later read asks for this generation, or fails.
            return cast(BinaryIO, blob.open("rb", chunk_size=8 * 2**20))

    def names(self, folder: str) -> list[str]:
        return [one.name for one in self.files(folder, lambda _: True)]

    @contextmanager
    def create(self, path: str, *, replace: bool = False) -> Iterator[BinaryIO]:
        if not replace and self.entry(path) is not None:
            raise already_there(self.describe(path))
        with self._writing(path):
            blob = self._blob(path)
            how: dict[str, Any] = {} if replace else {"if_generation_match": 0}
            stream: Any = blob.open("wb", chunk_size=_PART_BYTES, ignore_flush=True, **how)
        try:
            yield cast(BinaryIO, TranslatingStream(stream, self._writing, path))
        except BaseException:
            with suppress(Exception):
                stream.terminate()
            # Else it would end its upload when it is forgotten, and the object would be there.
            stream._buffer.close()
            raise
        with self._writing(path):
            stream.close()

    def remove(self, path: str) -> None:
        with self._writing(path):
            try:
                self._blob(path).delete()
            except Exception as error:
                if getattr(error, "code", None) != 404:
                    raise

    def _blob(self, path: str) -> Any:
        """The object of a path, whether it is there or not."""
        return self._bucket().blob(self._key(path))

    def _bucket_name(self) -> str:
        return self.url.removeprefix("gs://").partition("/")[0]

    def _key(self, path: str) -> str:
        prefix = self.url.removeprefix("gs://").partition("/")[2]
        return f"{prefix}/{path}" if prefix else path

    def _bucket(self) -> Any:
        with _LOCK:
            client = _CLIENTS.get(self.endpoint)
            if client is None:
                client = _CLIENTS[self.endpoint] = gcs_client(self.endpoint)
        return client.bucket(self._bucket_name())

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
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

    @contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        try:
            with self._translated(path):
                yield
        except LandingError as error:
            if getattr(error.__cause__, "code", None) == 412:
                raise already_there(self.describe(path)) from error
            raise


def _patience() -> Any:
    """How long a request is retried: a sensor's tick has a minute."""
    return importlib.import_module("google.cloud.storage.retry").DEFAULT_RETRY.with_timeout(20)


def gcs_client(endpoint: str | None, project: str | None = None) -> Any:
    """Google's client. Over ``http://`` (an emulator) nobody logs in.

    Raises:
        LandingError: the library is not installed, or nobody is logged in.
    """
    storage = library("google.cloud.storage", "gcs")
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
    return Entry(name, int(blob.size), str(blob.generation), digest, blob.updated)
