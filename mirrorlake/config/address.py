"""The address of a server that is queried by HTTP, without a path and without a login."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator


def _server(url: str) -> str:
    """The address without a closing slash; it is not repeated in errors, as it may hold a password.

    >>> _server("https://trino.example.com:8443/")
    'https://trino.example.com:8443'
    """
    shape = "an address is written https://host:port or http://host:port"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ValueError(shape) from None
    if "@" in url:
        raise ValueError("an address has no login in it")
    if parts.scheme not in ("http", "https") or not host or port == 0 or not _plain(parts):
        raise ValueError(shape)
    return url.rstrip("/")


def _plain(parts: SplitResult) -> bool:
    """Whether there is nothing but a host, its port and perhaps a closing slash."""
    rest = parts.path not in ("", "/") or parts.query or parts.fragment
    return not rest and re.search(r"[\s\\]", parts.netloc) is None


ServerAddress: TypeAlias = Annotated[str, AfterValidator(_server)]
