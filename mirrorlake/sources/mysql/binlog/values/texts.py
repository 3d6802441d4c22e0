"""Text by its charset, and the labels of ENUM and SET.

UTF-8 is checked and kept; everything else is turned by the server's own tables
(`mirrorlake.sources.mysql.binlog.charsets`), as a SELECT of ours has it turned.

Source: MySQL 8.0 manual, chapter 10 "Character Sets, Collations, Unicode", 11.3.5 "The ENUM Type",
11.3.6 "The SET Type".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from mirrorlake.errors import LogUnreadable
from mirrorlake.sources.mysql.binlog.byte_reader import unreadable
from mirrorlake.sources.mysql.binlog.cells import ColumnCells
from mirrorlake.sources.mysql.binlog.values.decoded import Decoded

UTF8: Final = ("utf8mb4", "utf8mb3", "utf8")
"""Charsets whose bytes are UTF-8 as they are."""

WIDE: Final = {
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "ucs2": "utf-16-be",
    "utf32": "utf-32-be",
}
"""Charsets in which a letter of ASCII is not its one byte, with Python's names of them."""

ConvertedText: TypeAlias = tuple[str | None, str | None]
"""A text; or None and its bytes in hexadecimal, where it would not come back from UTF-8."""


class TextConverter(Protocol):
    """Turns bytes of a charset into text as the server does."""

    def convert(self, charset: str, values: Sequence[bytes]) -> list[ConvertedText]:
        """One for each value, in their order.

        Raises:
            SourceError: the server could not be asked.
        """
        ...


def text(charset: str, converter: TextConverter) -> Callable[[ColumnCells], Decoded]:
    """Values of a column of text."""
    if charset in UTF8:
        return _utf8

    def decode(cells: ColumnCells) -> Decoded:
        keys: Any = cells.binary().dictionary_encode()
        texts, originals = _converted(charset, converter, keys.dictionary.to_pylist())
        return Decoded(texts.take(keys.indices), _taken(originals, keys.indices))

    return decode


def _utf8(cells: ColumnCells) -> Decoded:
    try:
        return Decoded(cells.binary().cast(pa.large_string()))
    except pa.ArrowInvalid:
        # The error's own text has the value: it may be personal.
        raise LogUnreadable(
            "a value holds bytes that are no text in the column's own charset",
            next_step="Repair the value in MySQL, declare the column as binary, or mark it "
            "`pci: never` to leave it out",
        ) from None


def _converted(
    charset: str, converter: TextConverter, values: Sequence[bytes]
) -> tuple[pa.Array, pa.Array]:
    if charset in UTF8:
        texts: pa.Array = pa.array(values, pa.large_binary()).cast(pa.large_string())
        return texts, pa.nulls(len(values), pa.string())
    found = converter.convert(charset, values) if values else []
    return (
        pa.array([text for text, _ in found], pa.large_string()),
        pa.array([original for _, original in found], pa.string()),
    )


def _taken(originals: pa.Array, indices: Any) -> pa.Array | None:
    return None if originals.null_count == len(originals) else originals.take(indices)


def enum(
    size: int, labels: Sequence[bytes], charset: str, converter: TextConverter
) -> Callable[[ColumnCells], Decoded]:
    """Values of an ENUM; its error value is '' with the original '0'."""
    known: list[tuple[pa.Array, pa.Array]] = []

    def decode(cells: ColumnCells) -> Decoded:
        if not known:
            texts, originals = _converted(charset, converter, labels)
            error = pa.array([""], pa.large_string()), pa.array(["0"], pa.string())
            known.append(
                (pa.concat_arrays([error[0], texts]), pa.concat_arrays([error[1], originals]))
            )
        numbers = cells.valid(cells.word(size)).astype(np.int64)
        if len(numbers) and int(numbers.max()) > len(labels):
            raise unreadable("A row event", "an ENUM has a number without a label")
        places = pa.array(numbers, mask=cells.null)
        texts, originals = known[0]
        return Decoded(texts.take(places), originals.take(places))

    return decode


def set_of(
    size: int, labels: Sequence[bytes], charset: str, converter: TextConverter
) -> Callable[[ColumnCells], Decoded]:
    """Values of a SET: its labels with commas between them."""
    comma = ",".encode(WIDE.get(charset, "ascii"))

    def decode(cells: ColumnCells) -> Decoded:
        words = cells.valid(cells.word(size)).astype(np.uint64)
        if len(words) and len(labels) < 64 and int(words.max()) >> len(labels):
            raise unreadable("A row event", "a SET has a bit without a label")
        several, places = np.unique(words, return_inverse=True)
        joined = [
            comma.join(label for n, label in enumerate(labels) if int(word) >> n & 1)
            for word in several
        ]
        texts, originals = _converted(charset, converter, joined)
        indices = pa.array(places.reshape(-1), mask=cells.null)
        return Decoded(texts.take(indices), _taken(originals, indices))

    return decode
