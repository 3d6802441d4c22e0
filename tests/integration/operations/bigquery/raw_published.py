"""What tests of raw in BigQuery share: a table with several schema versions, and its rows on all
sides."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pyarrow as pa
import sqlglot

from demo.oracle import compare_rows
from demo.oracle_text import read_source
from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.operations.bigquery.raw_look import RawShown, look_at_raw
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace
from tests.support.bigquery.cloud import Cloud

RAW = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "bigquery": {"load": "raw"},
}
TABLE = """CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), n INT, d DATE, gone INT,
    old VARCHAR(20), at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))"""
TWENTY = """INSERT INTO t SELECT seq, CONCAT('a', seq), seq, '2026-01-02', seq, CONCAT('o', seq),
    '2026-01-02 03:04:05.678901' FROM seq_1_to_20"""


def raw_contract(workspace: Workspace) -> TableContract:
    return workspace.config.table("t")


def looked(workspace: Workspace) -> RawShown:
    """What BigQuery is to have."""
    shown = look_at_raw(workspace, raw_contract(workspace))
    assert shown is not None
    return shown


def view_rows(cloud: Cloud, dataset: str, name: str = "t") -> list[dict[str, Any]]:
    """All rows that a view shows, as Google's client reads them."""
    found = cloud.client().query_and_wait(f"SELECT * FROM `{dataset}.{name}`")
    return [dict(row.items()) for row in found]


def typed(workspace: Workspace, rows: list[dict[str, Any]]) -> pa.Table:
    """Rows of the view of current rows in deduped's types."""
    table = workspace.lake.load(deduped_of(raw_contract(workspace)))
    assert table is not None
    schema = arrow_schema(table.schema(), field_ids=False)
    return pa.Table.from_pylist(rows, schema=schema)


def assert_mysqls(
    workspace: Workspace, admin: Callable[..., Any], database: str, cloud: Cloud, dataset: str
) -> None:
    """See that the view has the rows that MySQL has, by the oracle."""
    with admin(database) as connection:
        source = read_source(connection, database, "t", set())
    found = compare_rows(source, ("id",), typed(workspace, view_rows(cloud, dataset)), set())
    assert found.equal_but_for([]), found.describe()


def sparks_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """The rows of the same text, executed by Spark over the lake's raw."""
    shown = looked(workspace)
    over = shown.over({one.identifier.name: one.form.names for one in shown.versions})
    union = " UNION ALL ".join(over.rows_sql(name) for name in over.tables)
    names = [name for name in shown.view.form.names if over.offers(name)]
    text = over.current_sql(shown.unified, names)
    assert text.count(shown.unified.sql) == 1
    text = text.replace(shown.unified.sql, f"({union})")
    spark = sqlglot.transpile(text, read="databricks", write="spark")[0]
    rows = workspace.spark.get().sql(spark)
    found = [row.asDict(recursive=True) for row in rows.collect()]
    # Spark's client gives instants without their zone.
    instants = [name for name, kind in rows.dtypes if kind == "timestamp"]
    for row in found:
        row |= {name: row[name].astimezone(UTC) for name in instants if row[name] is not None}
    return found


def comparable(rows: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Rows of either side, in one order; BigQuery has no NULL where a column repeats."""
    plain = [{name: None if value == [] else value for name, value in row.items()} for row in rows]
    return sorted((sorted(row.items()) for row in plain), key=repr)
