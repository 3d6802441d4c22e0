"""Tenants in the soak: a sync of many databases as one table is killed, after some of them joined
or left, got another shape or other rows; the next one must put everything right.

Nobody else changes them, so they are judged after each round: what readers see must be what MySQL
has, row by row. MySQL is read by PyMySQL, the lake by PyIceberg: nothing of the engine's reading,
folding or proving is used.
"""

from __future__ import annotations

import contextlib
import hmac
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger
from tests.integration.contract_files import write_contract
from tests.soak.judge import Findings, orphans_of
from tests.soak.runs import Order

TABLE = "bills"
CONTRACT: dict[str, Any] = {
    "key": ["id"],
    "clean": "table",
    "new_columns": "show",
    "columns": {"email": {"pii": "hash"}},
}
COLUMNS = "id INT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(60), n INT"
SHAPES = (
    "ADD COLUMN note VARCHAR(20) DEFAULT 'x'",
    "MODIFY n BIGINT",
    "MODIFY n VARCHAR(20)",
    "DROP COLUMN note",
    "ADD COLUMN paid TINYINT FIRST",
    "MODIFY n INT",
    "DROP COLUMN paid",
)
"""What is done to a tenant's columns, where it fits."""
FEWEST, MOST = 3, 7
Row = tuple[tuple[str, str], ...]
"""The columns of a row that are not NULL, with their values as text, in the order of their
names."""


@dataclass
class SoakTenants:
    """The tenants of one episode.

    Attributes:
        connect: opens a session with the server, as the application has it.
        prefix: what the names of their databases begin with.
    """

    folder: Path
    port: int
    connect: Callable[[], Connection[Any]]
    lake: Lake
    prefix: str
    rng: Random
    hash_key: bytes
    there: list[str] = field(default_factory=list[str])
    made: int = 0
    changes: Counter[str] = field(default_factory=Counter[str])

    def create(self) -> None:
        """The first tenants, and the contract file."""
        with self._cursor() as cursor:
            for _ in range(FEWEST + 1):
                self._join(cursor)
        group = {
            "sources": ["s"],
            "databases": [f"{self.prefix}t%"],
            "dropped": "remove",
            "tables": {TABLE: CONTRACT},
        }
        write_contract(
            *(self.config, self.port, {}),
            ledger={"url": "sqlite:///ledger.db", "wait": "5s"},
            tenants={self.prefix: group},
        )

    @property
    def config(self) -> Path:
        return self.folder / f"{self.prefix}_tenants.yaml"

    @property
    def name(self) -> str:
        return f"{self.prefix}.{TABLE}"

    def order(self, failpoint: str = "") -> Order:
        """A sync of all. Somebody has looked at what is far smaller, and who is gone."""
        return Order(self.config, self.name, "tenants", failpoint=failpoint, accept_smaller=True)

    # --- what happens to them ---------------------------------------------------------------------

    def change(self) -> None:
        """Other rows in some tenants, and now and then one that joins, leaves or is altered."""
        with self._cursor() as cursor:
            for database in self.rng.sample(self.there, 2):
                self._write(cursor, database)
            if self.rng.random() < 0.5:
                self._alter(cursor, self.rng.choice(self.there))
            if self.rng.random() < 0.4 and len(self.there) < MOST:
                self._join(cursor)
            if self.rng.random() < 0.3 and len(self.there) > FEWEST:
                gone = self.rng.choice(self.there)
                self.there.remove(gone)
                cursor.execute(f"DROP DATABASE {gone}")
                self.changes["tenant left"] += 1

    def _join(self, cursor: Any) -> None:
        self.made += 1
        # Now and then one of the name of a tenant that is gone.
        name = f"{self.prefix}t{self.rng.randrange(1, self.made + 1)}"
        database = f"{self.prefix}t{self.made}" if name in self.there else name
        cursor.execute(f"DROP DATABASE IF EXISTS {database}")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"CREATE TABLE {database}.{TABLE} ({COLUMNS})")
        self.there.append(database)
        self._write(cursor, database)
        self.changes["tenant joined"] += 1

    def _write(self, cursor: Any, database: str) -> None:
        n = self.rng.randrange(1_000_000)
        values = ", ".join(f"('é{n + i}@x', {n % 9 + i})" for i in range(self.rng.randrange(1, 30)))
        cursor.execute(f"INSERT INTO {database}.{TABLE} (email, n) VALUES {values}")
        cursor.execute(f"UPDATE {database}.{TABLE} SET n = NULL WHERE id % 7 = {n % 7}")
        cursor.execute(f"DELETE FROM {database}.{TABLE} WHERE id % 11 = {n % 11}")
        self.changes["tenant's rows"] += 1

    def _alter(self, cursor: Any, database: str) -> None:
        cursor.execute(f"SHOW COLUMNS FROM {database}.{TABLE}")
        names = {name for name, *_ in cursor.fetchall()}
        change = self.rng.choice(SHAPES)
        name = change.removeprefix("ADD COLUMN ").removeprefix("DROP COLUMN ").partition(" ")[0]
        if change.startswith("ADD") and name in names:
            return
        if change.startswith("DROP") and name not in names:
            return
        cursor.execute(f"ALTER TABLE {database}.{TABLE} {change}")
        self.changes["tenant altered"] += 1

    def add_column(self) -> str:
        """A column of numbers, of one tenant; its name."""
        self.made += 1
        with self._cursor() as cursor:
            statement = f"ADD COLUMN c{self.made} INT DEFAULT {self.made}"
            cursor.execute(f"ALTER TABLE {self.there[0]}.{TABLE} {statement}")
        return f"c{self.made}"

    def retype(self, column: str) -> None:
        """That column as text: deduped and clean are written again as a whole."""
        with self._cursor() as cursor:
            cursor.execute(f"ALTER TABLE {self.there[0]}.{TABLE} MODIFY {column} VARCHAR(9)")
        self.changes["tenant altered"] += 1

    # --- the judgement ----------------------------------------------------------------------------

    def judge(self) -> Findings:
        """After a sync that succeeded: nothing is open, and both layers have the rows of MySQL."""
        found, table = Findings(), load_config(self.config).tenant_table(self.name)
        ledger = Ledger(f"sqlite:///{self.folder}/ledger.db")
        if ledger.is_held(table.name):
            found.stuck.append(f"{table.name}: its lease is held")
        for load in ledger.loads(table.name):
            if load.state not in ("success", "errored", "superseded"):
                found.stuck.append(f"{table.name}: load {load.load_id} is {load.state}")
        for tenant in ledger.tenants(table.name).values():
            if tenant.state != "mirrored":
                found.stuck.append(f"{table.name}: {tenant.database} is {tenant.state}")
        wanted = self._mysql()
        hashed = Counter({self._hashed(*row): n for row, n in wanted.items()})
        spaces = table.namespaces
        for space, rows in ((spaces.deduped, wanted), (spaces.clean, hashed)):
            there = self._shown(Identifier(space, TABLE))
            found.lost += [f"{space}.{TABLE} lacks {row}" for row in rows - there]
            found.doubled += [f"{space}.{TABLE} has too many: {row}" for row in there - rows]
        return found

    def orphans(self) -> list[str]:
        """Files under deduped, clean and raw that no snapshot names."""
        spaces = load_config(self.config).tenant_table(self.name).namespaces
        versions = Ledger(f"sqlite:///{self.folder}/ledger.db").schema_versions(self.name)
        names = [Identifier(spaces.raw, one.raw_table) for one in versions]
        names += [Identifier(space, TABLE) for space in (spaces.deduped, spaces.clean)]
        tables = [self.lake.load(name) for name in names]
        return [str(path) for one in tables if one is not None for path in orphans_of(one)]

    def _mysql(self) -> Counter[tuple[str, Row]]:
        found = Counter[tuple[str, Row]]()
        with self._cursor() as cursor:
            for database in self.there:
                cursor.execute(f"SELECT * FROM {database}.{TABLE}")
                names = [column[0] for column in cursor.description]
                found.update(
                    (database, _row(zip(names, cells, strict=True))) for cells in cursor.fetchall()
                )
        return found

    def _shown(self, identifier: Identifier) -> Counter[tuple[str, Row]]:
        table = self.lake.load(identifier)
        rows = [] if table is None else table.scan().to_arrow().to_pylist()
        return Counter(
            (
                row["_mirror_database"],
                _row((n, v) for n, v in row.items() if not n.startswith("_mirror_")),
            )
            for row in rows
        )

    def _hashed(self, database: str, row: Row) -> tuple[str, Row]:
        def value(name: str, text: str) -> str:
            if name != "email":
                return text
            return hmac.new(self.hash_key, text.encode(), "sha256").hexdigest()

        return database, tuple((name, value(name, text)) for name, text in row)

    @contextlib.contextmanager
    def _cursor(self) -> Iterator[Any]:
        with contextlib.closing(self.connect()) as connection, connection.cursor() as cursor:
            yield cursor


def _row(cells: Any) -> Row:
    return tuple(sorted((name, str(value)) for name, value in cells if value is not None))
