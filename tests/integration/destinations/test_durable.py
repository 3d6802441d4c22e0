"""What the catalog and the ledger name is on the disk by then: a power cut can't take it back."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pyiceberg.table import Table

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.storage.durable import DurableFileIO, local_path
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace

Flushed = set[str]


@pytest.fixture
def flushed(monkeypatch: pytest.MonkeyPatch) -> Flushed:
    """The paths that were flushed so far."""
    found: Flushed = set()
    flush = os.fsync

    def seen(descriptor: int) -> None:
        flush(descriptor)
        found.add(str(Path(f"/proc/self/fd/{descriptor}").readlink()))

    monkeypatch.setattr(os, "fsync", seen)
    return found


def files_of(table: Table) -> set[str]:
    """Everything that is needed to read a table as it is now."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    files = [table.metadata_location, snapshot.manifest_list]
    files += [manifest.manifest_path for manifest in snapshot.manifests(table.io)]
    files += [str(path) for path in table.inspect.files()["file_path"].to_pylist()]
    return {str(local_path(path)) for path in files}


def folders_of(paths: set[str]) -> set[str]:
    return {str(Path(path).parent) for path in paths}


def test_files_are_on_the_disk_before_they_are_named(
    sql: Callable[..., Any],
    engine_for: Callable[..., Workspace],
    flushed: Flushed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(6) NOT NULL, KEY (at))",
        "INSERT INTO t SELECT seq, UTC_TIMESTAMP(6) FROM seq_1_to_50",
    )
    workspace = engine_for({"t": {"mode": "incremental", "key": ["id"], "cursor": "at"}})
    contract = workspace.config.tables[0]
    named: list[str] = []

    def on_statement(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if statement.startswith("UPDATE iceberg_tables"):
            # A table that takes another name has its metadata named already.
            for path in (p for p in parameters if str(p).endswith(".metadata.json")):
                assert str(local_path(path)) in flushed
                named.append(path)

    catalog: Any = workspace.lake.catalog
    sa.event.listen(catalog.engine, "before_cursor_execute", on_statement)
    folded: list[int] = []

    def on_fold(ledger: Ledger, table: str, layer: str, seqs: Any, run_id: str) -> None:
        # A first fold's table takes its name when it is whole.
        ((_, name),) = catalog.list_tables(contract.namespaces.deduped)
        deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, name))
        assert deduped is not None
        wanted = files_of(deduped)
        assert wanted | folders_of(wanted) <= flushed
        folded.append(len(wanted))
        record(ledger, table, layer, seqs, run_id)

    record = Ledger.record_folds
    monkeypatch.setattr(Ledger, "record_folds", on_fold)
    try:
        for statement in ("DO 0", "UPDATE t SET at = UTC_TIMESTAMP(6) WHERE id < 9"):
            sql(statement)
            sync_table(workspace, contract)
            (raw, *_) = workspace.ledger.successful_loads(contract.name)
            table = workspace.lake.load(Identifier(contract.namespaces.raw, raw.raw_table))
            assert table is not None
            wanted = files_of(table)
            assert wanted | folders_of(wanted) <= flushed
    finally:
        sa.event.remove(catalog.engine, "before_cursor_execute", on_statement)
    assert len(folded) == 2
    assert len(named) >= 2


def test_the_name_of_a_folder_is_flushed_when_it_is_made(tmp_path: Path, flushed: Flushed) -> None:
    """Once in this process, and again where it was made again meanwhile."""

    def write(name: str) -> Flushed:
        flushed.clear()
        with io.new_output(str(tmp_path / "table" / "metadata" / name)).create() as out:
            out.write(b"x")
        return {Path(path).name for path in flushed}

    io = DurableFileIO({})
    assert write("a.avro") == {"a.avro", "metadata", "table"}
    assert write("b.avro") == {"b.avro", "metadata"}
    shutil.rmtree(tmp_path / "table")
    assert write("c.avro") == {"c.avro", "metadata", "table"}
