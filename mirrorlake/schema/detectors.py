"""What texts look like: e-mail addresses, card numbers, IBANs, phone numbers, IP addresses.

Values are looked at and never kept: what is found is a kind and two counts. A shape of a whole
column needs nine of ten values, of at least five. Of the others, an e-mail address counts wherever
it stands; card numbers and IBANs count among other values if their check digits are too often right
for chance.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, Literal, TypeAlias

RuleKind: TypeAlias = Literal["hash", "drop", "never"]
_LEAST_SAMPLES: Final = 5
_LEAST_SHARE: Final = 0.9
LOOKED_AT: Final = 4_000
"""How many characters of a value are looked at."""


@dataclass(frozen=True)
class Detected:
    """What sampled values look like.

    Attributes:
        kind: what suits such values best.
        hits, samples: how many of how many values.
        words: what the hits are, or hold.
    """

    kind: RuleKind
    hits: int
    samples: int
    words: str

    def __str__(self) -> str:
        return f"{self.hits} of {self.samples} sampled values {self.words}"

    @property
    def share(self) -> float:
        return self.hits / self.samples

    @property
    def whole(self) -> bool:
        """Whether it is said of a column as a whole: nine of ten values, of at least five."""
        return self.samples >= _LEAST_SAMPLES and self.share >= _LEAST_SHARE


def find_personal(samples: Sequence[str], *, numbers: bool = False) -> Detected | None:
    """What personal or card data these values hold, if any.

    Args:
        samples: texts of one column, NULLs left out.
        numbers: whether the column is a number's: then only card numbers are looked for.
    """
    texts = [text for sample in samples if (text := sample[:LOOKED_AT].strip())]
    if not texts:
        return None
    return _whole_column(texts, numbers=numbers) or _among_others(texts, numbers=numbers)


def _whole_column(texts: Sequence[str], *, numbers: bool) -> Detected | None:
    if len(texts) < _LEAST_SAMPLES:
        return None
    for kind, what, fits in _SHAPES:
        if numbers and kind != "never":
            continue
        hits = sum(map(fits, texts))
        if hits >= _LEAST_SHARE * len(texts) and not (kind == "never" and _is_counted(texts)):
            return Detected(kind, hits, len(texts), f"are {what}")
    return None


def _among_others(texts: Sequence[str], *, numbers: bool) -> Detected | None:
    for kind, what, like, fits in _CHECKED:
        candidates = [text for text in texts if like(text)]
        if numbers and kind != "never":
            continue
        hits = [text for text in candidates if fits(text)]
        enough = len(hits) >= max(_LEAST_SAMPLES, _LEAST_SHARE * len(candidates))
        if enough and not (kind == "never" and _is_counted(candidates)):
            return Detected(kind, len(hits), len(texts), f"are {what}")
    holds = 0 if numbers else sum(1 for text in texts if _EMAIL_INSIDE.search(text))
    return Detected("drop", holds, len(texts), "hold an e-mail address") if holds else None


# `logo@2x.png` is the name of a picture.
_DOMAIN: Final = (
    r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\."
    r"(?!(?:png|jpe?g|gif|svg|webp|css|js|html?|php|local|internal)\b)[A-Za-z]{2,}"
)
_EMAIL: Final = re.compile(rf"[^@\s\"'<>,;]+@{_DOMAIN}")
_EMAIL_INSIDE: Final = re.compile(rf"[A-Za-z0-9._%+-]+@{_DOMAIN}\b")
_PHONE: Final = re.compile(
    r"(?:\+|00)[1-9][\d ()./-]{6,20}(?:x\d+)?"  # international
    r"|\(\d{2,5}\)[ -]?\d{3,4}[ -]?\d{3,5}"  # (030) 1234 5678
    r"|\d{3}[-.]\d{3}[-.]\d{4}(?: ?x\d+)?"  # 555-123-4567
)
_IBAN: Final = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}")
_CARD: Final = re.compile(r"[2-6](?:[ -]?\d){12,18}")


def _is_email(text: str) -> bool:
    """Whether the whole text is an e-mail address.

    >>> _is_email("a@example.com"), _is_email("logo@2x.png")
    (True, False)
    """
    return _EMAIL.fullmatch(text) is not None


def is_phone(text: str) -> bool:
    """Whether the whole text is a phone number written as people write them, of 7 to 15 digits."""
    return _PHONE.fullmatch(text) is not None and 7 <= sum(map(str.isdigit, text)) <= 17


def is_iban(text: str) -> bool:
    """Whether the text is an IBAN whose check digits are right.

    Source: ISO 13616; ISO 7064 MOD 97-10.
    """
    if not _looks_like_iban(text):
        return False
    compact = _compact(text)
    return int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def _looks_like_iban(text: str) -> bool:
    return _IBAN.fullmatch(_compact(text)) is not None


def _compact(text: str) -> str:
    return text.replace(" ", "").upper()


def is_card_number(text: str) -> bool:
    """Whether the text is 13 to 19 digits that begin as card numbers do and end in Luhn's digit.

    Source: ISO/IEC 7812-1.
    """
    if not _looks_like_card(text):
        return False
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _looks_like_card(text: str) -> bool:
    return _CARD.fullmatch(text) is not None


def _is_ip(text: str) -> bool:
    """Whether the text is an IPv4 or IPv6 address."""
    if "." not in text and ":" not in text:
        return False  # most texts: an exception for each costs more than all else here
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_counted(samples: Sequence[str]) -> bool:
    """Whether the numbers are a counter's, or one number again and again: no card numbers."""
    numbers = sorted({int(digits) for digits in _digits(samples)})
    return len(numbers) < _LEAST_SAMPLES or numbers[-1] - numbers[0] < 1000 * len(numbers)


def _digits(samples: Sequence[str]) -> Iterator[str]:
    for text in samples:
        digits = "".join(char for char in text if char in "0123456789")
        if digits:
            yield digits


_CARDS: Final = "card numbers (length, first digit, Luhn)"
_SHAPES: Final[tuple[tuple[RuleKind, str, Callable[[str], bool]], ...]] = (
    ("never", _CARDS, is_card_number),
    ("hash", "e-mail addresses", _is_email),
    ("hash", "IBANs (mod 97)", is_iban),
    ("hash", "phone numbers", is_phone),
    ("hash", "IP addresses", _is_ip),
)
_CHECKED: Final[tuple[tuple[RuleKind, str, Callable[[str], bool], Callable[[str], bool]], ...]] = (
    ("never", _CARDS, _looks_like_card, is_card_number),
    ("hash", "IBANs (mod 97)", _looks_like_iban, is_iban),
)


def texts_of(values: Iterable[Any]) -> list[str]:
    """The texts among sampled values; NULLs, and bytes that are no text, are left out."""
    texts: list[str] = []
    for value in values:
        if isinstance(value, bytes):
            try:
                texts.append(value.decode())
            except UnicodeDecodeError:
                continue  # no text
        elif value is not None:
            texts.append(str(value))
    return texts
