"""Which partitions of an input the web server sees a model's partition read: what the engine says,
or all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.partitions.context import partition_loading_context
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import deserialize_value, serialize_value
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, DecimalType, NestedField, StringType, TimestampType

from dagster_mirrorlake.build import build_definitions
from dagster_mirrorlake.models.model_asset import ModelAsset, mirror_models
from dagster_mirrorlake.names import Names
from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.dependencies import MirrorInput, ModelInput, inputs_of
from mirrorlake.models.compile.model import Project
from mirrorlake.models.contract_models import compile_project
from mirrorlake.table.columns.source_columns import SourceColumn, record_source_columns

SALES = {
    "m": {
        "tables": {
            "sales": {"mode": "append", "key": ["id"], "cursor": "sold_at", "start": "2024-01-01"}
        }
    }
}
FIRST = datetime.now(UTC).date() - timedelta(days=20)
GROWING = f"TIMESERIES('{FIRST}', CURRENT_DATE, 'P1D')"
LATER = f"TIMESERIES('{FIRST + timedelta(days=4)}', CURRENT_DATE, 'P1D')"
MARCH = "TIMESERIES('2024-02-26', '2024-03-04', 'P1D')"
MONTHS = "TIMESERIES('2024-01-01', '2024-05-01', 'P1M')"
WEEKS = "TIMESERIES('2024-02-26', '2024-04-04', 'P1W')"
ABOVE = {
    "up/daily": ({"day": GROWING}, "SELECT 1 AS n"),
    "up/stores": ({"day": GROWING, "shop": "[Paris, Rome]"}, "SELECT 1 AS n"),
    "up/march": ({"day": MARCH}, "SELECT 1 AS n"),
    "up/grid": ({"day": MARCH, "shop": "[Paris, Rome]"}, "SELECT 1 AS n"),
    "up/weeks": ({"week": WEEKS}, "SELECT 1 AS n"),
    "up/whole": ({}, "SELECT 1 AS n"),
}
WINDOW, LIST, EVERYTHING = (
    dg.TimeWindowPartitionMapping,
    dg.StaticPartitionMapping,
    dg.AllPartitionMapping,
)
SOME, EACH, ONE = (
    dg.SpecificPartitionsPartitionMapping,
    dg.MultiPartitionMapping,
    dg.MultiToSingleDimensionPartitionMapping,
)
P, LATE, FIXED = {"p": GROWING}, {"p": LATER}, {"p": MARCH}
STORES = {"p": GROWING, "w": "[Paris, Rome]"}
GRID = {"p": MARCH, "w": "[Rome, Paris, Lima]"}


@pytest.fixture
def contract(contract_file: Callable[[Any], Path]) -> Path:
    """A contract of one table, which is in the lake and was loaded once."""
    path = contract_file(SALES)
    config = load_config(path)
    columns = {
        "sold_at": TimestampType(),
        "packed": DateType(),
        "store": StringType(),
        "amount": DecimalType(10, 2),
    }
    lake = Lake(config.lake)
    lake.make_namespace("s_m")
    fields = [NestedField(number, *one) for number, one in enumerate(columns.items(), 1)]
    lake.catalog.create_table(("s_m", "sales"), Schema(*fields))
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    record_source_columns(ledger, config.tables[0], [SourceColumn("sold_at", "datetime")])
    return path


def write(path: Path, name: str, scopes: Mapping[str, str], sql: str) -> None:
    file = path.parent / "models" / f"{name}.sql"
    file.parent.mkdir(parents=True, exist_ok=True)
    bound = "".join(f"  {key}: {values}\n" for key, values in scopes.items())
    file.write_text(f"---\n{'for:' if bound else 'owner: me'}\n{bound}---\n{sql}\n")


def compiled(path: Path) -> tuple[Project, Any]:
    config = load_config(path)
    project, catalogue = compile_project(config, Lake(config.lake))
    project.raise_problems()
    return project, catalogue


class Sent:
    """What the web server is sent of a location."""

    def __init__(self, path: Path) -> None:
        repository = build_definitions(load_config(path)).get_repository_def()
        text = serialize_value(RepositorySnap.from_def(repository))
        self.nodes = {
            one.asset_key: one for one in deserialize_value(text, RepositorySnap).asset_nodes
        }

    def partitions(self, key: dg.AssetKey) -> dg.PartitionsDefinition[str] | None:
        found = self.nodes[key].partitions
        return found.get_partitions_definition() if found is not None else None

    def mapping(self, below: dg.AssetKey, above: dg.AssetKey) -> dg.PartitionMapping | None:
        edges = self.nodes[below].parent_edges
        return next(one.partition_mapping for one in edges if one.parent_asset_key == above)

    def read(self, below: dg.AssetKey, above: dg.AssetKey, key: str) -> set[str]:
        """The partitions of an input that one partition reads."""
        mapping, down, up = (
            self.mapping(below, above),
            self.partitions(below),
            self.partitions(above),
        )
        assert mapping is not None
        assert down is not None
        assert up is not None
        with partition_loading_context():
            found = mapping.get_upstream_mapped_partitions_result_for_partitions(
                down.subset_with_partition_keys([key]), down, up
            )
            return set(found.partitions_subset.get_partition_keys())


def assets(path: Path) -> dict[str, ModelAsset]:
    return {one.declaration.name: one for one in mirror_models(load_config(path), Names(None))}


CASES: list[tuple[Mapping[str, str], str, type[dg.PartitionMapping]]] = [
    # days beside days
    (P, "up.daily WHERE day = p", WINDOW),
    (LATE, "up.daily WHERE day BETWEEN DATE_SUB(p, 3) AND p", WINDOW),
    (P, "up.daily WHERE day BETWEEN DATE_SUB(p, 3) AND p", WINDOW),
    (P, "up.daily WHERE day > p - INTERVAL 1 WEEK AND day < p", WINDOW),
    (P, "up.daily WHERE day IN (p, DATE_ADD(p, 1), DATE_SUB(p, 1))", WINDOW),
    (P, "up.daily a JOIN up.daily b ON a.day = b.day + 1 WHERE a.day = p", WINDOW),
    ({**P, "q": "DATE_ADD(p, 2)\npartition_by: p"}, "up.daily WHERE day BETWEEN p AND q", WINDOW),
    (P, "up.daily WHERE day = p OR day = DATE_SUB(p, 5)", EVERYTHING),
    (P, "up.daily WHERE TRUNC(day, 'MM') = TRUNC(p, 'MM')", EVERYTHING),
    (P, f"up.daily WHERE day = p AND day > '{FIRST + timedelta(days=9)}'", EVERYTHING),
    (P, "up.daily WHERE n = 3", EVERYTHING),
    (P, f"up.daily WHERE day < '{FIRST + timedelta(days=2)}'", SOME),
    (P, "up.whole", EVERYTHING),
    (FIXED, "up.march WHERE day = p", WINDOW),
    (FIXED, "up.march WHERE day BETWEEN DATE_SUB(p, 2) AND p", WINDOW),
    ({"p": MONTHS}, "up.march WHERE day BETWEEN p AND LAST_DAY(p)", WINDOW),
    ({"p": MONTHS}, "up.march WHERE TRUNC(day, 'MM') = p", WINDOW),
    ({"p": MONTHS}, "up.march WHERE day BETWEEN p AND DATE_ADD(p, 29)", EVERYTHING),
    ({"p": MONTHS}, "up.march WHERE day = p", EVERYTHING),
    # lists beside lists
    ({"p": "[5, 6]"}, "up.weeks WHERE week = DATE_SUB('2024-03-16', p)", LIST),
    ({"p": WEEKS}, "up.weeks WHERE week BETWEEN DATE_SUB(p, 7) AND p", LIST),
    ({"w": "[1, 2]"}, "up.march WHERE MONTH(day) = w", EVERYTHING),
    (FIXED, "up.daily WHERE day = p", WINDOW),
    (P, "up.weeks WHERE week = p", EVERYTHING),
    # dimensions
    (STORES, "up.stores WHERE day = p AND shop = w", EACH),
    (STORES, "up.stores WHERE day BETWEEN DATE_SUB(p, 2) AND p AND shop = w", EACH),
    (STORES, "up.stores WHERE day = p", EACH),
    (STORES, "up.stores WHERE shop = w", EACH),
    (STORES, "up.stores WHERE day = p AND shop = IF(w = 'Rome', 'Paris', 'x')", EACH),
    (GRID, "up.grid WHERE day = DATE_SUB(p, 1) AND shop = w", EACH),
    (GRID, "up.grid WHERE day = p OR shop = w", EVERYTHING),
    (STORES, "up.daily WHERE day = p", ONE),
    (STORES, "up.daily WHERE day = DATE_SUB(p, 1)", EVERYTHING),
    (P, "up.stores WHERE day = p", ONE),
    (P, "up.stores WHERE day = p AND shop = 'Rome'", EVERYTHING),
    (GRID, "up.march WHERE day = p", ONE),
]  # fmt: skip


def test_the_web_server_sees_what_the_engine_says(contract: Path) -> None:
    """All in one project: to compile it and to build its assets is most of the work."""
    for name, (bindings, query) in ABOVE.items():
        write(contract, name, bindings, query)
    for number, (scopes, sql, _) in enumerate(CASES):
        write(contract, f"down/n{number}", scopes, f"SELECT 1 AS m FROM {sql}")
    look = Look(contract)
    for number, (_, sql, kind) in enumerate(CASES):
        found, exact = seen_as_said(look, f"down.n{number}")
        assert isinstance(found, kind), sql
        assert exact or kind is EVERYTHING, sql


class Look:
    """A project, as the engine compiles it and as the web server is sent it."""

    def __init__(self, path: Path) -> None:
        self.project, self.catalogue = compiled(path)
        self.sent, self.assets = Sent(path), assets(path)


def seen_as_said(look: Look, name: str) -> tuple[dg.PartitionMapping | None, bool]:
    """How the web server sees what a model reads; and whether that is what the engine says of
    each partition.

    Raises:
        AssertionError: it sees fewer partitions.
    """
    project, catalogue, sent = look.project, look.catalogue, look.sent
    below, model = look.assets[name], project.model(name)
    above = look.assets[model.reads[0]]
    mapping = sent.mapping(below.key, above.key)
    if above.partitions is None or below.partitions is None:
        return mapping, True
    read: dict[str, set[str]] = {}
    for scope in model.scopes:
        (found,) = inputs_of(project, catalogue, model, scope)
        assert isinstance(found, ModelInput)
        by_key = project.model(found.table).by_key
        keys = {above.key_of(by_key[key]) for key in found.keys}
        read.setdefault(below.key_of(scope), set()).update(keys)
    exact = True
    for key, keys in read.items():
        seen = sent.read(below.key, above.key, key)
        assert keys <= seen, (name, key)
        exact = exact and keys == seen
    return mapping, exact


EXPRESSIONS = [
    *("p", "p", "DATE_SUB(p, 1)", "DATE_ADD(p, 2)", "p - INTERVAL 1 WEEK", "TRUNC(p, 'MM')"),
    *("LAST_DAY(p)", "DATE '2024-02-29'", "IF(p > DATE '2024-03-01', p, DATE_SUB(p, 1))"),
    *("ADD_MONTHS(p, 1)", "DATE_SUB(LAST_DAY(p), 1)", "CURRENT"),
]
SHOPS = ["w", "w", "'Rome'", "IF(w = 'Rome', 'Paris', w)", "UPPER(w)"]
TABLES = {
    "up.daily": "day",
    "up.march": "day",
    "up.weeks": "week",
    "up.stores": "day",
    "up.grid": "day",
}


@st.composite
def queries(draw: st.DrawFn) -> tuple[Mapping[str, str], str]:
    """A scope, and what a model reads under it."""
    scopes = draw(
        st.sampled_from([P, FIXED, {"p": MONTHS}, {"p": WEEKS}, STORES, GRID,
            {"p": MARCH, "w": "[Rome, Paris]\npartition_by: p"},
            {"p": MARCH, "w": "[Rome, Paris]\npartition_by: w"},
            {"p": MARCH, "w": "[Rome, Paris]\nif: p > '2024-02-28' OR w = 'Rome'"}])
    )  # fmt: skip
    table = draw(st.sampled_from([*TABLES]))
    days = st.sampled_from([one.replace("CURRENT", f"DATE '{FIRST}'") for one in EXPRESSIONS])
    day, parts = TABLES[table], []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["=", "=", "<=", ">", "between", "shop"]))
        if kind == "between":
            parts.append(f"{day} BETWEEN {draw(days)} AND {draw(days)}")
        elif kind != "shop":
            parts.append(f"{day} {kind} {draw(days)}")
        elif table in ("up.stores", "up.grid"):
            shops = st.sampled_from(SHOPS if "w" in scopes else ["'Rome'", "'Paris'"])
            parts.append(f"shop {draw(st.sampled_from(['=', '=', '<>']))} {draw(shops)}")
    words = draw(st.sampled_from([" AND ", " AND ", " OR "])).join(parts)
    return scopes, f"{table} WHERE {words}" if words else table


def assert_random_models_are_seen_as_said(
    contract: Path, query: tuple[Mapping[str, str], str]
) -> None:
    for name, (bindings, text) in ABOVE.items():
        write(contract, name, bindings, text)
    write(contract, "down/one", query[0], f"SELECT 1 AS m FROM {query[1]}")
    mapping, exact = seen_as_said(Look(contract), "down.one")
    assert exact or mapping is None or isinstance(mapping, EVERYTHING)


TAKES = {"deadline": None, "suppress_health_check": [*HealthCheck]}


@settings(max_examples=15, **TAKES)
@given(query=queries())
@pytest.mark.full
def test_random_models_are_seen_as_said(
    contract: Path, query: tuple[Mapping[str, str], str]
) -> None:
    assert_random_models_are_seen_as_said(contract, query)


@pytest.mark.full
@settings(max_examples=300, **TAKES)
@given(query=queries())
def test_many_random_models_are_seen_as_said(
    contract: Path, query: tuple[Mapping[str, str], str]
) -> None:
    assert_random_models_are_seen_as_said(contract, query)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("DATE(sold_at) = p", WINDOW),
        ("sold_at >= DATE_SUB(p, 2) AND sold_at < DATE_ADD(p, 1)", WINDOW),
        ("packed = p", EVERYTHING),
        ("store = 'Rome'", EVERYTHING),
    ],
)
def test_days_of_a_mirrored_table_are_those_of_its_cursor(
    contract: Path, sql: str, kind: type[dg.PartitionMapping]
) -> None:
    write(contract, "down/one", P, f"SELECT 1 AS m FROM s_m.sales WHERE {sql}")
    project, catalogue = compiled(contract)
    sent, model = Sent(contract), project.model("down.one")
    key, above = dg.AssetKey(["down", "one"]), dg.AssetKey(["deduped", "s", "m", "sales"])
    assert isinstance(sent.mapping(key, above), kind)
    for scope in model.scopes if kind is WINDOW else ():
        (found,) = inputs_of(project, catalogue, model, scope)
        assert isinstance(found, MirrorInput)
        ((first, last),) = found.days
        assert first is not None
        assert last is not None
        days = {first + timedelta(days=n) for n in range((last - first).days + 1)}
        seen = sent.read(key, above, str(scope["p"]))
        assert {date.fromisoformat(one) for one in seen} == days


def test_until_models_are_compiled_again_a_changed_one_may_read_all(contract: Path) -> None:
    write(contract, "up/daily", *ABOVE["up/daily"])
    write(contract, "down/one", P, "SELECT 1 AS m FROM up.daily WHERE day = p")
    write(contract, "down/two", P, "SELECT m FROM down.one WHERE down.one.p = p")
    keys = [dg.AssetKey(["down", name]) for name in ("one", "two")]
    above = [dg.AssetKey(["up", "daily"]), keys[0]]

    def kinds() -> list[type]:
        sent = Sent(contract)
        return [type(sent.mapping(*pair)) for pair in zip(keys, above, strict=True)]

    write(contract, "down/two", {"q": GROWING}, "SELECT m FROM down.one WHERE p = q")
    assert kinds() == [EVERYTHING, EVERYTHING]
    compiled(contract)
    assert kinds() == [WINDOW, WINDOW]
    write(contract, "down/one", P, "SELECT 1 AS m FROM up.daily WHERE day <= p")
    assert kinds() == [EVERYTHING, EVERYTHING]
    compiled(contract)
    assert kinds() == [EVERYTHING, WINDOW]
