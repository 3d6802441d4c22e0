"""A load means what its contract meant then: what changes under a history refuses, or reads again,
and no fold reaches behind it."""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ConfigError, SchemaError, SourceError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.rekey import rekey_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, Place, lake_rows

PEOPLE = "(id INT PRIMARY KEY, mail VARCHAR(40), m TIMESTAMP(6) NOT NULL, KEY (m))"
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "m"}
HASHED = {**INCREMENTAL, "clean": "table", "columns": {"mail": {"pii": "hash"}}}
OTHER_KEY = "another key for the tests, sixteen or more"


@pytest.mark.full
def test_another_hash_key_is_refused_until_the_clean_table_is_rewritten(
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(f"CREATE TABLE p {PEOPLE}", "INSERT INTO p VALUES (1, 'a@b.c', NOW(6))")
    workspace = engine_for({"p": HASHED})
    [contract] = workspace.config.tables
    sync_table(workspace, contract)
    sql("INSERT INTO p VALUES (2, 'a@b.c', NOW(6))")

    monkeypatch.setitem(os.environ, "TEST_HASH_KEY", OTHER_KEY)
    workspace = engine_for({"p": HASHED})
    for run in (sync_table, fold_table, refold_table):
        with pytest.raises(ConfigError, match="mirrorlake rekey") as caught:
            run(workspace, contract)
        assert OTHER_KEY not in str(caught.value)
        assert HASH_KEY not in str(caught.value)
    clean = Identifier(f"s_{database}__clean", "p")
    assert len(lake_rows(workspace, clean.namespace, "p")) == 1

    assert rekey_table(workspace, contract) is not None
    assert rekey_table(workspace, contract) is None
    sync_table(workspace, contract)
    wanted = hmac.new(OTHER_KEY.encode(), b"a@b.c", hashlib.sha256).hexdigest()
    rows = lake_rows(workspace, clean.namespace, "p")
    assert [row["mail"] for row in rows] == [wanted, wanted]


@pytest.mark.full
def test_keys_under_another_collation_begin_a_new_history(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace], database: str
) -> None:
    """B7, B8: key weights of two collations are no keys of one table."""
    columns = "(k VARCHAR(20) {}, v INT, m TIMESTAMP(6) NOT NULL, PRIMARY KEY (k), KEY (m))"
    sql(f"CREATE TABLE c {columns.format('COLLATE utf8mb4_bin')}")
    sql("INSERT INTO c VALUES ('a', 1, NOW(6)), ('b', 1, NOW(6)), ('gone', 1, NOW(6))")
    table = {"mode": "incremental", "key": ["k"], "cursor": "m", "clean": "table"}
    workspace = engine_for({"c": table})
    [contract] = workspace.config.tables
    sync_table(workspace, contract)
    for number, collation in enumerate(("utf8mb4_general_ci", "utf8mb4_unicode_ci")):
        sql(
            f"ALTER TABLE c MODIFY k VARCHAR(20) COLLATE {collation} NOT NULL",
            "DELETE FROM c WHERE k = 'gone'",
            f"INSERT INTO c VALUES ('new{number}', 1, NOW(6))",
            "UPDATE c SET k = IF(k = 'a', 'A', 'a'), m = NOW(6) WHERE k = 'a'",
        )
        with pytest.raises(SchemaError, match="the key's collation was"):
            refold_table(workspace, contract)
        sync_table(workspace, contract)
        _equal(workspace, sql, database, "c")
    assert len(refold_table(workspace, contract).layers) == 2
    _equal(workspace, sql, database, "c")


def test_a_contract_that_changes_under_a_history_is_never_silent(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace], database: str
) -> None:
    """B9: the fast part of the table of every pair of changes."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, code INT NOT NULL UNIQUE, v INT,"
        " m DATETIME(6) NOT NULL, other DATETIME(6) NOT NULL, KEY (m), KEY (other))",
        "INSERT INTO t VALUES (1, 11, 1, '2026-01-05', '2026-01-05'),"
        " (2, 12, 1, '2026-03-05', NOW(6)), (3, 13, 1, NOW(6), NOW(6))",
    )
    steps: list[tuple[dict[str, Any], str]] = [
        ({"mode": "full", "key": ["id"]}, ""),
        ({"mode": "incremental", "key": ["id"], "cursor": "m", "start": "2026-03-01"}, "mode was"),
        ({"mode": "incremental", "key": ["id"], "cursor": "m"}, "start was 2026-03-01, is none"),
        ({"mode": "incremental", "key": ["code"], "cursor": "m"}, "key was (id), is (code)"),
        ({"mode": "incremental", "key": ["id"], "cursor": "m"}, "key was (code), is (id)"),
        ({"mode": "append", "key": ["id"], "cursor": "id"}, "mode was incremental, is append"),
        ({"mode": "incremental", "key": ["id"], "cursor": "m"}, "mode was append, is incremental"),
    ]
    for number, (table, words) in enumerate(steps):
        workspace = engine_for({"t": table})
        [contract] = workspace.config.tables
        sql("DELETE FROM t WHERE id = 2 AND code = 12") if number == 1 else None
        sql(
            f"UPDATE t SET v = {number + 2}, code = code + 100 WHERE id = 3",
            f"INSERT INTO t VALUES ({number + 4}, {number + 4}, 1, NOW(6), NOW(6))",
        )
        receipt = workspace.ledger.newest_receipt(contract.name)
        before = receipt.began if receipt else 0
        sync_table(workspace, contract)
        mark = workspace.ledger.newest_mark(contract.name)
        assert words in (mark[1] if mark else ""), words
        assert workspace.ledger.unproved(contract.name) is None
        start = contract.start
        where = f"WHERE m >= '{start}'" if start else ""
        _equal(workspace, sql, database, "t", where)
        if number in (1, 4):
            refold_table(workspace, contract)
            _equal(workspace, sql, database, "t", where)
        began = workspace.ledger.history_start(contract.name)
        assert (began > before) == (number > 0 and "start" not in words), words


def _equal(
    workspace: Workspace, sql: Callable[..., Any], database: str, table: str, where: str = ""
) -> None:
    """MySQL's rows, each once, in deduped and in a clean table."""
    columns = [row[0] for row in sql(f"SHOW COLUMNS FROM {table}")]
    wanted = sorted(sql(f"SELECT * FROM {table} {where}"))
    for space in (f"s_{database}", f"s_{database}__clean"):
        found = workspace.lake.load(Identifier(space, table))
        if found is None:
            continue
        rows = [tuple(row[name] for name in columns) for row in found.scan().to_arrow().to_pylist()]
        naive = [tuple(_naive(value) for value in row) for row in rows]
        assert sorted(naive) == wanted, space


def _naive(value: Any) -> Any:
    return value.replace(tzinfo=None) if isinstance(value, datetime) else value


@pytest.mark.full
def test_a_table_that_is_truncated_or_made_again_is_noticed(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace], database: str
) -> None:
    """B10: a name may come to mean another table."""
    sql(
        "CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, v INT)",
        "CREATE TABLE b (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE d (id INT PRIMARY KEY, v INT, m DATETIME(6) NOT NULL, KEY (m))",
    )
    by_key = {"mode": "append", "key": ["id"], "cursor": "id", "overlap_keys": 2}
    workspace = engine_for({"a": by_key, "b": by_key, "d": {**INCREMENTAL}})
    a, b, d = workspace.config.tables
    for name in ("a", "b"):
        sql(f"INSERT INTO {name} SELECT seq, 1 FROM seq_1_to_30")
    sql("INSERT INTO d SELECT seq, 1, '2026-01-01' FROM seq_1_to_30")
    for contract in (a, b, d):
        sync_table(workspace, contract)

    # What changes neither the table nor its keys is no reason to read it again.
    sql("DELETE FROM a WHERE id = 30", "ALTER TABLE a ADD KEY (v)", "ALTER TABLE d ADD KEY (v)")
    for contract in (a, d):
        assert load_table(workspace, contract).window == "live"

    sql("TRUNCATE a", "INSERT INTO a (v) SELECT 2 FROM seq_1_to_20")
    sql("TRUNCATE b", "INSERT INTO b SELECT seq, 2 FROM seq_1_to_20")
    sql("CREATE TABLE again LIKE d", "INSERT INTO again SELECT id, 2, m FROM d WHERE id < 20")
    time.sleep(1.1)  # CREATE_TIME has whole seconds
    sql("CREATE TABLE made LIKE d", "INSERT INTO made SELECT * FROM again")
    sql("DROP TABLE d", "RENAME TABLE made TO d", "DROP TABLE again")
    for contract in (a, b, d):
        assert load_table(workspace, contract).window == "initial"
        assert load_table(workspace, contract).window == "live"
    # As many rows as before: its counter and its highest key are what they were.
    sql("TRUNCATE a", "INSERT INTO a (v) SELECT 3 FROM seq_1_to_20")
    assert load_table(workspace, a).window == "initial"
    for contract in (a, b, d):
        fold_table(workspace, contract)
        _equal(workspace, sql, database, contract.table)

    rows = sql("SELECT * FROM a")
    sql("TRUNCATE a")
    with pytest.raises(SourceError, match="--accept-smaller"):
        sync_table(workspace, a)
    assert (
        "since it was read, it was truncated"
        in status_of(workspace.config, workspace.ledger, [a])[0].checks
    )
    assert len(lake_rows(workspace, a.namespaces.deduped, "a")) == len(rows)
    sync_table(workspace, a, accept_smaller=True)
    assert lake_rows(workspace, a.namespaces.deduped, "a") == []


def test_what_only_the_mirror_holds_is_not_left_behind(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace], database: str
) -> None:
    """A new history would lose rows that are kept; elsewhere it begins beside the old one."""
    sql(f"CREATE TABLE p {PEOPLE}", "INSERT INTO p VALUES (1, 'a', NOW(6))")
    sql("ALTER TABLE p ADD UNIQUE (mail), MODIFY mail VARCHAR(40) NOT NULL")
    kept = {**INCREMENTAL, "deletes": "flag"}
    workspace = engine_for({"p": kept})
    [contract] = workspace.config.tables
    load_table(workspace, contract)
    workspace = engine_for({"p": {**kept, "key": ["mail"]}})
    with pytest.raises(ConfigError, match=r"key was \(id\), is \(mail\).*deletes: flag"):
        load_table(workspace, workspace.config.tables[0])
    assert workspace.ledger.unproved(contract.name) is None
    assert load_table(engine_for({"p": kept}), contract).window == "live"

    # Its columns may be others there, too: what is refused here has this way out.
    sql("ALTER TABLE p MODIFY id VARBINARY(60) NOT NULL")
    with pytest.raises(ConfigError, match="other namespaces"):
        load_table(workspace, contract)
    spaces = {"raw": f"{database}_raw2", "deduped": f"{database}2", "clean": f"{database}_clean2"}
    workspace = engine_for({"p": {**kept, "key": ["mail"]}}, namespaces=spaces)
    [contract] = workspace.config.tables
    assert load_table(workspace, contract).window == "initial"
    assert load_table(workspace, contract).window == "live"
    assert workspace.ledger.successful_loads(contract.name)[0].window.kind == "initial"


TABLES: dict[str, dict[str, Any]] = {
    "full": {"mode": "full", "key": ["id"]},
    "full, no key": {"mode": "full"},
    "incremental": INCREMENTAL,
    "other cursor": {**INCREMENTAL, "cursor": "other"},
    "other key": {**INCREMENTAL, "key": ["code"]},
    "text key": {**INCREMENTAL, "key": ["name"]},
    "append by time": {**INCREMENTAL, "mode": "append"},
    "append by key": {"mode": "append", "key": ["id"], "cursor": "id"},
    "append, no key": {"mode": "append", "cursor": "m"},
    "start": {**INCREMENTAL, "start": "2026-03-01"},
}


@pytest.mark.full
@pytest.mark.parametrize("before", list(TABLES)[:-1])
def test_every_pair_of_contracts_ends_exact(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace], database: str, before: str
) -> None:
    """Deduped has MySQL's rows, and none twice, after each change, after the change back, and
    after a refold."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, code INT NOT NULL UNIQUE, v INT,"
        " name VARCHAR(20) COLLATE utf8mb4_general_ci NOT NULL UNIQUE,"
        " m DATETIME(6) NOT NULL, other DATETIME(6) NOT NULL, KEY (m), KEY (other))",
        "INSERT INTO t VALUES (1, 11, 1, 'a', '2026-01-05', '2026-01-05'),"
        " (2, 12, 1, 'b', '2026-03-05', NOW(6)), (3, 13, 1, 'c', NOW(6), NOW(6))",
    )
    names = list(TABLES)
    course = [before]
    for now in names[names.index(before) + 1 :]:
        course += [now, before]
    for number, name in enumerate(course, 101):
        workspace = engine_for({"t": TABLES[name]})
        [contract] = workspace.config.tables
        sync_table(workspace, contract)
        _holds_mysqls_rows(workspace, sql, database, contract)
        refold_table(workspace, contract)
        _holds_mysqls_rows(workspace, sql, database, contract)
        following = TABLES[course[min(number - 100, len(course) - 1)]]["mode"]
        sql(
            f"INSERT INTO t VALUES ({number}, {number}, 1, 'n{number}', NOW(6), NOW(6))",
            f"DELETE FROM t WHERE id = {number - 2}",
        )
        if "append" not in (contract.mode, following):
            sql(f"UPDATE t SET v = {number}, m = NOW(6), other = NOW(6) WHERE id = 3")


def _holds_mysqls_rows(
    workspace: Workspace, sql: Callable[..., Any], database: str, contract: TableContract
) -> None:
    """Every row of MySQL's once; beside them, but for a new history, deleted ones alone, and those
    from before a start."""
    rows = lake_rows(workspace, f"s_{database}", "t")
    found = [(row["id"], row["code"], row["v"], row["name"]) for row in rows]
    assert len(found) == len({row[0] for row in found})
    every = set(sql("SELECT id, code, v, name FROM t"))
    where = f" WHERE m >= '{contract.start}'" if contract.start else ""
    wanted = set(sql(f"SELECT id, code, v, name FROM t{where}"))
    assert wanted <= set(found)
    ids = {row[0] for row in every}
    assert {row for row in set(found) - wanted if row[0] in ids} <= every
    if contract.mode == "full" or len(workspace.ledger.successful_loads(contract.name)) == 1:
        assert set(found) == wanted


def test_what_a_ledger_does_not_know_is_not_assumed(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace], place: Place, database: str
) -> None:
    """Receipts are what tells a meaning: of an older release, rebuilt from files, after a crash."""
    sql(f"CREATE TABLE p {PEOPLE}", "INSERT INTO p VALUES (1, 'a', NOW(6)), (2, 'b', NOW(6))")
    workspace = engine_for({"p": INCREMENTAL})
    [contract] = workspace.config.tables
    load_table(workspace, contract)

    def in_ledger(change: str) -> None:
        with sqlite3.connect(place.folder / "ledger.db") as ledger:
            ledger.execute(f"UPDATE {change} AND table_name = ?", (contract.name,))

    older = "loads SET receipt = json_remove(receipt, '$.meaning', '$.identity', '$.began') WHERE 1"
    in_ledger(older)
    assert load_table(workspace, contract).window == "live"
    assert workspace.ledger.history_start(contract.name) == 0
    in_ledger(older)
    full = engine_for({"p": {"mode": "full", "key": ["id"]}})
    [contract] = full.config.tables
    assert load_table(full, contract).window == "full"
    began = workspace.ledger.history_start(contract.name)
    assert began > 0

    # Its run died between the commit and the ledger: the commit says with what a history begins.
    in_ledger(f"loads SET state = 'pending', receipt = NULL WHERE seq = {began}")
    assert workspace.ledger.history_start(contract.name) == 0
    fold_table(full, contract)
    assert workspace.ledger.history_start(contract.name) == began
    assert [load.seq for load in workspace.ledger.successful_loads(contract.name)] == [began]
    assert len(lake_rows(workspace, f"s_{database}", "p")) == 2

    in_ledger("loads SET receipt = NULL WHERE 1")
    assert load_table(full, contract).window == "full"
    mark = workspace.ledger.newest_mark(contract.name)
    assert mark is not None
    assert "not known since the ledger was rebuilt" in mark[1]
    assert workspace.ledger.history_start(contract.name) > began


@pytest.mark.full
def test_a_repair_after_another_collation_looks_at_this_history_alone(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace], database: str
) -> None:
    """Raw knows the keys' weights of both collations."""
    sql(
        "CREATE TABLE c (k VARCHAR(20) COLLATE utf8mb4_general_ci, v INT, m TIMESTAMP(6) NOT NULL,"
        " PRIMARY KEY (k), KEY (m))",
        "INSERT INTO c VALUES ('a', 1, '2020-01-01'), ('b', 1, '2020-01-01'), ('ß', 1, '2020-01-01')",
    )
    workspace = engine_for({"c": {"mode": "incremental", "key": ["k"], "cursor": "m"}})
    [contract] = workspace.config.tables
    sync_table(workspace, contract)
    sql("ALTER TABLE c MODIFY k VARCHAR(20) COLLATE utf8mb4_unicode_ci NOT NULL")
    sync_table(workspace, contract)
    sql("UPDATE c SET v = 2, m = m WHERE k = 'b'", "DELETE FROM c WHERE k = 'a'")
    done = repair_table(workspace, contract, Ask("full"))
    assert (done.outcome, done.gone) == ("equal", 1)
    _equal(workspace, sql, database, "c")
