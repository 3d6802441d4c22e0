"""What clean must show of a row of deduped, by the contract's rules: stated here a second time.

The layers have a statement of their own, in SQL and in a function that Spark calls; a mistake there
must not be repeated here, so nothing of it is used. Over Arrow's columns, without Spark.

Source: RFC 2104 (HMAC) and FIPS 180-4 (SHA-256); the contract's reference, ``pii``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa

from mirrorlake.errors import ProofError

_BLOCK = 64
"""Bytes of the blocks in which SHA-256 takes its input."""
_STARS = "*" * 8


def shown_type(rule: str | None, iceberg: str) -> str | None:
    """The Iceberg type of a column in clean; None if it must not be there.

    >>> shown_type("hash", "long"), shown_type("null", "date"), shown_type("drop", "int")
    ('string', 'date', None)
    """
    if rule == "drop":
        return None
    return "string" if rule in ("hash", "mask") else iceberg


def shown(rule: str | None, cells: Any, originals: Sequence[str | None], key: bytes | None) -> Any:
    """A column as clean must show it.

    Args:
        cells: the column in deduped.
        originals: the exact text of each cell that has no place in its type, None for all others.
        key: ``privacy.hash_key``.

    Raises:
        ProofError: a rule that has no statement here, or a hash without its key.
    """
    if rule is None:
        return cells
    if rule == "null":
        return pa.nulls(len(cells), cells.type)
    if rule == "mask":
        return _masked(cells)
    if rule == "hash" and key is not None:
        return _hashed(cells, originals, _keyed(key))
    raise ProofError(
        f"rule {rule!r} can't be proved here" if key or rule != "hash" else "there is no hash key",
        next_step="Set privacy.hash_key" if rule == "hash" else "Please report this",
    )


def _masked(cells: Any) -> Any:
    """Eight stars, and of six characters or more the last two."""

    def mask(text: str | None) -> str | None:
        if text is None:
            return None
        return _STARS if len(text) < 6 else _STARS + text[-2:]

    return pa.array([mask(text) for text in cells.to_pylist()], pa.large_string())


def _hashed(cells: Any, originals: Sequence[str | None], keyed: Callable[[str], str]) -> Any:
    texts = (
        original if value is None else _text(value)
        for value, original in zip(cells.to_pylist(), originals, strict=True)
    )
    return pa.array([None if t is None else keyed(t) for t in texts], pa.large_string())


def _text(value: Any) -> str:
    """The value as MySQL prints it.

    >>> _text(Decimal("-0.50")), _text(Decimal("1E+2")), _text(date(7, 1, 2)), _text(-5)
    ('-0.50', '100', '0007-01-02', '-5')
    """
    if isinstance(value, Decimal):
        sign, digits, exponent = value.as_tuple()
        places = max(0, -int(exponent))
        whole = "".join(map(str, digits)) + "0" * max(0, int(exponent))
        whole = whole.rjust(places + 1, "0")
        point = len(whole) - places
        number = f"{whole[:point]}.{whole[point:]}" if places else whole
        return f"-{number}" if sign else number
    if isinstance(value, date):
        return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"
    return f"{value}"


def _keyed(key: bytes) -> Callable[[str], str]:
    """HMAC-SHA256 under a key, in lower-case hexadecimal, as RFC 2104 writes it.

    >>> _keyed(b"Jefe")("what do ya want for nothing?")[:16]
    '5bdcc146bf60754e'
    """
    block = hashlib.sha256(key).digest() if len(key) > _BLOCK else key
    block = block.ljust(_BLOCK, b"\0")
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    def keyed(text: str) -> str:
        first, second = inner.copy(), outer.copy()
        first.update(text.encode())
        second.update(first.digest())
        return second.hexdigest()

    return keyed


def shown_originals(entries: Any, rules: Mapping[str, str]) -> list[list[dict[str, Any]] | None]:
    """The originals that clean must keep: those of columns without a rule; None where none is."""
    kept: list[list[dict[str, Any]] | None] = []
    for row in entries.to_pylist():
        some = [entry for entry in row or () if entry["column"] not in rules]
        kept.append(some or None)
    return kept
