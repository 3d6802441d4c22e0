"""Columns on the assets' pages: what MySQL says of them, the contract's rules, and whence they come."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake import build_definitions
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location
from tests.location.partitions_tick import tick_partitions

TODAY = datetime.now(UTC).date().isoformat()
SQL = [
    "CREATE DATABASE pages CHARACTER SET utf8mb4",
    "CREATE TABLE pages.people (id INT UNSIGNED PRIMARY KEY COMMENT 'Who', "
    "email VARCHAR(40) NOT NULL UNIQUE COMMENT 'As typed; may bounce', "
    "street VARCHAR(40) NOT NULL, born DATE NOT NULL, note TEXT, card VARCHAR(20), "
    "rank_ ENUM('a') NOT NULL, _file VARCHAR(9) COMMENT 'Whence', modified_at DATETIME(6) NOT NULL, KEY (modified_at)) COMMENT 'Everyone who ever wrote'",
    "INSERT INTO pages.people VALUES (1, 'a@example.com', 'x', '2000-01-01', NULL, '4', 'a', 'f', NOW())",
    "CREATE TABLE pages.pairs (a INT, b INT, word VARCHAR(9), PRIMARY KEY (a, b))",
    "INSERT INTO pages.pairs VALUES (1, 1, 'one')",
]
CONTRACTS: dict[str, Any] = {
    "pages": {
        "tables": {
            "people": {
                "mode": "incremental",
                "key": ["ID"],  # MySQL's names are one in any case
                "cursor": "modified_at",
                "clean": "table",
                "columns": {
                    "Email": {"pii": "mask"},
                    "street": {"pii": "drop"},
                    "born": {"pii": "null"},
                    "card": {"pci": "never"},
                    "_file": {"name_in_lake": "came_from", "pii": "show"},
                },
            },
            "pairs": {"mode": "full", "key": ["a", "b"]},
        }
    }
}
Pages = dict[str, dict[str, Any]]


def read_pages(server: MariaDB, location_for: Callable[[dict[str, Any]], Location]) -> Pages:
    """By asset, the metadata that it was last materialised, or observed, with."""
    with server.admin() as admin, admin.cursor() as cursor:
        for statement in SQL:
            cursor.execute(statement)
    config = location_for(CONTRACTS).config
    defs = build_definitions(config)
    job = defs.resolve_implicit_global_asset_job_def()
    found: Pages = {}
    with dg.DagsterInstance.ephemeral() as instance:
        for table in ("people", "pairs"):
            instance.add_dynamic_partitions("copies/s.pages.pairs", [TODAY])
            keys = [dg.AssetKey([x, "s", "pages", table]) for x in ("raw", "deduped", "clean")]
            job.execute_in_process(instance=instance, asset_selection=keys, partition_key=TODAY)
            source = dg.AssetKey(["mysql", "s", "pages", table])
            (told,) = instance.fetch_observations(source, limit=1).records
            found[source.to_user_string()] = dict(told.asset_observation.metadata)
            for key in keys:
                event = instance.get_latest_materialization_event(key)
                assert event is not None
                assert event.asset_materialization is not None
                found[key.to_user_string()] = dict(event.asset_materialization.metadata)
    graph = build_definitions(config).resolve_asset_graph()
    source = dg.AssetKey(["mysql", "s", "pages", "people"])
    with dg.DagsterInstance.ephemeral() as instance:
        events, _ = tick_partitions(instance, defs, "", None)
        for event in events:
            if event.asset_key.path[-1] == "people":
                found[f"sensor {event.asset_key.path[0]}"] = dict(event.metadata)
    found["definition"] = dict(graph.get(source).metadata)
    found["descriptions"] = {
        layer: graph.get(dg.AssetKey([layer, "s", "pages", "people"])).description
        for layer in ("mysql", "raw", "deduped", "clean")
    }
    return found


def columns(pages: Pages, asset: str) -> dict[str, dg.TableColumn]:
    schema = pages[asset]["dagster/column_schema"].schema
    return {column.name: column for column in schema.columns}


def origins(pages: Pages, asset: str) -> dict[str, set[str]]:
    lineage = pages[asset]["dagster/column_lineage"].lineage
    return {
        name: {f"{one.asset_key.path[0]}.{one.column_name}" for one in of}
        for name, of in lineage.deps_by_column.items()
    }


@pytest.mark.full
@pytest.mark.alone
def test_the_pages_tell_of_columns_and_where_they_come_from(
    server: MariaDB, location_for: Callable[[dict[str, Any]], Location]
) -> None:
    # No fixture: its Spark would start in the process that this test is to be alone of.
    pages = read_pages(server, location_for)
    the_source_is_told_in_its_own_words(pages)
    types_nulls_and_keys_are_the_lakes(pages)
    rules_are_tags_and_comments_are_descriptions(pages)
    each_column_comes_from_the_one_before(pages)
    what_the_sensor_reports_has_the_columns_too(pages)


def the_source_is_told_in_its_own_words(pages: Pages) -> None:
    source = columns(pages, "mysql/s/pages/people")
    for layer, text in pages["descriptions"].items():
        assert str(text).startswith("Everyone who ever wrote\n\n"), layer
    # Its page shows what the definition says, once the location is loaded again.
    assert (
        pages["definition"]["dagster/column_schema"]
        == pages["mysql/s/pages/people"]["dagster/column_schema"].schema
    )
    names = ["id", "email", "street", "born", "note", "card", "rank_", "_file", "modified_at"]
    assert list(source) == names
    assert source["id"].type == "int(10) unsigned"
    assert source["born"].type == "date"
    nullable = [name for name, one in source.items() if one.constraints.nullable]
    assert nullable == ["note", "card", "_file"]
    assert [name for name, one in source.items() if one.constraints.unique] == ["id", "email"]
    assert source["email"].description == "As typed; may bounce"
    assert source["card"].tags == {"pci": "never"}
    assert source["_file"].description == "Whence"


def types_nulls_and_keys_are_the_lakes(pages: Pages) -> None:
    raw = columns(pages, "raw/s/pages/people")
    deduped = columns(pages, "deduped/s/pages/people")
    clean = columns(pages, "clean/s/pages/people")
    assert raw["id"].type == deduped["id"].type == clean["id"].type == "long"
    assert raw["modified_at"].type == "timestamp"
    assert "card" not in raw
    # A tombstone has a key alone; a zero date is NULL, with its text beside it.
    told = [name for name, one in raw.items() if not one.constraints.nullable]
    ours = ["_mirror_load", "_mirror_seq", "_mirror_loaded_at", "_mirror_deleted", "_mirror_day"]
    assert told == ["id", *ours]
    told = [name for name, one in deduped.items() if not one.constraints.nullable]
    assert told == ["id", "email", "street", "rank_"]
    told = [name for name, one in clean.items() if not one.constraints.nullable]
    assert told == ["id", "email", "rank_"]
    unique = {
        asset: [name for name, one in columns(pages, asset).items() if one.constraints.unique]
        for asset in pages
        if "/" in asset and not asset.startswith("sensor")
    }
    assert unique["raw/s/pages/people"] == []
    assert unique["deduped/s/pages/people"] == unique["clean/s/pages/people"] == ["id"]
    assert unique["deduped/s/pages/pairs"] == []
    whole = pages["deduped/s/pages/pairs"]["dagster/column_schema"].schema.constraints
    assert whole.other == ["key (a, b)"]
    assert not pages["raw/s/pages/pairs"]["dagster/column_schema"].schema.constraints.other
    pairs = columns(pages, "raw/s/pages/pairs")
    assert not pairs["a"].constraints.nullable
    assert pairs["word"].constraints.nullable


def rules_are_tags_and_comments_are_descriptions(pages: Pages) -> None:
    clean = columns(pages, "clean/s/pages/people")
    assert "street" not in clean
    assert {name: dict(one.tags) for name, one in clean.items() if one.tags} == {
        "email": {"pii": "mask"},
        "born": {"pii": "null"},
        "came_from": {"pii": "show"},
    }
    assert clean["id"].description == "Who"
    masked = "As typed; may bounce; masked but for the last two characters"
    assert clean["email"].description == masked
    assert columns(pages, "deduped/s/pages/people")["email"].description == "As typed; may bounce"
    raw = columns(pages, "raw/s/pages/people")
    assert raw["street"].tags == {"pii": "drop"}
    assert all(one.description for name, one in raw.items() if name.startswith("_mirror_"))


def each_column_comes_from_the_one_before(pages: Pages) -> None:
    plain = ["id", "email", "street", "born", "note", "rank_", "modified_at"]
    raw = origins(pages, "raw/s/pages/people")
    assert raw == {
        **{name: {f"mysql.{name}"} for name in plain},
        "came_from": {"mysql._file"},
        "_mirror_original": {"mysql.born", "mysql.rank_", "mysql.modified_at"},
    }
    deduped = origins(pages, "deduped/s/pages/people")
    of_lake = (*plain, "came_from", "_mirror_original")
    assert deduped == {name: {f"raw.{name}"} for name in of_lake}
    shown = [name for name in of_lake if name != "street"]
    clean = origins(pages, "clean/s/pages/people")
    assert clean == {name: {f"deduped.{name}"} for name in shown}
    assert origins(pages, "clean/s/pages/pairs")["word"] == {"deduped.word"}


def what_the_sensor_reports_has_the_columns_too(pages: Pages) -> None:
    """Its event is the newest then, and an asset's page shows the newest event's columns."""
    for layer in ("raw", "deduped", "clean"):
        reported, made = pages[f"sensor {layer}"], pages[f"{layer}/s/pages/people"]
        for name in ("dagster/column_schema", "dagster/column_lineage"):
            assert reported[name] == made[name]
