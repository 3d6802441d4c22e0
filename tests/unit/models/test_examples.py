"""Three models in a row, and all that is told of them: scopes, the query of one partition, what it
reads, and what `show` prints."""

from __future__ import annotations

import re
from datetime import date

import pytest
from click.testing import CliRunner

from mirrorlake.cli import cli
from mirrorlake.models.binding import bound_sql
from mirrorlake.models.dependencies import MirrorInput, ModelInput, inputs_of
from mirrorlake.models.model import Model, Project
from tests.unit.models.test_project import Compiled, compiled, contract  # noqa: F401

STORE_SALES = """---
description: Sales of each store, by day
for:
  t: TIMESERIES('2024-02-28', '2024-03-02', 'P1D')
  day: DATE(t)
  shop: ['Paris', 'Detroit']
partition_by: [day, shop]
---
SELECT id, amount FROM s_d.sales WHERE DATE(sold_at) = day AND store = shop
"""
PRODUCTS_SALES = """---
for:
  partition_day: TIMESERIES('2024-02-28', '2024-03-02', 'P1D')
---
SELECT shop, COUNT(*) AS sales, SUM(amount) AS amount
FROM m.store_sales WHERE day = partition_day GROUP BY shop
"""
LAST_DAYS = """---
for:
  until_day: TIMESERIES('2024-02-28', '2024-03-02', 'P1D')
---
SELECT shop, SUM(sales) AS sales FROM m.products_sales
WHERE partition_day BETWEEN DATE_SUB(until_day, 3) AND until_day GROUP BY shop
"""
LEAP = date(2024, 2, 29)
SHOWN = """m.products_sales (table): models/m/products_sales.sql
column type NULL made of
shop string no -
sales bigint no -
amount decimal(20,2) yes s_d.sales.amount
partition_day date no the partition
3 partitions by partition_day: partition_day=2024-02-28 to partition_day=2024-03-01
State: 3 missing.
Reads m.store_sales.
Read by m.last_days.
Partition partition_day=2024-02-29 is missing: never computed.
name value type
partition_day 2024-02-29 date
reads partitions state
m.store_sales day=2024-02-29/shop=Paris, day=2024-02-29/shop=Detroit 2 missing
read by partitions state
m.last_days until_day=2024-02-29, until_day=2024-03-01 2 missing"""


@pytest.fixture
def project(compiled: Compiled) -> Project:  # noqa: F811
    found = compiled(
        m__store_sales=STORE_SALES, m__products_sales=PRODUCTS_SALES, m__last_days=LAST_DAYS
    )
    assert found.problems == ()
    return found


def query_of(model: Model, key: str) -> str:
    text = bound_sql(model.declaration.sql, model.bound, model.by_key[key])
    return " ".join(text.split())


def test_each_scope_is_a_partition(project: Project) -> None:
    assert list(project.models) == ["m.store_sales", "m.products_sales", "m.last_days"]
    sales = project.models["m.store_sales"]
    assert list(sales.by_key) == [
        f"day={day}/shop={shop}"
        for day in ("2024-02-28", "2024-02-29", "2024-03-01")
        for shop in ("Paris", "Detroit")
    ]
    assert sales.by_key["day=2024-02-29/shop=Detroit"] == {
        "t": LEAP,
        "day": LEAP,
        "shop": "Detroit",
    }
    assert [(f.name, f.value.type) for f in sales.fields] == [
        ("id", "int"),
        ("amount", "decimal(10,2)"),
        ("day", "date"),
        ("shop", "string"),
    ]


def test_the_names_are_constants_in_the_query(project: Project) -> None:
    assert query_of(project.models["m.store_sales"], "day=2024-02-29/shop=Paris") == (
        "SELECT id, amount FROM s_d.sales"
        " WHERE DATE(sold_at) = DATE '2024-02-29' AND store = 'Paris'"
    )
    assert query_of(project.models["m.last_days"], "until_day=2024-03-01") == (
        "SELECT shop, SUM(sales) AS sales FROM m.products_sales WHERE partition_day"
        " BETWEEN DATE_SUB(DATE '2024-03-01', 3) AND DATE '2024-03-01' GROUP BY shop"
    )


def test_what_each_reads(project: Project, compiled: Compiled) -> None:  # noqa: F811
    catalogue = compiled.catalogue  # type: ignore[attr-defined]

    def read(name: str, key: str) -> object:
        model = project.models[name]
        (found,) = inputs_of(project, catalogue, model, model.by_key[key])
        return found

    assert read("m.store_sales", "day=2024-02-29/shop=Paris") == MirrorInput(
        "s_d.sales", "sold_at", ((LEAP, LEAP),)
    )
    both = ("day=2024-02-29/shop=Paris", "day=2024-02-29/shop=Detroit")
    assert read("m.products_sales", "partition_day=2024-02-29") == ModelInput(
        "m.store_sales", both, True
    )
    # Those that there are: three days before the first there is none.
    days = ("partition_day=2024-02-28", "partition_day=2024-02-29")
    assert read("m.last_days", "until_day=2024-02-29") == ModelInput("m.products_sales", days, True)


def test_what_show_prints(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirrorlake.cli.show.console.width", 120)

    def shown(*arguments: str) -> str:
        result = CliRunner().invoke(cli, ["show", *arguments])
        assert result.exception is None, result.output
        lines = (re.sub(r"\s+", " ", line).strip() for line in result.output.splitlines())
        return "\n".join(line for line in lines if line and "─" not in line)

    assert shown("m.products_sales", "partition_day=2024-02-29") == SHOWN
