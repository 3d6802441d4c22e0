"""SQL models over the mirror are computed by partition, exactly once, and again where they must."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import history, snapshot_property
from mirrorlake.failpoints import OF_MODELS
from mirrorlake.ledger import Ledger
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.ledger import ModelRecords
from mirrorlake.models.partition_states.lake_tables import RECORDED
from mirrorlake.models.partition_states.states import States
from mirrorlake.models.partition_states.table_history import PARTITIONS, settle_records
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands
from tests.support.command import COMMAND
from tests.support.readers import reading

Sql = Callable[..., Any]
DAILY = """---
description: What each store sold
for:
  sold_day: TIMESERIES('2024-02-28', '2024-03-02', 'P1D')
  shop: [Paris, Detroit]
---
-- by product
SELECT product, SUM(amount) AS amount, COUNT(*) AS sales
FROM {deduped}.sales WHERE DATE(sold_at) = sold_day AND store = shop
GROUP BY product
"""
WEEKLY = """---
for: {{until_day: "TIMESERIES('2024-02-29', '2024-03-02', 'P1D')"}}
---
SELECT product, SUM(amount) AS amount FROM {models}.daily
WHERE sold_day BETWEEN DATE_SUB(until_day, 1) AND until_day GROUP BY product
"""


@pytest.fixture
def config(server: MariaDB, place: Place, database: str, sql: Sql) -> Path:
    sql(
        "CREATE TABLE sales (id INT PRIMARY KEY, sold_at DATETIME, store VARCHAR(20),"
        " product VARCHAR(20), amount DECIMAL(10,2))",
        "INSERT INTO sales VALUES (1, '2024-02-28 00:00:00', 'Paris', 'tea', 1.10),"
        " (2, '2024-02-28 23:59:59', 'Paris', 'tea', 2.20), (3, '2024-02-29 12:00', 'Paris', 'cup', 3),"
        " (4, '2024-02-29 12:00', 'Detroit', 'tea', 4), (5, '2024-03-01 00:00', 'Detroit', 'tea', 5),"
        " (6, '2024-03-02 00:00', 'Paris', 'tea', 6), (7, NULL, 'Paris', 'tea', 7)",
    )
    folder = place.folder / database
    (folder / "models" / f"m_{database}").mkdir(parents=True)
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {"sales": {"mode": "full", "key": ["id"]}}}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    write_models(path, daily=DAILY, weekly=WEEKLY)
    assert run(path, "sync", "--json")[0] == 0
    return path


def write_models(config: Path, **models: str) -> None:
    database = config.parent.name
    for name, text in models.items():
        path = config.parent / "models" / f"m_{database}" / f"{name}.sql"
        path.write_text(text.format(deduped=f"s_{database}", models=f"m_{database}"))


def run(config: Path, *arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(cli, [*arguments, "--config", str(config)])
    if (
        result.exit_code
        and result.exception is not None
        and not isinstance(result.exception, SystemExit)
    ):
        return getattr(result.exception, "exit_code", 1), str(result.exception)
    return result.exit_code, json.loads(result.stdout) if "--json" in arguments else result.output


def computed(config: Path, name: str, *arguments: str) -> dict[str, list[str]]:
    """Model → the partitions that a run computed."""
    code, runs = run(config, "run", f"m_{config.parent.name}.{name}", *arguments, "--json")
    assert code == 0, runs
    return {one["model"].split(".")[1]: [p["key"] for p in one["computed"]] for one in runs}


def rows_of(place: Place, config: Path, name: str) -> list[tuple[Any, ...]]:
    table = place.lake.load(Identifier(f"m_{config.parent.name}", name))
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


def of_mysql(sql: Sql) -> list[tuple[Any, ...]]:
    """What the daily model is, by MySQL's own word."""
    return sorted(
        (product, amount, sales, day, store)
        for product, amount, sales, day, store in sql(
            "SELECT product, SUM(amount), COUNT(*), DATE(sold_at), store FROM sales"
            " WHERE sold_at >= '2024-02-28' AND sold_at < '2024-03-02'"
            " AND store IN ('Paris', 'Detroit') GROUP BY 1, 4, 5"
        )
    )


ALL_DAYS = [
    f"sold_day=2024-{day}/shop={store}"
    for day in ("02-28", "02-29", "03-01")
    for store in ("Paris", "Detroit")
]


def test_partitions_are_computed_once_and_again_where_their_inputs_moved(
    config: Path, place: Place, sql: Sql
) -> None:
    # What is above comes first, or is said to be missing.
    code, said = run(config, "run", f"m_{config.parent.name}.weekly", "until_day=2024-03-01")
    assert code == 2
    assert "not computed yet" in said
    assert computed(config, "weekly", "until_day=2024-03-01", "--upstream") == {
        "daily": ALL_DAYS,
        "weekly": ["until_day=2024-03-01"],
    }
    assert rows_of(place, config, "daily") == of_mysql(sql)
    assert rows_of(place, config, "weekly") == [
        ("cup", Decimal("3.00"), date(2024, 3, 1)),
        ("tea", Decimal("9.00"), date(2024, 3, 1)),
    ]
    # A partition without rows is computed all the same.
    assert computed(config, "daily") == {"daily": []}
    assert computed(config, "weekly", "--upstream") == {
        "daily": [],
        "weekly": ["until_day=2024-02-29"],
    }

    sql("UPDATE sales SET amount = 40 WHERE id = 4", "DELETE FROM sales WHERE id = 1")
    assert run(config, "sync", "--json")[0] == 0
    code, state = run(config, "run", f"m_{config.parent.name}.weekly", "--dry-run", "--json")
    assert [one["word"] for one in state["partitions"]] == ["stale", "stale"]
    # Rows of two days changed: those of the third need nothing.
    assert computed(config, "weekly", "--upstream")["daily"] == ALL_DAYS[:4]
    assert rows_of(place, config, "daily") == of_mysql(sql)
    assert computed(config, "weekly", "--upstream") == {"daily": [], "weekly": []}


def test_a_changed_model_makes_its_partitions_stale_and_a_comment_does_not(
    config: Path, place: Place
) -> None:
    day = ("sold_day=2024-02-29", "shop=Paris")
    assert computed(config, "daily", *day) == {"daily": ["sold_day=2024-02-29/shop=Paris"]}
    write_models(config, daily=DAILY.replace("-- by product", "/* said\n otherwise */"))
    assert computed(config, "daily", *day) == {"daily": []}
    write_models(
        config, daily=DAILY.replace("COUNT(*) AS sales", "COUNT(*) AS sales, MIN(id) AS id")
    )
    assert computed(config, "daily", *day) == {"daily": ["sold_day=2024-02-29/shop=Paris"]}
    assert [sorted(map(str, row)) for row in rows_of(place, config, "daily")] == [
        sorted(["cup", "3.00", "1", "2024-02-29", "Paris", "3"])
    ]
    # Another type has rows of both; the table is made again when somebody says so.
    write_models(config, daily=DAILY.replace("COUNT(*) AS sales", "'x' AS sales"))
    code, said = run(config, "run", f"m_{config.parent.name}.daily", *day)
    assert (code, "sales was bigint, and is string" in said) == (5, True)
    name = f"m_{config.parent.name}"
    with reading(place.folder / "lake", name, "daily") as seen:
        assert computed(config, "daily", *day, "--rebuild") == {
            "daily": ["sold_day=2024-02-29/shop=Paris"]
        }
    assert (seen.wrong, seen.counts) == ([], {1})
    # Readers of other partitions would lose these; and those of a view have it meanwhile.
    assert len(computed(config, "daily", "shop=Paris")["daily"]) == 2
    write_models(config, daily=DAILY)
    code, said = run(config, "run", f"{name}.daily", *day, "--rebuild")
    assert (code, "1 of its partitions" in said) == (2, True)
    with reading(place.folder / "lake", name, "daily") as seen:
        assert len(computed(config, "daily", "--rebuild")["daily"]) == len(ALL_DAYS)
    assert (seen.wrong, min(map(int, seen.counts))) == ([], 2)
    assert not [path for path in place.lake.catalog.list_tables(name) if "__mirror" in path[-1]]


def test_what_others_write_makes_those_partitions_stale(config: Path, place: Place) -> None:
    name = f"m_{config.parent.name}.daily"
    assert computed(config, "daily") == {"daily": ALL_DAYS}
    table = Identifier(f"m_{config.parent.name}", "daily")
    place.spark.get().sql(f"DELETE FROM {table.sql} WHERE sold_day = DATE '2024-02-29'")

    def stale() -> list[tuple[str, str]]:
        states = run(config, "run", name, "--dry-run", "--json")[1]["partitions"]
        return [(one["key"], one["why"]) for one in states if one["word"] != "computed"]

    there = stale()
    assert [key for key, _ in there] == ALL_DAYS[2:4]
    assert all(why.startswith("somebody else wrote to its rows (delete, 2") for _, why in there)
    # That is kept when the commit that says so has expired.
    settle = compile_project(load_config(config), place.lake)[0].model(name)
    settle_records(place.lake, Ledger(load_config(config).ledger.url), settle)
    assert [why.startswith("declared invalid: somebody else") for _, why in stale()] == [True, True]
    assert computed(config, "daily") == {"daily": ALL_DAYS[2:4]}
    assert stale() == []


@pytest.mark.full
def test_what_is_declared_invalid_alone_leaves_its_readers_as_they_are(
    config: Path, sql: Sql
) -> None:
    database = config.parent.name
    daily, weekly = f"m_{database}.daily", f"m_{database}.weekly"
    computed(config, "weekly", "--upstream")
    arguments = ("sold_day=2024-02-29", "--downstream", "none", "--reason", "a wrong rate")
    assert run(config, "invalidate", daily, *arguments)[0] == 0

    def weeks() -> list[tuple[str, str]]:
        states = run(config, "run", weekly, "--dry-run", "--json")[1]["partitions"]
        return [(one["word"], one["why"]) for one in states]

    words = f"{daily} {ALL_DAYS[2]}, which it reads, was declared invalid: a wrong rate"
    assert [(word, why.startswith(words)) for word, why in weeks()] == [("computed", True)] * 2
    assert computed(config, "daily") == {"daily": ALL_DAYS[2:4]}
    words = f"{daily} {ALL_DAYS[2]}, which it reads, was computed again since (declared invalid: a"
    assert [(word, why.startswith(words)) for word, why in weeks()] == [("computed", True)] * 2
    # What moved besides is no word of somebody's.
    assert run(config, "invalidate", daily, *arguments)[0] == 0
    sql("UPDATE sales SET amount = 4.5 WHERE id = 4")
    assert run(config, "sync", "--json")[0] == 0
    assert [word for word, _ in weeks()] == ["stale", "stale"]
    assert computed(config, "daily") == {"daily": ALL_DAYS[2:4]}
    assert [word for word, _ in weeks()] == ["stale", "stale"]


@pytest.mark.full
def test_a_table_of_the_day_is_stale_with_the_next(config: Path, place: Place) -> None:
    write_models(
        config,
        today="---\nmaterialized: view\n---\nSELECT id FROM {deduped}.sales WHERE sold_at < CURRENT_DATE",
        until="---\nfor: {{until: CURRENT_DATE}}\npartition_by: []\n---\n"
        "SELECT COUNT(*) AS n FROM {deduped}.sales WHERE sold_at < until",
        known="SELECT COUNT(*) AS n FROM {models}.today",
        age="SELECT id, CURRENT_DATE AS seen FROM {deduped}.sales",
    )
    computed(config, "today")
    told = load_config(config)
    now = datetime.now(UTC)
    for name in ("until", "known", "age"):
        assert computed(config, name) == {name: [""]}
        for day, word in ((now, "computed"), (now + timedelta(days=1), "stale")):
            project, catalogue = compile_project(told, place.lake, day)
            states = States(project, catalogue, place.lake, Ledger(told.ledger.url))
            model = project.model(f"m_{config.parent.name}.{name}")
            found = states.of(model, model.scopes[0])
            assert found.word == word, (name, found)
    assert found.why == f"CURRENT_DATE was {now.date()}, and is {(now + timedelta(days=1)).date()}"


def test_a_lost_ledger_finds_the_partitions_in_their_commits(config: Path, place: Place) -> None:
    assert computed(config, "daily", "shop=Paris") == {"daily": ALL_DAYS[::2]}
    ledger = load_config(config).ledger.url
    with sa.create_engine(ledger).begin() as connection:
        connection.execute(sa.text("DELETE FROM model_partitions"))
    assert computed(config, "daily", "shop=Paris") == {"daily": []}
    found = ModelRecords(Ledger(ledger)).partitions(f"m_{config.parent.name}.daily")
    assert {key: one.rows for key, one in found.items()} == {
        "sold_day=2024-02-28/shop=Paris": 1,
        "sold_day=2024-02-29/shop=Paris": 1,
        "sold_day=2024-03-01/shop=Paris": 0,
    }


@pytest.mark.full
@pytest.mark.parametrize("step", OF_MODELS)
def test_a_run_that_dies_is_resumed(config: Path, place: Place, sql: Sql, step: str) -> None:
    model = f"m_{config.parent.name}.daily"
    assert computed(config, "daily", "sold_day=2024-02-28", "shop=Paris")["daily"] == ALL_DAYS[:1]
    command = [*COMMAND, "run", model, "shop=Paris", "--config", str(config)]
    environment: Mapping[str, str] = {**os.environ, "MIRRORLAKE_FAILPOINT": f"{step}:1"}
    died = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert died.returncode == -9
    again = computed(config, "daily", "shop=Paris")["daily"]
    published = step in ("model.published", "model.recorded")
    assert again == ([] if published else ALL_DAYS[2::2])
    assert rows_of(place, config, "daily") == [row for row in of_mysql(sql) if row[4] == "Paris"]
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "daily"))
    assert table is not None
    # One commit for each run, and no branch that is left.
    assert sum(snapshot_property(one, PARTITIONS) is not None for one in history(table)) == 2
    assert list(table.refs()) == ["main"]


@pytest.mark.full
def test_one_partition_that_fails_is_named_and_those_before_it_are_published(
    config: Path, sql: Sql
) -> None:
    write_models(config, daily=DAILY.replace("COUNT(*)", "SUM(CAST(product AS INT))"))
    database = config.parent.name
    sql("UPDATE sales SET product = '7' WHERE sold_at < '2024-02-29'")
    assert run(config, "sync", "--json")[0] == 0
    code, words = run(config, "run", f"m_{database}.daily", "--json")
    assert code == 6
    assert f"m_{database}.daily {ALL_DAYS[2]}: " in words
    assert "CAST_INVALID_INPUT" in words
    states = run(config, "run", f"m_{database}.daily", "--dry-run", "--json")[1]["partitions"]
    there = [(one["key"], one["record"]["rows"]) for one in states if one["word"] == "computed"]
    assert there == [(ALL_DAYS[0], 1), (ALL_DAYS[1], 0)]


@pytest.mark.full
def test_a_partition_has_its_own_rows_whatever_it_is_named_by(config: Path) -> None:
    kinds = {
        "texts": "[' a=b/c%,', 'é', '7']",
        "numbers": "[-3, 4000000000]",
        "days": "\"TIMESERIES('1969-12-31', '1970-01-02', 'P1D')\"",
        "hours": "\"TIMESERIES('1969-12-31T23:00:00Z', '1970-01-01T02:00:00Z', 'PT1H')\"",
    }
    queries = {
        name: f"---\nfor: {{{{one: {values}}}}}\n---\nSELECT id FROM {{deduped}}.sales WHERE id < 4"
        for name, values in kinds.items()
    }
    write_models(config, **queries)
    for name in kinds:
        code, runs = run(config, "run", f"m_{config.parent.name}.{name}", "--json")
        assert code == 0, runs
        assert {one["rows"] for one in runs[0]["computed"]} == {3}, name


@pytest.mark.full
def test_partitions_that_are_none_any_more_are_said(config: Path) -> None:
    name = f"m_{config.parent.name}.daily"
    computed(config, "daily")
    write_models(config, daily=DAILY.replace("'2024-02-28'", "'2024-02-29'"))
    words = "has rows of 1 partitions that `for` no longer has (sold_day=2024-02-28/shop=Paris)"
    [warning] = run(config, "show", name, "--json")[1]["warnings"]
    assert warning.startswith(f"{name} {words}")
    [one] = run(config, "run", name, "--json")[1]
    assert [warning.startswith(words) for warning in one["warnings"]] == [True]
    assert (one["computed"], one["unchanged"]) == ([], 4)


@pytest.mark.full
def test_what_models_left_is_listed_and_dropped_where_it_is_said(
    config: Path, place: Place
) -> None:
    database = config.parent.name
    write_models(
        config,
        gone="SELECT id FROM {deduped}.sales",
        seen="---\nmaterialized: view\n---\nSELECT id FROM {deduped}.sales",
        kept=DAILY.replace("description: What each store sold", "materialized: snapshot")
        .replace("  shop: [Paris, Detroit]\n", "")
        .replace("'2024-03-02'", "'2024-03-02'")
        .replace(" AND store = shop", ""),
    )
    for name in ("daily", "gone", "seen", "kept"):
        computed(config, name)
    place.lake.make_namespace(f"m_{database}")
    foreign = Identifier(f"m_{database}", "foreign")
    place.spark.get().sql(f"CREATE TABLE {foreign.sql} (id INT) USING iceberg")
    write_models(config, daily=DAILY.replace("'2024-02-28'", "'2024-02-29'"))
    for name in ("gone", "seen", "kept"):
        (config.parent / "models" / f"m_{database}" / f"{name}.sql").unlink()
    # One that does not compile is there all the same, and keeps nothing else from going.
    write_models(config, wrong="SELECT ida FROM {deduped}.sales")
    ledger = Ledger(load_config(config).ledger.url)
    ledger.record_definition(f"{RECORDED}m_{database}.wrong", '{"materialized": "table"}')

    def prune(*arguments: str) -> list[tuple[str, str, list[str], bool]]:
        code, found = run(config, "models", "prune", *arguments, "--json")
        assert code == 0, found
        return [
            (one["model"].split(".")[1], one["what"], one["keys"], one["dropped"]) for one in found
        ]

    left = [
        ("daily", "partitions", [ALL_DAYS[0]]),
        ("gone", "table", []),
        ("kept", "table", []),
        ("seen", "view", []),
    ]
    before = rows_of(place, config, "daily")
    assert prune() == [(*one, False) for one in left]
    assert rows_of(place, config, "daily") == before
    # What can't be taken again goes where it is named.
    assert prune("--yes") == [(*one, one[0] != "kept") for one in left]
    assert rows_of(place, config, "daily") == [row for row in before if row[3] != date(2024, 2, 28)]
    assert computed(config, "daily") == {"daily": []}
    assert prune() == [(*left[2], False)]
    assert prune(f"m_{database}.kept", "--yes") == [(*left[2], True)]
    assert prune() == []
    code, words = run(config, "models", "prune", f"m_{database}.wrong")
    assert (code, "there is no column ida" in words) == (2, True)
    code, words = run(config, "models", "prune")
    assert (code, "Not looked at: 1 model does not compile" in words) == (0, True)
    (config.parent / "models" / f"m_{database}" / "wrong.sql").unlink()
    ledger.forget_definition(f"{RECORDED}m_{database}.wrong")
    names = {name for _, name in place.lake.catalog.list_tables(f"m_{database}")}
    assert names == {"daily", "foreign"}
    assert {one["model"].split(".")[1] for one in run(config, "plan", "--json")[1]["models"]} == {
        "daily",
        "weekly",
    }


@pytest.mark.full
def test_a_file_that_can_not_be_read_hides_no_other(config: Path) -> None:
    database = config.parent.name
    write_models(
        config, bad="---\nower: me\n---\nSELECT 1 AS n", wrong="SELECT ida FROM {deduped}.sales"
    )
    write_models(config, reader="SELECT n FROM {models}.bad")
    code, words = run(config, "plan")
    assert code == 2
    assert "bad.sql:2:1: ower: unknown key" in words
    assert "wrong.sql:1:8: there is no column ida" in words
    assert f"reader.sql:1:15: m_{database}.reader reads m_{database}.bad, which does not" in words
    assert len(computed(config, "daily")["daily"]) == 6
    code, words = run(config, "run", f"m_{database}.reader")
    assert (code, "ower: unknown key" in words) == (2, True)
    assert "there is no column ida" not in words
    assert "`mirrorlake plan` names 2 more errors" in words


def test_a_view_shows_what_its_tables_show(config: Path, place: Place, sql: Sql) -> None:
    write_models(
        config,
        teas="---\nmaterialized: view\n---\nSELECT id, amount FROM {deduped}.sales WHERE product = 'tea' -- all",
        total="SELECT SUM(amount) AS amount FROM {models}.teas",
    )
    assert computed(config, "total", "--upstream") == {"teas": [""], "total": [""]}
    assert rows_of(place, config, "total") == [(Decimal("25.30"),)]
    sql("INSERT INTO sales VALUES (8, NULL, 'Rome', 'tea', 0.7)")
    assert run(config, "sync", "--json")[0] == 0
    assert computed(config, "total", "--upstream") == {"teas": [], "total": [""]}
    assert rows_of(place, config, "total") == [(Decimal("26.00"),)]
