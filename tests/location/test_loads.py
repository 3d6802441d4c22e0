"""The code location as the server loads it: no server, no lake, no JVM."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterUserCodeProcessError

from dagster_mirrorlake.location import build_definitions, load_definitions
from dagster_mirrorlake.resources.contracts import read_config
from definitions import load
from mirrorlake.config import load_config
from tests.location.conftest import ROOT
from tests.location.contracts import SMALL

Write = Callable[[Any], Path]

TABLES = ("kinds", "log", "orders")
# key → (depends on, partitioned, group, pool): the location of `SMALL`, whole.
SNAPSHOT = {
    f"{layer}/s/shop/{table}": (
        f"{upstream}/s/shop/{table}" if upstream else None,
        bool(upstream),
        f"s_shop__{layer}",
        "mysql_s" if layer == "raw" else None,
    )
    for table in TABLES
    for upstream, layer in (
        (None, "mysql"),
        ("mysql", "raw"),
        ("raw", "deduped"),
        ("deduped", "clean"),
    )
}
CHECKS = {
    *(f"{layer}/s/shop/{table}:contract" for layer in ("deduped", "clean") for table in TABLES),
    *(f"raw/s/shop/{table}:{name}" for table in TABLES for name in ("gaps", "intact", "originals")),
    *(
        f"deduped/s/shop/{table}:{name}"
        for table in TABLES
        for name in ("row_count", "exact_match")
    ),
    *(
        f"clean/s/shop/{table}:{name}"
        for table in TABLES
        for name in ("matches_deduped", "no_pii", "suspected_pii")
    ),
    # What is said of each day has a series of its own; of copies there are no days.
    "raw/s/shop/orders:gaps_by_day",
    "deduped/s/shop/orders:row_count_by_day",
    "deduped/s/shop/orders:exact_match_by_day",
    "deduped/s/shop/orders:unique_key",
    "deduped/s/shop/kinds:unique_key",
}


def test_the_location_is_this(contract_file: Write) -> None:
    defs = load_definitions(contract_file(SMALL))
    dg.Definitions.validate_loadable(defs)
    graph = defs.resolve_asset_graph()
    seen = {}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        parents = [p.to_user_string() for p in node.parent_keys]
        pools = list(node.pools or [])
        seen[key.to_user_string()] = (
            parents[0] if parents else None,
            node.partitions_def is not None,
            node.group_name,
            pools[0] if pools else None,
        )
    alone = (None, False, "mirrorlake", None)
    assert seen == {**SNAPSHOT, "cleanup/s": alone, "maintenance": alone, "report": alone}
    assert {f"{k.asset_key.to_user_string()}:{k.name}" for k in graph.asset_check_keys} == CHECKS
    repository = defs.get_repository_def()
    assert {s.name for s in repository.sensor_defs} == {
        *("moved_s", "unfolded", "failed_runs", "partitions"),
    }
    assert [(s.name, s.cron_schedule) for s in repository.schedule_defs] == [
        ("cleanup", "30 3 * * *"),
        ("daily", "0 4-23 * * *"),
        ("maintenance", "30 2 * * *"),
        ("proofs", "15 */2 * * *"),
    ]


def test_the_deployments_example_is_there_with_its_table(contract_file: Write) -> None:
    table = {"mode": "append", "key": ["flight"], "cursor": "time_hour"}
    path = contract_file({"nyc": {"tables": {"flights": table}}})
    path.write_text(path.read_text().replace("\n  s:\n", "\n  nyc:\n"))
    graph = load(path).resolve_asset_graph()
    node = graph.get(dg.AssetKey(["reports", "flights_per_airport"]))
    assert node.parent_keys == {dg.AssetKey(["clean", "nyc", "nyc", "flights"])}
    read_config.cache_clear()
    assert not load(contract_file(SMALL)).resolve_asset_graph().has(node.key)


def test_one_run_per_backfill_and_the_open_day_is_a_partition(contract_file: Write) -> None:
    graph = load_definitions(contract_file(SMALL)).resolve_asset_graph()
    node = graph.get(dg.AssetKey(["raw", "s", "shop", "orders"]))
    assert node.backfill_policy == dg.BackfillPolicy.single_run()
    days = node.partitions_def
    assert isinstance(days, dg.DailyPartitionsDefinition)
    assert days.get_last_partition_key() == time.strftime("%Y-%m-%d", time.gmtime())


def test_the_pages_say_what_the_contract_says(contract_file: Write) -> None:
    node = (
        load_definitions(contract_file(SMALL))
        .resolve_asset_graph()
        .get(dg.AssetKey(["clean", "s", "shop", "orders"]))
    )
    assert node.metadata["dagster/table_name"] == "s_shop__clean.orders"
    assert (node.metadata["mode"], node.metadata["cursor"]) == ("incremental", "modified_at")
    assert set(node.kinds) == {"iceberg", "spark"}
    assert node.tags["mirrorlake/source"] == "s"


def test_only_counts_gaps_and_proofs_do_not_block(contract_file: Write) -> None:
    defs = load_definitions(contract_file(SMALL))
    specs = [spec for check in defs.asset_checks or [] for spec in check.check_specs]
    told = {"exact_match", "gaps", "intact", "matches_deduped", "originals", "row_count"}
    told |= {"suspected_pii"}
    told |= {f"{name}_by_day" for name in ("exact_match", "gaps", "row_count")}
    assert {spec.name for spec in specs if not spec.blocking} == told


def test_every_check_and_trigger_is_documented(contract_file: Write) -> None:
    pages = ("checks", "checks-exact", "checks-contract", "triggers")
    page = "\n".join((ROOT / "docs" / f"{name}.md").read_text("utf-8") for name in pages)
    assert set(re.findall(r"^## `(\w+)`$", page, re.MULTILINE)) == {
        name.rpartition(":")[2] for name in CHECKS
    }
    repository = load_definitions(contract_file(SMALL)).get_repository_def()
    for trigger in (*repository.sensor_defs, *repository.schedule_defs):
        shown = "moved_<source>" if trigger.name == "moved_s" else trigger.name
        assert f"`{shown}`" in page, shown


def test_freshness_and_owners_are_the_contracts(contract_file: Write) -> None:
    graph = load_definitions(contract_file(SMALL)).resolve_asset_graph()
    clean = graph.get(dg.AssetKey(["clean", "s", "shop", "orders"]))
    hour = timedelta(hours=1)
    assert clean.freshness_policy == dg.FreshnessPolicy.time_window(2 * hour, hour)
    assert graph.get(dg.AssetKey(["clean", "s", "shop", "log"])).freshness_policy is None
    assert list(clean.owners) == ["team:shop"]


def test_loading_imports_no_part_of_the_engine_that_reads(contract_file: Write) -> None:
    """Seconds, at every start of every run."""
    script = "import sys, definitions; print([m for m in sys.modules if m in sys.argv[1:]])"
    heavy = [
        "pyarrow",
        "pyiceberg",
        "pandas",
        "pandera",
        "connectorx",
        "mirrorlake.operations.loading.sync",
        "mirrorlake.workspace",
    ]
    ended = subprocess.run(
        [sys.executable, "-c", script, *heavy],
        cwd=ROOT,
        env={**os.environ, "MIRRORLAKE_CONFIG": str(contract_file(SMALL))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == "[]"


def test_a_missing_file_is_an_empty_location_that_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        defs = load_definitions(tmp_path / "none.yaml")
    dg.Definitions.validate_loadable(defs)
    assert not list(defs.resolve_asset_graph().get_all_asset_keys())
    assert "There is no contract file" in caplog.text


def test_a_config_error_is_shown_without_a_stack(contract_file: Write) -> None:
    path = contract_file("version: 1\nsources: {s: {hosst: a}}\n")
    with pytest.raises(DagsterUserCodeProcessError) as raised:
        load_definitions(path)
    (shown,) = raised.value.user_code_process_error_infos
    assert "did you mean 'host'" in shown.message
    assert not shown.stack


@pytest.mark.full
def test_the_server_loads_the_workspace(contract_file: Write, tmp_path: Path) -> None:
    """From another folder, by workspace.yaml, in a process of its own: good, then with an error."""
    path = contract_file(SMALL)
    assert "Validation successful" in validate(path, tmp_path)
    path.write_text(path.read_text().replace("mode: full", "mode: fool"))
    shown = validate(path, tmp_path)
    assert "fool" in shown
    assert "Stack Trace" not in shown


def validate(path: Path, home: Path) -> str:
    (home / "dagster.yaml").write_text((ROOT / "dagster.yaml").read_text())
    dagster = Path(sys.executable).parent / "dagster"
    ended = subprocess.run(
        [dagster, "definitions", "validate", "-w", ROOT / "workspace.yaml"],
        cwd=home,
        env={**os.environ, "MIRRORLAKE_CONFIG": str(path), "DAGSTER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout + ended.stderr


def test_resources_can_be_replaced(contract_file: Write) -> None:
    path = contract_file(SMALL)
    mine = dg.ResourceDefinition.hardcoded_resource("mine")
    defs = build_definitions(load_config(path), {"mirrorlake": mine})
    assert (defs.resources or {})["mirrorlake"] is mine
    dg.Definitions.validate_loadable(defs)


@pytest.mark.full
def test_five_hundred_tables_load_soon(contract_file: Write) -> None:
    """Not a benchmark: the bound is ten times the CPU time that it should take."""
    table = {"mode": "full", "key": ["id"]}
    path = contract_file({"shop": {"tables": {f"t{n}": table for n in range(500)}}})
    started = time.process_time()
    dg.Definitions.validate_loadable(load_definitions(path))
    assert time.process_time() - started < 40
