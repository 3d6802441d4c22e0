"""The fold reads what it needs: other files stay closed, and the result is that of a whole one."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Ledger, Load
from mirrorlake.ledger.tables import FOLDS
from mirrorlake.merge import compaction, pruning
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TABLE = (
    "CREATE TABLE t (id INT, part VARCHAR(9) COLLATE utf8mb4_bin, v INT, word VARCHAR(99), "
    "at DATETIME(6) NOT NULL, PRIMARY KEY (id, part), KEY (at))"
)
CONTRACT = {"t": {"mode": "incremental", "key": ["id", "part"], "cursor": "at", "overlap": "1s"}}


def deduped(workspace: Workspace) -> Table:
    contract = workspace.config.table("t")
    found = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert found is not None
    return found


def files_of(workspace: Workspace) -> list[Path]:
    tasks = deduped(workspace).scan().plan_files()
    return sorted(path_of(task.file.file_path) for task in tasks)


def path_of(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def insert(sql: Sql, first: int, count: int = 200) -> None:
    rows = ", ".join(f"({n}, 'a', 0, 'w{n}', NOW(6))" for n in range(first, first + count))
    sql(f"INSERT INTO t VALUES {rows}")


def assert_equals_source(workspace: Workspace, sql: Sql) -> None:
    contract = workspace.config.table("t")
    ours = lake_rows(workspace, contract.namespaces.deduped, "t")
    theirs = sql("SELECT id, part, v, word, at FROM t ORDER BY id, part")
    key = ("id", "part", "v", "word", "at")
    assert sorted(tuple(row[k] for k in key) for row in ours) == list(theirs)


@pytest.mark.full
def test_rows_are_counted_without_data_files(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE)
    workspace = engine_for(CONTRACT)
    table = workspace.config.table("t")
    insert(sql, 0)
    sync_table(workspace, table)
    for first in (50, 60):
        sql(f"UPDATE t SET v = {first}, at = NOW(6) WHERE id BETWEEN {first} AND {first + 19}")
        sync_table(workspace, table)
    with_deletes = [task for task in deduped(workspace).scan().plan_files() if task.delete_files]
    assert with_deletes
    away = path_of(with_deletes[0].file.file_path)
    moved = away.with_suffix(".away")
    away.rename(moved)
    try:
        identifier = Identifier(table.namespaces.deduped, "t")
        assert workspace.lake.count_rows(identifier) == 200
    finally:
        moved.rename(away)
    assert deduped(workspace).scan().to_arrow().num_rows == 200


@pytest.mark.full
def test_files_without_a_changed_key_are_not_opened(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "LARGE", 0)  # files of some kB are the table's own here
    sql(TABLE)
    workspace = engine_for(CONTRACT)
    table = workspace.config.table("t")
    for first in (0, 1_000, 2_000):
        insert(sql, first)
        sync_table(workspace, table)
    before = files_of(workspace)
    assert len(before) == 3
    sql("UPDATE t SET v = 1, at = NOW(6) WHERE id BETWEEN 2010 AND 2020 OR id = 1")
    load_table(workspace, table)
    holding = deduped(workspace).scan(row_filter="id >= 1000 and id < 2000").plan_files()
    away = [path_of(task.file.file_path) for task in holding]
    assert len(away) == 1
    moved = away[0].with_suffix(".away")
    away[0].rename(moved)
    try:
        fold_table(workspace, table)
    finally:
        moved.rename(away[0])
    assert_equals_source(workspace, sql)
    # A row that came again by the overlap is left alone, and then nothing is committed at all.
    head = deduped(workspace).current_snapshot()
    sync_table(workspace, table)
    assert deduped(workspace).current_snapshot() == head


@pytest.mark.full
def test_a_value_that_went_back_is_folded_again(sql: Sql, engine_for: EngineFor) -> None:
    """The loads before tell what the layer holds: the newest of them, not any of them."""
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1, 'x', NOW(6)), (2, 'b', 1, 'y', NOW(6))")
    workspace = engine_for({"t": {**CONTRACT["t"], "overlap": "1h"}})
    table = workspace.config.table("t")
    for value in (1, 2, 1, 2, 1):
        sql(f"UPDATE t SET v = {value} WHERE id = 1")
        sync_table(workspace, table)
        assert_equals_source(workspace, sql)


@pytest.mark.full
def test_loads_folded_in_any_order_give_one_result(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(TABLE)
    workspace = engine_for(CONTRACT)
    table = workspace.config.table("t")
    picked = random.Random(11)  # noqa: S311
    insert(sql, 0, 40)
    for _ in range(3):
        load_table(workspace, table)
        for key in picked.sample(range(40), 9):
            sql(f"UPDATE t SET v = {picked.randrange(3)}, at = NOW(6) WHERE id = {key}")
        insert(sql, 1_000 * picked.randrange(1, 99_999), 2)
    load_table(workspace, table)
    numbers = [load.seq for load in workspace.ledger.successful_loads(table.name)]
    whole = Ledger.successful_loads
    for order in (numbers[::-1], picked.sample(numbers, len(numbers))):
        shown: set[int] = set()

        def some(
            ledger: Ledger,
            name: str,
            after_seq: int = 0,
            *,
            ever: bool = False,
            shown: set[int] = shown,
        ) -> list[Load]:
            found = whole(ledger, name, after_seq, ever=ever)
            return [load for load in found if load.seq in shown]

        monkeypatch.setattr(Ledger, "successful_loads", some)
        for number in (*order[:3], order[0], *order[3:]):
            shown.add(number)
            fold_table(workspace, table)
        monkeypatch.undo()
        assert_equals_source(workspace, sql)
        workspace.lake.catalog.drop_table(deduped(workspace).name())
        with workspace.ledger._database.begin() as connection:
            connection.execute(FOLDS.delete().where(FOLDS.c.table_name == table.name))


@pytest.mark.full
def test_small_files_and_deletes_stay_few(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "COMMITS", 3)
    sql(TABLE)
    workspace = engine_for(CONTRACT)
    table = workspace.config.table("t")
    insert(sql, 0)
    seen: list[int] = []
    for number in range(5):
        sync_table(workspace, table)
        seen.append(len(files_of(workspace)))
        sql(f"UPDATE t SET v = {number}, at = NOW(6) WHERE id % 5 = {number % 5}")
    sync_table(workspace, table)
    assert_equals_source(workspace, sql)
    assert seen == [1, 2, 3, 1, 2]
    summary = deduped(workspace).current_snapshot().summary.additional_properties  # type: ignore[union-attr]
    assert int(summary["total-delete-files"]) <= int(summary["total-data-files"])
    assert workspace.lake.count_rows(Identifier(table.namespaces.deduped, "t")) == 200
