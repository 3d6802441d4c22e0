"""Which columns are taken for personal or card data, and which are not."""

from __future__ import annotations

import random

import pytest

from mirrorlake.init.pii import split_words, suggest_rule
from mirrorlake.schema.detectors import is_card_number, is_iban, is_phone
from mirrorlake.sources.mysql.tables import Column
from tests.unit.tables import column


def rule(found: Column, samples: list[str] | None = None, table: str = "t") -> str | None:
    suggestion = suggest_rule(found, samples or [], table=table)
    return None if suggestion is None else (suggestion.rule.pci or suggestion.rule.pii)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("email", "varchar", "hash"),
        ("customerEmail", "varchar", "hash"),
        ("E-Mail Address", "varchar", "hash"),
        ("phone", "varchar", "hash"),
        ("mobile_number", "bigint", "drop"),
        ("iban", "char", "hash"),
        ("username", "varchar", "hash"),
        ("ip_address", "varchar", "hash"),
        ("ip", "varbinary", "drop"),
        ("first_name", "varchar", "drop"),
        ("lastName", "varchar", "drop"),
        ("holder_name", "varchar", "drop"),
        ("address_line1", "varchar", "drop"),
        ("billing_address", "text", "drop"),
        ("street", "varchar", "drop"),
        ("zip", "varchar", "drop"),
        ("birth_date", "date", "drop"),
        ("dob", "date", "drop"),
        ("ssn", "char", "drop"),
        ("passport_no", "varchar", "drop"),
        ("user_agent", "text", "drop"),
        ("password_hash", "varchar", "drop"),
        ("pwd", "varchar", "drop"),
        ("access_key", "varchar", "drop"),
        ("aws_secret_access_key", "varchar", "drop"),
        ("apiToken", "varchar", "drop"),
        ("secrets", "text", "drop"),
        ("totp_secret", "varchar", "drop"),
        ("otp", "char", "drop"),
        ("cache_key", "varchar", None),
        ("foreign_key", "varchar", None),
        ("card_number", "varchar", "never"),
        ("cardNumber", "bigint", "never"),
        ("pan", "char", "never"),
        ("cvv", "char", "never"),
        ("cvc2", "smallint", "never"),
        ("card_expiry", "date", "never"),
        ("exp_month", "tinyint", "never"),
        ("card_last4", "char", None),
        ("card_brand", "varchar", None),
        ("name", "varchar", None),
        ("tailnum", "varchar", None),
        ("email_verified", "tinyint", None),
        ("email_verified", "varchar", None),
        ("mac_address", "varchar", None),
        ("cid", "varchar", None),
        ("cell", "varchar", None),
        ("mobile", "tinyint", None),
        ("description", "varchar", None),
        ("tzone", "varchar", None),
        ("shipping", "varchar", None),
        ("company", "varchar", None),
        ("expires_at", "datetime", None),
        ("zipped", "varchar", None),
        ("panel", "varchar", None),
        ("lat", "double", None),
        ("modified_at", "datetime", None),
    ],
)
def test_by_name(name: str, kind: str, expected: str | None) -> None:
    assert rule(column(name, kind)) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [("customers", "drop"), ("AppUsers", "drop"), ("airlines", None), ("airports", None)],
)
def test_a_bare_name_is_a_persons_only_in_a_table_of_people(
    table: str, expected: str | None
) -> None:
    assert rule(column("name"), table=table) == expected


EMAILS = [f"someone{n}@example.com" for n in range(10)]
PHONES = ["+49 30 1234567", "+1 (555) 123-4567", "555-123-4567", "(030) 1234 5678", "0049301234567"]
IBANS = ["DE89 3704 0044 0532 0130 00", "GB82WEST12345698765432", "FR1420041010050500013M02606"]
IBANS += ["NL91ABNA0417164300", "ES9121000418450200051332"]
CARDS = ["4111 1111 1111 1111", "5555555555554444", "378282246310005", "6011111111111117"]
CARDS += ["3530111333300000", "2223003122003222"]


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (EMAILS, "hash"),
        ([*EMAILS, "unknown"], "hash"),
        (PHONES, "hash"),
        (IBANS, "hash"),
        (CARDS, "never"),
        ([" 192.168.0.1", "::1", "10.0.0.1", "8.8.8.8", "1.1.1.1"], "hash"),
        (["call a@example.org back", "nothing"] * 10, "drop"),
        (["call a@example.org back"] * 5, "drop"),
        (IBANS[:4], None),
        ([], None),
        (["", " "], None),
        ([*PHONES, "n/a"], None),
        (["2013-01-01", "2013-01-02", "2013-01-03", "2013-01-04", "2013-01-05"], None),
        (["N10156", "N102UW", "N103US", "N104UW", "N10575"], None),
        (["12.50", "13.75", "99.95", "0.5", "1000.25"], None),
        (CARDS[:1] * 20, None),
    ],
)
def test_by_shape(samples: list[str], expected: str | None) -> None:
    assert rule(column("c"), samples) == expected


@pytest.mark.parametrize(
    ("hits", "samples", "asks"),
    [
        (1, 1, True),
        (4, 4, True),
        (5, 5, False),
        (9, 10, False),
        (5, 10, True),
        (15, 19, True),
        (10, 20, False),
        (9, 20, True),
        (1, 200, True),
        (100, 200, False),
    ],
)
def test_a_person_is_asked_where_a_share_says_too_little(
    hits: int, samples: int, asks: bool
) -> None:
    texts = ["call a@example.org back"] * hits + ["nothing"] * (samples - hits)
    found = suggest_rule(column("c", "text"), texts)
    assert found is not None
    assert (found.rule.pii, found.unsure) == ("drop", asks)
    assert found.reason == f"{hits} of {samples} sampled values hold an e-mail address"


def test_card_numbers_in_a_number_column_are_found() -> None:
    digits = [card.replace(" ", "") for card in CARDS]
    assert rule(column("c", "bigint"), digits) == "never"
    assert rule(column("c", "decimal"), digits) == "never"


def test_numbers_are_no_phones() -> None:
    assert rule(column("c", "bigint"), ["0049301234567"] * 9) is None


def test_card_data_outranks_a_harmless_name() -> None:
    assert rule(column("email"), CARDS) == "never"
    assert rule(column("card_number"), EMAILS) == "never"


def test_a_name_outranks_a_weaker_shape() -> None:
    assert rule(column("address"), EMAILS) == "drop"


def test_counters_and_random_numbers_are_no_cards() -> None:
    start = 4_000_000_000_000_000
    counted = [str(start + 10 * n) for n in range(200)]
    luhn = [text for n in range(2000) if is_card_number(text := str(start + n))]
    assert rule(column("id", "bigint"), counted) is None
    assert len(luhn) == 200
    assert rule(column("id", "bigint"), luhn) is None
    chosen = random.Random(1)  # noqa: S311
    for _ in range(50):
        numbers = [str(chosen.randrange(10**15, 10**16)) for _ in range(200)]
        assert rule(column("n", "bigint"), numbers) is None


def test_device_numbers_end_in_luhn_too_and_are_no_cards() -> None:
    imeis = ["490154203237518", "356938035643809", "352099001761481", "353918057318571"]
    assert rule(column("imei"), [*imeis, "357805023984942"]) is None


def test_check_digits() -> None:
    assert all(map(is_card_number, CARDS))
    assert not is_card_number("4111111111111112")
    assert not is_card_number("411111111111")
    assert all(map(is_iban, IBANS))
    assert not is_iban("DE88370400440532013000")
    assert not is_iban("DE")
    assert all(map(is_phone, PHONES))


def test_a_reason_holds_no_value() -> None:
    found = suggest_rule(column("c"), EMAILS)
    assert found is not None
    assert found.reason == "10 of 10 sampled values are e-mail addresses"
    assert found.is_hash


def test_words() -> None:
    assert split_words("customerEMail") == ["customer", "email"]
    assert split_words("IP-Address 2") == ["ip", "address", "2"]
    assert split_words("😀") == []


@pytest.mark.parametrize(
    ("table", "name", "kind", "expected"),
    [
        ("user", "user_real_name", "varbinary", "drop"),
        ("user", "user_name", "varbinary", "drop"),
        ("user", "user_password", "tinyblob", "drop"),
        ("users", "user_pass", "varchar", "drop"),
        ("users", "user_activation_key", "varchar", "drop"),
        ("users", "display_name", "varchar", "drop"),
        ("comments", "comment_author", "tinytext", "drop"),
        ("orders", "customers_name", "varchar", "drop"),
        ("orders", "delivery_name", "varchar", "drop"),
        ("orders", "delivery_city", "varchar", "drop"),
        ("orders", "cc_owner", "varchar", "drop"),
        ("reviews", "author", "varchar", "drop"),
        ("staff", "picture", "blob", "drop"),
        # Names of things, and numbers that lead to people.
        ("roles", "display_name", "varchar", None),
        ("books", "author", "varchar", None),
        ("posts", "post_author", "bigint", None),
        ("warehouses", "id_address", "int", None),
        ("cities", "city", "varchar", None),
        ("products", "picture", "blob", None),
        ("orders", "token", "varchar", None),
    ],
)
def test_names_of_common_applications(
    table: str, name: str, kind: str, expected: str | None
) -> None:
    assert rule(column(name, kind), table=table) == expected
