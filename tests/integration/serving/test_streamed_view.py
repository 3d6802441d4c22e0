"""Views of current rows show what deduped shows once every load is folded: before that fold, and
after it.

What belongs here: one table's views, through loads, folds and schema changes. What doesn't: models
that are such views (`tests/integration/models/test_stream_views.py`).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.errors import LakeError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.serving.streamed import make_streamed, refuse_unfolded
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.streamed import streamed_of
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
AT = "at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (at)"
TERMS: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "0s"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "number": ("id INT PRIMARY KEY, v TEXT", TERMS),
    "text": ("id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v TEXT", TERMS),
    "flagged": ("id INT PRIMARY KEY, v TEXT", {**TERMS, "deletes": "flag"}),
    "flagged text": (
        "id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v TEXT",
        {**TERMS, "deletes": "flag"},
    ),
    "ignored": ("id INT PRIMARY KEY, v TEXT", {**TERMS, "deletes": "ignore"}),
    "two parts": (
        "id VARCHAR(20) COLLATE utf8mb4_bin, d DATE, v TEXT, PRIMARY KEY (id, d)",
        {**TERMS, "key": ["id", "d"]},
    ),
    "keyless": ("id INT, v TEXT", {**TERMS, "mode": "append", "key": []}),
    "appended": ("id INT PRIMARY KEY, v TEXT", {"mode": "append", "key": ["id"], "cursor": "id"}),
}
OFTEN = ("flagged text",)
"""Those that are not tested in the full run alone."""


def rows_of(workspace: Workspace, name: Identifier) -> list[tuple[Any, ...]]:
    rows = workspace.spark.get().table(name.sql).collect()
    # A row without originals has NULL or an empty list, by who wrote it: both are none.
    return sorted((tuple(None if cell == [] else cell for cell in row) for row in rows), key=str)


def contract_of(workspace: Workspace) -> Any:
    [contract] = workspace.config.tables
    return contract


def layer_of(workspace: Workspace, layer: str = "deduped") -> Identifier:
    contract = contract_of(workspace)
    return Identifier(getattr(contract.namespaces, layer), contract.table)


def begin(workspace: Workspace, layer: str = "deduped") -> None:
    """The first load, and the view of a layer."""
    contract = contract_of(workspace)
    sync_table(workspace, contract)
    source = workspace.config.sources[contract.source]
    with session(source, contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
        with workspace.leased(contract) as leased:
            make_streamed(leased, plan, getattr(plan, layer))


def shown(workspace: Workspace, layer: str = "deduped") -> list[tuple[Any, ...]]:
    return rows_of(workspace, streamed_of(layer_of(workspace, layer)))


def text_of(workspace: Workspace) -> str:
    view = read_view(workspace.lake, streamed_of(layer_of(workspace)))
    assert view is not None
    return view.sql


class Writer:
    """Rows of one table, changed at random."""

    def __init__(self, sql: Sql, kind: str) -> None:
        self.sql, self.kind = sql, kind
        self.random = random.Random(7)  # noqa: S311 - not for secrets
        self.number = 0

    def key(self) -> str:
        number = self.random.randrange(12)
        if "text" in self.kind:
            # 'k3' and 'K3' are one key to the server, and two texts.
            return f"id = '{self.random.choice('kK')}{number}'"
        if self.kind == "two parts":
            day = self.random.choice(["0000-00-00", "2024-01-00", "2024-01-01"])
            return f"id = 'k{number % 4}', d = '{day}'"
        return f"id = {number}"

    def change(self) -> None:
        for _ in range(self.random.randrange(1, 6)):
            self.number += 1
            sets = f"{self.key()}, v = 'v{self.number}', at = NOW(6)"
            if self.kind == "appended":
                sets = f"id = {1000 + self.number}, v = 'v{self.number}'"
            if self.kind == "keyless" or self.random.random() < 0.7:
                where = sets.split(", v =")[0].replace(",", " AND")
                verb = "INSERT INTO" if self.kind == "keyless" else "REPLACE INTO"
                text = self.random.random() < 0.5 and "text" in self.kind
                self.sql(f"UPDATE t SET {sets} WHERE {where}" if text else f"{verb} t SET {sets}")
            elif self.kind != "appended":
                where = self.key().replace(",", " AND")
                self.sql(f"DELETE FROM t WHERE {where}")


@pytest.mark.full
@pytest.mark.parametrize(
    "kind", [k if k in OFTEN else pytest.param(k, marks=pytest.mark.full) for k in KINDS]
)
def test_rows_before_a_fold_are_those_after_it(sql: Sql, engine_for: EngineFor, kind: str) -> None:
    columns, terms = KINDS[kind]
    sql("SET sql_mode = ''", f"CREATE TABLE t ({columns}, {AT})")
    writer = Writer(sql, kind)
    for _ in range(4):
        writer.change()
    workspace = engine_for({"t": terms})
    contract = contract_of(workspace)
    begin(workspace)
    assert shown(workspace) == rows_of(workspace, layer_of(workspace))
    different = 0
    for turn in range(6):
        writer.change()
        load_table(workspace, contract)
        # A key without a place in its type can't be looked up by a reload.
        if turn % 2 and kind not in ("appended", "two parts"):
            writer.change()
            today = datetime.now(UTC).date()
            reload_days(workspace, contract, today, today)
        before, folded = shown(workspace), rows_of(workspace, layer_of(workspace))
        different += before != folded
        fold_table(workspace, contract)
        folded = rows_of(workspace, layer_of(workspace))
        assert before == folded
        assert shown(workspace) == folded
    assert different > 2  # else there was nothing to add


@pytest.mark.full
def test_a_schema_change_is_shown_once_its_load_is_folded(sql: Sql, engine_for: EngineFor) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, {AT})", "INSERT INTO t (id, v) VALUES (1, 1)")
    workspace = engine_for({"t": TERMS})
    contract = contract_of(workspace)
    begin(workspace)
    sql("INSERT INTO t (id, v) VALUES (2, 2)")
    load_table(workspace, contract)
    assert [row[0] for row in shown(workspace)] == [1, 2]
    sql("ALTER TABLE t MODIFY v BIGINT, ADD w INT", "UPDATE t SET v = 1 << 40, w = 3 WHERE id = 1")
    load_table(workspace, contract)
    assert [tuple(row[:2]) for row in shown(workspace)] == [(1, 1), (2, 2)]
    fold_table(workspace, contract)
    names = workspace.spark.get().table(streamed_of(layer_of(workspace)).sql).columns
    assert "w" in names
    assert [row[:2] for row in shown(workspace)] == [(1, 1 << 40), (2, 2)]
    assert shown(workspace) == rows_of(workspace, layer_of(workspace))
    sql("INSERT INTO t (id, v) VALUES (3, 3)")
    load_table(workspace, contract)
    assert [row[0] for row in shown(workspace)] == [1, 2, 3]


def test_another_key_is_shown_once_it_is_folded(sql: Sql, engine_for: EngineFor) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, b INT, v INT, {AT}, UNIQUE (id, b))")
    sql("INSERT INTO t (id, b, v) VALUES (1, 1, 1)")
    workspace = engine_for({"t": {**TERMS, "key": ["id"]}})
    begin(workspace)
    sql("ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, b)")
    sql("INSERT INTO t (id, b, v) VALUES (1, 2, 2)")
    workspace = engine_for({"t": {**TERMS, "key": ["id", "b"]}})
    contract = contract_of(workspace)
    load_table(workspace, contract)
    assert [row[:3] for row in shown(workspace)] == [(1, 1, 1)]
    fold_table(workspace, contract)
    assert [row[:3] for row in shown(workspace)] == [(1, 1, 1), (1, 2, 2)]


@pytest.mark.full
def test_a_repair_and_a_refold_are_shown(sql: Sql, engine_for: EngineFor) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, {AT})")
    sql("INSERT INTO t (id, v) VALUES (1, 1), (2, 2)")
    workspace = engine_for({"t": TERMS})
    contract = contract_of(workspace)
    begin(workspace)
    sql("DELETE FROM t WHERE id = 1", "UPDATE t SET v = 9, at = at WHERE id = 2")
    repair_table(workspace, contract, Ask("full"))
    assert [row[0] for row in shown(workspace)] == [2]
    refold_table(workspace, contract)
    assert shown(workspace) == rows_of(workspace, layer_of(workspace))


def test_clean_is_masked_in_it_and_another_rule_is_kept(sql: Sql, engine_for: EngineFor) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, name TEXT, mail TEXT, {AT})")
    sql("INSERT INTO t (id, name, mail) VALUES (1, 'Ann', 'a@b')")
    workspace = engine_for({"t": {**TERMS, "columns": {"mail": {"pii": "drop"}}}})
    begin(workspace, "clean")
    sql("INSERT INTO t (id, name, mail) VALUES (2, 'Bob', 'b@b')")
    load_table(workspace, contract_of(workspace))
    assert [row[:2] for row in shown(workspace, "clean")] == [(1, "Ann"), (2, "Bob")]
    rules = {"mail": {"pii": "drop"}, "name": {"pii": "null"}}
    workspace = engine_for({"t": {**TERMS, "columns": rules}})
    fold_table(workspace, contract_of(workspace))
    assert [row[:2] for row in shown(workspace, "clean")] == [(1, None), (2, None)]


@pytest.mark.full
def test_it_adds_less_once_much_is_folded(sql: Sql, engine_for: EngineFor) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, {AT})", "INSERT INTO t (id, v) VALUES (0, 0)")
    workspace = engine_for({"t": TERMS})
    begin(workspace)
    texts: list[str] = []
    for number in range(1, 11):
        sql(f"INSERT INTO t (id, v) VALUES ({number}, 0)")
        sync_table(workspace, contract_of(workspace))
        texts.append(text_of(workspace))
    assert len(set(texts)) == 2
    assert shown(workspace) == rows_of(workspace, layer_of(workspace))


@pytest.mark.full
def test_a_table_without_a_key_is_shown_until_another_copy_is_folded(
    sql: Sql, engine_for: EngineFor
) -> None:
    sql(f"CREATE TABLE t (id INT, v INT, {AT})", "INSERT INTO t (id, v) VALUES (1, 1), (1, 1)")
    workspace = engine_for({"t": {**TERMS, "mode": "append", "key": []}})
    contract = contract_of(workspace)
    begin(workspace)
    sql("INSERT INTO t (id, v) VALUES (2, 2)")
    load_table(workspace, contract)
    sql("ALTER TABLE t ADD w INT", "INSERT INTO t (id, v) VALUES (3, 3)")
    load_table(workspace, contract)
    assert [row[:2] for row in shown(workspace)] == [(1, 1), (1, 1), (2, 2)]
    fold_table(workspace, contract)
    assert [row[:2] for row in shown(workspace)] == [(1, 1), (1, 1), (2, 2), (3, 3)]


def test_a_rule_that_no_view_can_keep_takes_the_view_away(sql: Sql, engine_for: EngineFor) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, name TEXT, {AT})")
    sql("INSERT INTO t (id, name) VALUES (1, 'Ann')")
    workspace = engine_for({"t": {**TERMS, "clean": "table"}})
    begin(workspace, "clean")
    assert [row[:2] for row in shown(workspace, "clean")] == [(1, "Ann")]
    rules = {"name": {"pii": "hash"}}
    workspace = engine_for({"t": {**TERMS, "clean": "table", "columns": rules}})
    sync_table(workspace, contract_of(workspace))
    assert read_view(workspace.lake, streamed_of(layer_of(workspace, "clean"))) is None
    assert shown(workspace)  # deduped's stays


@pytest.mark.full
def test_versions_that_a_view_is_held_at_do_not_expire(sql: Sql, engine_for: EngineFor) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, {AT})", "INSERT INTO t (id, v) VALUES (1, 1)")
    workspace = engine_for({"t": TERMS})
    contract = contract_of(workspace)
    begin(workspace)
    for number in range(2, 4):
        sql(f"INSERT INTO t (id, v) VALUES ({number}, 0)")
        load_table(workspace, contract)
    sql("ALTER TABLE t ADD w INT")
    load_table(workspace, contract)
    held = shown(workspace)
    with pytest.MonkeyPatch.context() as on:
        on.setattr("mirrorlake.operations.upkeep.maintain.RETAIN", 1)
        fold = maintain_table(workspace, contract, Ages(keep=timedelta(0)))
    assert not any(one.error for one in fold)
    workspace.spark.get().catalog.clearCache()
    assert shown(workspace) == held
    fold_table(workspace, contract)
    assert [row[0] for row in shown(workspace)] == [1, 2, 3]


@pytest.mark.full
def test_none_is_made_while_other_columns_wait_for_their_fold(
    sql: Sql, engine_for: EngineFor
) -> None:
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, {AT})", "INSERT INTO t (id, v) VALUES (1, 1)")
    workspace = engine_for({"t": TERMS})
    contract = contract_of(workspace)
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD w INT")
    load_table(workspace, contract)
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
    with pytest.raises(LakeError, match="is not folded"):
        refuse_unfolded(workspace, plan)
    fold_table(workspace, contract)
    refuse_unfolded(workspace, plan)
