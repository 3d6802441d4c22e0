"""Views for readers: clean there is clean here, row by row, and what is hidden is in none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.bigquery.loads import views as views_there
from mirrorlake.errors import BigQueryError, ConfigError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.serving.clean_version import open_clean
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.every_type import COLUMNS, ROWS
from tests.integration.bigquery.published import address, checked, published, synced
from tests.integration.conftest import Place
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live

PERSON = """CREATE TABLE t (id INT PRIMARY KEY, email VARCHAR(60), phone VARCHAR(30), born DATE,
    salary DECIMAL(38,18), seen DATETIME(6), card VARCHAR(20), note TEXT, day DATE,
    raw VARBINARY(9), rate DOUBLE, visits BIGINT UNSIGNED)"""
PEOPLE = (
    """INSERT INTO t VALUES (1, 'ada.lovelace@example.com', '+44 20 7946 0958', '1815-12-10',
    '123456.789012345678901234', '2026-01-02 03:04:05.000006', '4111111111111111', 'likes 😀😀',
    '0000-00-00', x'00ff', 0.1, 18446744073709551615)""",
    """INSERT INTO t VALUES (2, NULL, 'short', '0000-00-00', NULL, '0000-00-00 00:00:00', NULL,
    '', '2024-02-29', NULL, NULL, NULL)""",
    """INSERT INTO t VALUES (3, 'größe@beispiel.example', 'ü😀ü😀ü😀', NULL, 0, NULL, '', NULL, NULL,
    '', -0.0, 0)""",
)
RULES = {
    "email": {"pii": "mask"},
    "phone": {"pii": "mask"},
    "born": {"pii": "drop"},
    "salary": {"pii": "null"},
    "seen": {"pii": "null"},
    "card": {"pci": "never"},
    "raw": {"pii": "null"},
    "rate": {"pii": "null"},
    "visits": {"pii": "null"},
}
SECRETS = (
    *(
        "ada.lovelace@example.com",
        "+44 20 7946 0958",
        "1815-12-10",
        "123456.789",
        "4111111111111111",
    ),
    *("2026-01-02", "größe@beispiel.example", "ü😀ü😀ü😀", "18446744073709551615", "00:00:00"),
)
FULL = {"mode": "full", "key": ["id"]}


def shown(cloud: Cloud, dataset: str, view: str = "clean") -> list[dict[str, Any]]:
    """The rows of a view, as a reader queries them."""
    sql = f"SELECT * FROM `{address(f'{dataset}__views_{view}')}` ORDER BY id"
    return [dict(row.items()) for row in cloud.client().query_and_wait(sql)]


def clean_here(workspace: Workspace) -> list[dict[str, Any]]:
    """The rows of the lake's clean, as BigQuery has them: no NULL where a column repeats, and the
    column of originals also where no row of clean can have one."""
    rows = open_clean(workspace, workspace.config.table("t")).table().to_pylist()
    for row in rows:
        row["_mirror_original"] = row.get("_mirror_original") or []
    return sorted(rows, key=lambda row: row["id"])


def test_clean_there_is_clean_here_and_hides_what_is_hidden(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(PERSON, *PEOPLE)
    workspace = mirror({"t": {**FULL, "columns": RULES}}, views=["clean", "full"])
    assert synced(workspace).views == {"clean": "made", "full": "made"}
    found = shown(cloud, dataset)
    assert found == clean_here(workspace)
    assert [row["email"] for row in found] == ["********om", None, "********le"]
    assert [row["phone"] for row in found] == ["********58", "********", "********ü😀"]
    assert found[0]["_mirror_original"] == [{"column": "day", "text": "0000-00-00"}]
    assert not any(secret in repr(found) for secret in SECRETS)
    full = shown(cloud, dataset, "full")
    assert [row["email"] for row in full] == [
        "ada.lovelace@example.com",
        None,
        "größe@beispiel.example",
    ]
    assert not {"born", "card"} & {*full[0]}
    assert published(workspace).views == {"clean": "unchanged", "full": "unchanged"}


TEXTS = ("huge", "name", "doc", "kind", "span")
OTHERS = ("single", "twice", "raw", "flags", "at", "stamp", "shape")
NUMBERS = ("tiny", "whole", "price", "fine", "day", "born")
ALLOWED = {
    "null": (*TEXTS, *OTHERS, *NUMBERS),
    "drop": (*TEXTS, *OTHERS, *NUMBERS),
    "mask": TEXTS,
    "hash": (*TEXTS, *NUMBERS),
}


@pytest.mark.full
@pytest.mark.parametrize("rule", ALLOWED)
def test_each_rule_on_each_type_shows_the_same_on_both_sides(
    rule: str,
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
) -> None:
    sql(f"CREATE TABLE t ({COLUMNS})", *(f"INSERT INTO t VALUES {row}" for row in ROWS))
    columns = {name: {"pii": rule} for name in ALLOWED[rule]}
    clean = "table" if rule == "hash" else "view"
    workspace = mirror({"t": {**FULL, "columns": columns, "clean": clean}})
    assert synced(workspace).views == {"clean": "made"}
    found = shown(cloud, dataset)
    assert len(found) == 3
    assert found == clean_here(workspace)
    for row in found:
        assert not {one["column"] for one in row["_mirror_original"]} & {*columns}


@pytest.mark.full
def test_a_stricter_rule_holds_at_the_next_publication(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    """Though no row changed, and whatever kind of rule it is."""
    sql(PERSON, *PEOPLE)
    rules = {name: rule for name, rule in RULES.items() if "pci" in rule}
    synced(mirror({"t": {**FULL, "columns": rules}}))
    assert shown(cloud, dataset)[0]["email"] == "ada.lovelace@example.com"
    masked = mirror({"t": {**FULL, "columns": RULES}})
    again = published(masked)
    assert (again.why, again.views) == (
        "its columns, its key or its rules are others",
        {"clean": "made"},
    )
    assert not any(secret in repr(shown(cloud, dataset)) for secret in SECRETS)
    hashed = {**RULES, "email": {"pii": "hash"}}
    workspace = mirror({"t": {**FULL, "columns": hashed, "clean": "table"}})
    again = published(workspace)
    assert again.views == {"clean": "made"}
    assert not any(secret in repr(shown(cloud, dataset)) for secret in SECRETS)
    assert checked(workspace).verdict == "equal"


@pytest.mark.full
def test_hashes_are_those_of_the_lake(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of values, of original texts that had no place, and after a change by the key of before."""
    sql(PERSON, *PEOPLE)
    hashed = {name: {"pii": "hash"} for name in ("email", "born", "day", "visits", "note")}
    contract = {**FULL, "clean": "table", "columns": {**RULES, **hashed}}
    workspace = mirror({"t": contract}, views=["clean", "full"])
    assert synced(workspace).views == {"clean": "made", "full": "made"}
    found = shown(cloud, dataset)
    assert found == clean_here(workspace)
    assert {len(row["day"] or "") for row in found} == {0, 64}
    assert found[0]["_mirror_original"] == []
    assert not any(secret in repr(found) for secret in SECRETS)
    assert {*shown(cloud, dataset, "full")[0]} == {*workspace_columns(workspace)}
    sql("UPDATE t SET email = 'new@example.com' WHERE id = 3", "DELETE FROM t WHERE id = 2")
    assert synced(workspace).rows == 2
    assert shown(cloud, dataset) == clean_here(workspace)
    assert checked(workspace).verdict == "equal"
    monkeypatch.setenv("TEST_HASH_KEY", "another key, of the next year")
    rekeyed = mirror({"t": contract})
    assert checked(rekeyed).verdict == "undecided"
    again = published(rekeyed)
    assert (again.how, again.why) == ("all rows", "its columns, its key or its rules are others")
    assert shown(cloud, dataset)[0]["email"] != found[0]["email"]
    assert checked(rekeyed).verdict == "equal"


def workspace_columns(workspace: Workspace) -> list[str]:
    """The columns of deduped."""
    table = workspace.lake.load(deduped_of(workspace.config.table("t")))
    assert table is not None
    return [field.name for field in table.schema().fields]


@pytest.mark.full
def test_a_hash_without_a_key_or_a_text_is_refused(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(PERSON, *PEOPLE)
    synced(mirror({"t": FULL}))
    wrong = {"rate": {"pii": "hash"}}
    with pytest.raises(ConfigError, match="`pii: hash` on rate, which is double: only int"):
        published(mirror({"t": {**FULL, "clean": "table", "columns": wrong}}))


@pytest.mark.full
def test_columns_that_come_and_go(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    """A new column waits for the contract; a view names none that is gone."""
    sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 2, 3)")
    workspace = mirror({"t": FULL})
    synced(workspace)
    sql("ALTER TABLE t ADD COLUMN c VARCHAR(9) DEFAULT 'new', DROP COLUMN b")
    assert synced(workspace).views == {"clean": "made"}
    assert shown(cloud, dataset) == [{"id": 1, "a": 2}]
    workspace = mirror({"t": {**FULL, "columns": {"c": {"pii": "show"}}}})
    assert synced(workspace).views == {"clean": "made"}
    assert shown(cloud, dataset) == [{"id": 1, "a": 2, "c": "new"}]


@pytest.mark.full
def test_a_view_that_somebody_changed_is_made_again(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: Cloud,
    dataset: str,
    monkeypatch: pytest.MonkeyPatch,
    place: Place,
) -> None:
    sql(PERSON, *PEOPLE)
    workspace = mirror({"t": {**FULL, "columns": RULES}})
    synced(workspace)
    view = address(f"{dataset}__views_clean")
    cloud.client().query_and_wait(
        f"CREATE OR REPLACE VIEW `{view}` AS SELECT * FROM `{address(dataset)}`"
    )
    assert shown(cloud, dataset)[0]["email"] == "ada.lovelace@example.com"
    assert published(workspace).views == {"clean": "made"}
    assert shown(cloud, dataset)[0]["email"] == "********om"
    # One that can't be made takes the one that shows too much with it.
    cloud.client().query_and_wait(
        f"CREATE OR REPLACE VIEW `{view}` AS SELECT * FROM `{address(dataset)}`"
    )
    monkeypatch.setattr(views_there, "as_bigquery", lambda *_: "SELECT nothing")
    whole = f"{cloud.section()['project']}.{view}"
    with pytest.raises(BigQueryError, match=f"view {whole}: Google Cloud could not do it"):
        published(workspace)
    assert [one.table_id for one in cloud.client().list_tables(f"{dataset}__views_clean")] == []


@pytest.mark.full
def test_the_dataset_of_views_is_missing(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    sql(PERSON, *PEOPLE)
    workspace = mirror({"t": FULL})
    sync_table(workspace, workspace.config.table("t"))
    cloud.client().delete_dataset(f"{dataset}__views_clean")
    words = f"there is no dataset local.{dataset}__views_clean in BigQuery. Make it: bq mk"
    with pytest.raises(BigQueryError, match=words):
        published(workspace)
    assert [*cloud.client().list_tables(dataset)] == []
    assert published(mirror({"t": FULL}, views=[])).views == {}
    cloud.client().create_dataset(f"{dataset}__views_clean")
    view = address(f"{dataset}__views_clean")
    cloud.client().query_and_wait(f"CREATE TABLE `{view}` (a INT64)")
    with pytest.raises(BigQueryError, match=f"{view} is a table, where a view of"):
        published(workspace)
    assert cloud.client().get_table(view).table_type == "TABLE"
