"""What values are taken for, among others and alone; the findings hold no value."""

from __future__ import annotations

import pytest

from mirrorlake.schema.detectors import find_personal

CARDS = [
    "4111111111111111",
    "5500000000000004",
    "4012888888881881",
    "6011111111111117",
    "3530111333300000",
    "5105105105105100",
]
IBANS = ["DE89370400440532013000", "GB82WEST12345698765432", "FR1420041010050500013M02606"]
WORDS = ["a text", "another", "more of it", "not a thing", "words"] * 8


@pytest.mark.parametrize(
    ("samples", "words"),
    [
        (["ask a.b@example.com"], "1 of 1 sampled values hold an e-mail address"),
        ([*WORDS, "x a.b@example.com y"], "1 of 41 sampled values hold an e-mail address"),
        (["a.b@example.com"] * 5, "5 of 5 sampled values are e-mail addresses"),
        ([*WORDS, *CARDS], "6 of 46 sampled values are card numbers (length, first digit, Luhn)"),
        ([*WORDS, *IBANS, *IBANS], "6 of 46 sampled values are IBANs (mod 97)"),
    ],
)
def test_found(samples: list[str], words: str) -> None:
    assert str(find_personal(samples)) == words


@pytest.mark.parametrize(
    "samples",
    [
        [],
        WORDS,
        ["logo@2x.png", "icon@3x.jpeg", "see a@b", "git@internal"],
        # Two card numbers among words may be chance, and so may some of many long numbers.
        [*WORDS, *CARDS[:2]],
        [str(4_000_000_000_000_000 + 7_654_321 * n) for n in range(60)],
        ["DE00" + "1" * 18] * 6,
    ],
)
def test_not_found(samples: list[str]) -> None:
    assert find_personal(samples) is None


def test_of_numbers_only_cards_are_looked_for() -> None:
    assert find_personal(["555-123-4567"] * 6, numbers=True) is None
    assert find_personal(CARDS, numbers=True) is not None
