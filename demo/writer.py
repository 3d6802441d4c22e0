"""The demo's application at work: seeded changes to every shop table, at a steady rate.

Run as a process it writes until it is stopped::

    python -m demo.writer --port 3306 --rate 20

The password comes from the environment variable MIRRORLAKE_DEMO_PASSWORD.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from types import FrameType

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from demo.writer_plan import Change, Planner
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.trial.shop import open_session, server_now
from mirrorlake.trial.shop_rows import SHOP_TABLES

Key = tuple[str, ...]

ENDLESS = 2**62


class Journal:
    """Which keys the writer hard-deleted, by table; keys as text, as the comparison prints them."""

    def __init__(self) -> None:
        self.deleted: dict[str, set[Key]] = {name: set() for name in SHOP_TABLES}
        """Every key that is gone now; one that was inserted again is not."""
        self.surplus: dict[str, set[Key]] = {name: set() for name in SHOP_TABLES}
        """Those that existed at the last `mark`: a mirror that can't see deletes has them."""
        self._unseen: dict[str, set[Key]] = {name: set() for name in SHOP_TABLES}

    def mark(self) -> None:
        """A sync that ran while nothing was written has seen every row that exists now."""
        for keys in self._unseen.values():
            keys.clear()

    def record(self, change: Change) -> None:
        """Take note of a committed change."""
        table, key = change.table, tuple(map(str, change.key))
        if change.kind == "insert":
            self.deleted[table].discard(key)
            if key in self.surplus[table]:
                self.surplus[table].remove(key)
            else:
                self._unseen[table].add(key)
        elif change.kind == "delete":
            self.deleted[table].add(key)
            if key in self._unseen[table]:
                self._unseen[table].remove(key)
            else:
                self.surplus[table].add(key)


@dataclass
class _Held:
    """A transaction that is executed and not yet committed."""

    plan: list[Change]
    since: float  # monotonic seconds
    due: int  # count of applied changes at which it commits


class LiveWriter:
    """Applies seeded changes to a shop; the only writer of its tables while it runs.

    With the same seed, rows and `now` it makes the same changes in the same order (the server's
    clock sets created_at and modified_at). About one order in sixty is committed late: executed,
    held open for `hold` seconds while others commit, then committed with its old modified_at.

    Args:
        connect: opens a connection to the server; called twice, and closed by the writer.
        rate: row changes per second; None: as fast as possible.
        hold: seconds a late commit is held open, at least.
        now: UTC; what dates inside new rows are drawn around; the server's clock by default.
    """

    def __init__(
        self,
        connect: Callable[[], Connection[Cursor]],
        seed: int = 11,
        rate: float | None = None,
        database: str = "shop",
        hold: float = 1.0,
        now: datetime | None = None,
    ) -> None:
        self.journal = Journal()
        self.changes = 0  # committed row changes
        self.late_commits = 0
        self._connect = connect
        self._rng = Random(seed)  # noqa: S311
        self._rate = rate
        self._database = database
        self._hold = hold
        self._now = now.astimezone(UTC).replace(tzinfo=None) if now else None
        self._held: _Held | None = None
        self._executed = 0
        self._planner: Planner | None = None
        self._connections: list[Connection[Cursor]] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    @property
    def deleted(self) -> dict[str, set[Key]]:
        """Keys hard-deleted and not inserted again, by table."""
        return self.journal.deleted

    def run(self, changes: int) -> None:
        """Apply exactly `changes` row changes, all committed on return; fewer after `stop`.

        Raises:
            SourceError: a row was not as this writer left it; somebody else writes.
            pymysql.Error: the server refused; the open transaction is rolled back.
        """
        self._stopping.clear()
        self._run(changes)

    def _run(self, changes: int) -> None:
        begun, started = self._executed, time.monotonic()
        try:
            planner = self._open()
            while (done := self._executed - begun) < changes and not self._stopping.is_set():
                self._step(planner, changes - done)
                self._pace(started, self._executed - begun)
            self._commit_held()
        except BaseException:
            self._planner = None  # the next run reads the keys afresh
            raise
        finally:
            self._close()

    def start(self) -> None:
        """Write in a thread until `stop`."""
        if self._thread is not None:
            raise RuntimeError("the writer is already running")
        self._stopping.clear()
        self._error = None
        self._thread = threading.Thread(
            target=self._run_until_stopped, name="live-writer", daemon=True
        )
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread still writes; not after `stop`, nor after an error that ended it."""
        return self._thread is not None and self._thread.is_alive()

    def ask_to_stop(self) -> None:
        """End `run` after the transaction at hand; returns at once, fit for a signal handler."""
        self._stopping.set()

    def stop(self) -> None:
        """End with everything committed; raises what ended the thread, if anything did."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            raise self._error

    def _run_until_stopped(self) -> None:
        try:
            self._run(ENDLESS)
        except BaseException as error:  # noqa: BLE001 - kept for the thread that calls stop()
            self._error = error

    def _open(self) -> Planner:
        self._connections = [self._connect(), self._connect()]
        for connection in self._connections:
            connection.autocommit(False)
            connection.select_db(self._database)
            with connection.cursor() as cursor:
                open_session(cursor)
        if self._planner is None:
            with self._connections[0].cursor() as cursor:
                keys = {name: _read_keys(cursor, name) for name in SHOP_TABLES}
                self._planner = Planner(self._rng, keys, self._now or server_now(cursor))
            self._connections[0].rollback()
        return self._planner

    def _close(self) -> None:
        self._held = None
        for connection in self._connections:
            connection.close()  # rolls back what is open
        self._connections = []

    def _step(self, planner: Planner, most: int) -> None:
        """One transaction of at most `most` changes, on its own or held open."""
        plan, late = planner.plan(most)
        if late and self._held is None:
            self._execute(1, plan)
            self._held = _Held(plan, time.monotonic(), self._executed + 25)
            return
        self._execute(0, plan)
        self._connections[0].commit()
        self._settle(planner, plan)
        if self._held is not None and self._executed >= self._held.due:
            self._commit_held()

    def _execute(self, which: int, plan: Sequence[Change]) -> None:
        connection = self._connections[which]
        with connection.cursor() as cursor:
            for change in plan:
                statement, values = _statement(change)
                if cursor.execute(statement, values) != 1:
                    raise SourceError(
                        f"{change.kind} of {change.table} {change.key} changed no row",
                        next_step="stop other writers of the shop, or load it again",
                        table=f"{self._database}.{change.table}",
                    )
        self._executed += len(plan)

    def _commit_held(self) -> None:
        held, planner = self._held, self._planner
        if held is None or planner is None:
            return
        time.sleep(max(0.0, held.since + self._hold - time.monotonic()))
        self._connections[1].commit()
        self._held = None
        self.late_commits += 1
        self._settle(planner, held.plan)

    def _settle(self, planner: Planner, plan: Iterable[Change]) -> None:
        """Choose from committed rows only, and journal committed deletes only."""
        for change in plan:
            planner.settle(change)
            self.journal.record(change)
            self.changes += 1

    def _pace(self, started: float, done: int) -> None:
        if self._rate is not None:
            self._stopping.wait(max(0.0, started + done / self._rate - time.monotonic()))


def _read_keys(cursor: Cursor, name: str) -> list[tuple[int, ...]]:
    columns = ", ".join(quote(column) for column in SHOP_TABLES[name].key)
    cursor.execute(f"SELECT {columns} FROM {quote(name)} ORDER BY {columns}")  # noqa: S608
    return [tuple(map(int, row)) for row in cursor.fetchall()]


def _statement(change: Change) -> tuple[str, list[object]]:
    table = SHOP_TABLES[change.table]
    target = quote(change.table)
    where = " AND ".join(f"{quote(column)} = %s" for column in table.key)
    if change.kind == "delete":
        return f"DELETE FROM {target} WHERE {where}", list(change.key)  # noqa: S608
    values: list[object] = list(change.values.values())
    if change.kind == "update":
        if table.modified is not None:
            sets = [f"{quote(column)} = %s" for column in change.values]
            sets.append(f"{quote(table.modified)} = {table.clock}")
        else:
            # Without a clock column the same value again would change nothing: make it one more.
            sets = [f"{quote(c)} = %s + IF({quote(c)} <=> %s, 1, 0)" for c in change.values]
            values = [value for value in values for _ in range(2)]
        return f"UPDATE {target} SET {', '.join(sets)} WHERE {where}", [*values, *change.key]  # noqa: S608
    timed = [column for column in (table.created, table.modified) if column]
    columns = ", ".join(quote(column) for column in (*change.values, *timed))
    marks = ", ".join([*["%s"] * len(values), *[table.clock] * len(timed)])
    return f"INSERT INTO {target} ({columns}) VALUES ({marks})", values  # noqa: S608


def main(arguments: Sequence[str] | None = None) -> None:
    """Write until SIGTERM, SIGINT or `--changes`; print a JSON line with what was done."""
    parser = argparse.ArgumentParser(prog="python -m demo.writer", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=3306)
    parser.add_argument("--user", default="root")
    parser.add_argument("--database", default="shop")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument(
        "--rate", type=float, default=20.0, help="row changes per second; 0: no limit"
    )
    parser.add_argument("--changes", type=int, default=0, help="stop after so many; 0: run on")
    options = parser.parse_args(arguments)
    # PyMySQL sends a str password as latin1: bytes are what was set.
    password = os.environ.get("MIRRORLAKE_DEMO_PASSWORD", "").encode()

    def connect() -> Connection[Cursor]:
        return pymysql.connect(
            host=options.host,
            port=options.port,
            user=options.user,
            password=password,
            charset="utf8mb4",
        )

    writer = LiveWriter(connect, options.seed, options.rate or None, options.database)

    def end(_signal: int, _frame: FrameType | None) -> None:
        writer.ask_to_stop()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    writer.run(options.changes or ENDLESS)
    surplus = {name: sorted(keys) for name, keys in writer.journal.surplus.items()}
    print(json.dumps({"changes": writer.changes, "surplus": surplus}))


if __name__ == "__main__":
    main()
