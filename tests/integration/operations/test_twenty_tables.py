"""Twenty tables with foreign keys, 2,000 changes a second, a follower that is killed again and
again, a cut every 20 seconds: readers that take what all of them show at one moment, or what shows
the newest cut, never meet two, by three engines.

``MIRRORLAKE_SOAK_MINUTES=30`` is how long this goes on; by default 20 seconds, and two kills.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.config import load_config
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.errors import MirrorlakeError
from mirrorlake.failpoints import OF_SHOWN_TOGETHER
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.operations.test_follow_log import LOG, assert_equal, sync_all
from tests.soak.runs import Order, Runner
from tests.support.beside import beside
from tests.support.heads import ByDuckDB, ByPyIceberg, BySpark, HeadReader, named_at_once

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
MINUTES = float(os.environ.get("MIRRORLAKE_SOAK_MINUTES", "0.33"))
PAIRS, ACCOUNTS, EACH, KEPT = 10, 500, 100, 200
CUT_SECONDS = 20 if MINUTES >= 2 else 4
RATE, ROWS = 2_000, 40
"""Changes of rows a second, and about how many a transaction has."""
TABLES = [f"{kind}{number}" for number in range(PAIRS) for kind in ("accounts", "entries")]
POINTS = ("", *OF_SHOWN_TOGETHER, "", "log.table", "", "fold.recorded")
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800 + MINUTES * 150)]


@dataclass
class Application:
    """Money moves between ten tables of accounts; accounts come, with entries that refer to them,
    and go with these. All of it in transactions over two pairs of tables."""

    server: EmbeddedServer
    database: str
    changes: int = 0
    seconds: float = 0.0
    fresh: int = ACCOUNTS
    young: dict[int, deque[int]] = field(default_factory=dict[int, deque[int]])

    def live(self, stop: threading.Event) -> None:
        rng, began = random.Random(3), time.monotonic()  # noqa: S311
        with closing(self.server.admin(self.database)) as connection:
            cursor = connection.cursor()
            while not stop.wait(ROWS / RATE):
                # What a slow moment left undone is caught up with.
                while (time.monotonic() - began) * RATE > self.changes and not stop.is_set():
                    connection.begin()
                    for statement in self._transaction(rng):
                        self.changes += cursor.execute(statement)
                    connection.commit()
                self.seconds = time.monotonic() - began

    def _transaction(self, rng: random.Random) -> list[str]:
        here, there = rng.sample(range(PAIRS), 2)
        one, other = rng.randrange(ACCOUNTS - 8), rng.randrange(ACCOUNTS - 8)
        amount, ids = rng.randrange(1, 50), list(range(self.fresh, self.fresh + 4))
        self.fresh += len(ids)
        found = [
            f"UPDATE accounts{here} SET amount = amount - {amount}"
            f" WHERE id BETWEEN {one} AND {one + 7}",
            f"UPDATE accounts{there} SET amount = amount + {amount}"
            f" WHERE id BETWEEN {other} AND {other + 7}",
            f"INSERT INTO accounts{here} VALUES " + ", ".join(f"({new}, 0)" for new in ids),
            f"INSERT INTO entries{here} (account, amount) VALUES "
            + ", ".join(f"({new}, {amount})" for new in ids * 2),
        ]
        self.young.setdefault(here, deque()).extend(ids)
        old = self.young.get(there, deque())
        if len(old) > KEPT:
            gone = ", ".join(str(old.popleft()) for _ in range(4))
            found += [
                f"DELETE FROM entries{there} WHERE account IN ({gone})",
                f"DELETE FROM accounts{there} WHERE id IN ({gone})",
            ]
        return found


QUERY = (
    "SELECT "
    + " + ".join(f"(SELECT sum(amount) FROM accounts{n})" for n in range(PAIRS))
    + ", "
    + " + ".join(
        f"(SELECT count(*) FROM entries{n} AS e WHERE NOT EXISTS"
        f" (SELECT 1 FROM accounts{n} AS a WHERE a.id = e.account))"
        for n in range(PAIRS)
    )
)
"""The sum of all accounts, and how many entries have none."""


@dataclass
class Readers:
    """What one who reads all twenty tables, as the catalog names them in one SELECT, saw.

    Attributes:
        spaces: where: what the tables show now, and what shows the newest cut.
        engines: by name, each with every how many rounds it reads.
        reads: by engine and where.
        moments: different ones, by where.
        wrong: sums that there never were, rows without a parent, and errors.
    """

    catalog: Path
    spaces: dict[str, str]
    engines: dict[str, tuple[HeadReader, int]]
    reads: dict[str, int] = field(default_factory=dict[str, int])
    moments: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    wrong: list[str] = field(default_factory=list[str])

    def run(self, stop: threading.Event) -> None:
        rounds = 0
        try:
            while not stop.wait(0.05):
                rounds += 1
                for name, (engine, every) in self.engines.items():
                    if rounds % every == 0:
                        self.look(name, engine)
        except Exception as error:  # noqa: BLE001 - what a reader meets is what is looked for
            self.wrong.append(f"{type(error).__name__}: {error}")

    def few(self) -> bool:
        """Whether there were too few moments yet, or an engine read none."""
        least = min((len(self.moments.get(where, ())) for where in self.spaces), default=0)
        return not self.wrong and (
            least < 3 or len(self.reads) < len(self.engines) * len(self.spaces)
        )

    def look(self, name: str, engine: HeadReader) -> None:
        """Read what is shown now, and the newest cut, of one moment each."""
        named = named_at_once(self.catalog)
        for where, space in self.spaces.items():
            heads = {table: named.get((space, table), "") for table in TABLES}
            if "" in heads.values():
                continue  # no cut is shown yet
            found = engine.ask(heads, QUERY)
            how = f"{name}, {where}"
            self.reads[how] = self.reads.get(how, 0) + 1
            self.moments.setdefault(where, set()).add(str(heads))
            if found != (PAIRS * ACCOUNTS * EACH, 0):
                self.wrong.append(f"{how}: sum and orphans {found}")


@dataclass
class Cutting:
    """A cut every 20 seconds, whatever becomes of the follower; those that could not be made then,
    and those that readers of the newest cut were not shown, each with why."""

    workspace: Workspace
    made: int = 0
    missed: list[str] = field(default_factory=list[str])

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(CUT_SECONDS):
            try:
                made = make_cut(self.workspace, "s", CutTerms(keep=timedelta(minutes=2)), _no_word)
                self.made += 1
                self.missed += [made.not_shown] if made.not_shown is not None else []
            except MirrorlakeError as error:
                self.missed.append(str(error))


def _no_word(_: str) -> None: ...


def test_no_reader_of_twenty_tables_meets_two_moments(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    place: Place,
    engine_for: EngineFor,
    runner: Runner,
) -> None:
    rows = ", ".join(f"({number}, {EACH})" for number in range(ACCOUNTS))
    for number in range(PAIRS):
        sql(
            f"CREATE TABLE accounts{number} (id INT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL)",
            f"INSERT INTO accounts{number} VALUES {rows}",
            f"CREATE TABLE entries{number} (id INT AUTO_INCREMENT PRIMARY KEY, account INT NOT NULL,"
            f" amount INT, FOREIGN KEY (account) REFERENCES accounts{number} (id))",
        )
    path = engine_for({name: {**LOG, "key": ["id"]} for name in TABLES}).config.path
    text = yaml.safe_load(path.read_text())
    cuts = {"at_cut": True}
    path.write_text(yaml.safe_dump(text | {"cuts": {"sources": {"s": cuts}}}))
    workspace = Workspace.open(load_config(path), spark=place.spark)
    sync_all(workspace)
    shown = workspace.config.tables[0].namespaces.deduped
    spaces = {"main": shown, "at the newest cut": f"{shown}__at_cut"}
    spark = BySpark(place.spark.get())
    engines: dict[str, tuple[HeadReader, int]] = {
        **{"DuckDB": (ByDuckDB(), 1), "PyIceberg": (ByPyIceberg(), 2), "Spark": (spark, 4)}
    }
    readers, cutting = Readers(place.folder / place.database, spaces, engines), Cutting(workspace)
    application = Application(server, database)
    rng, kills, until = random.Random(5), 0, time.monotonic() + MINUTES * 60  # noqa: S311
    with beside(application.live), beside(readers.run), beside(cutting.run):
        while time.monotonic() < until or kills < 2 or readers.few():
            point = POINTS[kills % len(POINTS)]
            parts: dict[str, Any] = {"act": "command", "lease_seconds": 5, "failpoint": point}
            run = runner.start(Order(path, arguments=("follow", "s"), **parts))
            seconds = rng.uniform(20, 90) if MINUTES >= 2 else 15
            runner.wait(run, seconds)
            if run.code is None:
                os.kill(run.pid, signal.SIGKILL)
                runner.wait(run)
            assert run.code == -signal.SIGKILL, run.error
            kills += 1
            assert readers.wrong == []
    assert readers.wrong == []
    sync_all(workspace)
    assert_equal(workspace, server, *TABLES)
    moments = {where: len(found) for where, found in readers.moments.items()}
    print(
        f"\n{application.changes:,} changes in {application.seconds:.0f} s "
        f"({application.changes / application.seconds:,.0f} a second), {kills} kills; "
        f"{cutting.made} cuts, and not made or not shown {cutting.missed}; "
        f"reads {readers.reads}, different moments {moments}"
    )
