"""The application that lives on while everything around it is killed: seeded changes, for ever.

It inserts, updates, deletes, sets `modified_at` back, holds transactions open so that they commit
late, and has its writes wait behind a table's lock for longer than windows overlap. A server that is killed takes the open transactions with it; the writer comes back when
the server does.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pymysql
from pymysql.connections import Connection

SCHEMA = (
    """CREATE TABLE orders (
        id INT AUTO_INCREMENT PRIMARY KEY, email VARCHAR(60), total DECIMAL(12,2), turn INT,
        modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
        KEY (modified_at))""",
    "CREATE TABLE visits (page VARCHAR(20), "
    "created_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY (created_at))",
    "CREATE TABLE clicks (id BIGINT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20))",
    "CREATE TABLE cities (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40))",
    "CREATE TABLE parcels (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(40), n INT)",
    "CREATE TABLE stocks (shelf INT NOT NULL, item VARCHAR(20) NOT NULL, n INT, "
    "UNIQUE (shelf, item))",
)
LOCKS, LOCK_SECONDS = 0.001, 6.5
"""The share of steps that lock a table, and how long: longer than the windows of the soak
overlap."""
DAYS_BACK = 3
"""How far back `modified_at` is ever set."""


@dataclass
class Counts:
    """What was committed, by kind of change."""

    by_kind: dict[str, int] = field(default_factory=dict)
    lost: int = 0
    """Statements or commits that the server was killed under."""

    def add(self, kind: str, number: int = 1) -> None:
        self.by_kind[kind] = self.by_kind.get(kind, 0) + number


class Writer:
    """Writes in a thread between `start` and `stop`; ``connect`` opens an autocommit session."""

    def __init__(self, connect: Callable[[], Connection[Any]], seed: int, pause: float) -> None:
        self.counts = Counts()
        self._connect = connect
        self._rng = Random(seed)  # noqa: S311
        self._pause = pause
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._free: Connection[Any] | None = None
        self._late: Connection[Any] | None = None
        self._due = 0.0
        self._error: BaseException | None = None

    def start(self) -> None:
        self._stopping.clear()
        self._thread = threading.Thread(target=self._live, name="soak-writer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Everything that was begun is committed when this returns.

        Raises:
            BaseException: whatever ended the thread, but the server's own deaths.
        """
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _live(self) -> None:
        try:
            while not self._stopping.is_set():
                self._guarded(self._step)
                self._stopping.wait(self._pause)
            self._guarded(self._commit_late)
        except BaseException as error:  # noqa: BLE001 - told by `stop`
            self._error = error
        finally:
            self._close()

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except (pymysql.err.OperationalError, pymysql.err.InterfaceError, OSError) as error:
            # The server was killed: what was not committed is gone, what was may not have been told.
            if error.args and error.args[0] in (1205, 1213):
                raise
            self.counts.lost += 1
            self._close()
            time.sleep(0.05)

    def _close(self) -> None:
        for connection in (self._free, self._late):
            if connection is not None:
                with contextlib.suppress(Exception):
                    connection.close()
        self._free = self._late = None

    def _step(self) -> None:
        if self._free is None:
            self._free = self._connect()
        if self._late is not None and time.monotonic() >= self._due:
            self._commit_late()
        elif self._late is None and self._rng.random() < 0.05:
            self._open_late()
        elif self._late is None and self._rng.random() < LOCKS:
            self._lock_orders()
        with self._free.cursor() as cursor:
            kind, statement = self._draw(cursor)
            cursor.execute(statement)
        self.counts.add(kind)

    def _open_late(self) -> None:
        """A transaction that stamps now, and commits seconds later."""
        self._late = self._connect()
        self._late.begin()
        with self._late.cursor() as cursor:
            for table in ("orders", "visits", "clicks", "parcels"):
                cursor.execute(self._insert(table))
        self._due = time.monotonic() + self._rng.uniform(0.5, 4.0)

    def _lock_orders(self) -> None:
        """What is written to `orders` from now on waits, and has the stamp of before its wait."""
        locker = self._connect()
        with locker.cursor() as cursor:
            cursor.execute("LOCK TABLES orders READ")
        threading.Timer(LOCK_SECONDS, locker.close).start()
        self.counts.add("lock")

    def _commit_late(self) -> None:
        if self._late is not None:
            self._late.commit()
            self._late.close()
            self._late = None
            self.counts.add("late commit")

    def _insert(self, table: str) -> str:
        n = self._rng.randrange(1_000_000)
        return {
            "orders": f"INSERT INTO orders (email, total, turn) VALUES ('é{n}@example.com', {n}.25, {n})",
            "visits": f"INSERT INTO visits (page) VALUES ('/{n % 5}')",
            "clicks": f"INSERT INTO clicks (what) VALUES ('{n}')",
            "cities": f"INSERT INTO cities (name) VALUES ('Łódź {n}')",
            "parcels": f"INSERT INTO parcels (what, n) VALUES ('Łódź {n}', {n})",
        }[table]

    def _draw(self, cursor: Any) -> tuple[str, str]:
        rng = self._rng
        kind = rng.choices(
            ("insert", "update", "delete", "moved back", "cities", "names", "shapes", "logged"),
            (40, 30, 8, 10, 12, 6, 6, 20),
        )[0]
        n = rng.randrange(1_000_000)
        if kind == "insert":
            return kind, self._insert(rng.choice(("orders", "orders", "visits", "clicks")))
        if kind in ("names", "shapes"):
            where = f"INSERT INTO {kind} (code, v) VALUES ('Ä{n % 300}', {n})"
            return kind, f"{where} ON DUPLICATE KEY UPDATE v = {n}"
        if kind == "logged":
            return self._draw_logged(cursor, n)
        if kind == "cities":
            return self._draw_city(self._pick(cursor, "cities", 10), n)
        one = self._pick(cursor, "orders", 60)
        if kind == "update":
            return kind, f"UPDATE orders SET turn = {n}, total = total + 0.01 WHERE id = {one}"
        if kind == "delete":
            return kind, f"DELETE FROM orders WHERE id = {one}"
        back = rng.choice((f"{rng.randrange(1, 20)} SECOND", f"{rng.randrange(1, DAYS_BACK)} DAY"))
        at = f"NOW(6) - INTERVAL {back}"
        return kind, f"UPDATE orders SET turn = {n}, modified_at = {at} WHERE id = {one}"

    def _draw_city(self, city: int, n: int) -> tuple[str, str]:
        # A copy that shrinks much would be refused, and rightly.
        kinds = ("full insert", "full update", "full delete")
        kind = self._rng.choices(kinds, (45, 35, 20))[0]
        return kind, {
            "full insert": self._insert("cities"),
            "full update": f"UPDATE cities SET name = CONCAT(LEFT(name, 20), '{n % 9}') "
            f"WHERE id = {city}",
            "full delete": f"DELETE FROM cities WHERE id = {city}",
        }[kind]

    def _draw_logged(self, cursor: Any, n: int) -> tuple[str, str]:
        """A change of a table that follows the log: of keys, too, and no cursor tells of it."""
        one = self._pick(cursor, "parcels", 40)
        stock = f"shelf = {n % 20} AND item = 'ü{n % 7}'"
        return "logged", self._rng.choice(
            (
                self._insert("parcels"),
                self._insert("parcels"),
                f"UPDATE parcels SET n = {n} WHERE id = {one}",
                # Not to a key that the transaction which commits late may hold.
                f"UPDATE IGNORE parcels SET id = -id WHERE id = {one}",
                f"DELETE FROM parcels WHERE id = {one}",
                f"INSERT INTO stocks VALUES ({n % 20}, 'ü{n % 7}', {n}) "
                f"ON DUPLICATE KEY UPDATE n = {n}",
                f"UPDATE IGNORE stocks SET item = 'Ü{n % 5}' WHERE {stock}",
                f"DELETE FROM stocks WHERE {stock}",
            )
        )

    def _pick(self, cursor: Any, table: str, among: int) -> int:
        """One of the newest rows that are committed; found without a lock on its neighbours."""
        cursor.execute(f"SELECT id FROM {table} ORDER BY id DESC LIMIT {among}")
        ids = [number for (number,) in cursor.fetchall()]
        return int(self._rng.choice(ids or [0]))
