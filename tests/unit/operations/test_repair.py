"""The rounds of a repair: what is read again, how often, when it is given up, and what is kept."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import SecretStr

from mirrorlake.errors import ConfigError, SourceError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.repairing import repair
from mirrorlake.operations.repairing.repair import (
    PATIENCE,
    PAUSE_SECONDS,
    Repaired,
    again_of,
    repair_table,
)
from mirrorlake.operations.repairing.repair_keys import RepairRound
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.forms.differences import Difference, Differing, Value
from mirrorlake.proof.ranges.ranges import Range, RangeProof, Span, Tally
from tests.unit.plans import contract

MYSQL, LAKE = Tally(3, 0x33), Tally(2, 0x22)
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def report(
    verdict: str,
    *differences: Difference,
    keys: Sequence[Differing] = (),
    ranges: Sequence[RangeProof] = (),
    ask: Ask | None = None,
    unlooked: int = 0,
    snapshot: int = 7,
) -> Report:
    """What a check might say; without ranges: all rows are one, of this verdict."""
    told: Any = verdict
    whole = RangeProof(None, MYSQL, MYSQL if verdict == "equal" else LAKE, told)
    return Report(
        table="s.shop.t", ask=ask or Ask(), scope="all rows", verdict=told,
        ranges=tuple(ranges) or (whole,), waiting=0, differences=differences, keys=tuple(keys),
        unlooked=unlooked, ignored=0, undecided={}, server="", position="", source_time=NOON,
        snapshot=snapshot, through=1, started=NOON, seconds=0.0, bytes=0, statements={},
        code="the code",
    )  # fmt: skip


def key(text: str, *, gone: bool = False) -> Differing:
    return Differing(((text,),), gone)


def row(text: str, kind: Any = "changed") -> Difference:
    return Difference(kind, (Value("id", text),))


def differs(*texts: str, **more: Any) -> Report:
    """A check of a table with a key that found these keys different."""
    return report("different", *map(row, texts), keys=[key(text) for text in texts], **more)


EQUAL = report("equal", snapshot=8)


class Table:
    """A table whose checks say what is listed, and what was done to it."""

    def __init__(self, patched: pytest.MonkeyPatch, folder: Path) -> None:
        self.ledger = Ledger(f"sqlite:///{folder}/ledger.db")
        self.checks: list[Report] = []
        self.asked: list[Ask] = []
        self.done: list[Any] = []
        self.paused: list[float] = []
        self.config: Any = SimpleNamespace(privacy=SimpleNamespace(hash_key=None))
        self.fails = False
        patched.setattr(repair, "prove_table", self._prove)
        patched.setattr(repair, "reread_keys", self._mend("keys"))
        patched.setattr(repair, "reread_days", self._mend("days"))
        patched.setattr(repair, "copy_again", self._mend("copy"))
        patched.setattr(repair, "refold_table", lambda *_: self.done.append("refolded"))
        ticks = count(1.0, 2.4567)
        clock = SimpleNamespace(monotonic=lambda: next(ticks), sleep=self.paused.append)
        patched.setattr(repair, "time", clock)

    def _prove(self, workspace: Any, contract: Any, ask: Ask, evidence: Any, most: int) -> Any:
        assert workspace.ledger is self.ledger
        assert (contract.name, evidence) == ("s.shop.t", Path("e"))
        assert most == 10_000, "keys a round, as docs/repair.md says"
        self.asked.append(ask)
        return self.checks.pop(0), Path(f"{len(self.asked)}.json")

    def _mend(self, how: str) -> Callable[..., RepairRound]:
        def mend(_: Any, __: Any, what: Any = ()) -> RepairRound:
            self.done.append((how, [*what]))
            assert self.repairs()[-1].outcome == "begun", "a crash from here on leaves a trace"
            if self.fails:
                raise SourceError("MySQL went away")
            return RepairRound((f"load {len(self.done)}",), rows=10, gone=1)

        return mend

    def repair(self, *checks: Report, ask: Ask | None = None, **more: Any) -> Repaired:
        """Repair it; ``more``: settings of its contract, and options."""
        self.checks += checks
        options = {name: more.pop(name) for name in ("found", "only_deletes") if name in more}
        settings = {"mode": "incremental", "key": ("id",), "repair": "ask", **more}
        table = contract(database="shop", shrink_limit=None, **settings)
        workspace: Any = SimpleNamespace(
            config=self.config, lake="the lake", ledger=self.ledger, spark="spark"
        )
        return repair_table(workspace, table, ask or Ask(), evidence=Path("e"), **options)

    def repairs(self) -> Any:
        return self.ledger.repairs("s.shop.t")


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Table:
    return Table(monkeypatch, tmp_path)


# --- what is read again ---------------------------------------------------------------------------


def test_a_table_that_is_not_to_be_repaired_is_not_even_checked(table: Table) -> None:
    with pytest.raises(ConfigError, match="is not repaired"):
        table.repair(EQUAL, repair="off")
    assert table.asked == []


def test_an_equal_table_is_left_alone(table: Table) -> None:
    done = table.repair(EQUAL)
    assert (done.outcome, done.rounds, done.keys, done.why) == ("equal", 0, 0, "nothing")
    assert (done.repair_id, table.done, table.repairs()) == (None, [], [])
    assert (done.before, done.after, done.evidence) == (EQUAL, EQUAL, (Path("1.json"),))


def test_keys_that_differ_are_read_again_and_checked_again(table: Table) -> None:
    found = report("different", row("a"), row("b", "missing"), keys=[key("a"), key("b")])
    done = table.repair(found, differs("c"), EQUAL)
    assert table.done == [("keys", [key("a"), key("b")]), ("keys", [key("c")])]
    assert (done.outcome, done.rounds, done.keys) == ("equal", 2, 2)
    assert (done.rows, done.gone, done.loads) == (20, 2, ("load 1", "load 2"))
    assert (done.before, done.after) == (found, EQUAL)
    assert done.evidence == (Path("1.json"), Path("2.json"), Path("3.json"))
    assert (done.why, done.seconds, table.paused) == ("1 changed, 1 missing", 2.457, [])


def test_a_check_that_was_just_made_is_not_made_again(table: Table) -> None:
    done = table.repair(EQUAL, found=(differs("a"), Path("given.json")))
    assert len(table.asked) == 1, "the one after the mending"
    assert done.evidence == (Path("given.json"), Path("1.json"))


def test_only_deletes_leaves_alone_what_mysql_still_has(table: Table) -> None:
    both = report("different", row("a"), row("b"), keys=[key("a"), key("b", gone=True)])
    left = differs("a")
    done = table.repair(both, left, only_deletes=True)
    assert table.done == [("keys", [key("b", gone=True)])]
    assert (done.outcome, done.rounds) == ("different", 1)
    assert table.repair(left, only_deletes=True).rounds == 0


def test_a_full_copy_is_made_again_whether_it_has_a_key_or_not(table: Table) -> None:
    for keys in ((), ("id",)):
        assert table.repair(differs("a"), EQUAL, mode="full", key=keys).rounds == 1
    assert table.done == [("copy", []), ("copy", [])]
    # Which rows of a copy were deleted is told by no key: a sweep for deletes leaves it.
    assert table.repair(differs("a"), mode="full", only_deletes=True).rounds == 0


def test_without_a_key_the_days_of_the_rows_are_read_again(table: Table) -> None:
    found = report("different", row("a"))
    assert table.repair(found, EQUAL, key=()).rounds == 1
    assert table.done == [("days", [row("a")])]
    assert table.repair(report("undecided"), key=()).rounds == 0


# --- how often ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "settings", "how"),
    [
        (differs("a"), {}, "keys"),
        (report("different", row("a")), {"key": ()}, "days"),
        (report("different", unlooked=9), {"key": ()}, "days"),
    ],
)
def test_rows_that_stay_different_are_made_from_raw_and_then_given_up(
    table: Table, found: Report, settings: dict[str, Any], how: str
) -> None:
    """Two rounds that bring nothing: what no key finds; two rebuilds more, and it is given up."""
    done = table.repair(*[found] * 5, **settings)
    assert [what if what == "refolded" else what[0] for what in table.done] == [
        *[how] * 2,
        *["refolded"] * 2,
    ]
    assert (done.outcome, done.rounds, len(table.asked)) == ("different", PATIENCE, 5)
    assert done.loads == ("load 1", "load 2")
    assert table.repairs()[0].outcome == "different"


def test_rows_that_differ_later_are_no_sign_that_nothing_helps(table: Table) -> None:
    """Beside a writer: each round finds others, and that ends too."""
    done = table.repair(*[differs(f"{n}") for n in range(21)])
    assert (done.outcome, done.rounds) == ("different", 20)
    assert "refolded" not in table.done
    # Two long keys may look alike to people: the keys themselves count.
    done = table.repair(
        *[report("different", row("long…"), keys=[key(f"long {n}")]) for n in range(5)], EQUAL
    )
    assert "refolded" not in table.done
    # One row of before is enough, and a round without one begins the count again.
    table.done = []
    done = table.repair(
        differs("a"), differs("a", "b"), differs("c"), differs("c"), differs("c"), EQUAL
    )
    assert [what if what == "refolded" else what[0] for what in table.done] == [
        *["keys"] * 4,
        "refolded",
    ]


def test_what_is_undecided_after_a_round_is_checked_again_after_a_pause(table: Table) -> None:
    waits = report("undecided")
    done = table.repair(differs("a"), waits, waits, EQUAL)
    assert (done.outcome, done.rounds, table.paused) == ("equal", 1, [PAUSE_SECONDS] * 2)
    # It ends: what MySQL never lets us decide is left undecided.
    table.paused.clear()
    done = table.repair(differs("a"), *[waits] * (PATIENCE + 1))
    assert (done.outcome, len(table.paused), table.checks) == ("undecided", PATIENCE, [])


@pytest.mark.parametrize(
    ("ask", "ranges", "again"),
    [
        # The rows that were asked for, where no range of keys says less.
        (Ask("partition", date(2026, 1, 1)), [(Range(1, 2), "different")], None),
        (Ask("where", where="a = 1"), [(Range(1, 2), "different")], None),
        (Ask(), [(None, "different")], None),
        (Ask("keys", keys=Range(1, 9)), [(Range(1, 9), "equal")], None),
        # The next chunk is another one by now: the whole table.
        (Ask("next"), [(None, "different")], Ask()),
        (Ask("next"), [(Range(1, 9), "equal")], Ask()),
        # From the first range that was not equal to the last one.
        (
            Ask(),
            [
                (Range(1, 5), "equal"),
                (Range(5, 9), "different"),
                (Range(9, 13), "equal"),
                (Range(13, 17), "undecided"),
                (Range(17, None), "equal"),
            ],
            Ask("keys", keys=Range(5, 17)),
        ),
        (Ask("next"), [(Range(5, 9), "different")], Ask("keys", keys=Range(5, 9))),
        (
            Ask("keys", keys=Range(0, 99)),
            [(Range(5, 9), "undecided")],
            Ask("keys", keys=Range(5, 9)),
        ),
        (
            Ask("next"),
            [(Span(("1:a",), ("1:c",)), "different")],
            Ask("keys", keys=Span(("1:a",), ("1:c",))),
        ),
    ],
)
def test_which_rows_are_checked_again(
    ask: Ask, ranges: list[tuple[Any, Any]], again: Ask | None
) -> None:
    proofs = [RangeProof(keys, MYSQL, LAKE, verdict) for keys, verdict in ranges]
    assert again_of(report("different", ask=ask, ranges=proofs)) == (again or ask)


def test_the_check_after_a_round_is_of_those_rows(table: Table) -> None:
    proofs = [RangeProof(Range(5, 9), MYSQL, LAKE, "different")]
    table.repair(differs("a", ranges=proofs), EQUAL, ask=Ask("next"))
    assert table.asked == [Ask("next"), Ask("keys", keys=Range(5, 9))]


# --- what is kept ---------------------------------------------------------------------------------


def test_why_says_how_many_rows_and_none_of_their_values() -> None:
    found = report(
        "different", row("a"), row("b", "extra"), row("c", "missing"), row("d", "extra"), unlooked=5
    )
    assert repair.why(found) == "1 changed, 1 missing, 2 extra, 5 not looked at"


def test_the_journal_has_both_sides_before_and_after(table: Table) -> None:
    ranges = [
        RangeProof(Range(0, 5), Tally(9, 0x99), Tally(9, 0x99), "equal"),
        RangeProof(Range(5, 9), MYSQL, LAKE, "different"),
        RangeProof(Range(9, 12), Tally(1, 1), Tally(1, 1), "undecided"),
    ]
    after = report("equal", ranges=ranges[:1], snapshot=8)
    found = differs("a", "b", ranges=ranges, unlooked=3, ask=Ask("next"))
    done = table.repair(found, after)
    [kept] = table.repairs()
    assert kept.repair_id == done.repair_id
    assert (kept.asked, kept.why, kept.keys) == ("next", "2 changed, 3 not looked at", 5)
    assert done.keys == 5
    assert kept.before == {
        "mysql": "4:sha256:000000000000000000000034",
        "lake": "3:sha256:000000000000000000000023",
    }
    equal = "9:sha256:000000000000000000000099"
    assert kept.after == {"mysql": equal, "lake": equal}
    assert (kept.before_snapshot, kept.after_snapshot) == (7, 8)
    assert (kept.outcome, kept.load_ids, kept.code) == ("equal", ("load 1",), "the code")
    assert kept.evidence == ("1.json", "2.json")
    assert kept.finished_at is not None
    assert kept.finished_at >= kept.started_at


def test_a_repair_that_fails_is_kept_as_failed(table: Table) -> None:
    table.fails = True
    with pytest.raises(SourceError):
        table.repair(differs("a"))
    [kept] = table.repairs()
    assert (kept.outcome, kept.after, kept.after_snapshot) == ("failed", {}, None)
    assert kept.finished_at is not None


def test_keys_are_kept_as_keyed_digests_or_not_at_all(table: Table) -> None:
    found = report("different", keys=[Differing((("1", "ä\udcff"), ("1", "x")), gone=False)])
    table.repair(found, EQUAL)
    assert table.repairs()[-1].digests == ()
    table.config.privacy.hash_key = SecretStr("a key of sixteen letters")
    table.repair(found, EQUAL)
    told = hmac.new(b"a key of sixteen letters", "1,ä".encode() + b"\xff", hashlib.sha256)
    digests = [one.digests for one in table.repairs()]
    assert sorted(digests) == [(), (told.hexdigest()[:16],)]


def test_no_more_than_a_thousand_digests_are_kept(table: Table) -> None:
    table.config.privacy.hash_key = SecretStr("a key of sixteen letters")
    table.repair(differs(*map(str, range(1_001))), EQUAL)
    [kept] = table.repairs()
    assert (len(kept.digests), kept.keys) == (1_000, 1_001)
