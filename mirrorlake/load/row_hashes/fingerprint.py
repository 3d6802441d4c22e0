"""Fingerprints of rows: 128 bits of a row's key, and 128 of all its columns, as they are in raw.

By them a copy knows which of its rows the last copy had already. They are chained, column after
column, in two lanes with constants of their own: every step is a bijection of what came before it
and of the word that it takes in, so two rows of one table that differ in one number, or in eight
bytes of one text, never share a fingerprint in either lane. Rows that differ in more share one by
chance alone. They are no guard against somebody who makes rows collide on purpose: that is what the
proof by the server's own digests is for.

What a fingerprint is must not change while indexes of it are kept: `VERSION` says so.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.load.row_hashes.digest import PADDED, is_text, padded_words

pc: Any = _compute  # its functions are made at import: type checkers see none of them

Words: TypeAlias = npt.NDArray[np.uint64]
VERSION = 1

_SEEDS = (0x243F6A8885A308D3, 0x13198A2E03707344)
_FIRST = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_SECOND = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_SHIFTS = ((np.uint64(32), np.uint64(29)), (np.uint64(30), np.uint64(31)))
_ALL = 2**64
_FLAGS = 64
"""How many columns' NULLs one word of a fingerprint covers."""


def fingerprints(rows: pa.Table, columns: Sequence[str], key: Sequence[str]) -> Words:
    """Four words a row: two of its key, two of all these columns; NULL is apart from every value.

    A row's words depend on nothing but its own values and the order of the columns.
    """
    found = np.empty((rows.num_rows, 4), dtype=np.uint64)
    with np.errstate(over="ignore"):
        of_row, of_key = _Chain(rows.num_rows), _Chain(rows.num_rows)
        wanted = set(key)
        for name in columns:
            array = _flat(rows.column(name))
            words = list(_words(array))
            of_row.take_in(array, words)
            if name in wanted:
                of_key.take_in(array, words)
        found[:, 0], found[:, 1] = of_key.end()
        found[:, 2], found[:, 3] = of_row.end()
    return found


def key_fingerprints(rows: pa.Table, columns: Sequence[str], key: Sequence[str]) -> Words:
    """The two words of each row's key, as `fingerprints` gives them.

    Args:
        columns: all that a row's fingerprint is of: their order is that of the key's.
    """
    found = np.empty((rows.num_rows, 2), dtype=np.uint64)
    with np.errstate(over="ignore"):
        chain = _Chain(rows.num_rows)
        for name in in_order(columns, key):
            array = _flat(rows.column(name))
            chain.take_in(array, list(_words(array)))
        found[:, 0], found[:, 1] = chain.end()
    return found


def in_order(columns: Sequence[str], key: Sequence[str]) -> list[str]:
    """The key's columns in the order in which a row has them."""
    return [name for name in columns if name in set(key)]


class _Chain:
    """Two lanes of words, one of each a row, that take in a column after the other."""

    def __init__(self, rows: int) -> None:
        self._lanes = tuple(np.full(rows, seed, dtype=np.uint64) for seed in _SEEDS)
        self._nulls = np.zeros(rows, dtype=np.uint64)
        self._columns = 0

    def take_in(self, array: Any, words: Sequence[tuple[Words, Words]]) -> None:
        for pair in words:
            for lane, (state, word) in enumerate(zip(self._lanes, pair, strict=True)):
                _mix(state, word, lane)
        if array.null_count:
            missing = array.is_null().to_numpy(zero_copy_only=False).astype(np.uint64)
            self._nulls |= missing << np.uint64(self._columns % _FLAGS)
        self._columns += 1
        if self._columns % _FLAGS == 0:
            self._mix_nulls()

    def end(self) -> tuple[Words, ...]:
        if self._columns % _FLAGS:
            self._mix_nulls()
        return self._lanes

    def _mix_nulls(self) -> None:
        for lane, state in enumerate(self._lanes):
            _mix(state, self._nulls, lane)
        self._nulls = np.zeros_like(self._nulls)


def _mix(state: Words, word: Words, lane: int) -> None:
    """Take a word in, in place: for one state, two words give two states, and the other way."""
    first, second = _SHIFTS[lane]
    state ^= word
    state *= np.uint64(_FIRST[lane])
    state ^= state >> first
    state *= np.uint64(_SECOND[lane])
    state ^= state >> second


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _words(array: Any) -> Iterator[tuple[Words, Words]]:
    """A column's words, for each lane; of NULL they are those of a zero, or of an empty text."""
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        array, kind = _lists_as_texts(array), pa.string()
    elif pa.types.is_boolean(kind):
        array = array.cast(pa.uint8())
    if is_text(kind):
        yield from _text_words(array)
        return
    for word in _fixed_words(array):
        yield word, word


def _lists_as_texts(array: Any) -> Any:
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.string())
    return pa.array([None if v is None else repr(v) for v in array.to_pylist()], pa.string())


def _fixed_words(array: Any) -> Iterator[Words]:
    """Over the bits: -0.0 and 0.0 are two values, and so are two NaNs."""
    width = array.type.bit_width // 8
    start = array.offset * width
    bits = np.frombuffer(array.buffers()[1], dtype=np.uint8)[start : start + len(array) * width]
    if width == 16:
        halves = bits.view(np.uint64).reshape(-1, 2)
        words = [halves[:, 0].copy()]
        # A decimal; of up to 18 digits its upper half is but the sign of the lower.
        if not (pa.types.is_decimal(array.type) and array.type.precision <= 18):
            words.append(halves[:, 1].copy())
    else:
        words = [bits.view(f"u{width}").astype(np.uint64)]
    if array.null_count:
        # What lies under a NULL may be anything.
        there = array.is_valid().to_numpy(zero_copy_only=False)
        words = [np.where(there, word, np.uint64(0)) for word in words]
    yield from words


def _text_words(array: Any) -> Iterator[tuple[Words, Words]]:
    """Its length, and for each lane a word of its bytes: long texts by a hash of them."""
    lengths = pc.binary_length(array)
    if array.null_count:
        lengths = lengths.fill_null(0)
    lengths = lengths.to_numpy().astype(np.uint64)
    yield lengths, lengths
    short = lengths <= PADDED
    if short.all():
        yield _short_words(array, int(lengths.max(initial=0)))
        return
    found = (np.zeros(len(array), dtype=np.uint64), np.zeros(len(array), dtype=np.uint64))
    parts = _short_words(array.filter(pa.array(short)), PADDED)
    long = array.filter(pa.array(~short))
    hashed = b"".join(hashlib.blake2b(v.as_buffer(), digest_size=16).digest() for v in long)
    halves = np.frombuffer(hashed, dtype=np.uint64).reshape(-1, 2)
    for lane in (0, 1):
        found[lane][short] = parts[lane]
        found[lane][~short] = halves[:, lane]
    yield found


def _short_words(array: Any, longest: int) -> tuple[Words, Words]:
    """Zeros after a text add nothing: its words do not depend on the longest text beside it."""
    sums = (np.zeros(len(array), dtype=np.uint64), np.zeros(len(array), dtype=np.uint64))
    for number, part in enumerate(padded_words(array, longest)):
        for lane in (0, 1):
            first, second = _SHIFTS[1 - lane]
            mixed = part * np.uint64(_SECOND[lane] * (4 * number + 1) % _ALL)
            mixed ^= mixed >> first
            mixed *= np.uint64(_FIRST[1 - lane])
            mixed ^= mixed >> second
            sums[lane][:] += mixed
    return sums
