"""How much of a landing is read into memory, whoever wrote it: documented limits, one clear error
each.

Source: `SnapshotConfig` has the settings; docs/snapshots.md says what they are for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO, Final

from mirrorlake.config.landing import SnapshotConfig
from mirrorlake.errors import LandingError
from mirrorlake.sources.files.store import Store

FREE_BYTES: Final = 64 * 2**20
"""A compressed file may expand to this size whatever its own is: small files of equal records
compress best."""
_UNITS: Final = {"k": 2**10, "m": 2**20, "g": 2**30}


@dataclass(frozen=True)
class Limits:
    """What one file of a landing may take.

    Attributes:
        manifest: bytes of a manifest or schema file.
        record: bytes of one record.
        expansion: how many times its own size a compressed file may expand to, past `FREE_BYTES`.
    """

    manifest: int = 64 * 2**20
    record: int = 256 * 2**20
    expansion: int = 1000


def limits_of(settings: SnapshotConfig) -> Limits:
    """The limits that a contract sets."""
    manifest, record = _bytes_of(settings.max_manifest), _bytes_of(settings.max_record)
    return Limits(manifest, record, settings.max_expansion)


def _bytes_of(size: str) -> int:
    """The bytes that a setting's text means.

    >>> _bytes_of("64m"), _bytes_of("2g")
    (67108864, 2147483648)
    """
    return int(size[:-1]) * _UNITS[size[-1]]


def size_words(size: int) -> str:
    """A number of bytes as a person reads it.

    >>> size_words(2**26), size_words(1024), size_words(1000)
    ('64 MB', '1 KB', '1000 bytes')
    """
    for unit, name in ((2**20, "MB"), (2**10, "KB")):
        if size >= unit and not size % unit:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def read_whole(store: Store, path: str, limits: Limits) -> bytes:
    """A manifest or schema file, whole.

    Raises:
        LandingError: it is larger than the contract lets it be, or can't be read.
    """
    with store.open(path) as stream:
        text = stream.read(limits.manifest + 1)
    if len(text) > limits.manifest:
        raise LandingError(
            f"{store.describe(path)} is larger than {size_words(limits.manifest)}",
            next_step="Nothing was taken. Write a smaller one, or raise snapshot.max_manifest",
        )
    return text


def may_expand_to(limits: Limits, size: int) -> int:
    """To how many bytes a compressed file of ``size`` bytes may expand."""
    return max(FREE_BYTES, limits.expansion * size)


def too_much(place: str, size: int, limits: Limits) -> LandingError:
    """A compressed file expands to more than its contract lets it."""
    most = may_expand_to(limits, size)
    return LandingError(
        f"{place} has {size} bytes and expands to more than {most}",
        next_step="Nothing of its snapshot was taken. If that is no mistake, raise "
        f"snapshot.max_expansion ({limits.expansion})",
    )


class Expanding:
    """A decompressed stream that ends with an error where it expands to too much."""

    def __init__(self, stream: BinaryIO, place: str, size: int, limits: Limits) -> None:
        self._stream, self._place, self._size, self._limits = stream, place, size, limits
        self._left = may_expand_to(limits, size)

    def read(self, size: int) -> bytes:
        block = self._stream.read(size)
        self._left -= len(block)
        if self._left < 0:
            raise too_much(self._place, self._size, self._limits)
        return block
