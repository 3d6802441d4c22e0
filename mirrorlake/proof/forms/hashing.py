"""The hash under every digest: SHA-256, in MySQL, in Spark and here.

MD5 is no built-in function of MySQL any more from 9.6 on, and of no server in FIPS mode; SHA-2 is
one of every MySQL since 5.5 and of every MariaDB, and Spark has it as well.

Source: MySQL 9.6 manual, 7.5.8 "Legacy Hashing Component", 14.13 "Encryption and Compression
Functions"; MariaDB knowledge base, "SHA2"; Spark SQL's function reference, ``sha2``.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

ALGORITHM = "sha256"
"""Named wherever a digest is written down: digests of two algorithms are never compared."""


def source_hash(sql: str) -> str:
    """MySQL's SQL of the hash of a text or of bytes, in 64 hexadecimal digits."""
    return f"SHA2({sql},256)"


def lake_hash(sql: str) -> str:
    """Spark's SQL of the same hash; of a BINARY."""
    return f"sha2({sql},256)"


def hash_bytes(data: bytes) -> bytes:
    """The same hash of bytes that are at hand, in 32 bytes."""
    return hashlib.sha256(data).digest()


def numbers_of_digits(digits: bytes) -> Any:
    """Hashes of 16 hexadecimal digits each, one after another, as 64-bit numbers without a sign.

    Raises:
        ValueError: they are no hexadecimal digits.
    """
    return np.frombuffer(bytes.fromhex(digits.decode("ascii")), dtype=">u8").astype(np.uint64)
