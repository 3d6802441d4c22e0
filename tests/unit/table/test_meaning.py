"""The meaning of a load: every pair of contracts, and what going from one to the other asks for."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from mirrorlake.config import SourceConfig, TableContract, default_namespaces
from mirrorlake.errors import SchemaError
from mirrorlake.ledger import Receipt
from mirrorlake.sources.mysql.tables import Column
from mirrorlake.table.key_forms import key_form, other_forms
from mirrorlake.table.meaning import (
    Meaning,
    carried,
    changes_between,
    edits_of,
    meaning_of,
    recorded_meaning,
    refuse_changed,
    strongest,
    words_of,
)
from tests.unit.tables import ID, column, source_table

_TIMED = Meaning("incremental", "raw", ("id",), (), "m", by_time=True, time_zone="UTC")
KINDS = {
    "full": Meaning("full", "raw", ("id",)),
    "full, no key": Meaning("full", "raw"),
    "incremental": _TIMED,
    "other cursor": replace(_TIMED, cursor="other"),
    "other key": replace(_TIMED, key=("code",)),
    "other zone": replace(_TIMED, time_zone="Europe/Berlin"),
    "text key": replace(_TIMED, key=("name",), collations=("name utf8mb4_bin",)),
    "text key, ci": replace(_TIMED, key=("name",), collations=("name utf8mb4_general_ci",)),
    "append by time": replace(_TIMED, mode="append"),
    "append by key": Meaning("append", "raw", ("id",), (), "id", by_time=False),
    "append, no key": replace(_TIMED, mode="append", key=()),
    "elsewhere": replace(_TIMED, raw="another"),
    "start": replace(_TIMED, start="2026-03-01"),
    "later start": replace(_TIMED, start="2026-04-01"),
}
READ = {
    # Rows stay comparable, key by key; only what was not read, or not seen to change, is missing.
    ("incremental", "other cursor"),
    ("incremental", "other zone"),
    ("incremental", "append by time"),
    ("other cursor", "other zone"),
    ("other cursor", "append by time"),
    ("other zone", "append by time"),
    ("start", "other cursor"),
    ("start", "other zone"),
    ("start", "append by time"),
    ("later start", "other cursor"),
    ("later start", "other zone"),
    ("later start", "append by time"),
}
NARROWER = {("incremental", "start"), ("incremental", "later start"), ("start", "later start")}


@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("now", KINDS)
def test_every_pair(before: str, now: str) -> None:
    changes = changes_between(KINDS[before], KINDS[now])
    pair, back = (before, now), (now, before)
    if before == now:
        assert changes == ()
        return
    assert changes, "a change without a word"
    wanted = "begin"
    if pair in READ or back in READ or back in NARROWER:
        wanted = "read"
    elif pair in NARROWER:
        wanted = "none"
    assert strongest(changes) == wanted, changes
    assert bool(words_of(changes)) == (wanted != "none")


@pytest.mark.parametrize("kind", KINDS)
def test_a_receipt_keeps_it(kind: str) -> None:
    receipt = Receipt(1, 1, 1, "0", "", None, "server", "", 0, 0, 0.0)
    receipt = replace(receipt, meaning=KINDS[kind].to_fields())
    assert recorded_meaning(Receipt.from_json(receipt.to_json())) == KINDS[kind]
    newer = {**KINDS[kind].to_fields(), "of a newer release": 1}
    assert Meaning.from_fields(newer) == KINDS[kind]


def test_only_a_load_of_the_whole_table_reads_from_another_start() -> None:
    early, late = KINDS["start"], KINDS["later start"]
    assert carried(early, late, whole=False).start == early.start
    assert carried(early, late, whole=True) == late
    assert carried(None, late, whole=False) == late
    # Forward, and back again: what lies between was read before, and each change of it since.
    kept = carried(early, late, whole=False)
    assert strongest(changes_between(kept, early)) == "none"


def contract(**changes: object) -> TableContract:
    fields = {
        "source": "s",
        "database": "shop",
        "table": "t",
        "mode": "incremental",
        "key": ("ID",),
        "cursor": "M",
        "namespaces": default_namespaces("s", "shop"),
        **changes,
    }
    return TableContract(**fields)  # type: ignore[arg-type]


RECEIPT = Receipt(
    *(1, 1, 1, "0", "", None, "server", "", 0, 0, 0.0),
    meaning=replace(_TIMED, raw="s_shop__raw").to_fields(),
)
SOURCE = SourceConfig(name="s", host="h", user="u")
TABLE = source_table("t", ID, column("code", "int"), column("m", "datetime"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"start": date(2026, 3, 1)}, ""),
        ({"overlap_keys": 5, "deletes": "flag", "verify": False}, ""),
        ({"mode": "full", "cursor": None}, "mode was incremental, is full"),
        ({"key": ("code",)}, "key was (id), is (code)"),
        ({"cursor": "code"}, "cursor was m, is code"),
    ],
)
def test_an_edited_contract_is_known_without_a_server(
    changes: dict[str, object], words: str
) -> None:
    edits = edits_of(RECEIPT, contract(**changes))
    assert edits.startswith(words)
    assert bool(edits) == bool(words)
    assert edits_of(None, contract(**changes)) == ""


def test_what_was_loaded_by_another_key_is_not_folded_by_this_one() -> None:
    refuse_changed(RECEIPT, contract().name, meaning_of(contract(), SOURCE, TABLE))
    refuse_changed(None, contract().name, meaning_of(contract(key=("code",)), SOURCE, TABLE))
    with pytest.raises(SchemaError, match=r"key was \(id\), is \(code\). Sync it first"):
        refuse_changed(RECEIPT, contract().name, meaning_of(contract(key=("code",)), SOURCE, TABLE))


PADDED, LONGER = replace(column("k"), length=20), replace(column("k", "longtext"), length=2**32 - 1)
ON_MARIADB = replace(PADDED, mariadb=True)


@pytest.mark.parametrize(
    ("key", "collation", "form"),
    [
        # As older releases recorded them: their lakes go on.
        (PADDED, "utf8mb4_general_ci", "k utf8mb4_general_ci 20"),
        (PADDED, "utf8mb4_bin", "k utf8mb4_bin 20"),
        (ON_MARIADB, "utf8mb4_uca1400_as_cs", "k utf8mb4_uca1400_as_cs 20"),
        (ON_MARIADB, "utf8mb4_unicode_ci", "k utf8mb4_unicode_ci 20"),
        (PADDED, "utf8mb4_0900_ai_ci", "k utf8mb4_0900_ai_ci"),
        # What they had was not always right.
        (PADDED, "utf8mb4_unicode_ci", "k utf8mb4_unicode_ci trimmed"),
        (PADDED, "latin1_german2_ci", "k latin1_german2_ci trimmed"),
        (ON_MARIADB, "latin7_general_ci", "k latin7_general_ci trimmed"),
        (ON_MARIADB, "utf8mb4_uca1400_nopad_ai_cs", "k utf8mb4_uca1400_nopad_ai_cs levels"),
        (replace(PADDED, length=9_999), "utf8mb4_general_ci", "k utf8mb4_general_ci trimmed"),
        (LONGER, "utf8mb4_general_ci", "k utf8mb4_general_ci trimmed"),
        (LONGER, "utf8mb4_bin", "k utf8mb4_bin bytes"),
        (LONGER, "utf8mb4_0900_ai_ci", "k utf8mb4_0900_ai_ci weights"),
    ],
)
def test_the_form_of_a_texts_key(key: Column, collation: str, form: str) -> None:
    known = replace(key, collation=collation)
    assert key_form(known, collated=True, hashed=True) == form
    kept = form.endswith(("20", "0900_ai_ci"))
    assert bool(other_forms([], [form])) != kept
