"""Raw in BigQuery: a table for each schema version, and over them a view of the current rows, which
has MySQL's rows whatever happened to the table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from demo.embedded import EmbeddedServer
from mirrorlake.destinations.bigquery import over_raw
from mirrorlake.errors import BigQueryError, ConfigError, LakeError, TypeRefused
from mirrorlake.operations.bigquery.check import estimate_check
from mirrorlake.operations.bigquery.costs import costs_of
from mirrorlake.operations.bigquery.due import find_unpublished
from mirrorlake.operations.fold import fold_table
from mirrorlake.operations.repair import repair_table
from mirrorlake.operations.status import status_of
from mirrorlake.operations.sync import load_table, reload_days
from mirrorlake.proof.report import Ask
from mirrorlake.workspace import Workspace
from tests.integration.operations.bigquery.published import (
    INCREMENTAL,
    checked,
    client_of,
    left_over,
    published,
    rows_there,
    synced,
)
from tests.integration.operations.bigquery.raw_published import (
    RAW,
    TABLE,
    TWENTY,
    assert_mysqls,
    comparable,
    looked,
    raw_contract,
    sparks_rows,
    view_rows,
)
from tests.support.bigquery.cloud import Cloud

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]


def in_raw(cloud: Cloud, raw: str) -> dict[str, str]:
    """What raw's dataset has: name → table or view."""
    return {str(one.table_id): str(one.table_type) for one in cloud.client().list_tables(raw)}


def raw_rows(workspace: Workspace) -> int:
    """How many rows raw has in the lake, of all versions."""
    found = (workspace.lake.count_rows(one.identifier) for one in looked(workspace).versions)
    return sum(count or 0 for count in found)


def test_new_loads_are_added_once_and_the_view_has_mysqls_rows(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": RAW})
    first = synced(workspace)
    assert (first.state, first.how, first.loaded, first.rows) == ("success", "all rows", 20, 20)
    assert first.views == {"all versions": "made", "current rows": "made", "clean": "made"}
    [(name, kind)] = [one for one in in_raw(cloud, raw).items() if one[0] != "t"]
    assert (kind, in_raw(cloud, raw)["t"]) == ("TABLE", "VIEW")
    assert cloud.client().get_table(f"{dataset}.t").table_type == "VIEW"
    assert_mysqls(workspace, server.admin, database, cloud, dataset)
    sql(
        "UPDATE t SET a = 'new' WHERE id <= 3",
        "INSERT INTO t VALUES (30, 'x', 1, '0000-00-00', NULL, NULL, NOW(6))",
    )
    again = synced(workspace)
    assert (again.how, again.loaded, again.rows) == ("changes", 4, 24)
    assert again.why == f"1 of 1 raw tables: {name}: 4 of 24 rows came"
    assert len(view_rows(cloud, raw)) == raw_rows(workspace) == 24
    assert_mysqls(workspace, server.admin, database, cloud, dataset)
    assert left_over(cloud, raw) == [name]
    assert published(workspace).state == "unchanged"
    found = checked(workspace)
    assert (found.verdict, found.rows, found.under) == ("equal", 21, 1), found.words
    [status] = status_of(workspace.config, workspace.ledger, [raw_contract(workspace)])
    assert status.bigquery is not None
    assert (status.bigquery.state, status.bigquery.rows) == ("success", 24)
    start = datetime(2026, 1, 1)
    [costs] = costs_of(workspace.ledger, [raw_contract(workspace).name], start)
    assert costs.publish.jobs == {"copy": 1, "load": 2, "query": 1}
    assert costs.check.jobs == {"query": 2}
    estimate_check(workspace, raw_contract(workspace), client_of(workspace))


@pytest.mark.full
def test_versions_of_all_kinds_are_one_view(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    cloud: Cloud,
    dataset: str,
    raw: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(
        TABLE,
        TWENTY,
        "INSERT INTO t VALUES (21, 'zero', 1, '0000-00-00', 7, 'o', '2026-01-02 03:04:05')",
    )
    workspace = mirror({"t": RAW})
    synced(workspace)
    sql(
        # What MySQL has no more stays in the lake, in the columns of its version.
        "DELETE FROM t WHERE id = 1",
        "ALTER TABLE t ADD COLUMN c DECIMAL(10,2) NOT NULL DEFAULT 1.50, MODIFY n BIGINT,"
        " RENAME COLUMN old TO new, RENAME COLUMN d TO day, DROP COLUMN gone",
        "UPDATE t SET a = 'v2' WHERE id BETWEEN 5 AND 8",
    )
    names = {
        "new": {"renamed_from": "old", "pii": "show"},
        "day": {"renamed_from": "d", "pii": "show"},
        "c": {"pii": "show"},
    }
    workspace = mirror({"t": {**RAW, "columns": names}})
    assert synced(workspace).state == "success"
    sql("ALTER TABLE t MODIFY c DECIMAL(12,3), ADD COLUMN gone VARCHAR(9), MODIFY n DECIMAL(30,0)")
    sql("UPDATE t SET gone = 'back' WHERE id < 4")
    workspace = mirror({"t": {**RAW, "columns": names}})
    # No text may have all three versions' rows: the view is over views.
    with monkeypatch.context() as patch:
        patch.setattr(over_raw, "MOST_CHARACTERS", 2_500)
        assert synced(workspace).state == "success"
    assert len(looked(workspace).versions) == 3
    parts = [name for name, kind in in_raw(cloud, raw).items() if "__part_" in name]
    assert len(parts) > 1
    there = view_rows(cloud, dataset)
    assert comparable(there) == comparable(sparks_rows(workspace))
    assert len(view_rows(cloud, raw)) == raw_rows(workspace)
    assert checked(workspace).verdict == "equal"
    gone = next(row for row in there if row["id"] == 1)
    assert (gone["new"], gone["c"], gone["gone"]) == ("o1", None, "1")
    repair_table(workspace, raw_contract(workspace), Ask("full"))
    assert published(workspace).how == "changes"
    assert_mysqls(workspace, server.admin, database, cloud, dataset)
    zero = next(row for row in view_rows(cloud, dataset) if row["id"] == 21)
    assert zero["_mirror_original"] == [{"column": "day", "text": "0000-00-00"}]
    assert not [name for name in in_raw(cloud, raw) if "__part_" in name]
    assert comparable(view_rows(cloud, dataset)) == comparable(sparks_rows(workspace))


@pytest.mark.full
@pytest.mark.parametrize("deletes", ["remove", "flag", "ignore"])
def test_reloads_and_sweeps_leave_what_the_fold_leaves(
    deletes: str,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(
        """CREATE TABLE t (id VARCHAR(20) PRIMARY KEY, v TEXT,
        at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))""",
        "INSERT INTO t (id, v) SELECT CONCAT('k', seq), 'old' FROM seq_1_to_9",
    )
    workspace = mirror({"t": {**RAW, "deletes": deletes}})
    contract = raw_contract(workspace)
    synced(workspace)
    sql("UPDATE t SET id = UPPER(id), v = 'new' WHERE id IN ('k1', 'k2')")
    assert synced(workspace).how == "changes"
    sql("DELETE FROM t WHERE id IN ('k3', 'K2')")
    today = datetime.now(UTC).date()
    reload_days(workspace, contract, today, today)
    reloaded = synced(workspace)
    # Where deleted rows are kept, a reload only adds.
    assert ("partitions that changed" in reloaded.why) is (deletes == "remove"), reloaded.why
    sql("DELETE FROM t WHERE id = 'k4'", "INSERT INTO t (id, v) VALUES ('k3', 'again')")
    synced(workspace)
    if deletes != "ignore":
        repair_table(workspace, contract, Ask("full"))
        published(workspace)
    found = checked(workspace)
    assert found.verdict == "equal", found.words
    there = view_rows(cloud, dataset)
    assert comparable(there) == comparable(sparks_rows(workspace))
    alive = {row["id"]: row["v"] for row in there if not row.get("_mirror_deleted_at")}
    if deletes != "ignore":
        assert alive == dict(sql("SELECT id, v FROM t"))
    assert ("k4" in {row["id"] for row in there}) is (deletes != "remove")


@pytest.mark.full
def test_raw_is_loaded_after_deduped_and_deduped_after_raw(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": INCREMENTAL})
    synced(workspace)
    before = rows_there(cloud, dataset)
    workspace = mirror({"t": RAW})
    head, now = workspace.lake.head, datetime.now(UTC)
    [due] = find_unpublished(
        workspace.config, head, workspace.ledger, workspace.config.in_bigquery, {}, now
    )
    assert due.why == "the contract has another load"
    assert published(workspace).state == "success"
    assert cloud.client().get_table(f"{dataset}.t").table_type == "VIEW"
    assert {row["id"]: row["a"] for row in view_rows(cloud, dataset)} == before
    assert checked(workspace).verdict == "equal"
    assert not [
        *find_unpublished(
            workspace.config, head, workspace.ledger, workspace.config.in_bigquery, {}, now
        )
    ]
    workspace = mirror({"t": INCREMENTAL})
    back = published(workspace)
    assert (back.how, back.views["clean"]) == ("all rows", "unchanged")
    assert back.why == "it was a view over raw, whose tables stay: it is dropped, and a table made"
    assert cloud.client().get_table(f"{dataset}.t").table_type == "TABLE"
    assert rows_there(cloud, dataset) == before
    assert checked(workspace).verdict == "equal"


def test_what_is_hidden_is_in_no_table_of_raw(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY, "INSERT INTO t VALUES (21, 'a21', 1, '0000-00-00', 2, 'o', NOW(6))")
    rules = {"old": {"pii": "hash"}, "gone": {"pci": "never"}}
    workspace = mirror({"t": {**RAW, "clean": "table", "columns": rules}})
    synced(workspace)
    assert "_mirror_hash_old" in view_rows(cloud, dataset)[0]
    # A stricter rule: `d`, with its originals, and `a` go; nothing moved in MySQL.
    rules |= {"a": {"pii": "drop"}, "d": {"pii": "drop"}}
    workspace = mirror({"t": {**RAW, "clean": "table", "columns": rules}})
    assert synced(workspace).state == "success"
    for name in in_raw(cloud, raw):
        rows = view_rows(cloud, raw, name)
        assert not {"a", "d", "gone"} & rows[0].keys()
        assert "a21" not in repr(rows)
        assert "0000-00-00" not in repr(rows)
    assert {row["_mirror_hash_old"] for row in view_rows(cloud, dataset)} == {
        row["old"] for row in view_rows(cloud, f"{dataset}__views_clean")
    }
    assert not {"a", "d"} & view_rows(cloud, f"{dataset}__views_clean")[0].keys()
    found = checked(workspace)
    assert found.verdict == "equal", found.words


@pytest.mark.full
def test_what_others_changed_is_found_and_made_again(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": RAW})
    synced(workspace)
    client, [version] = cloud.client(), looked(workspace).versions
    name = f"{raw}.{version.identifier.name}"
    client.query_and_wait(f"UPDATE `{name}` SET a = 'other' WHERE id = 7")
    found = checked(workspace)
    assert found.verdict == "different"
    assert found.words.startswith("the view of current rows: 20 rows on both sides, and not the")
    assert f"raw {raw_contract(workspace).name}" in found.words
    # An older row of raw that nobody sees in the view of current rows.
    client.delete_table(name)
    again = published(workspace)
    assert "the table is not in BigQuery any more" in again.why
    assert checked(workspace).verdict == "equal"
    old = client.get_table(f"{dataset}.t").view_query
    fewer = f"SELECT * FROM ({old}) WHERE id > 3"
    client.query_and_wait(f"CREATE OR REPLACE VIEW `{dataset}.t` AS {fewer}")
    assert checked(workspace).verdict == "different"
    assert published(workspace).views["current rows"] == "made"
    assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_a_table_that_is_not_ours_is_not_dropped(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": RAW})
    cloud.client().query_and_wait(f"CREATE TABLE `{dataset}.t` AS SELECT 5 AS mine")
    with pytest.raises(BigQueryError, match="that Mirrorlake did not load") as caught:
        synced(workspace)
    assert caught.value.next_step is not None
    assert "bq rm" in caught.value.next_step
    assert view_rows(cloud, dataset) == [{"mine": 5}]
    assert in_raw(cloud, raw) == {}
    cloud.client().delete_table(f"{dataset}.t")
    assert published(workspace).state == "success"
    assert checked(workspace).verdict == "equal"


def test_what_is_not_exact_there_is_refused_before_anything_is_loaded(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY, p DECIMAL(5,2), q BIGINT, r DOUBLE, at DATETIME(6)"
        " NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))", "INSERT INTO t (id) VALUES (1)")  # fmt: skip
    workspace = mirror({"t": RAW})
    synced(workspace)
    loaded = in_raw(cloud, raw)
    with monkeypatch.context() as patch:
        patch.setattr("mirrorlake.operations.bigquery.raw_look.MOST_CHARACTERS", 100)
        with pytest.raises(ConfigError, match="characters, and it takes 100"):
            published(workspace)
    sql("ALTER TABLE t MODIFY q INT")
    with pytest.raises(TypeRefused, match="column 'q' is int, and raw has values of it that only"):
        synced(workspace)
    sql("ALTER TABLE t MODIFY p VARCHAR(20)")
    with pytest.raises(TypeRefused, match=r"column 'p' is decimal.5,2. in t_v_.*, and a text in"):
        synced(workspace)
    assert in_raw(cloud, raw) == loaded
    # As it was, and by the other way it goes on.
    workspace = mirror({"t": {**INCREMENTAL}})
    assert published(workspace).state == "success"
    assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_rows_that_are_not_folded_wait(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    raw: str,
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": RAW})
    contract = raw_contract(workspace)
    synced(workspace)
    sql("UPDATE t SET a = 'new' WHERE id = 4")
    load_table(workspace, contract)
    with pytest.raises(LakeError, match="raw has rows of a load that is not folded") as caught:
        published(workspace)
    assert caught.value.next_step == f"mirrorlake sync {contract.name}"
    fold_table(workspace, contract)
    assert published(workspace).how == "changes"
    assert checked(workspace).verdict == "equal"


def test_a_dataset_that_lacks_is_an_error_with_its_command(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(TABLE, TWENTY)
    workspace = mirror({"t": RAW})
    with pytest.raises(BigQueryError, match=f"there is no dataset .*{dataset}__raw") as caught:
        synced(workspace)
    assert caught.value.next_step is not None
    assert "bq mk --dataset" in caught.value.next_step
    cloud.make_dataset(f"{dataset}__raw")
    assert published(workspace).state == "success"
