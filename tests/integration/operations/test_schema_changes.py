"""Columns that go, are renamed or come in MySQL, by the contract's ``schema_changes``: deduped and
clean follow, raw keeps what was loaded, and no query of a reader fails meanwhile.

MySQL is read and compared by the oracle, which shares no code with the engine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, SchemaError, SchemaMoved
from mirrorlake.merge import reshape
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.schema_changes.table_shapes import shapes_of
from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.operations.status.status import status_of
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
CREATE = """CREATE TABLE t (
    id INT NOT NULL, name VARCHAR(20), mail VARCHAR(50), born DATE, at DATETIME NOT NULL,
    note VARCHAR(9), PRIMARY KEY (id), KEY (at))"""
MODES: dict[str, dict[str, Any]] = {
    **mirrored.MODES,
    "verified": {**INCREMENTAL, "verify": True},
    "stored": {**INCREMENTAL, "clean": "table", "columns": {"name": {"pii": "mask"}}},
}
IN_MODES = in_modes(MODES, often=["stored"])


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def make(sql: Callable[..., Any]) -> None:
    rows = (
        f"INSERT INTO t VALUES ({n}, 'n{n}', 'm{n}', '19{n}0-01-01', '{YESTERDAY} 0{n}:00:00', 'x')"
        for n in range(1, 6)
    )
    sql(CREATE, *rows, "SET sql_mode = ''", "UPDATE t SET born = '1999-00-00' WHERE id IN (2, 5)")


@pytest.mark.full
@IN_MODES
def test_a_dropped_column_leaves_the_layers_and_stays_in_raw(
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
        "ALTER TABLE t DROP COLUMN mail, DROP COLUMN born",
        f"INSERT INTO t VALUES (6, 'n6', '{YESTERDAY} 12:00:00', 'y')",
        "UPDATE t SET name = 'other', at = at + INTERVAL 8 HOUR WHERE id = 3",
    )
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    assert not {"mail", "born"} & set(rows_of(workspace).column_names)
    assert not {"mail", "born"} & set(shown(workspace, "clean")[0])
    assert_goes_on(
        workspace, server, database, YESTERDAY, sql,
        "INSERT INTO t VALUES (7, 'n7', UTC_TIMESTAMP(), 'z')",
        f"UPDATE t SET note = 'w', at = UTC_TIMESTAMP() WHERE id = 6 AND '{mode}' <> 'append'",
    )  # fmt: skip
    raw = shown(workspace, "raw")
    assert {row["mail"] for row in raw if row["id"] == 1} == {"m1", None}
    assert {row["mail"] for row in raw if row["id"] == 6} == {None}
    assert date(1910, 1, 1) in {row["born"] for row in raw if row["id"] == 1}
    # Its original texts are raw's too.
    assert [("born", "1999-00-00")] in [
        [(entry.column, entry.text) for entry in row[ORIGINAL] or ()] for row in raw
    ]


@IN_MODES
def test_a_renamed_column_keeps_its_values_and_its_rule(
    mode: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    rules = MODES[mode].get("columns", {})
    terms = {**MODES[mode], "columns": {**rules, "mail": {"pii": "mask"}}}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t CHANGE mail address VARCHAR(50), CHANGE born birth DATE")
    sql(f"INSERT INTO t VALUES (6, 'n6', 'm6', '2000-02-00', '{YESTERDAY} 12:00:00', 'y')")
    columns = {
        **rules,
        "address": {"pii": "mask", "renamed_from": "mail"},
        "birth": {"pii": "show", "renamed_from": ["born"]},
    }
    workspace = engine_for({"t": {**MODES[mode], "columns": columns}})
    contract = workspace.config.table("t")
    before = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert before is not None
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    after = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert after is not None
    assert after.schema().find_field("address").field_id == (
        before.schema().find_field("mail").field_id
    )
    assert {row["address"] for row in shown(workspace, "raw")} == {f"m{n}" for n in range(1, 7)}
    assert {row["address"] for row in shown(workspace, "clean")} == {"********"}
    refold_table(workspace, contract)
    assert_equal(workspace, server, database)


def test_a_check_between_a_load_and_its_fold_says_what_it_waits_for(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    """It called this a change of the lake by somebody, and advised to drop the table."""
    make(sql)
    workspace = engine_for({"t": MODES["incremental"]})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD COLUMN extra INT")
    load_table(workspace, contract)
    with pytest.raises(SchemaError) as caught:
        check_table(workspace, contract, Ask("full"))
    assert "was not folded yet" in (caught.value.next_step or "")
    fold_table(workspace, contract)
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    workspace.spark.get().sql(f"ALTER TABLE lake.{contract.namespaces.deduped}.t DROP COLUMN extra")
    with pytest.raises(SchemaError) as caught:
        check_table(workspace, contract, Ask("full"))
    assert "Somebody changed the lake table: sync it" in (caught.value.next_step or "")
    sync_table(workspace, contract)
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"


@pytest.mark.full
@IN_MODES
def test_a_column_that_comes_back_has_what_a_rebuild_gives(
    mode: str, engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    """Of a row that MySQL lost: its values under that name were gone until a refold."""
    make(sql)
    workspace = engine_for({"t": MODES[mode]})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    # An ALTER within the second in which a table was made looks as if it had been truncated.
    time.sleep(1)
    sql("DELETE FROM t WHERE id = 3", "ALTER TABLE t DROP COLUMN mail, DROP COLUMN born")
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD COLUMN mail VARCHAR(50) DEFAULT 'x', ADD COLUMN born DATE")
    sync_table(workspace, contract)
    folded = rows_of(workspace).to_pylist()
    if mode in ("incremental", "append", "stored"):
        assert {row["mail"] for row in folded if row["id"] == 3} == {"m3"}
    assert {row["mail"] for row in folded if row["id"] != 3} == {"x"}
    refold_table(workspace, contract)
    assert rows_of(workspace).to_pylist() == folded


@pytest.mark.full
def test_what_a_hidden_column_held_is_not_shown_by_one_that_took_its_name(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    """Of a row that MySQL lost before there was a successor, whose rule shows its values. A
    version of the two columns was loaded, and the table has the shape of before again."""
    make(sql)
    sql("UPDATE t SET born = '1999-00-00'")
    workspace = engine_for({"t": {**INCREMENTAL, "columns": {"note": {"pii": "mask"}}}})
    sync_table(workspace, workspace.config.table("t"))
    sql("DELETE FROM t WHERE id = 3", "ALTER TABLE t ADD fresh VARCHAR(9) DEFAULT 'new'")
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t DROP COLUMN note, CHANGE fresh note VARCHAR(9)")
    sql(f"INSERT INTO t VALUES (6, 'n6', 'm6', NULL, '{YESTERDAY} 12:00:00', 'six')")
    rule = {"pii": "show", "renamed_from": ["fresh"]}
    workspace = engine_for({"t": {**INCREMENTAL, "columns": {"note": rule}}})
    contract = workspace.config.table("t")
    for _ in range(2):
        sync_table(workspace, contract)
        notes = {row["id"]: row["note"] for row in shown(workspace, "clean")}
        assert notes == {1: "new", 2: "new", 3: None, 4: "new", 5: "new", 6: "six"}
        raw = shown(workspace, "raw")
        assert {row["note"] for row in raw if row["id"] == 3} == {None}
        assert {row["note"] for row in raw if row["id"] == 6} == {"six"}
        refold_table(workspace, contract)
    sql("UPDATE t SET note = 'one', at = UTC_TIMESTAMP() WHERE id = 1")
    sync_table(workspace, contract)
    assert {row["note"] for row in shown(workspace, "clean") if row["id"] == 1} == {"one"}
    repair_table(workspace, contract, Ask("full"))
    assert_equal(workspace, server, database)


@pytest.mark.parametrize("clean", ["view", pytest.param("table", marks=pytest.mark.full)])
def test_a_hidden_column_that_comes_back_is_not_shown_before_somebody_says_so(
    clean: str, engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    """With ``new_columns: show``, and a rule that had to be taken out as its column was gone."""
    terms = {**INCREMENTAL, "clean": clean, "new_columns": "show"}
    make(sql)
    workspace = engine_for({"t": {**terms, "columns": {"mail": {"pii": "mask"}}}})
    sync_table(workspace, workspace.config.table("t"))
    sql("DELETE FROM t WHERE id = 3", "ALTER TABLE t DROP COLUMN mail")
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t ADD COLUMN mail VARCHAR(50), ADD COLUMN other INT")
    sync_table(workspace, workspace.config.table("t"))
    assert "mail" not in shown(workspace, "clean")[0]
    assert "other" in shown(workspace, "clean")[0]
    workspace = engine_for({"t": {**terms, "columns": {"mail": {"pii": "show"}}}})
    sync_table(workspace, workspace.config.table("t"))
    assert "mail" in shown(workspace, "clean")[0]


@pytest.mark.full
def test_a_name_that_comes_from_a_later_column_shows_nothing_of_the_first_one(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    """No version has both names."""
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "columns": {"mail": {"pii": "mask"}}}})
    sync_table(workspace, workspace.config.table("t"))
    sql("DELETE FROM t WHERE id = 3", "ALTER TABLE t DROP COLUMN mail, ADD post VARCHAR(50)")
    workspace = engine_for({"t": {**INCREMENTAL, "columns": {"post": {"pii": "show"}}}})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t CHANGE post mail VARCHAR(50)", "UPDATE t SET mail = 'x'")
    rule = {"pii": "show", "renamed_from": ["post"]}
    workspace = engine_for({"t": {**INCREMENTAL, "columns": {"mail": rule}}})
    contract = workspace.config.table("t")
    for again in (sync_table, refold_table):
        again(workspace, contract)
        found = {row["id"]: row["mail"] for row in shown(workspace, "clean")}
        assert found == {1: "x", 2: "x", 3: None, 4: "x", 5: "x"}


@pytest.mark.full
def test_a_row_that_mysql_lost_before_a_rename_has_its_values_under_the_new_name(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    terms = {**INCREMENTAL, "deletes": "ignore"}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql("DELETE FROM t WHERE id = 5", "ALTER TABLE t CHANGE born birth DATE, DROP COLUMN note")
    columns = {"birth": {"pii": "drop", "renamed_from": "born"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    folded = rows_of(workspace).to_pylist()
    assert [row["id"] for row in folded] == [1, 2, 3, 4, 5]
    lost = folded[4]
    assert (lost["name"], lost["birth"]) == ("n5", None)
    assert lost[ORIGINAL] == [{"column": "birth", "text": "1999-00-00"}]
    # Nothing of it shows in clean, whose rule is for the new name.
    assert "1999-00-00" not in str(shown(workspace, "clean"))
    refold_table(workspace, contract)
    assert rows_of(workspace).to_pylist() == folded


@pytest.mark.full
@pytest.mark.parametrize("clean", ["view", pytest.param("table", marks=pytest.mark.full)])
def test_a_rename_that_is_said_later_brings_values_back(
    clean: str, engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    """Where MySQL has lost the row, all that it held is under the old name."""
    make(sql)
    terms = {**INCREMENTAL, "clean": clean, "new_columns": "show"}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql("DELETE FROM t WHERE id = 1", "ALTER TABLE t CHANGE mail address VARCHAR(50)")
    sync_table(workspace, workspace.config.table("t"))
    assert rows_of(workspace).column("address").to_pylist() == [None, "m2", "m3", "m4", "m5"]
    columns = {"address": {"pii": "show", "renamed_from": "mail"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    sync_table(workspace, workspace.config.table("t"))
    assert rows_of(workspace).column("address").to_pylist() == ["m1", "m2", "m3", "m4", "m5"]
    assert sorted(row["address"] for row in shown(workspace, "clean")) == [
        *("m1", "m2", "m3", "m4", "m5")
    ]
    # Said once more, nothing is written again.
    head = workspace.lake.head(workspace_deduped(workspace))
    sync_table(workspace, workspace.config.table("t"))
    assert workspace.lake.head(workspace_deduped(workspace)) == head


@pytest.mark.full
@pytest.mark.parametrize("clean", ["view", "table"])
def test_a_column_that_took_the_name_of_one_that_went(
    clean: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    """``DROP name, RENAME mail TO name``: by the hint, name's values are those of mail, of all
    time, and what was called name is gone."""
    make(sql)
    terms = {**INCREMENTAL, "clean": clean}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql(
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t DROP name, CHANGE mail name VARCHAR(50)",
        f"INSERT INTO t VALUES (6, 'm6', '2000-01-01', '{YESTERDAY} 12:00:00', 'y')",
    )
    columns = {"name": {"pii": "show", "renamed_from": "mail"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    sync_table(workspace, workspace.config.table("t"))
    assert rows_of(workspace).column("name").to_pylist() == ["m1", "m2", "m3", "m4", "m5", "m6"]
    assert {row["name"] for row in shown(workspace, "clean")} == {f"m{n}" for n in range(1, 7)}
    assert "mail" not in rows_of(workspace).column_names
    sql("INSERT INTO t VALUES (1, 'm1', '1910-01-01', UTC_TIMESTAMP(), 'x')")
    sync_table(workspace, workspace.config.table("t"))
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_a_name_in_another_case_is_the_same_column(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    workspace = engine_for({"t": {**INCREMENTAL, "deletes": "ignore"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("DELETE FROM t WHERE id = 5", "ALTER TABLE t CHANGE mail Mail VARCHAR(50)")
    sync_table(workspace, contract)
    rows = rows_of(workspace).to_pylist()
    assert [row["Mail"] for row in rows] == ["m1", "m2", "m3", "m4", "m5"]
    assert [row["Mail"] for row in sorted(shown(workspace, "clean"), key=lambda r: r["id"])] == [
        "m1", "m2", "m3", "m4", "m5",
    ]  # fmt: skip


@pytest.mark.full
def test_a_column_that_comes_back_is_a_new_one_to_clean(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t DROP COLUMN mail")
    sync_table(workspace, contract)
    sql("ALTER TABLE t ADD COLUMN mail VARCHAR(50) NOT NULL DEFAULT 'secret' AFTER name")
    sync_table(workspace, contract)
    assert "mail" not in shown(workspace, "clean")[0]
    assert {row["mail"] for row in rows_of(workspace).to_pylist()} == {"secret"}
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    sql("ALTER TABLE t DROP COLUMN mail, ADD COLUMN mail INT")
    sync_table(workspace, contract)
    assert "mail" not in shown(workspace, "clean")[0]
    assert_equal(workspace, server, database)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "kept"), [("VARCHAR(9)", "5"), pytest.param("INT", 5, marks=pytest.mark.full)]
)
def test_a_column_that_comes_back_has_what_rows_of_the_mirror_alone_last_held_under_its_name(
    kind: str, kept: Any, engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    terms = {**INCREMENTAL, "deletes": "ignore", "new_columns": "show"}
    workspace = engine_for({"t": terms})
    contract = workspace.config.table("t")
    sql("UPDATE t SET note = id")
    sync_table(workspace, contract)
    sql("DELETE FROM t WHERE id = 5", "ALTER TABLE t DROP COLUMN note")
    sync_table(workspace, contract)
    # Of another position, or it would be the first version again.
    sql(f"ALTER TABLE t ADD COLUMN note {kind} AFTER id", "UPDATE t SET note = 9 WHERE id = 1")
    sync_table(workspace, contract)
    folded = rows_of(workspace).to_pylist()
    assert [row["note"] for row in folded[1:]] == [None, None, None, kept]
    assert {row["id"]: row["note"] for row in shown(workspace, "clean")}[5] == kept
    refold_table(workspace, contract)
    assert rows_of(workspace).to_pylist() == folded
    sql("ALTER TABLE t DROP COLUMN note")
    sync_table(workspace, contract)
    sql(f"ALTER TABLE t ADD COLUMN note {kind} AFTER id")
    sync_table(workspace, contract)
    assert [row["note"] for row in rows_of(workspace).to_pylist()] == [*[None] * 4, kept]


@pytest.mark.full
def test_a_name_that_several_columns_had_is_the_oldest_one_s_alone(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
) -> None:
    """``mail`` took the name of ``name``, and left it again: what ``name`` held is gone."""
    make(sql)
    terms = {**INCREMENTAL, "deletes": "ignore"}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql(
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t DROP name, CHANGE mail name VARCHAR(50)",
        "ALTER TABLE t CHANGE name label VARCHAR(50)",
    )
    columns = {"label": {"pii": "show", "renamed_from": ["name", "mail"]}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    assert rows_of(workspace).column("label").to_pylist() == ["m1", "m2", "m3", "m4", "m5"]
    for layer in ("raw", "clean"):
        assert {row["label"] for row in shown(workspace, layer)} == {f"m{n}" for n in range(1, 6)}
    refold_table(workspace, contract)
    assert rows_of(workspace).column("label").to_pylist() == ["m1", "m2", "m3", "m4", "m5"]


@pytest.mark.full
def test_a_name_that_was_taken_over_in_another_case_is_there_once(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t DROP name, CHANGE mail NAME VARCHAR(50)")
    columns = {"NAME": {"pii": "show", "renamed_from": "mail"}}
    workspace = engine_for({"t": {**INCREMENTAL, "columns": columns}})
    sync_table(workspace, workspace.config.table("t"))
    names = workspace.spark.get().sql(
        f"SELECT NAME FROM lake.{workspace.config.table('t').namespaces.raw}.t"
    )
    assert {row[0] for row in names.collect()} == {f"m{n}" for n in range(1, 6)}


@pytest.mark.full
def test_a_version_that_came_back_is_read_again_though_its_first_load_died(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("ALTER TABLE t MODIFY name VARCHAR(50)", "UPDATE t SET name = 'a long name of one row'")
    sync_table(workspace, contract)
    sql("SET sql_mode = ''", "ALTER TABLE t MODIFY name VARCHAR(20)")  # cuts what is too long

    def die(*_: object) -> None:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.operations.loading.sync.load_window", die)
        with pytest.raises(RuntimeError):
            sync_table(workspace, contract)
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)


@pytest.mark.parametrize("clean", [pytest.param("view", marks=pytest.mark.full), "table"])
def test_readers_of_clean_and_raw_never_meet_an_error(
    clean: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(sql)
    terms = {**INCREMENTAL, "clean": clean}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t CHANGE mail address VARCHAR(50), DROP COLUMN note")
    columns = {"address": {"pii": "show", "renamed_from": "mail"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    contract = workspace.config.table("t")
    seen: list[set[str]] = []

    def look(*_: object) -> None:
        rows = shown(workspace, "clean")
        assert len(rows) == 5
        assert {row.get("mail", row.get("address")) for row in rows} == {
            "m1", "m2", "m3", "m4", "m5",
        }  # fmt: skip
        seen.append(set(rows[0]))
        assert len({row["id"] for row in shown(workspace, "raw")}) == 5

    really = reshape.reshape

    def reshaped(*arguments: Any) -> None:
        look()
        really(*arguments)
        look()

    monkeypatch.setattr(reshape, "reshape", reshaped)
    for place in (
        "mirrorlake.merge.fold",
        "mirrorlake.merge.overwrite",
        "mirrorlake.operations.loading.fold",
        "mirrorlake.load.chunks.finishing",
    ):
        if hasattr(__import__(place, fromlist=["x"]), "failpoint"):
            monkeypatch.setattr(f"{place}.failpoint", look)
    sync_table(workspace, contract)
    look()
    assert "mail" in seen[0]
    assert {"address"} == seen[-1] & {"address", "mail", "note"}


@pytest.mark.parametrize(
    "step", ["fold.before", pytest.param("fold.committed", marks=pytest.mark.full)]
)
def test_a_fold_that_died_after_columns_were_renamed_is_made_again(
    step: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make(sql)
    terms = {**INCREMENTAL, "deletes": "ignore"}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql("DELETE FROM t WHERE id = 5", "ALTER TABLE t CHANGE born birth DATE")
    columns = {"birth": {"pii": "show", "renamed_from": "born"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    contract = workspace.config.table("t")

    def die(name: str) -> None:
        if name == step:
            raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr("mirrorlake.merge.fold.failpoint", die)
        patched.setattr("mirrorlake.merge.overwrite.failpoint", die)
        with pytest.raises(RuntimeError):
            sync_table(workspace, contract)
    sync_table(workspace, contract)
    lost = rows_of(workspace).to_pylist()[4]
    assert lost[ORIGINAL] == [{"column": "birth", "text": "1999-00-00"}]


def test_freeze_leaves_out_what_is_added_and_stops_at_anything_else(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    terms = {**INCREMENTAL, "schema_changes": "freeze"}
    workspace = engine_for({"t": terms})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(
        "ALTER TABLE t ADD COLUMN extra INT AFTER id",
        "INSERT INTO t VALUES (6, 7, 'n6', 'm6', NULL, UTC_TIMESTAMP(), 'y')",
        "UPDATE t SET extra = 1, name = 'moved', at = UTC_TIMESTAMP() WHERE id = 1",
    )
    sync_table(workspace, contract)
    rows = rows_of(workspace).to_pylist()
    assert "extra" not in rows[0]
    assert (rows[0]["name"], len(rows)) == ("moved", 6)
    assert len(workspace.ledger.schema_versions(contract.name)) == 1
    checked = check_table(workspace, contract, Ask("full"))
    assert (checked.verdict, checked.not_mirrored) == ("equal", ("extra",))
    (status,) = status_of(workspace.config, workspace.ledger, [contract])
    assert status.not_mirrored == ("extra",)
    assert "not mirrored, by `schema_changes: freeze`: extra" in status.checks
    sql("ALTER TABLE t DROP COLUMN mail")
    with pytest.raises(SchemaError, match="mail was dropped; and its contract says `schema_ch"):
        sync_table(workspace, contract)
    # A contract that names the column speaks, and one that evolves takes all of it up.
    sql("ALTER TABLE t ADD COLUMN mail VARCHAR(50) AFTER name")
    speaks = {**terms, "columns": {"extra": {"pii": "show"}}}
    workspace = engine_for({"t": speaks})
    sync_table(workspace, workspace.config.table("t"))
    assert [row["extra"] for row in shown(workspace, "clean") if row["id"] == 6] == [7]
    (status,) = status_of(workspace.config, workspace.ledger, [contract])
    assert status.not_mirrored == ()
    sql("ALTER TABLE t DROP COLUMN mail")
    named = {**terms, "schema_changes": "evolve"}
    workspace = engine_for({"t": named})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    assert [row["extra"] for row in rows_of(workspace).to_pylist()] == [
        1,
        None,
        None,
        None,
        None,
        7,
    ]


@pytest.mark.full
def test_fail_stops_the_table_alone_and_what_waited_is_read_when_it_goes_on(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    make(sql)
    terms = {**INCREMENTAL, "schema_changes": "fail"}
    workspace = engine_for({"t": terms})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    before = rows_of(workspace)
    sql("ALTER TABLE t ADD COLUMN extra INT")
    sql(f"INSERT INTO t VALUES (6, 'n6', 'm6', NULL, '{YESTERDAY} 12:00:00', 'y', 3)")
    with pytest.raises(SchemaError, match="extra was added; and its contract says"):
        sync_table(workspace, contract)
    with pytest.raises(SchemaError, match="extra was added"):
        fold_table(workspace, contract)
    assert rows_of(workspace).equals(before)
    workspace = engine_for({"t": INCREMENTAL})
    sync_table(workspace, workspace.config.table("t"))
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_a_fold_between_a_drop_and_its_load_waits_for_the_load(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("UPDATE t SET name = 'moved', at = UTC_TIMESTAMP() WHERE id = 1")
    load_table(workspace, contract)
    sql("ALTER TABLE t DROP COLUMN mail")
    with pytest.raises(SchemaMoved):
        fold_table(workspace, contract)
    assert "mail" in rows_of(workspace).column_names


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"note": {"pii": "show", "renamed_from": "mail"}}, "MySQL still has a column"),
        ({"note": {"pii": "show", "renamed_from": "nam"}}, "did you mean 'name'"),
        ({"gone": {"pii": "show", "renamed_from": "mail"}}, "has no column 'gone'"),
    ],
)
def test_a_hint_that_can_not_be_true_names_its_line(
    rule: dict[str, Any],
    words: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    sync_table(workspace, workspace.config.table("t"))
    before = rows_of(workspace)
    workspace = engine_for({"t": {**INCREMENTAL, "columns": rule}})
    with pytest.raises((ConfigError, SchemaError), match=words) as refused:
        sync_table(workspace, workspace.config.table("t"))
    assert "mirrorlake.yaml:" in str(refused.value)
    assert rows_of(workspace).equals(before)


RULED: dict[str, Any] = {
    "mail": {"pii": "mask"}, "note": {"pci": "never"}, "born": {"pii": "null", "renamed_from": "b"},
}  # fmt: skip
STALE = "the contract has a rule for it, and MySQL has it no longer"


@pytest.mark.full
def test_a_rule_whose_column_mysql_dropped_is_a_warning(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And one for a column that it never had is still refused: that may be a typing error."""
    make(sql)
    sql("ALTER TABLE t CHANGE born b DATE")
    show = {**INCREMENTAL, "new_columns": "show"}
    early = engine_for({"t": {**show, "columns": {"mail": RULED["mail"], "bron": {"pii": "null"}}}})
    with pytest.raises(SchemaError, match="has no column 'bron'"):
        sync_table(early, early.config.table("t"))
    before = engine_for({"t": {**show, "columns": {n: RULED[n] for n in ("mail", "note")}}})
    sync_table(before, before.config.table("t"))
    sql("ALTER TABLE t CHANGE b born DATE")
    workspace = engine_for({"t": {**show, "columns": RULED}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    caplog.clear()
    # One that a rule hides gets another name, and nobody says so.
    sql("ALTER TABLE t DROP COLUMN note, DROP COLUMN born, CHANGE mail address VARCHAR(50)")
    with pytest.raises(SchemaError, match="note, which is marked `pci: never`, is gone") as refused:
        sync_table(workspace, contract)
    assert "address is new: it may be the same column, renamed" in str(refused.value)
    sql("ALTER TABLE t DROP COLUMN address")
    sync_table(workspace, contract)
    assert f"born, mail, note: {STALE}" in caplog.text
    assert_equal(workspace, server, database)
    assert set(shown(workspace, "clean")[0]) - {ORIGINAL} == {"id", "name", "at"}
    warned = [one.detail for one in diagnose_contract(workspace.config.path) if STALE in one.detail]
    assert [words.partition(":")[0] for words in warned] == ["born, mail, note"]
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    # `new_columns: show` does not show what may be the column that the rule hid.
    workspace = engine_for({"t": {**show, "columns": {"mail": RULED["mail"]}}})
    contract = workspace.config.table("t")
    for column in ("address", "further"):
        sql(f"ALTER TABLE t ADD COLUMN {column} VARCHAR(9) DEFAULT 'a@b'")
        sync_table(workspace, contract)
        assert set(shown(workspace, "clean")[0]) - {ORIGINAL} == {"id", "name", "at"}
    workspace = engine_for({"t": {**show, "columns": {"address": {"pii": "drop"}}}})
    sync_table(workspace, workspace.config.table("t"))
    assert set(shown(workspace, "clean")[0]) - {ORIGINAL} == {"id", "name", "at", "further"}


@pytest.mark.full
def test_a_column_that_is_never_to_be_read_is_refused_under_its_old_name_too(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t CHANGE mail address VARCHAR(50)")
    rule = {"address": {"pci": "never", "renamed_from": "mail"}}
    workspace = engine_for({"t": {**INCREMENTAL, "columns": rule}})
    with pytest.raises(SchemaError, match="mail is marked `pci: never`, and its mirror holds it"):
        sync_table(workspace, workspace.config.table("t"))


def test_every_shape_that_a_table_had_is_shown(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    make(sql)
    workspace = engine_for({"t": INCREMENTAL})
    contract = workspace.config.table("t")
    assert shapes_of(workspace, contract).versions == ()
    sync_table(workspace, contract)
    sql("ALTER TABLE t MODIFY id BIGINT NOT NULL, DROP COLUMN note")
    sync_table(workspace, contract)
    sql("ALTER TABLE t CHANGE mail address VARCHAR(50)")
    columns = {"address": {"pii": "show", "renamed_from": "mail"}}
    workspace = engine_for({"t": {**INCREMENTAL, "columns": columns}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    shapes = shapes_of(workspace, contract)
    assert [one.changes for one in shapes.versions] == [
        (),
        ("note was dropped", "id was int, is bigint"),
        ("mail was renamed address",),
    ]
    assert [one.loads for one in shapes.versions] == [1, 1, 1]
    assert all("CREATE TABLE" in (one.ddl or "") for one in shapes.versions)
    assert "`note`" in str(shapes.versions[0].ddl)
    found = {c.name: (c.types, c.lake, c.since, c.until, c.former) for c in shapes.columns}
    assert found["id"] == (("int", "bigint"), "long", 1, 3, ())
    assert found["address"] == (("varchar(50)",), "string", 1, 3, ("mail",))
    assert found["note"] == (("varchar(9)",), "string", 1, 1, ())
    place = ["--config", str(workspace.config.path)]
    shown = CliRunner().invoke(cli, ["schema", "t", "--ddl", *place])
    assert shown.exit_code == 0
    assert "mail was renamed address" in shown.output
    assert "1, gone" in shown.output
    printed = json.loads(CliRunner().invoke(cli, ["schema", "t", "--json", *place]).stdout)
    assert [one["number"] for one in printed["versions"]] == [1, 2, 3]
    # A version that comes back was first seen when it was.
    first = shapes.versions[0]
    workspace.ledger.record_schema_version(
        contract.name, workspace.ledger.schema_versions(contract.name)[0]
    )
    again = shapes_of(workspace, contract).versions[-1]
    assert (again.hash, again.first_seen) == (first.hash, first.first_seen)


@pytest.mark.full
def test_hostile_names_are_renamed_and_dropped(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    sql(
        """CREATE TABLE t (id INT NOT NULL, `q'u"o\\\\te` DATE, `ba``ck.t,ick` DATE, `ünï 🦆` DATE,
        at DATETIME NOT NULL, PRIMARY KEY (id), KEY (at))""".replace("🦆", "x"),
        "SET sql_mode = ''",
        f"INSERT INTO t VALUES (1, '1999-00-00', '1998-00-00', '1997-00-00', '{YESTERDAY}'),"
        f" (2, '1999-00-01', '1998-00-01', '1997-00-01', '{YESTERDAY}')",
    )
    terms = {**INCREMENTAL, "deletes": "ignore"}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql(
        "DELETE FROM t WHERE id = 2",
        """ALTER TABLE t CHANGE `q'u"o\\\\te` `n'e,w "x` DATE, DROP COLUMN `ba``ck.t,ick`""",
    )
    columns = {"n'e,w \"x": {"pii": "show", "renamed_from": "q'u\"o\\\\te"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    lost = rows_of(workspace).to_pylist()[1]
    assert lost[ORIGINAL] == [
        {"column": "n'e,w \"x", "text": "1999-00-01"},
        {"column": "ünï x", "text": "1997-00-01"},
    ]
    raw = [row for row in shown(workspace, "raw") if row["id"] == 2]
    assert {entry.text for row in raw for entry in row[ORIGINAL]} == {
        "1999-00-01", "1998-00-01", "1997-00-01",
    }  # fmt: skip
    refold_table(workspace, contract)
    assert rows_of(workspace).to_pylist()[1] == lost


def workspace_deduped(workspace: Workspace) -> Identifier:
    return Identifier(workspace.config.table("t").namespaces.deduped, "t")
