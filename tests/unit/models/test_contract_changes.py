"""A plan says what the contracts of the working tree change of those by which tables were loaded."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import Config, load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Lease, Ledger, Window
from mirrorlake.models.computed import ComputedModels
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.planning.contract_changes import TableChange, plan_contracts
from mirrorlake.operations.schema_changes.recorded_contracts import (
    record_contract,
    recorded_contracts,
)
from mirrorlake.serving.catalogue import Catalogue
from tests.unit.models.test_project import CONTRACT, Compiled
from tests.unit.operations.test_invalid import RECEIPT, day

Changes = Callable[..., TableChange]
MEANING = {
    "mode": "append", "raw": "s_d__raw", "key": ["id"], "cursor": "sold_at", "by_time": True,
    "start": "2024-01-01",
}  # fmt: skip


def catalogue_of(config: Config) -> Catalogue:
    return Catalogue(config, Lake(config.lake))


@pytest.fixture
def changes(compiled: Compiled, contract: Path) -> Changes:
    """What becomes of the contract of `sales` (or another) when its file is edited."""

    def run(before: str, after: str, table: str = "s.d.sales", **models: str) -> TableChange:
        config = load_config(contract)
        ledger = Ledger(config.ledger.url)
        for one in config.tables:
            if one.table != "never":
                record_contract(ledger, one)
        load_id = ledger.create_load("s.d.sales", Window("initial", None, None, day(2)))
        load = ledger.start_load(load_id, Lease("s.d.sales", "o", 1), "run", "t_v_1", None)
        ledger.finish_load(load, 1, replace(RECEIPT, meaning=MEANING))
        assert before in CONTRACT
        contract.write_text(CONTRACT.replace(before, after))
        project = compiled(**models)
        catalogue: Any = compiled.catalogue  # type: ignore[attr-defined]
        config = load_config(contract)
        states = States(project, catalogue, Lake(config.lake), ledger)
        found = plan_contracts(config, ledger, catalogue, [ComputedModels(config, states)])
        return next(one for one in found if one.table == table)

    return run


SALES = "{mode: append, key: [id], cursor: sold_at, start: 2024-01-01}"
PEOPLE = "{mode: full, key: [id], columns: {email: {pii: mask}}}"


def edited(text: str) -> str:
    return f"{SALES[:-1]}, {text}}}"


@pytest.mark.parametrize(
    ("before", "after", "change", "words"),
    [
        (SALES, SALES, "unchanged", ()),
        (SALES, edited("overlap: 45m"), "changed", ("overlap was PT30M, is PT45M",)),
        (SALES, edited("shrink_limit: null"), "changed", ("shrink_limit was 0.9, is null",)),
        (
            SALES,
            SALES.replace("append", "incremental"),
            "changed",
            ("mode was append, is incremental", "the whole table is read again"),
        ),
        (
            SALES,
            "{mode: binlog, key: [id]}",
            "changed",
            (
                "cursor was sold_at, is not set",
                "mode was append, is binlog",
                "start was 2024-01-01, is not set",
                "the whole table is read again, and a new history begins",
            ),
        ),
        (
            "        tables:",
            "        namespaces: {raw: elsewhere}\n        tables:",
            "breaking",
            (
                "the whole table is read again, and a new history begins",
                "raw is elsewhere.sales then, and s_d__raw.sales stays as it is",
            ),
        ),
        (
            SALES,
            edited("deletes: ignore").replace("key: [id]", "key: [store]"),
            "breaking",
            (
                "deletes was remove, is ignore",
                "key was [id], is [store]",
                "its next sync stops: a new history would lose deletes: ignore",
            ),
        ),
    ],
)  # fmt: skip
def test_what_changed_of_a_contract(
    changes: Changes, before: str, after: str, change: str, words: tuple[str, ...]
) -> None:
    assert changes(before, after) == TableChange("s.d.sales", change, words)  # type: ignore[arg-type]


def test_a_rule_that_takes_a_column_from_readers_names_them(changes: Changes) -> None:
    models = {
        "m__a": "SELECT id,\n  email FROM s_d__clean.people",
        "m__b": "SELECT COUNT(email) AS n FROM m.a",
        "m__c": "SELECT id FROM s_d__clean.people",
    }
    dropped = PEOPLE.replace("{pii: mask}", "{pii: drop}")
    found = changes(PEOPLE, dropped, "s.d.people", **models)
    assert found.change == "breaking"
    assert found.words == (
        "column email had pii: mask, has pii: drop",
        "s_d__clean.people.email is gone then",
    )
    assert [words[words.index("models/") :] for words in found.readers] == [
        "models/m/a.sql:2:3: m.a reads email of s_d__clean.people, which is gone then: there is no "
        "column email",
        "models/m/b.sql:1:14: m.b reads email of m.a, which is made of email of "
        "s_d__clean.people: that is gone then",
        "models/m/b.sql:1:31: m.b reads m.a, which does not compile then",
    ]


def test_a_rule_that_changes_a_type_breaks(changes: Changes) -> None:
    masked = PEOPLE.replace("email: {pii: mask}", "email: {pii: mask}, born: {pii: mask}")
    models = {"m__a": "SELECT YEAR(born) AS year FROM s_d__clean.people"}
    found = changes(PEOPLE, masked, "s.d.people", **models)
    assert found.change == "breaking"
    assert "s_d__clean.people.born was date, is string then" in found.words
    assert any("m.a reads born of s_d__clean.people" in words for words in found.readers)


def test_a_column_that_may_not_be_read_any_more_stops_the_table(changes: Changes) -> None:
    never = PEOPLE.replace("{pii: mask}", "{pci: never}")
    found = changes(PEOPLE, never, "s.d.people")
    assert found.change == "breaking"
    assert "its next sync stops: email is `pci: never`, and its mirror holds it" in found.words


def test_a_table_that_comes_and_one_that_goes(changes: Changes) -> None:
    assert changes(SALES, SALES, "s.d.never") == TableChange("s.d.never", "added")
    gone = changes(f"people: {PEOPLE}", f"folk: {PEOPLE}", "s.d.people")
    assert gone == TableChange(
        "s.d.people", "removed", ("it is no longer loaded; its lake tables stay",)
    )


def test_a_table_that_an_older_release_loaded(contract: Path, compiled: Compiled) -> None:
    config = load_config(contract)
    ledger = Ledger(config.ledger.url)
    load_id = ledger.create_load("s.d.sales", Window("initial", None, None, day(2)))
    load = ledger.start_load(load_id, Lease("s.d.sales", "o", 1), "run", "t_v_1", None)
    ledger.finish_load(load, 1, replace(RECEIPT, meaning=MEANING))
    compiled()
    found = plan_contracts(config, ledger, catalogue_of(config), [])
    (sales,) = [one for one in found if one.table == "s.d.sales"]
    assert sales.change == "unchanged"
    assert sales.words == ("only mode, key and cursor are known of what it was loaded by",)
    contract.write_text(CONTRACT.replace("mode: append", "mode: incremental"))
    config = load_config(contract)
    found = plan_contracts(config, ledger, catalogue_of(config), [])
    (sales,) = [one for one in found if one.table == "s.d.sales"]
    assert (sales.change, sales.words) == (
        "changed",
        ("mode was append, is incremental", "the whole table is read again"),
    )


def test_what_another_release_had_otherwise_is_no_change(
    compiled: Compiled, contract: Path
) -> None:
    config = load_config(contract)
    ledger = Ledger(config.ledger.url)
    for name in ("sales", "people"):
        record_contract(ledger, config.table(name))
    recorded = recorded_contracts(ledger)["s.d.sales"]
    del recorded["verify"]  # an older one did not have it
    recorded["withdrawn"] = 7  # and had this
    ledger.record_definition("contract s.d.sales", json.dumps(recorded))
    recorded = recorded_contracts(ledger)["s.d.people"]
    recorded["columns"] = {"email": {"pii": "mask", "gone": 7}}
    ledger.record_definition("contract s.d.people", json.dumps(recorded))
    compiled()
    found = plan_contracts(config, ledger, catalogue_of(config), [])
    known = [one for one in found if one.table != "s.d.never"]
    assert known == [TableChange(f"s.d.{name}", "unchanged") for name in ("people", "sales")]


def test_what_a_check_kept_is_no_contract(contract: Path) -> None:
    """Its name began like a contract's: each layer that Dagster checked was called removed."""
    config = load_config(contract)
    ledger = Ledger(config.ledger.url)
    record_contract(ledger, config.table("sales"))
    ledger.record_definition("contract s_d.sales", json.dumps({"snapshot": 1, "terms": "x"}))
    assert list(recorded_contracts(ledger)) == ["s.d.sales"]
