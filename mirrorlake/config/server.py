"""One server: how it is reached over TLS, and how much may be asked of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from typing_extensions import override

from mirrorlake.config.fields import HIDDEN, Duration, hide_url


class Section(BaseModel):
    """A part of the file: frozen, and an unknown key is an error. Shown without any secret."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )

    @override
    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if name in ("url", "uri", "replica") and isinstance(value, str):
                yield name, hide_url(value)
            elif name in ("properties", "conf") and isinstance(value, dict):
                yield name, dict.fromkeys(cast("dict[str, str]", value), HIDDEN)
            else:
                yield name, value


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
    """When a source is left in peace: a load waits before each chunk while a figure is over its
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
