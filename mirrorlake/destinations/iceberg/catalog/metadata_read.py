"""A table's metadata that can't be read, as an error of ours."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import pydantic
from pyiceberg.exceptions import ValidationError

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LakeDamaged

_NO_METADATA = (
    *(ValidationError, pydantic.ValidationError, UnicodeDecodeError),
    *(EOFError, zlib.error, gzip.BadGzipFile),
)
"""What a reader of metadata says of bytes that are cut, or of another kind."""


@contextmanager
def metadata_read(identifier: Identifier) -> Iterator[None]:
    """Turn what metadata make a reader raise that are not there, or are cut, into LakeDamaged."""
    try:
        yield
    except FileNotFoundError as error:
        raise _damaged(identifier, "is not there") from error
    except _NO_METADATA as error:
        raise _damaged(identifier, "is cut, or is no metadata") from error


def _damaged(identifier: Identifier, reason: str) -> LakeDamaged:
    return LakeDamaged(
        f"lake table {identifier} can't be read: the metadata that the catalog names {reason}",
        table=str(identifier),
        reason=reason,
        next_step="`mirrorlake refold` makes deduped and clean again from raw; raw itself comes "
        "from a backup (`mirrorlake restore`). If the whole lake was moved, nothing is lost: "
        "`mirrorlake lake move` writes its paths again",
    )
