"""Any history of writes, through any door, between looks at a server: whatever two looks call
unchanged is what it was at the first of them, definition and rows.

A random walk, the same for one seed, writes to tables of several kinds, sometimes in transactions
that are open at a look. After each write it looks, and compares the look with those before. No
Spark, no lake: what a sync does with the answer is the business of test_unchanged and
test_histories.
"""

from __future__ import annotations

import random
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from pydantic import SecretStr

from mirrorlake.config import SourceConfig
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.changes.change_stamps import (
    BLUR,
    ChangeStamp,
    read_stamps,
    why_unchanged,
)
from mirrorlake.sources.mysql.sessions.connect import session
from tests.integration.conftest import PASSWORD, USER

COLUMNS = "(id INT PRIMARY KEY, v INT, t VARCHAR(20))"
PLAIN = ("one", "two", "told")
TABLES = (*PLAIN, "parent", "child", "parts", "bare")
REST = BLUR.total_seconds() + 1.1
COMPARED = 30
"""How many looks back."""

DML = (
    "INSERT IGNORE INTO {t} VALUES ({n}, {n}, 'new')",
    "UPDATE {t} SET t = CONCAT(t, '{n}') WHERE id <= {n} AND LENGTH(t) < 15",
    "DELETE FROM {t} WHERE id = {n}",
    "REPLACE INTO {t} VALUES ({n}, NULL, 'again')",
    "INSERT INTO {t} VALUES ({n}, 1, '') ON DUPLICATE KEY UPDATE t = 'met'",
    "UPDATE {t} SET t = t",  # changes nothing
    "DELETE FROM {t} WHERE id > 1000",
)
DDL = (
    "ALTER TABLE {t} ADD COLUMN w{n} INT NOT NULL DEFAULT {n}",
    "ALTER TABLE {t} MODIFY t VARCHAR(2{n}) COMMENT '{n}'",
    "ALTER TABLE {t} COMMENT = '{n}'",
    "ALTER TABLE {t} FORCE",
    "ANALYZE TABLE {t}",
    "ALTER TABLE {t} ADD INDEX i{n} (v)",
    "RENAME TABLE {t} TO away, away TO {t}",
    "CREATE TABLE again LIKE {t}; INSERT INTO again SELECT * FROM {t}; DROP TABLE {t};"
    " RENAME TABLE again TO {t}",
)
CASCADES = (
    "UPDATE parent SET id = id + 100 WHERE id = {n}",
    "DELETE FROM parent WHERE id = {n}",
    "INSERT IGNORE INTO parent VALUES ({n}, {n}, 'p')",
    "INSERT IGNORE INTO child SELECT id, id, 'c' FROM parent",
)


@dataclass(frozen=True)
class Seen:
    """What one look saw of a table, and what it held."""

    stamp: ChangeStamp
    content: Any


class Walk:
    """One walk: a database of its own on a real server."""

    def __init__(self, server: EmbeddedServer, seed: int) -> None:
        self.server, self.random = server, random.Random(seed)  # noqa: S311
        self.verdicts: Counter[str | None] = Counter()
        self.steps: list[str] = []
        self.name = f"w{uuid.uuid4().hex[:10]}"
        with self.server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.name}")
        self.source = SourceConfig(
            name="s",
            host="127.0.0.1",
            port=self.server.port,
            user=USER,
            password=SecretStr(PASSWORD),
        )
        self.main, self.other = self.server.admin(self.name), self.server.admin(self.name)
        self.main.autocommit(True)
        self.run("SET innodb_lock_wait_timeout = 1, lock_wait_timeout = 2")
        self.looks: list[dict[str, Seen]] = []
        self.open = ""
        self._make()

    def _make(self) -> None:
        for table in TABLES:
            engine = "MyISAM" if table == "bare" else "InnoDB"
            parts = " PARTITION BY HASH (id) PARTITIONS 2" if table == "parts" else ""
            self.run(f"CREATE TABLE {table} {COLUMNS} ENGINE={engine}{parts}")
        self.run(
            "ALTER TABLE child ADD FOREIGN KEY (v) REFERENCES parent (id) ON UPDATE CASCADE"
            " ON DELETE SET NULL",
            "CREATE TRIGGER tell AFTER INSERT ON one FOR EACH ROW"
            " UPDATE told SET t = CONCAT('by ', NEW.id)",
            *(f"INSERT INTO {t} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, NULL, '')" for t in TABLES if t != "one"),
            "INSERT INTO one VALUES (1, 1, 'a'), (2, 2, 'b')",
        )  # fmt: skip

    def run(self, *statements: str) -> Any:
        with self.main.cursor() as cursor:
            for statement in "; ".join(statements).split("; "):
                cursor.execute(statement)
            return cursor.fetchall()

    def walk(self, rounds: int, moves: int = 12) -> None:
        """So many rounds of moves, each after a rest, after which every change is old."""
        doors = (self.write, self.write, self.define, self.define, self.cascade, self.swap)
        doors = (
            *doors,
            self.truncate,
            self.exchange,
            self.load_file,
            self.begin,
            self.begin,
            self.end,
            self.end,
        )
        for _ in range(rounds):
            time.sleep(REST)
            self.look()
            for _ in range(moves):
                self.random.choice(doors)()
                self.look()
        self.end()
        self.look()

    def table(self, names: Sequence[str] = TABLES) -> str:
        """One that no open transaction writes to."""
        return self.random.choice([name for name in names if name != self.open])

    def number(self) -> int:
        return self.random.randint(1, 6)

    def write(self) -> None:
        statement = self.random.choice(DML).format(t=self.table(), n=self.number())
        self.perhaps_unlogged(statement)

    def define(self) -> None:
        if self.open:
            return  # it would wait for the end of that transaction
        table, statement = self.table(PLAIN), self.random.choice(DDL)
        if table == "one" and "DROP" in statement:
            return  # its trigger would go with it
        self.perhaps_unlogged(*statement.format(t=table, n=self.number()).split("; "))

    def truncate(self) -> None:
        if not self.open:
            self.perhaps_unlogged(f"TRUNCATE {self.table(PLAIN)}")

    def perhaps_unlogged(self, *statements: str) -> None:
        logged = self.random.random() < 0.6
        self.run(f"SET sql_log_bin = {int(logged)}")
        for statement in statements:
            self.attempt(statement)
        self.run("SET sql_log_bin = 1")

    def cascade(self) -> None:
        if self.open not in ("parent", "child"):
            self.attempt(self.random.choice(CASCADES).format(n=self.number()))

    def swap(self) -> None:
        """`two` and `told` under each other's name; and perhaps back."""
        for _ in range(0 if self.open else self.random.choice([1, 2])):
            self.run("RENAME TABLE two TO away, told TO two, away TO told")

    def exchange(self) -> None:
        if self.open:
            return
        self.attempt("DROP TABLE IF EXISTS ranged")
        self.attempt("CREATE TABLE ranged LIKE two")
        self.attempt("INSERT INTO ranged SELECT * FROM two WHERE id = 2")
        parts = "PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)"
        self.attempt(f"ALTER TABLE ranged {parts}")
        self.attempt("ALTER TABLE ranged EXCHANGE PARTITION p WITH TABLE two")

    def load_file(self) -> None:
        ((folder,),) = self.run("SELECT @@secure_file_priv")
        path = Path(folder or self.server.folder) / f"{uuid.uuid4().hex}.csv"
        path.write_text(f"{self.number()},{self.number()},loaded\n")
        path.chmod(0o644)
        columns = "FIELDS TERMINATED BY ',' (id, v, t)"
        table = self.table(PLAIN)
        self.attempt(f"LOAD DATA INFILE '{path}' REPLACE INTO TABLE {table} {columns}")
        path.unlink()

    def begin(self) -> None:
        """A transaction that is open at the looks until it ends."""
        if self.open:
            return
        table, first = self.table(), self.random.choice(["writes", "reads", "snapshot"])
        with self.other.cursor() as cursor:
            snapshot = " WITH CONSISTENT SNAPSHOT" if first == "snapshot" else ""
            cursor.execute(f"START TRANSACTION{snapshot}")
            cursor.execute("SELECT * FROM parent")
            if first == "writes":
                cursor.execute(f"UPDATE {table} SET t = 'open{self.number()}'")
        self.open = table
        self.steps.append(f"begin {table}: {first}")

    def end(self) -> None:
        if not self.open:
            return
        with self.other.cursor() as cursor:
            cursor.execute(f"UPDATE {self.open} SET t = 'end{self.number()}'")
        commits = self.random.random() < 0.7
        (self.other.commit if commits else self.other.rollback)()
        self.steps.append(f"end {self.open}: {'commit' if commits else 'rollback'}")
        self.open = ""

    def look(self) -> None:
        places = {(self.name, table): table for table in TABLES}
        with session(self.source) as connection:
            stamps = read_stamps(connection, [*places])
        now = {places[at]: Seen(s, self.content(places[at])) for at, s in stamps.items()}
        assert set(now) == set(TABLES)
        for before in self.looks[-COMPARED:]:
            for table, seen in now.items():
                self.compare(table, before[table], seen)
        self.looks.append(now)

    def compare(self, table: str, before: Seen, now: Seen) -> None:
        for stamp in (before.stamp, replace(before.stamp, lsn=None)):
            found = why_unchanged(stamp, now.stamp)
            self.verdicts[found] += 1
            same = found is None or before.content == now.content
            assert same, (table, found, self.steps, stamp, now.stamp)

    def content(self, table: str) -> Any:
        (definition,) = self.run(f"SHOW CREATE TABLE {table}")
        return definition, sorted(self.run(f"SELECT * FROM {table}"), key=repr)

    def attempt(self, statement: str) -> None:
        """A statement that the tables may refuse as they are now."""
        self.steps.append(statement)
        try:
            self.run(statement)
        except pymysql.MySQLError as error:
            if error.args[0] not in REFUSED:
                raise

    def close(self) -> None:
        self.other.close()
        self.main.close()
        with self.server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"DROP DATABASE {self.name}")


REFUSED = frozenset((1060, 1061, 1062, 1136, 1205, 1217, 1406, 1451, 1452, 1506, 1731, 1736))
"""Error codes of statements that don't fit the tables as they are: a doubled column or key, a value
count that an added column changed, a row that the open transaction holds, a parent with children,
tables of other columns, or of columns added in place."""


def walked(server: EmbeddedServer, seed: int, rounds: int) -> None:
    walk = Walk(server, seed)
    try:
        walk.walk(rounds)
    finally:
        walk.close()
    # The looks had something to say, or nothing was tried.
    assert walk.verdicts["table"] > 10, walk.verdicts
    assert walk.verdicts[None] > 10, walk.verdicts


@pytest.mark.full
def test_no_history_of_writes_is_called_none(mariadb: MariaDB) -> None:
    walked(mariadb, 1, 5)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(2, 8))
@pytest.mark.parametrize("which", ["mariadb", "mysql8"])
def test_no_long_history_of_writes_is_called_none(
    request: pytest.FixtureRequest, which: str, seed: int
) -> None:
    walked(request.getfixturevalue(which), seed, 25)
