"""Repairs: what was planted in the lake is gone afterwards, by the judge that shares no code."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from dagster_mirrorlake.checks.exact import exact_verdict
from dagster_mirrorlake.checks.known_differences import restated
from dagster_mirrorlake.table import MirroredTable
from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, SourceError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing import repair
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import Repaired, repair_table
from mirrorlake.proof.comparing import check
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.proof.ranges.ranges import Range
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.surplus import SURPLUS
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FLAG = "_mirror_deleted_at"
LONG_AGO = "2020-01-01 00:00:00"
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "modified_at", "verify": True}
FAULTS = (
    "UPDATE {t} SET a = CASE id WHEN 1 THEN 'A1' WHEN 2 THEN NULL ELSE a END, "
    "x = CASE id WHEN 7 THEN 0.0 ELSE x END WHERE id < 8",
    "DELETE FROM {t} WHERE id = 9",
    "INSERT INTO {t} SELECT explode(array(id, id, 99)), a, x, modified_at, _mirror_original "
    "FROM {t} WHERE id = 10",
)


def mirrored(
    engine_for: EngineFor, sql: Sql, clock: str = "DATETIME", **contract: Any
) -> Workspace:
    """A table of forty old rows, mirrored."""
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a VARCHAR(20), x DOUBLE, "
        f"modified_at {clock} NOT NULL, KEY (modified_at))",
        f"INSERT INTO t SELECT seq, CONCAT('a', seq), IF(seq = 7, -0e0, 0), '{LONG_AGO}' "
        "FROM seq_1_to_40",
        "ANALYZE TABLE t",
    )
    workspace = engine_for({"t": {**INCREMENTAL, **contract}})
    sync_table(workspace, workspace.config.table("t"))
    return workspace


def plant(workspace: Workspace, database: str, *statements: str) -> None:
    for statement in statements:
        workspace.spark.get().sql(statement.format(t=f"lake.s_{database}.t"))


def repaired(workspace: Workspace, ask: Ask | None = None, **more: Any) -> Repaired:
    return repair_table(workspace, workspace.config.table("t"), ask or Ask(), **more)


def assert_equal(
    server: MariaDB, workspace: Workspace, surplus: tuple[tuple[str, ...], ...] = ()
) -> None:
    contract = workspace.config.table("t")
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert deduped is not None
    with server.admin() as admin:
        verdict = compare_table(admin, contract.database, "t", contract.key, deduped)
    assert verdict.equal_but_for(surplus), verdict.describe()


def test_every_planted_fault_is_repaired_by_its_key(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    workspace = mirrored(engine_for, sql)
    plant(workspace, database, *FAULTS)
    sql("DELETE FROM t WHERE id = 20", "UPDATE t SET a = 'quiet' WHERE id = 21")
    part = repaired(workspace, Ask("keys", keys=Range(1, 6)))
    assert (part.outcome, part.why, part.rows) == ("equal", "2 changed", 2)
    noted = SURPLUS + workspace.config.table("t").name
    workspace.ledger.record_definition(noted, '{"rows": 2, "at": "2026-01-01 12:00:00"}')
    done = repaired(workspace)
    assert workspace.ledger.definition(noted) is None, "no row is only in the mirror any more"
    assert (done.outcome, done.rounds, done.gone) == ("equal", 1, 2)
    assert done.rows == 4, "exactly 7, 9, 10 and 21 are read again"
    assert_equal(server, workspace)
    [_, kept] = workspace.ledger.repairs(workspace.config.table("t").name)
    assert (kept.outcome, kept.load_ids, kept.keys) == ("equal", done.loads, 7)
    assert kept.before["mysql"] != kept.before["lake"]
    assert kept.after["mysql"] == kept.after["lake"]
    assert len(kept.digests) == 6
    assert kept.after_snapshot not in (None, kept.before_snapshot)
    again = repaired(workspace)
    assert (again.outcome, again.rounds, again.repair_id) == ("equal", 0, None)
    # What raw holds makes the same table, and later windows go on from there.
    sql("UPDATE t SET a = 'new', modified_at = UTC_TIMESTAMP() WHERE id IN (1, 9)")
    sync_table(workspace, workspace.config.table("t"))
    assert_equal(server, workspace)
    refold_table(workspace, workspace.config.table("t"))
    assert_equal(server, workspace)


@pytest.mark.full
def test_a_sweep_marks_gone_and_leaves_the_rest(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    workspace = mirrored(engine_for, sql)
    sql("DELETE FROM t WHERE id IN (3, 4)", "UPDATE t SET a = 'quiet' WHERE id = 21")
    done = repaired(workspace, only_deletes=True)
    assert (done.outcome, done.gone, done.rows) == ("different", 2, 0)
    sql("UPDATE t SET a = 'a21' WHERE id = 21")
    assert_equal(server, workspace)


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
    workspace = engine_for({"t": {**INCREMENTAL, "key": ["k"]}})
    sync_table(workspace, workspace.config.table("t"))
    plant(
        workspace,
        database,
        "UPDATE {t} SET v = 9 WHERE k = 'c'",
        "UPDATE {t} SET k = 'A' WHERE k = 'a'",
    )
    sql("DELETE FROM t WHERE k = 'd'", "UPDATE t SET k = 'SS' WHERE k = 'ß'")
    done = repaired(workspace)
    assert (done.outcome, done.gone) == ("equal", 2), "ß and d"
    assert_equal(server, workspace)


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
    workspace = engine_for({"t": {**INCREMENTAL, "key": ["d"]}})
    sync_table(workspace, workspace.config.table("t"))
    plant(workspace, database, "UPDATE {t} SET v = 9 WHERE v <> 3")
    sql(f"DELETE FROM t WHERE d = {values[1]}")
    done = repaired(workspace)
    assert (done.outcome, done.gone, done.rounds) == ("equal", 1, 1)
    assert_equal(server, workspace)


@pytest.mark.full
def test_a_full_copy_is_made_anew(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    workspace = mirrored(engine_for, sql)
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    sync_table(workspace, workspace.config.table("t"))
    plant(workspace, database, *FAULTS)
    done = repaired(workspace)
    assert (done.outcome, done.rounds, done.rows) == ("equal", 1, 40)
    assert_equal(server, workspace)


@pytest.mark.full
def test_without_a_key_days_are_read_again(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    sql(
        "CREATE TABLE t (a INT, at DATETIME NOT NULL, KEY (at))",
        "INSERT INTO t VALUES (1, '2020-01-01'), (1, '2020-01-01'), (2, '2020-01-03')",
    )
    workspace = engine_for({"t": {"mode": "append", "cursor": "at"}})
    sync_table(workspace, workspace.config.table("t"))
    plant(workspace, database, "DELETE FROM {t} WHERE a = 2", "INSERT INTO {t} SELECT * FROM {t}")
    done = repaired(workspace)
    assert (done.outcome, len(done.loads)) == ("equal", 2)
    assert_equal(server, workspace)
    sql("DELETE FROM t WHERE a = 2")
    with pytest.raises(SourceError, match="came back with 0 rows"):
        repaired(workspace)
    assert workspace.ledger.repairs(workspace.config.table("t").name)[-1].outcome == "failed"


@pytest.mark.full
def test_a_repair_beside_a_writer_repairs_what_it_can_compare(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    workspace = mirrored(engine_for, sql, "TIMESTAMP", settle="0s")
    plant(workspace, database, *FAULTS)
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
        done = repaired(workspace)
        left = repaired(workspace, Ask("keys", keys=Range(1, 11)))
    finally:
        stop.set()
        thread.join()
    # What the writer changed since the load waits for the next one, and is not called equal.
    assert done.outcome in ("equal", "undecided")
    assert done.rounds >= 1
    assert (left.outcome, left.rounds) == ("equal", 0)
    time.sleep(1.1)  # whole seconds: rows of the load's own second wait
    sync_table(workspace, workspace.config.table("t"))
    assert repaired(workspace).outcome == "equal"
    assert_equal(server, workspace)


STEPS = ("commit.before", "commit.after", "ledger.success", "fold.committed")


@pytest.mark.full
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
    workspace = mirrored(engine_for, sql)
    contract = workspace.config.table("t")
    for place in places:
        plant(workspace, database, "UPDATE {t} SET a = 'no' WHERE id = 5", FAULTS[2])
        with monkeypatch.context() as patched:
            died(patched, place)
            with pytest.raises(Died):
                repaired(workspace)
        if place == "ledger.success":
            fold_table(workspace, contract)
            assert_equal(server, workspace)
        done = repaired(workspace)
        assert done.outcome == "equal", place
        assert_equal(server, workspace)


class Died(BaseException):
    """As if the process had been killed: nothing of ours catches it."""


def died(patched: pytest.MonkeyPatch, place: str) -> None:
    def failpoint(name: str) -> None:
        if name == place:
            raise Died

    for module in (
        "mirrorlake.load.protocol.protocol",
        "mirrorlake.load.protocol.load_run",
        "mirrorlake.merge.fold",
    ):
        patched.setattr(f"{module}.failpoint", failpoint)
    patched.setattr("mirrorlake.load.protocol.load_run.LoadRun.give_up", lambda *_: None)
    patched.setattr("mirrorlake.operations.repairing.repair.end_repair", lambda *_: None)


def test_the_command_and_what_it_refuses(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = mirrored(engine_for, sql, columns={"a": {"pii": "mask"}})
    monkeypatch.setattr("mirrorlake.workspace.LazySpark", lambda *_: workspace.spark)
    monkeypatch.setattr("mirrorlake.workspace.Workspace.close", lambda _: None)
    config = ["--config", str(workspace.config.path)]
    runner = CliRunner()
    plant(workspace, database, "UPDATE {t} SET a = 'secret' WHERE id = 3")
    told = runner.invoke(cli, ["repair", "t", *config], input="n\n")
    assert told.exit_code == 9
    assert "secret" not in told.output
    nobody = runner.invoke(cli, ["repair", "t", *config], input="")
    assert (nobody.exit_code, "say so with --yes" in nobody.output) == (9, True)
    done = runner.invoke(cli, ["repair", "t", "--keys", "1..5", "--yes", "--json", *config])
    assert (done.exit_code, json.loads(done.output)["outcome"]) == (0, "equal")
    assert_equal(server, workspace)
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


@pytest.mark.full
def test_without_a_table_all_are_checked_and_repaired(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = mirrored(engine_for, sql)
    sql("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    both = {"t": INCREMENTAL, "u": {"mode": "full", "key": ["id"]}}
    sync_table(workspace := engine_for(both), workspace.config.table("u"))
    monkeypatch.setattr("mirrorlake.workspace.LazySpark", lambda *_: workspace.spark)
    monkeypatch.setattr("mirrorlake.workspace.Workspace.close", lambda _: None)

    def run(*words: str, answer: str = "") -> tuple[int, str]:
        arguments = [*words, "--config", str(workspace.config.path)]
        done = CliRunner().invoke(cli, arguments, input=answer)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout

    plant(workspace, database, "UPDATE {t} SET a = 'x' WHERE id = 3")
    code, said = run("check")
    tally, step = said.splitlines()[-2:]
    assert (code, tally) == (9, "2 tables checked: 1 equal, 1 different")
    assert step.startswith(f"Next: `mirrorlake repair {workspace.config.table('t').name}` ")
    code, said = run("repair", answer="n\n")
    assert (code, "Repair 1 table?" in said) == (9, True)
    code, said = run("repair", "--yes", "--json")
    found = json.loads(said)
    assert [one["outcome"] for one in found["tables"]] == ["equal", "equal"]
    assert (code, found["errors"], found["left_out"]) == (0, [], {})
    assert_equal(server, workspace)
    # One that fails, and one that is left out, are said; the others are looked at.
    engine_for({"gone": both["u"], **both, "u": {**both["u"], "repair": "off"}})
    code, said = run("check", "--json")
    found = json.loads(said)
    assert [one["verdict"] for one in found["tables"]] == ["equal", "equal"]
    [error] = found["errors"]
    assert (error["table"], error["code"]) == (f"s.{database}.gone", code)
    code, said = run("repair")
    assert code == error["code"]
    assert "2 tables checked: 1 equal, 1 failed" in said
    assert f"left out: s.{database}.u: its contract says `repair: off`" in said
    for words in (["check", "--next"], ["check", "--tenant", "d"], ["repair", "--keys", "1..2"]):
        refused = CliRunner().invoke(cli, [*words, "--config", str(workspace.config.path)])
        assert isinstance(refused.exception, ConfigError)


@pytest.mark.full
def test_a_scheduled_check_repairs_what_its_contract_lets_it(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    workspace = mirrored(engine_for, sql, repair="auto", repair_limit=3)
    contract = workspace.config.table("t")
    plant(workspace, database, FAULTS[0])
    passed, metadata, words, *_ = exact_verdict(workspace, MirroredTable(contract))
    assert passed
    assert metadata["repaired"] == "3 changed"
    assert (
        words == "3 rows differed (3 changed); now equal: 3 were read again, 0 were gone from MySQL"
    )
    assert_equal(server, workspace)
    plant(workspace, database, "UPDATE {t} SET a = 'no' WHERE id < 5")
    passed, metadata, words, *_ = exact_verdict(workspace, MirroredTable(contract))
    assert not passed
    assert str(words).endswith("more than repair_limit (3): not repaired")
    assert metadata["or in a shell"] == f"mirrorlake repair {contract.name}"


@pytest.mark.full
def test_rows_that_are_deleted_while_a_check_sweeps_are_no_difference(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no end of them while an application deletes: the next look sweeps the rest."""
    workspace = mirrored(engine_for, sql)
    contract = workspace.config.table("t")
    left = list(range(1, 40))
    reread = repair.reread_keys

    def deleting(*given: Any) -> Any:
        done = reread(*given)
        sql(f"DELETE FROM {database}.t WHERE id = {left.pop()}")
        return done

    monkeypatch.setattr(repair, "reread_keys", deleting)
    sql(f"DELETE FROM {database}.t WHERE id = {left.pop()}")
    passed, metadata, words, _, days = exact_verdict(workspace, MirroredTable(contract))
    assert passed, words
    assert words == (
        "3 rows that MySQL deleted were swept; 1 more were deleted meanwhile: the next look sweeps them"
    )
    assert metadata["after the repair"] == "different"
    assert all(day.passed for day in days.values())
    monkeypatch.undo()
    assert exact_verdict(workspace, MirroredTable(contract))[0]


@pytest.mark.full
def test_a_chunk_that_is_equal_does_not_turn_a_table_green_whose_other_rows_differ(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = mirrored(engine_for, sql)
    contract = workspace.config.table("t")
    monkeypatch.setattr(check, "CHUNK_ROWS", 15)
    plant(workspace, database, "UPDATE {t} SET a = 'wrong' WHERE id = 3")
    looks = [exact_verdict(workspace, MirroredTable(contract)) for _ in range(3)]
    assert [look[0] for look in looks] == [False, False, False]
    assert str(looks[0][2]).startswith("1 row differs")
    for look in looks[1:]:
        assert str(look[2]).startswith("The rows that were compared now are equal. Others: 1 row")
        assert str(look[2]).endswith("not compared since)")
    # Whoever repairs it, and compares.
    repair_table(workspace, contract, Ask("full"))
    assert restated(workspace, contract) is None
    assert exact_verdict(workspace, MirroredTable(contract))[0]


def rows_of(workspace: Workspace, layer: str = "deduped") -> dict[int, dict[str, Any]]:
    contract = workspace.config.table("t")
    found = workspace.lake.load(Identifier(getattr(contract.namespaces, layer), "t"))
    assert found is not None
    return {row["id"]: row for row in found.scan().to_arrow().to_pylist()}


@pytest.mark.full
def test_deletes_are_flagged(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    """Flagged once, kept as they were last, alive again when MySQL has them again; a rebuild from
    raw makes the same."""
    workspace = mirrored(engine_for, sql, deletes="flag", clean="table")
    contract = workspace.config.table("t")
    sql("DELETE FROM t WHERE id IN (3, 4)")
    done = repaired(workspace, only_deletes=True)
    assert (done.outcome, done.gone) == ("equal", 2)
    first = rows_of(workspace)
    assert {i for i, row in first.items() if row[FLAG] is not None} == {3, 4}
    assert first[3]["a"] == "a3"
    assert rows_of(workspace, "clean")[3][FLAG] == first[3][FLAG]
    assert repaired(workspace).rounds == 0, "a flagged row is no difference"
    sql("INSERT INTO t VALUES (4, 'again', 0, UTC_TIMESTAMP())", "DELETE FROM t WHERE id = 5")
    sync_table(workspace, contract)
    repaired(workspace)
    plant(workspace, database, f"UPDATE {{t}} SET {FLAG} = current_timestamp() WHERE id = 6")
    assert repaired(workspace).why == "1 missing"
    now = rows_of(workspace)
    assert {i for i, row in now.items() if row[FLAG] is not None} == {3, 5}
    assert (now[4]["a"], now[3][FLAG]) == ("again", first[3][FLAG])
    refold_table(workspace, contract)
    assert rows_of(workspace) == now
    # Another word in the contract: folded again by it.
    workspace = engine_for({"t": {**INCREMENTAL, "clean": "table"}})
    sync_table(workspace, workspace.config.table("t"))
    assert repaired(workspace).rounds == 0
    assert_equal(server, workspace)


@pytest.mark.full
def test_deletes_are_ignored(
    database: str, sql: Sql, engine_for: EngineFor, server: MariaDB
) -> None:
    workspace = mirrored(engine_for, sql, deletes="ignore")
    sql("DELETE FROM t WHERE id IN (3, 4)")
    done = repaired(workspace)
    assert (done.outcome, done.rounds, done.before.ignored) == ("equal", 0, 2)
    plant(workspace, database, "UPDATE {t} SET a = 'no' WHERE id = 5")
    assert (repaired(workspace).why, len(rows_of(workspace))) == ("1 changed", 40)
    assert_equal(server, workspace, (("3",), ("4",)))
