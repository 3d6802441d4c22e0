"""A bank: money moves between tables all the time, and no reader of a cut ever sees another sum.

Cuts are made and killed at every step, tables are altered, one joins and leaves; three engines read
by tag, and the tables that show the newest cut, as the catalog names them at one moment.

``MIRRORLAKE_BANK_READS=10000`` is how many reads there are; by default 300.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as _compute
import pytest
import yaml

from mirrorlake.config import load_config
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.failpoints import OF_CUTS
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.soak.runs import Order, Runner
from tests.support.beside import beside
from tests.support.heads import ByDuckDB, ByPyIceberg, BySpark, HeadReader, named_at_once, opened

pc: Any = _compute
Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
READS = int(os.environ.get("MIRRORLAKE_BANK_READS", "300"))
SHARES = {"PyIceberg": 0.75, "DuckDB": 0.14, "Spark": 0.11}
"""Each engine's part of the reads."""
pytestmark = [pytest.mark.full, pytest.mark.timeout(3600 + READS * 3)]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
ACCOUNTS, EACH = 50, 100
POINTS = (*OF_CUTS, "log.table", "fold.recorded", "")


def said(_: str) -> None: ...


@dataclass
class Bank:
    """Which tables hold money, as the writer sees them: a list that changes under its lock."""

    tables: list[str]
    lock: threading.Lock = field(default_factory=threading.Lock)
    transfers: int = 0


@contextmanager
def moving(server: EmbeddedServer, database: str, bank: Bank) -> Iterator[None]:
    def write(stop: threading.Event) -> None:
        rng = random.Random(3)  # noqa: S311
        with closing(server.admin(database)) as connection:
            cursor = connection.cursor()
            while not stop.wait(0.01):
                with bank.lock:
                    here, there = rng.choice(bank.tables), rng.choice(bank.tables)
                    amount = rng.randrange(1, 50)
                    connection.begin()
                    for table, sign in ((here, "-"), (there, "+")):
                        cursor.execute(
                            f"UPDATE {table} SET amount = amount {sign} {amount}"
                            f" WHERE id = {rng.randrange(ACCOUNTS)}"
                        )
                    connection.commit()
                    bank.transfers += 1

    with beside(write):
        yield


Sums = Callable[[Cut], Any]
"""What an engine finds the tables of a cut to have, by its tag; None where it was dropped."""


@dataclass
class Readers:
    """What readers saw.

    Attributes:
        warehouse: whose catalog is asked.
        counts: reads by engine and way.
        wrong: sums that the bank never had, and errors.
    """

    workspace: Workspace
    warehouse: Path
    counts: dict[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    wrong: list[str] = field(default_factory=list[str])

    def done(self, engine: str) -> float:
        """How much of its part an engine has read."""
        mine = sum(count for (name, _), count in self.counts.items() if name == engine)
        return mine / (READS * SHARES[engine])

    def ended(self) -> bool:
        """Whether each has read its part, or one met what it must not."""
        return bool(self.wrong) or all(self.done(engine) >= 1 for engine in SHARES)

    def look(self, engine: str, by_tag: Sums, by_name: HeadReader, stop: threading.Event) -> None:
        """Read random cuts by their tags, and the newest by its names, no further ahead of the
        other engines than kills and cuts are."""
        rng = random.Random(engine)  # noqa: S311
        try:
            while not stop.is_set():
                if self.done(engine) > min(map(self.done, SHARES)) + 0.05:
                    time.sleep(0.05)
                    continue
                cuts = Cuts(self.workspace.ledger).all("s")
                if not cuts:
                    time.sleep(0.1)
                    continue
                cut = rng.choice(cuts)
                found = by_tag(cut)
                if found is not None:
                    self.saw(engine, "by tag", found, len(money_of(cut)))
                heads = self.shown()
                if heads:
                    query = " UNION ALL ".join(f"SELECT sum(amount) AS s FROM {n}" for n in heads)
                    (found,) = by_name.ask(heads, f"SELECT sum(s) FROM ({query}) AS t")
                    self.saw(engine, "by name", found, len(heads))
        except Exception:  # noqa: BLE001 - what a reader meets is what is looked for
            self.wrong.append(f"{engine}: {traceback.format_exc()}")

    def saw(self, engine: str, how: str, found: Any, tables: int) -> None:
        self.counts[engine, how] = self.counts.get((engine, how), 0) + 1
        if found != tables * ACCOUNTS * EACH:
            self.wrong.append(f"{engine} {how}: {found} in {tables} tables")

    def shown(self) -> dict[str, str]:
        """The tables that show the newest cut, as the catalog names them at one moment."""
        named = named_at_once(self.warehouse / "catalog.db")
        mine = f"{self.workspace.config.tables[0].namespaces.deduped}__at_cut"
        return {f"shown_{name}": at for (space, name), at in named.items() if space == mine}

    def by_pyiceberg(self, cut: Cut) -> Any:
        tables = self._tagged(cut)
        if tables is None:
            return None
        scans = (table.scan(snapshot_id=version) for table, version in tables)
        return sum(pc.sum(scan.to_arrow()["amount"]).as_py() for scan in scans)

    def by_duckdb(self) -> Sums:
        connection = opened()

        def read(cut: Cut) -> Any:
            tables = self._tagged(cut)
            if tables is None:
                return None
            queries = (
                f"SELECT sum(amount) FROM iceberg_scan('{t.metadata_location.removeprefix('file://')}',"
                f" snapshot_from_id = {version})"
                for t, version in tables
            )
            return sum(connection.execute(query).fetchall()[0][0] for query in queries)

        return read

    def _tagged(self, cut: Cut) -> list[tuple[Any, int]] | None:
        """A cut's tables, and which versions its tags name; None where it was dropped meanwhile."""
        names = [one.identifier.path for one in money_of(cut)]
        tables = [self.workspace.lake.catalog.load_table(name) for name in names]
        refs = [table.metadata.refs.get(cut.tag) for table in tables]
        found = [(t, ref.snapshot_id) for t, ref in zip(tables, refs, strict=True) if ref]
        return found if len(found) == len(names) else None

    def by_spark(self, spark: Any) -> Sums:
        def read(cut: Cut) -> Any:
            text = " UNION ALL ".join(
                f"SELECT sum(amount) AS s FROM lake.{one.namespace}.{one.lake_table}"
                f" VERSION AS OF '{cut.tag}'"
                for one in money_of(cut)
            )
            try:
                [row] = spark.sql(f"SELECT sum(s) FROM ({text})").collect()
            except Exception:
                time.sleep(3)  # its tags go first
                if cut.name in {one.name for one in Cuts(self.workspace.ledger).all("s")}:
                    raise
                return None
            return row[0]

        return read


def money_of(cut: Cut) -> list[Any]:
    return [one for one in cut.tables if one.layer == "deduped"]


@contextmanager
def reading(readers: Readers, spark: Any) -> Iterator[None]:
    """Each engine reads in a thread of its own, until the block ends."""
    ways: dict[str, tuple[Sums, HeadReader]] = {
        "PyIceberg": (readers.by_pyiceberg, ByPyIceberg()),
        "DuckDB": (readers.by_duckdb(), ByDuckDB()),
        "Spark": (readers.by_spark(spark), BySpark(spark)),
    }
    with ExitStack() as reads:
        for engine, way in ways.items():
            reads.enter_context(beside(partial(readers.look, engine, *way)))
        yield


def test_no_reader_of_a_cut_sees_a_sum_that_the_bank_never_had(
    server: EmbeddedServer,
    database: str,
    sql: Sql,
    place: Place,
    engine_for: EngineFor,
    runner: Runner,
) -> None:
    for name in ("current", "savings", "shares"):
        rows = ", ".join(f"({number}, {EACH})" for number in range(ACCOUNTS))
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL)",
            f"INSERT INTO {name} VALUES {rows}",
        )
    workspace = engine_for(dict.fromkeys(("current", "savings"), LOG))
    path = workspace.config.path
    for cut in Cuts(workspace.ledger).all("s"):  # of other tests
        Cuts(workspace.ledger).forget(cut.name)
    mirror(path, database, ["current", "savings"])
    bank = Bank(["current", "savings"])
    readers = Readers(workspace, place.folder / "lake")
    rng, made = random.Random(11), 0  # noqa: S311
    with moving(server, database, bank), reading(readers, place.spark.get()):
        for number in range(100_000):
            point = POINTS[number % len(POINTS)]
            if number % 8 == 3:
                column = f"c{number}"
                with bank.lock:
                    sql(f"ALTER TABLE current ADD COLUMN {column} INT")
            if number % 8 == 5:
                joined = ["current", "savings", *(["shares"] if rng.random() < 0.5 else [])]
                mirror(path, database, joined)
            if point:
                parts = {"act": "command", "failpoint": point, "lease_seconds": 2}
                arguments = ("cut", "s", "--keep", "20s")
                run = runner.run(Order(path, arguments=arguments, **parts))
                assert run.code in (0, -signal.SIGKILL), run.error
                made += run.code == 0
            else:
                here = replace(workspace, config=load_config(path))
                made += make_cut(here, "s", CutTerms(keep=timedelta(seconds=20)), said).tries > 0
            # With each cut: a run that is stopped says how far it came.
            reads = {" ".join(how): count for how, count in sorted(readers.counts.items())}
            killed = number + 1 - made
            print(f"{made} cuts, {killed} killed, {bank.transfers} transfers, reads: {reads}")
            if readers.ended() and number >= 2 * len(POINTS):
                break
            assert not readers.wrong, readers.wrong
    assert readers.wrong == []
    assert made >= 2
    assert bank.transfers > made
    assert len(readers.counts) == 2 * len(SHARES)


def mirror(path: Path, database: str, tables: list[str]) -> None:
    """Have the contract file name these tables, and cuts shown."""
    text = yaml.safe_load(path.read_text())
    text["sources"]["s"]["databases"][database]["tables"] = dict.fromkeys(tables, LOG)
    text["cuts"] = {"sources": {"s": {"at_cut": True}}}
    path.write_text(yaml.safe_dump(text))
    assert load_config(path).tables
