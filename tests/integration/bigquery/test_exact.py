"""Every type, read back by Google's client, is what MySQL itself prints; what is withheld is
nowhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from demo.oracle import compare_rows
from demo.oracle_text import read_source
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.every_type import COLUMNS, ROWS
from tests.integration.bigquery.published import address, checked, left_over, synced
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live


def test_every_type_is_what_mysql_prints(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    server: EmbeddedServer,
    database: str,
) -> None:
    sql(f"CREATE TABLE t ({COLUMNS})", *(f"INSERT INTO t VALUES {row}" for row in ROWS))
    workspace = mirror({"t": {"mode": "full", "key": ["id"], "columns": {"born": {"pii": "drop"}}}})
    assert synced(workspace).rows == 3
    there = list(cloud.client().list_rows(address(dataset)))
    assert "born" not in there[0].keys()  # noqa: SIM118 - a Row iterates over its values
    table = workspace.lake.load(Identifier(dataset, "t"))
    assert table is not None
    schema = arrow_schema(table.schema(), field_ids=False)
    lake = pa.schema([field for field in schema if field.name != "born"])
    rows = pa.Table.from_pylist([dict(row.items()) for row in there], schema=lake)
    with server.admin(database) as admin:
        source = read_source(admin, database, "t", {"born"})
    found = compare_rows(source, ["id"], rows, {"born"})
    assert found.equal, found.describe()
    entries = {one["column"] for row in there for one in row["_mirror_original"]}
    assert entries == {"day", "at"}
    checked_now = checked(workspace)
    assert checked_now.verdict == "equal", checked_now
    assert left_over(cloud, dataset) == []
