"""How both of the lake's clients open Cloud Storage: PyIceberg through PyArrow's client, Spark
through Iceberg's own `GCSFileIO`.

Both take the names of objects as they are written, so an escaped name of a table is the same object
for both. An object is there as a whole once its writer has closed it, or not at all; a listing
shows what was written before it began.

Source: Cloud Storage documentation, "Consistency"; Apache Iceberg, "GCP", "GCS FileIO".
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pyarrow.fs import GcsFileSystem

SCHEME = "gs://"
HOST = "gcs.service.host"
"""The property that names another service than Google's; over ``http://`` nobody logs in."""
PATIENCE = timedelta(seconds=20)
"""How long a request is sent again before it is an error; by Google's library's own rule it is
fifteen minutes. Less than a lease lasts: PyArrow lets no other thread run while it asks for a
size."""
_TOKEN = "gcs.oauth2.token"  # noqa: S105 - a property's name
_EXPIRES = "gcs.oauth2.token-expires-at"
_OF_STORE = "gcs."
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)


def in_cloud_storage(place: str) -> bool:
    """Whether a warehouse or a file is in Cloud Storage.

    >>> in_cloud_storage("gs://bucket/lake"), in_cloud_storage("file:///srv/lake")
    (True, False)
    """
    return place.startswith(SCHEME)


def open_store(properties: Mapping[str, str]) -> GcsFileSystem:
    """PyArrow's client, as a catalog's or a table's properties say; one for a process and the same
    properties: each keeps connections and a login of its own."""
    names = (HOST, _TOKEN, _EXPIRES)
    return _opened(os.getpid(), *(properties.get(name) for name in names))


@functools.lru_cache(maxsize=16)
def _opened(_pid: int, host: str | None, token: str | None, expires: str | None) -> GcsFileSystem:
    """``_pid``: what a process that was forked inherits of a client does not work there."""
    scheme, _, address = (host or "").rpartition("://")
    until = _NEVER if expires is None else datetime.fromtimestamp(int(expires) / 1000, UTC)
    return GcsFileSystem(
        anonymous=scheme == "http",
        access_token=token if scheme != "http" else None,
        credential_token_expiration=until if token and scheme != "http" else None,
        scheme=scheme or "https",
        endpoint_override=address.rstrip("/") or None,
        retry_time_limit=PATIENCE,
    )


def spark_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The same for Spark's catalog, which calls all of it by the same names."""
    settings = {k: v for k, v in properties.items() if k.startswith(_OF_STORE)}
    if settings.get(HOST, "").startswith("http://"):
        settings |= {"gcs.no-auth": "true"}
        settings.pop(_TOKEN, None)
    return {"io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO", **settings}
