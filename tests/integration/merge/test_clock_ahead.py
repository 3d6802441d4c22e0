"""Spark can still write a table that was last written by a machine whose clock was ahead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.table.metadata import TableMetadata

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.workspace import Workspace

HOURS = 5 * 3_600_000
"""Milliseconds."""
TABLES: dict[str, Any] = {
    "counted": {"mode": "append", "cursor": "at"},
    "keyed": {"mode": "incremental", "key": ["id"], "cursor": "at", "clean": "table"},
}


def later(metadata: TableMetadata) -> TableMetadata:
    """The same as a clock that is ahead would have written it."""

    def moved(one: Any) -> Any:
        return one.model_copy(update={"timestamp_ms": one.timestamp_ms + HOURS})

    return metadata.model_copy(
        update={
            "last_updated_ms": metadata.last_updated_ms + HOURS,
            "snapshots": [moved(one) for one in metadata.snapshots],
            "snapshot_log": [moved(one) for one in metadata.snapshot_log],
            "metadata_log": [moved(one) for one in metadata.metadata_log],
        }
    )


def write_ahead(lake: Lake, identifier: Identifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more version of a table, which changes nothing but its times."""
    table = lake.catalog.load_table(identifier.path)
    kept = "mirrorlake.destinations.iceberg.catalog.sql.in_order"
    with monkeypatch.context() as patch:
        patch.setattr(kept, later)
        with table.transaction() as transaction:
            transaction.set_properties({"ahead": "1"})


@pytest.mark.parametrize("name", [*TABLES])
def test_a_fold_takes_back_the_times_of_a_clock_that_was_ahead(
    name: str,
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(
        f"CREATE TABLE {name} (id INT PRIMARY KEY, at DATETIME(6) NOT NULL DEFAULT "
        "CURRENT_TIMESTAMP(6), KEY (at))",
        f"INSERT INTO {name} (id) VALUES (1), (2)",
    )
    workspace = engine_for({name: TABLES[name]})
    contract = workspace.config.table(name)
    sync_table(workspace, contract)
    spaces = contract.namespaces
    places = [Identifier(spaces.deduped, name)]
    places += [Identifier(spaces.clean, name)] if contract.clean == "table" else []
    for number in (3, 4):
        for place in places:
            write_ahead(workspace.lake, place, monkeypatch)
        if number == 4:
            done = maintain_table(workspace, contract, Ages())
            assert [one.error for one in done] == [None] * len(done)
        sql(f"INSERT INTO {name} (id) VALUES ({number})")
        sync_table(workspace, contract)
        for place in places:
            rows = workspace.spark.get().table(place.sql)
            assert sorted(row.id for row in rows.collect()) == [*range(1, number + 1)]
            assert [*workspace.lake.branches(place)] == ["main"]
