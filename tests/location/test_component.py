"""`MirrorlakeComponent` in a project's defs folder, as Dagster loads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.testing import create_defs_folder_sandbox

from dagster_mirrorlake import MirrorlakeComponent
from dagster_mirrorlake.executor import threads_executor
from mirrorlake.config import load_config
from tests.location.contracts import SMALL

Write = Callable[[Any], Path]
ROOT = Path(__file__).parents[2]
TYPE = "dagster_mirrorlake.MirrorlakeComponent"


def load(
    contracts: Path, *attributes: dict[str, Any], also: dict[str, str] | None = None
) -> dg.Definitions:
    """A project with one component for each of these attributes, each in a folder of its own with
    a copy of the contract file, and other modules of its defs by their names."""
    with create_defs_folder_sandbox() as sandbox:
        for number, chosen in enumerate(attributes):
            folder = sandbox.defs_folder_path / f"mirror{number}"
            folder.mkdir(parents=True)
            shutil.copy(contracts, folder / "mirrorlake.yaml")
            said = {"type": TYPE, "attributes": chosen}
            (folder / "defs.yaml").write_text(yaml.safe_dump(said))
        for name, text in (also or {}).items():
            (sandbox.defs_folder_path / name).write_text(text)
        with sandbox.build_all_defs() as defs:
            dg.Definitions.validate_loadable(defs)
            return defs


@contextmanager
def refused(words: str) -> Iterator[None]:
    """Dagster says first where in the project, then why."""
    with pytest.raises(Exception) as raised:
        yield
    error: BaseException | None = raised.value
    said = []
    while error is not None:
        said.append(str(error))
        error = error.__cause__ or error.__context__
    assert any(words in one for one in said), said


def keys(defs: dg.Definitions) -> set[str]:
    return {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}


def names(defs: dg.Definitions) -> list[str]:
    repository = defs.get_repository_def()
    return sorted(t.name for t in (*repository.sensor_defs, *repository.schedule_defs))


def test_a_component_is_the_whole_of_its_contract_file(contract_file: Write) -> None:
    defs = load(contract_file(SMALL), {})
    assert {"mysql/s/shop/orders", "clean/s/shop/orders", "cleanup/s", "maintenance"} <= keys(defs)
    assert names(defs) == [
        *(
            "cleanup",
            "daily",
            "failed_runs",
            "maintenance",
            "moved_s",
            "partitions",
            "proofs",
            "unfolded",
        )
    ]
    repository = defs.get_repository_def()
    moved = repository.get_sensor_def("moved_s")
    assert moved.default_status == dg.DefaultSensorStatus.STOPPED
    checks = {key.name for key in defs.resolve_asset_graph().asset_check_keys}
    assert {"row_count", "exact_match", "no_pii"} <= checks


def test_the_projects_executor_is_left_alone_unless_asked(contract_file: Write) -> None:
    path = contract_file(SMALL)
    assert load(path, {}).executor is None
    asked = load(path, {"in_process": True})
    assert asked.executor is threads_executor


def test_sensors_and_schedules_run_where_it_says_so(contract_file: Write) -> None:
    repository = load(contract_file(SMALL), {"sensors_running": True}).get_repository_def()
    assert repository.get_sensor_def("moved_s").default_status == dg.DefaultSensorStatus.RUNNING
    assert repository.get_schedule_def("daily").default_status == dg.DefaultScheduleStatus.RUNNING


def test_two_mirrors_of_one_project_share_nothing(contract_file: Write) -> None:
    """Two contract files whose servers even have one name."""
    defs = load(
        contract_file(SMALL),
        {"name": "crm", "translation": {"key_prefix": "crm"}, "in_process": True},
        {"name": "erp", "translation": {"key_prefix": "erp"}, "in_process": True},
    )
    found = keys(defs)
    for mirror in ("crm", "erp"):
        assert {
            f"{mirror}/raw/s/shop/orders",
            f"cleanup/{mirror}/s",
            f"maintenance/{mirror}",
        } <= found
    triggers = (
        "cleanup",
        "daily",
        "failed_runs",
        "maintenance",
        "moved_s",
        "partitions",
        "proofs",
        "unfolded",
    )
    assert names(defs) == sorted(f"{m}_{t}" for m in ("crm", "erp") for t in triggers)
    parts = ("mirrorlake", "mysql", "lake", "ledger", "spark")
    resources = defs.resources or {}
    assert {f"{m}_{p}" for m in ("crm", "erp") for p in parts} <= set(resources)
    assert not set(parts) & set(resources)
    paths = {m: Path(resources[f"{m}_ledger"].config_path).parent.name for m in ("crm", "erp")}
    assert paths == {"crm": "mirror0", "erp": "mirror1"}
    graph = defs.resolve_asset_graph()
    kinds = {m: graph.get(dg.AssetKey([m, "raw", "s", "shop", "kinds"])) for m in ("crm", "erp")}
    assert {m: node.partitions_def.name for m, node in kinds.items()} == {
        "crm": "crm/copies/s.shop.kinds",
        "erp": "erp/copies/s.shop.kinds",
    }
    assert {m: list(node.pools) for m, node in kinds.items()} == {
        "crm": ["crm_mysql_s"],
        "erp": ["erp_mysql_s"],
    }
    for mirror in ("crm", "erp"):
        asked = set(defs.resolve_sensor_def(f"{mirror}_unfolded").required_resource_keys)
        assert asked == {f"{mirror}_lake", f"{mirror}_ledger"}


def test_two_mirrors_without_names_are_refused(contract_file: Write) -> None:
    with refused("same key 'mirrorlake'"):
        load(
            contract_file(SMALL),
            {"translation": {"key_prefix": "crm"}},
            {"translation": {"key_prefix": "erp"}},
        )


def test_a_name_that_dagster_does_not_take_is_refused(contract_file: Write) -> None:
    with refused("letters, digits and _"):
        load(contract_file(SMALL), {"name": "our-crm"})


def test_yaml_translates_every_asset(contract_file: Write) -> None:
    defs = load(
        contract_file(SMALL),
        {
            "translation": {
                "key": "lake/{{ layer }}/{{ table }}",
                "group_name": "of_{{ database }}",
                "tags": {"team": "{{ source }}"},
                "owners": ["team:data"],
                "kinds": ["snowflake"],
                "automation_condition": "{{ automation_condition.eager() }}",
            }
        },
    )
    graph = defs.resolve_asset_graph()
    node = graph.get(dg.AssetKey(["lake", "deduped", "orders"]))
    assert {p.to_user_string() for p in node.parent_keys} == {"lake/raw/orders"}
    assert (node.group_name, node.owners) == ("of_shop", ["team:data"])
    assert node.tags["team"] == "s"
    assert node.tags["mirrorlake/layer"] == "deduped"
    assert node.kinds == {"snowflake"}
    assert node.automation_condition == dg.AutomationCondition.eager()
    # Not our keys somewhere and the project's elsewhere: checks and sensors have the same.
    assert {k.asset_key.path[0] for k in graph.asset_check_keys} == {"lake"}
    moved = defs.resolve_sensor_def("moved_s")
    assert moved.asset_selection is not None
    assert dg.AssetKey(["lake", "raw", "orders"]) in moved.asset_selection.resolve(graph)


def test_a_subclass_translates_in_python(contract_file: Write) -> None:
    module = """
import dagster as dg
from dagster_mirrorlake import MirrorlakeComponent

class Ours(MirrorlakeComponent):
    def get_asset_spec(self, data):
        spec = super().get_asset_spec(data)
        return spec.replace_attributes(group_name=f"{data.layer}_group")
"""
    path = contract_file(SMALL)
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "mirror"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
        (sandbox.defs_folder_path / "ours.py").write_text(module)
        said = {
            "type": f"{sandbox.project_name}.defs.ours.Ours",
            "attributes": {"translation": {"tags": {"of": "{{ spec.group_name }}"}}},
        }
        (folder / "defs.yaml").write_text(yaml.safe_dump(said))
        with sandbox.build_all_defs() as defs:
            node = defs.resolve_asset_graph().get(dg.AssetKey(["raw", "s", "shop", "orders"]))
            assert (node.group_name, node.tags["of"]) == ("raw_group", "raw_group")


@pytest.mark.parametrize(
    ("tables", "left"),
    [
        ({"include": ["orders"]}, {"orders"}),
        ({"include": ["shop.*"], "exclude": ["s.shop.k*"]}, {"orders", "log"}),
        ({"exclude": ["log"]}, {"orders", "kinds"}),
    ],
)
def test_patterns_choose_tables(
    contract_file: Write, tables: dict[str, Any], left: set[str]
) -> None:
    defs = load(contract_file(SMALL), {"tables": tables})
    found = {key.split("/")[-1] for key in keys(defs) if key.startswith("raw/")}
    assert found == left


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"include": ["oders"]}, "'oders' fits no table"),
        ({"exclude": ["*"]}, "leave no table"),
    ],
)
def test_patterns_that_fit_nothing_are_refused(
    contract_file: Write, tables: dict[str, Any], words: str
) -> None:
    with refused(words):
        load(contract_file(SMALL), {"tables": tables})


def test_a_contract_file_that_is_not_there_is_named(contract_file: Write) -> None:
    with refused("elsewhere.yaml"):
        load(contract_file(SMALL), {"config": "elsewhere.yaml"})


def test_scaffolding_writes_what_loads() -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.scaffold_component(MirrorlakeComponent, "our-mirror")
        said = yaml.safe_load((folder / "defs.yaml").read_text())
        assert said["attributes"] == {
            "config": "mirrorlake.yaml",
            "name": "our_mirror",
            "in_process": True,
        }
        config = load_config(folder / "mirrorlake.yaml")
        home = sandbox.project_root.resolve() / ".mirrorlake" / "our_mirror"
        assert Path(config.lake.warehouse).resolve() == home / "lake"
        assert config.ledger.url.endswith("our_mirror/ledger.db")
        with sandbox.build_all_defs() as defs:
            dg.Definitions.validate_loadable(defs)
            assert keys(defs) == set()
        written = (folder / "mirrorlake.yaml").read_text()
        # What is commented out is right too.
        told = written.replace("{} # in place of {}:", "").replace("      # ", "      ")
        told = told.replace("    # password: ${env:SHOP_PASSWORD}\n", "")
        (folder / "mirrorlake.yaml").write_text(told)
        assert [t.name for t in load_config(folder / "mirrorlake.yaml").tables] == [
            "shop.shop.orders"
        ]


def test_scaffolding_keeps_a_contract_file_that_is_there(contract_file: Write) -> None:
    path = contract_file(SMALL)
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "m"
        folder.mkdir(parents=True)
        shutil.copy(path, folder)
        sandbox.scaffold_component(MirrorlakeComponent, "m")
        assert (folder / "mirrorlake.yaml").read_text() == path.read_text()


def test_the_example_loads_but_for_dlts_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """With dlt, which no lock of ours has: `test_installed`."""
    monkeypatch.setenv("SHOP_PASSWORD", "a-password")
    example = ROOT / "examples" / "beside_dlt" / "src" / "shop" / "defs"
    with create_defs_folder_sandbox() as sandbox:
        shutil.copytree(example / "mirror", sandbox.defs_folder_path / "mirror")
        shutil.copy(example / "revenue.py", sandbox.defs_folder_path)
        with sandbox.build_all_defs() as defs:
            dg.Definitions.validate_loadable(defs)
            graph = defs.resolve_asset_graph()
    parents = graph.get(dg.AssetKey("revenue")).parent_keys
    orders = dg.AssetKey(["clean", "shop", "shop", "orders"])
    assert orders in parents
    assert graph.get(orders).group_name == "shop_clean"
    assert not [key for key in graph.get_all_asset_keys() if "tmp_import" in key.path]
