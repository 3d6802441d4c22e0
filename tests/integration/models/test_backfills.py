"""What is declared invalid is loaded and computed again, and all that derives from it, in order."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.models.test_models import run, write_models
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands
from tests.support.command import COMMAND

Sql = Callable[..., Any]
DAILY = """---
for: {{sold_day: "TIMESERIES('2024-02-28', '2024-03-02', 'P1D')"}}
---
SELECT store, SUM(amount) AS amount FROM {deduped}.sales
WHERE DATE(sold_at) = sold_day GROUP BY store
"""
LAST_TWO = """---
for: {{until_day: "TIMESERIES('2024-02-29', '2024-03-02', 'P1D')"}}
---
SELECT store, SUM(amount) AS amount FROM {models}.daily
WHERE sold_day BETWEEN DATE_SUB(until_day, 1) AND until_day GROUP BY store
"""


@pytest.fixture
def config(server: MariaDB, place: Place, database: str, sql: Sql) -> Path:
    sql(
        "CREATE TABLE sales (id INT PRIMARY KEY, sold_at DATETIME NOT NULL, store VARCHAR(20),"
        " amount INT, KEY (sold_at))",
        "INSERT INTO sales VALUES (1, '2024-02-28 01:00', 'Paris', 1), (2, '2024-02-29 02:00', 'Paris', 2),"
        " (3, '2024-03-01 03:00', 'Paris', 3)",
    )
    folder = place.folder / database
    (folder / "models" / f"m_{database}").mkdir(parents=True)
    terms = {"mode": "incremental", "key": ["id"], "cursor": "sold_at", "start": "2024-02-28"}
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {"sales": terms}}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    write_models(path, daily=DAILY, last_two=LAST_TWO)
    assert run(path, "sync", "--json")[0] == 0
    assert run(path, "run", f"m_{database}.last_two", "--upstream")[0] == 0
    return path


def daily_rows(place: Place, config: Path) -> dict[tuple[date, str], int]:
    table = place.lake.load(Identifier(f"m_{config.parent.name}", "daily"))
    assert table is not None
    rows = table.scan().to_arrow().to_pylist()
    found = {(row["sold_day"], row["store"]): row["amount"] for row in rows}
    assert len(found) == len(rows)
    return found


def of_mysql(sql: Sql) -> dict[tuple[date, str], int]:
    query = "SELECT DATE(sold_at), store, SUM(amount) FROM sales GROUP BY 1, 2"
    return {(day, store): int(amount) for day, store, amount in sql(query)}


def written_down(config: Path) -> list[str]:
    """All that the ledger holds, but for which days commits changed."""
    with sqlite3.connect(load_config(config).ledger.url.removeprefix("sqlite:///")) as ledger:
        return [line for line in ledger.iterdump() if '"moved_days"' not in line]


def declare(config: Path, sql: Sql) -> None:
    """A row changes as no cursor tells, and somebody knows of it."""
    sql("UPDATE sales SET amount = 20 WHERE id = 2")
    days = ("--from", "2024-02-29", "--to", "2024-02-29", "--reason", "a wrong rate")
    code, declared = run(config, "invalidate", "sales", *days, "--json")
    assert code == 0, declared
    name = config.parent.name
    assert declared["partitions"] == {
        f"m_{name}.daily": ["sold_day=2024-02-29"],
        f"m_{name}.last_two": ["until_day=2024-02-29", "until_day=2024-03-01"],
    }


def states(config: Path, model: str) -> dict[str, tuple[str, str]]:
    code, found = run(config, "run", f"m_{config.parent.name}.{model}", "--dry-run", "--json")
    assert code == 0, found
    return {one["key"]: (one["word"], one["why"]) for one in found["partitions"]}


def test_days_declared_invalid_are_loaded_and_what_derives_from_them_is_computed(
    config: Path, place: Place, sql: Sql
) -> None:
    name = config.parent.name
    declare(config, sql)
    invalid = ("stale", "declared invalid: a wrong rate")
    assert states(config, "daily")["sold_day=2024-02-29"] == invalid
    assert list(states(config, "last_two").values()) == [invalid, invalid]
    code, words = run(config, "run", f"m_{name}.daily")
    assert (code, "not loaded and folded again yet" in words) == (2, True)
    before = written_down(config)
    code, plan = run(config, "plan", "backfill", "--invalid", "--json")
    steps = [(one["step"], one["target"].split(".")[-1], one["names"]) for one in plan["steps"]]
    assert steps == [
        ("load", "sales", ["2024-02-29"]),
        ("fold", "sales", []),
        ("compute", "daily", ["sold_day=2024-02-29"]),
        ("compute", "last_two", ["until_day=2024-02-29", "until_day=2024-03-01"]),
    ]
    assert plan["total"]["unknown"] == {}
    assert plan["steps"][0]["forecast"]["basis"] == "1 first load"
    assert plan["steps"][2]["unproved"][0]["why"] == "never checked"
    code, looked = run(config, "plan", "sync", "--json")
    (sales,) = looked["tables"]
    assert (code, sales["window"], sales["rows"], sales["counted"]) == (0, "live", 0, True)
    code, found = run(config, "plan", "--sources", "--json")
    assert (code, [one["change"] for one in found["schema_versions"]]) == (0, ["unchanged"])
    assert written_down(config) == before  # nothing was touched

    code, filled = run(config, "backfill", "--invalid", "--limit", "1", "--json")
    assert (code, [one["window"] for one in filled]) == (0, ["reload"])
    code, filled = run(config, "backfill", "--invalid", "--json")
    assert code == 0, filled
    assert [one["model"].split(".")[1] for one in filled] == ["daily", "last_two"]
    assert daily_rows(place, config) == of_mysql(sql)
    assert {word for word, _ in states(config, "last_two").values()} == {"computed"}
    assert run(config, "invalidate", "--json") == (0, [])
    assert Ledger(load_config(config).ledger.url).dirty_marks() == []

    sql("ALTER TABLE sales RENAME COLUMN store TO shop")
    code, found = run(config, "plan", "--sources", "--json")
    (sales,) = found["schema_versions"]
    assert (code, sales["change"]) == (20, "breaking")
    assert "store was dropped" in sales["words"]
    assert "if one was renamed, say so with `renamed_from`" in sales["words"]
    of_daily = f"models/m_{name}/daily.sql:4:8: "
    (said,) = [one for one in sales["readers"] if of_daily in one]
    assert f"m_{name}.daily reads store of s_{name}.sales, which is gone then" in said


def test_a_plan_of_a_sync_says_what_would_be_read_of_each_table(
    server: MariaDB, place: Place, database: str, sql: Sql
) -> None:
    sql(
        "CREATE TABLE sales (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))",
        "CREATE TABLE shops (id INT PRIMARY KEY)",
        "CREATE TABLE news (id INT PRIMARY KEY)",
        "INSERT INTO sales VALUES (1, UTC_TIMESTAMP()), (2, UTC_TIMESTAMP())",
        "INSERT INTO shops VALUES (1), (2), (3)",
        "ANALYZE TABLE sales, shops, news",
    )
    by_time = {"mode": "incremental", "key": ["id"], "cursor": "at"}
    copied = {"mode": "full", "key": ["id"]}
    config = write_contract(
        place.folder / f"{database}.yaml",
        server.port,
        {database: {"tables": {"sales": by_time, "shops": copied, "news": copied, "gone": copied}}},
        ledger={"url": f"sqlite:///{database}.db"},
    )

    def planned(*tables: str) -> tuple[int, dict[str, dict[str, Any]]]:
        code, found = run(config, "plan", "sync", *tables, "--json")
        return code, {one["table"].rsplit(".", 1)[1]: one for one in found["tables"]}

    code, first = planned()
    assert code == 5
    assert (first["gone"]["window"], first["gone"]["code"]) == ("refused", 5)
    assert (first["sales"]["window"], first["sales"]["why"]) == ("initial", "never loaded")
    assert (first["sales"]["rows"], first["sales"]["counted"]) == (2, False)
    assert first["sales"]["load"] == {"rows": 2, "bytes": None, "seconds": None, "basis": ""}
    assert run(config, "sync", "sales", "shops", "--json")[0] == 0
    before = written_down(config)
    sql("INSERT INTO sales VALUES (3, UTC_TIMESTAMP())")
    code, then = planned("sales", "shops", "news")
    assert code == 0
    sales, shops = then["sales"], then["shops"]
    # The two of before lie in the overlap.
    assert (sales["window"], sales["rows"], sales["counted"]) == ("live", 3, True)
    assert sales["since"] is not None
    assert (shops["load"]["rows"], shops["load"]["basis"]) in ((3, "1 copy"), (0, ""))
    assert then["news"]["window"] == "full"
    assert written_down(config) == before
    of_past = "no past day can be filled"
    warned = [run(config, "plan", "backfill", *named, "--json")[1] for named in ((), ("shops",))]
    assert [of_past in str(one) for one in warned] == [False, True]
    text = run(config, "plan", "sync", "sales", "--markdown")[1]
    assert text.startswith("| table | window | since |")
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert run(config, "hold", "s", "--until", until, "--reason", "new disks")[0] == 0
    code, held = planned("sales")
    assert (code, held["sales"]["window"]) == (0, "held")
    assert "new disks" in held["sales"]["why"]


@pytest.mark.full
@pytest.mark.parametrize(
    "step",
    [
        *("ledger.pending", "ledger.success", "fold.committed", "fold.recorded"),
        *("clean.committed", "work.folded", "model.staged", "model.before_publish"),
        *("model.published", "model.recorded", "work.computed", "work.computed:2"),
    ],
)
def test_a_backfill_that_dies_goes_on(config: Path, place: Place, sql: Sql, step: str) -> None:
    declare(config, sql)
    command = [*COMMAND, "backfill", "--invalid", "--config", str(config)]
    environment: Mapping[str, str] = {**os.environ, "MIRRORLAKE_FAILPOINT": step}
    died = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert died.returncode == -9, died.stderr
    code, filled = run(config, "backfill", "--invalid", "--json")
    assert code == 0, filled
    if step in ("work.folded", "model.staged", "model.published"):
        assert not [one for one in filled if "table" in one]  # the load is not made again
    computed = {one["model"].rsplit(".", 1)[1]: one["computed"] for one in filled if "model" in one}
    if step in ("model.published", "model.recorded", "work.computed"):
        assert computed == {"last_two": 2}  # nor is what was published
    assert daily_rows(place, config) == of_mysql(sql)
    assert {word for word, _ in states(config, "last_two").values()} == {"computed"}
    assert run(config, "invalidate", "--json") == (0, [])
