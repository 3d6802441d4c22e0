"""The fold of an entity table opens the files that can hold its entities' rows, and no other."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
CREATE = """CREATE TABLE t (id BIGINT PRIMARY KEY, token VARCHAR(20) NOT NULL,
    created DATETIME NOT NULL, word VARCHAR(99), KEY (token, created))"""
CONTRACT = {
    "mode": "append",
    "key": ["id"],
    "cursor": "id",
    "created": "created",
    "overlap_keys": 0,
    "entity": {"token": "token", "created": "created"},
}


def deduped(workspace: Workspace) -> Table:
    contract = workspace.config.table("t")
    found = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert found is not None
    return found


def files_of(workspace: Workspace, where: str = "id >= 0") -> list[Path]:
    tasks = deduped(workspace).scan(row_filter=where).plan_files()
    return [path for task in tasks if (path := local_path(task.file.file_path)) is not None]


@pytest.mark.full
def test_files_without_a_row_of_the_entities_stay_closed(sql: Sql, engine_for: EngineFor) -> None:
    sql(CREATE)
    workspace = engine_for({"t": CONTRACT})
    contract = workspace.config.table("t")
    first: dict[int, datetime] = {}
    for number, start in enumerate((0, 1_000, 2_000)):
        # One day for each load: its rows of deduped are one file.
        created = TODAY - timedelta(days=9 - number)
        ids = range(start, start + 50)
        rows = ", ".join(f"({n}, 't{n}', '{created}', 'w{n}')" for n in ids)
        sql(f"INSERT INTO t VALUES {rows}")
        first |= dict.fromkeys(ids, created)
        sync_table(workspace, contract)
    assert len(files_of(workspace)) == 3
    # A later row of an entity of either end, and one whose first row MySQL tells only now.
    early = TODAY - timedelta(days=40)
    sql(
        f"INSERT INTO t VALUES (3000, 't2010', '{TODAY}', 'x'), (3001, 't1', '{TODAY}', 'y'),"
        f" (3002, 't2011', '{early}', 'z')"
    )
    load_table(workspace, contract)
    first |= {3000: first[2010], 3001: first[1], 3002: early, 2011: early}
    (away,) = files_of(workspace, "id >= 1000 and id < 2000")
    moved = away.with_suffix(".away")
    away.rename(moved)
    try:
        fold_table(workspace, contract)
    finally:
        moved.rename(away)
    found = lake_rows(workspace, contract.namespaces.deduped, "t")
    assert {row["id"]: row["original_created_at"] for row in found} == first
    assert len(found) == len(first)
    assert away in files_of(workspace)
