"""What a statement of the log makes of a table, and why that is not known of others."""

from __future__ import annotations

import pytest

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
