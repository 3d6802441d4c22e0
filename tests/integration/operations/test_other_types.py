"""Columns that get another kind of type in MySQL: deduped and clean have it, in one step with its
values; a value of before that has no place in it is NULL, and its text is kept.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.schema_changes.table_shapes import shapes_of
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.workspace import Workspace
from tests.integration import mirrored
from tests.integration.mirrored import (
    INCREMENTAL,
    assert_equal,
    assert_goes_on,
    in_modes,
    rows_of,
    shown,
)

YESTERDAY = datetime.now(UTC).date() - timedelta(days=1)
BEFORE = {
    "n": "INT",
    "s": "VARCHAR(20)",
    "d": "DECIMAL(8,2)",
    "f": "DOUBLE",
    "born": "DATE",
    "seen": "DATETIME(3)",
    "told": "TIMESTAMP NULL",
    "bytes": "VARBINARY(9)",
    "wide": "BIGINT",
}
NOW = {
    "n": "VARCHAR(20)",
    "s": "INT",
    "d": "DECIMAL(12,4)",
    "f": "DECIMAL(10,3)",
    "born": "DATETIME",
    "seen": "DATE",
    "told": "DATETIME(6)",
    "bytes": "VARCHAR(9)",
    "wide": "SMALLINT",
}
MODES: dict[str, dict[str, Any]] = {
    **mirrored.MODES,
    "verified": {**INCREMENTAL, "verify": True},
    "stored": {**INCREMENTAL, "clean": "table", "columns": {"n": {"pii": "hash"}}},
}
IN_MODES = in_modes(MODES, often=["stored"])


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def make(sql: Callable[..., Any]) -> None:
    columns = ", ".join(f"`{name}` {kind}" for name, kind in BEFORE.items())
    sql(
        f"CREATE TABLE t (id INT NOT NULL, {columns}, at DATETIME NOT NULL, PRIMARY KEY (id), "
        "KEY (at))",
        *(
            f"INSERT INTO t VALUES ({n}, {-n}, '{n}', {n}.25, {n}.125, '2026-01-0{n}', "
            f"'2026-01-0{n} 00:00:00', '2026-02-0{n} 03:04:05', 'b{n}', {n}, "
            f"'{YESTERDAY} 0{n}:00:00')"
            for n in range(1, 6)
        ),
        # Of no row that MySQL has when its types change.
        "INSERT INTO t VALUES (6, 2147483647, 'six', 6.5, 0.0005, '2026-01-06', "
        f"'2026-01-06 07:08:09.010', '2026-02-06 03:04:05', X'FF00', 40000, '{YESTERDAY} 06:00:00')",
        f"INSERT INTO t (id, at) VALUES (7, '{YESTERDAY} 07:00:00')",
    )


def change(sql: Callable[..., Any], *first: str) -> None:
    changes = ", ".join(f"MODIFY `{name}` {kind}" for name, kind in NOW.items())
    sql(
        *first,
        "SET sql_mode = ''",  # values are cut as MySQL likes
        f"ALTER TABLE t {changes}",
        "INSERT INTO t VALUES (8, 'eight', 8, 8.1234, 8.125, '2026-01-08 01:02:03', '2026-01-08', "
        f"'2026-02-08 03:04:05.000006', 'b8', 8, '{YESTERDAY} 12:00:00')",
        "UPDATE t SET n = 'three', at = at + INTERVAL 10 HOUR WHERE id = 3",
    )


@pytest.mark.full
@IN_MODES
def test_the_layers_have_the_types_and_the_values_of_mysql(
    mode: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    workspace = engine_for({"t": MODES[mode]})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    order = rows_of(workspace).column_names
    change(sql, "UPDATE t SET bytes = 'b6' WHERE id = 6")
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    kinds = {f.name: str(f.type) for f in rows_of(workspace).schema}
    assert [kinds[name] for name in ("n", "s", "d", "f", "seen")] == [
        "string", "int32", "decimal128(12, 4)", "decimal128(10, 3)", "date32[day]",
    ]  # fmt: skip
    assert [name for name in rows_of(workspace).column_names if name in order] == order
    assert_goes_on(
        workspace, server, database, YESTERDAY, sql,
        "INSERT INTO t (id, n, at) VALUES (9, 'nine', UTC_TIMESTAMP())",
        f"UPDATE t SET d = 1, at = UTC_TIMESTAMP() WHERE id = 8 AND '{mode}' <> 'append'",
    )  # fmt: skip
    raw = shown(workspace, "raw")
    assert {"-1", "three", "eight"} <= {row["n"] for row in raw}
    assert {row["bytes"] for row in raw if row["id"] == 6} == {"0xFF00", "b6"}
    assert {row["d"] for row in raw if row["id"] == 6} == {Decimal("6.5000")}


@pytest.mark.full
def test_what_only_the_mirror_holds_keeps_its_value_or_its_text(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "deletes": "ignore"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    change(sql, "DELETE FROM t WHERE id >= 6")
    sync_table(workspace, contract)
    rows = {row["id"]: row for row in rows_of(workspace).to_pylist()}
    lost = rows[6]
    assert {name: lost[name] for name in NOW} == {
        "n": "2147483647",
        "s": None,
        "d": Decimal("6.5000"),
        "f": None,
        "born": datetime(2026, 1, 6),
        "seen": None,
        "told": datetime(2026, 2, 6, 3, 4, 5),
        "bytes": "0xFF00",
        "wide": 40000,
    }
    assert [(entry["column"], entry["text"]) for entry in lost[ORIGINAL]] == [
        ("f", "5.0E-4"),
        ("s", "six"),
        ("seen", "2026-01-06 07:08:09.010"),
    ]
    assert {name: rows[7][name] for name in NOW} == dict.fromkeys(NOW)
    # PyIceberg reads a list that is NULL as an empty one.
    assert not rows[7][ORIGINAL]
    assert not rows[1][ORIGINAL]
    assert (rows[1]["s"], rows[1]["seen"]) == (1, date(2026, 1, 1))
    refold_table(workspace, contract)
    assert {row["id"]: row for row in rows_of(workspace).to_pylist()} == rows


@pytest.mark.full
@pytest.mark.parametrize("clean", ["view", pytest.param("table", marks=pytest.mark.full)])
def test_readers_see_the_old_type_with_its_values_or_the_new_one_with_its(
    clean: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "clean": clean}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("DELETE FROM t WHERE id > 5", "ALTER TABLE t MODIFY n VARCHAR(20), MODIFY s INT")
    seen: list[tuple[Any, Any]] = []

    def look(*_: object) -> None:
        before = {5: (-5, "5")}
        after = {5: ("-5", 5)}
        for layer in ("deduped", "clean"):
            rows = {row["id"]: (row["n"], row["s"]) for row in shown(workspace, layer)}
            assert rows[5] in (before[5], after[5]), layer
            seen.append(rows[5])
        raw = {(row["n"], row["s"]) for row in shown(workspace, "raw") if row["id"] == 5}
        assert raw <= {("-5", "5"), (-5, "5")}

    for place in (
        "mirrorlake.merge.fold",
        "mirrorlake.merge.overwrite",
        "mirrorlake.operations.loading.fold",
    ):
        monkeypatch.setattr(f"{place}.failpoint", look)
    sync_table(workspace, contract)
    look()
    assert (-5, "5") in seen
    assert seen[-1] == ("-5", 5)


@pytest.mark.full
@pytest.mark.parametrize(
    "step",
    [
        "refold.written",
        *(
            pytest.param(step, marks=pytest.mark.full)
            for step in ("fold.before", "refold.begun", "refold.shown", "fold.committed")
        ),
    ],
)
def test_a_fold_that_died_with_columns_written_beside_is_made_again(
    step: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "deletes": "ignore"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    change(sql, "DELETE FROM t WHERE id >= 6")

    def die(name: str) -> None:
        if name == step:
            raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.merge.fold.failpoint", die)
        patched.setattr("mirrorlake.merge.overwrite.failpoint", die)
        with pytest.raises(RuntimeError):
            sync_table(workspace, contract)
    # And changed once more before anybody came back.
    sql("ALTER TABLE t MODIFY n VARBINARY(20)")
    sync_table(workspace, contract)
    rows = {row["id"]: row for row in rows_of(workspace).to_pylist()}
    assert set(rows) == set(range(1, 9))
    assert rows[3]["n"] == b"three"
    assert {entry["column"] for entry in rows[6][ORIGINAL]} == {"f", "n", "s", "seen"}
    table = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert table is not None
    assert not [f.name for f in table.schema().fields if f.name.startswith("_mirror_next_")]
    assert list(table.metadata.refs) == ["main"]
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"


@pytest.mark.parametrize("mode", ["full", pytest.param("incremental", marks=pytest.mark.full)])
def test_a_key_of_another_type_begins_a_new_history(
    mode: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    workspace = engine_for({"t": MODES[mode]})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(
        "DELETE FROM t WHERE id > 5",
        "ALTER TABLE t MODIFY id VARCHAR(36) CHARACTER SET ascii NOT NULL",
        f"INSERT INTO t (id, at) VALUES ('9f', '{YESTERDAY} 12:00:00')",
    )
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    sql("UPDATE t SET s = 'x', at = UTC_TIMESTAMP() WHERE id = '9f'")
    sync_table(workspace, contract)
    repair_table(workspace, contract, Ask("full"))
    refold_table(workspace, contract)
    assert_equal(workspace, server, database)


def test_a_key_of_another_type_is_refused_where_rows_of_the_mirror_alone_would_go(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "deletes": "ignore"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    before = rows_of(workspace)
    sql("ALTER TABLE t MODIFY id VARCHAR(36) NOT NULL")
    with pytest.raises(ConfigError, match=r"the key's type in the lake was \(int\), is \(string\)"):
        sync_table(workspace, contract)
    assert rows_of(workspace).equals(before)


@pytest.mark.full
def test_a_load_without_its_fold_shows_nothing_of_the_new_type(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    before = rows_of(workspace)
    change(sql, "UPDATE t SET bytes = 'b6' WHERE id = 6")
    load_table(workspace, contract)
    assert rows_of(workspace).equals(before)
    fold_table(workspace, contract)
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"


@pytest.mark.full
def test_a_clean_table_that_gets_a_column_is_there_all_the_time(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    make(sql)
    terms = {**INCREMENTAL, "clean": "table", "columns": {"s": {"pii": "drop"}}}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    workspace = engine_for({"t": {**terms, "columns": {"s": {"pii": "mask"}}}})
    seen: set[Any] = set()

    def look(*_: object) -> None:
        rows = {row["id"]: row for row in shown(workspace, "clean")}
        assert len(rows) == 7
        seen.add(rows[5].get("s", "not there"))

    monkeypatch.setattr("mirrorlake.merge.fold.failpoint", look)
    monkeypatch.setattr("mirrorlake.merge.overwrite.failpoint", look)
    sql(f"INSERT INTO t (id, at) VALUES (8, '{YESTERDAY} 07:00:00')", "DELETE FROM t WHERE id = 8")
    sync_table(workspace, workspace.config.table("t"))
    look()
    assert seen == {"not there", "********"}


@pytest.mark.full
def test_the_schema_says_which_type_unites_all_versions_and_why(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t MODIFY n VARCHAR(20), MODIFY d DECIMAL(12,4)")
    sync_table(workspace, contract)
    columns = {column.name: column for column in shapes_of(workspace, contract).columns}
    assert (columns["n"].lake, columns["n"].why) == (
        "string", "no other type holds every int and string: exact text",
    )  # fmt: skip
    assert columns["d"].lake == "decimal(12,4)"
    namespace = contract.namespaces.raw
    raw = dict(workspace.spark.get().table(f"lake.{namespace}.t").dtypes)
    assert (raw["n"], raw["d"]) == ("string", "decimal(12,4)")
