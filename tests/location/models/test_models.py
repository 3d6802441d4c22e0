"""SQL models as Dagster has them: assets whose partitions are their scopes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_representation.external_data import RepositorySnap
from dagster_shared.serdes import deserialize_value, serialize_value

from dagster_mirrorlake.build import build_definitions
from mirrorlake.config import load_config
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.location.contracts import write_contracts
from tests.location.partitions_tick import tick_partitions

TWO = """---
description: What each store sold
owner: data@example.com
for:
  sold_day: TIMESERIES('2024-02-28', '2024-03-02', 'P1D')
  shop: [Paris, Detroit]
---
SELECT product, SUM(amount) AS amount FROM s_m.sales
WHERE DATE(sold_at) = sold_day AND store = shop GROUP BY product
"""
ABOVE = """---
for: {until_day: "TIMESERIES('2024-02-29', '2024-03-02', 'P1D')"}
---
SELECT SUM(amount) AS amount FROM made.two
WHERE sold_day BETWEEN DATE_SUB(until_day, 1) AND until_day
"""
SALES = {"m": {"tables": {"sales": {"mode": "full", "key": ["id"]}}}}


def definitions(path: Path, models: Mapping[str, str]) -> dg.Definitions:
    for name, text in models.items():
        file = path.parent / "models" / f"{name}.sql"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return build_definitions(load_config(path))


def node(defs: dg.Definitions, key: str) -> Any:
    return defs.get_repository_def().asset_graph.get(dg.AssetKey(key.split("/")))


def test_a_model_is_an_asset_with_what_it_reads(contract_file: Callable[[Any], Path]) -> None:
    growing = TWO.replace("'2024-03-02'", "CURRENT_DATE").replace("  shop: [Paris, Detroit]\n", "")
    defs = definitions(
        contract_file(SALES),
        {
            "made/two": TWO,
            "made/above": ABOVE,
            "made/growing": growing.replace(" AND store = shop", ""),
            "made/all": "SELECT COUNT(*) AS n FROM S_M__clean.Sales",
        },
    )
    two, above = node(defs, "made/two"), node(defs, "made/above")
    assert {key.to_user_string() for key in two.parent_keys} == {"deduped/s/m/sales"}
    assert {key.to_user_string() for key in above.parent_keys} == {"made/two"}
    assert {key.to_user_string() for key in node(defs, "made/all").parent_keys} == {
        "clean/s/m/sales"
    }
    assert (two.group_name, two.owners) == ("made", ["data@example.com"])
    assert isinstance(two.partitions_def, dg.MultiPartitionsDefinition)
    assert sorted(str(key) for key in two.partitions_def.get_partition_keys()) == [
        f"{store}|2024-{day}"
        for store in ("Detroit", "Paris")
        for day in ("02-28", "02-29", "03-01")
    ]
    days = node(defs, "made/growing").partitions_def
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert isinstance(days, dg.DailyPartitionsDefinition)
    assert (days.get_first_partition_key(), days.get_last_partition_key()) == (
        "2024-02-28",
        yesterday.isoformat(),
    )
    # What the web server is sent says that a partition may read all of the others: a mapping of our
    # own would arrive as nothing, and as one partition that reads the one of its name.
    snapshot = RepositorySnap.from_def(defs.get_repository_def())
    sent = deserialize_value(serialize_value(snapshot), RepositorySnap)
    (found,) = [one for one in sent.asset_nodes if one.asset_key == above.key]
    (edge,) = found.parent_edges
    assert isinstance(edge.partition_mapping, dg.AllPartitionMapping)


def test_a_model_that_can_not_be_read_leaves_the_mirror_alone(
    contract_file: Callable[[Any], Path], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    hiding = {"s_m/sales": "SELECT 1 AS one"}
    broken = {"made/broken": "SELECT FROM", **hiding}
    defs = definitions(contract_file(SALES), {"made/two": TWO, **broken})
    keys = defs.get_repository_def().asset_graph.get_all_asset_keys()
    assert dg.AssetKey(["made", "two"]) in keys
    assert dg.AssetKey(["made", "broken"]) not in keys
    assert dg.AssetKey(["raw", "s", "m", "sales"]) in keys
    assert "made.broken was left out" in caplog.text
    # A table of the mirror stays what it is, whatever a file is called.
    assert dg.AssetKey(["s_m", "sales"]) not in keys
    assert "s_m.sales is a mirrored table" in caplog.text
    parents = {key.to_user_string() for key in node(defs, "made/two").parent_keys}
    assert parents == {"deduped/s/m/sales"}


@pytest.mark.alone
def test_a_run_computes_the_partitions_that_it_was_asked_for(
    server: MariaDB, tmp_path: Path
) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE m")
        cursor.execute(
            "CREATE TABLE m.sales (id INT PRIMARY KEY, sold_at DATETIME, store VARCHAR(9),"
            " product VARCHAR(9), amount INT)"
        )
        cursor.execute(
            "INSERT INTO m.sales VALUES (1, '2024-02-28 10:00', 'Paris', 'tea', 1),"
            " (2, '2024-02-29 10:00', 'Paris', 'tea', 2), (3, '2024-02-29', 'Detroit', 'tea', 4)"
        )
    path = write_contracts(tmp_path, server.port, SALES)
    defs = definitions(path, {"made/two": TWO, "made/above": ABOVE})
    with Workspace.open(load_config(path)) as workspace:
        sync_table(workspace, workspace.config.table("s.m.sales"))
    with dg.DagsterInstance.ephemeral() as instance:

        def run(key: str, first: str, last: str) -> dg.ExecuteInProcessResult:
            job = dg.define_asset_job("chosen", selection=[dg.AssetKey(key.split("/"))])
            return job.resolve(
                asset_graph=defs.get_repository_def().asset_graph
            ).execute_in_process(
                instance=instance,
                resources=dict(defs.resources or {}),
                tags={
                    "dagster/asset_partition_range_start": first,
                    "dagster/asset_partition_range_end": last,
                },
                raise_on_error=False,
            )

        reported: list[Any] = []

        def due(instance: dg.DagsterInstance = instance) -> tuple[str, list[tuple[str, str, str]]]:
            """What the sensor says, and the ranges of models that it requests."""
            context = dg.build_sensor_context(
                instance=instance,
                repository_def=defs.get_repository_def(),
                resources=dict(defs.resources or {}),
            )
            with context:
                data = defs.resolve_sensor_def("models").evaluate_tick(context)
            reported[:] = data.asset_events
            requests = data.run_requests or []
            if not requests:
                return data.skip_message or "", []
            tags = [one.tags for one in requests]
            return (
                "; ".join(str(one.run_key) for one in requests),
                [
                    (
                        tag["mirrorlake/model"],
                        tag["dagster/asset_partition_range_start"],
                        tag["dagster/asset_partition_range_end"],
                    )
                    for tag in tags
                ],
            )

        requested, ranges = due()
        work, _, ledger = requested.rsplit("-", 2)
        assert ranges == [("made.two", "Paris|2024-02-28", "Detroit|2024-03-01")]
        # Three runs of it that fail are enough; a person, or a change, begins again.
        for number in range(3):
            assert due()[0] == f"{work}-{number}-{ledger}"
            instance.add_run(
                dg.DagsterRun(
                    job_name="x",
                    tags={"mirrorlake/work": work},
                    status=dg.DagsterRunStatus.FAILURE,
                )
            )
        assert "made.two failed 3 times" in due()[0]
        early = run("made/above", "2024-02-29", "2024-03-01")
        assert not early.success
        failures = [e.event_specific_data for e in early.all_events if e.is_step_failure]
        assert "not computed yet" in str(failures)
        for store in ("Paris", "Detroit"):
            done = run("made/two", f"{store}|2024-02-28", f"{store}|2024-03-01")
            assert done.success
        assert due()[1] == [("made.above", "2024-02-29", "2024-03-01")]
        above = run("made/above", "2024-02-29", "2024-03-01")
        assert above.success
        assert due()[0] == "All partitions of 2 models are computed"
        assert reported == []
        # A second instance gets a report of each partition that it has no record of.
        with dg.DagsterInstance.ephemeral() as other:
            due(other)
            for one in reported:
                other.report_runless_asset_event(one)
            # What was wiped comes back by the look that reports what is in the lake.
            key = dg.AssetKey(["made", "two"])
            before = other.get_materialized_partitions(key)
            other.wipe_assets([key])
            again, _ = tick_partitions(other, defs, "", None)
            assert {one.asset_key for one in again if one.asset_key.path[0] == "made"} == {key}
            assert other.get_materialized_partitions(key) == before
        assert [(one.asset_key.to_user_string(), one.partition) for one in reported] == [
            *(("made/above", f"2024-{day}") for day in ("02-29", "03-01")),
            *(
                ("made/two", f"{store}|2024-{day}")
                for day in ("02-28", "02-29", "03-01")
                for store in ("Detroit", "Paris")
            ),
        ]
        rows = {one.partition: one.metadata["dagster/row_count"].value for one in reported}
        assert (rows["Paris|2024-02-28"], rows["Detroit|2024-02-28"]) == (1, 0)
        (made, other) = above.get_asset_materialization_events()
        figures = {k: v.value for k, v in made.materialization.metadata.items()}
        assert figures["partitions computed"] == 2
        assert figures["dagster/row_count"] == 1
        assert figures["columns are made of"]["amount"] == "s_m.sales.amount"
        lineage = made.materialization.metadata["dagster/column_lineage"].column_lineage
        two = dg.TableColumnDep(dg.AssetKey(["made", "two"]), "amount")
        assert lineage.deps_by_column == {"amount": [two]}
        assert {made.partition, other.partition} == {"2024-02-29", "2024-03-01"}
        again = run("made/above", "2024-02-29", "2024-03-01")
        (first, _) = again.get_asset_materialization_events()
        assert first.materialization.metadata["partitions that needed nothing"].value == 2
