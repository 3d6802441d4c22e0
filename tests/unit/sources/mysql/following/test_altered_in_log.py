"""What a statement of the log makes of a table, and why that is not known of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorlake.sources.mysql.binlog.statements import StatementSession
from mirrorlake.sources.mysql.ddl.altered import Surroundings, made
from mirrorlake.sources.mysql.ddl.parser import parse_ddl
from mirrorlake.sources.mysql.ddl.types import Charsets
from mirrorlake.sources.mysql.following.altered_in_log import alter_by_log

COLLATION = "utf8mb4_general_ci"
CHARSETS = Charsets({"utf8mb4": COLLATION}, {COLLATION: "utf8mb4"}, {"utf8mb4": 4})
AROUND = Surroundings(CHARSETS, COLLATION, mariadb=True)
[CREATE] = parse_ddl(
    "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(10), b SMALLINT UNSIGNED NOT NULL,"
    " c ENUM('x','y'), d DATETIME, e CHAR(4), f DECIMAL(6,2))"
)
TABLE = made("d", "t", CREATE.actions, AROUND)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ("INT DEFAULT 007", "7"),
        ("INT NOT NULL", "0"),
        ("TINYINT UNSIGNED DEFAULT 255", "255"),
        ("BOOL DEFAULT TRUE", "1"),
        ("DECIMAL(5,2) NOT NULL DEFAULT '-1.5'", "-1.50"),
        ("DECIMAL(5,2) NOT NULL", "0.00"),
        ("VARCHAR(3) DEFAULT 'abc'", "abc"),
        ("TEXT NOT NULL", ""),
        ("ENUM('it''s','b') NOT NULL", "it's"),
        ("ENUM('a','b') DEFAULT 'b'", "b"),
        ("DATE DEFAULT '2026-02-28'", "2026-02-28"),
        ("DATETIME(3) DEFAULT '2026-02-28 01:02:03'", "2026-02-28 01:02:03"),
        ("INT", None),
        ("VARCHAR(3) DEFAULT NULL", None),
        ("TIMESTAMP NULL", None),
    ],
)
def test_what_all_rows_have_in_an_added_column(declared: str, text: str | None) -> None:
    found = alter_by_log(TABLE, f"ALTER TABLE t ADD n {declared}", "d", AROUND)
    assert found is not None
    assert found.why == ""
    assert found.filled == ({} if text is None else {"n": text})


@pytest.mark.parametrize(
    "declared",
    [
        "TINYINT UNSIGNED DEFAULT 256",
        "INT DEFAULT 1.5",
        "INT DEFAULT (1 + 1)",
        "INT DEFAULT 0x10",
        "DECIMAL(5,2) DEFAULT 1.005",
        "DECIMAL(5,2) DEFAULT 1000",
        "VARCHAR(2) DEFAULT 'abc'",
        "VARCHAR(9) DEFAULT 'é'",
        "VARCHAR(9) DEFAULT 7",
        "CHAR(9) DEFAULT 'a '",
        "DATE NOT NULL",
        "DATE DEFAULT '0000-00-00'",
        "DATE DEFAULT '2026-02-30'",
        "DATETIME DEFAULT CURRENT_TIMESTAMP",
        "TIMESTAMP DEFAULT '2026-01-01 00:00:00'",
        "TIMESTAMP",
        "TIMESTAMP NOT NULL",
        "TIME DEFAULT '01:00:00'",
        "FLOAT DEFAULT 1",
        "INT AS (id + 1)",
        "SERIAL",
    ],
)
def test_what_rows_have_in_an_added_column_is_not_guessed(declared: str) -> None:
    found = alter_by_log(TABLE, f"ALTER TABLE t ADD n {declared}", "d", AROUND)
    assert found is not None
    assert found.why


@pytest.mark.parametrize(
    "clauses",
    [
        "ADD n INT NOT NULL DEFAULT 5, ALTER n SET DEFAULT 6",
        "ADD n INT DEFAULT 5, ALTER COLUMN N DROP DEFAULT",
        "ALTER n SET DEFAULT 6, ADD n INT DEFAULT 5",
        "DROP a, ADD a INT DEFAULT 5, ALTER a SET DEFAULT 6",
    ],
)
def test_a_default_that_changes_in_the_same_statement_is_not_guessed(clauses: str) -> None:
    found = alter_by_log(TABLE, f"ALTER TABLE t {clauses}", "d", AROUND)
    assert found is not None
    assert found.why


def test_a_default_that_mysql_passes_over_is_not_guessed() -> None:
    """Of a text, where its session is not strict; MariaDB takes it."""
    text = "ALTER TABLE t ADD n TEXT DEFAULT 'a'"
    found = alter_by_log(TABLE, text, "d", AROUND)
    assert found is not None
    assert found.filled == {"n": "a"}
    found = alter_by_log(TABLE, text, "d", replace(AROUND, mariadb=False))
    assert found is not None
    assert found.why


def test_names_of_columns_are_compared_letter_by_letter() -> None:
    """To MySQL "ß" is not "ss"; "É" is "é"."""
    [create] = parse_ddl("CREATE TABLE t (id INT PRIMARY KEY, straße INT, strasse INT, é INT)")
    table = made("d", "t", create.actions, AROUND)
    text = "ALTER TABLE t MODIFY STRASSE BIGINT, RENAME COLUMN É TO e"
    found = alter_by_log(table, text, "d", AROUND)
    assert found is not None
    there = {column.name: column.data_type for column in found.table.columns}
    assert there == {"id": "int", "straße": "int", "STRASSE": "bigint", "e": "int"}
    assert found.origins == {name: name for name in there} | {"STRASSE": "strasse", "e": "é"}


@pytest.mark.parametrize(
    "text",
    [
        "/*M!100100 LOCK TABLES t WRITE */ TRUNCATE t",
        "/*M! CREATE VIEW v AS */ TRUNCATE t",
        "/*M!100000 TRUNCATE TABLE t */",
        "/*!80000 SET @a = 1 */ TRUNCATE t",
    ],
)
def test_what_only_some_servers_run_is_not_guessed(text: str) -> None:
    found = alter_by_log(TABLE, text, "d", AROUND)
    assert found is not None
    assert found.why


@pytest.mark.parametrize("text", ["DROP DATABASE D", "/*!40000 DROP SCHEMA IF EXISTS `d`*/"])
def test_a_table_goes_with_its_database(text: str) -> None:
    around = replace(AROUND, one_case=True)
    found = alter_by_log(TABLE, text, "elsewhere", around)
    assert found is not None
    assert found.why == "its database was dropped"
    assert alter_by_log(replace(TABLE, database="e"), text, "d", around) is None


@pytest.mark.parametrize(
    ("clause", "followed"),
    [
        ("MODIFY a VARCHAR(11)", True),
        ("MODIFY a TEXT", True),
        ("MODIFY a VARCHAR(9)", False),
        ("MODIFY a CHAR(10)", False),
        ("MODIFY a VARCHAR(10) NOT NULL", False),
        ("MODIFY a VARBINARY(40)", False),
        ("MODIFY b INT NOT NULL", True),
        ("MODIFY b SMALLINT NOT NULL", False),
        ("MODIFY b INT NOT NULL AUTO_INCREMENT", False),
        ("MODIFY b BIGINT NULL", True),
        ("MODIFY c ENUM('x','y','z')", True),
        ("MODIFY c ENUM('y','x')", False),
        ("MODIFY d DATETIME(3)", False),
        ("MODIFY e VARCHAR(4)", True),
        ("MODIFY f DECIMAL(9,2)", True),
        ("MODIFY f DECIMAL(9,3)", False),
        ("DROP a, ADD INDEX (b), COMMENT = 'x', ENGINE = InnoDB", True),
        ("ENGINE = MyISAM", False),
        ("DROP PARTITION p", False),
        ("ADD FOREIGN KEY (b) REFERENCES p (id)", True),
        ("ADD FOREIGN KEY (b) REFERENCES p (id) ON DELETE SET NULL", False),
        ("CONVERT TO CHARACTER SET utf8mb4", False),
        ("RENAME TO u", False),
        ("DROP COLUMN nowhere", False),
        ("WITH SYSTEM VERSIONING", False),
    ],
)
def test_a_clause_is_followed_where_every_value_stays_what_it_was(
    clause: str, followed: bool
) -> None:
    found = alter_by_log(TABLE, f"ALTER TABLE d.t {clause}", "elsewhere", AROUND)
    assert found is not None
    assert (found.why == "") == followed, found.why


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE u ADD n INT",
        "ALTER TABLE other.t ADD n INT",
        "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.a = 1; END",
        "CREATE OR REPLACE VIEW v AS SELECT * FROM t",
        "CREATE TABLE IF NOT EXISTS t (id INT)",
        "DROP TEMPORARY TABLE IF EXISTS t",
        "ALTER USER t IDENTIFIED BY 'x' RETAIN CURRENT PASSWORD",
        "GRANT SELECT ON t TO u",
        "ANALYZE TABLE t",
        "FLUSH TABLE t",
    ],
)
def test_statements_that_are_about_no_such_table(text: str) -> None:
    found = alter_by_log(TABLE, text, "d", AROUND)
    assert found is None or (found.why == "" and found.table == TABLE)


@pytest.mark.parametrize(
    ("text", "emptied"),
    [
        ("TRUNCATE T", False),
        ("TRUNCATE D.t", False),
        ("TRUNCATE d.t", True),
        ("TRUNCATE /* user=etl, role=writer */ t", True),
        ("/* nightly event */ TRUNCATE TABLE t", True),
        ("-- an event\nTRUNCATE t", True),
        ("# of a view\nTRUNCATE t", True),
    ],
)
def test_a_table_is_emptied_by_its_own_name(text: str, emptied: bool) -> None:
    """Names that differ in case alone are of two tables, and words in comments are about nothing."""
    found = alter_by_log(TABLE, text, "d", AROUND)
    assert (found is not None and found.emptied) == emptied
    one_case = alter_by_log(TABLE, text, "d", replace(AROUND, one_case=True))
    assert one_case is not None
    assert one_case.emptied


def test_a_table_with_the_name_of_another_kind_of_thing() -> None:
    role = replace(TABLE, name="role")
    truncated = alter_by_log(role, "TRUNCATE role", "d", AROUND)
    assert truncated is not None
    assert truncated.emptied
    dropped = alter_by_log(role, "DROP TABLE `role`", "d", AROUND)
    assert dropped is not None
    assert dropped.why
    assert alter_by_log(role, "DROP ROLE role", "d", AROUND) is None


@pytest.mark.parametrize("text", ["TRUNCATE t", "ALTER TABLE t DROP a", "DROP TABLE t"])
def test_a_statement_of_a_session_with_temporary_tables_may_be_about_either(text: str) -> None:
    """MySQL marks it so as well where another statement of a procedure was about one of them."""
    found = alter_by_log(TABLE, text, "d", AROUND, StatementSession(temporary=True))
    assert found is not None
    assert "a temporary table of its name" in found.why


@pytest.mark.parametrize(
    ("clause", "why"),
    [
        ("MODIFY g INT AS (id * 3) STORED", "computed"),
        ("CHANGE g h INT AS (id * 3) STORED", "computed"),
        ("MODIFY n BIT(12)", "may be computed from it"),
        ("MODIFY n BIT(3) COMMENT 'the same'", ""),
        ("ADD m INT", ""),
    ],
)
def test_columns_that_are_computed(clause: str, why: str) -> None:
    [create] = parse_ddl("CREATE TABLE t (id INT PRIMARY KEY, n BIT(3), g INT AS (LENGTH(n)))")
    found = alter_by_log(
        made("d", "t", create.actions, AROUND), f"ALTER TABLE t {clause}", "d", AROUND
    )
    assert found is not None
    assert why in found.why
    assert bool(found.why) == bool(why)


@pytest.mark.parametrize(
    ("expression", "why"),
    [("`b` / 3", "column n may have been recomputed with other session settings"), ("`b` + 3", "")],
)
def test_a_stored_column_may_be_computed_again(expression: str, why: str) -> None:
    """By the session of whatever alters its table, which may divide more precisely."""
    stored = replace(TABLE.column("f"), name="n", generated=expression, extra="STORED GENERATED")
    table = replace(TABLE, columns=(*TABLE.columns, stored))
    for clause in ("ENGINE = InnoDB", "ADD INDEX (b)", "DROP a"):
        found = alter_by_log(table, f"ALTER TABLE t {clause}", "d", AROUND)
        assert found is not None
        assert why in found.why
        assert bool(found.why) == bool(why)


@pytest.mark.parametrize(
    ("clause", "sql_mode", "followed"),
    [
        ("MODIFY e VARCHAR(8)", 0, True),
        ("MODIFY e VARCHAR(8)", 1 << 31, False),  # PAD_CHAR_TO_FULL_LENGTH
        ("ADD n VARCHAR(5) DEFAULT ''", 1 << 32, False),  # EMPTY_STRING_IS_NULL
        ("ADD n REAL", 1, False),  # REAL_AS_FLOAT
        ("ADD n VARCHAR(5) DEFAULT ''", 0x5DE0_0020, True),
        ("ADD INDEX (b)", 1 << 31, True),
    ],
)
def test_what_a_declaration_means_depends_on_its_session(
    clause: str, sql_mode: int, followed: bool
) -> None:
    text = f"ALTER TABLE t {clause}"
    found = alter_by_log(TABLE, text, "d", AROUND, StatementSession(sql_mode))
    assert found is not None
    assert (found.why == "") == followed, found.why


def test_whole_tables() -> None:
    truncated = alter_by_log(TABLE, "TRUNCATE `d`.`t`", "", AROUND)
    assert truncated is not None
    assert truncated.emptied
    for text in (
        "DROP TABLE a, t",
        "RENAME TABLE t TO o, g TO t",
        "CREATE OR REPLACE TABLE t (a INT)",
    ):
        found = alter_by_log(TABLE, text, "d", AROUND)
        assert found is not None
        assert found.why
