"""What a server shows of its tables' changes: nothing that changed is ever called unchanged, through
whichever door it changed, and what did not change is."""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from mirrorlake.config import SourceConfig
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.changes.change_stamps import (
    BLUR,
    ChangeStamp,
    read_stamps,
    why_unchanged,
)
from mirrorlake.sources.mysql.sessions.connect import session
from tests.integration.conftest import PASSWORD, USER

Run = Callable[..., Any]
Door = Callable[["Doors", str], None]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@dataclass
class Doors:
    """A database with a table for every door, all of them older than any blur."""

    server: EmbeddedServer
    database: str
    source: SourceConfig
    connection: Any

    def run(self, *statements: str) -> Any:
        with self.connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall()

    def stamp(self, table: str) -> ChangeStamp:
        with session(self.source) as connection:
            return read_stamps(connection, [(self.database, table)])[self.database, table]

    def content(self, table: str) -> Any:
        """All that a mirror of the table would show: its definition and its rows."""
        (definition,) = self.run(f"SHOW CREATE TABLE `{table}`")
        return definition, sorted(self.run(f"SELECT * FROM `{table}`"), key=repr)

    def folder(self) -> Path:
        return Path(self.server.folder) / "data" / self.database


def _import(doors: Doors, table: str) -> None:
    """Another table's file in place of its own."""
    doors.run(
        f"CREATE TABLE other LIKE `{table}`",
        "INSERT INTO other VALUES (7, 70, '7')",
        "FLUSH TABLES other FOR EXPORT",
    )
    kept = doors.folder() / "kept"
    kept.mkdir()
    for path in doors.folder().glob("other.*"):
        shutil.copy(path, kept / path.name)
    doors.run("UNLOCK TABLES", f"ALTER TABLE `{table}` DISCARD TABLESPACE")
    for suffix in ("ibd", "cfg"):
        shutil.copy(kept / f"other.{suffix}", doors.folder() / f"{table}.{suffix}")
        (doors.folder() / f"{table}.{suffix}").chmod(0o666)
    doors.run(f"ALTER TABLE `{table}` IMPORT TABLESPACE", "DROP TABLE other")
    shutil.rmtree(kept)


def _swap(doors: Doors, table: str) -> None:
    doors.run(
        f"RENAME TABLE `{table}` TO aside, other_twin TO `{table}`",
        "RENAME TABLE aside TO other_twin",
    )


def _exchange(doors: Doors, table: str) -> None:
    doors.run(
        "CREATE TABLE parted (id INT PRIMARY KEY, v INT, t VARCHAR(20)) "
        "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN MAXVALUE)",
        "INSERT INTO parted VALUES (5, 5, 'five')",
        f"ALTER TABLE parted EXCHANGE PARTITION p0 WITH TABLE `{table}`",
        "DROP TABLE parted",
    )


def _unlogged(*statements: str) -> Door:
    return lambda doors, table: doors.run(
        "SET sql_log_bin = 0", *(s.format(t=table) for s in statements), "SET sql_log_bin = 1"
    )


def _plain(*statements: str) -> Door:
    return lambda doors, table: doors.run(*(s.format(t=table) for s in statements))


DOORS: Mapping[str, Door] = {
    "insert": _plain("INSERT INTO `{t}` VALUES (9, 9, 'nine')"),
    "update": _plain("UPDATE `{t}` SET v = v + 1 WHERE id = 1"),
    "delete": _plain("DELETE FROM `{t}` WHERE id = 1"),
    "replace": _plain("REPLACE INTO `{t}` VALUES (1, 3, 'x')"),
    "upsert": _plain("INSERT INTO `{t}` VALUES (1, 1, '') ON DUPLICATE KEY UPDATE v = 8"),
    "one of many": _plain("BEGIN", "UPDATE `{t}` SET v = 4", "SAVEPOINT a", "COMMIT"),
    "select into": _plain("INSERT INTO `{t}` SELECT id + 100, v, t FROM twin"),
    "joined update": _plain("UPDATE `{t}` a JOIN twin b USING (id) SET a.v = b.v + 5"),
    "unlogged": _unlogged("UPDATE `{t}` SET v = v + 1"),
    "truncate": _plain("TRUNCATE `{t}`"),
    "unlogged truncate": _unlogged("TRUNCATE `{t}`"),
    "unlogged alter": _unlogged("ALTER TABLE `{t}` ADD COLUMN w INT NOT NULL DEFAULT 5"),
    "added column": _plain("ALTER TABLE `{t}` ADD COLUMN w INT NOT NULL DEFAULT 5"),
    "dropped column": _plain("ALTER TABLE `{t}` DROP COLUMN v"),
    "renamed column": _plain("ALTER TABLE `{t}` CHANGE v v2 INT"),
    "changed type": _plain("ALTER TABLE `{t}` MODIFY v BIGINT"),
    "changed comment": _plain("ALTER TABLE `{t}` MODIFY v INT COMMENT 'x'"),
    "changed length": _plain("ALTER TABLE `{t}` MODIFY t VARCHAR(30)"),
    "added index": _plain("ALTER TABLE `{t}` ADD INDEX (v)"),
    "swapped": _swap,
    "made again": _plain(
        "DROP TABLE `{t}`",
        "CREATE TABLE `{t}` (id INT PRIMARY KEY, v INT, t VARCHAR(20))",
        "INSERT INTO `{t}` VALUES (1, 1, 'another one')",
    ),
    "made again, empty": _plain("CREATE TABLE n LIKE `{t}`", "DROP TABLE `{t}`", "RENAME TABLE n TO `{t}`"),
    "exchanged partition": _exchange,
    "imported": _import,
    "in a procedure": _plain("CALL work('{t}')"),
    "distributed": _plain(
        "XA START 'x'", "UPDATE `{t}` SET v = 77", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"
    ),
}  # fmt: skip
SPECIAL = ("child", "child_null", "told", "bare", "parts", "still", "late", "later", "reader", "xa")
"""Tables that change by another one's door, have another engine, or change while a look is made."""


@pytest.fixture(scope="module")
def doors(server: EmbeddedServer) -> Iterator[Doors]:
    name = f"doors{uuid.uuid4().hex[:8]}"
    source = SourceConfig(
        name="s", host="127.0.0.1", port=server.port, user=USER, password=SecretStr(PASSWORD)
    )
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    connection = server.admin(name)
    connection.autocommit(True)
    found = Doors(server, name, source, connection)
    columns = "(id INT PRIMARY KEY, v INT, t VARCHAR(20))"
    for table in (*DOORS, *SPECIAL, "twin", "other_twin", "parent", "grandparent"):
        engine = "MyISAM" if table == "bare" else "InnoDB"
        parts = " PARTITION BY HASH (id) PARTITIONS 2" if table == "parts" else ""
        found.run(f"CREATE TABLE `{table}` {columns} ENGINE={engine}{parts}")
    found.run(
        "ALTER TABLE child ADD FOREIGN KEY (v) REFERENCES parent (id) "
        "ON UPDATE CASCADE ON DELETE CASCADE",
        "ALTER TABLE child_null ADD FOREIGN KEY (v) REFERENCES grandparent (id) ON DELETE SET NULL",
        "CREATE TRIGGER tell AFTER INSERT ON twin FOR EACH ROW UPDATE told SET v = NEW.id",
        "CREATE PROCEDURE work(IN name VARCHAR(64)) BEGIN "
        "SET @s = CONCAT('UPDATE `', name, '` SET v = 55'); "
        "PREPARE p FROM @s; EXECUTE p; DEALLOCATE PREPARE p; END",
    )
    for table in ("parent", "grandparent", *DOORS, *SPECIAL, "twin", "other_twin"):
        found.run(f"INSERT INTO `{table}` VALUES (1, 1, 'one'), (2, 2, 'two')")
    found.run("INSERT INTO other_twin VALUES (3, 3, 'three')")
    time.sleep(BLUR.total_seconds() + 1.2)
    yield found
    connection.close()
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


def evidence(before: ChangeStamp, now: ChangeStamp) -> set[str | None]:
    """By what a table is called unchanged, where the log can be seen and where it can't."""
    return {why_unchanged(before, now), why_unchanged(replace(before, lsn=None), now)}


@pytest.mark.parametrize("door", DOORS)
def test_what_changed_is_never_called_unchanged(doors: Doors, door: str) -> None:
    before, content = doors.stamp(door), doors.content(door)
    assert doors.content(door) == content
    DOORS[door](doors, door)
    assert doors.content(door) != content or door == "made again, empty"
    assert evidence(before, doors.stamp(door)) == {None}


def test_what_other_tables_doors_change_is_seen(doors: Doors) -> None:
    names = ("child", "child_null", "told")
    before = {name: (doors.stamp(name), doors.content(name)) for name in names}
    doors.run(
        "UPDATE parent SET id = 11 WHERE id = 1",
        "DELETE FROM grandparent WHERE id = 2",
        "INSERT INTO twin VALUES (30, 30, '')",
    )
    for name, (stamp, content) in before.items():
        assert doors.content(name) != content, name
        assert evidence(stamp, doors.stamp(name)) == {None}, name


def test_engines_that_keep_no_log_and_tables_with_partitions(doors: Doors) -> None:
    bare, parts = doors.stamp("bare"), doors.stamp("parts")
    assert evidence(bare, doors.stamp("bare")) == {None}
    assert evidence(parts, doors.stamp("parts")) <= {"server", None}
    doors.run("UPDATE bare SET v = 5", "UPDATE parts SET v = 5")
    assert evidence(bare, doors.stamp("bare")) == {None}
    assert evidence(parts, doors.stamp("parts")) == {None}


def test_what_did_not_change_is_known_to_be_unchanged(doors: Doors) -> None:
    """By its own time where others changed, by the log where nothing did."""
    before = doors.stamp("still")
    doors.run("UPDATE twin SET v = v + 1", "CREATE TABLE more (id INT)", "ANALYZE TABLE still")
    doors.run("SELECT * FROM still", "SELECT COUNT(*) FROM still WHERE v > 1")
    assert why_unchanged(before, doors.stamp("still")) == "table"
    assert wait_for_rest(doors), "the server's log never stood still"


def wait_for_rest(doors: Doors) -> bool:
    """Whether the server comes to rest, and its log with it, though tables are read."""
    for _ in range(20):
        before = doors.stamp("still")
        time.sleep(0.5)
        doors.run("SELECT * FROM still")
        if why_unchanged(before, doors.stamp("still")) == "server":
            return True
    return False


@pytest.mark.parametrize(
    "first", ["writes", *(pytest.param(f, marks=pytest.mark.full) for f in ("reads", "snapshot"))]
)
def test_a_transaction_that_was_open_at_the_look_is_seen(doors: Doors, first: str) -> None:
    """It commits after the look; the time that it sets may be that at which it began."""
    table = {"writes": "late", "reads": "later", "snapshot": "reader"}[first]
    other = doors.server.admin(doors.database)
    try:
        # In one second with the change before, so that both set one time.
        doors.run(f"UPDATE `{table}` SET v = 90")
        with other.cursor() as cursor:
            cursor.execute("SET autocommit = 0")
            if first == "snapshot":
                cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT * FROM twin")
            if first == "writes":
                cursor.execute(f"UPDATE `{table}` SET v = 91")
            time.sleep(BLUR.total_seconds() + 1.2)
            before = doors.stamp(table)
            if first != "writes":
                cursor.execute(f"UPDATE `{table}` SET v = 91")
            other.commit()
        assert doors.run(f"SELECT v FROM `{table}` LIMIT 1") == ((91,),)
        assert evidence(before, doors.stamp(table)) == {None}
    finally:
        other.close()


def test_a_prepared_transaction_is_open(doors: Doors) -> None:
    doors.run("XA START 'y'", "UPDATE xa SET v = 78", "XA END 'y'", "XA PREPARE 'y'")
    before = doors.stamp("xa")
    doors.run("XA COMMIT 'y'")
    assert doors.run("SELECT v FROM xa LIMIT 1") == ((78,),)
    assert evidence(before, doors.stamp("xa")) == {None}


def test_an_account_that_may_not_see_what_is_open_gets_no_stamp(doors: Doors) -> None:
    doors.run(
        "CREATE USER IF NOT EXISTS 'unseeing'@'%' IDENTIFIED BY 'Blind-1234'",
        "GRANT SELECT ON *.* TO 'unseeing'@'%'",
    )
    blind = doors.source.model_copy(
        update={"user": "unseeing", "password": SecretStr("Blind-1234")}
    )
    try:
        with session(blind) as connection:
            assert read_stamps(connection, [(doors.database, "still")]) == {}
    finally:
        doors.run("DROP USER 'unseeing'@'%'")


def test_a_table_is_named_to_the_letter(doors: Doors) -> None:
    with session(doors.source) as connection:
        found = read_stamps(connection, [(doors.database, "STILL"), (doors.database, "nowhere")])
    assert found == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"server": "another"},
        {"started": "2020-01-01T00:00:00"},
        {"made": "2020-01-01T00:00:00"},
        {"engine": "rocksdb"},
        {"clock": "2020-01-01T00:00:00"},
    ],
)
def test_another_server_life_or_table_is_not_told_to_be_the_same(
    doors: Doors, changed: dict[str, str]
) -> None:
    before = doors.stamp("still")
    assert evidence(before, before) & {"server", "table"}
    assert evidence(before, replace(before, **changed)) == {None}
