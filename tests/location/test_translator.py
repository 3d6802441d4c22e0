"""A translator of one's own: what it changes holds wherever Dagster is told of the asset."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake import LayerData, MirrorlakeTranslator, build_definitions
from dagster_mirrorlake.table import mirrored_tables
from mirrorlake.config import load_config
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location
from tests.location.contracts import SMALL

Write = Callable[[Any], Path]
MONTHS = dg.MonthlyPartitionsDefinition("2024-01-01", end_offset=1)
TODAY = datetime.now(UTC).date()


class Ours(MirrorlakeTranslator):
    """Everything is another."""

    def get_asset_spec(self, data: LayerData) -> dg.AssetSpec:
        spec = super().get_asset_spec(data)
        return spec.replace_attributes(
            group_name=f"{data.layer}_of_{data.contract.database}",
            tags={"tier": "gold"},
            owners=["team:ours"],
            kinds={"duckdb"},
            automation_condition=dg.AutomationCondition.eager(),
            metadata={**spec.metadata, "ours": data.contract.mode},
        )

    def get_asset_key(self, data: LayerData) -> dg.AssetKey:
        return dg.AssetKey(["lake", data.contract.table, data.layer])


class Monthly(MirrorlakeTranslator):
    """One table has other partitions."""

    def get_partitions_def(self, data: LayerData) -> dg.PartitionsDefinition:
        return MONTHS if data.contract.table == "orders" else super().get_partitions_def(data)


@pytest.fixture
def translated(contract_file: Write) -> dg.Definitions:
    return build_definitions(load_config(contract_file(SMALL)), translator=Ours())


CHANGED: dict[str, Callable[[Any], bool]] = {
    "group": lambda node: node.group_name == "deduped_of_shop",
    "tags": lambda node: node.tags == {"tier": "gold", "dagster/kind/duckdb": ""},
    "owners": lambda node: list(node.owners) == ["team:ours"],
    "kinds": lambda node: node.kinds == {"duckdb"},
    "automation": lambda node: node.automation_condition == dg.AutomationCondition.eager(),
    "metadata": lambda node: node.metadata["ours"] == "incremental",
    "parents": lambda node: node.parent_keys == {dg.AssetKey(["lake", "orders", "raw"])},
}


@pytest.mark.parametrize("attribute", CHANGED)
def test_an_attribute_is_the_translators(translated: dg.Definitions, attribute: str) -> None:
    node = translated.resolve_asset_graph().get(dg.AssetKey(["lake", "orders", "deduped"]))
    assert CHANGED[attribute](node)


def test_no_key_is_ours_anywhere(translated: dg.Definitions) -> None:
    """Of assets, checks, sensors and steps."""
    graph = translated.resolve_asset_graph()
    chores = {"cleanup", "maintenance", "report"}
    assert {key.path[0] for key in graph.get_all_asset_keys()} == {"lake", *chores}
    assert {key.asset_key.path[0] for key in graph.asset_check_keys} == {"lake"}
    for name in ("moved_s", "unfolded"):
        chosen = translated.resolve_sensor_def(name).asset_selection
        assert chosen is not None
        assert {key.path[0] for key in chosen.resolve(graph)} == {"lake"}
    steps = translated.resolve_implicit_global_asset_job_def().graph.node_dict
    assert {name.split("__")[0] for name in steps} == {"lake", *chores}


def test_one_table_can_have_partitions_of_its_own(contract_file: Write) -> None:
    config = load_config(contract_file(SMALL))
    graph = build_definitions(config, translator=Monthly()).resolve_asset_graph()

    def partitions(layer: str, table: str) -> object:
        return graph.get(dg.AssetKey([layer, "s", "shop", table])).partitions_def

    assert {partitions(layer, "orders") for layer in ("raw", "deduped", "clean")} == {MONTHS}
    # The engine then groups the table's days by month everywhere.
    (table,) = mirrored_tables([config.table("orders")], Monthly())
    assert table.contract.partition == "month"
    assert not table.has_days
    assert isinstance(partitions("raw", "kinds"), dg.DynamicPartitionsDefinition)
    assert partitions("mysql", "orders") is None


class Given(MirrorlakeTranslator):
    """Partitions of somebody's own, for some layers."""

    def __init__(self, partitions: dg.PartitionsDefinition, *layers: str) -> None:
        self.partitions, self.layers = partitions, layers

    def get_partitions_def(self, data: LayerData) -> dg.PartitionsDefinition:
        own = data.layer in self.layers
        return self.partitions if own else super().get_partitions_def(data)


FOREIGN = {
    "another zone": dg.DailyPartitionsDefinition("2024-01-01", timezone="America/New_York"),
    "weeks": dg.WeeklyPartitionsDefinition("2024-01-01"),
    "from three o'clock": dg.DailyPartitionsDefinition("2024-01-01", hour_offset=3),
    "static": dg.StaticPartitionsDefinition(["a"]),
}


@pytest.mark.parametrize("which", FOREIGN)
def test_partitions_that_the_ledger_can_not_tell_are_refused(
    contract_file: Write, which: str
) -> None:
    """Rows would be shown on another partition than theirs."""
    config = load_config(contract_file(SMALL))
    given = Given(FOREIGN[which], "raw", "deduped", "clean")
    with pytest.raises(ConfigError, match="can't be told from the ledger") as refused:
        build_definitions(config, translator=given)
    assert "s.shop.kinds" in str(refused.value)
    assert "Give it" in str(refused.value)


def test_layers_of_one_table_share_their_partitions(contract_file: Write) -> None:
    config = load_config(contract_file(SMALL))
    with pytest.raises(ConfigError, match="Give all layers the same"):
        build_definitions(config, translator=Given(FOREIGN["static"], "clean"))


@pytest.fixture(scope="module")
def location(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Location:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE translated")
        cursor.execute("USE translated")  # what seq_1_to_20 is looked for in
        cursor.execute("CREATE TABLE translated.t (id INT PRIMARY KEY, at DATETIME NOT NULL)")
        cursor.execute("INSERT INTO translated.t SELECT seq, UTC_TIMESTAMP() FROM seq_1_to_20")
    table = {"mode": "append", "key": ["id"], "cursor": "id"}
    return location_for({"translated": {"tables": {"t": table}}})


@pytest.mark.full
@pytest.mark.alone
def test_a_run_reports_on_the_changed_keys(location: Location) -> None:
    """As the sensor of a mirror with a name requests it: the tick, the steps, and the checks."""
    defs = build_definitions(location.config, translator=Ours(), name="crm")
    chain = [dg.AssetKey(["lake", "t", layer]) for layer in ("raw", "deduped", "clean")]
    with dg.DagsterInstance.ephemeral() as instance:
        sensor = defs.resolve_sensor_def("crm_moved_s")
        context = dg.build_sensor_context(
            instance=instance,
            repository_def=defs.get_repository_def(),
            resources=dict(defs.resources or {}),
        )
        with context:
            tick = sensor.evaluate_tick(context)
        (request,) = tick.run_requests or []
        assert request.asset_selection == chain
        assert request.tags["mirrorlake/source"] == "crm_s"
        assert [e.asset_key for e in tick.asset_events] == [dg.AssetKey(["lake", "t", "source"])]
        result = defs.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=list(request.asset_selection or []),
            tags=request.tags,
        )
    assert [e.asset_key for e in result.get_asset_materialization_events()] == chain
    seen = {e.asset_key for e in result.get_asset_check_evaluations()}
    assert seen == set(chain)
    chain_checks = set(request.asset_check_keys or ())
    found = [e for e in result.get_asset_check_evaluations() if e.asset_check_key in chain_checks]
    assert found
    assert all(e.passed for e in found)
    rows = result.asset_materializations_for_node("lake__t__clean")[0].metadata
    assert rows["dagster/row_count"].value == 20
    (raw,) = result.asset_materializations_for_node("lake__t__raw")
    assert raw.partition == TODAY.isoformat()
