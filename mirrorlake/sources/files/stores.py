"""Which store a URL names. Libraries of one kind of store alone are imported when it is used."""

from __future__ import annotations

from mirrorlake.config.landing import LandingConfig
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.sources.files.gcs_store import GcsStore
from mirrorlake.sources.files.s3_store import S3Store
from mirrorlake.sources.files.store import Store


def open_store(landing: LandingConfig) -> Store:
    """The store of a landing; nothing is connected yet.

    Raises:
        LandingError: the store's library is not installed.
    """
    return store_of(landing.url, landing.endpoint)


def store_of(url: str, endpoint: str | None = None) -> Store:
    """The store of a URL or a folder; nothing is connected yet, and a folder need not be there.

    Raises:
        LandingError: the store's library is not installed.
    """
    if url.startswith("gs://"):
        return GcsStore(url.rstrip("/"), endpoint)
    if url.startswith("s3://"):
        return S3Store(url.rstrip("/"), endpoint)
    return FolderStore(url)
