"""Whether every engine reads the same rows of a table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.reading import readers as engines
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.operations.checking import readers
from mirrorlake.operations.checking.readers import ReadAlike, compare_readers
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session

TERMS = {"mode": "incremental", "key": ["id"], "cursor": "at", "clean": "table", "new_columns": "show"}  # fmt: skip
EVERY_TYPE = (
    "CREATE TABLE t (id INT PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED, d DECIMAL(38,10),"
    " f FLOAT, g DOUBLE, s VARCHAR(9), b VARBINARY(9), day DATE, m DATETIME(6), z TIMESTAMP(6) NULL,"
    ' `a "b` TIME(6), at DATETIME(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))'
)
ROWS = (
    'INSERT INTO t (id, i, u, d, f, g, s, b, day, m, z, `a "b`) VALUES'
    " (1, -9223372036854775808, 18446744073709551615, -1234567890123456789012345678.0123456789,"
    " -0.0, 1e300, '', x'00ff', '0001-01-01', '9999-12-31 23:59:59.999999',"
    " '1970-01-01 00:00:01', '-838:59:59'),"
    " (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
    " (3, 0, 0, 0, 0, 0, 'é漢🙂', '', '0000-00-00', '0000-00-00', '2024-02-29 12:00:00.000001', 0)"
)


@pytest.fixture
def workspace(sql: Callable[..., Any], engine_for: Callable[..., Workspace]) -> Workspace:
    """A table of every type, with rows that were changed and deleted, and a column that came."""
    sql(EVERY_TYPE, ROWS, "INSERT INTO t (id) SELECT seq FROM seq_10_to_30")
    workspace = engine_for({"t": TERMS})
    sync_table(workspace, workspace.config.table("t"))
    sql(
        "UPDATE t SET s = 'new', at = UTC_TIMESTAMP(6) WHERE id IN (2, 11)",
        "ALTER TABLE t ADD COLUMN more INT",
        "INSERT INTO t (id, more) VALUES (40, 1)",
    )
    sync_table(workspace, workspace.config.table("t"))
    return workspace


def compared(workspace: Workspace) -> ReadAlike:
    """The verdict on deduped."""
    [deduped, _] = compare_readers(workspace, workspace.config.table("t"))
    return deduped


def test_three_engines_read_the_same_rows(
    workspace: Workspace, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    contract = workspace.config.table("t")
    identifier = Identifier(contract.namespaces.deduped, "t")
    # Deletes by position stand beside the data.
    place.spark.get().sql(f"DELETE FROM {identifier.sql} WHERE id = 12")
    share_session(place, monkeypatch)
    command = ["readers", contract.name, "--config", str(workspace.config.path)]
    result = CliRunner().invoke(cli, [*command, "--json"])
    assert result.exit_code == 0, result.output
    for layer, rows in zip(json.loads(result.output), (24, 25), strict=True):
        assert (layer["verdict"], layer["words"]) == ("equal", "")
        *asked, trino = layer["readings"]
        assert [one["reader"] for one in asked] == ["PyIceberg", "DuckDB", "Spark"]
        assert {one["rows"] for one in asked} == {rows}
        assert len({one["digest"] for one in asked}) == 1
        assert (trino["reader"], trino["rows"], trino["missing"]) == ("Trino", None, True)
        assert trino["words"].startswith("no Trino is configured")
    proofs = workspace.ledger.layer_proofs(contract.name)
    assert {one.layer: one.verdict for one in proofs if one.layer.startswith("readers")} == {
        "readers of deduped": "equal",
        "readers of clean": "equal",
    }
    shown = CliRunner().invoke(cli, command).output
    assert f"{identifier}, version" in shown
    assert ": equal" in shown


@pytest.mark.full
def test_one_that_reads_other_rows_is_named(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = readers.read_by_duckdb

    def changed(table: Any, version: int) -> Iterator[pa.RecordBatch]:
        for batch in first(table, version):
            ids = batch.column("id").to_pylist()
            others = pa.array([99 if one == 1 else one for one in ids], pa.int32())
            yield batch.set_column(batch.schema.get_field_index("id"), "id", others)

    def shortened(table: Any, version: int) -> Iterator[pa.RecordBatch]:
        yield from (batch.slice(1) for batch in first(table, version))

    monkeypatch.setattr(readers, "read_by_duckdb", changed)
    found = compared(workspace)
    assert (found.verdict, found.words) == (
        "different",
        "as many rows, with other values in id",
    )
    monkeypatch.setattr(readers, "read_by_duckdb", shortened)
    found = compared(workspace)
    assert (found.verdict, found.words) == (
        "different",
        "rows: PyIceberg 25, DuckDB 24, Spark 25",
    )
    [proof] = [
        one
        for one in workspace.ledger.layer_proofs(workspace.config.table("t").name)
        if one.layer == "readers of deduped"
    ]
    assert (proof.verdict, proof.expected_rows, proof.rows) == ("different", 25, 24)


@pytest.mark.full
def test_what_is_not_installed_or_cannot_be_read_is_said(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as bare:
        bare.setattr(engines, "_packaged", lambda _: None)
        bare.setenv("HOME", "/nowhere")
        found = compared(workspace)
        assert found.verdict == "equal"
        assert [one.missing for one in found.readings] == [False, True, False, True]
        assert "DuckDB's extension avro is not installed" in found.readings[1].words
    table = workspace.lake.load(Identifier(workspace.config.table("t").namespaces.deduped, "t"))
    assert table is not None
    [task, *_] = table.scan().plan_files()
    path = local_path(task.file.file_path)
    assert path is not None
    Path(path).write_bytes(b"no parquet")
    found = compared(workspace)
    assert found.verdict == "undecided"
    assert all(one.rows is None for one in found.readings)
    assert "PyIceberg: " in found.words


def test_a_table_that_is_not_there_is_undecided(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(6) NOT NULL)")
    found = compared(engine_for({"t": TERMS}))
    assert (found.verdict, found.words) == ("undecided", "it is not there yet: sync first")
