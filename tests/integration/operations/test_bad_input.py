"""Bad input, beside the commonest mistakes: one clear line, the documented exit code, and nothing
written or half-visible."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from demo.__main__ import demo
from demo.oracle import check_clean, compare_table
from demo.oracle_text import read_source
from mirrorlake.cli.main import main
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import LakeError, SchemaError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.permissions import held
from mirrorlake.table.progress import Progress
from mirrorlake.workspace import Workspace
from tests.integration.conftest import (
    HASH_KEY,
    PASSWORD,
    Place,
    connected,
    share_session,
)
from tests.integration.contract_files import write_contract

WRONG_PASSWORD = "n0t-the-p@ss/w%rd"
# A table that could be mirrored: each case spoils one thing of it.
GOOD_TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, price DOUBLE, "
    "modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) "
    "ON UPDATE CURRENT_TIMESTAMP(6), loose DATETIME(6), KEY (modified_at), KEY (loose))"
)
GOOD = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


@dataclass(frozen=True)
class Ran:
    """What one command printed, and its exit code."""

    code: int
    out: str
    err: str


@dataclass
class CommandLine:
    """The command line in this process, with the tests' Spark."""

    place: Place
    server: MariaDB
    database: str
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]
    program: Callable[[], None] = main

    def run(self, *arguments: object) -> Ran:
        self.monkeypatch.setattr(sys, "argv", ["mirrorlake", *map(str, arguments)])
        self.capsys.readouterr()
        code = 0
        try:
            self.program()
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Ran(code, *self.capsys.readouterr())

    def contract(self, tables: Mapping[str, Any], **more: Any) -> Path:
        path = self.place.folder / f"{self.database}.yaml"
        databases = {more.pop("database", self.database): {"tables": dict(tables)}}
        return write_contract(path, self.server.port, databases, **more)

    def sync(self, tables: Mapping[str, Any], **more: Any) -> Ran:
        return self.run("sync", "--config", self.contract(tables, **more))

    def written(self) -> dict[str, Any]:
        """Every lake table's version, and what the ledger knows; leases and their tokens left out."""
        found: dict[str, Any] = {}
        queries = {
            "lake/catalog.db": ("SELECT * FROM iceberg_tables ORDER BY 1, 2, 3",),
            "ledger.db": tuple(
                f"SELECT * FROM {t} ORDER BY 1, 2"
                for t in ("windows", "loads", "folds", "views", "schema_versions")
            ),
        }
        for file, statements in queries.items():
            if (self.place.folder / file).exists():
                with sqlite3.connect(self.place.folder / file) as database:
                    found |= {q: database.execute(q).fetchall() for q in statements}
        return found

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        before = self.written()
        yield
        assert self.written() == before


@pytest.fixture
def command(
    place: Place,
    server: MariaDB,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> CommandLine:
    monkeypatch.setenv("TEST_WRONG", WRONG_PASSWORD)
    # The session's own ledger exists, so that "unchanged" compares something.
    with held("private"):  # as every command opens it
        Ledger(f"sqlite:///{place.folder / 'ledger.db'}")
    share_session(place, monkeypatch)
    return CommandLine(place, server, database, monkeypatch, capsys)


def assert_one_line(ran: Ran, code: int, *words: str) -> None:
    """One line on standard error with these words, nothing on standard output, no secret."""
    assert ran.code == code, ran.err
    assert "Traceback" not in ran.err
    assert ran.out == ""
    assert len(ran.err.strip().splitlines()) == 1, ran.err
    for word in words:
        assert word in ran.err, ran.err
    for secret in (PASSWORD, WRONG_PASSWORD, HASH_KEY):
        assert secret not in ran.err


# --- the source -----------------------------------------------------------------------------------


def test_wrong_password_in_the_url_of_init(command: CommandLine, tmp_path: Path) -> None:
    url = f"mysql://mirror:n0t-the-p%40ss%2Fw%25rd@127.0.0.1:{command.server.port}/x"
    ran = command.run("init", "--from", url, "--output", tmp_path / "new.yaml")
    assert_one_line(ran, 4, "Access denied", "Check the user, its password")
    assert "n0t-the" not in ran.err
    assert not (tmp_path / "new.yaml").exists()


# --- keys and cursors -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"key": ["name"]}, "does not keep (name) unique and NOT NULL"),
        ({"key": ["nobody"]}, "has no column 'nobody'"),
        ({"cursor": "loose"}, "cursor loose can be NULL"),
        ({"cursor": "name"}, "cursor name is varchar(20): only integers and times order loads"),
        ({"cursor": "id"}, "cursor id is int(11): mode incremental needs a time"),
        ({"cursor": "changed"}, "has no column 'changed'"),
        ({"columns": {"cvv": {"pci": "never"}}}, "has no column 'cvv'"),
        ({"columns": {"e_mail": {"pii": "drop"}}}, "has no column 'e_mail'"),
    ],
)
def test_a_contract_that_the_table_does_not_keep(
    command: CommandLine, sql: Sql, wrong: dict[str, Any], words: str
) -> None:
    sql(GOOD_TABLE)
    with command.unchanged():
        ran = command.sync({"t": {**GOOD, **wrong}})
    assert_one_line(ran, 5, f"{command.database}.t", words)
    assert ". " in ran.err  # a next step follows


def test_a_unique_key_that_can_be_null_is_none(command: CommandLine, sql: Sql) -> None:
    sql(GOOD_TABLE, "ALTER TABLE t ADD COLUMN code INT NULL UNIQUE")
    with command.unchanged():
        ran = command.sync({"t": {**GOOD, "key": ["code"]}})
    assert_one_line(ran, 5, "does not keep (code) unique and NOT NULL")


# --- types and rules ------------------------------------------------------------------------------


def test_a_column_that_is_called_as_ours_are(command: CommandLine, sql: Sql) -> None:
    sql(GOOD_TABLE, "ALTER TABLE t ADD COLUMN `_Mirror_Seq` INT")
    with command.unchanged():
        ran = command.sync({"t": GOOD})
    assert_one_line(ran, 5, f"{command.database}.t", "_Mirror_Seq", "`{pci: never}`")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ({"price": {"pii": "mask"}}, "`pii: mask` on price, which is double"),
        ({"ID": {"pii": "mask"}}, "`pii: mask` on id, which is int"),
        ({"price": {"pii": "hash"}}, "`pii: hash` on price, which is double"),
        ({"loose": {"pii": "hash"}}, "`pii: hash` on loose, which is timestamp"),
    ],
)
def test_a_rule_that_its_column_can_not_keep(
    command: CommandLine, sql: Sql, rule: dict[str, Any], words: str
) -> None:
    sql(GOOD_TABLE)
    # A hash in a view is refused before the column's type is known.
    clean = "table" if "hash" in words else "view"
    with command.unchanged():
        ran = command.sync({"t": {**GOOD, "columns": rule, "clean": clean}})
    assert_one_line(ran, 2, f"table s.{command.database}.t", words, "Use ")


# --- the contract file ----------------------------------------------------------------------------


def assert_config_line(ran: Ran, words: str) -> None:
    """A heading that counts the problems, then one line each with file, line and column."""
    assert ran.code == 2, ran.err
    assert "Traceback" not in ran.err
    heading, *lines = ran.err.strip().splitlines()
    assert heading.endswith("has 1 problem:")
    (line,) = lines
    assert words in line
    assert ".yaml:" in line


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"curser": "modified_at"}, "t.curser: unknown key; did you mean 'cursor'?"),
        ({"columns": {"MODIFIED_AT": {"pci": "never"}}}, "'modified_at' is marked pci: never"),
        ({"start": "tomorrow"}, "a day is written like 2026-01-31"),
    ],
)
def test_a_contract_that_is_wrong_by_itself(
    command: CommandLine, wrong: dict[str, Any], words: str
) -> None:
    with command.unchanged():
        ran = command.sync({"t": {**GOOD, **wrong}})
    assert_config_line(ran, words)


# --- the lake and the ledger ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sections", "code", "words"),
    [
        ({"lake": {"warehouse": "/proc/lake"}}, 6, ("/proc/lake", "lake.warehouse")),
        ({"ledger": {"url": "sqlite:////proc/sub/ledger.db"}}, 7, ("/proc/sub", "ledger.url")),
        ({"lake": {"warehouse": "/proc/version"}}, 6, ("/proc/version", "lake.warehouse")),
    ],
)
def test_a_folder_that_nobody_can_write(
    command: CommandLine, sql: Sql, sections: dict[str, Any], code: int, words: tuple[str, ...]
) -> None:
    sql(GOOD_TABLE)
    with command.unchanged():
        ran = command.sync({"t": GOOD}, **sections)
    assert_one_line(ran, code, *words)


def test_a_lake_folder_that_is_read_only(command: CommandLine, tmp_path: Path, sql: Sql) -> None:
    """Root may write anywhere but where the kernel itself says no."""
    sql(GOOD_TABLE)
    lake = Path("/proc/self") if os.geteuid() == 0 else tmp_path / "lake"
    if os.geteuid() != 0:
        lake.mkdir(mode=0o500)
    with command.unchanged():
        # A ledger of its own: the others' knows tables, and where they are.
        ledger = {"url": f"sqlite:///{tmp_path}/own.db"}
        ran = command.sync({"t": GOOD}, lake={"warehouse": str(lake)}, ledger=ledger)
    assert_one_line(ran, 6, f"the lake's folder {lake} can't be written", "Make it writable")


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another writer holds a SQLite database."""
    with sqlite3.connect(file, isolation_level=None, timeout=30) as other:
        other.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            other.execute("ROLLBACK")


@pytest.mark.parametrize(
    ("file", "sections", "code", "words"),
    [
        pytest.param(
            "lake/catalog.db",
            {"lake": {"warehouse": "lake", "catalog": {"wait": "1s"}}},
            6,
            ("catalog", "locked by another writer (waited 1 s)", "Try again"),
            marks=pytest.mark.full,
        ),
        (
            "ledger.db",
            {"ledger": {"url": "sqlite:///ledger.db", "wait": "1s"}},
            7,
            ("ledger.db", "database is locked (waited up to 1 s)", "no other program holds it"),
        ),
    ],
    ids=["catalog", "ledger"],
)
def test_a_database_locked_by_another_writer(
    command: CommandLine,
    sql: Sql,
    file: str,
    sections: dict[str, Any],
    code: int,
    words: tuple[str, ...],
) -> None:
    sql(GOOD_TABLE)
    with command.unchanged():
        started = time.monotonic()
        with locked(command.place.folder / file):
            ran = command.sync({"t": GOOD}, **sections)
        waited = time.monotonic() - started
    assert_one_line(ran, code, *words)
    assert waited >= 1


@pytest.mark.full
def test_a_catalog_locked_just_before_the_commit(
    command: CommandLine, engine_for: EngineFor, sql: Sql
) -> None:
    sql(GOOD_TABLE, "INSERT INTO t (id, name) VALUES (1, 'a')")
    workspace = impatient(command, engine_for)
    contract = workspace.config.table("t")
    lock = locked(command.place.folder / "lake" / "catalog.db")

    def report(seen: Progress) -> None:
        if seen.ended:
            lock.__enter__()

    with pytest.raises(LakeError, match="locked by another writer") as caught:
        load_table(workspace, contract, report)
    lock.__exit__(None, None, None)
    assert caught.value.retryable
    raw = workspace.ledger.schema_versions(contract.name)[-1].raw_table
    table = workspace.lake.load(Identifier(contract.namespaces.raw, raw))
    assert table is not None
    assert table.snapshots() == []
    assert sync_table(workspace, contract).rows == 1
    assert_equal(command, workspace, "t")


def impatient(command: CommandLine, engine_for: EngineFor) -> Workspace:
    """An engine over table t that waits a second for locks."""
    config = engine_for({"t": GOOD}).config
    catalog = config.lake.catalog.model_copy(update={"wait": timedelta(seconds=1)})
    lake = config.lake.model_copy(update={"catalog": catalog})
    return Workspace.open(config.model_copy(update={"lake": lake}), spark=command.place.spark)


def test_another_run_holds_the_table(command: CommandLine, sql: Sql) -> None:
    sql(GOOD_TABLE)
    other = Ledger(f"sqlite:///{command.place.folder / 'ledger.db'}")
    patience = {"url": "sqlite:///ledger.db", "wait": "1s"}
    with command.unchanged(), other.lease(f"s.{command.database}.t", "the-other-run"):
        started = time.monotonic()
        ran = command.sync({"t": GOOD}, ledger=patience)
        waited = time.monotonic() - started
    assert_one_line(ran, 7, "is being written by run the-other-run", "Try again when it is done")
    assert waited >= 1


# --- several tables, other commands ---------------------------------------------------------------


def test_each_failed_table_has_its_line(command: CommandLine, sql: Sql) -> None:
    sql(GOOD_TABLE)
    with command.unchanged():
        ran = command.sync({"a": GOOD, "t": {**GOOD, "columns": {"price": {"pii": "mask"}}}})
    *progress, first, second = ran.err.strip().splitlines()
    # As they end, side by side.
    assert [line[:7] for line in progress] == ["1 of 2:", "2 of 2:"]
    assert sorted(line[8:] for line in progress) == [
        f"s.{command.database}.{t}: failed" for t in "at"
    ]
    assert first.startswith(f"error: s.{command.database}.a: ")
    # The line of the contract file is named first.
    assert re.match(rf"error: .*\.yaml:\d+:\d+: table s\.{command.database}\.t: ", second)
    assert ran.code == 5  # the first failure's


def test_failures_as_json(command: CommandLine) -> None:
    with command.unchanged():
        ran = command.run("sync", "--json", "--config", command.contract({"nowhere": GOOD}))
    assert ran.code == 5
    assert f'"table": "s.{command.database}.nowhere"' in ran.out
    assert '"code": 5' in ran.out
    assert ran.err == ""


def test_the_demos_port_is_taken(
    command: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command.program = lambda: main(demo)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = command.run("--once", "--port", port, "--folder", tmp_path / "demo")
    assert_one_line(ran, 3, f"Port {port} of 127.0.0.1 is taken", "Choose another port")


# --- the source changes its mind ------------------------------------------------------------------


def assert_equal(command: CommandLine, workspace: Workspace, table: str) -> None:
    """Deduped and clean are what MySQL has, says the oracle."""
    contract = workspace.config.table(table)
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, table))
    clean = Identifier(contract.namespaces.clean, table)
    assert deduped is not None
    with connected(command.server, command.database) as connection:
        verdict = compare_table(connection, command.database, table, contract.key, deduped)
        assert verdict.equal, verdict.describe()
        source = read_source(connection, command.database, table)
    shown = command.place.spark.get().table(clean.sql).toArrow()
    masked = check_clean(source, contract.key, shown, contract.rules, HASH_KEY.encode())
    assert masked.equal, masked.describe()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("ALTER TABLE t MODIFY price DECIMAL(9,2)", "price was double, is decimal(9,2)"),
        ("ALTER TABLE t MODIFY name VARBINARY(30) NOT NULL", "name was varchar(20), is varbinary"),
        ("ALTER TABLE t DROP COLUMN modified_at", "has no column 'modified_at'"),
        ("DROP TABLE t", "MySQL has no table"),
    ],
)
def test_a_schema_that_changed_between_syncs(
    command: CommandLine, engine_for: EngineFor, sql: Sql, statement: str, words: str
) -> None:
    sql(GOOD_TABLE, "INSERT INTO t (id, name, price) VALUES (1, 'a', 0.1)")
    terms = {**GOOD, "schema_changes": "fail"}
    workspace = engine_for({"t": terms})
    load_table(workspace, workspace.config.table("t"))
    sql(statement)
    with command.unchanged():
        ran = command.sync({"t": terms})
        assert_one_line(ran, 5, f"{command.database}.t", words)
        # The fold alone must not take the new shape for the old rows' one.
        with pytest.raises(
            SchemaError, match=words.split(",")[0].replace("(", r"\(").replace(")", r"\)")
        ):
            fold_table(workspace, workspace.config.table("t"))


def test_a_mirrored_column_that_is_never_to_be_read(
    command: CommandLine, engine_for: EngineFor, sql: Sql
) -> None:
    sql(GOOD_TABLE, "INSERT INTO t (id, name, price) VALUES (1, 'a', 0.1)")
    workspace = engine_for({"t": GOOD})
    load_table(workspace, workspace.config.table("t"))
    with command.unchanged():
        ran = command.sync({"t": {**GOOD, "columns": {"NAME": {"pci": "never"}}}})
        assert_one_line(
            ran, 5, f"{command.database}.t", "name is marked `pci: never`, and its mirror"
        )


@pytest.mark.full
@pytest.mark.parametrize(
    "contract",
    [
        pytest.param(GOOD, id="incremental", marks=pytest.mark.full),
        pytest.param(
            {**GOOD, "clean": "table", "columns": {"name": {"pii": "hash"}}}, id="clean table"
        ),
        pytest.param({"mode": "append", "cursor": "modified_at"}, id="append without a key"),
        pytest.param(
            {"mode": "full", "key": ["id"], "columns": {"name": {"pii": "mask"}}},
            id="full",
            marks=pytest.mark.full,
        ),
    ],
)
def test_an_added_column_is_taken_up(
    command: CommandLine, engine_for: EngineFor, sql: Sql, contract: dict[str, Any]
) -> None:
    sql(GOOD_TABLE, "INSERT INTO t (id, name) VALUES (1, 'anna'), (2, 'bernhard'), (3, 'c')")
    # Else clean holds them out until the contract names them (test_new_columns).
    workspace = engine_for({"t": {**contract, "new_columns": "show"}})
    first = sync_table(workspace, workspace.config.table("t"))
    sql(
        "ALTER TABLE t ADD COLUMN grade INT NOT NULL DEFAULT 7 AFTER id, ADD COLUMN `a.b ``c` TEXT",
        "INSERT INTO t (id, name, grade) VALUES (4, 'd', 8)",
        "UPDATE t SET `a.b ``c` = 'x' WHERE id = 2",
    )
    second = sync_table(workspace, workspace.config.table("t"))
    # Values that a DDL gave to old rows move no cursor: the new version is read whole.
    assert (first.rows, second.rows) == (3, 4)
    assert_equal(command, workspace, "t")
    assert_the_raw_view_shows_both_versions(command, workspace)
    sync_table(workspace, workspace.config.table("t"))
    assert_equal(command, workspace, "t")


def assert_the_raw_view_shows_both_versions(command: CommandLine, workspace: Workspace) -> None:
    table = workspace.config.table("t")
    old, new = (v.raw_table for v in workspace.ledger.schema_versions(table.name))
    sizes = {
        name: found.scan().count()
        for name in (old, new)
        if (found := workspace.lake.load(Identifier(table.namespaces.raw, name)))
    }
    assert sizes == {old: 3, new: 4}
    view = Identifier(table.namespaces.raw, "t")
    rows = command.place.spark.get().sql(f"SELECT id, grade, name FROM {view.sql}").collect()
    assert sorted((r.id, r.grade or 0) for r in rows) == [
        (1, 0), (1, 7), (2, 0), (2, 7), (3, 0), (3, 7), (4, 8)
    ]  # fmt: skip


def test_a_path_with_spaces_and_other_letters(
    command: CommandLine, engine_for: EngineFor, sql: Sql
) -> None:
    """The lake of all these tests: what is written there is found there, by Spark and PyIceberg."""
    sql(
        "CREATE TABLE `größe & maß` (`schlüssel 1` INT PRIMARY KEY, `a``b` TEXT, `x.y` INT)",
        "INSERT INTO `größe & maß` VALUES (1, 'ß', 2)",
    )
    contract = {"mode": "full", "key": ["schlüssel 1"], "columns": {"a`b": {"pii": "mask"}}}
    workspace = engine_for({"größe & maß": contract})
    sync_table(workspace, workspace.config.table("größe & maß"))
    assert_equal(command, workspace, "größe & maß")
    folder = command.place.folder / "lake"
    assert " " in str(folder)
    assert not str(folder).isascii()
    assert list(folder.rglob("*.parquet"))
