"""The exact check against a real MariaDB: every kind of fault, planted in the lake, is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.errors import ConfigError, MirrorlakeError, ProofError, SchemaError, SourceError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing import check, compare
from mirrorlake.proof.comparing.counts import count_rows
from mirrorlake.proof.comparing.evidence import formatter_of, prove_table
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.ranges import ranges
from mirrorlake.proof.ranges.ranges import Range
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LONG_AGO = "2020-01-01 00:00:00"
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}


def checked(workspace: Workspace, table: str, ask: Ask | None = None, **more: Any) -> Report:
    return prove_table(workspace, workspace.config.table(table), ask or Ask(), **more)[0]


def told(workspace: Workspace, table: str, report: Report, *, shown: bool = False) -> list[str]:
    formatter = formatter_of(workspace.config, workspace.config.table(table), shown=shown)
    return sorted(line for d in report.differences for line in formatter.lines(d))


def mirrored(engine_for: EngineFor, sql: Sql, rows: int = 40, **contract: Any) -> Workspace:
    """A table of old rows, mirrored."""
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), x DOUBLE, "
        "modified_at DATETIME NOT NULL, KEY (modified_at))",
        f"INSERT INTO t SELECT seq, CONCAT('a', seq), '', IF(seq = 7, -0e0, 0), '{LONG_AGO}' "
        f"FROM seq_1_to_{rows}",
        "ANALYZE TABLE t",
    )
    workspace = engine_for({"t": {**INCREMENTAL, **contract}})
    sync_table(workspace, workspace.config.table("t"))
    return workspace


def plant(workspace: Workspace, database: str, *statements: str) -> None:
    for statement in statements:
        workspace.spark.get().sql(statement.format(t=f"lake.s_{database}.t"))


def test_every_kind_of_fault_is_named(database: str, sql: Sql, engine_for: EngineFor) -> None:
    workspace = mirrored(engine_for, sql)
    assert checked(workspace, "t").verdict == "equal"
    plant(
        workspace,
        database,
        "UPDATE {t} SET a = CASE id WHEN 1 THEN 'A1' WHEN 2 THEN 'a2 ' WHEN 4 THEN b ELSE a END, "
        "b = CASE id WHEN 3 THEN NULL WHEN 4 THEN a ELSE b END, "
        "x = CASE id WHEN 7 THEN 0.0 ELSE x END, "
        "modified_at = CASE id WHEN 8 THEN modified_at + INTERVAL 1 HOUR ELSE modified_at END "
        "WHERE id < 9",
        "DELETE FROM {t} WHERE id = 9",
        "INSERT INTO {t} SELECT explode(array(id, 99, -5)), a, b, x, modified_at, _mirror_original "
        "FROM {t} WHERE id = 10",
    )
    report = checked(workspace, "t")
    assert report.verdict == "different"
    between = "does not match between MySQL"
    assert told(workspace, "t", report) == sorted(
        [
            f"changed (id=1): `a` {between} (val='a1') and the lake (val='A1')",
            f"changed (id=2): `a` {between} (val='a2') and the lake (val='a2 ')",
            f"changed (id=3): `b` {between} (val='') and the lake (val=NULL)",
            f"changed (id=4): `a` {between} (val='a4') and the lake (val='')",
            f"changed (id=4): `b` {between} (val='') and the lake (val='a4')",
            f"changed (id=7): `x` {between} (val=-0) and the lake (val=0.0)",
            f"changed (id=8): `modified_at` {between} (val=2020-01-01 00:00:00) "
            "and the lake (val=2020-01-01 01:00:00)",
            "missing (id=9): MySQL has this row, the lake has not",
            "extra: a second row (id=10): the lake has this row",
            "extra: gone from MySQL (id=-5): the lake has this row",
            "extra: gone from MySQL (id=99): the lake has this row",
        ]
    )


@pytest.mark.full
def test_a_part_is_checked_alone(database: str, sql: Sql, engine_for: EngineFor) -> None:
    workspace = mirrored(engine_for, sql)
    plant(workspace, database, "UPDATE {t} SET a = 'other' WHERE id = 30")
    assert checked(workspace, "t", Ask("keys", keys=Range(1, 30))).verdict == "equal"
    assert checked(workspace, "t", Ask("keys", keys=Range(30, 31))).verdict == "different"
    assert checked(workspace, "t", Ask("where", where="id < 20")).source.rows == 19
    by_text = checked(workspace, "t", Ask("where", where="a = 'A30'"))
    # MySQL's collation chooses the row, Spark's does not: it is compared all the same.
    assert told(workspace, "t", by_text)[0].startswith("changed (id=30)")
    day = checked(workspace, "t", Ask("partition", day=date(2020, 1, 1)))
    assert (day.verdict, day.source.rows) == ("different", 40)


def test_chunks_go_round_and_a_failed_one_is_asked_again(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = mirrored(engine_for, sql)
    monkeypatch.setattr(check, "CHUNK_ROWS", 15)
    seen: list[str] = []
    for _ in range(4):
        if len(seen) == 1:
            sql("RENAME TABLE t TO away")
            with pytest.raises(SchemaError, match="has no table"):
                checked(workspace, "t", Ask("next"))
            sql("RENAME TABLE away TO t")
        report = checked(workspace, "t", Ask("next"))
        assert report.verdict == "equal"
        seen.append(str(report.ask.keys))
    assert seen[0].startswith("..")
    assert seen[1].startswith(seen[0].removeprefix(".."))
    assert "" in {keys.rpartition("..")[2] for keys in seen}, "the last chunk is open above"
    proofs = workspace.ledger.proofs(workspace.config.table("t").name)
    assert sum(p.source_rows for p in proofs[:3]) == 40
    assert all(p.code and p.server and p.source_digest == p.lake_digest for p in proofs)


def test_what_moves_waits_and_what_is_gone_is_told(
    database: str, sql: Sql, engine_for: EngineFor
) -> None:
    workspace = mirrored(engine_for, sql)
    sql(
        "UPDATE t SET a = 'new', modified_at = UTC_TIMESTAMP() WHERE id IN (1, 2)",
        "INSERT INTO t VALUES (50, 'new', '', 0, UTC_TIMESTAMP())",
    )
    report = checked(workspace, "t")
    assert (report.verdict, report.waiting) == ("equal", 3)
    # A change that moves no cursor is a difference, and so is a row that is gone.
    sql("UPDATE t SET a = 'quiet' WHERE id = 5", "DELETE FROM t WHERE id = 6")
    report = checked(workspace, "t")
    assert told(workspace, "t", report) == [
        "changed (id=5): `a` does not match between MySQL (val='quiet') and the lake (val='a5')",
        "extra: gone from MySQL (id=6): the lake has this row",
    ]


def test_rows_are_counted_by_day(database: str, sql: Sql, engine_for: EngineFor) -> None:
    workspace = mirrored(engine_for, sql)
    sql("UPDATE t SET modified_at = UTC_TIMESTAMP() WHERE id IN (1, 2)")
    found = count_rows(workspace, workspace.config.table("t"))
    assert (found.verdict, found.source_rows, found.waiting) == ("equal", 38, 2)
    plant(workspace, database, "DELETE FROM {t} WHERE id IN (1, 9)")
    sql("DELETE FROM t WHERE id IN (3, 4, 5)")
    found = count_rows(workspace, workspace.config.table("t"))
    assert (found.verdict, found.lost, found.surplus) == ("different", 0, 2)
    assert found.days == {"2020-01-01": (35, 37)}


@pytest.mark.full
def test_a_full_copy_that_mysql_left_behind_is_not_decided(
    database: str, sql: Sql, engine_for: EngineFor
) -> None:
    workspace = mirrored(engine_for, sql)
    contract = {"mode": "full", "key": ["id"]}
    workspace = engine_for({"t": contract})
    sync_table(workspace, workspace.config.table("t"))
    sql("UPDATE t SET a = 'later' WHERE id = 5")
    report = checked(workspace, "t")
    assert report.verdict == "undecided"
    assert "sync, then check again" in next(iter(report.undecided))
    sync_table(workspace, workspace.config.table("t"))
    assert checked(workspace, "t").verdict == "equal"
    plant(workspace, database, "UPDATE {t} SET a = 'by hand' WHERE id = 5")
    assert checked(workspace, "t").verdict == "different"


@pytest.mark.full
@pytest.mark.parametrize("key", ["BIGINT", "VARCHAR(20)"])
def test_a_group_that_is_too_large_is_cut_again(
    key: str, database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(
        # Columns that are called as something in a statement might be.
        f"CREATE TABLE t (id {key} PRIMARY KEY, a INT, g INT, d INT, modified_at DATETIME NOT NULL, "
        "KEY (modified_at))",
        "INSERT INTO t SELECT seq, 0, 0, 0, DATE '2020-01-01' + INTERVAL seq DAY FROM seq_1_to_300",
    )
    workspace = engine_for({"t": INCREMENTAL})
    sync_table(workspace, workspace.config.table("t"))
    counts = count_rows(workspace, workspace.config.table("t"))
    assert (counts.verdict, len(counts.counted)) == ("equal", 300)
    plant(workspace, database, "UPDATE {t} SET a = 1 WHERE id IN ('7', '250')")
    # As if the server had told far too few rows.
    monkeypatch.setattr(check, "cut_for", lambda _, grid: compare.KeyCut(grid))
    monkeypatch.setattr(
        check, "plan_grid", lambda c, whole, lo, hi, _: ranges.Grid(c, whole, lo, hi + 1, 1_000)
    )
    monkeypatch.setattr(compare, "FETCHED", 20)
    monkeypatch.setattr(ranges, "GROUP_ROWS", 10)
    fetched: list[int] = []
    unlike = compare._unlike

    def counted(*args: Any) -> Any:
        fetched.append(sum(compare._rows_of(args[4], group) for group in args[5]))
        return unlike(*args)

    monkeypatch.setattr(compare, "_unlike", counted)
    report = checked(workspace, "t")
    assert {d.key[0].shown for d in report.differences} == {"7", "250"}
    assert sum(fetched) < 60


@pytest.mark.full
def test_a_value_that_ends_in_zeros_is_the_same_text(
    database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """A driver's own text of a moment or a decimal leaves them out, or writes an exponent."""
    sql(
        "CREATE TABLE t (at DATETIME(6) NOT NULL, d DECIMAL(20,10) NOT NULL, day DATE NOT NULL, "
        "n INT NOT NULL, modified_at TIMESTAMP(3) NOT NULL DEFAULT '2020-01-01', "
        "PRIMARY KEY (at, d), KEY (modified_at))",
        f"INSERT INTO t (at, d, day, n) VALUES ('{LONG_AGO}', 0, '2020-01-01', 1), "
        f"('{LONG_AGO}.5', 0.0000000010, '2020-01-01', 2)",
    )
    workspace = engine_for({"t": {**INCREMENTAL, "key": ["at", "d"]}})
    sync_table(workspace, workspace.config.table("t"))
    assert checked(workspace, "t").verdict == "equal"
    plant(workspace, database, "UPDATE {t} SET n = n + 5")
    assert told(workspace, "t", checked(workspace, "t")) == [
        "changed (at=2020-01-01 00:00:00.000000, d=0.0000000000): `n` does not match between MySQL "
        "(val=1) and the lake (val=6)",
        "changed (at=2020-01-01 00:00:00.500000, d=0.0000000010): `n` does not match between MySQL "
        "(val=2) and the lake (val=7)",
    ]


def test_keys_that_the_server_calls_equal(database: str, sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE t (k VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT, "
        "modified_at DATETIME NOT NULL, KEY (modified_at))",
        f"INSERT INTO t VALUES ('a', 1, '{LONG_AGO}'), ('ß', 2, '{LONG_AGO}'), "
        f"('c', 3, '{LONG_AGO}'), ('', 4, '{LONG_AGO}')",
    )
    workspace = engine_for({"t": {**INCREMENTAL, "key": ["k"]}})
    sync_table(workspace, workspace.config.table("t"))
    assert checked(workspace, "t").verdict == "equal"
    plant(
        workspace,
        database,
        "UPDATE {t} SET k = 'A' WHERE k = 'a'",
        "UPDATE {t} SET v = 9 WHERE k = 'c'",
    )
    sql("UPDATE t SET modified_at = UTC_TIMESTAMP() WHERE k = ''")
    found = count_rows(workspace, workspace.config.table("t"))
    assert (found.verdict, found.source_rows, found.waiting) == ("equal", 3, 1)
    assert told(workspace, "t", checked(workspace, "t")) == [
        "changed (k='a'): `k` does not match between MySQL (val='a') and the lake (val='A')",
        "changed (k='c'): `v` does not match between MySQL (val=3) and the lake (val=9)",
    ]
    with pytest.raises(ConfigError, match="does not begin with an integer"):
        checked(workspace, "t", Ask("keys", keys=Range(1, 2)))
    for condition, who in (("no = 1", "MySQL answered"), ("v = b'1'", "Spark failed")):
        with pytest.raises(ConfigError, match=f"the condition of --where can't be read: {who}"):
            checked(workspace, "t", Ask("where", where=condition))


def test_without_a_key_rows_are_a_multiset(database: str, sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE t (a INT, b VARCHAR(9))",
        "INSERT INTO t VALUES (1, 'x'), (1, 'x'), (1, 'x'), (2, NULL), (3, 'y')",
    )
    workspace = engine_for({"t": {"mode": "full"}})
    sync_table(workspace, workspace.config.table("t"))
    assert checked(workspace, "t").verdict == "equal"
    plant(
        workspace,
        database,
        "DELETE FROM {t} WHERE a = 3",
        "INSERT INTO {t} VALUES (1, 'x')",
        "UPDATE {t} SET b = '' WHERE a = 2",
    )
    assert told(workspace, "t", checked(workspace, "t")) == [
        "extra: gone from MySQL (a=2, b=''): the lake has this row",
        "extra: not so often in MySQL (a=1, b='x'): the lake has this row",
        "missing (a=2, b=NULL): MySQL has this row, the lake has not",
        "missing (a=3, b='y'): MySQL has this row, the lake has not",
    ]


def test_personal_values_are_told_as_keyed_digests(
    database: str, sql: Sql, engine_for: EngineFor, tmp_path: Path
) -> None:
    workspace = mirrored(engine_for, sql, columns={"a": {"pii": "drop"}, "b": {"pci": "never"}})
    plant(workspace, database, "UPDATE {t} SET a = 'secret' WHERE id = 3")
    report, path = prove_table(workspace, workspace.config.table("t"), Ask(), tmp_path)
    [line] = told(workspace, "t", report)
    assert line.count("keyed digest") == 2
    assert "secret" in told(workspace, "t", report, shown=True)[0]
    evidence = path.read_text("utf-8")
    assert "secret" not in evidence
    assert "'a3'" not in evidence
    assert line in json.loads(evidence)["differences"]


def test_what_cannot_be_compared_is_an_error(
    database: str, sql: Sql, engine_for: EngineFor, tmp_path: Path
) -> None:
    workspace = engine_for({"t": INCREMENTAL})
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), x DOUBLE, "
        "modified_at DATETIME NOT NULL, KEY (modified_at))"
    )
    with pytest.raises(ProofError, match="not mirrored yet"):
        checked(workspace, "t")
    sql("DROP TABLE t")
    workspace = mirrored(engine_for, sql)
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(ProofError, match="evidence folder"):
        checked(workspace, "t", evidence=blocked)
    sql("ALTER TABLE t DROP PRIMARY KEY")
    with pytest.raises(SchemaError, match="does not keep \\(id\\) unique"):
        checked(workspace, "t")
    sql("ALTER TABLE t ADD PRIMARY KEY (id)")
    plant(workspace, database, "ALTER TABLE {t} RENAME COLUMN id TO was_id")
    with pytest.raises(SchemaError, match="key column id is missing there"):
        checked(workspace, "t")
    sql("DROP TABLE t")
    with pytest.raises(MirrorlakeError, match="has no table"):
        checked(workspace, "t")
    assert workspace.ledger.proofs(workspace.config.table("t").name) == []


def test_a_check_that_breaks_off_leaves_no_trace(
    database: str,
    sql: Sql,
    server: EmbeddedServer,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Interrupted, its table dropped meanwhile, or without the privilege: no verdict, no offset."""
    workspace = mirrored(engine_for, sql)
    contract = workspace.config.table("t")
    monkeypatch.setattr(check, "CHUNK_ROWS", 15)
    checked(workspace, "t", Ask("next"))
    offset, proofs = (
        workspace.ledger.proof_offset(contract.name),
        len(workspace.ledger.proofs(contract.name)),
    )
    assert offset is not None
    plant(workspace, database, "UPDATE {t} SET a = 'no' WHERE id > 15")
    read_lake = check.read_lake

    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    def dropped(*args: Any) -> Any:
        sql("RENAME TABLE t TO away")
        return read_lake(*args)

    for broken, error in ((interrupted, KeyboardInterrupt), (dropped, SourceError)):
        monkeypatch.setattr(check, "read_lake", broken)
        with pytest.raises(error):
            checked(workspace, "t", Ask("next"), evidence=tmp_path)
    sql("RENAME TABLE away TO t")
    monkeypatch.setattr(check, "read_lake", read_lake)
    grants = {f"{database}.*": "INSERT", "*.*": "REPLICATION CLIENT"}
    server.create_user("nobody", PASSWORD, grants)
    other = engine_for({"t": INCREMENTAL}, {"user": "nobody"})
    with pytest.raises(MirrorlakeError, match=r"has no table|may not read"):
        checked(other, "t", Ask("next"), evidence=tmp_path)
    assert workspace.ledger.proof_offset(contract.name) == offset
    assert len(workspace.ledger.proofs(contract.name)) == proofs
    assert not list(tmp_path.rglob("*.json"))


def test_the_command_says_it_with_its_exit_code(
    database: str, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = mirrored(engine_for, sql)
    monkeypatch.setattr("mirrorlake.workspace.LazySpark", lambda *_: workspace.spark)
    monkeypatch.setattr("mirrorlake.workspace.Workspace.close", lambda _: None)
    config = ["--config", str(workspace.config.path)]
    runner = CliRunner()
    assert runner.invoke(cli, ["check", "t", *config]).exit_code == 0
    plant(workspace, database, "UPDATE {t} SET a = 'x' WHERE id = 3")
    found = runner.invoke(cli, ["check", "t", "--json", *config])
    assert found.exit_code == 9
    assert json.loads(found.output)["differences"][0].startswith("changed (id=3): `a`")
    counted = runner.invoke(cli, ["check", "t", "--counts", "--json", *config])
    assert json.loads(counted.output)["source_rows"] == 40
    bad = runner.invoke(cli, ["check", "t", "--keys", "a..b", *config])
    assert isinstance(bad.exception, ConfigError)
    proofs = json.loads(runner.invoke(cli, ["proof", "t", "--all", "--json", *config]).output)
    assert [p["verdict"] for p in proofs] == ["equal", "different"]
    assert [p["stale"] for p in proofs] == [None, None]
    workspace.ledger.mark_unproved(workspace.config.tables[0].name, "server", "a column was added")
    assert runner.invoke(cli, ["check", "t", *config]).exit_code == 9
    proofs = json.loads(runner.invoke(cli, ["proof", "t", "--all", "--json", *config]).output)
    assert [p["stale"] for p in proofs] == ["a column was added", "a column was added", None]
