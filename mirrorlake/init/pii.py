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
read. So a bare ``name`` counts only in a table of people, a shape needs nine of ten samples, of at
least five, and free text with e-mail addresses the same, or half of at least twenty: else a person
decides. Samples are looked at and never kept: no value appears in a reason.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirrorlake.config import ColumnRule
from mirrorlake.schema.detectors import RuleKind, find_personal
from mirrorlake.sources.mysql.introspection.introspect import Column
from mirrorlake.sources.mysql.types.registry import BYTES, TEXTS

_ENOUGH: Final = 0.5
"""The share of sampled values from which on what they hold decides; below, a person decides."""
_ENOUGH_SAMPLES: Final = 20
"""Of fewer, a share says too little: where 10 of 20 texts hold an e-mail address, at least 29 % of
all do, with 97.5 % certainty (Wilson's interval); where 1 of 2 does, at least 9 %."""
# Applications keep texts in columns of bytes, too.
_TEXT: Final = (*TEXTS, *BYTES)
_WHOLE: Final = ("bigint", "decimal")
_KEYS: Final = ("smallint", "mediumint", "int", "bigint")


@dataclass(frozen=True)
class Suggestion:
    """A rule for one column, and the reason for it (one line, without any value of the column).

    ``unsure``: the evidence is too thin to apply the rule: a person decides.
    """

    column: str
    rule: ColumnRule
    reason: str
    unsure: bool = False

    @property
    def is_hash(self) -> bool:
        return self.rule.pii == "hash"


@dataclass(frozen=True)
class _NamePattern:
    kind: RuleKind
    what: str
    pattern: re.Pattern[str]
    types: tuple[str, ...] | None = None  # None: any


def _name(
    kind: RuleKind, what: str, pattern: str, types: tuple[str, ...] | None = _TEXT
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
        (*_LONG, "json"),
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
    _name(
        "hash",
        "a bank account",
        r"iban|bank_account(?:_(?:number|no|nr|name))?|paypal(?:_(?:email|account))?",
        _LONG,
    ),
    _name(
        "hash",
        "a login name",
        r"user_?name|login|login_name|(?:nick|nice)_?name|screen_name|user_text",
    ),
    _name(
        "hash",
        "an IP address",
        r"ip|ip_?v?[46]|ip_?addr(?:ess)?|remote_addr(?:ess)?",
        (*_LONG, "int", "inet4", "inet6"),
    ),
    # What identifies and is not joined by.
    _name(
        "drop",
        "a person's name",
        r"(?:first|last|full|middle|given|family|maiden|sur|birth|real)_?names?"
        r"|forename|(?:contact|customer|client|patient|employee|recipient|holder|card_?holder|owner"
        r"|payer|payee|passenger|guest|shipping|billing|delivery|sender|author)s?_?name"
        r"|(?:from|to|user_display)_name|(?:comment|review|post|reply|message)_author"
        r"|card_?holder|(?:card|cc)_owner",
    ),
    _name(
        "drop",
        "a postal address",
        r"(?:address|addr|adr)(?:_?line)?(?:_?\d)?|street|street_(?:name|number|no)"
        r"|house_(?:number|no)|zip|zip_?code|postal_?code|post_?code|suburb"
        r"|(?:entry|delivery|billing|shipping|payment|customers?|contact|home|invoice|postal)"
        r"_(?:city|town)",
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
    _name("drop", "a browser's fingerprint", r"(?:user_?|comment_)agent|device_fingerprint"),
    _name(
        "drop",
        "a secret",
        r"(?:new_?)?password|passwd|pwd|pass_?phrase|password_(?:hash|digest|salt)|pass_hash"
        r"|(?:users?|login|member|customers?|account|admin|db|smtp|ftp|mail)_?pass"
        r"|(?:client_|shared_)?secrets?|credentials|activation_(?:key|code)"
        r"|(?:api|access|account|secret|private|signing|encryption)_?key|reset_(?:key|code)"
        r"|sess(?:ion)?_?(?:id|key)|t?otp(?:_(?:secret|code|key))?"
        r"|(?:access|refresh|session|auth|reset|user|email|remember|login|bearer|csrf|device|api)"
        r"_?token",
    ),
)
# Names that mean a person only in a table of such: (table, column).
_IN_TABLES: Final = (
    ("a person's name", r"name|display_name", None),
    ("a picture of a person", r"picture|photo|photograph|avatar|portrait", None),
    ("a secret", r"token|pass|salt", None),
    ("a person's name", r"author", r"comment|review|post|reply|message|ticket"),
    ("a postal address", r"city|town", r"address(?:es)?|address_?book"),
)
_PEOPLE: Final = re.compile(
    r"(?:.*_)?(?:customer|user|people|person|contact|employee|patient|member|guest|client|subscriber"
    r"|student|teacher|passenger|applicant|candidate|driver|account_holder|beneficiar(?:y|ie)|staff"
    r"|admin|administrator|visitor|buyer)s?"
)
# Addresses of machines and pages.
_NOBODYS: Final = re.compile(r"(?:.*_)?(?:mac|url|web|wallet|memory)_?(?:address|addr)")
_SHAPELESS: Final = re.compile(
    r"(?:.*_)?(?:imei|iccid|ean|gtin|isbn|version|sku|barcode|uuid|hash)"
)


def suggest_rule(column: Column, samples: Sequence[str], *, table: str = "") -> Suggestion | None:
    """The rule that a column's name or its sampled texts suggest, or None.

    Args:
        column: as introspected.
        samples: texts of the column, NULLs left out; may be empty.
        table: the table's name, which shows whether ``name`` is a person's.
    """
    words = "_".join(split_words(column.name))
    by_name = _by_name(column, words, table)
    # A shape is evidence, a name is an opinion; but card data outranks both.
    by_shape = _by_shape(column, samples, words)
    if by_shape is not None and by_shape.rule.pci and not by_shape.unsure:
        return by_shape
    return by_name or by_shape


def split_words(name: str) -> list[str]:
    """``customerEmail``, ``Customer-EMail`` and ``CUSTOMER_EMAIL`` → lower-case words."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def _by_name(column: Column, words: str, table: str) -> Suggestion | None:
    if column.data_type in _KEYS and words.startswith("id_"):
        return None  # a number that leads elsewhere
    for pattern in _NAMES:
        if pattern.types is not None and column.data_type not in pattern.types:
            continue
        if pattern.pattern.fullmatch(words) and not _NOBODYS.fullmatch(words):
            return _suggestion(column, pattern.kind, f"its name says {pattern.what}")
    return _by_table(column, words, "_".join(split_words(table)))


def _by_table(column: Column, words: str, table: str) -> Suggestion | None:
    if column.data_type not in _TEXT:
        return None
    for what, pattern, tables in _IN_TABLES:
        fits = (
            re.fullmatch(rf"(?:.*_)?(?:{tables})s?", table) if tables else _PEOPLE.fullmatch(table)
        )
        if fits and re.fullmatch(pattern, words):
            return _suggestion(column, "drop", f"{what}, by the table's name")
    return None


def _by_shape(column: Column, samples: Sequence[str], words: str) -> Suggestion | None:
    if column.data_type not in (*_LONG, "json") or _SHAPELESS.fullmatch(words):
        return None
    found = find_personal(samples, numbers=column.data_type in _WHOLE)
    if found is None:
        return None
    suggestion = _suggestion(column, found.kind, str(found))
    # A payload is worth more than a guess: a person decides on a few values among many.
    thin = found.kind == "drop" and found.samples < _ENOUGH_SAMPLES and not found.whole
    return replace(suggestion, unsure=thin or found.share < _ENOUGH)


def _suggestion(column: Column, kind: RuleKind, reason: str) -> Suggestion:
    if kind == "never":
        return Suggestion(column.name, ColumnRule(pci="never"), reason)
    if kind == "hash" and column.data_type not in TEXTS:
        # A hash is text: it can't stand in a number's place.
        return Suggestion(column.name, ColumnRule(pii="drop"), f"{reason}; not text, so not hashed")
    return Suggestion(column.name, ColumnRule(pii=kind), reason)
