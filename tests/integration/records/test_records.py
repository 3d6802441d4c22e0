"""Records say what happened to a table, once, in its order, and nothing that clean hides."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import RecordsError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.operations.repairing.restore_ledger import rebuild_tables
from mirrorlake.records.ledger import RecordPlaces
from mirrorlake.records.publish import publish_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.masking import keyed_hash
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, Place, share_session
from tests.integration.operations.test_follow_log import LOG
from tests.integration.operations.test_hostile_names import HOSTILE
from tests.integration.records.published import (
    applied,
    place_of,
    publish,
    read_files,
    read_spool,
    strays,
    with_records,
)

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
TABLE = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(40), amount DECIMAL(12,2))"


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def files(folder: Path, **more: Any) -> dict[str, Any]:
    return {"files": {"kind": "files", "to": str(folder), **more}}


def load(workspace: Workspace, *tables: str) -> None:
    for table in tables or ("t",):
        load_table(workspace, workspace.config.table(table))


def in_mysql(sql: Sql, columns: str = "id, name, amount") -> dict[Any, dict[str, Any]]:
    names = columns.split(", ")
    rows = sql(f"SELECT {columns} FROM t")
    return {
        row[:1]: {
            name: value if value is None or isinstance(value, int) else str(value)
            for name, value in zip(names, row, strict=True)
        }
        for row in rows
    }


def operations(records: list[dict[str, Any]]) -> list[str]:
    return [record["metadata"]["operation"] for record in records]


def test_each_change_is_a_record_in_its_order(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path, database: str
) -> None:
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', NULL)")
    workspace = with_records(engine_for({"t": LOG}), place, files(tmp_path))
    load(workspace)
    [first] = publish(workspace)
    assert (first.state, first.records, first.files) == ("published", 2, 1)
    sql(
        "INSERT INTO t VALUES (3, 'c', 3)",
        "UPDATE t SET amount = 2.50 WHERE id = 2",
        "UPDATE t SET id = 10 WHERE id = 1",
        "DELETE FROM t WHERE id = 3",
    )
    load(workspace)
    [done] = publish(workspace)
    assert (done.state, done.loads, done.records) == ("published", 1, 5)
    assert publish(workspace)[0].state == "nothing new"
    records = read_files(tmp_path)
    assert operations(records) == [
        *("SNAPSHOT", "SNAPSHOT"),
        *("INSERT", "UPDATE", "DELETE", "UPDATE", "DELETE"),
    ]
    assert applied(records) == in_mysql(sql)
    assert [one["data"]["id"] for one in records[2:]] == [3, 2, 1, 10, 3]
    [version] = workspace.ledger.schema_versions(workspace.config.table("t").name)
    metadata = records[3]["metadata"]
    assert metadata["position"].pop("load") > 0
    assert {"gtid"} < set(metadata["position"]) | {"offset"}
    assert metadata.pop("position")["event"] == 2
    assert metadata.pop("committed_at").endswith("Z")
    assert metadata == {
        "ingestion_method": "BINLOG",
        "source": "s",
        "database_name": database,
        "table_name": "t",
        "table_version": version.hash,
        "operation": "UPDATE",
    }
    copied = records[0]["metadata"]
    assert (copied["ingestion_method"], copied["committed_at"]) == ("SNAPSHOT", None)
    schema = tmp_path / f"schemas/s/{database}/t/{version.hash}.json"
    assert [column["type"] for column in json.loads(schema.read_text())["columns"]] == [
        *("int", "string", "decimal(12,2)"),
    ]
    assert strays(tmp_path) == []


def test_statements_that_alter_and_empty_a_table_are_records(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    contract = {**LOG, "new_columns": "show"}
    workspace = with_records(engine_for({"t": contract}), place, files(tmp_path))
    load(workspace)
    sql(
        "INSERT INTO t VALUES (2, 'b', 2)",
        "ALTER TABLE t ADD COLUMN more INT NOT NULL DEFAULT 7",
        "INSERT INTO t VALUES (3, 'c', 3, 8)",
        "UPDATE t SET name = 'B' WHERE id = 2",
    )
    load(workspace)
    publish(workspace)
    records = read_files(tmp_path)
    assert operations(records) == ["SNAPSHOT", "INSERT", "ALTER", "INSERT", "UPDATE"]
    versions = [record["metadata"]["table_version"] for record in records]
    assert versions[0] == versions[1] != versions[2] == versions[3] == versions[4]
    assert records[2]["metadata"]["filled"] == {"more": 7}
    assert list(records[2]["metadata"]["columns"]) == ["id", "name", "amount", "more"]
    assert applied(records) == in_mysql(sql, "id, name, amount, more")
    sql("TRUNCATE TABLE t", "INSERT INTO t VALUES (9, 'z', 9, 9)")
    load(workspace)
    publish(workspace)
    records = read_files(tmp_path)
    assert operations(records)[5:] == ["TRUNCATE", "INSERT"]
    assert records[5]["metadata"]["ingestion_method"] == "BINLOG"
    assert applied(records) == in_mysql(sql, "id, name, amount, more")
    # What the log can't tell is read again as a whole: a new history.
    sql(
        "ALTER TABLE t MODIFY name VARCHAR(20)", "DELETE FROM t", "INSERT INTO t VALUES (4,'y',4,4)"
    )
    load(workspace)
    publish(workspace)
    records = read_files(tmp_path)
    assert "TRUNCATE" in operations(records)[7:]
    assert applied(records) == in_mysql(sql, "id, name, amount, more")


def test_nothing_leaves_that_clean_hides(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql(
        "CREATE TABLE t (mail VARCHAR(40) PRIMARY KEY, name VARCHAR(40), born DATE, card TEXT,"
        " pin INT, note VARCHAR(9))",
        "INSERT INTO t VALUES ('a@x', 'secret-name', '0000-00-00', '4111-1111-1111-1111', 1234567890, 'n')",
    )
    rules = {
        "mail": {"pii": "hash"},
        "name": {"pii": "mask"},
        "born": {"pii": "drop"},
        "card": {"pci": "never"},
        "pin": {"pii": "null"},
    }
    contract = {"mode": "binlog", "key": ["mail"], "clean": "table", "columns": rules}
    spool = {"kind": "spool", "to": str(tmp_path / "spool")}
    places = files(tmp_path / "files") | {"spool": spool}
    workspace = with_records(engine_for({"t": contract}), place, places)
    load(workspace)
    sql(
        "SET sql_mode = 'STRICT_TRANS_TABLES'",  # else its zero date has the table read again
        "ALTER TABLE t ADD COLUMN late VARCHAR(30) DEFAULT 'held-value'",
        "UPDATE t SET note = 'm', late = 'held-value-2'",
        "UPDATE t SET mail = 'b@x'",
        "DELETE FROM t",
    )
    load(workspace)
    publish(workspace)
    records = read_files(tmp_path / "files")
    hashed = keyed_hash(HASH_KEY.encode())
    a, b = (
        {"mail": hashed(mail, None), "name": "********me", "pin": None} for mail in ("a@x", "b@x")
    )
    rows = [record["data"] for record in records if record["data"] is not None]
    assert rows == [a | {"note": "n"}, *({**one, "note": "m"} for one in (a, a, b, b))]
    everything = "".join(path.read_text("utf-8") for path in tmp_path.rglob("*") if path.is_file())
    for value in (
        "a@x",
        "b@x",
        "secret-name",
        "0000-00-00",
        "4111-1111",
        "1234567890",
        "held-value",
    ):
        assert value not in everything, value
    for gone in ("born", "card", "late"):
        assert f'"{gone}"' not in everything, gone
    messages = list(read_spool(tmp_path / "spool"))
    assert [json.loads(one["body"]) for one in messages] == records
    assert len({one["id"] for one in messages}) == len(messages)
    # What a person shows afterwards is in what is published afterwards.
    sql("INSERT INTO t (mail, note, late) VALUES ('c@x', 'k', 'shown')")
    shown = {"columns": rules | {"late": {"pii": "show"}}}
    workspace = with_records(workspace, place, places, t=shown)
    load(workspace)
    publish(workspace)
    assert read_files(tmp_path / "files")[-1]["data"]["late"] == "shown"


def test_a_key_that_clean_hides_is_refused(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql("CREATE TABLE t (id VARCHAR(9) PRIMARY KEY)", "INSERT INTO t VALUES ('a')")
    contract = {"mode": "binlog", "key": ["id"], "columns": {"id": {"pii": "mask"}}}
    workspace = with_records(engine_for({"t": contract}), place, files(tmp_path))
    load(workspace)
    done, [error] = publish_table(workspace, workspace.config.table("t"))
    assert (done, error.exit_code) == ([], 2)
    assert "clean does not show its key column id" in str(error)
    [progress] = (
        RecordPlaces(workspace.ledger).of_tables([workspace.config.table("t").name]).values()
    )
    assert progress.error == str(error)
    assert read_files(tmp_path) == []


@pytest.mark.full
def test_names_are_names(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path, database: str
) -> None:
    names = [name for name in HOSTILE if not name.endswith(" ")]
    quoted = [f"`{name.replace('`', '``')}`" for name in names]
    table = "../t `${env:TEST_HASH_KEY}'/*.%s"
    spelled = f"`{table.replace('`', '``')}`".replace("%", "%%")
    columns = ", ".join(f"{name} VARCHAR(200)" for name in quoted).replace("%", "%%")
    with_values = f"INSERT INTO {spelled} VALUES (1{', %s' * len(names)})"
    sql(f"CREATE TABLE {spelled} (id INT PRIMARY KEY, {columns})".replace("%%", "%"))
    sql(with_values, values=tuple(names))
    spool = {"kind": "spool", "to": str(tmp_path / "spool")}
    places = files(tmp_path / "files") | {"spool": spool}
    workspace = with_records(engine_for({table: LOG}), place, places)
    load(workspace, table)
    sql(f"UPDATE {spelled} SET {quoted[0]} = 'x'".replace("%%", "%"))
    load(workspace, table)
    publish(workspace, table)
    wanted = {"id": 1, **{name: name for name in names}}
    records = read_files(tmp_path / "files")
    assert [one["data"] for one in records] == [wanted, wanted | {names[0]: "x"}]
    assert records[0]["metadata"]["table_name"] == table
    assert [json.loads(one["body"]) for one in read_spool(tmp_path / "spool")] == records
    assert {one["attributes"]["table"] for one in read_spool(tmp_path / "spool")} == {table}
    assert {p.name for p in tmp_path.iterdir()} == {"files", "spool"}
    assert [p.name for p in (tmp_path / "files" / "json" / "s" / database).iterdir()] == [
        table.replace("%", "%25").replace("/", "%2F")
    ]


@pytest.mark.full
def test_files_are_bounded_and_gathered(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql(TABLE, *(f"INSERT INTO t VALUES ({n}, 'n', {n})" for n in range(25)))
    terms = {"gzip": True, "max_rows": 10}
    workspace = with_records(engine_for({"t": LOG}), place, files(tmp_path, **terms))
    load(workspace)
    [done] = publish(workspace)
    assert (done.records, done.files) == (25, 3)
    for n in range(3):
        sql(f"UPDATE t SET name = '{n}' WHERE id = {n}")
        load(workspace)
    [done] = publish(workspace)
    assert (done.loads, done.records, done.files) == (3, 3, 1)
    assert applied(read_files(tmp_path)) == in_mysql(sql)
    small = files(tmp_path, every="1h", max_megabytes=0.0005)
    workspace = with_records(workspace, place, small)
    sql("UPDATE t SET name = REPEAT('x', 40)")
    load(workspace)
    assert publish(workspace)[0].state == "waiting"
    [done] = publish(workspace, wait=False)
    assert (done.records, done.files > 10) == (25, True)
    assert applied(read_files(tmp_path)) == in_mysql(sql)
    assert strays(tmp_path) == []


@pytest.mark.full
def test_a_copy_may_be_left_out(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    workspace = with_records(engine_for({"t": LOG}), place, files(tmp_path, copies=False))
    load(workspace)
    assert publish(workspace)[0].state == "nothing new"
    assert list(tmp_path.rglob("*.json")) == []
    sql("INSERT INTO t VALUES (2, 'b', 2)")
    load(workspace)
    publish(workspace)
    assert operations(read_files(tmp_path)) == ["INSERT"]


def test_a_ledger_that_was_rebuilt_publishes_no_file_twice(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    places = files(tmp_path / "files") | {"spool": {"kind": "spool", "to": str(tmp_path / "spool")}}
    workspace = with_records(engine_for({"t": LOG}), place, places)
    load(workspace)
    sql("UPDATE t SET amount = 2")
    load(workspace)
    publish(workspace)
    records = read_files(tmp_path / "files")
    messages = list(read_spool(tmp_path / "spool"))
    contract = workspace.config.table("t")
    empty = Ledger(f"sqlite:///{tmp_path}/other.db")
    config = workspace.config.model_copy(
        update={"ledger": workspace.config.ledger.model_copy(update={"url": empty.url})}
    )
    rebuild_tables(config, empty, [contract])
    other = Workspace(config, empty, workspace.lake, workspace.spark, "r2")
    assert [one.state for one in publish(other)] == ["nothing new", "published"]
    assert read_files(tmp_path / "files") == records
    assert [one["id"] for one in read_spool(tmp_path / "spool")] == [one["id"] for one in messages]
    assert [one.state for one in publish(other)] == ["nothing new", "nothing new"]


@pytest.mark.full
def test_records_of_another_ledger_are_not_written_over(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    workspace = with_records(engine_for({"t": LOG}), place, files(tmp_path))
    load(workspace)
    publish(workspace)
    [manifest] = tmp_path.rglob("*_manifest.json")
    text = json.loads(manifest.read_text())
    text["loads"][0][1] = "another"
    manifest.write_text(json.dumps(text))
    with pytest.raises(RecordsError, match="which this ledger does not know"):
        raise publish_table(workspace, workspace.config.table("t"), restart=True)[1][0]
    assert json.loads(manifest.read_text()) == text


def test_lake_and_ledger_that_are_older_than_the_records_write_none_behind_them(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    """As after a volume's snapshot that was put back: numbers come again that readers are past."""
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    workspace = with_records(engine_for({"t": LOG}), place, files(tmp_path))
    load(workspace)
    publish(workspace)
    # What the newer lake published last, under a number that this one gives out next.
    [manifest] = tmp_path.rglob("*_manifest.json")
    text = json.loads(manifest.read_text())
    taken = text["loads"][0][0] + 1
    text |= {"loads": [[taken, "of-the-newer-lake"]], "records": 0, "files": []}
    manifest.with_name(f"{taken:014d}_manifest.json").write_text(json.dumps(text))
    before = read_files(tmp_path)
    sql("INSERT INTO t VALUES (2, 'b', 2)")
    load(workspace)
    contract = workspace.config.table("t")
    for _ in range(2):
        done, [error] = publish_table(workspace, contract)
        assert done == []
        assert f"has records of load {taken}, which this ledger does not know" in str(error)
    assert read_files(tmp_path) == before
    (tmp_path / "json").rename(tmp_path / "old")
    publish(workspace, restart=True)
    assert applied(read_files(tmp_path)) == in_mysql(sql)


def test_raw_without_the_rows_of_a_load_is_an_error_and_no_gap(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)")
    workspace = with_records(engine_for({"t": LOG}), place, files(tmp_path))
    load(workspace)
    publish(workspace)
    sql("UPDATE t SET amount = 2", "UPDATE t SET amount = 3")
    load(workspace)
    contract = workspace.config.table("t")
    newest = workspace.ledger.successful_loads(contract.name)[-1]
    raw = workspace.lake.load(Identifier(contract.namespaces.raw, newest.raw_table))
    assert raw is not None
    raw.delete(f"_mirror_event == 2 and _mirror_load == '{newest.load_id}'")
    done, [error] = publish_table(workspace, contract)
    assert done == []
    assert "raw has 1 rows of it, and 2 were committed" in str(error)
    assert operations(read_files(tmp_path)) == ["SNAPSHOT"]


def test_a_command_says_what_is_due_and_what_was_published(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share_session(place, monkeypatch)
    sql(TABLE, "INSERT INTO t VALUES (1, 'a', 1)", "CREATE TABLE f (id INT PRIMARY KEY)")
    tables = {"t": LOG, "f": {"mode": "full", "key": ["id"]}}
    workspace = with_records(engine_for(tables), place, files(tmp_path))
    load(workspace)
    config = ["--config", str(workspace.config.path)]

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(cli, [*arguments, *config], catch_exceptions=True)

    due = json.loads(run("records", "--dry-run", "--json").stdout)["due"]
    assert [(one["through"], one["loads"], one["rows"]) for one in due] == [(0, 1, 1)]
    assert not any(tmp_path.iterdir())
    shown = run("records")
    assert (shown.exit_code, "files" in shown.stdout) == (0, True), shown.output
    again = json.loads(run("records", "t", "--json").stdout)
    assert [one["state"] for one in again["records"]] == ["nothing new"]
    assert isinstance(run("records", "f").exception, Exception)
    assert "mode full" in str(run("records", "f").exception)
    assert "1 through load" in run("status", "t").stdout
    status = json.loads(run("status", "t", "--json").stdout)[0]["records"]
    assert (status["state"], status["rows"]) == ("success", 1)
    # What a destination refuses is in the lake all the same, and is said so.
    shutil.rmtree(tmp_path)
    tmp_path.write_text("no folder")
    sql("INSERT INTO t VALUES (2, 'b', 2)")
    stopped = run("sync", "t")
    assert stopped.exit_code not in (0, 10)
    assert "1 table: 1 in the lake, not published" in stopped.output
    failed = json.loads(run("sync", "t", "--json").stdout)
    assert [one["unchanged"] is not None for one in failed["tables"]] == [True]
    assert [one["table"] for one in failed["errors"]] == [workspace.config.table("t").name]


@pytest.mark.full
def test_order_is_by_load_and_event(
    sql: Sql, engine_for: EngineFor, place: Place, tmp_path: Path
) -> None:
    """Events of several days and files of one load, and several loads of one batch."""
    sql(TABLE)
    workspace = with_records(engine_for({"t": LOG}), place, files(tmp_path))
    load(workspace)
    for n in (3, 1, 2):  # the server's clock goes back and forth
        day = f"SET timestamp = UNIX_TIMESTAMP('2026-03-0{n} 12:00:00')"
        sql(day, f"INSERT INTO t VALUES ({n}, 'a', {n})", f"UPDATE t SET name = 'b{n}'")
    sql("SET timestamp = DEFAULT")
    load(workspace)
    publish(workspace)
    records = read_files(tmp_path)
    places = [place_of(record) for record in records]
    assert places == sorted(set(places))
    assert Counter(operations(records)) == {"INSERT": 3, "UPDATE": 6}
    assert applied(records) == in_mysql(sql)
