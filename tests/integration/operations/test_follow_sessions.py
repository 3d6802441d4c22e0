"""Statements in the log whose words alone do not say what they did: it depends on their session, on
a temporary table of theirs, on capitals, or on columns that are computed. The mirror is MySQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.types import IntegerType

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import LOG, assert_equal, sync_all

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


COLUMNS = "(id INT PRIMARY KEY, w CHAR(8))"
CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "named": (COLUMNS, ("TRUNCATE NAMED",)),
    "tmp": (
        COLUMNS,
        (
            "SET SESSION binlog_format = STATEMENT",
            "CREATE TEMPORARY TABLE tmp (id INT PRIMARY KEY)",
            "TRUNCATE TABLE tmp",
            "DROP TEMPORARY TABLE tmp",
        ),
    ),
    "role": (COLUMNS, ("TRUNCATE role", "INSERT INTO role VALUES (7, 'new')")),
    "bücher": (
        COLUMNS,
        ("TRUNCATE /* user=etl */ bücher", "INSERT INTO bücher VALUES (7, 'new')"),
    ),
    "com7": (COLUMNS, ("# of an event\nTRUNCATE com7", "INSERT INTO com7 VALUES (7, 'new')")),
    "formula": (
        "(id INT PRIMARY KEY, w CHAR(8), g INT AS (id * 2) STORED)",
        ("ALTER TABLE formula MODIFY g INT AS (id * 3) STORED",),
    ),
    "base": (
        "(id INT PRIMARY KEY, w CHAR(8), b BIT(3) DEFAULT 1, g INT AS (LENGTH(b)) STORED)",
        ("ALTER TABLE base MODIFY b BIT(12)",),
    ),
    "zeros": (
        "(id INT PRIMARY KEY, w CHAR(8), n INT(3) ZEROFILL DEFAULT 7,"
        " g VARCHAR(20) AS (CONCAT(n)) VIRTUAL)",
        ("ALTER TABLE zeros MODIFY n INT(6) ZEROFILL",),
    ),
    "padded": (
        COLUMNS,
        ("SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'", "ALTER TABLE padded MODIFY w VARCHAR(20)"),
    ),
    "swedish": (
        COLUMNS,
        ("SET NAMES swe7", "ALTER TABLE swedish ADD COLUMN c VARCHAR(20) DEFAULT '[{'"),
    ),
    "nothing": (
        COLUMNS,
        ("SET sql_mode = 'EMPTY_STRING_IS_NULL'", "ALTER TABLE nothing ADD c CHAR(5) DEFAULT ''"),
    ),
    "ignored": (COLUMNS, ("ALTER IGNORE TABLE ignored ADD COLUMN x INT DEFAULT 5 UNIQUE",)),
    "twice": (
        COLUMNS,
        ("ALTER TABLE twice ADD x INT NOT NULL DEFAULT 5, ALTER COLUMN x DROP DEFAULT",),
    ),
    "filled": (
        COLUMNS,
        (
            "SET SESSION explicit_defaults_for_timestamp = 0",
            "ALTER TABLE filled ADD COLUMN ts TIMESTAMP",
            "ALTER TABLE filled MODIFY ts TIMESTAMP NULL DEFAULT NULL",
            "SET SESSION explicit_defaults_for_timestamp = 1",
        ),
    ),
    "passed": (COLUMNS, ("ALTER TABLE passed ADD COLUMN x TEXT DEFAULT ''",)),
    "invalid": (
        "(id INT PRIMARY KEY, w CHAR(8), d DATETIME DEFAULT '2020-01-01')",
        (
            "SET sql_mode = 'ALLOW_INVALID_DATES'",
            "UPDATE invalid SET d = '2020-02-31' WHERE id = 1",
            "SET sql_mode = ''",
            "ALTER TABLE invalid FORCE, ALGORITHM = COPY",
        ),
    ),
    "partial": (
        "(id INT PRIMARY KEY, w CHAR(8), d DATETIME(3))",
        (
            "UPDATE partial SET d = '2024-00-15' WHERE id = 1",
            "SET sql_mode = 'NO_ZERO_IN_DATE'",
            "ALTER TABLE partial ENGINE = InnoDB, ALGORITHM = COPY",
        ),
    ),
    "quoted": (
        COLUMNS,
        ('TRUNCATE /* 5" */ TABLE quoted /* 3" */', "ALTER TABLE quoted ADD z INT"),
    ),
    "ग्राहक": (COLUMNS, ("TRUNCATE TABLE ग्राहक", "ALTER TABLE `ग्राहक` ADD INDEX (w)")),
    "comment": (
        COLUMNS,
        ("/*M!100000 TRUNCATE TABLE comment */", "ALTER TABLE comment ADD INDEX (w)"),
    ),
    "kept": (
        COLUMNS,
        (
            "CREATE PROCEDURE nightly() BEGIN CREATE TEMPORARY TABLE some (id INT, w CHAR(8));"
            " INSERT INTO some SELECT id + 10, w FROM kept; TRUNCATE TABLE kept;"
            " INSERT INTO kept SELECT * FROM some; DROP TEMPORARY TABLE some; END",
            "CALL nightly()",
            "ALTER TABLE kept ADD INDEX (w)",
        ),
    ),
    "local": (
        "(id INT PRIMARY KEY, w CHAR(8), ts TIMESTAMP NULL DEFAULT '2020-01-01 23:00:00',"
        " g VARCHAR(40) AS (CAST(ts AS CHAR)) STORED)",
        (
            "SET time_zone = '+05:00'",
            "ALTER TABLE local ADD INDEX (g), ALGORITHM = COPY",
            "SET time_zone = '+00:00'",
        ),
    ),
    "straße": (
        "(id INT PRIMARY KEY, w CHAR(8), straße INT DEFAULT 1, strasse INT DEFAULT 2)",
        ("ALTER TABLE straße ADD INDEX (strasse)",),
    ),
}
_MARIADB_ALONE = {"nothing", "ignored", "twice", "comment"}
IN_PLACE_OF_ROWS = (
    "UPDATE t SET w = 'c'",
    "-- by hand\nUPDATE t SET w = 'c'",
    "--\1\nUPDATE t SET w = 'c'",
    "/*!50000 UPDATE t SET */ w = 'c'",
)
IN_PLACE_OF_ROWS_OF_MARIADB = (
    "SET STATEMENT max_statement_time = 10 FOR UPDATE t SET w = 'c'",
    "SET STATEMENT /* it's */ max_statement_time = 10 FOR UPDATE t SET w = 'c'",
    "ANALYZE UPDATE t SET w = 'c'",
    "/*M!100000 UPDATE t SET */ w = 'c'",
    "CREATE TABLE made SELECT changes_t()",  # MySQL refuses it where transactions have GTIDs
)


def test_the_mirror_is_mysql(server: EmbeddedServer, sql: Sql, engine_for: EngineFor) -> None:
    cases = {
        name: case
        for name, case in CASES.items()
        if name not in _MARIADB_ALONE or isinstance(server, MariaDB)
    }
    for name, (columns, _) in cases.items():
        sql(
            f"CREATE TABLE `{name}` {columns}",
            f"INSERT INTO `{name}` (id, w) VALUES (1, 'ab'), (2, '')",
        )
    sql("CREATE TABLE NAMED LIKE named")
    workspace = engine_for({name: LOG | {"shrink_limit": None} for name in cases})
    sync_all(workspace)
    for _, statements in cases.values():
        sql(*statements, "SET SESSION binlog_format = ROW", "SET NAMES utf8mb4")
    sync_all(workspace)
    wrong: dict[str, str] = {}
    for name in cases:
        try:
            assert_equal(workspace, server, name)
        except AssertionError as error:
            wrong[name] = str(error).partition("\n")[0]
    assert not wrong


def test_rows_that_are_logged_as_statements(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    """Each by a sync of its own: who sees one of them reads all tables again."""
    more = IN_PLACE_OF_ROWS_OF_MARIADB if isinstance(server, MariaDB) else ()
    sql(f"CREATE TABLE t {COLUMNS}", "INSERT INTO t VALUES (1, 'ab'), (2, '')")
    sql(
        "CREATE FUNCTION changes_t() RETURNS INT DETERMINISTIC MODIFIES SQL DATA"
        " BEGIN UPDATE t SET w = 'c'; RETURN 1; END"
    )
    workspace = engine_for({"t": LOG})
    sync_all(workspace)
    wrong: list[str] = []
    for statement in (*IN_PLACE_OF_ROWS, *more):
        sql("SET SESSION binlog_format = STATEMENT", statement)
        sql("SET SESSION binlog_format = ROW")
        sync_all(workspace)
        try:
            assert_equal(workspace, server, "t")
        except AssertionError:
            wrong.append(statement)
        sql("UPDATE t SET w = 'ab'")
        sync_all(workspace)
    assert not wrong


def test_tables_go_with_their_database(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Each is made again at once, and rebuilt, so that no number of InnoDB's is the first one's."""
    names = ("a", "b")
    for name in names:
        sql(f"CREATE TABLE {name} {COLUMNS}", f"INSERT INTO {name} VALUES (1, 'ab'), (2, '')")
    workspace = engine_for({name: LOG | {"shrink_limit": None} for name in names})
    sync_all(workspace)
    sql(f"DROP DATABASE {database}", f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
    for name, rebuild in zip(names, ("FORCE", "ADD COLUMN y INT NOT NULL DEFAULT 4"), strict=True):
        sql(f"USE {database}", f"CREATE TABLE IF NOT EXISTS {name} {COLUMNS}")
        sql(f"ALTER TABLE {name} {rebuild}", f"INSERT INTO {name} (id) VALUES (9)")
    sync_all(workspace)
    assert_equal(workspace, server, *names)


def test_a_column_that_is_null_in_all_rows(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor
) -> None:
    """No row changes with it; who reads a version by its number sees it all the same: of a table
    that is shown alone, and of two that are shown together."""
    names = ("a", "b")
    for name in names:
        sql(f"CREATE TABLE {name} {COLUMNS}", f"INSERT INTO {name} VALUES (1, 'ab')")
    workspace = engine_for(dict.fromkeys(names, LOG))
    sync_all(workspace)
    for altered in (("a",), names):
        for name in altered:
            sql(f"ALTER TABLE {name} ADD COLUMN c{len(altered)} INT")
        sync_all(workspace)
        for name in names:
            report = check_table(workspace, workspace.config.table(name), Ask())
            assert (report.verdict, report.lake.rows) == ("equal", 1)
    assert_equal(workspace, server, *names)
    # A sync that has not come to its fold's end yet.
    sql("ALTER TABLE a ADD COLUMN late INT")
    contract = workspace.config.table("a")
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "a"))
    assert deduped is not None
    with deduped.update_schema() as update:
        update.add_column("late", IntegerType())
    with pytest.raises(SchemaError, match="other columns than were loaded"):
        check_table(workspace, contract, Ask())
    load_table(workspace, contract)
    with pytest.raises(SchemaError, match="late is missing there"):
        check_table(workspace, contract, Ask())
