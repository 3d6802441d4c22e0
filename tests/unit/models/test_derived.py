"""What derives from days of a table, or from partitions of a model, and what is declared by it."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ConfigError, ModelError
from mirrorlake.ledger import Lease, Ledger, Window
from mirrorlake.models.computed import ComputedModels
from mirrorlake.models.partition_states.derived import Origins, chosen_keys, derived
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.planning.computed import NamedPartitions
from mirrorlake.operations.planning.declare import declare, plan_declaration
from tests.unit.models.test_project import DAYS, Compiled
from tests.unit.operations.test_invalid import RECEIPT

DAILY = f"---\n{DAYS}\n---\nSELECT store, SUM(amount) AS amount FROM s_d.sales WHERE DATE(sold_at) = day GROUP BY store"
TWO = f"---\n{DAYS}\n---\nSELECT store FROM m.daily WHERE day BETWEEN DATE_SUB(day, 1) AND day"
MODELS = {
    "m__daily": DAILY,
    "m__two": TWO.replace("WHERE day", "WHERE m.daily.day")
    .replace("AND day", "AND two_day")
    .replace("DATE_SUB(day", "DATE_SUB(two_day")
    .replace("{day:", "{two_day:"),
    "m__total": "SELECT SUM(amount) AS amount FROM m.daily",
    "m__seen": "---\nmaterialized: view\n---\nSELECT store, sold_at FROM s_d.sales",
    "m__of_view": "SELECT COUNT(*) AS n FROM m.seen",
    "m__born": "SELECT born FROM s_d__clean.people",
}
THIRD = date(2024, 3, 3)


def found(compiled: Compiled, origins: Origins, choice: str = "all") -> dict[str, list[str]]:
    project = compiled(**MODELS)
    project.raise_problems()
    some = derived(project, compiled.catalogue, origins, choice)  # type: ignore[attr-defined]
    return {name: list(keys) for name, keys in some.items()}


OF_SALES = Origins(
    frozenset({"s_d.sales", "s_d__clean.sales"}), (date(2024, 3, 1), date(2024, 3, 1))
)
DAILY_OF = {"m.daily": ["day=2024-03-01"]}
ALL_OF = {
    **DAILY_OF,
    "m.total": [""],
    "m.two": ["two_day=2024-03-01", "two_day=2024-03-02"],
    "m.of_view": [""],
}


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("all", ALL_OF),
        ("direct", {**DAILY_OF, "m.of_view": [""]}),
        ("none", {}),
        ("m.two", {"m.two": ALL_OF["m.two"]}),
        ("m.total, m.daily", {**DAILY_OF, "m.total": [""]}),
    ],
)
def test_what_derives_from_days_of_a_table(
    compiled: Compiled,
    choice: str,
    wanted: dict[str, list[str]],
) -> None:
    assert found(compiled, OF_SALES, choice) == wanted


def test_what_derives_from_partitions_of_a_model(compiled: Compiled) -> None:
    of_daily = Origins(model="m.daily", keys=frozenset({"day=2024-03-02"}))
    wanted = {"m.total": [""], "m.two": ["two_day=2024-03-02", "two_day=2024-03-03"]}
    assert found(compiled, of_daily) == wanted
    assert found(compiled, of_daily, "direct") == wanted


def test_days_of_another_column_say_nothing_of_those_that_were_declared(
    compiled: Compiled,
) -> None:
    born = f"---\n{DAYS}\n---\nSELECT id FROM s_d.people WHERE born = day"
    project = compiled(m__born=born)
    people = Origins(frozenset({"s_d.people"}), (date(1999, 1, 1), date(1999, 1, 1)))
    some = derived(project, compiled.catalogue, people, "all")  # type: ignore[attr-defined]
    assert some == {"m.born": ("day=2024-03-01", "day=2024-03-02", "day=2024-03-03")}


def test_models_come_after_what_they_read(compiled: Compiled) -> None:
    names = list(found(compiled, OF_SALES))
    assert names.index("m.daily") < min(names.index("m.total"), names.index("m.two"))


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("m.twoo", "there is no model m.twoo; did you mean m.two"),
        ("m.born", "no partition of m.born derives from s_d.sales and s_d__clean.sales"),
    ],
)
def test_a_choice_that_is_none(compiled: Compiled, choice: str, words: str) -> None:
    with pytest.raises(ModelError, match=words.replace(";", ".").split(" did")[0]):
        found(compiled, OF_SALES, choice)


def test_a_model_that_does_not_compile_hides_what_derives(compiled: Compiled) -> None:
    project = compiled(**MODELS, m__bad="SELECT nothing FROM s_d.sales")
    with pytest.raises(ModelError, match="there is no column nothing"):
        derived(project, compiled.catalogue, OF_SALES, "all")  # type: ignore[attr-defined]
    assert derived(project, compiled.catalogue, OF_SALES, "none") == {}  # type: ignore[attr-defined]


def test_partitions_of_some_days(compiled: Compiled) -> None:
    project = compiled(**MODELS)
    daily = project.models["m.daily"]
    assert chosen_keys(daily, {}, None, None) == tuple(f"day=2024-03-0{n}" for n in (1, 2, 3))
    assert chosen_keys(daily, {}, date(2024, 3, 2), None) == ("day=2024-03-02", "day=2024-03-03")
    assert chosen_keys(daily, {"day": "2024-03-02"}, None, THIRD) == ("day=2024-03-02",)
    with pytest.raises(ModelError, match="has no partition of these days"):
        chosen_keys(daily, {}, date(2025, 1, 1), None)
    with pytest.raises(ModelError, match="has no partition names that are days"):
        chosen_keys(project.models["m.total"], {}, THIRD, None)


def plan(compiled: Compiled, contract: Path, name: str, choice: str = "all", **target: Any) -> Any:
    config = load_config(contract)
    ledger = Ledger(config.ledger.url)
    project = compiled(**MODELS)
    catalogue = compiled.catalogue  # type: ignore[attr-defined]
    meant = NamedPartitions(name, target.pop("values", {}), **target)
    computed = [ComputedModels(config, States(project, catalogue, Lake(config.lake), ledger))]
    return ledger, plan_declaration(config, ledger, computed, meant, choice, THIRD)


def load_sales(contract: Path, *, mode: str = "initial") -> None:
    ledger = Ledger(load_config(contract).ledger.url)
    name = "s.d.sales" if mode == "initial" else "s.d.people"
    load_id = ledger.create_load(name, Window(mode, None, None, THIRD))
    load = ledger.start_load(load_id, Lease(name, "o", 1), "run", "t_v_1", None)
    ledger.finish_load(load, 1, RECEIPT)


def test_a_declaration_marks_the_days_and_what_derives_from_them(
    compiled: Compiled,
    contract: Path,
) -> None:
    load_sales(contract)
    ledger, declared = plan(
        compiled, contract, "sales", first=date(2024, 3, 1), last=date(2024, 3, 1)
    )
    assert (declared.target, declared.reads_again) == ("s.d.sales", True)
    assert ledger.dirty_marks() == []  # nothing was written
    declare(ledger, declared, "a wrong rate")
    marks = ledger.dirty_marks()
    assert len({one.mark_id for one in marks}) == len(marks) == 6
    assert {(one.declaration, one.reason) for one in marks} == {
        (declared.declaration, "a wrong rate")
    }
    of_table = [one for one in marks if one.key is None]
    assert [(one.target, one.first, one.last) for one in of_table] == [
        ("s.d.sales", date(2024, 3, 1), date(2024, 3, 1))
    ]
    found_keys: dict[str, list[str]] = {}
    for one in marks:
        if one.key is not None:
            found_keys.setdefault(one.target, []).append(one.key)
    assert found_keys == ALL_OF
    assert "@" in marks[0].by


def test_a_range_ends_where_the_table_does(compiled: Compiled, contract: Path) -> None:
    load_sales(contract)
    Ledger(load_config(contract).ledger.url).lower_first_day("s.d.sales", date(2024, 2, 1))
    _, declared = plan(compiled, contract, "s.d.sales", last=date(2030, 1, 1))
    assert (declared.first, declared.last) == (date(2024, 2, 1), THIRD)
    # Rows may have come to earlier days in MySQL, but none before the contract's start is read.
    _, declared = plan(compiled, contract, "s.d.sales", first=date(2024, 1, 15))
    assert declared.first == date(2024, 1, 15)
    _, declared = plan(compiled, contract, "s.d.sales", first=date(2020, 1, 1))
    assert declared.first == date(2024, 1, 1)


def test_a_full_copy_is_declared_as_a_whole(compiled: Compiled, contract: Path) -> None:
    load_sales(contract, mode="full")
    _, declared = plan(compiled, contract, "people")
    assert (declared.first, declared.last, declared.reads_again) == (None, None, True)
    assert declared.partitions == {"m.born": ("",)}


@pytest.mark.parametrize(
    ("name", "target", "error", "words"),
    [
        ("nobody", {}, ConfigError, "no table 'nobody'"),
        ("never", {}, ConfigError, "was never loaded"),
        ("sales", {"values": {"day": "2024-03-01"}}, ConfigError, "has days, and no partitions"),
        ("sales", {"first": THIRD, "last": date(2024, 3, 1)}, ConfigError, "is no range of days"),
        ("sales", {"first": date(2030, 1, 1)}, ConfigError, "s.d.sales has no day from 2030-01-01"),
        ("m.seen", {}, ModelError, "is a view: it has no rows of its own"),
        (
            "m.daily",
            {"values": {"day": "2020-01-01"}},
            ModelError,
            "has no partition day=2020-01-01",
        ),
    ],
)
def test_a_declaration_that_is_none(
    compiled: Compiled,
    contract: Path,
    name: str,
    target: dict[str, Any],
    error: type[Exception],
    words: str,
) -> None:
    load_sales(contract)
    with pytest.raises(error, match=words):
        plan(compiled, contract, name, **target)
