"""A query bound to its tables: errors with their places, and which source each name means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.binding.binder import bind
from mirrorlake.models.spark_sql.bound_query import BoundQuery, InputColumn, Trace
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed
from mirrorlake.models.spark_sql.parser import parse_query

TABLES = {
    "shop.sales": {"id": "bigint", "sold_on": "date", "city": "string", "amount": "decimal(12,2)"},
    "shop.stores": {"id": "bigint", "city": "string", "opened": "date", "tags": "array<string>"},
    "shop.events": {"id": "bigint", "at": "timestamp", "body": "struct<kind:string,place:struct<x:int>>"},
}  # fmt: skip
CONSTANTS = {"day": Typed("date", False), "store": Typed("string", False)}


class Tables:
    def columns_of(self, name: str) -> Relation | None:
        found = TABLES.get(name)
        return found and Relation(tuple(NamedValue(c, Typed(k, False)) for c, k in found.items()))

    def names(self) -> Sequence[str]:
        return list(TABLES)


def bound(sql: str) -> tuple[exp.Expr, BoundQuery]:
    query = parse_query(sql)
    return query, bind(query, Tables(), CONSTANTS)


def kinds(sql: str) -> dict[str, str]:
    return {one.name: one.value.type for one in bound(sql)[1].fields}


@pytest.mark.parametrize(
    ("sql", "words", "line", "col"),
    [
        ("SELECT id\nFROM shop.salse", "there is no table shop.salse; did you mean 'shop.sales'?", 2, 6),
        ("SELECT\n  amuont FROM shop.sales", "there is no column amuont; did you mean 'amount'?", 2, 3),
        ("SELECT sales.amuont FROM shop.sales", "there is no column amuont; did you mean 'amount'?", 1, 14),
        ("SELECT sale.id FROM shop.sales", "no source is called sale; did you mean 'sales'?", 1, 13),
        ("SELECT dya FROM shop.sales", "there is no column dya; did you mean 'day'?", 1, 8),
        ("SELECT id\nFROM shop.sales a\nJOIN shop.stores b ON a.city = b.city", "column id is ambiguous: 2", 1, 8),
        ("SELECT a.id FROM shop.sales a,\n shop.sales a", "two sources are called a", 2, 2),
        ("SELECT s.* FROM shop.sales a", "no source is called s", 1, 10),
        ("SELECT id FROM shop.sales\nUNION ALL\nSELECT id, city FROM shop.stores", "as many columns: 1 and 2", 3, 8),
        ("SELECT sold_on AS x FROM shop.sales\nUNION ALL SELECT\n tags FROM shop.stores", "column x is date on one side", 3, 2),
        ("SELECT id FROM shop.sales JOIN shop.stores USING (opened)", "no column opened on the left", 1, 0),
        ("SELECT id FROM shop.sales JOIN shop.stores USING (amount)", "no column amount on the right", 1, 0),
        ("SELECT body.knid FROM shop.events", "has no field knid", 1, 0),
        ("SELECT body.place.y FROM shop.events", "has no field y", 1, 0),
        ("SELECT x FROM shop.stores\nLATERAL VIEW explode(city) t AS x", "explode takes an array or a map, not string", 2, 14),
        ("SELECT x FROM shop.stores LATERAL VIEW explode(tags) t AS x, y", "explode gives 1 columns, not 2", 1, 40),
        ("WITH a (x, y) AS (SELECT id FROM shop.sales) SELECT x FROM a", "2 names are given to 1 columns", 1, 0),
        ("SELECT id FROM shop.sales WHERE EXISTS\n(SELECT 1 AS a FROM shop.stores b WHERE b.city = nothing)", "no column nothing", 2, 50),
        ("SELECT id FROM shop.sales WHERE id =\n(SELECT id, city FROM shop.stores)", "a subquery in an expression has one column", 2, 0),
        ("SELECT id FROM shop.sales\nORDER BY nothing", "there is no column nothing", 2, 10),
        ("SELECT id FROM shop.sales HAVING city", "HAVING takes a condition, not string", 1, 34),
        ("SELECT a.id FROM shop.sales a JOIN shop.stores b ON a.id", "ON takes a condition, not bigint", 1, 0),
        ("WITH RECURSIVE a AS (SELECT 1 AS x) SELECT x FROM a", "WITH RECURSIVE can't be analysed", 1, 0),
        ("SELECT sum(amount) OVER (PARTITION BY nothing) AS s FROM shop.sales", "no column nothing", 1, 39),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(sql: str, words: str, line: int, col: int) -> None:
    with pytest.raises(ModelError) as caught:
        bound(sql)
    assert words in str(caught.value)
    if col:  # the parser keeps no place of some clauses
        assert (caught.value.line, caught.value.col) == (line, col)


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT * EXCEPT (amount, City) FROM shop.sales", ["id", "sold_on"]),
        ("SELECT b.* EXCEPT (tags) FROM shop.sales a, shop.stores b", ["id", "city", "opened"]),
        ("SELECT * FROM shop.sales JOIN shop.stores USING (id, city)",
         ["id", "city", "sold_on", "amount", "opened", "tags"]),
        ("SELECT a.* FROM shop.sales a LEFT SEMI JOIN shop.stores b ON a.id = b.id",
         ["id", "sold_on", "city", "amount"]),
        ("SELECT id, tag FROM shop.stores LATERAL VIEW explode(tags) t AS tag", ["id", "tag"]),
        ("SELECT body.kind, body.place.x, e.body.place.x AS y FROM shop.events e", ["kind", "x", "y"]),
        ("SELECT id + 1 AS a, a + 1 AS b FROM shop.sales", ["a", "b"]),
        ("SELECT x FROM (SELECT id AS x FROM shop.sales)", ["x"]),
    ],
)  # fmt: skip
def test_columns(sql: str, found: list[str]) -> None:
    assert list(kinds(sql)) == found


def test_types_through_what_stands_between() -> None:
    assert kinds("SELECT body.place.x AS x, day AS d FROM shop.events") == {"x": "int", "d": "date"}
    sql = "SELECT id AS x FROM shop.sales UNION ALL SELECT amount FROM shop.sales"
    assert kinds(sql) == {"x": "decimal(22,2)"}


# --- the names of the scope -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT day FROM (SELECT sold_on AS day FROM shop.sales)",
        "WITH a AS (SELECT city AS store FROM shop.sales) SELECT 1 AS x FROM a WHERE store = 'x'",
        "SELECT id FROM shop.sales s WHERE EXISTS (SELECT 1 AS a FROM shop.stores b WHERE day = opened)",
        # Columns that USING makes one, and those which the SELECT itself names.
        "SELECT 1 AS x FROM (SELECT sold_on AS day FROM shop.sales) a "
        "JOIN (SELECT opened AS day FROM shop.stores) b USING (day) WHERE day = '2024-01-01'",
        "SELECT sold_on AS day, day + 1 AS x FROM shop.sales",
        "SELECT day + 1 AS day, day + 1 AS x FROM shop.sales",
        "SELECT date_trunc('MONTH', sold_on) AS day, count(*) AS n FROM shop.sales GROUP BY day",
    ],
)
def test_a_name_of_the_scope_that_a_column_has_too_is_refused(sql: str) -> None:
    if "EXISTS" in sql:  # no source there has it: it is the scope's
        bound(sql)
        return
    with pytest.raises(ModelError, match="and a name under `for`"):
        bound(sql)


def test_names_of_the_scope_stand_for_values() -> None:
    for sql in (
        "SELECT day, city FROM shop.sales WHERE sold_on = day AND city = store",
        "SELECT day AS day, count(*) AS n FROM shop.sales WHERE sold_on = day GROUP BY day ORDER BY day",
        "SELECT a.day FROM (SELECT sold_on AS day FROM shop.sales) a",
    ):
        query, found = bound(sql)
        assert found.fields[0].value.type == "date"
        named = [c for c in query.find_all(exp.Column) if c.name == "day" and not c.table]
        assert not any(id(column) in found.trace.columns for column in named)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("rand()", "rand"), ("uuid()", "uuid"), ("current_date", "current_date"), ("now()", "now"),
        ("current_date()", "current_date"), ("current_timestamp()", "current_timestamp"),
        ("unix_timestamp()", "unix_timestamp()"), ("monotonically_increasing_id()", "monotonically_increasing_id"),
    ],
)  # fmt: skip
def test_functions_that_no_row_decides(call: str, name: str) -> None:
    for sql in (
        f"SELECT {call} AS x FROM shop.sales",
        f"SELECT id FROM shop.sales WHERE {call} IS NOT NULL",
        f"WITH a AS (SELECT {call} AS x FROM shop.sales) SELECT x FROM a",
    ):
        assert [one for one, _ in bound(sql)[1].unstable] == [name]
    assert bound("SELECT upper(city) AS x, unix_timestamp(sold_on) AS y FROM shop.sales")[1].unstable == ()  # fmt: skip


# --- what a name means ----------------------------------------------------------------------------


def column(query: exp.Expr, name: str) -> exp.Column:
    (found,) = [one for one in query.find_all(exp.Column) if one.sql() == name]
    return found


def meant(trace: Trace, place: InputColumn) -> str:
    """A column as the table's or the subquery's that it is of."""
    key, name = place
    return f"{trace.tables.get(key, 'query')}.{name}"


def test_the_columns_of_tables() -> None:
    query, found = bound("SELECT a.id, city FROM shop.sales a JOIN shop.events e ON a.id = e.id")
    assert meant(found.trace, found.trace.columns[id(column(query, "e.id"))]) == "shop.events.id"
    assert meant(found.trace, found.trace.columns[id(column(query, "city"))]) == "shop.sales.city"
    assert [found.trace.tables[key] for key in found.trace.sources[id(query)]] == ["shop.sales", "shop.events"]  # fmt: skip
    assert found.reads == ("shop.sales", "shop.events")
    assert found.trace.renamed == set()


def test_a_cte_that_is_read_twice_is_two_sources_of_one_query() -> None:
    sql = "WITH a (x, y) AS (SELECT id, city FROM shop.sales) SELECT p.x FROM a p JOIN a q ON p.x = q.x"
    query, found = bound(sql)
    one, two = found.trace.sources[id(query)]
    assert one != two
    assert found.trace.queries[one] == found.trace.queries[two]
    inside, names = found.trace.queries[one]
    assert names == ["x", "y"]
    assert [name for name, _ in found.trace.outputs[id(inside)]] == ["id", "city"]
    assert found.reads == ("shop.sales",)


def test_a_subquery_with_other_names() -> None:
    query, found = bound("SELECT b FROM (SELECT id, sold_on FROM shop.sales) AS s (a, b)")
    (key,) = found.trace.sources[id(query)]
    inside, names = found.trace.queries[key]
    assert names == ["a", "b"]
    assert found.trace.columns[id(column(query, "b"))] == (key, "b")
    (_, output) = found.trace.outputs[id(inside)][1]
    assert output is column(query, "sold_on")
    assert found.trace.renamed == set()


def test_a_table_with_other_names_is_marked() -> None:
    query, found = bound("SELECT y FROM shop.sales AS s (w, x, y, z)")
    (key,) = found.trace.sources[id(query)]
    assert found.trace.renamed == {key}
    assert found.trace.columns[id(column(query, "y"))] == (key, "y")


def test_a_union_is_a_query_whose_sides_are_selects() -> None:
    sql = "SELECT x FROM (SELECT id AS x FROM shop.sales UNION ALL SELECT id FROM shop.stores) u"
    query, found = bound(sql)
    (key,) = found.trace.sources[id(query)]
    inside, names = found.trace.queries[key]
    assert isinstance(inside, exp.Union)
    assert names == ["x"]
    sides = [found.trace.outputs[id(side)] for side in (inside.left, inside.right)]
    assert [[name for name, _ in side] for side in sides] == [["x"], ["id"]]


def test_a_star_names_the_columns_of_its_sources() -> None:
    query, found = bound("SELECT *, day AS d FROM shop.sales")
    outputs = found.trace.outputs[id(query)]
    assert [name for name, _ in outputs] == ["id", "sold_on", "city", "amount", "d"]
    assert outputs[1][1] == (found.trace.sources[id(query)][0], "sold_on")
    merged = bound("SELECT * FROM shop.sales JOIN shop.stores USING (id)")
    name, place = merged[1].trace.outputs[id(merged[0])][0]
    # What `USING` makes one is the left side's.
    assert isinstance(place, tuple)
    assert (name, merged[1].trace.tables[place[0]], place[1]) == (
        "id",
        "shop.sales",
        "id",
    )


def test_a_correlated_subquery_names_the_outer_source() -> None:
    sql = "SELECT s.id FROM shop.sales s WHERE EXISTS (SELECT 1 AS a FROM shop.stores b WHERE b.opened = s.sold_on)"
    query, found = bound(sql)
    assert meant(found.trace, found.trace.columns[id(column(query, "s.sold_on"))]) == "shop.sales.sold_on"  # fmt: skip
    assert found.trace.columns[id(column(query, "s.sold_on"))][0] == found.trace.sources[id(query)][0]  # fmt: skip
