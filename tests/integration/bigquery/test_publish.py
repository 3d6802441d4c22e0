"""What the lake shows of a table is in BigQuery: all rows, then what changed, deletes as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.bigquery.ledger import Publications
from mirrorlake.errors import LakeError, SchemaError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.preflight.tables import preflight
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import (
    FIFTY,
    INCREMENTAL,
    TABLE,
    address,
    checked,
    left_over,
    published,
    rows_there,
    synced,
)
from tests.integration.conftest import Place
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live


def test_all_rows_then_changes_then_deletes(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    place: Place,
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    first = synced(workspace)
    assert (first.state, first.how, first.loaded, first.rows) == ("success", "all rows", 50, 50)
    assert published(workspace).state == "unchanged"
    sql("UPDATE t SET a = 'new' WHERE id IN (3, 4)", "INSERT INTO t (id, a) VALUES (51, 'came')")
    second = synced(workspace)
    assert (second.state, second.how, second.loaded, second.rows) == ("success", "changes", 3, 51)
    expected = dict.fromkeys(range(1, 51), "old") | {3: "new", 4: "new", 51: "came"}
    assert rows_there(cloud, dataset) == expected
    place.spark.get().sql(f"DELETE FROM lake.{dataset}.t WHERE id IN (4, 7)")
    third = published(workspace)
    assert (third.how, third.loaded, third.rows) == ("changes", 2, 49)
    assert rows_there(cloud, dataset) == {n: a for n, a in expected.items() if n not in (4, 7)}
    assert left_over(cloud, dataset) == []
    assert checked(workspace).verdict == "equal"
    assert [one.state for one in Publications(workspace.ledger).of_table(first.table)] == [
        "success"
    ] * 3


def test_names_that_bigquery_keeps_are_refused_before_a_row_is_read(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE.replace("a VARCHAR", "_TABLE_a VARCHAR"), FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    with pytest.raises(
        SchemaError, match=r"BigQuery has no column called '_TABLE_a'.*name_in_lake"
    ):
        sync_table(workspace, workspace.config.table("t"))
    assert workspace.ledger.last_load(workspace.config.table("t").name, "success") is None
    broken = [one for one in diagnose_contract(workspace.config.path) if one.state == "broken"]
    assert "no column called '_TABLE_a'. Give _TABLE_a a `name_in_lake` and a `pii` rule" in str(
        broken
    )
    workspace = mirror(
        {"t": {**INCREMENTAL, "columns": {"_TABLE_a": {"name_in_lake": "a", "pii": "show"}}}}
    )
    assert synced(workspace).state == "success"
    sql("UPDATE t SET _TABLE_a = 'new' WHERE id = 3")
    assert synced(workspace).how == "changes"
    assert rows_there(cloud, dataset) == dict.fromkeys(range(1, 51), "old") | {3: "new"}
    assert checked(workspace).verdict == "equal"
    [ahead] = preflight(workspace, "ALTER TABLE t ADD COLUMN größe INT")
    assert "BigQuery has no column called 'größe': publishing stops" in str(ahead.findings)
    [new] = preflight(workspace, "CREATE TABLE u (id INT PRIMARY KEY, _CHANGE_TYPE INT)")
    assert "BigQuery has no column called '_CHANGE_TYPE', and it is published" in str(new.findings)


@pytest.mark.full
def test_a_version_that_was_set_back_is_not_published(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    place: Place,
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    first = synced(workspace)
    sql("INSERT INTO t (id, a) SELECT seq, 'late' FROM seq_51_to_60")
    full = synced(workspace)
    rollback = f"CALL lake.system.rollback_to_snapshot('{dataset}.t', {first.version})"
    place.spark.get().sql(rollback)
    with pytest.raises(LakeError, match=r"shows version .*`mirrorlake sync .*puts it right"):
        published(workspace)
    assert len(rows_there(cloud, dataset)) == 60
    again = synced(workspace)
    assert (again.state, again.version) == ("unchanged", full.version)
    assert len(rows_there(cloud, dataset)) == 60
    assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_a_table_that_somebody_took_away_is_loaded_again(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    synced(workspace)
    cloud.client().delete_table(address(dataset))
    found = checked(workspace)
    assert (found.verdict, "not in BigQuery any more" in found.words) == ("different", True)
    again = published(workspace)
    assert (again.how, again.why) == ("all rows", "the table is not in BigQuery any more")
    assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_a_new_column_is_loaded_with_all_rows(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    synced(workspace)
    sql("ALTER TABLE t ADD COLUMN b INT NOT NULL DEFAULT 7")
    again = synced(workspace)
    assert again.how == "all rows"
    assert {row["b"] for row in cloud.client().list_rows(address(dataset))} == {7}
    assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_a_row_changed_by_hand_is_a_difference(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    assert checked(workspace).verdict == "undecided"
    first = synced(workspace)
    assert checked(workspace).verdict == "equal"
    cloud.client().query_and_wait(f"UPDATE `{address(dataset)}` SET a = 'other' WHERE id = 9")
    found = checked(workspace)
    assert (found.verdict, found.rows, found.lake_rows) == ("different", 50, 50)
    assert found.words == "50 rows on both sides, and not the same ones"
    cloud.client().query_and_wait(f"DELETE FROM `{address(dataset)}` WHERE id = 9")
    assert checked(workspace).words == "BigQuery has 49 rows, the lake 50"
    [kept] = [one for one in workspace.ledger.layer_proofs(first.table) if one.layer == "bigquery"]
    assert (kept.verdict, kept.rows, kept.expected_rows) == ("different", 49, 50)


@pytest.mark.full
def test_a_compaction_loads_nothing(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    place: Place,
) -> None:
    sql(TABLE, FIFTY)
    workspace = mirror({"t": INCREMENTAL})
    first = synced(workspace)
    place.spark.get().sql(
        f"CALL lake.system.rewrite_data_files(table => '{dataset}.t', "
        "options => map('rewrite-all', 'true'))"
    )
    again = published(workspace)
    assert (again.state, again.loaded, again.rows) == ("success", 0, 50)
    assert again.version != first.version
    assert published(workspace).state == "unchanged"
    assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_a_table_that_becomes_empty_and_one_that_was(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE, FIFTY, "CREATE TABLE e (id INT PRIMARY KEY, a INT)")
    copied = {"mode": "full", "key": ["id"]}
    workspace = mirror({"t": copied, "e": copied})
    synced(workspace)
    sql("DELETE FROM t")
    sync_table(workspace, workspace.config.table("t"), accept_smaller=True)
    gone = published(workspace)
    assert (gone.state, gone.rows) == ("success", 0)
    assert rows_there(cloud, dataset) == {}
    assert checked(workspace).verdict == "equal"
    empty = synced(workspace, "e")
    assert (empty.state, empty.rows) in [("success", 0), ("not loaded", None)]
