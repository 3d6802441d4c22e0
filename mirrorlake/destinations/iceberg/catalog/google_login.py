"""How PyIceberg logs in to a REST catalog of Google's: as the account that runs Mirrorlake.

The library's own manager asks for a token before each request; here one is kept until it is about
to expire. Spark has Iceberg's `GoogleAuthManager`, which finds the same account by the same rules.

Source: Google Cloud, "How Application Default Credentials works"; PyIceberg, "REST catalog:
authentication".
"""

from __future__ import annotations

import functools
import os
import threading
from typing import Any

from pyiceberg.catalog.rest.auth import AuthManager

from mirrorlake.destinations.iceberg.catalog.properties import SCOPE
from mirrorlake.errors import CatalogFailed, LakeError
from mirrorlake.runtime.extras import library

_STEP = (
    "Log in: a service account of the machine, gcloud auth application-default login, or "
    "GOOGLE_APPLICATION_CREDENTIALS"
)


class GoogleLogin(AuthManager):
    """The account that runs Mirrorlake. What a worker gets of it has no token: it logs in there."""

    def auth_header(self) -> str:
        """The header of one request.

        Raises:
            CatalogFailed: nobody is logged in, or no token is to be had. What was asked before may
                have been done.
        """
        return f"Bearer {_account(os.getpid(), os.environ.get(_FILE)).token()}"


_FILE = "GOOGLE_APPLICATION_CREDENTIALS"


@functools.lru_cache(maxsize=4)
def _account(_pid: int, _file: str | None) -> _Account:
    """One for a process: a process that was forked has connections of its own."""
    return _Account()


class _Account:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._credentials: Any = None
        self._transport: Any = None

    def token(self) -> str:
        """A token that does not expire at once."""
        with self._lock:
            try:
                if self._credentials is None:
                    auth = _library("google.auth")
                    requests = _library("google.auth.transport.requests")
                    self._transport = requests.Request()
                    self._credentials, _ = auth.default(scopes=[SCOPE])
                if not self._credentials.valid:
                    self._credentials.refresh(self._transport)
            except LakeError:
                raise
            except Exception as error:
                raise _as_ours(error) from error
            return str(self._credentials.token)


def _library(name: str) -> Any:
    return library(name, "gcs", "lake.catalog.auth: google", LakeError)


def _as_ours(error: Exception) -> Exception:
    """What Google's library raised, as an error of ours. Its words hold no token."""
    kind = type(error)
    if not kind.__module__.startswith("google.auth"):
        return error
    words = " ".join(str(error.args[0] if error.args else kind.__name__).split())[:300]
    if kind.__name__ == "DefaultCredentialsError":
        said = f"nobody is logged in to Google Cloud: {words}"
        return CatalogFailed(f"the catalog can't be reached, since {said}", next_step=_STEP)
    passing = bool(getattr(error, "retryable", False)) or kind.__name__ == "TransportError"
    return CatalogFailed(
        f"the catalog can't be reached, since Google gave no token: {words}",
        next_step="See that Google can be reached, and try again" if passing else _STEP,
        retryable=passing,
    )
