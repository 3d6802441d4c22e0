"""Any history of DDL and changes, loads, folds and refolds: what was loaded is read back as it was.

Hypothesis draws the histories; `tests.integration.ddl_machine` says what can happen and what must
hold.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.ddl_machine import DdlHistories, World

RULES = {
    *("insert", "update", "delete", "load", "sync", "fold", "refold"),
    *("add", "add with a default", "bring back", "drop", "labels", "rebuild"),
    *("rename", "rename unsaid", "rename said later", "rename in case", "take over"),
    *("retype", "retype at once", "decide", "altered before the fold", "kept by the mirror alone"),
    *("refused name", "refused fold", "refused load"),
    *("versions as a view", "versions as a table"),
}
"""What `make test-full` must have done at least once, with an effect."""
TYPES = (
    *(("n", "BIGINT"), ("s", "INT"), ("d", "DECIMAL(12,2)"), ("born", "DATETIME(3)")),
    *(("n", "VARCHAR(20)"), ("d", "DECIMAL(10,4)"), ("mail", "VARCHAR(60)"), ("born", "DATE")),
    *(("s", "VARCHAR(9)"), ("mail", "VARCHAR(20)"), ("state", "ENUM('a','b','ç')")),
)
"""In turn; every second one is synced with the one before it."""


@pytest.fixture
def world(mariadb: MariaDB, place: Place, database: str) -> World:
    return World(mariadb, place, database)


@pytest.mark.full
@pytest.mark.parametrize("versions", ["view", "table"])
def test_each_change_in_turn(world: World, versions: str) -> None:
    """None is left to chance: types first, while a row goes after each, then names."""
    state = DdlHistories(world)
    try:
        state.first_rows(rows=4, clean="table", deletes="ignore", versions=versions)
        state.sync()
        state.delete(0)
        state.delete(0)
        for number, (name, kind) in enumerate(TYPES):
            state.change_type(name, kind)
            if number % 2:
                state.insert()
                state.delete(0)
                state.sync()
        at = state.mirror.free().index
        state.rename(at("mail"), said=True)  # c1
        state.rename(at("born"), said=False)  # c2
        state.drop(at("n"))
        state.sync()
        state.a_name_comes_again(0)
        state.say_renames()
        state.add_with_a_default("DECIMAL(8,2)", "FIRST")  # c3
        state.sync()
        state.delete(0)
        state.take_over(at("s"), at("d"))
        state.rename_in_case(at("state"))
        state.bring_back("INT", 0)
        state.fold(refolds=False)
    finally:
        state.teardown()
    assert not {"refused name", "refused fold"} - world.taken.keys()


def run_histories(world: World, examples: int, steps: int, number: int | None = None) -> None:
    """So many histories; always the same ones where a number is given."""

    def make() -> DdlHistories:
        return DdlHistories(world)

    found = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # Shrinking a failure here costs minutes, and its steps are told anyway.
        phases=[Phase.generate],
    )
    run_state_machine_as_test(make if number is None else seed(number)(make), settings=found)
    print(f"rules that had an effect: {dict(sorted(world.taken.items()))}")


@pytest.mark.full
def test_ddl_histories(world: World) -> None:
    """The first one is always the simplest."""
    run_histories(world, 3, 12, number=1)


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_ddl_histories(world: World) -> None:
    """Others each time."""
    run_histories(world, 80, 30)
    assert not RULES - {rule for rule, times in world.taken.items() if times}
