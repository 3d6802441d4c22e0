"""A row committed late, behind the cursor, is read: windows reach back to the oldest open
transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from mirrorlake.demo.mariadb import MariaDB
from mirrorlake.mysql.connect import read_oldest_open, session
from mirrorlake.sync import Engine
from tests.integration.conftest import PASSWORD, lake_rows

NO_OVERLAP = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "overlap": "0s"}


def test_a_late_commit_is_not_missed_without_any_overlap(
    server: MariaDB, database: str, sql: Callable[..., Any], engine_for: Callable[..., Engine]
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, "
        "modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY (modified_at))",
        "INSERT INTO t (id) VALUES (1)",
    )
    engine = engine_for({"t": NO_OVERLAP})
    contract = engine.config.table("t")
    engine.sync(contract)
    with server.admin(database) as late, late.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO t (id) VALUES (2)")
        sql("INSERT INTO t (id) VALUES (3)")
        seen = engine.sync(contract)  # the late row is open, and older than what this one reads
        assert seen.rows >= 1
        last = engine.ledger.last_load(contract.name, "success")
        assert last is not None
        assert last.receipt is not None
        assert last.receipt.oldest_open is not None
        cursor.execute("COMMIT")
    engine.sync(contract)
    rows = lake_rows(engine, contract.namespaces.deduped, "t")
    assert sorted(row["id"] for row in rows) == [1, 2, 3]


def test_what_only_reads_holds_no_window_back(
    server: MariaDB, database: str, sql: Callable[..., Any], engine_for: Callable[..., Engine]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    engine = engine_for({"t": {"mode": "full", "key": ["id"]}})
    source = engine.config.sources["s"]
    with server.admin(database) as reader, reader.cursor() as cursor, session(source) as ours:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        cursor.execute("SELECT * FROM t")
        assert read_oldest_open(ours) is None
        cursor.execute("INSERT INTO t VALUES (2)")
        time.sleep(1.1)
        oldest = read_oldest_open(ours)
        ours.ping()
        with ours.cursor() as clock:
            clock.execute("SELECT UTC_TIMESTAMP()")
            ((now,),) = clock.fetchall()
        assert oldest is not None
        assert timedelta(seconds=1) <= now - oldest < timedelta(seconds=30)
        cursor.execute("ROLLBACK")


def test_without_the_privilege_the_overlap_alone_holds(
    server: MariaDB, database: str, sql: Callable[..., Any], engine_for: Callable[..., Engine]
) -> None:
    server.create_user("blind", PASSWORD, {f"{database}.*": "SELECT", "*.*": "REPLICATION CLIENT"})
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, "
        "modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY (modified_at))",
        "INSERT INTO t (id) VALUES (1)",
    )
    engine = engine_for({"t": NO_OVERLAP}, {"user": "blind"})
    result = engine.sync(engine.config.table("t"))
    assert result.rows == 1
    last = engine.ledger.last_load("s." + database + ".t", "success")
    assert last is not None
    assert last.receipt is not None
    assert last.receipt.oldest_open is None
