"""What a table of all versions (``versions: table``) shows, as two readers see it, beside what Spark
makes of the view's own SQL."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.operations.checking.check_layers import LayerReport, prove_raw_layer
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.serving.versions import raw_views
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.lakes import READERS


def name_of(workspace: Workspace) -> Identifier:
    [contract] = workspace.config.tables
    return Identifier(contract.namespaces.raw, contract.table)


def sync(workspace: Workspace) -> None:
    [contract] = workspace.config.tables
    sync_table(workspace, contract)


def table_of(workspace: Workspace) -> LakeTable:
    found = workspace.lake.load(name_of(workspace))
    assert found is not None
    return found


def plain(rows: pa.Table) -> list[tuple[Any, ...]]:
    """The rows by their load and key, each column in the order of its name."""
    names = sorted(rows.column_names)
    columns = [
        column.cast(pa.timestamp("us", "UTC"))
        if pa.types.is_timestamp(column.type) and column.type.tz is not None
        else column
        for column in (rows[name] for name in names)
    ]
    # A row without originals has none, or an empty list of them.
    cells = [[None if cell == [] else cell for cell in column.to_pylist()] for column in columns]
    return sorted(zip(*cells, strict=True), key=str)


def shown(workspace: Workspace, *columns: str) -> list[tuple[Any, ...]]:
    """These columns of the table, by load and key, as both readers see them; the whole table proven
    to be what Spark makes of the view's SQL."""
    table = table_of(workspace)
    spark = workspace.spark.get()
    [contract] = workspace.config.tables
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
    [wanted] = raw_views(plan, workspace.ledger, workspace.lake).values()
    expected = plain(spark.sql(wanted.sql).toArrow())
    first: list[tuple[Any, ...]] | None = None
    for name, read in READERS.items():
        rows = read(table)
        assert sorted(rows.column_names) == sorted(wanted.columns), name
        assert plain(rows) == expected, name
        chosen = rows.select([*columns, "_mirror_seq"]).to_pylist()
        chosen.sort(key=lambda row: (row["_mirror_seq"], str(row.get("id"))))
        found = [tuple(row[column] for column in columns) for row in chosen]
        assert first is None or found == first
        first = found
    assert first is not None
    return first


def proven(workspace: Workspace) -> LayerReport:
    [contract] = workspace.config.tables
    return prove_raw_layer(workspace, contract)
