"""Any history of writes, through any door, between looks at a server: whatever two looks call
unchanged is what it was at the first of them, definition and rows.

A Hypothesis state machine writes to tables of several kinds, sometimes in transactions that are
open at a look, and compares each look with every one before it. No Spark, no lake: what a sync does
with the answer is the business of test_unchanged and test_histories.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pydantic import SecretStr

from demo.embedded import EmbeddedServer
from demo.mariadb import MariaDB
from mirrorlake.config import SourceConfig
from mirrorlake.sources.mysql.change_stamps import BLUR, ChangeStamp, read_stamps, why_unchanged
from mirrorlake.sources.mysql.connect import session
from tests.integration.conftest import PASSWORD, USER
from tests.support.mysql8 import MySQL8

COLUMNS = "(id INT PRIMARY KEY, v INT, t VARCHAR(20))"
PLAIN = ("one", "two", "told")
TABLES = (*PLAIN, "parent", "child", "parts", "bare")
REST = BLUR.total_seconds() + 1.1
RESTS = 3
"""How often an example waits until changes are old enough to be told apart."""

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
    "TRUNCATE {t}",
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
names = st.sampled_from(TABLES)
plain = st.sampled_from(PLAIN)
numbers = st.integers(1, 6)


@dataclass(frozen=True)
class Seen:
    """What one look saw of a table, and what it held."""

    stamp: ChangeStamp
    content: Any


class Writes(RuleBasedStateMachine):
    """One example: a database of its own on a real server."""

    server: EmbeddedServer
    verdicts: Counter[str | None]

    @initialize()
    def make(self) -> None:
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
        self.rests, self.open = 0, ""
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
        self.wait()

    def run(self, *statements: str) -> Any:
        with self.main.cursor() as cursor:
            for statement in "; ".join(statements).split("; "):
                cursor.execute(statement)
            return cursor.fetchall()

    @rule(table=names, statement=st.sampled_from(DML), n=numbers)
    def write(self, table: str, statement: str, n: int) -> None:
        if table != self.open:
            self.attempt(statement.format(t=table, n=n))

    @rule(table=names, statement=st.sampled_from(DML), n=numbers)
    def write_unlogged(self, table: str, statement: str, n: int) -> None:
        if table != self.open:
            self.run("SET sql_log_bin = 0")
            self.attempt(statement.format(t=table, n=n))
            self.run("SET sql_log_bin = 1")

    @rule(statement=st.sampled_from(CASCADES), n=numbers)
    def cascade(self, statement: str, n: int) -> None:
        if not self.open:
            self.attempt(statement.format(n=n))

    @precondition(lambda self: not self.open)
    @rule(table=plain, statement=st.sampled_from(DDL), n=numbers, unlogged=st.booleans())
    def define(self, table: str, statement: str, n: int, *, unlogged: bool) -> None:
        if table == "one" and "DROP" in statement:
            return  # its trigger goes with it, and `told` would be told no more
        self.run(f"SET sql_log_bin = {int(not unlogged)}")
        for one in statement.format(t=table, n=n).split("; "):
            self.attempt(one)
        self.run("SET sql_log_bin = 1")

    @precondition(lambda self: not self.open)
    @rule(there_and_back=st.booleans())
    def swap(self, *, there_and_back: bool) -> None:
        for _ in range(1 + there_and_back):
            self.run("RENAME TABLE two TO away, told TO two, away TO told")

    @precondition(lambda self: not self.open)
    @rule()
    def exchange(self) -> None:
        self.attempt("DROP TABLE IF EXISTS ranged")
        self.attempt("CREATE TABLE ranged LIKE two")
        self.attempt("INSERT INTO ranged SELECT * FROM two WHERE id = 2")
        self.attempt(
            "ALTER TABLE ranged PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN MAXVALUE)"
        )
        self.attempt("ALTER TABLE ranged EXCHANGE PARTITION p WITH TABLE two")

    @rule(table=plain, n=numbers)
    def load_file(self, table: str, n: int) -> None:
        ((folder,),) = self.run("SELECT @@secure_file_priv")
        if table == self.open or (isinstance(self.server, MySQL8) and not folder):
            return
        path = Path(folder or self.server.folder) / f"{uuid.uuid4().hex}.csv"
        path.write_text(f"{n},{n},loaded\n")
        path.chmod(0o644)
        self.attempt(
            f"LOAD DATA INFILE '{path}' REPLACE INTO TABLE {table} FIELDS TERMINATED BY ','"
            " (id, v, t)"
        )
        path.unlink()

    @precondition(lambda self: not self.open)
    @rule(table=names, first=st.sampled_from(["writes", "reads", "snapshot"]), n=numbers)
    def begin(self, table: str, first: str, n: int) -> None:
        """A transaction that is open at the looks until it ends."""
        with self.other.cursor() as cursor:
            snapshot = " WITH CONSISTENT SNAPSHOT" if first == "snapshot" else ""
            cursor.execute(f"START TRANSACTION{snapshot}")
            cursor.execute("SELECT * FROM parent")
            if first == "writes":
                cursor.execute(f"UPDATE {table} SET t = 'open{n}'")
        self.open = table

    @precondition(lambda self: self.open)
    @rule(n=numbers, commits=st.booleans())
    def end(self, n: int, *, commits: bool) -> None:
        with self.other.cursor() as cursor:
            cursor.execute(f"UPDATE {self.open} SET t = 'end{n}'")
        (self.other.commit if commits else self.other.rollback)()
        self.open = ""

    @precondition(lambda self: self.rests < RESTS)
    @rule()
    def wait(self) -> None:
        self.rests += 1
        time.sleep(REST)

    @invariant()
    def look(self) -> None:
        """After every step, against every look before."""
        if not hasattr(self, "main"):
            return
        places = {(self.name, table): table for table in TABLES}
        with session(self.source) as connection:
            stamps = read_stamps(connection, [*places])
        now = {places[at]: Seen(s, self.content(places[at])) for at, s in stamps.items()}
        assert set(now) == set(TABLES)
        for before in self.looks:
            for table, seen in now.items():
                self.compare(table, before[table], seen)
        self.looks.append(now)

    def compare(self, table: str, before: Seen, now: Seen) -> None:
        for stamp in (before.stamp, replace(before.stamp, lsn=None)):
            found = why_unchanged(stamp, now.stamp)
            self.verdicts[found] += 1
            assert found is None or before.content == now.content, (table, found, stamp, now.stamp)

    def content(self, table: str) -> Any:
        (definition,) = self.run(f"SHOW CREATE TABLE {table}")
        return definition, sorted(self.run(f"SELECT * FROM {table}"), key=repr)

    def attempt(self, statement: str) -> None:
        """A statement that the tables may refuse as they are now."""
        try:
            self.run(statement)
        except pymysql.MySQLError as error:
            if error.args[0] not in REFUSED:
                raise

    def teardown(self) -> None:
        if hasattr(self, "main"):
            self.other.close()
            self.main.close()
            with self.server.admin() as admin, admin.cursor() as cursor:
                cursor.execute(f"DROP DATABASE {self.name}")


REFUSED = frozenset((1060, 1061, 1062, 1136, 1205, 1217, 1406, 1451, 1452, 1506, 1736))
"""Error codes of statements that don't fit the tables as they are: a doubled column or key, a value
count that an added column changed, a row that the open transaction holds, a parent with children,
tables of other columns."""


def run_histories(server: EmbeddedServer, examples: int, steps: int = 30) -> Counter[str | None]:
    verdicts: Counter[str | None] = Counter()

    def make() -> Writes:
        machine = Writes()
        machine.server, machine.verdicts = server, verdicts
        return machine

    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=(Phase.generate,),
            derandomize=True,
        ),
    )
    return verdicts


def judge(verdicts: Counter[str | None]) -> None:
    """That the looks had something to say, or nothing was tried."""
    assert verdicts["table"] > 10, verdicts
    assert verdicts[None] > 10, verdicts


def test_no_history_of_writes_is_called_none(mariadb: MariaDB) -> None:
    judge(run_histories(mariadb, 4))


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("which", ["mariadb", "mysql8"])
def test_no_long_history_of_writes_is_called_none(
    request: pytest.FixtureRequest, which: str
) -> None:
    judge(run_histories(request.getfixturevalue(which), 60, 50))
