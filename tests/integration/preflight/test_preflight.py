"""Preflight: what it says of a migration, and what the sync after it does."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.errors import DdlRefused, MirrorlakeError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.planning.sync_plans import plan_syncs
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.preflight.tables import Preflight, preflight
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows
from tests.integration.contract_files import write_contract

CREATE = """CREATE TABLE t (
    id INT NOT NULL, name VARCHAR(20), mail VARCHAR(50), price DECIMAL(8,2), at DATETIME NOT NULL,
    PRIMARY KEY (id), KEY (at))"""
TERMS: dict[str, Any] = {
    "mode": "incremental", "key": ["id"], "cursor": "at", "columns": {"mail": {"pii": "mask"}},
}  # fmt: skip


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def workspace(sql: Callable[..., Any], engine_for: Callable[..., Workspace]) -> Workspace:
    sql(CREATE, "INSERT INTO t VALUES (1, 'a', 'm', 1.5, UTC_TIMESTAMP())")
    workspace = engine_for({"t": TERMS})
    sync_table(workspace, workspace.config.table("t"))
    return workspace


@pytest.fixture(scope="module")
def seen(server: EmbeddedServer, place: Place) -> Iterator[Workspace]:
    """The same, one for all that change nothing."""
    name = f"t{uuid.uuid4().hex[:10]}"
    path = write_contract(
        place.folder / f"{name}.yaml", server.port, {name: {"tables": {"t": TERMS}}}
    )
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {name}")
        cursor.execute(CREATE)
        cursor.execute("INSERT INTO t VALUES (1, 'a', 'm', 1.5, UTC_TIMESTAMP())")
        admin.commit()
        workspace = Workspace.open(load_config(path), spark=place.spark)
        sync_table(workspace, workspace.config.table("t"))
        yield workspace
        cursor.execute(f"DROP DATABASE {name}")


def suggest(column: Any, table: str) -> str | None:
    return "its name says an e-mail address" if "email" in column.name else None


def look(workspace: Workspace, text: str) -> Preflight:
    name = workspace.config.table("t").name
    return next(one for one in preflight(workspace, text, suggest) if one.table == name)


def says(found: Preflight) -> str:
    return "\n".join(f"{f.severity}: {f.words} {f.next_step}" for f in found.findings)


CASES = {
    "ALTER TABLE t ADD COLUMN note TEXT": ("attention", "note is new: in deduped, and held out"),
    "ALTER TABLE t ADD COLUMN email TEXT": ("attention", "email is new (its name says an e-mail"),
    "ALTER TABLE t MODIFY name VARCHAR(200)": ("attention", "name was varchar(20), is varchar"),
    "ALTER TABLE t MODIFY price DECIMAL(12,2)": ("attention", "clean's price becomes decimal(12,2)"),
    "ALTER TABLE t MODIFY price DECIMAL(12,4)": ("breaks", "clean's price becomes decimal(12,4)"),
    "ALTER TABLE t MODIFY price VARCHAR(9)": ("breaks", "shows price of all versions as string"),
    "ALTER TABLE t MODIFY id VARCHAR(36) NOT NULL": ("breaks", "a new history begins"),
    "ALTER TABLE t DROP COLUMN name": ("breaks", "clean loses name: queries that name it fail"),
    "ALTER TABLE t CHANGE name label VARCHAR(20)": ("breaks", "renamed_from: name"),
    "ALTER TABLE t DROP COLUMN mail": ("breaks", "mail: the contract has a rule for it, and MySQL"),
    "ALTER TABLE t RENAME COLUMN mail TO address": (
        "breaks", "`columns: {address: {pii: mask, renamed_from: mail}}`",
    ),
    "ALTER TABLE t DROP PRIMARY KEY": ("breaks", "does not keep (id) unique"),
    "ALTER TABLE t DROP INDEX at": ("breaks", "no index begins with cursor at"),
    "ALTER TABLE t MODIFY at DATETIME NULL": ("breaks", "cursor at can be NULL"),
    "ALTER TABLE t ADD KEY (name)": ("ok", "nothing of its mirror changes"),
    "ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES x (id) ON UPDATE CASCADE": (
        "attention", "the foreign key on (id) is ON UPDATE CASCADE",
    ),
    "ALTER TABLE t RENAME TO u": ("breaks", "the table becomes u"),
    "DROP TABLE t": ("breaks", "the table goes"),
    "TRUNCATE TABLE t": ("breaks", "its next sync stops: a new history would have 0 rows"),
    "UPDATE t SET price = 0": ("attention", "not looked at: UPDATE t SET price = 0"),
    "DELETE FROM t": ("attention", "Rows that it deletes are found by a check's sweep"),
    "DROP TABLE IF EXISTS t; CREATE TABLE t (id INT)": ("breaks", "has no column 'at'"),
    "CREATE OR REPLACE TABLE t (id INT)": ("breaks", "has no column 'at'"),
    f"DROP TABLE t; {CREATE}": ("attention", "if its definition is as it was, its next sync stops"),
    f"DROP TABLE t; {CREATE.replace('price', 'email TEXT, price')}": (
        "attention", "email is new (its name says an e-mail",
    ),
    f"DROP TABLE t; {CREATE.replace('name VARCHAR(20)', 'name BIGINT')}": (
        "breaks", "clean's name becomes long; it was string",
    ),
    f"DROP TABLE t; {CREATE.replace('price', 'v GEOMETRY, price')}": ("attention", "v is new"),
    "DROP TABLE t; CREATE TABLE t LIKE t": ("attention", "there is no table t to make it like"),
    "RENAME TABLE t TO o; CREATE TABLE t LIKE o": ("breaks", "would have 0 rows"),
    "DROP TABLE t; CREATE TABLE t SELECT 1 AS id": (
        "attention", "its columns were not looked at: they come from a query",
    ),
    "CREATE TABLE n LIKE t; ALTER TABLE n DROP COLUMN name; RENAME TABLE t TO o, n TO t": (
        "breaks", "clean loses name: queries that name it fail",
    ),
    "RENAME TABLE t TO _t_del, _t_gho TO t": ("attention", "_t_gho takes its name; there is no"),
    "--liquibase formatted sql\nALTER TABLE t DROP COLUMN name": ("breaks", "clean loses name"),
    "ALTER TABLE t CONVERT TO CHARACTER SET latin1": ("attention", "column name was utf8mb4"),
    "ALTER TABLE t ADD (a1 INT, a2 POINT)": ("attention", "a2 is new: in deduped, and held out"),
    "ALTER TABLE t ALTER INDEX at INVISIBLE": ("breaks", "read ranges by (not at)"),
    "ALTER TABLE t DROP KEY at, ADD KEY at (at) IGNORED": ("breaks", "read ranges by (not at)"),
    "ALTER TABLE t ADD KEY a2 (at), ALTER INDEX at IGNORED": ("ok", "nothing of its mirror"),
    "ALTER TABLE t ADD CHECK (id > 0), DISABLE KEYS, ALGORITHM=INPLACE": ("ok", "nothing of"),
    "ALTER TABLE t ALTER COLUMN name SET DEFAULT 'x'": ("ok", "if the table's definition stays"),
    "ALTER TABLE t MODIFY name VARCHAR(20)": ("ok", "if the table's definition stays as it is"),
    "ALTER TABLE t FORCE": ("attention", "the whole table is read again, and a new history begins"),
    "OPTIMIZE TABLE t": ("attention", "the whole table is read again, and a new history begins"),
    "ALTER TABLE t FORCE, ADD KEY (name)": ("ok", "nothing of its mirror changes"),
    "ALTER TABLE t ADD KEY i (name) COMMENT 'DROP PARTITION p'": ("ok", "nothing of its mirror"),
    "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2": ("ok", "nothing of its mirror changes"),
    "ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES IN (1))": ("ok", "nothing of"),
    "ALTER TABLE t DROP PARTITION p": (
        "attention", "the rows of partition p go with it, and no cursor moves: a sync may not see it",
    ),
    "ALTER TABLE t TRUNCATE PARTITION ALL": ("attention", "`mirrorlake repair t` finds what"),
    "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u": (
        "attention", "the rows of partition p and of table u change places",
    ),
    "ALTER TABLE u EXCHANGE PARTITION p WITH TABLE t": (
        "attention", "its rows and those of partition p change places, and no cursor moves",
    ),
    "ALTER TABLE u CONVERT TABLE t TO PARTITION p VALUES IN (1)": ("breaks", "the table goes"),
    "ALTER TABLE t IMPORT TABLESPACE": ("attention", "other rows come with a file"),
    "CREATE TABLE IF NOT EXISTS t (id INT)": ("ok", "the table is there already"),
    "ALTER TABLE t RENAME TO o; CREATE TABLE IF NOT EXISTS t (id INT)": (
        "breaks", "has no column 'at'",
    ),
    "/*!50100 ALTER TABLE t DROP COLUMN name */;": ("breaks", "clean loses name"),
    "DELIMITER //\nALTER TABLE t DROP COLUMN name//\nDELIMITER ;": ("breaks", "clean loses name"),
    "ALTER TABLE t CHANGE mail name VARCHAR(50), CHANGE name mail VARCHAR(20)": (
        "breaks", "name gets the values that mail had, and the contract's rule for name is another",
    ),
    "ALTER TABLE t ADD a VARCHAR(20) COMMENT ';', CHANGE name price2 VARCHAR(20), "
    "CHANGE price name DECIMAL(8,2)": ("breaks", "name gets the values that price had; rows that"),
    "ALTER TABLE t ADD v VECTOR(3)": ("breaks", "whose type can't be kept exactly: v vector(3)"),
    "ALTER TABLE t MODIFY name VARCHAR(20) CHARACTER SET latin2": (
        "attention", "column name was utf8mb4",
    ),
}  # fmt: skip


def test_what_it_says_of_each_kind_of_change(seen: Workspace) -> None:
    before = seen.ledger.schema_versions("s." + seen.config.tables[0].database + ".t")
    for statement, (severity, words) in CASES.items():
        found = look(seen, statement)
        assert (found.severity, words in says(found)) == (severity, True), (
            f"{statement}: {found.severity}\n{says(found)}"
        )
    contract = seen.config.table("t")
    assert seen.ledger.schema_versions(contract.name) == before
    assert seen.ledger.unproved(contract.name) is None


RUN = (
    "ALTER TABLE t ADD COLUMN note TEXT, MODIFY price DECIMAL(12,2) FIRST",
    "ALTER TABLE t DROP COLUMN name; ALTER TABLE t ADD COLUMN other BIGINT UNSIGNED AFTER id",
    "ALTER TABLE t MODIFY price DECIMAL(12,4)",
    "ALTER TABLE t DROP INDEX at",
    "ALTER TABLE t DROP COLUMN mail",
)


@pytest.mark.parametrize(
    "text", [RUN[0], *(pytest.param(text, marks=pytest.mark.full) for text in RUN[1:])]
)
def test_the_sync_after_it_does_what_it_said(
    text: str, workspace: Workspace, sql: Callable[..., Any]
) -> None:
    contract = workspace.config.table("t")
    said = look(workspace, text)
    sql(*text.split(";"))
    stops = "its next sync stops: " in says(said)
    try:
        sync_table(workspace, contract)
    except MirrorlakeError as error:
        assert stops
        assert f"its next sync stops: {error.message}" in says(said)  # noqa: PT017
        return
    assert not stops
    versions = workspace.ledger.schema_versions(contract.name)
    assert (said.version_before, said.version_now) == tuple(v.raw_table for v in versions)
    deduped = workspace.lake.load(contract_deduped(workspace))
    assert deduped is not None
    lake = {f.name: str(f.field_type).replace(" ", "") for f in deduped.schema().fields}
    for fate in said.columns:
        assert lake.get(fate.now or fate.before or "") == fate.lake_now


FORMS = {
    "ALTER TABLE t FORCE": True,
    "ALTER TABLE t ENGINE=InnoDB": True,
    "ALTER TABLE t ADD CHECK (id < 99), COMMENT='new', STATS_PERSISTENT=1": None,
    "ALTER TABLE t DISABLE KEYS": False,
}
"""Whether the next sync compares the table's rows first; None: servers write it again, or not."""


@pytest.mark.parametrize(
    "text",
    [
        text if n == 0 else pytest.param(text, marks=pytest.mark.full)
        for n, text in enumerate(FORMS)
    ],
)
@pytest.mark.full
def test_what_it_says_of_a_table_that_is_written_again_is_what_the_sync_after_it_does(
    text: str, workspace: Workspace, sql: Callable[..., Any]
) -> None:
    """Nothing of its columns changes: the next window is read, at once or after a comparison."""
    contract = workspace.config.table("t")
    time.sleep(1.1)  # servers keep the second in which a table was made
    sync_table(workspace, contract)
    said = "its rows are compared with the mirror's" in says(look(workspace, text))
    sql(text)
    [plan] = plan_syncs(workspace, [contract])
    assert sync_table(workspace, contract).window == "live"
    if FORMS[text] is not None:
        assert said == FORMS[text] == ("rows are compared with the mirror's first" in plan.why)


MOVES = (
    "ALTER TABLE t TRUNCATE PARTITION p0",
    "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u",
    "ALTER TABLE t DROP PARTITION p0",
)


@pytest.mark.full
@pytest.mark.parametrize(
    "text", [MOVES[0], *(pytest.param(text, marks=pytest.mark.full) for text in MOVES[1:])]
)
def test_rows_that_move_with_a_partition_are_found_by_what_it_says(
    text: str, sql: Callable[..., Any], engine_for: Callable[..., Workspace], server: EmbeddedServer
) -> None:
    like = "(id INT NOT NULL, at DATETIME NOT NULL, PRIMARY KEY (id), KEY (at))"
    sql(
        f"CREATE TABLE t {like} PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), "
        "PARTITION p1 VALUES LESS THAN (20))",
        f"CREATE TABLE u {like}",
        "INSERT INTO u VALUES (3, '2020-01-01')",
        "INSERT INTO t VALUES (1, '2020-01-01'), (15, UTC_TIMESTAMP())",
    )
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "at"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    said = look(workspace, text)
    assert said.severity == "attention"
    assert "`mirrorlake repair t` finds what differs and reads it again" in says(said)
    sql(text)
    sync_table(workspace, contract)
    now = [3, 15] if "EXCHANGE" in text else [15]
    # A partition that is gone took its rows along, as a DELETE does: no sync sees that.
    assert ids(workspace) == ([1, 15] if "DROP" in text else now)
    if "DROP" in text:
        assert repair_table(workspace, contract, Ask("full")).outcome == "equal"
    assert ids(workspace) == now


def ids(workspace: Workspace) -> list[int]:
    place = contract_deduped(workspace)
    return sorted(row["id"] for row in lake_rows(workspace, place.namespace, "t"))


def test_names_that_need_quotes(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql("CREATE TABLE `a``b;'é, c` (id INT PRIMARY KEY, `x;y` INT)")
    workspace = engine_for({"a`b;'é, c": {"mode": "full", "key": ["id"]}})
    text = (
        "ALTER TABLE `a``b;'é, c` /* ; DROP TABLE x 😀 */ ADD `n,` INT COMMENT '😀; DROP', -- ;\n"
        "DROP `x;y`; DROP TABLE `t``;`"
    )
    found = {one.table: one for one in preflight(workspace, text, suggest)}
    assert set(found) == {workspace.config.tables[0].name, "t`;"}
    assert "clean loses x;y" in says(found[workspace.config.tables[0].name])
    with pytest.raises(DdlRefused, match="it has no column 'x'"):
        preflight(workspace, "ALTER TABLE `a``b;'é, c` DROP x", suggest)


@pytest.mark.full
def test_a_table_that_is_copied_has_what_is_there_at_its_next_copy(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql(CREATE)
    workspace = engine_for({"t": {"mode": "full", "key": ["id"]}})
    assert look(workspace, "ALTER TABLE t FORCE").severity == "ok"
    found = look(workspace, "ALTER TABLE t DROP PARTITION p")
    assert found.severity == "attention"
    assert "its next copy has what is there then" in says(found)
    assert "--accept-smaller" in says(found)


def test_types_of_mariadb_alone(seen: Workspace, server: EmbeddedServer) -> None:
    text = "ALTER TABLE t ADD u UUID, ADD i INET6"
    if isinstance(server, MariaDB):
        found = look(seen, text)
        assert [(fate.now, fate.lake_now) for fate in found.columns] == [
            ("u", "string"), ("i", "string"),
        ]  # fmt: skip
    else:
        with pytest.raises(DdlRefused, match="column u: MySQL has no type UUID"):
            look(seen, text)


def contract_deduped(workspace: Workspace) -> Any:
    from mirrorlake.table.lake_tables import deduped_of

    return deduped_of(workspace.config.table("t"))


@pytest.mark.full
def test_by_the_contract_of_a_table_that_freezes_or_stops(
    workspace: Workspace, engine_for: Callable[..., Workspace]
) -> None:
    frozen = engine_for({"t": {**TERMS, "schema_changes": "freeze"}})
    added = look(frozen, "ALTER TABLE t ADD COLUMN note TEXT")
    assert added.severity == "ok"
    assert "not mirrored, by `schema_changes: freeze`: note" in says(added)
    stopped = look(frozen, "ALTER TABLE t DROP COLUMN name")
    assert "its next sync stops: table" in says(stopped)
    strict = engine_for({"t": {**TERMS, "schema_changes": "fail"}})
    assert look(strict, "ALTER TABLE t ADD COLUMN note TEXT").severity == "breaks"


def test_a_contract_that_is_ready_for_the_migration(
    workspace: Workspace, engine_for: Callable[..., Workspace]
) -> None:
    """What it says to write, written: before the migration the table stops, after it it goes on."""
    columns = {"address": {"pii": "mask", "renamed_from": "mail"}}
    ready = engine_for({"t": {**TERMS, "columns": columns}})
    found = look(ready, "ALTER TABLE t RENAME COLUMN mail TO address")
    assert "as MySQL is now, it stops by this contract" in says(found)
    # All else is said as without it.
    assert found.severity == "breaks"
    assert "clean shows mail as address: queries that name it fail" in says(found)
    assert found.version_now is not None
    other = look(ready, "ALTER TABLE t ADD COLUMN note TEXT")
    assert other.severity == "breaks"
    assert "its next sync stops" in says(other)


def test_a_table_that_takes_the_name(workspace: Workspace, sql: Callable[..., Any]) -> None:
    """As gh-ost and pt-online-schema-change do it: its columns are those that are compared."""
    sql(
        "CREATE TABLE _t_gho LIKE t",
        "ALTER TABLE _t_gho MODIFY price VARCHAR(20), ADD COLUMN note TEXT",
    )
    text = "RENAME TABLE t TO _t_del, _t_gho TO t"
    found = look(workspace, text)
    assert found.severity == "breaks"
    assert "_t_gho takes its name: to the mirror it is this table, changed" in says(found)
    assert "note is new" in says(found)
    assert "clean's price becomes string" in says(found)


@pytest.mark.full
def test_what_only_the_mirror_holds_stops_a_key_of_another_type(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql(CREATE, "INSERT INTO t VALUES (1, 'a', 'm', 1.5, UTC_TIMESTAMP())")
    workspace = engine_for({"t": {**TERMS, "deletes": "flag"}})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    found = look(workspace, "ALTER TABLE t MODIFY id VARCHAR(36) NOT NULL")
    assert "its next sync stops: the key's type in the lake" in says(found)
    assert found.version_now is None
    sql("ALTER TABLE t MODIFY id VARCHAR(36) NOT NULL")
    with pytest.raises(MirrorlakeError, match="A new history would have to begin"):
        sync_table(workspace, contract)
    assert "as MySQL is now, it stops" in says(look(workspace, "ALTER TABLE t ADD COLUMN n INT"))


def test_a_column_that_is_never_read_is_renamed(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql(CREATE, "INSERT INTO t VALUES (1, 'a', 'm', 1.5, UTC_TIMESTAMP())")
    workspace = engine_for({"t": {**TERMS, "columns": {"name": {"pci": "never"}}}})
    sync_table(workspace, workspace.config.table("t"))
    found = look(workspace, "ALTER TABLE t RENAME COLUMN name TO pan")
    assert "`columns: {pan: {pci: never}}`" in says(found)
    assert "renamed_from" not in says(found)
    sql("ALTER TABLE t CHANGE name pan VARCHAR(20)")
    columns = {"pan": {"pci": "never", "renamed_from": "name"}}
    workspace = engine_for({"t": {**TERMS, "columns": columns}})
    sync_table(workspace, workspace.config.table("t"))


def test_it_names_what_is_read_of_the_mirror(seen: Workspace) -> None:
    contract = seen.config.table("t")
    spaces = contract.namespaces
    names = (f"view {spaces.raw}.t", f"deduped {spaces.deduped}.t", f"clean view {spaces.clean}.t")
    for text, changed, checks in (
        ("ALTER TABLE t ADD COLUMN note TEXT", names, ("contract",)),
        ("ALTER TABLE t MODIFY price DECIMAL(12,2)", names, ("contract",)),
        ("ALTER TABLE t ADD KEY (name)", (), ()),
        ("DROP TABLE t", (), ()),
    ):
        found = look(seen, text)
        assert found.readers == names
        assert (tuple(n for n in names if n in found.layers), found.checks) == (changed, checks)
    place = ["--config", str(seen.config.path)]
    text = "ALTER TABLE t ADD COLUMN note TEXT"
    shown = CliRunner().invoke(cli, ["preflight", text, *place]).output
    assert f"read of it: {'; '.join(names)}" in shown
    assert "checks that warn until the next sync: contract" in shown


def test_statements_of_no_table(seen: Workspace) -> None:
    text = "GRANT SELECT ON *.* TO u; ALTER TABLE t ADD KEY (name); CREATE TRIGGER x BEFORE INSERT"
    found = preflight(seen, text, suggest)
    assert [(one.table, one.severity) for one in found] == [
        ("(no table)", "attention"),
        (seen.config.table("t").name, "ok"),
    ]
    with pytest.raises(DdlRefused, match="no table of a database 'nope' is mirrored"):
        preflight(seen, "ALTER TABLE t ADD KEY (name)", suggest, database="nope")


def test_tables_that_are_not_mirrored(seen: Workspace) -> None:
    text = "CREATE TABLE fresh (id INT); RENAME TABLE fresh TO other; SET NAMES utf8mb4;"
    found = preflight(seen, f"{text} ALTER TABLE other ADD COLUMN n INT", suggest)
    assert [(one.table, one.severity) for one in found] == [("fresh", "ok"), ("other", "ok")]
    assert "`mirrorlake init`" in says(found[0])


def test_a_table_that_is_not_there_is_said(seen: Workspace, server: EmbeddedServer) -> None:
    """A name that was mistyped would pass for a table that is not mirrored."""
    contract = seen.config.table("t")
    for name in ("nothing", f"{contract.database}.nothing"):
        [found] = preflight(seen, f"ALTER TABLE {name} ADD COLUMN n INT", suggest)
        assert found.severity == "attention"
        assert f"MySQL has no table {contract.database}.nothing that this" in says(found)
    with server.admin(contract.database) as admin, admin.cursor() as cursor:
        cursor.execute("CREATE TABLE settings (id INT)")
        try:
            [found] = preflight(seen, "ALTER TABLE settings ADD COLUMN n INT", suggest)
            assert (found.severity, "it has no contract" in says(found)) == ("ok", True)
            [found] = preflight(seen, "ALTER TABLE setings ADD COLUMN n INT", suggest)
            assert "did you mean 'settings'?" in says(found)
        finally:
            cursor.execute("DROP TABLE settings")
    [found] = preflight(seen, "ALTER TABLE elsewhere.nothing ADD COLUMN n INT", suggest)
    assert (found.severity, "it has no contract" in says(found)) == ("ok", True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ALTER TABLE t ADD COLUMN note TEXT;\nALTER TABLE t ADD COLUMN (", "line 2, column"),
        ("ALTER TABLE t ADD PARTITION", "line 1, column 28"),
        ("ALTER TABLE t CONVERT TO CHARACTER SET", "line 1, column 39"),
        ("ALTER TABLE t ADD (n INT, m)", "line 1, column 15"),
        ("ALTER TABLE t ADD SYSTEM VERSIONING", "line 1, column 15"),
        ("ALTER TABLE t ADD KEY (name) /*!80000 INVISIBLE */", "line 1, column 39"),
        ("ALTER TABLE t ADD COLUMN n NONSENSE", "."),
        ("ALTER TABLE t DROP COLUMN nothing", "it has no column 'nothing'"),
        ("ALTER TABLE t ADD COLUMN note TEXT COMMENT 'open", "ends inside"),
        ("ALTER TABLE t ADD KEY (name);\nhello world", "line 2, column 1: hello world"),
    ],
)
def test_what_can_not_be_looked_at_is_refused_with_its_place(
    text: str, words: str, seen: Workspace
) -> None:
    with pytest.raises(DdlRefused, match=words):
        preflight(seen, text, suggest)


def test_the_command_ends_with_the_severity_and_prints_what_programs_read(
    seen: Workspace,
) -> None:
    def run(*arguments: str, given: str | None = None) -> tuple[int, str]:
        place = ["--config", str(seen.config.path)]
        result = CliRunner().invoke(cli, ["preflight", *arguments, *place], input=given)
        return result.exit_code, result.output

    code, shown = run("ALTER TABLE t ADD KEY (name)")
    assert (code, "nothing of its mirror changes" in shown) == (0, True)
    code, shown = run("ALTER TABLE t ADD COLUMN email VARCHAR(9)", "--json")
    [found] = json.loads(shown)
    assert (code, found["severity"], found["rows"]) == (10, "attention", 1)
    assert found["columns"][0]["clean"] == "held"
    assert found["version_now"].startswith("t_v_")
    assert "email" in str(found["findings"][-1]["words"])
    code, shown = run("--file", "-", given="ALTER TABLE t DROP COLUMN name;")
    assert (code, "clean loses name" in shown) == (20, True)
    result = CliRunner().invoke(cli, ["preflight", "--config", str(seen.config.path)])
    assert "takes statements or a file" in str(result.exception)
