"""Every type with its boundaries: the log and our SELECT give the same cells, in the same types."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import ORIGINAL
from tests.integration.binlogs import (
    folded,
    followed,
    images,
    log_end,
    plain,
    read_log,
    selected,
    source_of,
)
from tests.integration.sources.mysql.test_types import cases_of, make_wide_table

Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


def exact(value: Any) -> Any:
    """A value whose equality is that of its bits: -0.0 is not 0.0."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def cells(rows: dict[Any, dict[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {key: {name: exact(v) for name, v in row.items()} for key, row in rows.items()}


def assert_same(logged: dict[Any, Any], wanted: dict[Any, Any]) -> None:
    assert logged.keys() == wanted.keys()
    differing = [
        (key, name, row[name], wanted[key].get(name))
        for key, row in cells(logged).items()
        for name in row
        if row[name] != cells({key: wanted[key]})[key].get(name)
    ]
    assert not differing
    assert all(row.keys() == wanted[key].keys() for key, row in logged.items())


def test_every_type_and_boundary(server: EmbeddedServer, database: str, sql: Sql) -> None:
    start = log_end(server)
    make_wide_table(sql, cases_of(server))
    batches = read_log(server, start, followed(source_of(server), database, "wide"))
    assert not [stop for batch in batches for stop in batch.stopped]
    wanted = selected(server, database, "wide")
    logged = images(batches, "wide")
    assert_same(folded(batches, "wide", ["id"]), plain(wanted.to_pylist(), ["id"]))
    kinds = {field.name: field.type for field in wanted.schema if field.name != ORIGINAL}
    assert {name: logged.schema.field(name).type for name in kinds} == kinds
    assert ORIGINAL in logged.schema.names
