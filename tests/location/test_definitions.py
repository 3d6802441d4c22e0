"""What an asset shows before anything ran: its lines in the contract file, address and version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.build import build_definitions
from dagster_mirrorlake.checks import chain_check_keys
from dagster_mirrorlake.checks.series import exact_step
from dagster_mirrorlake.names import step_of
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.table_places import table_places
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from tests.location.contracts import PASSWORD, SMALL

Write = Callable[[Any], Path]
ORDERS = {layer: f"{layer}/s/shop/orders" for layer in ("mysql", "raw", "deduped", "clean")}


def specs(path: Path) -> dict[str, dg.AssetSpec]:
    defs = build_definitions(load_config(path))
    return {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}


def test_every_asset_of_a_chain_leads_to_its_contract(contract_file: Write) -> None:
    path = contract_file(SMALL)
    lines = path.read_text().splitlines()
    for layer in ORDERS.values():
        (reference,) = specs(path)[layer].metadata["dagster/code_references"].code_references
        assert Path(reference.file_path) == path
        assert lines[reference.line_number - 1].strip() == "orders:"


def test_uris_say_where_the_table_is_and_nobodys_password(contract_file: Write) -> None:
    path = contract_file(SMALL)
    found, config = specs(path), load_config(path)
    assert found[ORDERS["mysql"]].metadata["dagster/uri"] == "mysql://127.0.0.1:1/shop/orders"
    lake = Lake(config.lake)
    spaces = config.table("orders").namespaces
    for layer, space in (("raw", spaces.raw), ("deduped", spaces.deduped)):
        expected = lake.location(Identifier(space, "orders"))
        assert found[ORDERS[layer]].metadata["dagster/uri"] == expected
        assert found[ORDERS[layer]].metadata["dagster/table_name"] == f"{space}.orders"
    # A view has no folder.
    assert "dagster/uri" not in found[ORDERS["clean"]].metadata
    shown = json.dumps({k: str(dict(s.metadata)) for k, s in found.items()})
    assert PASSWORD not in shown
    assert "mirror@" not in shown


def test_a_uri_is_one_whatever_mysql_lets_a_table_be_called(contract_file: Write) -> None:
    config = load_config(contract_file({"a/b": {"tables": {"c d": {"mode": "full"}}}}))
    uris = table_places(config)["s.a/b.c d"].uris
    assert uris["source"] == "mysql://127.0.0.1:1/a%2Fb/c%20d"
    space = config.tables[0].namespaces.deduped
    assert uris["deduped"] == Lake(config.lake).location(Identifier(space, "c d"))


def test_a_code_version_changes_with_what_a_contract_means_for_its_layer(
    contract_file: Write,
) -> None:
    def versions(**changes: Any) -> dict[str, str | None]:
        orders = {**SMALL["shop"]["tables"]["orders"], **changes}
        found = specs(contract_file({"shop": {"tables": {"orders": orders}}}))
        return {name: found[key].code_version for name, key in ORDERS.items()}

    before = versions()
    assert before["mysql"] is None
    assert versions(owners=["team:other"], settle="5m", freshness=None) == before

    def changed(**changes: Any) -> set[str]:
        after = versions(**changes)
        return {name for name in ORDERS if after[name] != before[name]}

    columns = SMALL["shop"]["tables"]["orders"]["columns"]
    assert changed(columns={**columns, "email": {"pii": "drop"}}) == {"clean"}
    structured = {"pii": columns["email"]["pii"], "json_as": "structure"}
    assert changed(columns={**columns, "email": structured}) == {"raw"}
    assert changed(versions="table") == {"raw"}
    assert changed(versions="view") == set()
    assert changed(deletes="ignore") == {"deduped", "clean"}
    assert changed(cursor="changed_at") == {"raw", "deduped", "clean"}
    assert changed(columns={**columns, "cvv": {"pci": "never"}}) == {"raw", "deduped", "clean"}


def test_raw_says_as_what_all_versions_are_shown(contract_file: Write) -> None:
    orders = SMALL["shop"]["tables"]["orders"]
    for terms, words in (
        ({}, "a view, for Spark alone"),
        ({"versions": "table"}, "a table, for every engine"),
    ):
        found = specs(contract_file({"shop": {"tables": {"orders": {**orders, **terms}}}}))
        assert found[ORDERS["raw"]].metadata["all schema versions"] == words
        assert "all schema versions" not in found[ORDERS["deduped"]].metadata


def test_code_versions_are_those_of_earlier_releases(contract_file: Write) -> None:
    """A changed one would mark every asset as outdated: here it must be meant."""
    found = specs(contract_file(SMALL))
    assert [found[ORDERS[name]].code_version for name in ("raw", "deduped", "clean")] == [
        "3c7c6f48550d",
        "3c7c6f48550d",
        "a8bbdfd02bf1",
    ]


def test_a_description_is_of_the_table(contract_file: Write) -> None:
    found = specs(contract_file(SMALL))
    assert found[ORDERS["clean"]].description == (
        "shop.orders of s: what people query: personal data masked or gone, card data never read. "
        "Mode incremental: rows that changed are read again by `modified_at` from 2024-05-01; key "
        "`id`. Personal: `email` (mask). Never read: `card`."
    )
    assert found["raw/s/shop/log"].description == (
        "shop.log of s: row versions as they were pulled; every load traceable. Mode full: copied "
        "as a whole; without a key."
    )


def test_a_run_of_a_sensor_has_no_step_that_compares(contract_file: Write) -> None:
    """By this a run knows whether it must restate what differed (`checks.run_checks`)."""
    config = load_config(contract_file(SMALL))
    job = build_definitions(config).resolve_implicit_global_asset_job_def()
    table = MirroredTable(config.table("orders"))
    chosen, step = set(table.chain_keys), exact_step(table.key("deduped"))
    of_sensor = job.get_subset(
        asset_selection=chosen, asset_check_selection=set(chain_check_keys(table))
    )
    assert step not in of_sensor.graph.node_dict
    assert step in job.get_subset(asset_selection=chosen).graph.node_dict


HOSTILE = (
    *("order lines", "with.dot", "with_dot", "with-dash", "emoji☃table", 'quote"s', "`ticks`"),
    *("_", "__", "_a", "a_", "a__b", "ä", "ö", "1", "a/b", "a:b", "a,b", "a*", "+a", "(a)", "İ"),
)


@pytest.mark.parametrize("mode", ["full", "incremental"])
def test_a_table_may_be_called_whatever_mysql_lets_it_be(contract_file: Write, mode: str) -> None:
    one: dict[str, Any] = {"mode": mode, "key": ["id"], "clean": "table"}
    if mode == "incremental":
        one |= {"cursor": "at", "start": "2024-01-01"}
    tables = dict.fromkeys(HOSTILE, one)
    other = {"raw": "o_raw", "deduped": "o", "clean": "o_clean"}
    databases: dict[str, Any] = {
        "shop": {"tables": tables},
        "shop.x": {"tables": {"t": one}},
        "shop_x": {"tables": {"t": one}, "namespaces": other},
    }
    path = contract_file(databases)
    defs = build_definitions(load_config(path))
    repository = defs.get_repository_def()
    repository.load_all_definitions()
    steps = [op.name for job in repository.get_all_jobs() for op in job.graph.node_defs]
    assert steps
    keys = {spec.key for spec in defs.resolve_all_asset_specs()}
    for name in HOSTILE:
        assert {dg.AssetKey([layer, "s", "shop", name]) for layer in ORDERS} <= keys
    names = {
        step_of(dg.AssetKey([layer, "s", "shop", name]))
        for layer in ("raw", "deduped", "clean")
        for name in HOSTILE
    }
    assert len(names) == 3 * len(HOSTILE), "each has a step of its own"
    assert names <= {node for job in repository.get_all_jobs() for node in job.graph.node_dict}
