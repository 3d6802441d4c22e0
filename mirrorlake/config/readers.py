"""The section `readers`: engines elsewhere that are asked whether they read the same rows."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, model_validator

from mirrorlake.config.address import ServerAddress
from mirrorlake.config.fields import Findings, Section
from mirrorlake.config.secrets import Secret


class TrinoConfig(Section):
    """A Trino that reads this lake."""

    url: ServerAddress
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
    """Engines that `mirrorlake readers` asks beside those that are installed here."""

    trino: TrinoConfig | None = None
    """A Trino that reads this lake. Without it: Trino is left out."""
