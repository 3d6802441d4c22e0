"""What becomes of candidates, row by row: the table of decisions, without a server or Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.proof.comparing import recheck as judging
from mirrorlake.proof.comparing.recheck import CHANGING, moved_since, recheck
from mirrorlake.proof.forms.canonical import SHOWN, Form
from mirrorlake.proof.forms.differences import (
    Difference,
    Field,
    Formatter,
    Value,
    compare_counts,
    compare_rows,
)
from mirrorlake.proof.forms.rows import Key, Row, RowForm
from tests.unit.plans import contract

ROWS = RowForm(
    tuple(Form(n, "string", n, n, n, n, text=True) for n in ("id", "a")), originals=False
)
MOMENT = datetime(2026, 1, 1, 12, 0, 0, 500_000)


def row(key: str, a: str, settled: bool = True) -> Row:
    return Row((key,), (key, a), (key, a), settled)


class Answers:
    """A side that answers from lists: one per look."""

    def __init__(self, *looks: dict[str, list[Row]]) -> None:
        self._looks = list(looks)
        self.asked: list[list[Key]] = []

    def read_rows(self, _: Any, keys: Sequence[Key]) -> dict[Key, list[Row]]:
        self.asked.append(list(keys))
        now = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        return {key: now[key[0]] for key in keys if key[0] in now}

    read_by_digest = read_rows


def target(
    mode: str = "incremental", deletes: str = "remove", *, keyed: bool = True, still: bool = False
) -> Any:
    receipt = SimpleNamespace(moment=MOMENT.isoformat(), position="0-1-7", server="s")
    return SimpleNamespace(
        key=("id",) if keyed else (),
        key_names=("id",) if keyed else (),
        rows=ROWS,
        table="t",
        contract=contract(mode=mode, deletes=deletes),
        scope=SimpleNamespace(cursor="A", still=still),
        source="source",
        mirror=SimpleNamespace(load=SimpleNamespace(receipt=receipt)),
    )


def judged(source: Any, lake: Any, keys: str = "1", **more: Any) -> Any:
    asked = [(key,) for key in keys.split()]
    return recheck(None, None, target(**more), source, Answers(lake), asked)  # type: ignore[arg-type]


def test_equal_by_now_is_nothing() -> None:
    same = {"1": [row("1", "x")]}
    found = judged(Answers(same), same)
    assert (found.differences, found.keys, found.undecided, found.ignored) == ([], [], {}, 0)


def test_a_difference_that_stays_is_one() -> None:
    found = judged(Answers({"1": [row("1", "x")]}), {"1": [row("1", "y")]}, "1 2")
    [difference] = found.differences
    assert (difference.kind, difference.fields[0].source.shown) == ("changed", "x")
    [key] = found.keys
    assert (key.texts, key.gone) == ((("1",),), False)
    assert found.days == {}


def test_the_days_of_rows_that_differ_are_counted_on_both_sides() -> None:
    ours = Answers({"1": [row("1", "2026-01-02 10:00:00")], "2": [row("2", "0000-00-00")]})
    theirs = {"1": [row("1", "2026-01-01 10:00:00.5")], "2": [row("2", "2026-01-02 00:00:00")]}
    found = judged(ours, theirs, "1 2")
    assert found.days == {date(2026, 1, 1): 1, date(2026, 1, 2): 2}
    young = Answers({"1": [row("1", "2026-01-02", settled=False)]})
    assert judged(young, theirs).days == {}


def test_what_is_equal_by_now_keeps_nothing_else_from_being_judged() -> None:
    ours = {key: [row(key, "x")] for key in "123"}
    theirs = {"1": ours["1"], "2": [row("2", "y")], "3": ours["3"]}
    assert [k.texts for k in judged(Answers(ours), theirs, "1 2 3").keys] == [(("2",),)]


def test_what_mysql_changed_meanwhile_is_not_decided() -> None:
    moving = Answers({"1": [row("1", "x")]}, {"1": [row("1", "z")]})
    found = judged(moving, {"1": [row("1", "y")]})
    assert (found.differences, found.undecided) == ([], {CHANGING: 1})
    going = Answers({"1": [row("1", "x")]}, {})
    assert judged(going, {}).undecided == {CHANGING: 1}


def test_a_row_that_was_equal_is_equal_whatever_mysql_did_meanwhile() -> None:
    same = {"1": [row("1", "x")]}
    assert judged(Answers(same, {"1": [row("1", "z")]}), same).undecided == {}


def test_what_is_not_decided_keeps_nothing_else_from_being_judged() -> None:
    before = {"1": [row("1", "x")], "2": [row("2", "x")]}
    moving = Answers(before, {**before, "1": [row("1", "z")]})
    found = judged(moving, {"1": [row("1", "y")], "2": [row("2", "y")]}, "1 2")
    assert (found.undecided, [k.texts for k in found.keys]) == ({CHANGING: 1}, [(("2",),)])


def test_what_is_newer_than_settle_is_not_decided() -> None:
    young = Answers({"1": [row("1", "x", settled=False)]})
    found = judged(young, {"1": [row("1", "y")]})
    assert (found.differences, list(found.undecided.values())) == ([], [1])
    assert "settle" in next(iter(found.undecided))
    assert found.waiting == 0


def test_what_mysql_wrote_too_late_for_the_mirror_waits() -> None:
    both = {key: [row(key, "x", settled=False)] for key in "12"}
    found = judged(Answers(both), {}, "1 2")
    assert (found.differences, found.keys, found.undecided, found.waiting) == ([], [], {}, 2)
    # Without a key, too: the mirror has fewer of equal rows.
    three = Answers({"1": [row("1", "x", settled=False)] * 3})
    found = judged(three, {"1": [row("1", "x")]}, keyed=False)
    assert (found.differences, found.undecided, found.waiting) == ([], {}, 2)


def test_a_second_row_of_a_key_is_too_much_at_any_age() -> None:
    young = {"1": [row("1", "x", settled=False)]}
    found = judged(Answers(young), {"1": [row("1", "x"), row("1", "x")]})
    assert [d.note for d in found.differences] == [": a second row"]
    assert (found.undecided, [key.gone for key in found.keys]) == ({}, [False])
    found = judged(Answers(young), {"1": [row("1", "y"), row("1", "z")]})
    assert [d.kind for d in found.differences] == ["extra"]
    assert sum(found.undecided.values()) == 1
    # Without a key MySQL may have had as many, and changed one.
    found = judged(Answers(young), {"1": [row("1", "x")] * 3}, keyed=False)
    assert (found.differences, sum(found.undecided.values())) == ([], 2)


@pytest.mark.parametrize("now", [True, False])
def test_no_row_is_too_new_while_mysql_is_as_the_load_found_it(
    now: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(judging, "is_still", lambda *args: asked.append(args) or now)
    young = {"1": [row("1", "x", settled=False)]}
    found = judged(Answers(young), {"1": [row("1", "y")]}, still=True)
    assert (len(found.differences), sum(found.undecided.values())) == ((1, 0) if now else (0, 1))
    assert asked[0][1:3] == ("source", "t")
    # Where it was not so when the check began, nobody asks again.
    assert judged(Answers(young), {"1": [row("1", "y")]}).differences == []
    assert len(asked) == 1


def test_what_mysql_deleted() -> None:
    found = judged(Answers({}), {"1": [row("1", "y"), row("1", "z")]})
    assert [d.kind for d in found.differences] == ["extra", "extra"]
    assert found.keys[0].gone
    found = judged(Answers({}), {"1": [row("1", "y"), row("1", "z")]}, deletes="ignore")
    assert (found.differences, found.keys, found.ignored) == ([], [], 2)
    # A row that MySQL has is no deleted one.
    found = judged(Answers({"1": [row("1", "x")]}), {}, deletes="ignore")
    assert ([d.kind for d in found.differences], found.ignored) == (["missing"], 0)


def test_a_key_of_other_letters_is_one_row() -> None:
    """The server knows 'A' under 'a': the lake's rows of both belong to it."""
    ours = Answers({"A": [row("a", "x")], "a": [row("a", "x")]})
    found = judged(ours, {"A": [row("A", "x")]}, "A a")
    [difference] = found.differences
    assert (difference.kind, difference.fields[0].lake.shown) == ("changed", "A")
    assert found.keys[0].texts == (("a",), ("A",))
    both = {"A": [row("A", "x")], "a": [row("a", "x")]}
    found = judged(Answers({"A": [row("a", "x")], "a": [row("a", "x")]}), both, "A")
    assert [(d.kind, d.note) for d in found.differences] == [("extra", ": a second row")]


@pytest.mark.parametrize("keyed", [True, False])
def test_rows_are_asked_for_by_their_key_or_by_their_digest(keyed: bool) -> None:
    class Asked(Answers):
        by_digest = 0

        def read_by_digest(self, connection: Any, keys: Sequence[Key]) -> dict[Key, list[Row]]:
            self.by_digest += 1
            return self.read_rows(connection, keys)

    source = Asked({"1": [row("1", "x")]})
    judged(source, {}, keyed=keyed)
    assert (source.by_digest, len(source.asked)) == (0 if keyed else 2, 2)


def test_without_a_key_equal_rows_are_counted() -> None:
    three, one = [row("1", "x")] * 3, [row("1", "x")]
    found = judged(Answers({"1": three}), {"1": one}, keyed=False)
    assert ([d.kind for d in found.differences], found.keys) == (["missing", "missing"], [])
    found = judged(Answers({"1": one}), {"1": three}, keyed=False)
    assert [d.note for d in found.differences] == [": not so often in MySQL"] * 2
    assert compare_counts(ROWS, [], one)[0].note == ": gone from MySQL"
    assert compare_counts(ROWS, three, three) == []


@pytest.mark.parametrize(
    ("position", "changed", "decided"),
    [
        ("0-1-7", None, True),
        ("0-1-8", None, False),
        ("", None, False),
        ("0-1-8", MOMENT - timedelta(seconds=2), True),
        # Told in whole seconds: the load's own second, and the one before, are not decided.
        ("0-1-8", MOMENT.replace(microsecond=0), False),
        ("0-1-8", MOMENT.replace(microsecond=0) - timedelta(seconds=1), False),
        ("0-1-8", MOMENT + timedelta(hours=1), False),
    ],
)
def test_a_full_copy_is_judged_while_mysql_has_not_moved(
    position: str, changed: datetime | None, decided: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "read_position", lambda _: SimpleNamespace(position=position))
    monkeypatch.setattr(judging, "changed_at", lambda *_: changed)
    words = moved_since(None, target("full"))  # type: ignore[arg-type]
    assert (words == "") is decided
    if not decided:
        assert "sync, then check again" in words
        assert (f"changed at {changed}" if changed else "may have changed") in words
        assert "of a full copy of 2026-01-01T12:00:00 UTC, and the table" in words
    same = judged(Answers({"1": [row("1", "x")]}), {"1": [row("1", "y")]}, mode="full")
    assert bool(same.differences) is decided
    assert sum(same.undecided.values()) == (0 if decided else 1)
    assert moved_since(None, target("append")) == ""  # type: ignore[arg-type]


def test_a_copy_without_a_receipt_has_no_age() -> None:
    bare = target("full")
    bare.mirror.load.receipt = None
    assert moved_since(None, bare) == ""  # type: ignore[arg-type]


# --- words ----------------------------------------------------------------------------------------


def test_how_differences_are_told() -> None:
    formatter, key = Formatter((), None), (Value("id", "7"), Value("t", "x", text=True))
    assert formatter.lines(Difference("missing", key, note=": so")) == [
        "missing (id=7, t='x'): MySQL has this row, the lake has not: so"
    ]
    assert formatter.lines(Difference("extra", key, note=": so")) == [
        "extra: so (id=7, t='x'): the lake has this row"
    ]
    changed = Difference("changed", key, (Field(Value("a", "1"), Value("a", None)),))
    assert formatter.lines(changed) == [
        "changed (id=7, t='x'): `a` does not match between MySQL (val=1) and the lake (val=NULL)"
    ]


def test_how_values_are_told() -> None:
    formatter = Formatter(("S",), "k" * 16)
    assert formatter.value(Value("a", "1" * (SHOWN - 1))) == "1" * (SHOWN - 1)
    # That is where values are cut.
    assert formatter.value(Value("a", "1" * SHOWN)) == "1" * SHOWN + "…"
    assert re.fullmatch(r"\(keyed digest [0-9a-f]{16}\)", formatter.value(Value("s", "x")))


def test_a_difference_names_its_key_and_its_fields_alone() -> None:
    [found] = compare_rows(ROWS, ["id"], [row("1", "x")], [row("1", "y")])
    assert found.key == (Value("id", "1", text=True),)
    assert found.fields == (Field(Value("a", "x", text=True), Value("a", "y", text=True)),)
    # Long values that begin alike are told apart by the beginning of their digests.
    ours, theirs = (Row(("1",), ("1", letter * 40), ("1", "long")) for letter in "de")
    [found] = compare_rows(ROWS, ["id"], [ours], [theirs])
    shown = (found.fields[0].source.shown, found.fields[0].lake.shown)
    assert shown == (f"long [{'d' * 32}]", f"long [{'e' * 32}]")
