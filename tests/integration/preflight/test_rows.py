"""Migrations that leave a table with few rows: preflight says that the next sync stops at a copy
that shrinks, if and only if it does."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.errors import SourceError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.preflight.tables import Preflight, preflight
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace

COLUMNS = (
    "`id` int(11) NOT NULL AUTO_INCREMENT, `n` int(11) DEFAULT NULL, `at` datetime NOT NULL, "
    "PRIMARY KEY (`id`), KEY `at` (`at`)"
)
FEW = "(1, 1, '2020-01-01')"
MANY = ", ".join(f"({n}, {n}, '2020-01-01')" for n in range(1, 21))
MODES: dict[str, dict[str, Any]] = {
    "full": {"mode": "full", "key": ["id"]},
    "incremental": {"mode": "incremental", "key": ["id"], "cursor": "at"},
    "append": {"mode": "append", "key": ["id"], "cursor": "id"},
    "kept": {"mode": "incremental", "key": ["id"], "cursor": "at", "deletes": "flag"},
    "careless": {"mode": "full", "key": ["id"], "shrink_limit": None},
}
ROTATED = "RENAME TABLE t TO t_old; CREATE TABLE t LIKE t_old"
SWAPPED = "CREATE TABLE t_new LIKE t; RENAME TABLE t TO t_old, t_new TO t"
DUMPED = "DROP TABLE IF EXISTS t; {create}; INSERT INTO t VALUES {rows}"
STOPPING = {
    (ROTATED, "full"), (ROTATED, "incremental"), (ROTATED, "append"), (SWAPPED, "full"),
    (SWAPPED, "incremental"), (f"{ROTATED}; INSERT INTO t VALUES {FEW}", "full"),
    (DUMPED.replace("{rows}", FEW), "full"), (DUMPED.replace("{rows}", FEW), "incremental"),
    ("TRUNCATE t", "full"), ("TRUNCATE t", "incremental"), ("DELETE FROM t", "full"),
}  # fmt: skip
GOING_ON = {
    (ROTATED, "kept"), (ROTATED, "careless"), ("TRUNCATE t", "careless"),
    (DUMPED.replace("{rows}", MANY), "full"), (DUMPED.replace("{rows}", MANY), "incremental"),
    (f"{ROTATED}; INSERT INTO t VALUES {MANY}", "full"), ("DELETE FROM t", "incremental"),
}  # fmt: skip
UNMARKED = {(ROTATED, "full"), (ROTATED, "incremental"), (DUMPED.replace("{rows}", FEW), "full"),
            (DUMPED.replace("{rows}", FEW), "incremental")}  # fmt: skip


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def said_of(workspace: Workspace, text: str) -> tuple[Preflight, str]:
    name = workspace.config.table("t").name
    found = next(one for one in preflight(workspace, text) if one.table == name)
    return found, "\n".join(f"{f.severity}: {f.words} {f.next_step}" for f in found.findings)


def run(sql: Callable[..., Any], text: str) -> None:
    for statement in text.split("; "):
        sql(statement)


@pytest.mark.full
@pytest.mark.parametrize(
    ("text", "mode"),
    [
        one if one in UNMARKED else pytest.param(*one, marks=pytest.mark.full)
        for one in sorted(STOPPING | GOING_ON)
    ],
)
def test_it_says_that_the_next_sync_stops_if_it_does(
    text: str, mode: str, sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql(f"CREATE TABLE t ({COLUMNS})", f"INSERT INTO t VALUES {MANY}")
    workspace = engine_for({"t": MODES[mode]})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    time.sleep(1.1)  # servers keep the second in which a table was made
    [(_, create)] = sql("SHOW CREATE TABLE t")
    migration = text.replace("{create}", create)
    found, words = said_of(workspace, migration)
    run(sql, migration)
    stopped = None
    try:
        sync_table(workspace, contract)
    except SourceError as error:
        stopped = error
    assert (stopped is not None) == ((text, mode) in STOPPING)
    assert ("breaks" in words and "its next sync stops: " in words) == (stopped is not None), words
    if stopped is not None:
        assert "less, and shrink_limit is 90%" in stopped.message
        assert found.severity == "breaks"
        assert f"`mirrorlake sync {contract.name} --accept-smaller`" in words


def test_what_can_not_be_told_is_a_question(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    """How many rows an INSERT … SELECT brings, and whether a definition is what it was."""
    sql(f"CREATE TABLE t ({COLUMNS})", f"INSERT INTO t VALUES {MANY}")
    workspace = engine_for({"t": MODES["full"]})
    sync_table(workspace, workspace.config.table("t"))
    found, words = said_of(workspace, f"{ROTATED}; INSERT INTO t SELECT * FROM t_old WHERE id > 5")
    assert found.severity == "attention"
    assert "how many rows it has then can't be told: with none, or 90% fewer than the 20" in words
    sql("CREATE TABLE t_gho LIKE t")
    found, words = said_of(workspace, "RENAME TABLE t TO t_del, t_gho TO t")
    assert found.severity == "attention"
    assert "with the rows of t_gho as it is now, its next sync stops" in words
    workspace = engine_for(
        {"t": MODES["incremental"]}, namespaces={"raw": "q_raw", "deduped": "q", "clean": "q_clean"}
    )
    sync_table(workspace, workspace.config.table("t"))
    found, words = said_of(workspace, f"DROP TABLE t; CREATE TABLE t ({COLUMNS})")
    assert found.severity == "attention"
    assert (
        "if its definition is as it was, its next sync stops: a new history would have 0" in words
    )
