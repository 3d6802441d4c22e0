"""One server: how it is reached over TLS, and how much load it may be put under."""

from __future__ import annotations

from datetime import timedelta, tzinfo
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Discriminator, Field, SecretStr, Tag

from mirrorlake.config.fields import Duration, Section, zone_of


class TlsConfig(Section):
    """An encrypted connection to a server that proves who it is."""

    ca: str = Field(min_length=1)
    """A file of certificate authorities (relative to this file): the server's certificate and name
    are checked."""


def _tls_kind(value: object) -> str:
    return TLS_SECTION if isinstance(value, dict | TlsConfig) else TLS_WORD


TLS_WORD: Final = "<tls word>"
TLS_SECTION: Final = "<tls section>"
Tls: TypeAlias = Literal["off", "required"] | TlsConfig
TlsField = Annotated[
    Annotated[Literal["off", "required"], Tag(TLS_WORD)] | Annotated[TlsConfig, Tag(TLS_SECTION)],
    Discriminator(_tls_kind),
]


class BackOff(Section):
    """When reads of a source pause: a load waits before each chunk while a figure is over its
    limit. ``null`` switches a limit off."""

    replica_lag: Duration | None = timedelta(minutes=5)
    """How far a server that is a replica may be behind its primary."""
    threads_running: int | None = Field(default=64, ge=1)
    """How many of the server's threads may be at work at once (``Threads_running``)."""
    history_list: int | None = Field(default=1_000_000, ge=1)
    """How many old row versions InnoDB may have waiting for its purge (history list length). A read
    during which it grows past this is given up, and tried again later."""
    wait: Duration = timedelta(minutes=5)
    """How long a chunk waits for the server to come to rest, before the load fails and may be tried
    again."""


class SourceConfig(Section):
    """One MySQL server or cluster, as it is read: where the contract names a replica, that one.

    ``primary`` is then the server that it replicates, which is queried for its oldest open
    transaction and its position, and for no row.
    """

    name: str
    host: str
    port: int = 3306
    user: str
    password: SecretStr = SecretStr("")
    tls: Tls = "off"
    """Never absent; ``ca`` is an absolute path."""
    time_zone: str = "UTC"
    """The zone in which DATETIME cursors are written: a name, or an offset like ``+05:30``."""
    time_zone_of: Literal["server", "application"] = "server"
    """Whose zone that is: a server that has another one is refused, unless it is the
    application's."""
    connections: int = 2
    rows_per_second: int | None = None
    statement_seconds: int | None = 3600
    silence: timedelta = timedelta(minutes=5)
    """How long no byte may come before a second session looks whether the server is at work."""
    every: timedelta = timedelta(minutes=15)
    skip_unchanged: timedelta | None = timedelta(days=1)
    back_off: BackOff = BackOff()
    primary: SourceConfig | None = None

    @property
    def zone(self) -> tzinfo:
        """``time_zone`` as a tzinfo."""
        return zone_of(self.time_zone)

    @property
    def is_utc(self) -> bool:
        """Whether times without a zone are written by UTC."""
        return self.time_zone == "UTC"
