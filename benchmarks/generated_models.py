"""A project of many generated models, in our files and in SQLMesh's: the same queries.

Five kinds take turns: a day of one mirrored table; seven days of a model above; a day and a store
of two; a month of a daily model; and a total of all. Each model of a later layer reads one or two
of those before it, chosen by a seed.

What belongs here: the text of models and what their mirrored tables have. What doesn't: who loads
them (`benchmarks.plan`, tests).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from pyiceberg.schema import Schema
from pyiceberg.types import (
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from mirrorlake.config import Config
from mirrorlake.destinations.iceberg.lake import Lake

STORES = ("Paris", "Detroit", "Rome", "Lima")
_COLUMNS = (
    ("id", LongType()),
    ("sold_at", TimestampType()),
    ("store", StringType()),
    ("product", StringType()),
    ("customer_id", IntegerType()),
    ("quantity", IntegerType()),
    ("amount", DecimalType(12, 2)),
    ("state", StringType()),
)


@dataclass(frozen=True)
class GeneratedModel:
    """One model.

    Attributes:
        kind: ``daily``, ``weekly``, ``stores``, ``monthly`` or ``total``.
        query: with ``{start}`` and ``{end}`` where a name of the scope bounds it, and the tables
            by their names in the lake.
    """

    name: str
    kind: str
    reads: tuple[str, ...]
    query: str

    @property
    def path(self) -> Path:
        dataset, name = self.name.split(".")
        return Path(dataset) / f"{name}.sql"


def generate_models(number: int, seed: int = 1) -> list[GeneratedModel]:
    """So many models, each after those that it reads; the same for the same seed."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    tables = [f"s_d.sales_{n}" for n in range(table_count(number))]
    found: list[GeneratedModel] = []
    daily: list[str] = []
    for place in range(number):
        # Three tenths read the mirror alone, as they do in real projects.
        kind = "daily" if place < number * 0.3 or not daily else dice.choice(_LATER)
        dataset = f"m{place // 100}"
        name = f"{dataset}.{kind}_{place}"
        above = dice.choice(tables) if kind == "daily" else dice.choice(daily)
        other = dice.choice(tables)
        found.append(_KINDS[kind](name, above, other))
        if kind in ("daily", "weekly"):
            daily.append(name)
    return found


def table_count(number: int) -> int:
    """How many mirrored tables a project of so many models has."""
    return max(2, number // 20)


def _daily(name: str, table: str, _: str) -> GeneratedModel:
    query = f"""WITH kept AS (
  SELECT id, customer_id, store, product, quantity, amount, DATE(sold_at) AS sold_on
  FROM {table}
  WHERE DATE(sold_at) = {{day}} AND state <> 'cancelled'
),
ranked AS (
  SELECT kept.*,
    ROW_NUMBER() OVER (PARTITION BY store ORDER BY amount DESC, id) AS place,
    CASE WHEN amount >= 100 THEN 'large' WHEN amount >= 10 THEN 'middle' ELSE 'small' END AS size
  FROM kept
)
SELECT
  store,
  product,
  COUNT(*) AS sales,
  COUNT(DISTINCT customer_id) AS customers,
  SUM(quantity) AS quantity,
  SUM(amount) AS amount,
  MAX(CASE WHEN place = 1 THEN amount END) AS largest,
  SUM(CASE WHEN size = 'large' THEN 1 ELSE 0 END) AS large_sales
FROM ranked
GROUP BY store, product"""
    return GeneratedModel(name, "daily", (table,), query)


def _weekly(name: str, above: str, _: str) -> GeneratedModel:
    query = f"""SELECT
  store,
  product,
  SUM(sales) AS sales,
  MAX(customers) AS customers,
  SUM(quantity) AS quantity,
  CAST(SUM(amount) AS DECIMAL(22, 2)) AS amount,
  CAST(MAX(largest) AS DECIMAL(12, 2)) AS largest,
  SUM(large_sales) AS large_sales
FROM {above} AS past
WHERE past.{{column}} BETWEEN DATE_SUB({{day}}, 6) AND {{day}}
GROUP BY store, product
HAVING SUM(sales) > 0"""
    return GeneratedModel(name, "weekly", (above,), query)


def _stores(name: str, above: str, table: str) -> GeneratedModel:
    query = f"""SELECT
  made.product,
  made.amount,
  COALESCE(sold.amount, 0) AS sold,
  made.amount - COALESCE(sold.amount, 0) AS difference
FROM {above} AS made
LEFT JOIN (
  SELECT product, SUM(amount) AS amount
  FROM {table}
  WHERE sold_at >= {{day}} AND sold_at < DATE_ADD({{day}}, 1) AND store = {{shop}}
  GROUP BY product
) AS sold ON sold.product = made.product
WHERE made.{{column}} = {{day}} AND made.store = {{shop}}"""
    return GeneratedModel(name, "stores", (above, table), query)


def _monthly(name: str, above: str, _: str) -> GeneratedModel:
    query = f"""SELECT
  store,
  SUM(sales) AS sales,
  SUM(amount) AS amount,
  SUM(amount) / NULLIF(SUM(sales), 0) AS by_sale,
  COUNT(DISTINCT product) AS products
FROM {above} AS made
WHERE made.{{column}} BETWEEN {{day}} AND LAST_DAY({{day}})
GROUP BY store"""
    return GeneratedModel(name, "monthly", (above,), query)


def _total(name: str, above: str, _: str) -> GeneratedModel:
    query = f"""SELECT
  product,
  SUM(amount) AS amount,
  RANK() OVER (ORDER BY SUM(amount) DESC) AS place
FROM {above} AS made
GROUP BY product"""
    return GeneratedModel(name, "total", (above,), query)


_LATER = ("daily", "weekly", "weekly", "stores", "monthly", "total")
_KINDS: dict[str, Callable[[str, str, str], GeneratedModel]] = {
    "daily": _daily,
    "weekly": _weekly,
    "stores": _stores,
    "monthly": _monthly,
    "total": _total,
}
_FOR = {
    "daily": "for:\n  {day}: TIMESERIES('{start}', '{end}', 'P1D')\n",
    "weekly": "for:\n  {day}: TIMESERIES('{start}', '{end}', 'P1D')\n",
    "stores": "for:\n  {day}: TIMESERIES('{start}', '{end}', 'P1D')\n  shop: [{stores}]\n",
    "monthly": "for:\n  {day}: TIMESERIES('{start}', '{end}', 'P1M')\n",
    "total": "",
}


def day_name(model: str) -> str:
    """The name of a model's days: each has its own, so that none is also a column of its inputs."""
    return f"day_{model.rpartition('_')[2]}"


def write_models(folder: Path, models: Sequence[GeneratedModel], start: date, end: date) -> None:
    """Our files, below ``folder``.

    Args:
        end: the first day that no model is computed for.
    """
    for one in models:
        path = folder / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of_model(one, start, end), encoding="utf-8")


def text_of_model(one: GeneratedModel, start: date, end: date) -> str:
    """Our file of a model."""
    day, column = day_name(one.name), day_name(one.reads[0])
    bindings = _FOR[one.kind].format(day=day, start=start, end=end, stores=", ".join(STORES))
    query = one.query.format(day=day, column=column, shop="shop")
    head = f"description: Generated, {one.kind}\nowner: data@example.com\n{bindings}"
    return f"---\n{head}---\n{query}\n"


def write_sqlmesh(
    folder: Path, models: Sequence[GeneratedModel], start: date, tables: Sequence[str]
) -> None:
    """The same project as SQLMesh has it: models by time range, mirrored tables as external ones
    whose columns are given."""
    for one in models:
        path = folder / "models" / one.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(_sqlmesh_model(one, start)) + "\n", encoding="utf-8")
    columns = "\n".join(f"    {name}: {_sqlmesh_type(kind)}" for name, kind in _COLUMNS)
    external = [f"- name: {table}\n  columns:\n{columns}" for table in tables]
    (folder / "external_models.yaml").write_text("\n".join(external) + "\n", encoding="utf-8")
    (folder / "config.yaml").write_text(
        "gateways:\n  local:\n    connection: {type: duckdb}\ndefault_gateway: local\n"
        "model_defaults: {dialect: spark}\n",
        encoding="utf-8",
    )


def _sqlmesh_type(kind: object) -> str:
    return {"long": "bigint", "string": "text"}.get(str(kind), str(kind))


def _sqlmesh_model(one: GeneratedModel, start: date) -> Iterator[str]:
    column = day_name(one.reads[0])
    day = day_name(one.name)
    yield f"MODEL (\n  name {one.name},\n  owner data,\n  start '{start}',\n  cron '@daily',"
    if one.kind == "total":
        yield "  kind FULL\n);"
    else:
        yield f"  kind INCREMENTAL_BY_TIME_RANGE (time_column {day})\n);"
    query = one.query.format(day="@start_date", column=column, shop="'Paris'")
    if one.kind != "total":
        head, _, rest = (
            query.rpartition("\nFROM ") if one.kind == "daily" else query.partition("\nFROM ")
        )
        query = f"{head},\n  @start_date AS {day}\nFROM {rest}"
    yield query


def make_tables(config: Config, number: int) -> None:
    """The mirrored tables of a project of so many models, without rows."""
    lake = Lake(config.lake)
    schema = Schema(
        *(NestedField(n, name, kind, required=n == 1) for n, (name, kind) in enumerate(_COLUMNS, 1))
    )
    for namespace in ("s_d", "s_d__clean"):
        lake.make_namespace(namespace)
        for place in range(table_count(number)):
            lake.catalog.create_table((namespace, f"sales_{place}"), schema)


def contract_text(number: int) -> str:
    """The contract file of a project of so many models."""
    tables = "".join(
        f"          sales_{n}: {{mode: append, key: [id], cursor: sold_at, start: 2021-01-01}}\n"
        for n in range(table_count(number))
    )
    return (
        'version: 1\nlake: {warehouse: lake}\nledger: {url: "sqlite:///ledger.db"}\n'
        "sources:\n  s:\n    host: 127.0.0.1\n    user: mirror\n"
        "    password: ${env:PLAN_PASSWORD}\n    databases:\n      d:\n"
        f"        tables:\n{tables}"
    )
