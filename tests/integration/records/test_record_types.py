"""Every type leaves and can be read again as it is: by a landing's own reader, from a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.landing.files.columns import parse_schema
from mirrorlake.landing.files.records import LandedFile, Reading, read_records
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.sources.files.folder_store import FolderStore
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.operations.test_follow_log import LOG
from tests.integration.operations.test_follow_types import writable
from tests.integration.records.published import place_of, publish, read_files, with_records
from tests.integration.sources.mysql.binlog.test_binlog_types import assert_same
from tests.integration.sources.mysql.test_types import cases_of, make_wide_table

Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def landed(records: list[dict[str, Any]], schema: Path, folder: Path) -> dict[int, dict[str, Any]]:
    """The ``data`` of records, as a landing reads a file of them."""
    store = FolderStore(str(folder))
    lines = (json.dumps(record["data"], ensure_ascii=False) + "\n" for record in records)
    (folder / "data.json").write_text("".join(lines), "utf-8")
    entry = store.entry("data.json")
    assert entry is not None
    reading = Reading(store, "t", "json", parse_schema(schema.read_bytes(), str(schema), None))
    batches = read_records(reading, LandedFile("data.json", entry.bytes, entry.version))
    return {row["id"]: row for batch in batches for row in batch.to_pylist()}


def raw_rows(workspace: Workspace, table: str, *, logged: bool) -> dict[int, dict[str, Any]]:
    """What raw has of each key by its newest event, of the log or of the copy."""
    contract = workspace.config.table(table)
    [version] = workspace.ledger.schema_versions(contract.name)
    found = workspace.lake.load(Identifier(contract.namespaces.raw, version.raw_table))
    assert found is not None
    rows: pa.Table = found.scan().to_arrow()
    kept = [row for row in rows.to_pylist() if (row["_mirror_op"] is not None) == logged]
    kept.sort(key=lambda row: (row["_mirror_seq"], row["_mirror_event"] or 0))
    shown = {n for n in rows.column_names if not n.startswith("_mirror_") or n == ORIGINAL}
    # No text is NULL or an empty list; to readers both are none.
    plain = ({**row, ORIGINAL: row[ORIGINAL] or None} for row in kept)
    return {row["id"]: {n: row[n] for n in row if n in shown} for row in plain}


def test_every_type_is_read_again_as_it_was(
    sql: Sql,
    server: EmbeddedServer,
    engine_for: Callable[..., Workspace],
    place: Place,
    tmp_path: Path,
    database: str,
) -> None:
    make_wide_table(sql, cases_of(server))
    sql("CREATE TABLE late LIKE wide", "INSERT INTO late (id) VALUES (5000)")
    contracts = {name: {**LOG, "shrink_limit": None} for name in ("wide", "late")}
    out = {"files": {"kind": "files", "to": str(tmp_path / "out")}}
    workspace = with_records(engine_for(contracts), place, out)
    for name in contracts:
        load_table(workspace, workspace.config.table(name))
    listed = ", ".join(f"`{name.replace('`', '``')}`" for name in writable(sql))
    sql(
        f"INSERT IGNORE INTO late ({listed}) SELECT {listed} FROM wide",
        "DELETE FROM late WHERE id = 5000",
        "UPDATE late SET id = id + 10000 WHERE id % 3 = 0",
    )
    load_table(workspace, workspace.config.table("late"))
    for name, logged in (("wide", False), ("late", True)):
        publish(workspace, name)
        folder = tmp_path / name
        folder.mkdir()
        records = [
            one
            for one in read_files(tmp_path / "out")
            if one["metadata"]["table_name"] == name
            and ("gtid" in one["metadata"]["position"] or "file" in one["metadata"]["position"])
            == logged
        ]
        assert len(records) >= 16
        records.sort(key=place_of)
        [schema] = (tmp_path / "out" / "schemas" / "s" / database / name).iterdir()
        found, wanted = landed(records, schema, folder), raw_rows(workspace, name, logged=logged)
        assert_same(found, wanted)
        assert any(row[ORIGINAL] for row in found.values())
