"""The examples of the models' design, word for word, and all that is told of them: scopes, the query
whose rows are inserted for each, what it reads, and what `show` prints.

Sales of each store by day; products by day, each from one day of the first; and the last four days.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.models.compile.dependencies import MirrorInput, ModelInput, inputs_of
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.scope_values.query_text import bound_sql
from tests.unit.models.test_project import Compiled, compiled, contract  # noqa: F401

STORE_SALES = """---
description: Sales of each store, by day
for: {t: "TIMESERIES('2024-02-26', '2024-03-02', 'P1D')", day: DATE(t), store: ['Paris', 'Detroit']}
partition_by: [day, store]
---
WITH sales AS (SELECT id, sold_at, amount, s.store AS store_name FROM s_d.sales AS s)
SELECT id, amount FROM sales WHERE DATE(sold_at) = day AND store_name = store
"""
PRODUCTS_SALES = """---
for: {partition_day: "TIMESERIES('2024-02-26', '2024-03-02', 'P1D')"}
---
SELECT store, COUNT(*) AS sales, SUM(amount) AS amount
FROM m.store_sales WHERE day = partition_day GROUP BY store
"""
LAST_DAYS = """---
for: {partition_day: "TIMESERIES('2024-02-26', '2024-03-02', 'P1D')"}
---
SELECT store, SUM(amount) AS amount FROM m.store_sales
WHERE day BETWEEN DATE_SUB(partition_day, 3) AND partition_day GROUP BY store
"""
DAYS = ("2024-02-26", "2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01")
STORES = ("Paris", "Detroit")
LEAP = date(2024, 2, 29)
SHOWN = {
    "store_sales day=2024-02-29 store=Paris": """m.store_sales (table): models/m/store_sales.sql
Sales of each store, by day
column type NULL made of
id int yes s_d.sales.id
amount decimal(10,2) yes s_d.sales.amount
day date no the partition
store string no the partition
10 partitions by day, store: day=2024-02-26/store=Paris to day=2024-03-01/store=Detroit
State: 10 missing.
Reads s_d.sales.
Read by m.last_days, m.products_sales.
Partition day=2024-02-29/store=Paris is missing: never computed.
name value type
t 2024-02-29 date
day 2024-02-29 date
store Paris string
reads partitions state
s_d.sales sold_at: 2024-02-29 -
read by partitions state
m.last_days partition_day=2024-02-29, partition_day=2024-03-01 2 missing
m.products_sales partition_day=2024-02-29 1 missing""",
    "products_sales partition_day=2024-02-29": """m.products_sales (table): models/m/products_sales.sql
column type NULL made of
store string no -
sales bigint no -
amount decimal(20,2) yes s_d.sales.amount
partition_day date no the partition
5 partitions by partition_day: partition_day=2024-02-26 to partition_day=2024-03-01
State: 5 missing.
Reads m.store_sales.
Partition partition_day=2024-02-29 is missing: never computed.
name value type
partition_day 2024-02-29 date
reads partitions state
m.store_sales day=2024-02-29/store=Paris, day=2024-02-29/store=Detroit 2 missing""",
    "last_days partition_day=2024-03-01": """m.last_days (table): models/m/last_days.sql
column type NULL made of
store string no -
amount decimal(20,2) yes s_d.sales.amount
partition_day date no the partition
5 partitions by partition_day: partition_day=2024-02-26 to partition_day=2024-03-01
State: 5 missing.
Reads m.store_sales.
Partition partition_day=2024-03-01 is missing: never computed.
name value type
partition_day 2024-03-01 date
reads partitions state
m.store_sales day=2024-02-27/store=Paris … day=2024-03-01/store=Detroit (8) 8 missing""",
}


@pytest.fixture
def project(compiled: Compiled) -> Project:  # noqa: F811
    found = compiled(
        m__store_sales=STORE_SALES, m__products_sales=PRODUCTS_SALES, m__last_days=LAST_DAYS
    )
    assert found.problems == ()
    return found


@pytest.fixture
def show(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.setattr("mirrorlake.cli.show.console.width", 120)

    def show(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["show", *arguments])
        assert result.exception is None, result.output
        return result.output

    return show


def inserted(model: Model, key: str) -> str:
    """The query whose rows, with the values of the partition, become a partition."""
    text = bound_sql(model.declaration.sql, model.bound, model.by_key[key])
    return " ".join(text.split())


def test_each_scope_is_a_partition(project: Project) -> None:
    sales = project.models["m.store_sales"]
    assert {key: dict(scope) for key, scope in sales.by_key.items()} == {
        f"day={day}/store={store}": {
            "t": date.fromisoformat(day),
            "day": date.fromisoformat(day),
            "store": store,
        }
        for day in DAYS
        for store in STORES
    }
    for name in ("m.products_sales", "m.last_days"):
        assert {key: dict(scope) for key, scope in project.models[name].by_key.items()} == {
            f"partition_day={day}": {"partition_day": date.fromisoformat(day)} for day in DAYS
        }


def test_the_columns_of_each(project: Project) -> None:
    columns = {
        name: [(f.name, f.value.type) for f in model.fields]
        for name, model in project.models.items()
    }
    day = ("partition_day", "date")
    assert columns == {
        "m.store_sales": [
            ("id", "int"),
            ("amount", "decimal(10,2)"),
            ("day", "date"),
            ("store", "string"),
        ],
        "m.products_sales": [
            ("store", "string"),
            ("sales", "bigint"),
            ("amount", "decimal(20,2)"),
            day,
        ],
        "m.last_days": [("store", "string"), ("amount", "decimal(20,2)"), day],
    }


def test_the_query_whose_rows_are_inserted(project: Project, show: Callable[..., str]) -> None:
    wanted = {
        ("m.store_sales", "day=2024-02-29/store=Paris"): "WITH sales AS (SELECT id,"
        " sold_at, amount, s.store AS store_name FROM s_d.sales AS s) SELECT id, amount FROM sales"
        " WHERE DATE(sold_at) = DATE '2024-02-29' AND store_name = 'Paris'",
        ("m.products_sales", "partition_day=2024-02-29"): "SELECT store, COUNT(*) AS sales,"
        " SUM(amount) AS amount FROM m.store_sales WHERE day = DATE '2024-02-29' GROUP BY store",
        ("m.last_days", "partition_day=2024-02-29"): "SELECT store, SUM(amount) AS amount"
        " FROM m.store_sales WHERE day BETWEEN DATE_SUB(DATE '2024-02-29', 3)"
        " AND DATE '2024-02-29' GROUP BY store",
    }
    for (name, key), query in wanted.items():
        assert inserted(project.models[name], key) == query
        assert " ".join(show(name, *key.split("/"), "--sql").split()) == query


def test_what_each_reads(project: Project, compiled: Compiled) -> None:  # noqa: F811
    catalogue = compiled.catalogue  # type: ignore[attr-defined]

    def read(name: str, key: str) -> object:
        model = project.models[name]
        (found,) = inputs_of(project, catalogue, model, model.by_key[key])
        return found

    def of_days(*days: str) -> ModelInput:
        keys = tuple(f"day={day}/store={store}" for day in days for store in STORES)
        return ModelInput("m.store_sales", keys, True)

    for number, day in enumerate(DAYS):
        on = date.fromisoformat(day)
        for store in STORES:
            assert read("m.store_sales", f"day={day}/store={store}") == MirrorInput(
                "s_d.sales", "sold_at", ((on, on),)
            )
        assert read("m.products_sales", f"partition_day={day}") == of_days(day)
        # Those that there are: before the first day there is none.
        last = DAYS[max(number - 3, 0) : number + 1]
        assert read("m.last_days", f"partition_day={day}") == of_days(*last)


@pytest.mark.parametrize("arguments", SHOWN)
def test_what_show_prints(show: Callable[..., str], arguments: str) -> None:
    output = show(*f"m.{arguments}".split())
    lines = (re.sub(r"\s+", " ", line).strip() for line in output.splitlines())
    assert "\n".join(line for line in lines if line and "─" not in line) == SHOWN[arguments]


def test_what_show_says_to_a_program(show: Callable[..., str]) -> None:
    found: dict[str, Any] = json.loads(show("m.last_days", "partition_day=2024-02-27", "--json"))
    assert found["partition"] == {
        "key": "partition_day=2024-02-27",
        "scope": [{"name": "partition_day", "value": "2024-02-27", "type": "date"}],
        "inputs": [
            {
                "table": "m.store_sales",
                "partitions": [
                    "day=2024-02-26/store=Paris",
                    "day=2024-02-26/store=Detroit",
                    "day=2024-02-27/store=Paris",
                    "day=2024-02-27/store=Detroit",
                ],
                "all": False,
            }
        ],
        "readers": {},
        "sql": "SELECT store, SUM(amount) AS amount FROM m.store_sales\nWHERE day BETWEEN"
        " DATE_SUB(DATE '2024-02-27', 3) AND DATE '2024-02-27' GROUP BY store\n",
        "state": "missing",
        "why": "never computed",
        "states": {"m.store_sales": {"missing": 4}},
        "cut": None,
        "cut_at": None,
    }
