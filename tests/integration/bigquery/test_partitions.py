"""Partitions by days: rows that change, move to other days or leave are exact, and a MERGE names the
days that it touches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.errors import ConfigError
from mirrorlake.failpoints import OF_BIGQUERY_LAYOUT
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    INCREMENTAL,
    address,
    checked,
    killed,
    left_over,
    published,
    synced,
)
from tests.integration.conftest import Place
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live

TABLE = """CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), day DATE, made DATETIME(6),
    seen TIMESTAMP(6) NULL, at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))"""
ROWS = """INSERT INTO t SELECT seq, 'old', '2026-01-01' + INTERVAL seq DIV 10 DAY,
    '2026-01-01 23:59:59.999999' + INTERVAL seq DIV 10 DAY, '2026-01-01' + INTERVAL seq DIV 10 DAY,
    '2026-01-02 03:04:05' FROM seq_1_to_60"""


def contract(column: str, partition: str = "day") -> dict[str, Any]:
    return {**INCREMENTAL, "bigquery": {"partition_by": column, "partition": partition}}


def layout(cloud: Cloud, dataset: str) -> tuple[str, str] | None:
    """The type and column of the table's partitions, as Google's client shows them."""
    found = cloud.client().get_table(address(dataset)).time_partitioning
    return None if found is None else (str(found.type_), str(found.field))


def rows_there(cloud: Cloud, dataset: str) -> list[tuple[Any, ...]]:
    """The rows by their key, as Google's client reads them; times without their zone."""
    found = [tuple(row.values())[:5] for row in cloud.client().list_rows(address(dataset))]
    return sorted((*row[:4], row[4] and row[4].replace(tzinfo=None)) for row in found)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that were submitted as jobs."""
    found: list[str] = []
    submit = BigQuery.submit_statement

    def keeping(self: BigQuery, job: str, sql: str) -> None:
        found.append(sql)
        submit(self, job, sql)

    monkeypatch.setattr(BigQuery, "submit_statement", keeping)
    return found


MYSQL = "SELECT id, a, day, made, seen FROM t ORDER BY id"
LITERALS = {
    "day": "DATE '2026-01-06' AND DATE '2026-01-07'",
    "made": "DATETIME '2026-01-06 00:00:00' AND DATETIME '2026-01-07 23:59:59.999999'",
    "seen": "TIMESTAMP '2026-01-06 00:00:00+00' AND TIMESTAMP '2026-01-07 23:59:59.999999+00'",
}
KINDS = [pytest.param("made"), *(pytest.param(n, marks=pytest.mark.full) for n in ("day", "seen"))]


@pytest.mark.full
@pytest.mark.parametrize("column", KINDS)
def test_rows_that_change_move_and_leave(
    column: str,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    place: Place,
    statements: list[str],
) -> None:
    sql(TABLE, ROWS)
    workspace = mirror({"t": contract(column)})
    first = synced(workspace)
    assert (first.how, layout(cloud, dataset)) == ("all rows", ("DAY", column))
    sql("UPDATE t SET a = 'new' WHERE id IN (52, 60)")
    assert synced(workspace).how == "changes"
    assert f"T.`{column}` BETWEEN {LITERALS[column]}" in statements[-1]
    assert rows_there(cloud, dataset) == list(sql(MYSQL))
    # To another day, to none, and from none; one that leaves.
    sql(
        f"UPDATE t SET {column} = '2031-05-06' WHERE id = 3",
        f"UPDATE t SET {column} = NULL WHERE id = 13",
        f"UPDATE t SET {column} = '1900-01-01' WHERE id = 23" if column != "seen" else "DO 1",
    )
    assert synced(workspace).how == "changes"
    assert f"OR T.`{column}` IS NULL" in statements[-1]
    assert rows_there(cloud, dataset) == list(sql(MYSQL))
    sql(f"UPDATE t SET {column} = '2026-02-01', a = 'back' WHERE id IN (3, 13, 23)")
    place.spark.get().sql(f"DELETE FROM lake.{dataset}.t WHERE id = 33")
    sql("DELETE FROM t WHERE id = 33")
    again = synced(workspace)
    assert (again.how, again.rows) == ("changes", 59)
    assert rows_there(cloud, dataset) == list(sql(MYSQL))
    assert layout(cloud, dataset) == ("DAY", column)
    assert left_over(cloud, dataset) == []
    assert checked(workspace).verdict == "equal"


CHANGES = (
    "UPDATE {t} SET day = date_add(day, {n}) WHERE id % 17 = {r}",
    "UPDATE {t} SET day = NULL, a = 'none' WHERE id % 19 = {r}",
    "UPDATE {t} SET day = DATE '1959-12-31' WHERE id % 23 = {r}",
    "DELETE FROM {t} WHERE id % 29 = {r}",
    "INSERT INTO {t} (id, a, day) SELECT 1000 + max(id), 'came', DATE '2026-01-{n:02}' FROM {t}",
    "UPDATE {t} SET a = concat(a, '!') WHERE id % 13 = {r}",
    "CALL lake.system.rewrite_data_files(table => '{t}', where => 'id < 20',"
    " options => map('rewrite-all', 'true'))",
)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
def test_random_changes_never_double_or_lose_a_row(
    seed: int,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    place: Place,
) -> None:
    """Any row's day moves anywhere; Spark writes them merge-on-read, and rewrites files."""
    chance = random.Random(seed)  # noqa: S311 - not a secret
    sql(TABLE, ROWS)
    workspace = mirror({"t": contract("day", chance.choice(["day", "month"]))})
    synced(workspace)
    spark, table = place.spark.get(), f"lake.{dataset}.t"
    for _ in range(6):
        for change in chance.sample(CHANGES, 2):
            spark.sql(change.format(t=table, n=chance.randrange(1, 29), r=chance.randrange(13)))
        published(workspace)
        here = sorted(map(tuple, spark.sql(f"SELECT id, a, day FROM {table}").collect()), key=repr)
        there = [tuple(row.values())[:3] for row in cloud.client().list_rows(address(dataset))]
        assert sorted(there, key=repr) == here
        assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_another_setting_replaces_the_table(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE, ROWS)
    synced(mirror({"t": INCREMENTAL}))
    why = "its partitions are others: the table is dropped, and made again"
    for wanted, found in (
        (contract("day"), ("DAY", "day")),
        (contract("day", "month"), ("MONTH", "day")),
        (contract("seen", "month"), ("MONTH", "seen")),
        (INCREMENTAL, None),
    ):
        workspace = mirror({"t": wanted})
        again = published(workspace)
        assert (again.how, again.why) == ("all rows", why)
        assert layout(cloud, dataset) == found
        assert rows_there(cloud, dataset) == list(sql(MYSQL))
        assert published(workspace).state == "unchanged"
        assert checked(workspace).verdict == "equal"


@pytest.mark.full
@pytest.mark.parametrize("name", OF_BIGQUERY_LAYOUT)
def test_a_run_that_dies_while_the_table_is_replaced(
    name: str,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
) -> None:
    sql(TABLE, ROWS)
    synced(mirror({"t": INCREMENTAL}))
    workspace = mirror({"t": contract("day")})
    killed(workspace.config.path, name)
    assert "t" not in [one.table_id for one in cloud.client().list_tables(dataset)]
    assert published(workspace).state == "success"
    assert rows_there(cloud, dataset) == list(sql(MYSQL))
    assert (layout(cloud, dataset), left_over(cloud, dataset)) == (("DAY", "day"), [])


@pytest.mark.full
def test_days_that_it_cannot_have(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    rows = "SELECT seq, '2000-01-01' + INTERVAL seq DAY FROM seq_1_to_4001"
    sql(TABLE, f"INSERT INTO t (id, day) {rows}")
    for column, words in (("a", "which is STRING in BigQuery"), ("b", "which is not in the lake")):
        with pytest.raises(ConfigError, match=f"can't be partitioned by '{column}', {words}"):
            synced(mirror({"t": contract(column)}))
    with pytest.raises(ConfigError, match="its rows are of 4,001 days in day, and BigQuery takes"):
        published(mirror({"t": contract("day")}))
    assert list(cloud.client().list_tables(dataset)) == []
    assert published(mirror({"t": contract("day", "month")})).rows == 4001


@pytest.mark.full
def test_keys_that_have_no_place_are_loaded_with_all_rows(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    """A zero date of a key is NULL, and equal to nothing: a MERGE would insert it again."""
    sql(
        "CREATE TABLE t (day DATE, id INT, a VARCHAR(9), PRIMARY KEY (day, id))",
        "INSERT INTO t SELECT '0000-00-00', seq, 'old' FROM seq_1_to_9",
        "INSERT INTO t SELECT '2026-01-02', seq, 'old' FROM seq_1_to_90",
    )
    workspace = mirror({"t": {"mode": "full", "key": ["day", "id"]}})
    synced(workspace)
    sql("UPDATE t SET a = 'new' WHERE id = 3")
    again = synced(workspace)
    assert (again.state, again.rows) == ("success", 99)
    assert [row["a"] for row in cloud.client().list_rows(address(dataset))].count("new") == 2
    assert checked(workspace).verdict == "equal"
