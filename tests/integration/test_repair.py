"""Repairs: what was planted in the lake is gone afterwards, by the judge that shares no code."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from checks.exact import judge_exact
from demo.mariadb import MariaDB
from demo.oracle import compare_table
from mirrorlake.cli import cli
from mirrorlake.destinations.iceberg.catalog import Identifier
from mirrorlake.errors import ConfigError, SourceError
from mirrorlake.operations.refold import refold_table
from mirrorlake.operations.repair import Repaired, repair_table
from mirrorlake.operations.sync import Engine
from mirrorlake.proof.ranges import Range
from mirrorlake.proof.report import Ask

Sql = Callable[..., Any]
EngineFor = Callable[..., Engine]
FLAG = "_mirror_deleted_at"
LONG_AGO = "2020-01-01 00:00:00"
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
FAULTS = (
    "UPDATE {t} SET a = CASE id WHEN 1 THEN 'A1' WHEN 2 THEN NULL ELSE a END, "
    "x = CASE id WHEN 7 THEN 0.0 ELSE x END WHERE id < 8",
    "DELETE FROM {t} WHERE id = 9",
    "INSERT INTO {t} SELECT explode(array(id, id, 99)), a, x, modified_at, _mirror_original "
    "FROM {t} WHERE id = 10",
)


def mirrored(engine_for: EngineFor, sql: Sql, clock: str = "DATETIME", **contract: Any) -> Engine:
    """A table of forty old rows, mirrored."""
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a VARCHAR(20), x DOUBLE, "
        f"modified_at {clock} NOT NULL, KEY (modified_at))",
        f"INSERT INTO t SELECT seq, CONCAT('a', seq), IF(seq = 7, -0e0, 0), '{LONG_AGO}' "
        "FROM seq_1_to_40",
        "ANALYZE TABLE t",
    )
    engine = engine_for({"t": {**INCREMENTAL, **contract}})
    engine.sync(engine.config.table("t"))
    return engine


def plant(engine: Engine, database: str, *statements: str) -> None:
    for statement in statements:
        engine.spark.get().sql(statement.format(t=f"lake.s_{database}.t"))


def repaired(engine: Engine, ask: Ask | None = None, **more: Any) -> Repaired:
    return repair_table(engine, engine.config.table("t"), ask or Ask(), **more)


def assert_equal(
    server: MariaDB, engine: Engine, surplus: tuple[tuple[str, ...], ...] = ()
) -> None:
    contract = engine.config.table("t")
    deduped = engine.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert deduped is not None
    with server.admin() as admin:
        verdict = compare_table(admin, contract.database, "t", contract.key, deduped)
    assert verdict.equal_but_for(surplus), verdict.describe()


def test_every_planted_fault_is_repaired_by_its_key(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    engine = mirrored(engine_for, sql)
    plant(engine, database, *FAULTS)
    sql("DELETE FROM t WHERE id = 20", "UPDATE t SET a = 'quiet' WHERE id = 21")
    part = repaired(engine, Ask("keys", keys=Range(1, 6)))
    assert (part.outcome, part.why, part.rows) == ("equal", "2 changed", 2)
    done = repaired(engine)
    assert (done.outcome, done.rounds, done.gone) == ("equal", 1, 2)
    assert done.rows == 4, "exactly 7, 9, 10 and 21 are read again"
    assert_equal(server, engine)
    [_, kept] = engine.ledger.repairs(engine.config.table("t").name)
    assert (kept.outcome, kept.load_ids, kept.keys) == ("equal", done.loads, 7)
    assert kept.before["mysql"] != kept.before["lake"]
    assert kept.after["mysql"] == kept.after["lake"]
    assert len(kept.digests) == 6
    assert kept.after_snapshot not in (None, kept.before_snapshot)
    again = repaired(engine)
    assert (again.outcome, again.rounds, again.repair_id) == ("equal", 0, None)
    # What raw holds makes the same table, and later windows go on from there.
    sql("UPDATE t SET a = 'new', modified_at = UTC_TIMESTAMP() WHERE id IN (1, 9)")
    engine.sync(engine.config.table("t"))
    assert_equal(server, engine)
    refold_table(engine, engine.config.table("t"))
    assert_equal(server, engine)


@pytest.mark.full
def test_a_sweep_marks_gone_and_leaves_the_rest(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    engine = mirrored(engine_for, sql)
    sql("DELETE FROM t WHERE id IN (3, 4)", "UPDATE t SET a = 'quiet' WHERE id = 21")
    done = repaired(engine, only_deletes=True)
    assert (done.outcome, done.gone, done.rows) == ("different", 2, 0)
    sql("UPDATE t SET a = 'a21' WHERE id = 21")
    assert_equal(server, engine)


@pytest.mark.full
def test_keys_that_the_server_calls_equal(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    """A text that raw never held is found by no key: deduped is then written from raw."""
    sql(
        "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT, "
        "modified_at DATETIME NOT NULL, KEY (modified_at))",
        f"INSERT INTO t VALUES ('a', 1, '{LONG_AGO}'), ('ß', 2, '{LONG_AGO}'), "
        f"('c', 3, '{LONG_AGO}'), ('d', 4, '{LONG_AGO}')",
    )
    engine = engine_for({"t": {**INCREMENTAL, "key": ["k"]}})
    engine.sync(engine.config.table("t"))
    plant(
        engine,
        database,
        "UPDATE {t} SET v = 9 WHERE k = 'c'",
        "UPDATE {t} SET k = 'A' WHERE k = 'a'",
    )
    sql("DELETE FROM t WHERE k = 'd'", "UPDATE t SET k = 'SS' WHERE k = 'ß'")
    done = repaired(engine)
    assert (done.outcome, done.gone) == ("equal", 2), "ß and d"
    assert_equal(server, engine)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["zero date", "double"])
def test_keys_without_a_place_in_their_type(
    kind: str, database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    key, values = (
        ("d DATE", ["'0000-00-00'", "'2020-00-00'", "'2021-01-01'", "'2021-01-02'"])
        if kind == "zero date"
        else ("d DOUBLE", ["-0e0", "1.5", "2.5", "3.5"])
    )
    sql(
        f"CREATE TABLE t ({key}, v INT, modified_at DATETIME NOT NULL, PRIMARY KEY (d), "
        "KEY (modified_at))",
        *(f"INSERT INTO t VALUES ({d}, {n}, '{LONG_AGO}')" for n, d in enumerate(values)),
    )
    engine = engine_for({"t": {**INCREMENTAL, "key": ["d"]}})
    engine.sync(engine.config.table("t"))
    plant(engine, database, "UPDATE {t} SET v = 9 WHERE v <> 3")
    sql(f"DELETE FROM t WHERE d = {values[1]}")
    done = repaired(engine)
    assert (done.outcome, done.gone, done.rounds) == ("equal", 1, 1)
    assert_equal(server, engine)


@pytest.mark.full
def test_a_full_copy_is_made_anew(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    engine = mirrored(engine_for, sql)
    engine = engine_for({"t": {"mode": "full", "key": ["id"]}})
    engine.sync(engine.config.table("t"))
    plant(engine, database, *FAULTS)
    done = repaired(engine)
    assert (done.outcome, done.rounds, done.rows) == ("equal", 1, 40)
    assert_equal(server, engine)


@pytest.mark.full
def test_without_a_key_days_are_read_again(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    sql(
        "CREATE TABLE t (a INT, at DATETIME NOT NULL, KEY (at))",
        "INSERT INTO t VALUES (1, '2020-01-01'), (1, '2020-01-01'), (2, '2020-01-03')",
    )
    engine = engine_for({"t": {"mode": "append", "cursor": "at"}})
    engine.sync(engine.config.table("t"))
    plant(engine, database, "DELETE FROM {t} WHERE a = 2", "INSERT INTO {t} SELECT * FROM {t}")
    done = repaired(engine)
    assert (done.outcome, len(done.loads)) == ("equal", 2)
    assert_equal(server, engine)
    sql("DELETE FROM t WHERE a = 2")
    with pytest.raises(SourceError, match="came back with 0 rows"):
        repaired(engine)
    assert engine.ledger.repairs(engine.config.table("t").name)[-1].outcome == "failed"


@pytest.mark.full
def test_a_repair_beside_a_writer_repairs_what_it_can_compare(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    engine = mirrored(engine_for, sql, "TIMESTAMP", settle="0s")
    plant(engine, database, *FAULTS)
    stop = threading.Event()

    def write() -> None:
        with server.admin(database) as admin, admin.cursor() as cursor:
            n = 0
            while not stop.wait(0.02):
                n += 1
                key = n % 30 + 11
                cursor.execute(
                    f"UPDATE t SET a = 'w{n}', modified_at = UTC_TIMESTAMP() WHERE id = {key}"
                )
                cursor.execute(f"DELETE FROM t WHERE id = {(n * 7) % 30 + 11} AND {n % 10} = 0")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        done = repaired(engine)
        left = repaired(engine, Ask("keys", keys=Range(1, 11)))
    finally:
        stop.set()
        thread.join()
    # What the writer changed since the load waits for the next one, and is not called equal.
    assert done.outcome in ("equal", "undecided")
    assert done.rounds >= 1
    assert (left.outcome, left.rounds) == ("equal", 0)
    time.sleep(1.1)  # whole seconds: rows of the load's own second wait
    engine.sync(engine.config.table("t"))
    assert repaired(engine).outcome == "equal"
    assert_equal(server, engine)


STEPS = ("commit.before", "commit.after", "ledger.success", "fold.committed")


@pytest.mark.parametrize(
    "places", [STEPS[2:3], pytest.param(STEPS, marks=pytest.mark.full)], ids=["one", "all"]
)
def test_a_run_that_dies_leaves_what_the_next_one_ends(
    places: tuple[str, ...],
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    server: MariaDB,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Between any two steps: the load is settled as any other, and its fold replaces the rows."""
    engine = mirrored(engine_for, sql)
    contract = engine.config.table("t")
    for place in places:
        plant(engine, database, "UPDATE {t} SET a = 'no' WHERE id = 5", FAULTS[2])
        with monkeypatch.context() as patched:
            died(patched, place)
            with pytest.raises(Died):
                repaired(engine)
        if place == "ledger.success":
            engine.fold(contract)
            assert_equal(server, engine)
        done = repaired(engine)
        assert done.outcome == "equal", place
        assert_equal(server, engine)


class Died(BaseException):
    """As if the process had been killed: nothing of ours catches it."""


def died(patched: pytest.MonkeyPatch, place: str) -> None:
    def failpoint(name: str) -> None:
        if name == place:
            raise Died

    for module in ("load.protocol", "merge.fold"):
        patched.setattr(f"mirrorlake.{module}.failpoint", failpoint)
    patched.setattr("mirrorlake.load.protocol.give_up", lambda *_: None)
    patched.setattr("mirrorlake.operations.repair._end", lambda *_: None)


def test_the_command_and_what_it_refuses(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = mirrored(engine_for, sql, columns={"a": {"pii": "mask"}})
    monkeypatch.setattr("mirrorlake.operations.sync.LazySpark", lambda *_: engine.spark)
    monkeypatch.setattr("mirrorlake.operations.sync.Engine.close", lambda _: None)
    config = ["--config", str(engine.config.path)]
    runner = CliRunner()
    plant(engine, database, "UPDATE {t} SET a = 'secret' WHERE id = 3")
    told = runner.invoke(cli, ["repair", "t", *config], input="n\n")
    assert told.exit_code == 9
    assert "secret" not in told.output
    done = runner.invoke(cli, ["repair", "t", "--keys", "1..5", "--yes", "--json", *config])
    assert (done.exit_code, json.loads(done.output)["outcome"]) == (0, "equal")
    assert_equal(server, engine)
    journal = runner.invoke(cli, ["repair", "t", "--journal", "--json", *config])
    [entry] = json.loads(journal.output)
    assert entry["why"] == "1 changed"
    assert "secret" not in journal.output
    unasked = runner.invoke(cli, ["repair", "t", "--json", *config])
    assert isinstance(unasked.exception, ConfigError)
    off = engine_for({"t": {**INCREMENTAL, "repair": "off"}})
    refused = runner.invoke(cli, ["repair", "t", "--yes", "--config", str(off.config.path)])
    assert isinstance(refused.exception, ConfigError)
    assert "repair: off" in str(refused.exception)


def test_a_scheduled_check_repairs_what_its_contract_lets_it(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    engine = mirrored(engine_for, sql, repair="auto", repair_limit=3)
    contract = engine.config.table("t")
    plant(engine, database, FAULTS[0])
    passed, metadata, words, *_ = judge_exact(engine, contract)
    assert passed
    assert metadata["repaired"] == "3 changed"
    assert (
        words == "3 rows differed (3 changed); now equal: 3 were read again, 0 were gone from MySQL"
    )
    assert_equal(server, engine)
    plant(engine, database, "UPDATE {t} SET a = 'no' WHERE id < 5")
    passed, metadata, words, *_ = judge_exact(engine, contract)
    assert not passed
    assert str(words).endswith("more than repair_limit (3): not repaired")
    assert metadata["repair it by"] == f"mirrorlake repair {contract.name}"


def rows_of(engine: Engine, layer: str = "deduped") -> dict[int, dict[str, Any]]:
    contract = engine.config.table("t")
    found = engine.lake.load(Identifier(getattr(contract.namespaces, layer), "t"))
    assert found is not None
    return {row["id"]: row for row in found.scan().to_arrow().to_pylist()}


@pytest.mark.full
def test_deletes_are_flagged(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    """Flagged once, kept as they were last, alive again when MySQL has them again; a rebuild from
    raw makes the same."""
    engine = mirrored(engine_for, sql, deletes="flag", clean="table")
    contract = engine.config.table("t")
    sql("DELETE FROM t WHERE id IN (3, 4)")
    done = repaired(engine, only_deletes=True)
    assert (done.outcome, done.gone) == ("equal", 2)
    first = rows_of(engine)
    assert {i for i, row in first.items() if row[FLAG] is not None} == {3, 4}
    assert first[3]["a"] == "a3"
    assert rows_of(engine, "clean")[3][FLAG] == first[3][FLAG]
    assert repaired(engine).rounds == 0, "a flagged row is no difference"
    sql("INSERT INTO t VALUES (4, 'again', 0, UTC_TIMESTAMP())", "DELETE FROM t WHERE id = 5")
    engine.sync(contract)
    repaired(engine)
    plant(engine, database, f"UPDATE {{t}} SET {FLAG} = current_timestamp() WHERE id = 6")
    assert repaired(engine).why == "1 missing"
    now = rows_of(engine)
    assert {i for i, row in now.items() if row[FLAG] is not None} == {3, 5}
    assert (now[4]["a"], now[3][FLAG]) == ("again", first[3][FLAG])
    refold_table(engine, contract)
    assert rows_of(engine) == now
    # Another word in the contract: folded anew by it.
    engine = engine_for({"t": {**INCREMENTAL, "clean": "table"}})
    engine.sync(engine.config.table("t"))
    assert repaired(engine).rounds == 0
    assert_equal(server, engine)


@pytest.mark.full
def test_deletes_are_ignored(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    engine = mirrored(engine_for, sql, deletes="ignore")
    sql("DELETE FROM t WHERE id IN (3, 4)")
    done = repaired(engine)
    assert (done.outcome, done.rounds, done.before.ignored) == ("equal", 0, 2)
    plant(engine, database, "UPDATE {t} SET a = 'no' WHERE id = 5")
    assert (repaired(engine).why, len(rows_of(engine))) == ("1 changed", 40)
    assert_equal(server, engine, (("3",), ("4",)))
