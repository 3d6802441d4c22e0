"""Masks and hashes: what they show, and what nobody can get back."""

from __future__ import annotations

import hashlib
import hmac
import sqlite3
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.schema.masking import HASHABLE, keyed_hash, mask_sql, text_of

KEY = b"k" * 16


def masked(text: str | None) -> str | None:
    """The mask's SQL, evaluated by SQLite with Spark's functions; there `right` is a word of JOIN."""
    with sqlite3.connect(":memory:") as database:
        database.create_function("char_length", 1, lambda t: None if t is None else len(t))
        database.create_function("last", 2, lambda t, n: t[-n:])
        database.create_function("concat", 2, lambda a, b: a + b)
        mask = mask_sql("`c`").replace("right(", "last(")
        return database.execute(f"SELECT {mask} FROM (SELECT ? AS c)", (text,)).fetchone()[0]


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        (None, None),
        ("", "********"),
        ("12345", "********"),
        ("123456", "********56"),
        ("anna@example.com", "********om"),
        ("äöüßéñ", "********éñ"),
        ("      ", "********  "),
    ],
)
def test_masks(text: str | None, mask: str | None) -> None:
    assert masked(text) == mask


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_mask_tells_neither_length_nor_beginning(text: str) -> None:
    assert masked(text) == "********" + (text[-2:] if len(text) >= 6 else "")


def test_a_hash_is_hmac_of_the_text() -> None:
    hashed = keyed_hash(KEY)
    expected = hmac.new(KEY, "größe".encode(), hashlib.sha256).hexdigest()
    assert hashed("größe", None) == expected
    assert keyed_hash(b"another key, long")("größe", None) != expected
    # Without the key nobody can test a guess.
    assert expected != hashlib.sha256("größe".encode()).hexdigest()


def test_null_stays_null_and_an_original_stands_in() -> None:
    hashed = keyed_hash(KEY)
    assert hashed(None, None) is None
    assert hashed(None, "0000-00-00") == hashed("0000-00-00", None)
    assert hashed("", None) is not None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-5, "-5"),
        (2**64 - 1, "18446744073709551615"),
        (Decimal("1E+3"), "1000"),
        (Decimal("0E-10"), "0.0000000000"),
        (Decimal("-0.50"), "-0.50"),
        (Decimal(2**64 - 1), "18446744073709551615"),
        (date(2020, 1, 2), "2020-01-02"),
        (date(987, 6, 5), "0987-06-05"),
        ("a", "a"),
    ],
)
def test_texts_are_mysqls(value: Any, text: str) -> None:
    assert text_of(value) == text


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6))
def test_a_decimals_text_has_all_its_places_and_no_exponent(value: Decimal) -> None:
    whole, _, places = text_of(value).partition(".")
    assert len(places) == 6
    assert Decimal(f"{whole}.{places}") == value
    assert "e" not in text_of(value).lower()


def test_only_types_with_one_text_are_hashed() -> None:
    """Two servers, or we, may print a float or a time differently: equal values would part."""
    assert not {"float", "double", "timestamp", "timestamptz", "binary"} & set(HASHABLE)
