"""Which columns hold personal or card data: guesses, by a column's name and by sampled values.

A guess is for a person to confirm: every `Suggestion` says why. What is chosen:

=====  ===========================  ===============================================================
pci    never                        card numbers, security codes, card expiry, track data, PINs
pii    hash                         identifiers that people join and count by: e-mail, phone, IBAN,
                                    login name, IP address (text columns only)
pii    drop                         what identifies and is not joined by: names, addresses, birth
                                    dates, papers, secrets, free text with e-mail addresses in it
=====  ===========================  ===============================================================

A false alarm costs a line in a file, a miss costs a leak; but a file full of false alarms is not
read. So a bare ``name`` counts only in a table of people, and a shape needs nine of ten samples, of
at least five. Samples are looked at and never kept: no value appears in a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Literal, TypeAlias

from mirrorlake.config import ColumnRule
from mirrorlake.mysql.introspect import Column

Kind: TypeAlias = Literal["hash", "drop", "never"]
LEAST_SAMPLES: Final = 5
LEAST_SHARE: Final = 0.9
_TEXT: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
_WHOLE: Final = ("bigint", "decimal")


@dataclass(frozen=True)
class Suggestion:
    """A rule for one column, and the reason for it (one line, without any value of the column)."""

    column: str
    rule: ColumnRule
    reason: str

    @property
    def is_hash(self) -> bool:
        return self.rule.pii == "hash"


@dataclass(frozen=True)
class _NamePattern:
    kind: Kind
    what: str
    pattern: re.Pattern[str]
    types: tuple[str, ...] | None = None  # None: any


def _name(
    kind: Kind, what: str, pattern: str, types: tuple[str, ...] | None = _TEXT
) -> _NamePattern:
    """A pattern over the end of a name's words joined by ``_`` (``customer_e_mail``)."""
    return _NamePattern(kind, what, re.compile(rf"(?:.*_)?(?:{pattern})"), types)


_LONG: Final = (*_TEXT, *_WHOLE)
_NAMES: Final = (
    # Card data. The last four digits and the brand may be shown, and are not matched.
    _name(
        "never",
        "a card number",
        r"(?:card|cc|creditcard|credit_card|debit_card)_?(?:number|numbers|num|no|nr)"
        r"|cardnumber|pan|card_pan|primary_account_number|credit_?card|debit_?card",
        (*_LONG, "json", "varbinary", "binary", "blob"),
    ),
    _name(
        "never",
        "a card's security code",
        r"(?:cvv|cvc|cvn)2?(?:_code|_number)?"
        r"|csc|card_security_code|security_code|card_code",
        None,
    ),
    _name(
        "never",
        "a card's expiry",
        r"(?:card|cc|pan)_(?:expiry|exp|expires|expiration|valid)"
        r"(?:_.*)?|(?:card|cc)(?:expiry|expiration|exp)|exp(?:iry|iration)?_(?:month|year)",
        None,
    ),
    _name(
        "never", "a card's track data or PIN", r"track_?[123](?:_data)?|pin_block|card_pin", None
    ),
    # Identifiers.
    _name("hash", "an e-mail address", r"(?:e_?)?mail(?:_?(?:address|addr|adr))?_?\d?"),
    _name(
        "hash",
        "a phone number",
        r"(?:(?:cell|mobile|tele|home|work)_?)?(?:phone|mobile|msisdn|fax)"
        r"(?:_?(?:number|num|no|nr))?_?\d?|tel|tel_(?:no|nr)",
        _LONG,
    ),
    _name("hash", "a bank account", r"iban|bank_account(?:_(?:number|no|nr))?", _LONG),
    _name("hash", "a login name", r"user_?name|login|login_name|nick_?name|screen_name"),
    _name(
        "hash",
        "an IP address",
        r"ip|ip_?v?[46]|ip_?addr(?:ess)?|remote_addr(?:ess)?",
        (*_LONG, "int", "varbinary", "binary", "inet4", "inet6"),
    ),
    # What identifies and is not joined by.
    _name(
        "drop",
        "a person's name",
        r"(?:first|last|full|middle|given|family|maiden|sur|birth)_?names?"
        r"|forename|(?:contact|customer|client|patient|employee|recipient|holder|card_?holder"
        r"|owner|payer|payee|passenger|guest|shipping|billing)_?name|card_?holder",
    ),
    _name(
        "drop",
        "a postal address",
        r"(?:address|addr|adr)(?:_?line)?(?:_?\d)?|street|street_(?:name|number|no)"
        r"|house_(?:number|no)|zip|zip_?code|postal_?code|post_?code",
        (*_TEXT, "int", "mediumint"),
    ),
    _name(
        "drop",
        "a date of birth",
        r"birth|birth_?(?:date|day)|date_of_birth|dob|born|born_(?:on|at)",
        None,
    ),
    _name(
        "drop",
        "an official number",
        r"ssn|social_security(?:_(?:number|no))?|sin_number"
        r"|(?:national|personal)_(?:id|number|id_number)|id_card(?:_(?:number|no))?"
        r"|tax_(?:id|number)|passport(?:_(?:number|no|nr))?"
        r"|driv(?:er|ers|ing)_licen[cs]e(?:_(?:number|no))?",
        _LONG,
    ),
    _name("drop", "a browser's fingerprint", r"user_?agent|device_fingerprint"),
    _name(
        "drop",
        "a secret",
        r"password|passwd|password_(?:hash|digest|salt)|pass_hash|api_?key"
        r"|(?:client_|shared_)?secret|secret_key|(?:access|refresh|session|auth|reset)_token",
        (*_TEXT, "varbinary", "binary", "blob"),
    ),
)
_PEOPLE: Final = re.compile(
    r"(?:.*_)?(?:customer|user|people|person|contact|employee|patient|member|guest|client|subscriber"
    r"|student|teacher|passenger|applicant|candidate|driver|account_holder|beneficiar(?:y|ie)|staff)s?"
)
# Addresses of machines and pages.
_NOBODYS: Final = re.compile(r"(?:.*_)?(?:mac|url|web|wallet|memory)_?(?:address|addr)")
_SHAPELESS: Final = re.compile(
    r"(?:.*_)?(?:imei|iccid|ean|gtin|isbn|version|sku|barcode|uuid|hash)"
)


def suggest_rule(column: Column, samples: Sequence[str], *, table: str = "") -> Suggestion | None:
    """The rule that a column's name or its sampled texts ask for, or None.

    Args:
        column: as introspected.
        samples: texts of the column, NULLs left out; may be empty.
        table: the table's name, which tells whether ``name`` is a person's.
    """
    words = "_".join(split_words(column.name))
    by_name = _by_name(column, words, table)
    if by_name is not None and by_name.rule.pci:
        return by_name
    # A shape is evidence, a name is an opinion; but card data outranks both.
    by_shape = _by_shape(column, [text.strip() for text in samples if text.strip()], words)
    if by_shape is not None and (by_shape.rule.pci or by_name is None):
        return by_shape
    return by_name


def split_words(name: str) -> list[str]:
    """``customerEmail``, ``Customer-EMail`` and ``CUSTOMER_EMAIL`` → lower-case words."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def _by_name(column: Column, words: str, table: str) -> Suggestion | None:
    for pattern in _NAMES:
        if pattern.types is not None and column.data_type not in pattern.types:
            continue
        if pattern.pattern.fullmatch(words) and not _NOBODYS.fullmatch(words):
            return _suggestion(column, pattern.kind, f"its name says {pattern.what}")
    is_people = _PEOPLE.fullmatch("_".join(split_words(table)))
    if words == "name" and is_people and column.data_type in _TEXT:
        return _suggestion(column, "drop", "a person's name, by the table's name")
    return None


def _by_shape(column: Column, samples: Sequence[str], words: str) -> Suggestion | None:
    if column.data_type not in (*_LONG, "json") or _SHAPELESS.fullmatch(words):
        return None
    if len(samples) >= LEAST_SAMPLES:
        for kind, what, fits in _SHAPES:
            if column.data_type in _WHOLE and kind != "never":
                continue
            hits = sum(map(fits, samples))
            if hits < LEAST_SHARE * len(samples) or (kind == "never" and _is_counted(samples)):
                continue
            return _suggestion(column, kind, f"{hits} of {len(samples)} sampled values are {what}")
    holds = sum(1 for text in samples if _EMAIL_INSIDE.search(text))
    if holds:
        reason = f"{holds} of {len(samples)} sampled values hold an e-mail address"
        return _suggestion(column, "drop", reason)
    return None


def _suggestion(column: Column, kind: Kind, reason: str) -> Suggestion:
    if kind == "never":
        return Suggestion(column.name, ColumnRule(pci="never"), reason)
    if kind == "hash" and column.data_type not in _TEXT:
        # A hash is text: it can't stand in a number's place.
        return Suggestion(column.name, ColumnRule(pii="drop"), f"{reason}; not text, so not hashed")
    return Suggestion(column.name, ColumnRule(pii=kind), reason)


_EMAIL: Final = re.compile(r"[^@\s\"'<>,;]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}")
_EMAIL_INSIDE: Final = re.compile(
    r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}"
)
_PHONE: Final = re.compile(
    r"(?:\+|00)[1-9][\d ()./-]{6,20}(?:x\d+)?"  # international
    r"|\(\d{2,5}\)[ -]?\d{3,4}[ -]?\d{3,5}"  # (030) 1234 5678
    r"|\d{3}[-.]\d{3}[-.]\d{4}(?: ?x\d+)?"  # 555-123-4567
)
_IBAN: Final = re.compile(r"[A-Z]{2}\d{2}[A-Z0-9]{11,30}")
_CARD: Final = re.compile(r"[2-6](?:[ -]?\d){12,18}")


def is_email(text: str) -> bool:
    """Whether the whole text is an e-mail address."""
    return _EMAIL.fullmatch(text) is not None


def is_phone(text: str) -> bool:
    """Whether the whole text is a phone number written as people write them, of 7 to 15 digits."""
    return _PHONE.fullmatch(text) is not None and 7 <= sum(map(str.isdigit, text)) <= 17


def is_iban(text: str) -> bool:
    """Whether the text is an IBAN whose check digits are right.

    Source: ISO 13616; ISO 7064 MOD 97-10.
    """
    compact = text.replace(" ", "").upper()
    if not _IBAN.fullmatch(compact):
        return False
    return int("".join(str(int(char, 36)) for char in compact[4:] + compact[:4])) % 97 == 1


def is_card_number(text: str) -> bool:
    """Whether the text is 13 to 19 digits that begin as card numbers do and end in Luhn's digit.

    Source: ISO/IEC 7812-1.
    """
    if not _CARD.fullmatch(text):
        return False
    digits = [int(char) for char in text if char.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def is_ip(text: str) -> bool:
    """Whether the text is an IPv4 or IPv6 address."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_counted(samples: Sequence[str]) -> bool:
    """Whether the numbers are a counter's, or one number again and again: no card numbers."""
    numbers = sorted({int(digits) for digits in _digits(samples)})
    return len(numbers) < LEAST_SAMPLES or numbers[-1] - numbers[0] < 1000 * len(numbers)


def _digits(samples: Sequence[str]) -> Iterator[str]:
    for text in samples:
        digits = "".join(char for char in text if char in "0123456789")
        if digits:
            yield digits


_SHAPES: Final[tuple[tuple[Kind, str, Callable[[str], bool]], ...]] = (
    ("never", "card numbers (length, first digit, Luhn)", is_card_number),
    ("hash", "e-mail addresses", is_email),
    ("hash", "IBANs (mod 97)", is_iban),
    ("hash", "phone numbers", is_phone),
    ("hash", "IP addresses", is_ip),
)
