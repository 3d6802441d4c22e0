"""What the live writer plans and what its journal remembers; no server."""

from __future__ import annotations

from datetime import datetime
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from demo.writer import Journal
from demo.writer_plan import Change, KeySet, Planner
from mirrorlake.trial.shop_rows import SHOP_TABLES

NOW = datetime.fromisoformat("2026-03-01 12:00:00")


def insert(*key: int) -> Change:
    return Change("insert", "orders", key)


def delete(*key: int) -> Change:
    return Change("delete", "orders", key)


def planner(seed: int = 1) -> tuple[Planner, dict[str, set[tuple[int, ...]]]]:
    keys = {name: [(n,) for n in range(1, 30)] for name in SHOP_TABLES if name != "order_items"}
    keys["order_items"] = [(order, line) for order in range(1, 30) for line in (1, 2)]
    return Planner(Random(seed), keys, NOW), {name: set(of) for name, of in keys.items()}  # noqa: S311


class TestJournal:
    def test_a_deleted_key_that_a_mirror_has_seen_is_surplus(self) -> None:
        journal = Journal()
        journal.record(delete(5))
        assert journal.deleted["orders"] == journal.surplus["orders"] == {("5",)}

    def test_a_key_inserted_again_is_not(self) -> None:
        journal = Journal()
        for change in (delete(5), insert(5)):
            journal.record(change)
        assert journal.deleted["orders"] == journal.surplus["orders"] == set()
        journal.record(delete(5))
        assert journal.surplus["orders"] == {("5",)}

    def test_a_key_that_no_sync_has_seen_is_gone_without_surplus(self) -> None:
        journal = Journal()
        for change in (insert(5), delete(5)):
            journal.record(change)
        assert journal.deleted["orders"] == {("5",)}
        assert journal.surplus["orders"] == set()

    def test_after_a_mark_it_has_been_seen(self) -> None:
        journal = Journal()
        journal.record(insert(5))
        journal.mark()
        journal.record(delete(5))
        assert journal.surplus["orders"] == {("5",)}

    def test_an_update_is_no_matter(self) -> None:
        journal = Journal()
        journal.record(Change("update", "orders", (5,), {"total": 1}))
        assert not any(journal.deleted.values())


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 8))))
def test_a_key_set_is_a_set(steps: list[tuple[bool, int]]) -> None:
    keys, model = KeySet([]), set[tuple[int, ...]]()
    for adding, number in steps:
        if adding and (number,) not in model:
            keys.add((number,))
            model.add((number,))
        elif not adding and (number,) in model:
            keys.remove((number,))
            model.remove((number,))
        assert len(keys) == len(model)
        assert all(((n,) in keys) == ((n,) in model) for n in range(9))
        assert not model or keys.pick(Random(number)) in model  # noqa: S311


@given(st.integers(0, 50), st.integers(1, 6))
def test_plans_fit_and_touch_only_rows_that_exist(seed: int, most: int) -> None:
    plans, exists = planner(seed)
    for _ in range(120):
        changes, _late = plans.plan(most)
        assert 1 <= len(changes) <= most
        for change in changes:
            assert (change.key in exists[change.table]) == (change.kind != "insert")
            (exists[change.table].discard if change.kind == "delete" else exists[change.table].add)(
                change.key
            )
            plans.settle(change)


def test_rows_not_yet_committed_are_left_alone() -> None:
    plans, _ = planner()
    held = next(changes for changes, late in iter(lambda: plans.plan(10), None) if late)
    keys = {(change.table, change.key) for change in held}
    assert {change.kind for change in held} == {"insert"}
    for _ in range(500):
        changes, _late = plans.plan(10)
        assert keys.isdisjoint((change.table, change.key) for change in changes)


def test_every_kind_of_change_reaches_every_table_that_has_it() -> None:
    plans, _ = planner()
    seen: set[tuple[str, str]] = set()
    for _ in range(3_000):
        changes, _late = plans.plan(10)
        for change in changes:
            plans.settle(change)
            seen.add((change.table, change.kind))
    wanted = {(name, kind) for name in SHOP_TABLES for kind in ("insert", "update", "delete")}
    assert seen == wanted - {("events", "update")}


def test_the_seed_decides() -> None:
    first, second, other = planner(3)[0], planner(3)[0], planner(4)[0]
    plans = [[p.plan(10) for _ in range(40)] for p in (first, second, other)]
    assert plans[0] == plans[1] != plans[2]
