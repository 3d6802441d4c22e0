"""The demo's sources on a real server, judged by the comparison against lake tables made by hand.

The lake tables here are made by PyIceberg from PyMySQL's own typed values: no engine is involved,
so a fault found here is one of the sources, the writer or the comparison.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from demo.nyc import NYC_TABLES, load_nyc
from demo.oracle import compare_rows, compare_table
from demo.oracle_text import SourceColumn, read_source
from demo.writer import LiveWriter
from mirrorlake.errors import ProofError, SourceError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.trial.shop import create_shop
from mirrorlake.trial.shop_rows import SHOP_TABLES

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
PASSWORD = "wörd"
ORIGINAL = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    with MariaDB.start(tmp_path_factory.mktemp("server")) as running:
        running.create_user("mirror", PASSWORD)
        yield running


@pytest.fixture
def connection(server: MariaDB) -> Iterator[Connection[Cursor]]:
    with connect(server) as made:
        yield made


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    made = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path))
    made.create_namespace("lake")
    return made


def connect(server: MariaDB) -> Connection[Cursor]:
    return pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user="mirror",
        password=PASSWORD.encode(),
        charset="utf8mb4",
        ssl_disabled=True,
    )


def typed_rows(connection: Connection[Cursor], database: str, table: str) -> pa.Table:
    """The table as a right mirror would hold it, made from PyMySQL's own converters."""
    columns = read_source(connection, database, table).columns
    names = [quote(column.name) for column in columns]
    cells = [
        f"CAST({name} AS DOUBLE)"
        if column.type == "float"
        else f"CAST({name} AS CHAR)"
        if column.type == "time"
        else name
        for column, name in zip(columns, names, strict=True)
    ]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {', '.join(cells)} FROM {quote(database)}.{quote(table)}")
        rows = cursor.fetchall()
    originals: list[list[dict[str, str]]] = [[] for _ in rows]
    arrays = {
        column.name: pa.array(
            [typed(column, row[at], kept) for row, kept in zip(rows, originals, strict=True)],
            column.lake_type,
        )
        for at, column in enumerate(columns)
    }
    if any(column.type in {"date", "datetime", "timestamp"} for column in columns):
        ordered = [sorted(kept, key=lambda entry: entry["column"]) for kept in originals]
        arrays["_mirror_original"] = pa.array(ordered, ORIGINAL)
    return pa.table(arrays)


def typed(column: SourceColumn, value: Any, kept: list[dict[str, str]]) -> Any:
    if value is None:
        return None
    if column.type in {"date", "datetime", "timestamp"} and isinstance(value, str):
        kept.append({"column": column.name, "text": value})  # PyMySQL's answer to a zero date
        return None
    if column.type == "bit":
        return int.from_bytes(value, "big")
    if pa.types.is_decimal(column.lake_type):
        return Decimal(value)
    return value


@pytest.mark.full
def test_the_flights_are_loaded_exactly(
    connection: Connection[Cursor], catalog: SqlCatalog
) -> None:
    database = "my `real` flights"
    seen: list[tuple[str, int, int]] = []
    counts = load_nyc(connection, database, lambda *step: seen.append(step))
    assert counts == {
        "airlines": 16,
        "airports": 1_458,
        "planes": 3_322,
        "weather": 26_115,
        "flights": 336_776,
    }
    assert seen[-1] == ("flights", 336_776, 336_776)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT SUM(tailnum IS NULL), SUM(dep_time IS NULL), MIN(time_hour), MAX(time_hour)"
            f" FROM {quote(database)}.flights"
        )
        moments = (
            datetime.fromisoformat("2013-01-01 10:00"),
            datetime.fromisoformat("2014-01-01 04:00"),
        )
        assert cursor.fetchone() == (2_512, 8_255, *moments)
    for table in NYC_TABLES[:-1]:
        rows = typed_rows(connection, database, table.name)
        lake = catalog.create_table(f"lake.{table.name}", rows.schema)
        lake.append(rows)
        verdict = compare_table(connection, database, table.name, table.key, lake)
        assert verdict.equal, verdict.describe()
        lake.delete(EqualTo(table.key[0], rows[table.key[0]][0].as_py()))
        assert compare_table(connection, database, table.name, table.key, lake).missing


@pytest.mark.parametrize("name", SHOP_TABLES)
def test_every_shop_table_can_be_mirrored_exactly(
    connection: Connection[Cursor], catalog: SqlCatalog, name: str
) -> None:
    create_shop(connection, customers=300, now=NOW)
    rows = typed_rows(connection, "shop", name)
    lake = catalog.create_table(f"lake.{name}", rows.schema)
    lake.append(rows)
    verdict = compare_table(connection, "shop", name, SHOP_TABLES[name].key, lake)
    assert verdict.equal, verdict.describe()
    assert verdict.source_rows > 100


def test_the_seed_and_now_decide_the_shop(connection: Connection[Cursor]) -> None:
    made: list[dict[str, Any]] = []
    for seed in (1, 1, 2):
        counts = create_shop(connection, "`odd` shop", seed, customers=50, now=NOW)
        made.append({n: read_source(connection, "`odd` shop", n).rows for n in counts})
    assert made[0] == made[1]
    assert made[0] != made[2]


def test_the_history_ends_at_now(connection: Connection[Cursor]) -> None:
    create_shop(connection, customers=100, now=NOW)
    with connection.cursor() as cursor:
        for table in ("customers", "orders", "order_items", "payments"):
            cursor.execute(f"SELECT MIN(modified_at), MAX(modified_at) FROM shop.{table}")
            first, last = cursor.fetchone() or (None, None)
            assert first.isoformat() >= "2026-01-30T12:00:00"
            assert "2026-02-27" < last.isoformat() < "2026-03-01T12:00:00"


@pytest.mark.full
def test_two_thousand_changes_leave_exactly_the_journalled_surplus(
    server: MariaDB, connection: Connection[Cursor]
) -> None:
    create_shop(connection, customers=1_000, now=NOW)
    before = {name: typed_rows(connection, "shop", name) for name in SHOP_TABLES}
    writer = LiveWriter(lambda: connect(server), seed=11, now=NOW, hold=0.2)
    writer.run(2_000)
    assert writer.changes == 2_000
    assert writer.late_commits > 0
    for name, table in SHOP_TABLES.items():
        surplus = writer.journal.surplus[name]
        assert surplus, f"no row of {name} was deleted"
        key = list(table.key)
        now_rows = typed_rows(connection, "shop", name)
        source = read_source(connection, "shop", name)
        assert not compare_rows(source, key, before[name]).equal_but_for(surplus)
        # A mirror that sees all but deletes: today's rows, and the deleted ones as they were.
        texts = zip(*(map(str, before[name][column].to_pylist()) for column in key), strict=True)
        stale = before[name].filter(pa.array([row in surplus for row in texts]))
        mirror = pa.concat_tables([now_rows, stale])
        verdict = compare_rows(source, key, mirror)
        assert verdict.equal_but_for(surplus), verdict.describe()
        assert not verdict.equal


def test_exactly_as_many_changes_as_asked_by_the_binlog(
    server: MariaDB, connection: Connection[Cursor]
) -> None:
    create_shop(connection, customers=100, now=NOW)
    with server.admin() as admin, admin.cursor() as cursor:
        for changes in (1, 2, 7, 250):
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("SHOW MASTER STATUS")
            log = (cursor.fetchone() or ("",))[0]
            LiveWriter(lambda: connect(server), seed=changes, hold=0).run(changes)
            cursor.execute(f"SHOW BINLOG EVENTS IN '{log}'")
            events = [event[2] for event in cursor.fetchall()]
            rows = [
                kind
                for kind in events
                if kind.lower().startswith(("write_rows", "update_rows", "delete_rows"))
            ]
            assert len(rows) == changes  # each statement changes one row


@pytest.mark.full
def test_a_late_order_appears_after_younger_ones(
    server: MariaDB, connection: Connection[Cursor]
) -> None:
    create_shop(connection, customers=200, now=NOW)
    writer = LiveWriter(lambda: connect(server), seed=11, rate=400, hold=0.5)
    late: set[int] = set()  # orders that were not there when a younger one was
    writer.start()
    with connection.cursor() as cursor:
        deadline = time.monotonic() + 200
        while not writer.late_commits and time.monotonic() < deadline:
            cursor.execute("SELECT id FROM shop.orders WHERE id > 1000 ORDER BY id")
            connection.rollback()
            there = [row[0] for row in cursor.fetchall()]
            late |= set(range(1_001, max(there, default=0))) - set(there)
        writer.stop()
        gone = {int(key) for (key,) in writer.deleted["orders"]}
        connection.rollback()
        cursor.execute("SELECT id FROM shop.orders WHERE id > 1000")
        assert late - gone <= {row[0] for row in cursor.fetchall()}
        assert late - gone


def test_the_thread_keeps_its_rate_and_stops(
    server: MariaDB, connection: Connection[Cursor]
) -> None:
    create_shop(connection, customers=100, now=NOW)
    writer = LiveWriter(lambda: connect(server), rate=100)
    started = time.monotonic()
    writer.start()
    while writer.changes < 50 and time.monotonic() < started + 200:
        time.sleep(0.02)
    writer.stop()
    assert 50 <= writer.changes < 100 * (time.monotonic() - started) + 20
    writer.start()
    writer.stop()


def test_a_second_writer_is_noticed(server: MariaDB, connection: Connection[Cursor]) -> None:
    create_shop(connection, customers=50, now=NOW)
    writer = LiveWriter(lambda: connect(server), rate=500)
    writer.start()
    while not writer.changes:  # it knows the keys
        time.sleep(0.02)
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM shop.products")
        connection.commit()
    while writer.is_running:  # until it has come upon a product
        time.sleep(0.05)
    with pytest.raises(SourceError, match="changed no row"):
        writer.stop()
    writer.run(20)  # it reads the keys afresh


def test_the_writer_is_a_process(server: MariaDB, connection: Connection[Cursor]) -> None:
    create_shop(connection, customers=50, now=NOW)
    command = [sys.executable, "-m", "demo.writer", "--port", str(server.port)]
    command += ["--user", "mirror", "--rate", "100"]
    root = Path(__file__).parents[3]
    environment = os.environ | {"MIRRORLAKE_DEMO_PASSWORD": PASSWORD, "PYTHONPATH": str(root)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        keys = "SELECT (SELECT MAX(id) FROM shop.orders) + (SELECT MAX(id) FROM shop.events)"
        seen: list[int] = []
        with connection.cursor() as cursor:
            # Until rows were added: a busy machine starts it late.
            while len(set(seen)) < 3 and process.poll() is None:
                time.sleep(0.05)
                connection.rollback()  # a new look
                cursor.execute(keys)
                seen += [int(key) for (key,) in cursor.fetchall()]
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    report = json.loads(said)
    assert report["changes"] >= 2
    assert set(report["surplus"]) == set(SHOP_TABLES)


class TestReading:
    """What the comparison reads from the server, and what it refuses to."""

    @pytest.fixture(autouse=True)
    def database(self, connection: Connection[Cursor]) -> None:
        with connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS reading")
            cursor.execute("DROP TABLE IF EXISTS reading.t")

    def make(self, connection: Connection[Cursor], columns: str, *values: str) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = '', time_zone = '+05:00'")
            cursor.execute(f"CREATE TABLE reading.t ({columns})")
            for value in values:
                cursor.execute(f"INSERT INTO reading.t VALUES ({value})")
        connection.commit()

    @pytest.mark.parametrize(
        ("column", "value", "text"),
        [
            ("INT ZEROFILL", "7", "7"),
            ("BIGINT UNSIGNED", "18446744073709551615", "18446744073709551615"),
            ("DECIMAL(65,30)", "-1.5", "-1.500000000000000000000000000000"),
            ("FLOAT", "16777217", "16777216.0"),
            ("FLOAT", "-0e0", "-0.0"),
            ("DOUBLE", "-0e0", "-0.0"),
            ("DOUBLE", "1.7976931348623157e308", "1.7976931348623157e+308"),
            ("DOUBLE", "5e-324", "5e-324"),
            ("CHAR(5)", "'a  '", "a"),
            ("VARCHAR(5)", "'a  '", "a  "),
            ("TEXT CHARACTER SET latin1", "'é'", "é"),
            ("TEXT CHARACTER SET sjis", "'あ'", "あ"),
            ("TEXT CHARACTER SET sjis", "CAST(x'5c' AS CHAR CHARACTER SET sjis)", "x'5C'"),
            ("TEXT CHARACTER SET gbk", "CAST(x'a2a1' AS CHAR CHARACTER SET gbk)", "ⅰ"),
            ("TEXT CHARACTER SET gbk", "CAST(x'a2ab' AS CHAR CHARACTER SET gbk)", "x'A2AB'"),
            ("TEXT CHARACTER SET ucs2", "CAST(x'D800' AS CHAR CHARACTER SET ucs2)", "x'D800'"),
            ("UUID", "'123E4567e89b12d3a456426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
            ("INET6", "'::ffff:1.2.3.4'", "::ffff:1.2.3.4"),
            ("BINARY(4)", "'a'", "61000000"),
            ("BIT(64)", "b'" + "1" * 64 + "'", str(2**64 - 1)),
            ("DATE", "'2026-02-00'", "2026-02-00"),
            ("DATETIME(3)", "'0000-00-00'", "0000-00-00 00:00:00.000"),
            ("TIMESTAMP(6)", "'2026-03-01 05:00:00.1'", "2026-03-01 00:00:00.100000"),
            ("TIME(1)", "'-838:59:59'", "-838:59:59.0"),
            ("YEAR", "0", "0000"),
            ("ENUM('a','b')", "2", "b"),
            ("SET('a','b')", "3", "a,b"),
            ("JSON", '\'{"b": 1, "a": 2}\'', '{"b": 1, "a": 2}'),
            ("VARCHAR(9)", "''", ""),
            ("VARCHAR(9)", "NULL", None),
        ],
    )
    def test_text(
        self, connection: Connection[Cursor], column: str, value: str, text: str | None
    ) -> None:
        self.make(connection, f"`a``b` {column} NULL", value)
        source = read_source(connection, "reading", "t")
        assert source.rows.to_pylist() == [{"a`b": text}]

    def test_excluded_columns_are_not_selected(self, connection: Connection[Cursor]) -> None:
        self.make(connection, "id INT, secret INT", "1, NULL")
        assert read_source(connection, "reading", "t", {"secret"}).rows.column_names == ["id"]

    def test_no_such_table(self, connection: Connection[Cursor]) -> None:
        with pytest.raises(ProofError, match=r"no table reading\.nothing"):
            read_source(connection, "reading", "nothing")

    def test_an_old_snapshot_of_the_caller_is_not_compared(
        self, server: MariaDB, connection: Connection[Cursor]
    ) -> None:
        self.make(connection, "id INT", "1")
        connection.begin()
        with connection.cursor() as cursor:
            cursor.execute("SELECT * FROM reading.t")
            with connect(server) as other, other.cursor() as writing:
                writing.execute("INSERT INTO reading.t VALUES (2)")
                other.commit()
        assert read_source(connection, "reading", "t").rows.num_rows == 2
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM reading.t WHERE id = 2")
            assert cursor.fetchone() == (2,)  # converters are back


def test_a_pci_column_in_an_old_schema_is_a_leak(
    connection: Connection[Cursor], catalog: SqlCatalog
) -> None:
    create_shop(connection, customers=50, now=NOW)
    rows = typed_rows(connection, "shop", "payments")
    lake = catalog.create_table("lake.payments", rows.schema)
    with lake.update_schema() as update:
        update.delete_column("cvv")
    excluded = {"cvv", "card_number", "card_expiry"}
    lake.append(rows.drop_columns(["cvv"]))
    verdict = compare_table(connection, "shop", "payments", ["id"], lake, excluded)
    assert verdict.leaked == ("card_expiry", "card_number", "cvv")
    right = catalog.create_table("lake.right", rows.drop_columns(sorted(excluded)).schema)
    right.append(rows.drop_columns(sorted(excluded)))
    assert compare_table(connection, "shop", "payments", ["id"], right, excluded).equal
