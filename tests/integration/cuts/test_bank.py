"""A bank: money moves between tables all the time, and no reader of a cut ever sees another sum.

Cuts are made and killed at every step, tables are altered, one joins and leaves; three engines read
by tag, and the tables that show the newest cut, as the catalog names them at one moment.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_avro
import duckdb_extension_iceberg
import pyarrow.compute as _compute
import pytest
import yaml
from pyiceberg.table import StaticTable

from demo.embedded import EmbeddedServer
from mirrorlake.config import load_config
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.failpoints import OF_CUTS
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.soak.runs import Order, Runner

pc: Any = _compute
Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
READS = int(os.environ.get("MIRRORLAKE_BANK_READS", "300"))
"""Reads of each way together; ``10000`` is for a quiet hour."""
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
    stop = threading.Event()

    def write() -> None:
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

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@dataclass
class Readers:
    """What readers saw.

    Attributes:
        counts: reads by way and engine.
        wrong: sums that the bank never had, and errors.
    """

    warehouse: Path
    counts: dict[str, int] = field(default_factory=dict[str, int])
    wrong: list[str] = field(default_factory=list[str])

    def saw(self, how: str, found: Any, wanted: int) -> None:
        self.counts[how] = self.counts.get(how, 0) + 1
        if found != wanted:
            self.wrong.append(f"{how}: {found}, not {wanted}")

    def named_at_once(self) -> dict[str, str]:
        """The metadata files of the tables that show the newest cut, of one moment."""
        query = (
            "SELECT table_name, metadata_location FROM iceberg_tables"
            " WHERE table_namespace LIKE '%\\_\\_at\\_cut' ESCAPE '\\'"
            " AND table_namespace NOT LIKE '%clean%'"
        )
        with closing(sqlite3.connect(self.warehouse / "catalog.db", timeout=30)) as catalog:
            return dict(catalog.execute(query).fetchall())


def opened() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "false"})
    for package in (duckdb_extension_avro, duckdb_extension_iceberg):
        [extension] = Path(str(package.__file__)).parent.glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    return connection


def by_duckdb(connection: duckdb.DuckDBPyConnection, location: str, version: int | None) -> Any:
    path = location.removeprefix("file://")
    at = f", snapshot_from_id = {version}" if version is not None else ""
    query = f"SELECT coalesce(sum(amount), 0) FROM iceberg_scan('{path}'{at})"
    [(found,)] = connection.execute(query).fetchall()
    return found


def by_spark(spark: Any, workspace: Workspace, cut: Cut) -> Any:
    """What the tables have at a cut; None where it was dropped meanwhile."""
    text = " UNION ALL ".join(
        f"SELECT sum(amount) AS s FROM lake.{one.namespace}.{one.lake_table}"
        f" VERSION AS OF '{cut.tag}'"
        for one in money_of(cut)
    )
    try:
        [row] = spark.sql(f"SELECT sum(s) FROM ({text})").collect()
    except Exception:
        time.sleep(3)  # its tags go first
        if cut.name in {one.name for one in Cuts(workspace.ledger).all("s")}:
            raise
        return None
    return row[0]


def money_of(cut: Cut) -> list[Any]:
    return [one for one in cut.tables if one.layer == "deduped"]


@contextmanager
def reading(workspace: Workspace, readers: Readers, spark: Any) -> Iterator[None]:
    """Read random cuts by their tags, and the newest by its names, until the block ends."""
    stop = threading.Event()

    def look() -> None:
        rng, connection = random.Random(5), opened()  # noqa: S311
        while not stop.is_set():
            cuts = Cuts(workspace.ledger).all("s")
            if not cuts:
                time.sleep(0.1)
                continue
            cut = rng.choice(cuts)
            names = [(o.namespace, o.lake_table, o.snapshot_id) for o in money_of(cut)]
            wanted = len(names) * ACCOUNTS * EACH
            tables = [workspace.lake.catalog.load_table(name[:2]) for name in names]
            versions = [t.metadata.refs[cut.tag].snapshot_id for t in tables if cut.tag in t.refs()]
            if len(versions) < len(names):
                continue  # it was dropped meanwhile
            found = sum(
                pc.sum(table.scan(snapshot_id=version).to_arrow()["amount"]).as_py()
                for table, version in zip(tables, versions, strict=True)
            )
            readers.saw("PyIceberg by tag", found, wanted)
            parts = zip(tables, versions, strict=True)
            found = sum(by_duckdb(connection, t.metadata_location, v) for t, v in parts)
            readers.saw("DuckDB by tag", found, wanted)
            shown = readers.named_at_once()
            wanted = len(shown) * ACCOUNTS * EACH
            if shown:
                found = sum(by_duckdb(connection, one, None) for one in shown.values())
                readers.saw("DuckDB by name", found, wanted)
                read = (StaticTable.from_metadata(one).scan() for one in shown.values())
                found = sum(pc.sum(one.to_arrow()["amount"]).as_py() for one in read)
                readers.saw("PyIceberg by name", found, wanted)
            if rng.random() < 0.1:
                found = by_spark(spark, workspace, cut)
                if found is not None:
                    readers.saw("Spark by tag", found, len(names) * ACCOUNTS * EACH)

    def safely() -> None:
        try:
            look()
        except Exception as error:  # noqa: BLE001 - what a reader meets is what is looked for
            readers.wrong.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=safely, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


@pytest.mark.full
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
    bank, readers = Bank(["current", "savings"]), Readers(place.folder / "lake")
    rng, made = random.Random(11), 0  # noqa: S311
    with moving(server, database, bank), reading(workspace, readers, place.spark.get()):
        for number in range(10_000):
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
            if sum(readers.counts.values()) >= READS and number >= 2 * len(POINTS):
                break
            assert not readers.wrong, readers.wrong
    assert readers.wrong == []
    assert made >= 2
    assert bank.transfers > made
    assert {"PyIceberg by tag", "DuckDB by tag", "DuckDB by name"} <= readers.counts.keys()
    print(f"\n{made} cuts, {bank.transfers} transfers, reads: {readers.counts}")


def mirror(path: Path, database: str, tables: list[str]) -> None:
    """Have the contract file name these tables, and cuts shown."""
    text = yaml.safe_load(path.read_text())
    text["sources"]["s"]["databases"][database]["tables"] = dict.fromkeys(tables, LOG)
    text["cuts"] = {"sources": {"s": {"at_cut": True}}}
    path.write_text(yaml.safe_dump(text))
    assert load_config(path).tables
