"""The section `readers`: engines elsewhere that are asked whether they read the same rows."""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import AfterValidator, Field, model_validator

from mirrorlake.config.fields import Findings, Section
from mirrorlake.config.secrets import Secret


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


class TrinoConfig(Section):
    """A Trino that reads this lake."""

    url: Annotated[str, AfterValidator(_server)]
    """The coordinator, ``https://host:8443``; ``http://`` only without a password. A password is
    never part of it."""
    user: str = Field(pattern=r"^[!-9;-~]+$", max_length=128)
    """Who queries: an account that may read deduped and clean. ASCII, without spaces and colons."""
    password: Secret | None = None
    """Its password, as ``${env:NAME}``."""
    catalog: str = Field(min_length=1, max_length=128)
    """What Trino calls its catalog of this lake."""

    @model_validator(mode="after")
    def _encrypted(self) -> TrinoConfig:
        if self.password is not None and not self.url.startswith("https://"):
            raise Findings([("password", "Trino takes a password by https:// alone")])
        return self

    @property
    def host(self) -> str:
        """The coordinator's name or address."""
        return urlsplit(self.url).hostname or ""

    @property
    def port(self) -> int:
        """Its port; that of the protocol where the address names none."""
        parts = urlsplit(self.url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def scheme(self) -> str:
        """``https`` or ``http``."""
        return urlsplit(self.url).scheme


class ReadersConfig(Section):
    """Engines that `mirrorlake readers` queries beside those that are installed here."""

    trino: TrinoConfig | None = None
    """A Trino that reads this lake. Without it: Trino is left out."""
