"""A rule that was found by one scope says of every other what a look at that one says."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, NestedField, StringType, TimestampType

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.models.compile import dependencies
from mirrorlake.models.compile.dependencies import Input, ModelInput, inputs_of, readers_of
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.project import compile_models
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.row_filters.rows_read import reach
from mirrorlake.models.scope_values.comprehension import Binding, Scopes
from mirrorlake.serving.catalogue import Catalogue
from tests.unit.models.test_reach import CHECKS, queries

NOW = datetime(2024, 4, 1, tzinfo=UTC)
CONTRACT = """
version: 1
lake: {warehouse: lake}
ledger: {url: "sqlite:///ledger.db"}
sources:
  s:
    host: 127.0.0.1
    user: mirror
    password: "${env:NO_SUCH_PASSWORD}"
    databases:
      d:
        tables:
          v: {mode: append, key: [k], cursor: day, start: 2024-01-01}
          sales: {mode: append, key: [k], cursor: at, start: 2024-01-01}
"""
COLUMNS = {"day": DateType(), "k": IntegerType(), "s": StringType(), "at": TimestampType()}


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    """A real lake with two tables, without rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_SUCH_PASSWORD", "x")
        path = tmp_path_factory.mktemp("rules") / "mirrorlake.yaml"
        path.write_text(CONTRACT)
        config = load_config(path)
    lake = Lake(config.lake)
    for namespace in ("s_d", "s_d__clean"):
        lake.make_namespace(namespace)
        for name in ("v", "sales"):
            fields = [NestedField(n, c, k) for n, (c, k) in enumerate(COLUMNS.items(), 1)]
            lake.catalog.create_table((namespace, name), Schema(*fields))
    return Catalogue(config, lake)


def declared(name: str, sql: str, *bindings: Binding, by: Sequence[str] = ()) -> Declaration:
    names = tuple(one.name for one in bindings)
    return Declaration(name, Path("x.sql"), sql, 1, Scopes(bindings), tuple(by) or names)


def bound(name: str, values: str | tuple[str, ...]) -> Binding:
    return Binding(name, values, 1)


SERIES = "TIMESERIES('2024-02-20', '2024-04-05', 'P1D')"
ABOVE = (
    declared("m.t", "SELECT CAST(1 AS INT) AS k, 'a' AS s", bound("day", SERIES)),
    declared(
        "m.u",
        "SELECT CAST(1 AS INT) AS n",
        bound("day", "TIMESERIES('2024-02-25', '2024-03-20', 'P1D')"),
        bound("k", "RANGE(0, 3)"),
        bound("s", ("a", "b", "B")),
    ),
    declared("m.months", "SELECT 1 AS n", bound("month", "TIMESERIES('2023-11-01', '2024-06-01', 'P1M')")),
    declared("m.hours", "SELECT 1 AS n", bound("hour", "TIMESERIES('2024-02-27', '2024-03-03', 'PT1H')")),
)  # fmt: skip


def project_of(catalogue: Catalogue, *models: Declaration) -> Project:
    project = compile_models([*ABOVE, *models], catalogue, NOW)
    assert project.problems == (), project.problems[0].message
    return project


def looked_at(
    project: Project, catalogue: Catalogue, model: Model, scope: Mapping[str, Any]
) -> tuple[Input, ...]:
    """What a scope reads, by a look at it alone and at every partition of what it reads."""
    found = reach(model.query, model.bound, scope)
    inputs: list[Input] = []
    for table in model.bound.reads:
        mentions = [one for one in found if one.table == table]
        above = project.models.get(table)
        if above is None:
            mirrored = catalogue.table(table)
            assert mirrored is not None
            inputs.append(dependencies._of_mirror(table, mirrored.day, mentions))
            continue
        by = above.declaration.partition_by
        keys = dict.fromkeys(
            above.key_of(one)
            for one in above.scopes
            if any(all(m.bound(n).touches(one[n], one[n]) for n in by) for m in mentions)
        )
        bounded = bool(by) and all(any(not m.bound(n).is_all for n in by) for m in mentions)
        inputs.append(ModelInput(table, tuple(keys), bounded))
    return tuple(inputs)


def assert_rules_say_the_same(
    project: Project, catalogue: Catalogue, model: Model, scopes: Sequence[Mapping[str, Any]]
) -> None:
    for scope in scopes:
        found = inputs_of(project, catalogue, model, scope)
        assert found == looked_at(project, catalogue, model, scope), (model.declaration.sql, scope)


# --- what people write ----------------------------------------------------------------------------

P, HOUR = (
    bound("p", SERIES),
    bound("at_", "TIMESERIES('2024-02-27T01:00:00', '2024-03-03', 'PT6H')"),
)
MONTH = bound("p", "TIMESERIES('2023-12-01', '2024-05-01', 'P1M')")
STORES = bound("w", ("a", "b", "C"))


@pytest.mark.parametrize(
    ("where", "bindings", "rules"),
    [
        # one rule for all days
        ("m.t WHERE day = p", [P], 1),
        ("m.t WHERE day BETWEEN DATE_SUB(p, 6) AND p", [P], 1),
        ("m.t WHERE day > p - INTERVAL 1 WEEK AND day <= p + 1", [P], 1),
        ("m.t a JOIN m.t b ON a.day = b.day - 1 WHERE a.day = p", [P], 1),
        ("(SELECT day + 2 AS d FROM m.t) x WHERE d IN (p, DATE_ADD(p, 10))", [P], 1),
        ("s_d.sales WHERE DATE(at) = p", [P], 1),
        ("s_d.sales WHERE at >= p AND at < DATE_ADD(p, 1)", [P], 1),
        ("s_d.sales WHERE at BETWEEN p - INTERVAL 3 DAY AND p AND k = 3", [P], 1),
        ("m.hours WHERE hour >= p AND hour < p + 1", [P], 1),
        ("s_d.v WHERE day = p OR k = 1", [P], 1),
        ("m.u WHERE k = 1 AND s <> 'a'", [P], 1),
        # one for each value, and for each time of day
        ("m.u WHERE day = p AND s = w", [P, STORES], 3),
        ("m.u WHERE day = p", [P, STORES], 1),
        ("s_d.sales WHERE at >= at_ AND at < at_ + INTERVAL 6 HOUR", [HOUR], 4),
        ("m.hours WHERE hour = at_", [HOUR], 4),
        # names that stand so far apart
        ("m.t WHERE day BETWEEN p AND q", [P, bound("q", "DATE_ADD(p, 3)")], 1),
        ("m.t WHERE day BETWEEN p AND q", [MONTH, bound("q", "LAST_DAY(p)")], 3),
        # days beside a constant: before it, on it, after it
        ("m.t WHERE day = p AND day >= '2024-03-01'", [P], 3),
        ("m.t WHERE day = p AND day <> '2024-03-01'", [P], 1),
        ("m.t WHERE day BETWEEN '2024-03-01' AND p", [P], None),
        # the calendar: one for each month, week or year
        ("m.t WHERE TRUNC(day, 'MONTH') = TRUNC(p, 'MONTH')", [P], 3),
        ("m.months WHERE month = TRUNC(p, 'MM')", [P], 3),
        ("m.t WHERE day BETWEEN p AND LAST_DAY(p)", [P], 5),
        ("m.t WHERE day = TRUNC(p, 'WEEK')", [P], 7),
        ("m.t WHERE YEAR(day) = YEAR(p)", [P], 1),
        ("m.t WHERE day > ADD_MONTHS(p, -1) AND day <= p", [P], None),
        ("m.months WHERE month = p - INTERVAL 1 MONTH", [MONTH], 5),
        ("s_d.v WHERE day >= IF(p > '2024-03-01', p, TRUNC(p, 'MM'))", [P], None),
        # what only one day can say
        ("m.t WHERE day = p AND DAYOFWEEK(p) = 1", [P], 45),
        ("m.t WHERE day = CAST(CONCAT('2024-03-', DAY(p)) AS DATE)", [P], 45),
        ("m.t WHERE day = DATE '2024-02-27' + DATEDIFF(p, '2024-02-20')", [P], 45),
    ],
)  # fmt: skip
def test_a_rule_holds_for_all_scopes_that_it_says(
    catalogue: Catalogue, where: str, bindings: list[Binding], rules: int | None
) -> None:
    project = project_of(catalogue, declared("m.one", f"SELECT 1 AS n FROM {where}", *bindings))
    model = project.model("m.one")
    scopes = [*model.scopes]
    random.Random(7).shuffle(scopes)  # noqa: S311 - no secret
    assert_rules_say_the_same(project, catalogue, model, scopes)
    found = sum(map(len, model.rules.rules.values()))
    assert rules is None or found == rules
    assert found <= len(scopes)


def test_the_readers_of_a_partition_are_those_that_read_it(catalogue: Catalogue) -> None:
    readers = {
        "m.week": ("m.t WHERE day BETWEEN DATE_SUB(p, 6) AND p", [P]),
        "m.past": ("m.t WHERE day <= p AND day >= '2024-03-01'", [P, STORES]),
        "m.month": ("m.t WHERE day BETWEEN p AND LAST_DAY(p) OR day = p - 3", [MONTH]),
        "m.odd": ("m.t WHERE day = p AND DAYOFWEEK(p) = 1", [P]),
        "m.store": ("m.u WHERE day = p AND s = w", [P, STORES]),
        "m.hourly": ("m.hours WHERE hour >= p AND hour < p + 1", [P]),
        "m.quarter": ("m.hours WHERE hour >= at_ AND hour < at_ + INTERVAL 6 HOUR", [HOUR]),
        "m.rest": ("m.t WHERE day = DATE '2024-03-01'", [STORES]),
        "m.none": ("m.t WHERE 1 = 2", [P]),
        "m.each": ("m.u", []),
    }
    models = [
        declared(name, f"SELECT 1 AS n FROM {where}", *bindings)
        for name, (where, bindings) in readers.items()
    ]
    project = project_of(catalogue, *models)
    for above in ("m.t", "m.u", "m.hours"):
        model = project.model(above)
        expected: dict[str, dict[str, list[str]]] = {}
        for name in project.readers[above]:
            reader = project.model(name)
            for scope in reader.scopes:
                for one in looked_at(project, catalogue, reader, scope):
                    for key in one.keys if isinstance(one, ModelInput) else ():
                        expected.setdefault(key, {}).setdefault(name, [])
                        expected[key][name].append(reader.key_of(scope))
        for scope in model.scopes:
            found = readers_of(project, catalogue, model, scope)
            there = {name: list(keys) for name, keys in found.items() if keys}
            assert there == expected.get(model.key_of(scope), {}), scope


# --- whatever can be written ----------------------------------------------------------------------

DAYS = [
    *("p", "p", "p", "q", "p - 1", "DATE_SUB(p, 3)", "DATE_ADD(q, 1)", "p + INTERVAL 1 DAY"),
    *("p - INTERVAL 1 WEEK", "TRUNC(p, 'MONTH')", "TRUNC(p, 'WEEK')", "TRUNC(q, 'QUARTER')"),
    *("LAST_DAY(p)", "ADD_MONTHS(p, -1)", "p - INTERVAL 1 MONTH", "DATE(at_)", "CAST(at_ AS DATE)"),
    *("IF(p > DATE '2024-03-01', p, q)", "IF(p > q, p, DATE '2024-03-03')", "MAKE_DATE(YEAR(p), 3, 1)"),
    *("at_", "at_ - INTERVAL 5 HOUR", "DATE_TRUNC('DAY', at_)", "DATE_TRUNC('MONTH', at_ - INTERVAL 1 DAY)"),
    *("'2024-02-29'", "CAST('2024-02-28' AS TIMESTAMP)", "DATE '2024-03-01'"),
    "DATE '2024-02-27' + DATEDIFF(p, '2024-02-20')",
    "CASE WHEN w = 'a' THEN p WHEN YEAR(p) = 2024 THEN q END",
]  # fmt: skip
NUMBERS = ["num", "num + 1", "MONTH(p)", "DAYOFWEEK(p)", "DATEDIFF(p, q)", "1", "QUARTER(q) - num"]
TEXTS = ["w", "w", "'a'", "LOWER(w)", "CAST(p AS STRING)", "CONCAT(w, '')"]
BOUND = st.tuples(
    st.sampled_from(
        [
            "TIMESERIES('2024-02-24', '2024-03-09', 'P1D')",
            "TIMESERIES('2023-11-30', '2024-05-31', 'P1M')",
            "TIMESERIES('0001-01-02', '0001-01-12', 'P1D')",
            "TIMESERIES('9999-12-20', '9999-12-28', 'P1D')",
            "TIMESERIES('2024-02-20', '2024-04-05', 'P1W')",
        ]
    ),
    st.sampled_from(["LAST_DAY(p)", "DATE_ADD(p, 3)", "TRUNC(p, 'MM')", "DATE '2024-03-01'"]),
    st.sampled_from(
        ["CAST(p AS TIMESTAMP)", "CAST(q AS TIMESTAMP) + INTERVAL 7 HOUR",
         "TIMESERIES('2024-02-28T22:00:00', '2024-02-29T08:00:00', 'PT5H')"]
    ),
)  # fmt: skip


@st.composite
def with_names(draw: st.DrawFn) -> str:
    """A query in which names of a scope stand in place of some constants."""
    text = draw(queries())
    text = re.sub(r"(?<![\w.])([tu])(?= AS)", r"m.\1", text)
    text = re.sub(r"(?<![\w.])v(?= AS)", "s_d.v", text)
    text = re.sub(r"DATE '[-0-9]+'( \+ 1)?", lambda _: f"({draw(st.sampled_from(DAYS))})", text)
    text = re.sub(
        r"(?<=[ (])[012](?=[ ,)]|$)(?! - )", lambda _: draw(st.sampled_from(NUMBERS)), text
    )
    return re.sub(r"'[abB]'", lambda _: draw(st.sampled_from(TEXTS)), text)


def assert_random_scopes_read_what_their_rules_say(
    catalogue: Catalogue, sql: str, values: tuple[str, str, str], random: random.Random
) -> None:
    names = [
        *zip(("p", "q", "at_"), values, strict=True),
        ("num", "RANGE(0, 2)"),
        ("w", ("a", "b")),
    ]
    model = declared("m.one", sql, *(bound(name, one) for name, one in names))
    project = compile_models([*ABOVE, model], catalogue, NOW)
    assume(not project.problems)
    one = project.model("m.one")
    scopes = random.sample(list(one.scopes), min(len(one.scopes), 8))
    assert_rules_say_the_same(project, catalogue, one, scopes)
    name = next((table for table in ("m.t", "m.u") if table in one.reads), None)
    if name is None or len(one.scopes) > 40:
        return
    above = project.model(name)
    partition = random.choice(above.scopes)
    found = set(readers_of(project, catalogue, above, partition)["m.one"])
    for scope in scopes:
        inputs = inputs_of(project, catalogue, one, scope)
        keys = next(i.keys for i in inputs if isinstance(i, ModelInput) and i.table == name)
        assert (one.key_of(scope) in found) == (above.key_of(partition) in keys), (sql, scope)


TAKES: Callable[[int], settings] = lambda examples: settings(  # noqa: E731
    max_examples=examples,
    deadline=None,
    suppress_health_check=[*CHECKS, HealthCheck.function_scoped_fixture],
)


@pytest.mark.full
@TAKES(10)
@given(sql=with_names(), values=BOUND, random=st.randoms(use_true_random=False))
def test_rules_of_random_queries(
    catalogue: Catalogue, sql: str, values: tuple[str, str, str], random: random.Random
) -> None:
    assert_random_scopes_read_what_their_rules_say(catalogue, sql, values, random)


@pytest.mark.full
@TAKES(1_000)
@given(sql=with_names(), values=BOUND, random=st.randoms(use_true_random=False))
def test_rules_of_many_random_queries(
    catalogue: Catalogue, sql: str, values: tuple[str, str, str], random: random.Random
) -> None:
    assert_random_scopes_read_what_their_rules_say(catalogue, sql, values, random)
