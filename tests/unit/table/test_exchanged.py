"""Which columns may have got each other's names, and until when they are held out of clean."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.config import ColumnRule, LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.operations.schema_changes.exchanged_columns import _is_same
from mirrorlake.table.columns.exchanged import exchanged_name, may_be_exchanged, record_exchanged
from mirrorlake.table.columns.new_columns import held_columns

DROP, MASK, SHOW = (ColumnRule(pii=rule) for rule in ("drop", "mask", "show"))
NEVER = ColumnRule(pci="never")


def contract(**columns: ColumnRule) -> TableContract:
    return TableContract(
        source="s",
        database="d",
        table="t",
        mode="full",
        key=("id",),
        namespaces=Namespaces(raw="r", deduped="d", clean="c"),
        columns=columns,
    )


def columns(text: str) -> list[tuple[str, str]]:
    """``id a:date b``; a text where no type is written."""
    pairs = (one.partition(":") for one in text.replace("id ", "id:bigint ").split())
    return [(name, kind or "varchar(20)") for name, _, kind in pairs]


@pytest.mark.parametrize(
    ("before", "now", "found"),
    [
        ("id Mail note", "id note Mail", "mail>note"),
        ("id x:int Mail y:int note z", "id x:int note y:int Mail z", "mail>note"),
        ("id mail a b", "id a b mail", "mail>a mail>b"),  # mail → b → a → mail
        ("id mail note", "id mail note", ""),
        ("id mail other", "id other mail", ""),  # one rule for both
        ("id mail n:int", "id n:int mail", ""),  # moved: each has its own type
        ("id mail n:int", "id mail:int n", "mail>n"),  # types tell it, in the old order
        ("id mail:int(11) n:date", "id mail:date n:int", "mail>n"),
        ("id mail n:int", "id mail n", ""),  # mail has its type: n became a text
        ("id mail a b", "id mail b a", ""),
        ("id mail note", "id note", "mail>note"),  # dropped, or the other took its name
        ("id mail x:int note", "id x:int note", ""),  # dropped: note stands where it stood
        ("id mail x:int note", "id note x:int", "mail>note"),
        ("id mail n:int", "id n", "mail>n"),
        ("id mail n:int", "id n:int", ""),
        ("id mail note", "id mail", ""),
        ("id mail note", "id mail note fresh", ""),
        ("id mail note", "id fresh note", "mail>note"),  # `fresh` is new, and held as such
        ("id mail note z", "id note mail z fresh", "mail>note"),
        ("id card note", "id note card", "card>note"),  # never read, and still in the order
        ("id was mail", "id mail said", ""),  # the contract says where `said` comes from
        ("id said mail", "id mail said", "mail>said"),  # and whence it came then, not now
        ("id mail note:text", "id note:text", "mail>note"),  # `CHANGE mail note text` fits it
        ("id mail note:varchar(99)", "id note:varchar(99) mail", "mail>note"),
        ("id mail note:varchar(99)", "id note:varchar(255) mail", "mail>note"),
        ("id mail note:varchar(99)", "id note:varchar(255) mail:varchar(255)", "mail>note"),
    ],
)
def test_what_names_types_and_order_leave_open(before: str, now: str, found: str) -> None:
    said = ColumnRule(pii="show", renamed_from=("was",))
    ruled = contract(mail=MASK, other=MASK, card=NEVER, said=said)
    pairs = may_be_exchanged(ruled, columns(before), columns(now))
    assert " ".join(f"{hidden}>{other}" for hidden, other in pairs) == found


def test_a_rule_that_was_taken_out_with_its_column_still_tells_what_was_hidden() -> None:
    before, now = columns("id mail note"), columns("id note")
    assert may_be_exchanged(contract(), before, now) == ()
    assert may_be_exchanged(contract(), before, now, {"mail": {"pii": "hash"}}) == (
        ("mail", "note"),
    )
    assert may_be_exchanged(contract(), before, now, {"mail": {"pii": "show"}}) == ()


def test_a_hidden_column_that_the_contract_follows_is_found_there_alone() -> None:
    before, was = columns("id mail note"), {"mail": {"pii": "mask"}}
    followed = contract(address=ColumnRule(pii="mask", renamed_from=("mail",)))
    assert may_be_exchanged(followed, before, columns("id address note"), was) == ()
    # A column that was there before says nothing of where the values are now.
    there = columns("id mail note address")
    assert may_be_exchanged(followed, there, columns("id address note"), was) != ()


def test_two_rules_that_hide_are_two_rules() -> None:
    pairs = may_be_exchanged(
        contract(mail=DROP, note=MASK), columns("mail note"), columns("note mail")
    )
    assert pairs == (("mail", "note"), ("note", "mail"))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(LakeConfig(warehouse=str(tmp_path / "lake")))


def test_both_are_held_until_the_second_has_another_rule(ledger: Ledger, lake: Lake) -> None:
    names = ("id", "Mail", "note", "more")
    ruled = contract(mail=MASK)
    record_exchanged(ledger, ruled, [("mail", "note")])
    record_exchanged(ledger, ruled, [("mail", "more")])  # a later change, beside the first
    assert held_columns(ledger, lake, ruled, names) == ("Mail", "note", "more")
    assert held_columns(ledger, lake, ruled.model_copy(update={"new_columns": "show"}), names) == (
        "Mail", "note", "more",
    )  # fmt: skip
    # A decision about one column is none about another, and one about what was hidden is none.
    assert held_columns(ledger, lake, contract(mail=MASK, note=SHOW), names) == ("Mail", "more")
    assert held_columns(ledger, lake, contract(mail=SHOW, other=DROP), names) == (
        "Mail", "note", "more",
    )  # fmt: skip
    decided = contract(mail=MASK, note=SHOW, more=DROP)
    assert held_columns(ledger, lake, decided, names) == ()
    # What was decided stays so, whatever the rules become.
    record_exchanged(ledger, decided, [])
    assert ledger.definition(exchanged_name(ruled)) is None
    assert held_columns(ledger, lake, ruled, names) == ()


@pytest.mark.parametrize(
    ("rows", "known", "same"),
    [
        ([("n1", ["m1"], "n1"), ("n2", ["m2"], "n2"), ("n3", ["m3"], "n3")], True, True),
        ([("n1", ["m1"], "n1"), ("n2", ["m2"], "n2")], True, False),  # too few
        ([("n1", ["m1"], "m1"), ("n2", ["m2"], "m2"), ("n3", ["m3"], "m3")], True, False),
        ([("x", ["x"], "x")] * 9, True, False),  # rows that can't tell
        ([(None, ["x"], None)] * 9, True, False),
        ([("n", ["m"], "n")] * 3 + [("n4", ["m4"], "m4")], True, False),
        ([("n", ["m"], "n")] * 3 + [("n", ["m"], "other")] * 3, True, False),
        ([("n", ["m"], "n")] * 4 + [("n", ["m"], "other")] * 3, True, True),
        ([("n", [], "n")] * 9, False, False),  # what was never read may be `n`, too
        ([("n1", [], "n1"), ("n2", [], "n2"), ("n3", [], "n3")], False, True),
        ([], True, False),
    ],
)
def test_when_rows_tell_that_a_column_is_what_it_was(
    rows: list[tuple[object, list[object], object]], known: bool, same: bool
) -> None:
    assert _is_same(rows, known=known) is same
