"""Keys whose values are written otherwise after a change of their declaration: rows of then meet no
row of now. The table is read into a new history, or refused where only the mirror holds rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.operations.loading.sync import reload_days, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.mirrored import assert_equal, rows_of

TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)
CI = "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
LABELS = f"k VARCHAR(9) {CI} NOT NULL, e ENUM('a','b') NOT NULL"
CHANGES = {
    "length of a text": (f"k VARCHAR(10) {CI} NOT NULL", f"k VARCHAR(20) {CI} NOT NULL", "k"),
    "label in the middle": (LABELS, "e ENUM('a','x','b') NOT NULL", "k, e"),
    "digits of a time": ("k TIME NOT NULL", "k TIME(3) NOT NULL", "k"),
    "long decimal": ("k DECIMAL(40,0) NOT NULL", "k DECIMAL(41,1) NOT NULL", "k"),
    "bytes": ("k BINARY(4) NOT NULL", "k BINARY(8) NOT NULL", "k"),
    "order of a set": ("k SET('1','2') NOT NULL", "k SET('2','1') NOT NULL", "k"),
}
OFTEN = ("length of a text",)
IN_CHANGES = pytest.mark.parametrize(
    "what", [w if w in OFTEN else pytest.param(w, marks=pytest.mark.full) for w in CHANGES]
)


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def make(sql: Callable[..., Any], what: str, **terms: Any) -> dict[str, Any]:
    before, _, key = CHANGES[what]
    values = ["1, 'b'", "2, 'a'"] if what == "label in the middle" else ["1", "2"]
    sql(
        f"CREATE TABLE t ({before}, id INT, v INT, at DATETIME NOT NULL, PRIMARY KEY ({key}),"
        " KEY (at))",
        *(
            f"INSERT INTO t VALUES ({v}, {n}, {n}, '{YESTERDAY} 01:00:00')"
            for n, v in enumerate(values)
        ),
    )
    return {"mode": "incremental", "key": key.split(", "), "cursor": "at", **terms}


@pytest.mark.full
@IN_CHANGES
def test_no_row_is_there_twice(
    what: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    workspace = engine_for({"t": make(sql, what, clean="table")})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql("UPDATE t SET v = 5, at = UTC_TIMESTAMP() WHERE id = 0")
    sync_table(workspace, contract)
    sql(f"ALTER TABLE t MODIFY {CHANGES[what][1]}, MODIFY v VARCHAR(9)")
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)
    assert rows_of(workspace).num_rows == 2


@pytest.mark.full
@pytest.mark.parametrize("what", CHANGES)
def test_what_was_keyed_again_goes_on(
    what: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    """By a reload, by windows, without a column, and made again."""
    workspace = engine_for({"t": make(sql, what, clean="table")})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(f"ALTER TABLE t MODIFY {CHANGES[what][1]}, MODIFY v VARCHAR(9)")
    sync_table(workspace, contract)
    reload_days(workspace, contract, TODAY, TODAY)
    sync_table(workspace, contract)
    sql("ALTER TABLE t DROP v")
    sync_table(workspace, contract)
    refold_table(workspace, contract)
    assert rows_of(workspace).num_rows == 2
    assert_equal(workspace, server, database)


@IN_CHANGES
def test_rows_that_only_the_mirror_holds_stop_it(
    what: str, engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    workspace = engine_for({"t": make(sql, what, deletes="ignore")})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(f"ALTER TABLE t MODIFY {CHANGES[what][1]}")
    with pytest.raises(ConfigError, match="the form of a key's values was"):
        sync_table(workspace, contract)
    assert rows_of(workspace).num_rows == 2


@pytest.mark.full
def test_a_label_at_the_end_changes_no_other(
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
) -> None:
    workspace = engine_for({"t": make(sql, "label in the middle", deletes="ignore")})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(
        "ALTER TABLE t MODIFY e ENUM('a','b','c') NOT NULL",
        "INSERT INTO t VALUES ('1', 'c', 2, 2, UTC_TIMESTAMP())",
    )
    sync_table(workspace, contract)
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_an_entity_s_token_stays_what_it_was(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, tok VARCHAR(9) {CI} NOT NULL, created DATETIME NOT NULL,"
        " KEY (tok), KEY (created))",
        "INSERT INTO t VALUES (1, 'q', '2026-01-01'), (2, 'q', '2026-02-01')",
    )
    entity = {"token": "tok", "created": "created"}
    terms = {"mode": "append", "key": ["id"], "cursor": "id", "created": "created"}
    workspace = engine_for({"t": {**terms, "entity": entity}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(f"ALTER TABLE t MODIFY tok VARCHAR(20) {CI} NOT NULL", "DELETE FROM t WHERE id = 1")
    with pytest.raises(ConfigError, match="the first times of entities"):
        sync_table(workspace, contract)


@pytest.mark.full
@pytest.mark.parametrize(
    ("declared", "altered", "words"),
    [
        ("n INT", "MODIFY n INT NOT NULL", "n could be NULL, and can't any more"),
        pytest.param(
            *(
                "n INT NOT NULL, KEY (n)",
                "MODIFY n INT NOT NULL AUTO_INCREMENT",
                "n counts by itself",
            ),
            marks=pytest.mark.full,
        ),
    ],
)
def test_a_change_that_fills_values_is_seen(
    declared: str,
    altered: str,
    words: str,
    engine_for: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A session that is not strict makes 0 of NULL, and a number of 0; no cursor moves."""
    sql(
        f"CREATE TABLE t (id INT PRIMARY KEY, at DATETIME NOT NULL, {declared}, KEY (at))",
        "SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO'",
    )
    value = "0" if "NOT NULL" in declared else "NULL"
    sql(*(f"INSERT INTO t VALUES ({n}, '{YESTERDAY}', {value})" for n in (1, 2)))
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "at"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    sql(f"ALTER TABLE t {altered}")
    sync_table(workspace, contract)
    assert words in caplog.text
    assert_equal(workspace, server, database)


@pytest.mark.full
def test_columns_that_are_one_to_spark_are_refused_before_anything_is_read(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, `as` INT, `aſ` INT, at DATETIME NOT NULL, KEY (at))")
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "at"}})
    with pytest.raises(SchemaError, match="are one name to Spark"):
        sync_table(workspace, workspace.config.table("t"))


def test_an_earlier_name_that_comes_back(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    """What was masked would be shown under the old name, of rows that only the mirror holds."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9), at DATETIME NOT NULL, KEY (at))",
        f"INSERT INTO t VALUES (1, 'secret', '{YESTERDAY}')",
    )
    terms = {"mode": "incremental", "key": ["id"], "cursor": "at", "deletes": "ignore"}
    workspace = engine_for({"t": {**terms, "columns": {"a": {"pii": "null"}}}})
    sync_table(workspace, workspace.config.table("t"))
    sql("DELETE FROM t", "ALTER TABLE t CHANGE a b VARCHAR(9)")
    said = {"b": {"pii": "null", "renamed_from": "a"}}
    workspace = engine_for({"t": {**terms, "columns": said}})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t ADD a VARCHAR(9)")
    with pytest.raises(ConfigError, match="MySQL has a column of that name again"):
        sync_table(workspace, workspace.config.table("t"))
    columns = {"b": {"pii": "null"}, "a": {"pii": "show"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    with pytest.raises(ConfigError, match="a was renamed b, as the contract said before"):
        sync_table(workspace, workspace.config.table("t"))


@pytest.mark.full
def test_names_that_differ_by_a_sharp_s_are_two(
    engine_for: Callable[..., Workspace], sql: Callable[..., Any]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, `straße` INT, at DATETIME NOT NULL, KEY (at))")
    terms = {"mode": "incremental", "key": ["id"], "cursor": "at", "clean": "table"}
    workspace = engine_for({"t": terms})
    sync_table(workspace, workspace.config.table("t"))
    sql("ALTER TABLE t ADD strasse INT DEFAULT 7", f"INSERT INTO t VALUES (1, 2, '{YESTERDAY}', 3)")
    sync_table(workspace, workspace.config.table("t"))
    assert "strasse" in rows_of(workspace).column_names
    assert "strasse" not in rows_of(workspace, "clean").column_names
    columns = {"straße": {"pii": "null"}, "strasse": {"pii": "show"}}
    workspace = engine_for({"t": {**terms, "columns": columns}})
    sync_table(workspace, workspace.config.table("t"))
    [row] = rows_of(workspace, "clean").to_pylist()
    assert (row["straße"], row["strasse"]) == (None, 3)
