"""`mirrorlake init` on a real server: what it writes, says, skips and refuses; and that a sync takes
the contract as it was written."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

from demo.oracle import check_clean, compare_table
from demo.oracle_text import read_source
from mirrorlake.cli.main import cli
from mirrorlake.config import Config, TableContract, config_schema, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, PASSWORD, USER, Place
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands

Sql = Callable[..., Any]
Init = Callable[..., Result]
SCHEMA = "mirrorlake.schema.json"
TABLES = {
    "hash_key": "(k VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, v INT) ENGINE=MEMORY",
    "whole_text": "(t TEXT NOT NULL, v INT, UNIQUE (t))",
    "by_prefix": "(b BLOB NOT NULL, v INT, PRIMARY KEY (b(3)))",
    "versioned": (
        "(id INT PRIMARY KEY, v INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) "
        "GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)) WITH SYSTEM VERSIONING"
    ),
    "one": "(id INT PRIMARY KEY) ENGINE=MyISAM",
    "two": "(id INT PRIMARY KEY) ENGINE=MyISAM",
    "merged": "(id INT PRIMARY KEY) ENGINE=MERGE UNION=(one, two)",
    "no_index": "(id INT PRIMARY KEY, updated_at DATETIME NOT NULL, v INT)",
    "nullable": "(id INT PRIMARY KEY, updated_at DATETIME, v INT, KEY (updated_at))",
    "neither": "(id INT PRIMARY KEY, updated_at DATETIME, v INT)",
    "in_memory": "(id INT PRIMARY KEY, updated_at DATETIME NOT NULL) ENGINE=MEMORY",
    "moving": "(id INT PRIMARY KEY, updated_at DATETIME NOT NULL, KEY (updated_at))",
}
ROWS = (
    "INSERT INTO hash_key VALUES ('a', 1), ('A', 2)",
    "INSERT INTO whole_text VALUES ('ß', 1), ('t', 2)",
    "INSERT INTO by_prefix VALUES ('abc', 1), ('abd', 2)",
    "INSERT INTO versioned (id, v) VALUES (1, 1), (2, 1)",
    "UPDATE versioned SET v = 2 WHERE id = 2",
    "INSERT INTO one VALUES (1)",
    "INSERT INTO two VALUES (1)",
    "INSERT INTO no_index VALUES (1, '2020-01-01', 1)",
    "INSERT INTO nullable VALUES (1, NULL, 1)",
    "INSERT INTO in_memory VALUES (1, '2020-01-01')",
    "INSERT INTO moving VALUES (1, '2020-01-01'), (2, '2021-01-01'), (3, '0000-00-00')",
)


SECRET_KEYS = {
    # A key that the server takes for the same in upper and lower case.
    "tokens": "(api_key VARCHAR(19) PRIMARY KEY, v INT, updated_at DATETIME NOT NULL, KEY (updated_at))",
    "cards": "(card_no BIGINT PRIMARY KEY, v INT)",
    "sessions": "(session_id BINARY(4) PRIMARY KEY, email VARCHAR(50), v INT)",
}


@pytest.fixture
def init(server: MariaDB, database: str, tmp_path: Path) -> Init:
    """The command, on the test's own database and into the test's own folder."""

    def run(*arguments: str, url: str | None = None, user: str = USER) -> Result:
        where = f"{user}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}"
        url = f"mysql://{where}/{database}" if url is None else f"mysql://{where}{url}"
        output = ("--output", str(tmp_path / "mirrorlake.yaml"))
        fixed = ("init", "--from", url, "--name", "s", *output, "--force")
        return CliRunner().invoke(cli, [*fixed, *arguments])

    return run


def said(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def make(sql: Sql) -> None:
    sql(*(f"CREATE TABLE {name} {definition}" for name, definition in TABLES.items()), *ROWS)


@pytest.mark.full
def test_a_sync_takes_the_contract_as_it_was_written(
    server: MariaDB, place: Place, sql: Sql, init: Init, database: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    make(sql)
    assert said(init("--json"))["tables"] == len(TABLES)
    config = take(place, database, tmp_path, monkeypatch)
    synced = CliRunner().invoke(cli, ["sync", "--json", "--config", str(config.path)])
    assert synced.exit_code == 0, synced.stdout
    begin = {c.table: c.partitions_from for c in config.tables if c.partitions_from}
    assert begin == {"moving": date(2020, 1, 1)}, "a day by an index alone, and no zero date"
    keys = {c.table: c.key for c in config.tables}
    assert keys["merged"] == ()
    assert {t for t, key in keys.items() if not key} == {"merged"}
    assert (keys["versioned"], keys["by_prefix"], keys["whole_text"]) == (("id",), ("b",), ("t",))
    for contract in config.tables:
        deduped = place.lake.load(Identifier(contract.namespaces.deduped, contract.table))
        assert deduped is not None
        with server.admin() as admin:
            verdict = compare_table(admin, database, contract.table, contract.key, deduped)
        assert verdict.equal, verdict.describe()
    # Keys of a hash, of bytes by their beginning and of a whole text are compared as others are.
    for table in ("hash_key", "by_prefix", "whole_text", "versioned", "merged"):
        checked = CliRunner().invoke(cli, ["check", table, "--json", "--config", str(config.path)])
        assert (checked.exit_code, said(checked)["verdict"]) == (0, "equal"), checked.output


@pytest.mark.full
def test_a_key_that_looks_secret_is_kept_by_and_told_by_nobody(
    server: MariaDB, place: Place, sql: Sql, init: Init, database: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Through an update that changes the key's text and leaves it the same key to the server."""
    sql(
        *(f"CREATE TABLE {name} {definition}" for name, definition in SECRET_KEYS.items()),
        "INSERT INTO tokens VALUES ('abc', 1, '2020-01-01'), ('xyz', 1, '2020-01-01')",
        "INSERT INTO cards VALUES (4111111111111111, 1), (5500000000000004, 2)",
        "INSERT INTO sessions VALUES ('s1', 'a@example.com', 1), ('s2', NULL, 2)",
    )
    found = said(init("--json"))
    [kind] = found["warning_kinds"]
    columns = ("cards.card_no", "sessions.session_id", "tokens.api_key")
    assert kind["names"] == [f"{database}.{column}" for column in columns]
    config = take(place, database, tmp_path, monkeypatch)
    shown = {c.table: (c.clean, {n: r.pii for n, r in c.columns.items()}) for c in config.tables}
    assert shown == {
        "cards": ("table", {"card_no": "hash"}),
        "sessions": ("view", {"session_id": "drop", "email": "drop"}),
        "tokens": ("table", {"api_key": "hash"}),
    }
    with Workspace.open(config, spark=place.spark) as workspace:
        for _ in range(2):
            for contract in config.tables:
                sync_table(workspace, contract)
                assert_clean(server, workspace, contract)
            sql(
                "UPDATE tokens SET api_key = 'ABC', v = 2, updated_at = NOW() WHERE api_key = 'abc'",
                "UPDATE cards SET v = v + 1",
            )


def take(place: Place, database: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """The contract that `init` wrote, over the tests' lake and ledger, and nothing else changed."""
    text = (folder / "mirrorlake.yaml").read_text("utf-8")
    for ours, tests in ((".mirrorlake/lake #", "lake #"), ("sqlite:///.mirrorlake/", "sqlite:///")):
        assert ours in text
        text = text.replace(ours, tests)
    path = place.folder / f"{database}.yaml"
    path.write_text(text, encoding="utf-8")
    monkeypatch.setenv("S_PASSWORD", PASSWORD)
    monkeypatch.setenv("MIRRORLAKE_HASH_KEY", HASH_KEY)
    return load_config(path)


def assert_clean(server: MariaDB, workspace: Workspace, contract: TableContract) -> None:
    shown = Identifier(contract.namespaces.clean, contract.table)
    with server.admin() as admin:
        source = read_source(admin, contract.database, contract.table)
    if contract.clean == "table":
        found = workspace.lake.load(shown)
        assert found is not None
        rows = found.scan().to_arrow()
    else:
        rows = workspace.spark.get().sql(f"SELECT * FROM {shown.sql}").toArrow()
    verdict = check_clean(source, contract.key, rows, contract.rules, HASH_KEY.encode())
    assert verdict.equal, verdict.describe()


def test_modes_and_the_indexes_that_would_pay(init: Init, sql: Sql, database: str, tmp_path: Path) -> None:  # fmt: skip
    make(sql)
    found = said(init("--json"))
    assert found["modes"] == {"full": 11, "incremental": 1}
    assert [one["table"].partition(".")[2] for one in found["indexes"]] == ["in_memory", "no_index"]
    assert found["nullable"] == [f"{database}.{t} (updated_at)" for t in ("neither", "nullable")]
    shown = " ".join(init().stdout.split())
    assert "12 tables (11 full, 1 incremental)" in shown
    assert "11 of 12 tables are full copies; 2 of these would be incremental with an index" in shown
    text = (tmp_path / "mirrorlake.yaml").read_text("utf-8")
    for one in found["indexes"]:
        assert one["statement"] in shown
        assert one["statement"] in text
        sql(one["statement"])
    assert said(init("--json"))["modes"] == {"full": 9, "incremental": 3}


def test_names_that_no_column_of_the_lake_can_have_are_said(
    init: Init, sql: Sql, database: str, tmp_path: Path
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, _deleted INT, `_Pos` INT, _mirror_x INT)")
    [kept] = [kind for kind in said(init("--json"))["warning_kinds"] if "Iceberg" in kind["words"]]
    assert kept["names"] == [f"{database}.t._deleted", f"{database}.t._Pos"]
    text = (tmp_path / "mirrorlake.yaml").read_text("utf-8").replace("\n          # ", " ")
    assert "WARNING: column '_deleted' is called as Iceberg's own are: the table will be" in text
    assert "WARNING: column '_mirror_x' is called as Mirrorlake's own are" in text


def test_warnings_are_counted_by_kind(init: Init, sql: Sql, database: str, tmp_path: Path) -> None:
    names = [f"t{number:02d}" for number in range(12)]
    sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY) ENGINE=MyISAM" for name in names))
    found = said(init("--json"))
    [kind] = found["warning_kinds"]
    assert (kind["of"], len(kind["names"]), found["warnings"]) == ("table", 12, 12)
    line = f"has no snapshot: rows may change during a read (12 tables: {database}.t00, "
    output = " ".join(init().stdout.split())
    assert line in output
    assert f"{database}.t03 and 8 more)" in output
    assert output.count("has no snapshot") == 1
    text = (tmp_path / "mirrorlake.yaml").read_text("utf-8")
    assert text.count("WARNING: engine MyISAM has no snapshot") == 12
    assert line in text.replace("\n#", "").replace("  ", " ")


def test_what_is_skipped_is_named_with_its_reason(
    init: Init, sql: Sql, server: MariaDB, database: str, tmp_path: Path
) -> None:
    sql(
        "CREATE TABLE kept (id INT PRIMARY KEY)",
        "CREATE TABLE written (id INT PRIMARY KEY)",
        "CREATE TABLE narrow (id INT PRIMARY KEY, hidden INT)",
        "CREATE VIEW v1 AS SELECT * FROM kept",
        "CREATE VIEW v2 AS SELECT 1",
        "CREATE SEQUENCE numbers",
        "CREATE TABLE lost (id INT) ENGINE=MERGE UNION=(gone)",
    )
    grants = {f"{database}.{one}": "SELECT" for one in ("kept", "v1", "v2", "numbers", "lost")} | {
        f"{database}.written": "INSERT",
        f"{database}.narrow": "SELECT (id)",
    }
    server.create_user("first", PASSWORD, {**grants, "*.*": "REPLICATION CLIENT"})
    found = said(init("--json", user="first"))
    skipped = {
        one["name"].partition(".")[2]: (one["kind"], one["reason"]) for one in found["skipped"]
    }
    assert skipped.keys() == {"v1", "v2", "numbers", "lost", "written"}
    assert skipped["v1"] == ("view", "a view holds no rows of its own")
    assert skipped["numbers"] == ("sequence", "a sequence is a counter")
    assert "Unable to open underlying table" in skipped["lost"][1]
    assert "denied" in skipped["written"][1]
    assert found["tables"] == 2
    words = {kind["words"]: kind["names"] for kind in found["warning_kinds"]}
    assert [f"{database}.narrow"] == next(n for w, n in words.items() if "not read every" in w)
    output = " ".join(init(user="first").stdout.split())
    assert (
        f"Skipped 2 views (a view holds no rows of its own): {database}.v1, {database}.v2."
        in output
    )
    text = (tmp_path / "mirrorlake.yaml").read_text("utf-8")
    assert f"# Skipped 1 sequence (a sequence is a counter): {database}.numbers." in text


def test_only_views(init: Init, sql: Sql) -> None:
    sql("CREATE VIEW v AS SELECT 1")
    result = init()
    assert result.exit_code != 0
    assert "sees no table" in str(result.exception)
    assert "a view holds no rows of its own" in str(result.exception)


def test_tables_of_several_databases_may_be_tenants(
    init: Init, sql: Sql, server: MariaDB, database: str
) -> None:
    shops = [f"{database}_{number}" for number in range(3)]
    for shop in shops:
        sql(f"CREATE DATABASE {shop}", f"CREATE TABLE {shop}.orders (id INT PRIMARY KEY)")
    sql(f"CREATE TABLE {shops[0]}.own (id INT PRIMARY KEY)")
    try:
        arguments = ("--database", f"{database}_*")
        found = said(init("--json", *arguments, url=""))
        assert (found["tables"], found["same_tables"]) == (4, {"orders": 3})
        output = " ".join(init(*arguments, url="").stdout.split())
        assert "Several databases have tables of the same name (orders in 3)." in output
        two = ("--database", shops[0], "--database", shops[1])
        assert said(init("--json", *two, url=""))["same_tables"] == {}
    finally:
        sql(*(f"DROP DATABASE {shop}" for shop in shops))


def test_patterns_choose_databases_and_tables(
    init: Init, sql: Sql, database: str, tmp_path: Path
) -> None:
    make(sql)
    found = said(init("--json", "--tables", "no*", "--tables", f"{database}.m*", "--exclude", "*rged", url=""))  # fmt: skip
    assert found["tables"] == 2
    whole = load(tmp_path)
    assert {t.table for t in whole.tables} == {"no_index", "moving"}
    assert {t.database for t in whole.tables} == {database}
    assert said(init("--json", "--database", f"{database[:-1]}?", url=""))["tables"] == len(TABLES)
    for one in tmp_path.iterdir():
        one.unlink()
    for arguments, words in (
        (("--tables", "no_indx"), f"Did you mean '{database}.no_index'?"),
        (("--exclude", "movng"), f"Did you mean '{database}.moving'?"),
        (("--database", database[1:]), f"Did you mean '{database}'?"),
    ):
        refused = init(*arguments)
        assert words in str(refused.exception)
        assert getattr(refused.exception, "exit_code", 0) == 2
        assert not list(tmp_path.iterdir())


def load(folder: Path) -> Any:
    environ = {"S_PASSWORD": "x", "MIRRORLAKE_HASH_KEY": "k" * 32}
    return load_config(folder / "mirrorlake.yaml", environ=environ)


def test_the_schema_is_written_beside_and_named_first(init: Init, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    contract, schema = tmp_path / "mirrorlake.yaml", tmp_path / SCHEMA
    first = f"# yaml-language-server: $schema=./{SCHEMA}\n"
    assert said(init("--json"))["schema"] == str(schema)
    assert json.loads(schema.read_text("utf-8")) == config_schema()
    assert contract.read_text("utf-8").startswith(first)
    # One that an earlier version wrote is written again.
    schema.write_text(json.dumps({"title": "mirrorlake.yaml", "type": "object"}))
    assert said(init("--json"))["schema"] == str(schema)
    assert json.loads(schema.read_text("utf-8")) == config_schema()
    # Somebody else's stays, and no line leads an editor to it.
    for foreign in ('{"title": "another"}', "[1]", "not JSON", ""):
        schema.write_text(foreign)
        assert said(init("--json"))["schema"] is None
        assert schema.read_text("utf-8") == foreign
        assert not contract.read_text("utf-8").startswith(first)
        assert "stays as it is" in init().stdout


def test_nothing_of_a_failed_init_is_left(init: Init, sql: Sql, tmp_path: Path) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    assert init(url="/nowhere_at_all").exit_code != 0
    assert not list(tmp_path.iterdir())


DAYS = {
    "zero": ("TIMESTAMP", ("0000-00-00", "2021-02-03"), date(2021, 2, 3)),
    "zero_alone": ("TIMESTAMP", ("0000-00-00",), None),
    "earliest": ("TIMESTAMP", ("1970-01-01 00:00:01", "2021-02-03"), date(1970, 1, 1)),
    "partial": ("DATETIME", ("0000-00-00", "2020-00-10", "2020-03-00", "2021-02-03"), date(2021, 2, 3)),
    "partial_alone": ("DATETIME", ("2020-00-10",), None),
    "future": ("DATETIME", ("2120-01-01",), None),
    "none": ("TIMESTAMP", (), None),
}  # fmt: skip
"""Table → its cursor's type, its rows, and the first day that is written for it."""


def test_no_date_of_a_cursor_ends_it(init: Init, sql: Sql, tmp_path: Path) -> None:
    for name, (kind, rows, _) in DAYS.items():
        sql(
            f"CREATE TABLE `{name}` (id INT AUTO_INCREMENT PRIMARY KEY, modified_at {kind} NOT NULL, KEY (modified_at))"
        )
        sql(*(f"INSERT INTO `{name}` (modified_at) VALUES ('{row}')" for row in rows))
    assert said(init("--json"))["modes"] == {"incremental": len(DAYS)}
    found = {t.table: t.partitions_from for t in load(tmp_path).tables}
    assert found == {name: first for name, (_, _, first) in DAYS.items()}


def test_one_tables_trouble_ends_it_for_no_other(
    init: Init, sql: Sql, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("a_lost_once", "b_lost", "c_unforeseen", "d_kept")
    sql(*(f"CREATE TABLE {name} (id INT PRIMARY KEY)" for name in names))
    looked: list[str] = []

    def look(connection: Any, table: Any, suggested: Any) -> None:
        looked.append(table.name)
        if table.name == "b_lost" or looked == ["a_lost_once"]:
            rows_of(connection, "KILL CONNECTION_ID()")
        if table.name == "c_unforeseen":
            raise ValueError("a value of a row")

    monkeypatch.setattr("mirrorlake.init.survey.read_first_day", look)
    found = said(init("--json"))
    assert {t.table for t in load(tmp_path).tables} == {"a_lost_once", "d_kept"}
    reasons = {one["name"].partition(".")[2]: one["reason"] for one in found["skipped"]}
    assert reasons.keys() == {"b_lost", "c_unforeseen"}
    assert reasons["b_lost"].startswith("can't be read: ")
    assert reasons["c_unforeseen"].startswith("looking at it failed: ValueError in ")
    text = (tmp_path / "mirrorlake.yaml").read_text("utf-8")
    assert "a value of a row" not in text
    assert f"{database}.b_lost" in text


@pytest.mark.full
def test_a_locked_table_is_named_and_left_out(
    server: MariaDB, init: Init, sql: Sql, database: str, tmp_path: Path
) -> None:
    sql("CREATE TABLE locked (id INT PRIMARY KEY)", "CREATE TABLE free (id INT PRIMARY KEY)")
    with server.admin(database) as admin:
        admin.query("LOCK TABLES locked WRITE")
        [skipped] = said(init("--json"))["skipped"]
    assert skipped["name"] == f"{database}.locked"
    assert "Lock wait timeout" in skipped["reason"]
    assert {t.table for t in load(tmp_path).tables} == {"free"}
