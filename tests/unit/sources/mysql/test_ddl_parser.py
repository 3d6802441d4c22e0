"""What migrations say, statement by statement; what can't be read is refused with its place."""

from __future__ import annotations

import pytest

from mirrorlake.errors import DdlRefused
from mirrorlake.sources.mysql.ddl.actions import (
    Action,
    AddColumn,
    AddForeignKey,
    AddIndex,
    ChangeColumn,
    ConvertCharset,
    DeclaredColumn,
    DefaultCharset,
    DropColumn,
    DropConstraint,
    DropIndex,
    MoveRows,
    RenameColumn,
    RenameIndex,
    RenameTable,
    Rewrite,
    SetColumn,
    SetEngine,
    UseIndex,
)
from mirrorlake.sources.mysql.ddl.parser import parse_ddl
from mirrorlake.sources.mysql.ddl.types import DeclaredType

OTHER, SAME, MAYBE = (Rewrite(redefines=said) for said in (True, False, None))


def column(name: str, word: str, *arguments: str) -> DeclaredColumn:
    return DeclaredColumn(name, DeclaredType(word, arguments))


CLAUSES: dict[str, tuple[Action, ...]] = {
    "FORCE": (SAME,),
    "ORDER BY a, b DESC, c, FORCE": (SAME, SAME),
    "ENABLE KEYS": (),
    "DISABLE KEYS, ALGORITHM = COPY, LOCK=SHARED": (),
    "ALGORITHM=INSTANT, ADD a INT": (AddColumn(column("a", "int")),),
    "WITHOUT VALIDATION, ADD a INT": (AddColumn(column("a", "int")),),
    "NOWAIT ADD a INT": (AddColumn(column("a", "int")),),
    "WAIT 5 ADD a INT": (AddColumn(column("a", "int")),),
    "ADD (a INT, `b,(` DECIMAL(8,2), KEY k (a))": (
        AddColumn(column("a", "int")),
        AddColumn(column("b,(", "decimal", "8", "2")),
        AddIndex("k", ("a",)),
    ),
    "ADD COLUMN IF NOT EXISTS (a INT, b INT)": (
        AddColumn(column("a", "int"), if_missing=True),
        AddColumn(column("b", "int"), if_missing=True),
    ),
    "ADD p POINT, ADD q MULTIPOLYGON, ADD point INT": (
        AddColumn(column("p", "point")),
        AddColumn(column("q", "multipolygon")),
        AddColumn(column("point", "int")),
    ),
    "ADD p POINT SRID 4326 COLUMN_FORMAT FIXED STORAGE DISK VISIBLE AFTER storage": (
        AddColumn(DeclaredColumn("p", DeclaredType("point"), position="storage")),
    ),
    "ADD v VARCHAR2(9)": (AddColumn(column("v", "varchar2", "9")),),
    "ADD u UUID, ADD i INET4, MODIFY j INET6": (
        AddColumn(column("u", "uuid")),
        AddColumn(column("i", "inet4")),
        ChangeColumn("j", column("j", "inet6")),
    ),
    "CHANGE COLUMN IF EXISTS a b GEOMETRYCOLLECTION first": (
        ChangeColumn(
            "a", DeclaredColumn("b", DeclaredType("geometrycollection"), first=True), if_there=True
        ),
    ),
    "MODIFY IF EXISTS a INT, DROP COLUMN IF EXISTS b, DROP c": (
        ChangeColumn("a", column("a", "int"), if_there=True),
        DropColumn("b", if_there=True),
        DropColumn("c"),
    ),
    "RENAME COLUMN IF EXISTS a TO b": (RenameColumn("a", "b", if_there=True),),
    "RENAME INDEX a TO b, RENAME KEY IF EXISTS c TO d": (
        RenameIndex("a", "b"),
        RenameIndex("c", "d", if_there=True),
    ),
    "RENAME u": (RenameTable(None, "u"),),
    "RENAME AS o.u": (RenameTable("o", "u"),),
    "RENAME = `TO`": (RenameTable(None, "TO"),),
    "ALTER COLUMN a SET DEFAULT (1 + 1), ALTER b DROP DEFAULT, ALTER c SET INVISIBLE": (
        *(SetColumn("a"), SetColumn("b"), SetColumn("c")),
    ),
    "ALTER COLUMN IF EXISTS a SET DEFAULT 'IF EXISTS'": (SetColumn("a", if_there=True),),
    "ALTER INDEX i INVISIBLE, ALTER INDEX IF EXISTS j NOT IGNORED": (
        UseIndex("i", used=False),
        UseIndex("j", used=True, if_there=True),
    ),
    "ADD KEY i (a) COMMENT 'VISIBLE' INVISIBLE, ADD UNIQUE KEY j (b) NOT IGNORED": (
        AddIndex("i", ("a",), used=False),
        AddIndex("j", ("b",), unique=True),
    ),
    "ADD PRIMARY KEY USING BTREE (a), ADD KEY k USING HASH (b)": (
        AddIndex("PRIMARY", ("a",), unique=True), AddIndex("k", ("b",)),
    ),
    "ADD INDEX IF NOT EXISTS i (a), DROP INDEX IF EXISTS j": (
        AddIndex("i", ("a",), if_missing=True),
        DropIndex("j", if_there=True),
    ),
    "ADD CONSTRAINT c CHECK (a > 0) NOT ENFORCED, ADD CHECK (b <> ',')": (OTHER, OTHER),
    "ADD c INT CHECK (c > 0) NOT ENFORCED NOT NULL": (
        AddColumn(DeclaredColumn("c", DeclaredType("int"), nullable=False)),
    ),
    "ALTER CHECK c NOT ENFORCED, ALTER CONSTRAINT d ENFORCED": (OTHER, OTHER),
    "DROP CHECK c, DROP FOREIGN KEY IF EXISTS f, DROP CONSTRAINT IF EXISTS u": (
        *(OTHER, OTHER, DropConstraint("u")),
    ),
    "ADD CONSTRAINT f FOREIGN KEY IF NOT EXISTS (a) REFERENCES x (id) ON DELETE SET NULL": (
        AddForeignKey(("a",), "RESTRICT", "SET NULL"),
    ),
    "CONVERT TO CHARSET latin1": (ConvertCharset("latin1"),),
    "CONVERT TO CHARACTER SET = 'utf8mb4' COLLATE utf8mb4_bin": (
        ConvertCharset("utf8mb4", "utf8mb4_bin"),
    ),
    "DEFAULT CHARSET=latin1 COLLATE latin1_bin, ENGINE InnoDB ROW_FORMAT=DYNAMIC": (
        *(DefaultCharset("latin1"), DefaultCharset(None, "latin1_bin")),
        *(SetEngine("InnoDB"), MAYBE),
    ),
    "AUTO_INCREMENT=5, COMMENT='a, b', STATS_PERSISTENT=0 KEY_BLOCK_SIZE 8": (
        *(SAME, MAYBE, MAYBE, MAYBE),
    ),
    "DISCARD TABLESPACE": (MoveRows("all rows go with the table's file"),),
    "IMPORT TABLESPACE": (MoveRows("other rows come with a file"),),
    "ADD PARTITION (PARTITION p VALUES LESS THAN (3), PARTITION q VALUES IN (1, 2))": (OTHER,),
    "ADD PARTITION IF NOT EXISTS PARTITIONS 4": (OTHER,),
    "PARTITION BY RANGE (YEAR(at)) (PARTITION p0 VALUES LESS THAN MAXVALUE)": (OTHER,),
    "ADD a INT PARTITION BY HASH (id) PARTITIONS 4": (AddColumn(column("a", "int")), OTHER),
    "ADD KEY (a), REMOVE PARTITIONING": (AddIndex(None, ("a",)), OTHER),
    "DROP a REMOVE PARTITIONING": (DropColumn("a"), OTHER),
    "COALESCE PARTITION 2": (OTHER,),
    "REORGANIZE PARTITION p, q INTO (PARTITION r VALUES LESS THAN (9))": (OTHER,),
    "ALGORITHM=INPLACE, LOCK=NONE, REBUILD PARTITION ALL": (SAME,),
    "ANALYZE PARTITION p, CHECK PARTITION q": (),
    "DROP PARTITION IF EXISTS p0, `p 1`": (
        MoveRows("the rows of partitions p0, p 1 go with it"),
    ),
    "TRUNCATE PARTITION ALL": (MoveRows("the rows of all partitions go"),),
    "EXCHANGE PARTITION p WITH TABLE o.u WITHOUT VALIDATION": (
        MoveRows("the rows of partition p and of table u change places"),
    ),
    "DISCARD PARTITION p TABLESPACE": (MoveRows("the rows of partition p go with the file"),),
    "CONVERT PARTITION p TO TABLE u": (MoveRows("the rows of partition p go, to table u"),),
    "CONVERT TABLE u TO PARTITION p VALUES LESS THAN (3)": (
        MoveRows("the rows of table u come into a partition"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("clause", CLAUSES)
def test_clauses(clause: str) -> None:
    found = parse_ddl(f"ALTER TABLE t {clause}")
    assert found[0].actions == CLAUSES[clause]
    assert (found[0].kind, found[0].database, found[0].table) == ("alter", None, "t")


def told(text: str) -> list[tuple[str, str | None, str]]:
    return [(one.kind, one.database, one.table) for one in parse_ddl(text)]


STATEMENTS = {
    "ALTER TABLE t": [("alter", None, "t")],
    "ALTER ONLINE IGNORE TABLE IF EXISTS `d`.`t` FORCE": [("alter", "d", "t")],
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u": [("alter", None, "t"), ("alter", None, "u")],
    "ALTER TABLE d.t CONVERT PARTITION p TO TABLE u": [("alter", "d", "t"), ("create", "d", "u")],
    "ALTER TABLE t CONVERT TABLE o.u TO PARTITION p VALUES IN (1)": [
        *(("alter", None, "t"), ("drop", "o", "u")),
    ],
    "RENAME TABLE `a,b` TO `c TO d`, d.e WAIT 3 TO f": [
        ("alter", None, "a,b"),
        ("alter", "d", "e"),
    ],
    "RENAME TABLES IF EXISTS a TO b": [("alter", None, "a")],
    "DROP TABLE IF EXISTS a, d.`b;` NOWAIT CASCADE": [("drop", None, "a"), ("drop", "d", "b;")],
    "DROP TABLES a": [("drop", None, "a")],
    "DROP TEMPORARY TABLE a; CREATE TEMPORARY TABLE t (a INT)": [],
    "TRUNCATE t NOWAIT": [("truncate", None, "t")],
    "CREATE TABLE t LIKE u": [("create", None, "t")],
    "CREATE OR REPLACE TABLE t ENGINE=InnoDB SELECT ';'": [("create", None, "t")],
    "CREATE TABLE t (a INT /*!80023 INVISIBLE */) /*!50100 PARTITION BY HASH (a) */": [
        ("create", None, "t")
    ],
    "OPTIMIZE LOCAL TABLE t, u": [("alter", None, "t"), ("alter", None, "u")],
    "SET STATEMENT max_statement_time = 1 FOR DROP TABLE t": [("drop", None, "t")],
    "/*!50100 ALTER TABLE t DROP a */;": [("alter", None, "t")],
    "/*!40000 ALTER TABLE `t` DISABLE KEYS */;": [("alter", None, "t")],
    "/*!80000 SET a = 1 */; /*M!999999\\- enable the sandbox mode */": [],
    "/*! DROP TABLE t */": [("drop", None, "t")],
    "INSERT INTO d.t VALUES ('a;b', \"c;\")": [("other", "d", "t")],
    "INSERT IGNORE t SET a = 1; REPLACE LOW_PRIORITY `u` SELECT 1": [
        *(("other", None, "t"), ("other", None, "u")),
    ],
    "REPLACE INTO t VALUES ('it''s; \\'so;')": [("other", None, "t")],
    "UPDATE t SET a = 1; DELETE FROM u": [("other", None, "t"), ("other", None, "u")],
    "LOAD DATA INFILE 'x' INTO TABLE t": [("other", None, "t")],
    "CALL p(';'); PREPARE s FROM @a; EXECUTE s": [("other", None, "")] * 3,
    "CREATE DEFINER=`a b`@`%` TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1": [
        ("other", None, "")
    ],
    "-- ; DROP TABLE a\n# ; DROP TABLE b\n--; DROP TABLE c\n/* ; DROP TABLE d */ DROP TABLE e": [
        ("drop", None, "e")
    ],
    "DROP TABLE `a``;'\"`, `😀`, été": [
        *(("drop", None, "a`;'\""), ("drop", None, "😀"), ("drop", None, "été")),
    ],
    "DELIMITER //\nDROP TABLE a//\nDROP TABLE b; DROP TABLE c//\ndelimiter ;\nDROP TABLE d": [
        *(("drop", None, name) for name in "abcd"),
    ],
    "DELIMITER $$\nCREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN\n"
    "DROP TABLE a; SET @a = '$$'; END$$\nDELIMITER ;\nDROP TABLE b;": [
        *(("other", None, ""), ("drop", None, "b")),
    ],
    "": [],
    " ;; -- nothing\n": [],
}


@pytest.mark.parametrize("text", STATEMENTS)
def test_statements(text: str) -> None:
    assert told(text) == STATEMENTS[text]


def test_indexes_by_statements_of_their_own() -> None:
    found = parse_ddl(
        "CREATE OR REPLACE UNIQUE INDEX i USING BTREE ON t (a, b) WAIT 2 COMMENT 'x' LOCK=NONE;"
        "CREATE INDEX IF NOT EXISTS j ON t (c(3)) INVISIBLE ALGORITHM INPLACE;"
        "DROP INDEX IF EXISTS `PRIMARY` ON d.t NOWAIT ALGORITHM=COPY; CREATE FULLTEXT INDEX k ON t (d)"
    )
    assert [one.actions for one in found] == [
        (DropIndex("i", if_there=True), AddIndex("i", ("a", "b"), unique=True)),
        (AddIndex("j", ("c",), whole=False, used=False, if_missing=True),),
        (DropIndex("PRIMARY", if_there=True),),
        (OTHER,),
    ]


def test_duplicates_that_go_with_a_unique_key() -> None:
    [found] = parse_ddl("ALTER IGNORE TABLE t ADD UNIQUE (a), ADD KEY (b)")
    assert [type(action) for action in found.actions] == [AddIndex, AddIndex, MoveRows]
    [found] = parse_ddl("ALTER IGNORE TABLE t ADD KEY (b)")
    assert found.actions == (AddIndex(None, ("b",)),)
    for clause in ("ADD n INT UNIQUE", "MODIFY n INT", "ADD CHECK (a < 3)", "DROP COLUMN a"):
        [found] = parse_ddl(f"ALTER IGNORE TABLE t {clause}")
        assert isinstance(found.actions[-1], MoveRows), clause


def test_a_table_that_is_made_where_it_is_not_there() -> None:
    assert [one.if_missing for one in parse_ddl("CREATE TABLE IF NOT EXISTS t (a INT)")] == [True]
    assert [one.if_missing for one in parse_ddl("CREATE TABLE t (a INT)")] == [False]


def test_lines_and_beginnings() -> None:
    found = parse_ddl("\n/* one */ DROP TABLE\n a;\n\nALTER TABLE t /* so */ DROP b")
    assert [(one.line, one.words) for one in found] == [
        (2, "DROP TABLE a"), (5, "ALTER TABLE t DROP b"),
    ]  # fmt: skip


REFUSED = {
    "ALTER TABLE t ADD COLUMN n TEXT;\nALTER TABLE t ADD COLUMN (": (2, 26, "is not closed"),
    "DROP TABLE a; ALTER TABLE t ADD a INT, ADD b NONSENSE": (1, 40, "ADD b NONSENSE: "),
    "ALTER TABLE t ADD a INT,\n  MODIFY b INT NONSENSE": (2, 3, "MODIFY b INT NONSENSE"),
    "ALTER TABLE t ADD a INT,, ADD b INT": (1, 25, "a clause is missing here"),
    "ALTER TABLE t ADD a INT,": (1, 25, "a clause is missing here"),
    "ALTER TABLE t ADD (a INT, )": (1, 27, "a column is missing here"),
    "ALTER TABLE t ADD (a INT) AFTER b": (1, 27, "what begins here can't be read"),
    "ALTER TABLE t FORCE a": (1, 21, "what begins here can't be read"),
    "ALTER TABLE t ENGINE=InnoDB NONSENSE=3": (1, 29, "what begins here can't be read"),
    "ALTER TABLE t NONSENSE": (1, 15, "this clause can't be read yet"),
    "ALTER TABLE t ADD SYSTEM VERSIONING": (1, 15, "ADD SYSTEM VERSIONING: "),
    "ALTER TABLE t CONVERT TO CHARACTER SET": (1, 39, "its value is missing here"),
    "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT": (1, 15, "is not looked up"),
    "ALTER TABLE t ALTER INDEX i SLOW": (1, 29, "what is done to the index"),
    "ALTER TABLE t ALTER CHECK c": (1, 28, "what is done to the check"),
    "ALTER TABLE t EXCHANGE PARTITION p": (1, 35, "the other table is missing here"),
    "ALTER TABLE t DROP PARTITION": (1, 29, "a table's name is missing here"),
    "ALTER TABLE t ADD PARTITION": (1, 28, "what follows is missing"),
    "ALTER TABLE t TRUNCATE PARTITION p NOW": (1, 36, "what begins here"),
    "ALTER TABLE t UNION = (a, b)": (1, 15, "this clause can't be read yet"),
    "ALTER TABLE 't' ADD a INT": (1, 13, "a table's name is missing here"),
    "ALTER TABLE t ADD a INT)": (1, 24, "was not opened"),
    "RENAME TABLE a, b TO c": (1, 15, "TO is missing here"),
    "DROP TABLE a b": (1, 14, "what begins here can't be read"),
    "DROP INDEX i": (1, 13, "ON and the table are missing here"),
    "CREATE TABLE t": (1, 15, "its columns are missing here"),
    "TRUNCATE TABLE": (1, 15, "a table's name is missing here"),
    "SELECT 1;\n  hello world": (2, 3, "hello world: this is no statement"),
    "UPDATE )(": (1, 8, "was not opened"),
    "DROP TABLE a;\nDROP TABLE `b": (2, 12, "ends inside of a quoted name"),
    "ALTER TABLE t ADD a INT COMMENT 'open": (1, 33, "ends inside of"),
    "DROP TABLE a; /* open": (1, 15, "ends inside of"),
    "/*!50100 DROP TABLE a": (1, 1, "ends inside of"),
    "ALTER TABLE t ADD a INT /*!80023 INVISIBLE */": (1, 34, "depends on its release"),
    "/*M!100100 DROP TABLE t */": (1, 12, "depends on its release"),
    "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW BEGIN DROP TABLE a; END": (
        1, 50, "put it between DELIMITER lines",
    ),
    "BEGIN NOT ATOMIC DROP TABLE a; END": (1, 1, "put it between DELIMITER lines"),
    "DROP TABLE a\nDELIMITER //\n": (2, 1, "has no end"),
    "DELIMITER\nDROP TABLE a": (1, 1, "names none"),
    "SET STATEMENT a = 1": (1, 20, "FOR and a statement are missing"),
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_can_not_be_read_is_refused_with_its_place(text: str) -> None:
    line, place, words = REFUSED[text]
    with pytest.raises(DdlRefused) as caught:
        parse_ddl(text)
    assert caught.value.message.startswith(f"line {line}, column {place}: ")
    assert words in caught.value.message


def test_the_parser_s_own_places_are_those_of_the_whole_text() -> None:
    text = "DROP TABLE a;\nALTER TABLE t ADD a INT,\n  ADD b VARCHAR(20) CHECK (b IN ())) "
    with pytest.raises(DdlRefused, match=r"line 3, column 36: .*was not opened"):
        parse_ddl(text)
    text = "DROP TABLE a;\nALTER TABLE t ADD a INT,\n  ADD b INT DEFAULT (1 +)"
    with pytest.raises(DdlRefused, match="line 3, column "):
        parse_ddl(text)
    with pytest.raises(DdlRefused, match=r"line 2, column 4: .*its columns are missing"):
        parse_ddl("ALTER TABLE t ADD a INT,\n   ADD CONSTRAINT c UNIQUE KEY")


@pytest.mark.parametrize("text", [*STATEMENTS, *(f"ALTER TABLE t {c}" for c in CLAUSES)])
def test_every_beginning_is_read_or_refused_with_a_place(text: str) -> None:
    """A migration that was cut, anywhere, is no other error."""
    for end in range(len(text)):
        try:
            parse_ddl(text[:end])
        except DdlRefused as refused:
            assert refused.message.startswith("line "), text[:end]  # noqa: PT017
