"""What a backfill does, in order: tables, then models after those that they read."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ConfigError, ModelError
from mirrorlake.ledger import Lease, Ledger, Window
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.models.compute.backfill import ModelWork, looked_at_again
from mirrorlake.models.compute.run import refuse_waiting
from mirrorlake.models.computed import ComputedModels
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.days.backfill_windows import WorkRequest
from mirrorlake.operations.planning.forecasts import Forecast
from mirrorlake.operations.planning.work import Work, find_work
from mirrorlake.operations.planning.work_plans import plan_work
from tests.unit.models.test_project import DAYS, Compiled
from tests.unit.operations.test_invalid import RECEIPT

TODAY = date(2024, 3, 4)
DAILY = f"---\n{DAYS}\n---\nSELECT store FROM s_d.sales WHERE DATE(sold_at) = day"
TWO = (
    "---\nfor: {two_day: \"TIMESERIES('2024-03-02', CURRENT_DATE, 'P1D')\"}\n---\n"
    "SELECT store FROM m.daily WHERE day BETWEEN DATE_SUB(two_day, 1) AND two_day"
)
DAY_KEYS = ["day=2024-03-01", "day=2024-03-02", "day=2024-03-03"]
TWO_KEYS = ["two_day=2024-03-02", "two_day=2024-03-03"]


class World:
    """A contract, its ledger and lake, and models that are computed by fiat."""

    def __init__(self, contract: Path, compiled: Compiled) -> None:
        self.config = load_config(contract)
        self.ledger = Ledger(self.config.ledger.url)
        self.lake = Lake(self.config.lake)
        self._compiled = compiled
        self.models = {"m__daily": DAILY, "m__two": TWO}
        self.project: Any = None

    def states(self) -> States:
        self.project = self._compiled(**self.models)
        self.project.raise_problems()
        catalogue: Any = self._compiled.catalogue  # type: ignore[attr-defined]
        return States(self.project, catalogue, self.lake, self.ledger)

    def computed(self, name: str, *keys: str) -> None:
        """Partitions as a run would have recorded them now."""
        states = self.states()
        model = self.project.models[name]
        namespace, table = name.split(".")
        self.lake.make_namespace(namespace)
        if (namespace, table) not in self.lake.catalog.list_tables(namespace):
            field = NestedField(1, "store", StringType(), required=False)
            self.lake.catalog.create_table((namespace, table), Schema(field))
        uuid = str(self.lake.catalog.load_table((namespace, table)).metadata.table_uuid)
        found: list[ModelPartition] = []
        for key in keys:
            inputs = states.inputs(model, model.by_key[key])
            one = ModelPartition(name, key, model.fingerprint, uuid, 7, inputs, 3, 2.0, "run")
            found.append(one)
        ModelRecords(self.ledger).record_partitions(found)

    def load(self, table: str, window: Window, *, folded: bool = True) -> None:
        load_id = self.ledger.create_load(table, window)
        load = self.ledger.start_load(load_id, Lease(table, "o", 1), "run", "t_v_1", None)
        self.ledger.finish_load(load, 1, replace(RECEIPT, rows=10, read_bytes=1_000))
        if folded:
            self.ledger.record_folds(table, "deduped", [load.seq])

    def mark(self, target: str, key: str | None = None, *days: int, of: str = "d1") -> None:
        first, last = (date(2024, 3, n) for n in days) if days else (None, None)
        number = len(self.ledger.dirty_marks())
        one = DirtyMark(f"m{number}", of, target, "a wrong rate", "ann", key, first, last)
        self.ledger.declare_invalid([one])

    def find(self, *targets: str, which: Any = "missing", **more: Any) -> Work:
        states = self.states()
        models = tuple(name for name in targets if name in self.project.models)
        tables = tuple(self.config.table(name) for name in targets if name not in models)
        request = WorkRequest(tables, models, which, **more)
        computed = [ComputedModels(self.config, states)]
        return find_work(self.config, self.ledger, computed, request, TODAY)


@pytest.fixture
def world(contract: Path, compiled: Compiled) -> World:
    return World(contract, compiled)


def shown(work: Work) -> list[tuple[str, list[str]]]:
    """Each step's target, and its windows or partitions."""
    of_tables = [
        (w[0].contract.table, [f"{one.first:%d}-{one.last:%d}" for one in w]) for w in work.windows
    ]
    computed = [(one.target, [state.key for state in one.states]) for one in of_models(work)]
    return [*of_tables, *((c.table, ["fold"]) for c in work.folds), *computed]


def of_models(work: Work) -> list[ModelWork]:
    return [one for one in work.partitions if isinstance(one, ModelWork)]


INITIAL = Window("initial", None, None, date(2024, 3, 3))


def test_partitions_that_are_missing_come_after_those_that_they_wait_for(world: World) -> None:
    assert shown(world.find("m.two")) == [("m.daily", DAY_KEYS), ("m.two", TWO_KEYS)]
    world.computed("m.daily", *DAY_KEYS[:2])
    assert shown(world.find("m.two")) == [("m.daily", DAY_KEYS[2:]), ("m.two", TWO_KEYS)]
    later = world.find("m.two", first=date(2024, 3, 3))
    assert shown(later) == [("m.daily", DAY_KEYS[2:]), ("m.two", TWO_KEYS[1:])]
    world.computed("m.daily", DAY_KEYS[2])
    world.computed("m.two", *TWO_KEYS)
    assert world.find("m.two").nothing
    again = world.find("m.two", which="all")
    assert shown(again) == [("m.two", TWO_KEYS)]
    assert of_models(again)[0].again


def test_what_was_declared_invalid_and_holds_something(world: World) -> None:
    world.load("s.d.sales", INITIAL)
    world.computed("m.daily", *DAY_KEYS[:2])
    for key in DAY_KEYS:
        world.mark("m.daily", key)
    world.mark("s.d.sales", None, 1, 2)
    # The third was never computed: nothing of it is wrong.
    assert shown(world.find(which="invalid")) == [("sales", ["01-02"]), ("m.daily", DAY_KEYS[:2])]
    assert shown(world.find("sales", which="invalid")) == [("sales", ["01-02"])]
    work = world.find("m.daily", which="invalid")
    assert shown(work) == [("sales", ["01-02"]), ("m.daily", DAY_KEYS[:2])]  # it waits for them
    (state, *_) = of_models(work)[0].states
    assert (state.word, state.why) == ("stale", "declared invalid: a wrong rate")
    assert state.waits == ("s.d.sales 2024-03-01 to 2024-03-02, declared invalid",)
    assert work.reasons["s.d.sales"] == "declared invalid: a wrong rate"


def test_a_partition_is_not_computed_before_the_days_that_were_declared_with_it(
    world: World,
) -> None:
    world.load("s.d.sales", INITIAL)
    world.computed("m.daily", *DAY_KEYS)
    world.mark("m.daily", DAY_KEYS[0])
    world.mark("s.d.sales", None, 1, 1)
    world.mark("m.daily", DAY_KEYS[1], of="d2")
    states = world.states()
    daily = world.project.models["m.daily"]
    with pytest.raises(ModelError, match="declared invalid, not loaded and folded again yet"):
        refuse_waiting(states, daily, [daily.by_key[DAY_KEYS[0]]])
    refuse_waiting(states, daily, [daily.by_key[DAY_KEYS[1]]])
    # What a commit may answer is what did not wait when it was computed.
    assert states.dirty.answered("m.daily", DAY_KEYS) == {DAY_KEYS[1]: ["m2"]}
    reload = Window("reload", "2024-03-01", "2024-03-02", date(2024, 3, 4))
    world.load("s.d.sales", reload, folded=False)
    assert states.dirty.answered("m.daily", DAY_KEYS) == {DAY_KEYS[1]: ["m2"]}  # as it was seen
    assert shown(world.find("sales", which="invalid")) == [("sales", ["fold"])]
    world.ledger.record_folds("s.d.sales", "deduped", [2])
    answered = world.states().dirty.answered("m.daily", DAY_KEYS)
    assert answered == {DAY_KEYS[0]: ["m0"], DAY_KEYS[1]: ["m2"]}


def test_ranges_that_touch_are_read_once_and_in_windows(world: World) -> None:
    world.load("s.d.sales", INITIAL)
    world.mark("s.d.sales", None, 1, 2, of="d1")
    world.mark("s.d.sales", None, 2, 4, of="d2")
    work = world.find("sales", which="invalid", days_per_window=3)
    assert shown(work) == [("sales", ["01-03", "04-04"])]


def test_a_full_copy_is_one_window_and_complete(world: World) -> None:
    world.load("s.d.people", Window("full", None, None, date(2024, 3, 3)))
    world.mark("s.d.people")
    ((window,),) = world.find(which="invalid").windows
    assert (window.live, window.complete) == (True, True)


def test_that_a_full_copy_has_no_days_to_fill_is_said(world: World) -> None:
    world.load("s.d.people", Window("full", None, None, TODAY))
    past = {"first": date(2024, 3, 1), "last": date(2024, 3, 3)}
    for work in (world.find("people"), world.find("people", which="all", **past)):
        assert work.nothing
        (words,) = work.warnings
        assert "MySQL has no older copy" in words
        assert "`mirrorlake sync s.d.people`" in words


def test_a_limit_takes_the_first_partitions(world: World) -> None:
    world.load("s.d.sales", INITIAL)
    world.computed("m.daily", *DAY_KEYS)
    world.computed("m.two", *TWO_KEYS)
    world.mark("s.d.sales", None, 1, 3)
    for key in DAY_KEYS:
        world.mark("m.daily", key)
    assert shown(world.find(which="invalid", limit=2)) == [("sales", ["01-02"])]
    some = world.find(which="invalid", limit=4)
    assert shown(some) == [("sales", ["01-03"]), ("m.daily", DAY_KEYS[:1])]
    assert some.left == 2
    assert world.find(which="invalid", limit=6).left == 0


def test_what_is_declared_invalid_and_is_no_more(world: World) -> None:
    world.mark("m.gone", "day=2024-03-01")
    world.mark("m.daily", "day=1999-01-01")
    world.mark("s.d.gone", None, 1, 2)
    work = world.find(which="invalid")
    assert work.nothing
    assert sorted(words.split(" was ")[0] for words in work.warnings) == [
        "m.daily day=1999-01-01",
        "m.gone day=2024-03-01",
        "s.d.gone 2024-03-01 to 2024-03-02",
    ]


@pytest.mark.parametrize(
    ("targets", "more", "words"),
    [
        (("sales",), {"which": "all"}, "all of its days are meant"),
        (("m.daily",), {"which": "errored"}, "a model has none"),
        ((), {"which": "invalid", "first": TODAY}, "it has days of its own"),
    ],
)
def test_a_request_that_is_none(
    world: World, targets: tuple[str, ...], more: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        world.find(*targets, **more)


def test_days_that_were_never_loaded_are_read_from_the_first(world: World) -> None:
    assert shown(world.find("sales")) == [("sales", ["01-04"])]
    world.load("s.d.sales", INITIAL)
    assert world.find("sales").nothing


def test_what_a_load_makes_stale_is_taken_in(world: World) -> None:
    world.computed("m.daily", *DAY_KEYS)
    world.computed("m.two", *TWO_KEYS)
    world.mark("m.two", TWO_KEYS[0])
    work = world.find(which="invalid")
    assert shown(work) == [("m.two", TWO_KEYS[:1])]
    record = ModelRecords(world.ledger).partitions("m.daily")[DAY_KEYS[0]]
    ModelRecords(world.ledger).record_partitions([replace(record, inputs={"s_d.sales": "older"})])
    states = world.states()
    again = looked_at_again(of_models(work), world.project, states)
    assert [(one.model.name, [s.key for s in one.states]) for one in again] == [
        ("m.daily", DAY_KEYS[:1]),
        ("m.two", TWO_KEYS[:1]),
    ]


def test_a_plan_has_what_each_step_takes_and_what_is_not_proved(world: World) -> None:
    world.load("s.d.sales", INITIAL)
    world.ledger.lower_first_day("s.d.sales", date(2024, 2, 1))
    world.computed("m.daily", *DAY_KEYS[:2])
    world.mark("s.d.sales", None, 1, 2)
    for key in DAY_KEYS[:2]:
        world.mark("m.daily", key)
    work = world.find("m.two", which="missing")
    computed = [ComputedModels(world.config, world.states())]
    plan = plan_work(work, world.ledger, computed, TODAY)
    steps = [(one.step, one.target, one.partitions) for one in plan.steps]
    assert steps == [
        ("load", "s.d.sales", 2),
        ("fold", "s.d.sales", 0),
        ("compute", "m.daily", 3),
        ("compute", "m.two", 2),
    ]
    load, fold, daily, two = plan.steps
    assert load.forecast == Forecast()  # no day was ever loaded again
    assert fold.forecast == Forecast()
    assert (daily.forecast.rows, daily.forecast.seconds) == (9, 6.0)
    assert two.forecast == Forecast()
    assert daily.why == {"declared invalid: a wrong rate": 2, "never computed": 1}
    assert plan.total.unknown == {"rows": 3, "bytes": 4, "seconds": 3}
    (unproved,) = daily.unproved
    assert unproved.words == "3 days of s.d.sales (2024-03-01 to 2024-03-03): never checked"
    assert unproved.partitions == 3
    assert two.unproved == ()
