"""Tables of `mode: binlog` that are altered: what the log tells of it is followed, the rest read
again as a whole; after either the mirror is MySQL, row by row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo.embedded import EmbeddedServer
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.checking.check_layers import prove_raw_layer
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import LOG, assert_equal, kinds, sync_all

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), at DATETIME(3),"
    " amount DECIMAL(12,2) UNSIGNED, data JSON, note CHAR(5), kind ENUM('a','b') NOT NULL)"
)
ROWS = (
    "INSERT INTO t VALUES (1, 'a', '2026-01-01', 1, '{}', 'x', 'a'), (2, 'b', 0, 2, NULL, NULL, 'b'),"
    " (3, 'c', NULL, NULL, NULL, '', 'a')"
)


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


FOLLOWED = {
    "null": ("ALTER TABLE t ADD COLUMN more INT",),
    "null-first": ("ALTER TABLE t ADD COLUMN more DATETIME(6) NULL FIRST",),
    "default": (
        "ALTER TABLE t ADD COLUMN more INT NOT NULL DEFAULT 7, ADD price DECIMAL(10,3) DEFAULT 1.5,"
        " ADD word VARCHAR(9) DEFAULT 'it', ADD day DATE DEFAULT '2026-02-28',"
        " ADD which ENUM('p','q') NOT NULL, ADD big BIGINT UNSIGNED NOT NULL",
        "UPDATE t SET more = 8 WHERE id = 2",
    ),
    "drop": ("ALTER TABLE t DROP COLUMN name, DROP COLUMN at",),
    "wider": (
        "ALTER TABLE t MODIFY amount DECIMAL(14,2) UNSIGNED, MODIFY name VARCHAR(200),"
        " MODIFY note VARCHAR(9), MODIFY kind ENUM('a','b','c') NOT NULL",
        "INSERT INTO t VALUES (9, REPEAT('n', 100), NULL, 123456789012.25, NULL, 'long note', 'c')",
    ),
    "index": (
        "ALTER TABLE t ADD INDEX (name), ADD UNIQUE u (name, note), COMMENT = 'it''s'",
        "UPDATE t SET name = 'i' WHERE id = 1",
        "DROP INDEX u ON t",
        "CREATE INDEX v ON t (amount)",
        "ALTER TABLE t MODIFY note CHAR(5) COMMENT 'a note'",
        "ALTER TABLE t ALTER COLUMN name SET DEFAULT 'none'",
    ),
    "rebuilt": (
        "ALTER TABLE t ENGINE = InnoDB",
        "UPDATE t SET name = 'r' WHERE id = 1",
        "OPTIMIZE TABLE t",
        "ALTER TABLE t FORCE",
    ),
    "two": (
        "ALTER TABLE t ADD COLUMN one INT DEFAULT 1",
        "ALTER TABLE t ADD COLUMN two INT DEFAULT 2",
        "UPDATE t SET one = 5 WHERE id = 1",
        "ALTER TABLE t MODIFY one BIGINT, DROP COLUMN two",
    ),
    "add-drop": (
        "ALTER TABLE t ADD COLUMN gone INT",
        "UPDATE t SET gone = 8, name = 'g' WHERE id = 1",
        "ALTER TABLE t DROP COLUMN gone",
    ),
    "truncate": ("TRUNCATE t",),
    "truncate-between": (
        "INSERT INTO t (id, kind) VALUES (20, 'b')",
        "TRUNCATE TABLE t",
        "INSERT INTO t (id, kind) VALUES (1, 'a'), (21, 'b')",
        "ALTER TABLE t ADD COLUMN more INT DEFAULT 3",
        "INSERT INTO t (id, kind) VALUES (22, 'b')",
    ),
    "others": (
        "CREATE VIEW v AS SELECT id FROM t",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.note = 'g'",
        "CREATE TABLE IF NOT EXISTS t (id INT)",
        "ALTER USER CURRENT_USER() ACCOUNT UNLOCK",
        "DROP TRIGGER g",
    ),
    "null-allowed": ("ALTER TABLE t MODIFY kind ENUM('a','b') NULL", "UPDATE t SET kind = NULL"),
}
COPIED = {
    "clock": ("ALTER TABLE t ADD COLUMN made DATETIME DEFAULT CURRENT_TIMESTAMP",),
    "computed": ("ALTER TABLE t ADD COLUMN twice INT AS (id * 2) STORED",),
    "shorter": ("ALTER TABLE t MODIFY name VARCHAR(3)",),
    "scale": ("ALTER TABLE t MODIFY amount DECIMAL(12,1) UNSIGNED",),
    "not-null": ("ALTER TABLE t MODIFY name VARCHAR(20) NOT NULL",),
    "again": (
        "ALTER TABLE t DROP COLUMN note",
        "INSERT INTO t (id, kind) VALUES (30, 'a')",
        "ALTER TABLE t ADD COLUMN note CHAR(5)",
    ),
    "renamed": ("ALTER TABLE t CHANGE name called VARCHAR(20)",),
    "charset": ("ALTER TABLE t CONVERT TO CHARACTER SET latin1",),
    "ghost": (
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho ADD COLUMN more INT DEFAULT 4",
        "INSERT INTO _t_gho (id, name, kind) SELECT id, name, kind FROM t",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "UPDATE t SET name = 'after' WHERE id = 1",
        "DROP TABLE _t_del",
    ),
    "made-again": (
        "DROP TABLE t",
        TABLE,
        "INSERT INTO t (id, kind) VALUES (2, 'b'), (40, 'a')",
    ),
}


@pytest.mark.parametrize("name", [*FOLLOWED, *COPIED])
def test_a_table_that_is_altered(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, name: str
) -> None:
    sql(TABLE, ROWS)
    workspace = engine_for({"t": {**LOG, "shrink_limit": None}})
    contract = workspace.config.table("t")
    sync_all(workspace)
    sql("INSERT INTO t (id, kind) VALUES (4, 'b')", "DELETE FROM t WHERE id = 3")
    sql(*(FOLLOWED | COPIED)[name], "INSERT INTO t (id) VALUES (50)")
    sync_all(workspace)
    assert_equal(workspace, server)
    assert ("initial" in kinds(workspace, "t")[1:]) == (name in COPIED), kinds(workspace, "t")
    assert check_table(workspace, contract, Ask("full")).verdict == "equal"
    assert prove_raw_layer(workspace, contract).verdict == "equal"
    sql("INSERT INTO t (id) VALUES (51)", "DELETE FROM t WHERE id = 50")
    assert sync_table(workspace, contract).window == "log"
    assert_equal(workspace, server)
    assert sync_table(workspace, contract).window == "unchanged"
    assert len([kind for kind in kinds(workspace, "t") if kind == "initial"]) == 1 + (name in COPIED)
