"""Trino as one of the readers: a stand-in gives what PyIceberg read, in a real Trino's JSON."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.reading.readers import columns_of
from mirrorlake.errors import ConfigError
from mirrorlake.operations.checking.readers import ReadAlike, compare_readers
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.integration.operations.test_readers import EVERY_TYPE, ROWS
from tests.support.trino_server import Found, trino_server
from tests.unit.destinations.test_trino import RECORDED, SCHEMA, TYPES


def kind(of: pa.DataType) -> str:
    return "list" if pa.types.is_nested(of) else str(of).removeprefix("large_")


AS_RECORDED = dict(zip(map(kind, SCHEMA.types), RECORDED[TYPES]["columns"], strict=True))
"""Each type → how Trino 476 describes a column of it."""

Change = Callable[[dict[str, Any]], dict[str, Any] | None]


def in_json(value: Any) -> Any:
    match value:
        case Decimal():
            return str(value)
        case bytes():
            return base64.b64encode(value).decode()
        case dt.datetime():
            text = value.replace(tzinfo=None).isoformat(" ", "microseconds")
            return f"{text} UTC" if value.tzinfo else text
        case dt.date():
            return value.isoformat()
        case list():
            return [list(one.values()) for one in value]
    return value


def answers(workspace: Workspace, change: Change = lambda row: row) -> Callable[[str], Found]:
    """What Trino would give of the tables of the lake, its rows changed, or left out by None."""

    def answer(statement: str) -> Found:
        [place] = statement.split(" FROM ")[1].split(" FOR VERSION")[:1]
        catalog, namespace, name = place.replace('"', "").split(".")
        assert catalog == "lake"
        table = workspace.lake.load(Identifier(namespace, name))
        assert table is not None
        version = int(statement.split("CAST(")[-1].split(" AS ")[0])
        columns = [
            {**AS_RECORDED[kind(field.type)], "name": field.name}
            for field in columns_of(table, version)
        ]
        if statement.endswith("LIMIT 0"):
            return {"columns": columns}
        double = {**AS_RECORDED["double"], "name": "_col"}
        given = [double if one["type"] == "real" else one for one in columns]
        rows = [change(row) for row in table.scan(snapshot_id=version).to_arrow().to_pylist()]
        data = [[in_json(value) for value in row.values()] for row in rows if row is not None]
        return {"columns": given, "data": data}

    return answer


@pytest.fixture
def mirrored(with_trino: Callable[..., Workspace], sql: Callable[..., Any]) -> None:
    sql(EVERY_TYPE, ROWS)
    workspace = with_trino("http://127.0.0.1:1")
    sync_table(workspace, workspace.config.table("t"))


def compared(workspace: Workspace) -> ReadAlike:
    """The verdict on deduped."""
    [deduped, _] = compare_readers(workspace, workspace.config.table("t"))
    return deduped


def test_four_engines_are_compared(
    mirrored: None,
    with_trino: Callable[..., Workspace],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with trino_server(lambda _: {}) as server:
        workspace = with_trino(server.url)
        server.answer = answers(workspace)
        share_session(place, monkeypatch)
        command = ["readers", "t", "--config", str(workspace.config.path), "--json"]
        result = CliRunner().invoke(cli, command)
        assert result.exit_code == 0, result.output
        for layer in json.loads(result.output):
            assert (layer["verdict"], layer["words"]) == ("equal", "")
            assert [one["reader"] for one in layer["readings"] if one["rows"] == 3] == [
                *("PyIceberg", "DuckDB", "Spark", "Trino"),
            ]
            assert len({one["digest"] for one in layer["readings"]}) == 1
    proofs = workspace.ledger.layer_proofs(workspace.config.table("t").name)
    [proof] = [one for one in proofs if one.layer == "readers of deduped"]
    assert proof.compared == "every row, by PyIceberg, DuckDB, Spark, Trino"


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda row: {**row, "m": None}, "as many rows, with other values in m"),
        (
            lambda row: row if row["id"] != 2 else None,
            "rows: PyIceberg 3, DuckDB 3, Spark 3, Trino 2",
        ),
    ],
)
def test_a_trino_that_reads_other_rows_is_named(
    mirrored: None, with_trino: Callable[..., Workspace], change: Change, words: str
) -> None:
    with trino_server(lambda _: {}) as server:
        workspace = with_trino(server.url)
        server.answer = answers(workspace, change)
        found = compared(workspace)
    assert (found.verdict, found.words) == ("different", words)
    assert len({one.digest for one in found.readings}) == 2


def test_a_password_that_is_not_set_is_an_error_before_anything_is_read(
    with_trino: Callable[..., Workspace], sql: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql(EVERY_TYPE)
    monkeypatch.setenv("TRINO_PASSWORD", "s3cret")
    path = with_trino("https://127.0.0.1:1", password="${env:TRINO_PASSWORD}").config.path
    monkeypatch.delenv("TRINO_PASSWORD")
    ran = CliRunner().invoke(cli, ["readers", "t", "--config", str(path)])
    words = "readers.trino.password: the environment variable TRINO_PASSWORD is not set"
    assert isinstance(ran.exception, ConfigError)
    assert words in str(ran.exception)
    assert "s3cret" not in str(ran.exception)


def test_a_trino_that_cannot_be_queried_leaves_it_undecided(
    mirrored: None, with_trino: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = compared(with_trino("http://127.0.0.1:1"))
    assert found.verdict == "undecided"
    assert found.words.startswith("Trino: Trino at http://127.0.0.1:1 can't be queried")
    assert [one.rows for one in found.readings] == [3, 3, 3, None]
    assert not found.readings[-1].missing
