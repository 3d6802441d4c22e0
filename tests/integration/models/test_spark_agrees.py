"""What we say of queries without running them is what Spark's analyser says: of every expression
that is written down, and of all queries of TPC-H and TPC-DS.

Their texts and tables come from DuckDB's extensions; they are turned into Spark's SQL by a parser,
which is as good for both sides.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extension_tpcds
import duckdb_extension_tpch
import pytest
import sqlglot

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.binding.binder import bind
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed
from mirrorlake.models.spark_sql.parser import parse_query
from tests.integration.conftest import Place
from tests.support.spark_arguments import of_counts, of_functions, of_operators, read_taken
from tests.support.spark_expressions import COLUMNS, read_said
from tests.support.spark_queries import QueryMaker

pytestmark = pytest.mark.full

Table = list[tuple[str, str, bool]]
"""Columns: name, type, and whether it may be NULL."""


@pytest.fixture(scope="module")
def spark(place: Place) -> Any:
    return place.spark.get()


def view(spark: Any, name: str, table: Table) -> None:
    """An empty view of these columns."""
    columns = ", ".join(f"`{c}` {kind}{'' if null else ' NOT NULL'}" for c, kind, null in table)
    spark.createDataFrame([], columns).createOrReplaceTempView(name)


def spark_says(spark: Any, sql: str) -> list[tuple[str, str, bool]]:
    fields = spark.sql(sql).schema.fields
    return [(f.name, f.dataType.simpleString(), f.nullable) for f in fields]


def test_the_expressions_that_are_written_down(spark: Any) -> None:
    for name, null in (("never", False), ("nullable", True)):
        view(spark, name, [(column, kind, null) for column, kind in COLUMNS.items()])
    others: list[Any] = []
    for said in read_said():
        for name, null in (("never", said.null_of_never), ("nullable", said.null_of_nullable)):
            sql = f"SELECT {said.expression} AS c FROM {name}"
            found = spark_says(spark, sql)
            if found != [("c", said.type, null)]:
                others.append((said.expression, name, found))
    assert others == []


class Tables:
    def __init__(self, tables: dict[str, Table]) -> None:
        self._tables = tables

    def columns_of(self, name: str) -> Relation | None:
        table = self._tables.get(name)
        return table and Relation(tuple(NamedValue(c, Typed(k, n)) for c, k, n in table))

    def names(self) -> Sequence[str]:
        return list(self._tables)


SEED = int(os.environ.get("MIRRORLAKE_SEED", "65"))


def disagreements(spark: Any, queries: Iterable[str]) -> list[Any]:
    """The queries that we take and Spark does not, or of which Spark gives other types. What Spark
    takes and we don't is a restriction: it is said, and nothing runs."""
    tables = Tables(
        {name: [(c, k, True) for c, k in COLUMNS.items()] for name in ("t", "one", "two")}
    )
    for name in ("t", "one", "two"):
        view(spark, name, [(column, kind, True) for column, kind in COLUMNS.items()])
    found: list[Any] = []
    taken = 0
    for sql in queries:
        try:
            ours = [one.value.type for one in bind(parse_query(sql), tables).fields]
        except ModelError:
            continue
        taken += 1
        try:
            theirs = [kind for _, kind, _ in spark_says(spark, sql)]
        except Exception as error:  # noqa: BLE001 - Spark's own, whatever it is
            found.append((sql, str(error).split("\n")[0]))
            continue
        if theirs != ours and "interval" not in str(theirs):
            found.append((sql, ours, theirs))
    assert taken > 100
    return found


def test_queries_from_a_seed(spark: Any) -> None:
    assert disagreements(spark, QueryMaker(SEED).queries(800)) == []


def test_every_type_in_every_place(spark: Any) -> None:
    expressions = [*of_operators(), *of_counts()]
    some = random.Random(SEED).sample(expressions, 1_500)  # noqa: S311 - not for secrets
    assert disagreements(spark, (f"SELECT {one} AS c FROM t" for one in some)) == []


def test_what_is_written_down_of_arguments(spark: Any) -> None:
    view(spark, "t", [(column, kind, True) for column, kind in COLUMNS.items()])
    taken, others = read_taken(), list[str]()
    several = random.Random(SEED).sample(list(of_functions()), 800)  # noqa: S311 - not for secrets
    for name, place, letter, arguments in several:
        expression = f"{name}({', '.join(arguments)})"
        try:
            spark_says(spark, f"SELECT {expression} AS c FROM t")
        except Exception:  # noqa: BLE001, S112 - Spark's own, whatever it is: it does not take them
            continue
        if letter not in taken[name, place]:
            others.append(expression)
    assert others == []


@pytest.fixture(scope="module")
def benchmarks() -> Iterator[Any]:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for package in (duckdb_extension_tpcds, duckdb_extension_tpch):
        [extension] = Path(str(package.__file__)).parent.glob("extensions/*/*.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    yield connection
    connection.close()


@pytest.mark.parametrize(
    ("name", "generate", "count"), [("tpch", "dbgen", 22), ("tpcds", "dsdgen", 99)]
)
def test_the_queries_of_a_benchmark(
    name: str, generate: str, count: int, spark: Any, benchmarks: Any
) -> None:
    benchmarks.execute(f"CREATE SCHEMA {name}_s")
    benchmarks.execute(f"CALL {generate}(sf = 0, schema = '{name}_s')")
    found = benchmarks.execute(
        "SELECT table_name, column_name, lower(data_type), is_nullable = 'YES' "
        "FROM information_schema.columns WHERE table_schema = ? ORDER BY 1, ordinal_position",
        [f"{name}_s"],
    ).fetchall()
    tables: dict[str, Table] = {}
    for table, column, kind, null in found:
        spelled = {"varchar": "string", "integer": "int"}.get(kind, kind)
        tables.setdefault(table, []).append((column, spelled, null))
    for table, columns in tables.items():
        view(spark, table, columns)
    queries = [sql for _, sql in benchmarks.execute(f"FROM {name}_queries()").fetchall()]
    assert len(queries) == count
    others: list[Any] = []
    for number, sql in enumerate(queries, 1):
        [text] = sqlglot.transpile(sql, read="duckdb", write="spark")
        bound = bind(parse_query(text), Tables(tables))
        ours = [(one.name, one.value.type, one.value.nullable) for one in bound.fields]
        theirs = spark_says(spark, text)
        # A column without a name has one of Spark's making, and none of ours.
        named = [
            (there[0] if not here[0] else here[0], *here[1:])
            for here, there in zip(ours, theirs, strict=True)
        ]
        if named != theirs:
            others.append((number, named, theirs))
    assert others == []
