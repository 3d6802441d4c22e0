"""Which loads a fold of a layer applies: only newer ones where that is enough, else all again."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.errors import RowsMiscounted
from mirrorlake.ledger import Load
from mirrorlake.merge.fold_plan import KNOWN_LOADS, KNOWN_ROWS, LISTED, Todo, plan_fold
from tests.unit.plans import load_that_ended, planned, time_column

MOVING: dict[str, Any] = {"mode": "incremental", "cursor": "at"}


def load(
    seq: int,
    kind: str = "live",
    rows: int | None = 10,
    *,
    wrote: bool = True,
    stands_on: int = 0,
) -> Load:
    """A successful load; ``rows``: None where nothing is known of it; ``wrote``: any row."""
    found = load_that_ended(None)
    told = {"rows": rows, "committed": rows, "stands_on": stands_on}
    receipt: Any = None if rows is None else SimpleNamespace(**told)
    window = replace(found.window, kind=kind)
    snapshot = 100 + seq if wrote else None
    return replace(found, seq=seq, window=window, receipt=receipt, snapshot_id=snapshot)


def todo(loads: list[Load], *folded: int, empty: bool = False, **contract: Any) -> Todo:
    plan: Any = planned(time_column(), **(contract or MOVING))
    ledger: Any = SimpleNamespace(successful_loads=lambda name: loads if name == plan.name else [])
    return plan_fold(plan, set(folded), empty, ledger)


def numbers(loads: tuple[Load, ...]) -> list[int]:
    return [one.seq for one in loads]


FIRST = load(1, "initial")


def test_a_layer_that_holds_all_loads_needs_nothing() -> None:
    assert todo([]) == Todo()
    assert todo([FIRST, load(2)], 1, 2) == Todo()
    # A table that never had a row has no snapshot, and needs none.
    assert todo([load(1, wrote=False)], 1, empty=True) == Todo()


def test_a_layer_that_was_lost_is_made_of_all_loads() -> None:
    loads = [FIRST, load(2, wrote=False)]
    assert todo(loads, 1, 2, empty=True) == Todo(tuple(loads), (1, 2), again=True)
    # And one of which nobody knows what it holds.
    assert todo(loads) == Todo(tuple(loads), (1, 2), again=True)


def test_newer_loads_are_applied_alone() -> None:
    """Those without a row have nothing to apply, and are held all the same."""
    loads = [FIRST, load(2, "reload"), load(3, "reload", wrote=False)]
    found = todo(loads, 1)
    assert (numbers(found.loads), found.held, found.known) == ([2], (1, 2, 3), ())
    assert (found.windows, found.again, found.repairs) == (False, False, False)


def test_a_load_that_comes_late_has_all_folded_again() -> None:
    """A later one may hold newer rows of its keys."""
    loads = [FIRST, load(2), load(3)]
    found = todo(loads, 1, 3)
    assert (numbers(found.loads), found.held, found.again) == ([1, 2, 3], (1, 2, 3), True)
    assert not found.windows


def test_without_a_key_all_is_folded_again() -> None:
    loads = [FIRST, load(2)]
    found = todo(loads, 1, mode="append", cursor="at", key=())
    assert (numbers(found.loads), found.again) == ([1, 2], True)


def test_of_full_copies_the_newest_one_is_the_table() -> None:
    loads = [load(n, "full") for n in (1, 2, 3)]
    found = todo([*loads, load(4, "repair")], 1, mode="full")
    assert (numbers(found.loads), found.held) == ([3], (1, 2, 3, 4))
    assert (found.again, found.repairs) == (False, False)
    assert todo([load(4, "repair")], mode="full").loads == ()


def test_of_copies_that_wrote_what_changed_those_are_applied_that_are_missing() -> None:
    whole, one, two = load(2, "full"), load(3, "full", stands_on=2), load(4, "full", stands_on=2)
    loads = [load(1, "full"), whole, one, two]
    for folded, wanted, delta in (
        ((1, 2), [3, 4], True),
        ((1, 2, 3), [4], True),
        ((1,), [2, 3, 4], False),
        ((), [2, 3, 4], False),
        # A layer that another run's fold left behind what is told of it.
        ((1, 3), [2, 3, 4], False),
    ):
        found = todo(loads, *folded, mode="full")
        assert (numbers(found.loads), found.delta) == (wanted, delta), folded
        assert found.held == (1, 2, 3, 4)
    assert todo(loads, 1, 2, 3, 4, mode="full") == Todo()
    assert numbers(todo(loads, 1, 2, 3, 4, empty=True, mode="full").loads) == [2, 3, 4]
    later = load(5, "full")
    assert numbers(todo([*loads, later], 1, 2, 3, mode="full").loads) == [5]
    nothing = load(5, "full", wrote=False, stands_on=2)
    found = todo([*loads, nothing], 1, 2, 3, 4, mode="full")
    assert (found.loads, found.held) == ((), (1, 2, 3, 4, 5))
    # A complete copy of a table that is empty now: the layer is emptied.
    assert numbers(todo([load(1, "full"), load(2, "full", wrote=False)], 1, mode="full").loads) == [
        2
    ]


def test_a_repair_has_the_layer_trusted_in_nothing() -> None:
    assert todo([FIRST, load(2, "repair")], 1).repairs
    assert todo([FIRST, load(2, "repair"), load(3)], 3).repairs, "all again, and still a repair"
    assert not todo([FIRST, load(2, "repair"), load(3)], 1, 2).repairs, "it was folded before"


def test_of_small_windows_the_loads_before_tell_what_the_layer_holds() -> None:
    """Back to a small window, which read again what the one after it read."""
    loads = [FIRST, load(2), load(3), load(4, "reload"), load(5, wrote=False), load(6), load(7)]
    found = todo(loads, 1, 2, 3, 4, 5)
    assert (numbers(found.loads), numbers(found.known), found.windows) == ([6, 7], [3, 4], True)
    # Anything else among them takes rows out of raw.
    other = todo([*loads, load(8, "reload")], 1, 2, 3, 4, 5)
    assert (other.known, other.windows) == ((), False)


@pytest.mark.parametrize(
    ("before", "known"),
    [
        # As many rows as are cheap beside the ten of the new load, to the very last one.
        ([load(1, "reload", KNOWN_ROWS + 40)], [1]),
        ([load(1, "reload", KNOWN_ROWS + 41)], []),
        ([load(1, "reload", KNOWN_ROWS), load(2, "reload", 41)], [2]),
        # No gap: what lies before one that is too large is of no use.
        ([load(1, "reload", 1), load(2, "reload", 10**6), load(3, "reload", 1)], [3]),
        ([load(1, "reload", 1), load(2, "reload", None)], []),
        ([load(n, "reload", 1) for n in range(1, KNOWN_LOADS + 1)], [*range(1, KNOWN_LOADS + 1)]),
        (
            [load(n, "reload", 1) for n in range(1, KNOWN_LOADS + 2)],
            [*range(2, KNOWN_LOADS + 2)],
        ),
    ],
)
def test_how_far_back_loads_are_asked(before: list[Load], known: list[int]) -> None:
    assert numbers(todo([*before, load(20)], *numbers(tuple(before))).known) == known


def test_a_new_load_of_which_nothing_is_known_makes_nothing_cheap() -> None:
    before = [load(1, "reload", KNOWN_ROWS), load(2, "reload", 1)]
    assert numbers(todo([*before, load(3, rows=None)], 1, 2).known) == [2]


def test_how_many_rows_are_applied() -> None:
    """Where it is not known, more than would be listed."""
    assert Todo((load(1), load(2, rows=5))).rows == 15
    assert Todo((load(1), load(2, rows=None))).rows == 10 + LISTED


BY_COUNT: dict[str, Any] = {"mode": "binlog", "key": ()}


def test_rows_without_a_key_are_counted_from_the_newest_copy() -> None:
    loads = [load(1, "initial"), load(2, "log"), load(3, "initial"), load(4, "log"), load(5, "log")]
    found = todo(loads, **BY_COUNT)
    assert (numbers(found.loads), found.held, found.again) == ([3, 4, 5], (1, 2, 3, 4, 5), True)
    found = todo(loads, 1, 2, 3, 4, **BY_COUNT)
    assert (numbers(found.loads), found.again) == ([5], False)
    # What a layer holds of before the copy is no beginning, nor is a part with a hole.
    for folded in ((1, 2), (1, 2, 4), (3, 5)):
        assert numbers(todo(loads, *folded, **BY_COUNT).loads) == [3, 4, 5]
    assert todo(loads, 1, 2, 3, 4, 5, **BY_COUNT) == Todo()
    assert numbers(todo(loads, 1, 2, 3, 4, 5, empty=True, **BY_COUNT).loads) == [3, 4, 5]


def test_loads_without_rows_add_nothing_but_a_beginning() -> None:
    truncated = [load(1, "log", wrote=False), load(2, "log", wrote=False), load(3, "log")]
    assert numbers(todo(truncated, **BY_COUNT).loads) == [1, 3]
    found = todo(truncated, 1, **BY_COUNT)
    assert (numbers(found.loads), found.again) == ([3], False)
    emptied = [load(1, "initial", wrote=False)]
    assert numbers(todo(emptied, **BY_COUNT).loads) == [1]


def test_rows_without_a_key_are_not_counted_by_loads_that_nobody_knows() -> None:
    with pytest.raises(RowsMiscounted, match="not known"):
        todo([load(1, "unknown"), load(2, "log")], **BY_COUNT)
    assert numbers(todo([load(1, "unknown"), load(2, "initial")], **BY_COUNT).loads) == [2]
