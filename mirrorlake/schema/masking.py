"""What the clean layer shows of each column: SQL for views, and a keyed hash for tables.

Rules: ``drop`` (the column is absent), ``null`` (present, always NULL), ``mask`` (texts: eight
asterisks and the last two characters of texts of at least six), ``hash`` (HMAC-SHA256 of the
value's text under ``privacy.hash_key``, in hexadecimal: equal values stay joinable, and nobody
without the key can test a guess). NULL stays NULL under every rule. ``hash`` needs ``clean:
table``: a view's text is stored, and the key would stand in it.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

from pydantic import SecretStr

# Types whose text is the same for MySQL and for us, to the letter: only they can be hashed.
HASHABLE = ("int", "long", "decimal", "string", "date")


def mask_sql(column: str) -> str:
    """A text column's mask, as Spark SQL over the quoted column."""
    shown = f"CASE WHEN char_length({column}) >= 6 THEN right({column}, 2) ELSE '' END"
    return f"CASE WHEN {column} IS NULL THEN NULL ELSE concat('********', {shown}) END"


def keyed_hash(key: bytes) -> Callable[[Any, str | None], str | None]:
    """A function (value, original text) → HMAC-SHA256 of the value's text in lower-case
    hexadecimal.

    The original text stands in where the value had no place in its typed column.

    >>> keyed_hash(b"k" * 16)("a@example.com", None)[:16]
    'af538e6ff80f5acb'
    >>> keyed_hash(b"k" * 16)(None, None) is None
    True
    """

    def hashed(value: Any, original: str | None) -> str | None:
        text = original if value is None else text_of(value)
        return None if text is None else hmac.new(key, text.encode(), hashlib.sha256).hexdigest()

    return hashed


def text_of(value: Any) -> str:
    """The text that MySQL prints for a value of a hashable type.

    >>> text_of(Decimal("0E-10")), text_of(date(2020, 1, 2)), text_of(-5)
    ('0.0000000000', '2020-01-02', '-5')
    """
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.isoformat() if isinstance(value, date) else str(value)


_CONSTANT = b"mirrorlake: the fingerprint of a hash key"


def fingerprint_of(hash_key: SecretStr) -> str:
    """A keyed digest of a constant: equal for equal keys, and it does not reveal the key.

    >>> fingerprint_of(SecretStr("k" * 16))
    '4da17a5286d13bf3'
    """
    key = hash_key.get_secret_value().encode()
    return hmac.new(key, _CONSTANT, hashlib.sha256).hexdigest()[:16]
