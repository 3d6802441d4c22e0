"""What Spark does not take, or nobody analyses, is refused where it stands, before anything runs."""

from __future__ import annotations

import pytest

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql.parser import parse_query
from tests.unit.models.test_binder import bound

S = "FROM shop.sales"


@pytest.mark.parametrize(
    ("sql", "words", "line", "col"),
    [
        # Clauses of other dialects, which the parser reads.
        (f"SELECT id {S}\nQUALIFY row_number() OVER (ORDER BY id) = 1", "QUALIFY can't be", 2, 9),
        (f"SELECT DISTINCT ON (city) id {S}", "DISTINCT ON can't be", 1, 21),
        (f"SELECT * REPLACE (1 AS id) {S}", "* REPLACE can't be", 1, 19),
        (f"SELECT * RENAME (id AS x) {S}", "* RENAME can't be", 1, 18),
        (f"SELECT * ILIKE 'a%' {S}", "* ILIKE can't be", 1, 18),
        (f"SELECT id,\n city:a {S}", "a path within a column", 2, 2),
        (f"SELECT id BETWEEN SYMMETRIC 1 AND 2 AS x {S}", "BETWEEN SYMMETRIC can't be", 1, 8),
        (f"SELECT id\n{S} VERSION AS OF 3", "VERSION AS OF can't be", 2, 6),
        (f"SELECT id\n{S} TIMESTAMP AS OF '2024-01-01'", "VERSION AS OF can't be", 2, 6),
        (f"SELECT id, {S}", "nothing follows the comma", 1, 10),
        (f"{S} |> SELECT id", "|> can't be", 1, 17),
        (f"SELECT id {S} FETCH FIRST 3 ROWS ONLY", "FETCH FIRST 3 ROWS ONLY can't be", 1, 39),
        (f"SELECT id {S} CLUSTER BY city", "CLUSTER BY city can't be", 1, 38),
        (f"SELECT id {S} FOR UPDATE", "FOR UPDATE can't be", 1, 8),
        (f"SELECT id {S} UNION BY NAME SELECT id {S}", "BY NAME can't be", 1, 8),
        (f"SELECT id {S} STRAIGHT_JOIN shop.stores", "STRAIGHT_JOIN JOIN can't be", 1, 41),
        (f"SELECT /*+ SKEW('x') */ id {S}", "the hint SKEW('x') can't be", 1, 0),
        (f"SELECT +id {S}", "+ adds: nothing is before it", 1, 8),
        ("SELECT MAP {'a': 1}", "can't be", 1, 18),
        ("SELECT 1 AS x, current_user", "CURRENT_USER() can't be", 1, 8),
        ("SELECT id FROM range(3)", "RANGE(3) in place of a table", 1, 16),
        ("SELECT ? AS x", "a parameter,", 1, 0),
        # What is neither grouped nor aggregated.
        (f"SELECT city,\n id, count(*) AS n {S} GROUP BY city", "id is neither under GROUP BY", 2, 2),
        (f"SELECT id, count(*) AS n {S}", "id is neither under GROUP BY", 1, 8),
        (f"SELECT *, count(*) AS n {S} GROUP BY id", "sold_on is neither under GROUP BY", 1, 0),
        (f"SELECT id {S} HAVING id > 1", "id is neither under GROUP BY", 1, 8),
        (f"SELECT city {S} GROUP BY city HAVING id > 1", "id is neither", 1, 50),
        (f"SELECT city {S} GROUP BY city ORDER BY id", "id is neither", 1, 52),
        (f"SELECT city, (SELECT max(b.id) FROM shop.stores b WHERE b.opened = s.sold_on) AS x {S} s "
         "GROUP BY city", "sold_on is neither", 1, 70),
        (f"SELECT sum(amount) OVER (ORDER BY id) AS x {S} GROUP BY amount", "id is neither", 1, 35),
        (f"SELECT DISTINCT city {S} ORDER BY id", "SELECT DISTINCT does not give", 1, 47),
        (f"SELECT DISTINCT city AS c {S} ORDER BY city", "SELECT DISTINCT does not give", 1, 52),
        (f"SELECT DISTINCT id + 1 AS n {S} ORDER BY id + 1", "DISTINCT does not give", 1, 0),
        (f"SELECT DISTINCT city, max(id) AS n {S} GROUP BY city ORDER BY max(id)", "DISTINCT does not give", 1, 0),
        (f"SELECT id {S} ORDER BY 1 EXCEPT SELECT id {S}", "before EXCEPT, without brackets", 1, 0),
        (f"SELECT id {S} LIMIT 1 UNION ALL SELECT id {S}", "before UNION, without brackets", 1, 0),
        (f"SELECT id {S} UNION SELECT id {S} OFFSET 1 INTERSECT SELECT id {S}", "before INTERSECT", 1, 0),
        ("SELECT struct((1 AS x)) AS s", "a name within brackets", 1, 0),
        ("SELECT struct(current_date) AS s", "needs a name", 1, 0),
        ("SELECT named_struct(upper('a'), 1) AS s", "takes names as texts", 1, 0),
        (f"SELECT city {S} GROUP BY 2", "GROUP BY 2: there are 1 columns", 1, 0),
        (f"SELECT city {S} ORDER BY 2", "ORDER BY 2: there are 1 columns", 1, 0),
        # Aggregates and windows where Spark takes none.
        (f"SELECT id {S} WHERE max(id) > 1", "WHERE has an aggregate", 1, 0),
        (f"SELECT id {S} WHERE row_number() OVER (ORDER BY id) = 1", "WHERE has a window", 1, 0),
        (f"SELECT max(id) AS n {S} GROUP BY max(id)", "GROUP BY has an aggregate", 1, 0),
        (f"SELECT a.id {S} a JOIN shop.stores b ON max(a.id) = b.id", "ON has an aggregate", 1, 0),
        (f"SELECT sum(max(id)) AS n {S}", "an aggregate has another one", 1, 0),
        (f"SELECT id {S} ORDER BY sum(id)", "ORDER BY has an aggregate", 1, 0),
        (f"SELECT row_number() AS n {S}", "row_number needs OVER", 1, 8),
        (f"SELECT rank() OVER () AS n {S}", "rank needs ORDER BY", 1, 8),
        (f"SELECT upper(city) OVER () AS n {S}", "upper can't have OVER", 1, 8),
        (f"SELECT sum(id) OVER w AS n {S}", "no window is called w", 1, 8),
        (f"SELECT sum(DISTINCT id) OVER () AS n {S}", "a window takes no DISTINCT", 1, 8),
        (f"SELECT id {S} LIMIT id", "LIMIT takes a whole number", 1, 0),
        (f"SELECT id {S} UNION SELECT id {S} ORDER BY amount", "ORDER BY is by the query's own", 1, 0),
        (f"SELECT * EXCEPT (idd) {S}", "* EXCEPT: there is no column idd", 1, 18),
        ("SELECT * FROM VALUES (1), (2, 3)", "all rows of VALUES", 1, 0),
        # What the parser and Spark read in another order, or find in another place.
        (f"SELECT id {S} WHERE sold_on BETWEEN sold_on AND sold_on = city", "without brackets", 1, 33),
        (f"SELECT id {S} WHERE city <=> sold_on BETWEEN day AND day", "without brackets", 1, 33),
        (f"SELECT id & 1 + 2 AS x {S}", "without brackets", 1, 8),
        (f"SELECT id {S} opened WHERE EXISTS (SELECT 1 FROM shop.stores b WHERE b.id = opened.id)",
         "opened is a column here", 1, 0),
        (f"SELECT city AS c, count(*) AS n {S} GROUP BY ROLLUP (city) ORDER BY city", "takes columns of the SELECT here", 1, 0),
        # Types that Spark does not take.
        (f"SELECT year(id) AS x {S}", "year does not take (bigint)", 1, 8),
        (f"SELECT upper(city, 'x') AS x {S}", "upper does not take (string, string)", 1, 8),
        (f"SELECT id AND true AS x {S}", "AND takes a condition, not bigint", 1, 8),
        (f"SELECT CAST(sold_on AS INT) AS x {S}", "date can't be cast to int", 1, 13),
        (f"SELECT id {S} WHERE NULL", "WHERE takes a condition, not void", 1, 0),
        (f"SELECT amount DIV CAST(1 AS DOUBLE) AS x {S}", "have no type in common", 1, 8),
    ],
)  # fmt: skip
def test_what_spark_would_refuse_is_refused_at_its_place(
    sql: str, words: str, line: int, col: int
) -> None:
    with pytest.raises(ModelError) as caught:
        bound(sql)
    assert words in str(caught.value)
    assert caught.value.line == line or not col
    if col:  # the parser keeps no place of some nodes
        assert caught.value.col == col


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT upper(city) AS c, count(*) AS n {S} GROUP BY upper(city) HAVING n > 1 ORDER BY n",
        f"SELECT (id) + 1 AS x, max(id) + 1 AS m {S} GROUP BY ID + 1 ORDER BY (id + 1)",
        f"SELECT city AS c, count(*) AS n {S} GROUP BY c ORDER BY 2 DESC LIMIT 3",
        f"SELECT city, sum(amount) AS n {S} GROUP BY ALL",
        f"SELECT s.city, sum(sum(amount)) OVER (ORDER BY city) AS n {S} s GROUP BY sales.city"
        .replace("sales.city", "city"),
        f"SELECT city, sum(id) FILTER (WHERE amount > 1) AS n {S} GROUP BY 1",
        f"SELECT day, store, count(*) AS n {S}",
        f"SELECT sum(id) OVER w AS n {S} WINDOW w AS (PARTITION BY city ORDER BY id)",
        f"SELECT /*+ BROADCAST(b), REPARTITION(3) */ a.id {S} a JOIN shop.stores b ON a.id = b.id",
        f"SELECT id {S} TABLESAMPLE (5 ROWS) LIMIT 3 OFFSET 1",
        "SELECT body.kind AS k, count(*) AS n FROM shop.events GROUP BY body",
        f"SELECT DISTINCT city, id {S} ORDER BY city, id + 1",
        f"SELECT DISTINCT s.city, id AS n {S} s ORDER BY s.city, n + 1",
        f"SELECT DISTINCT * {S} ORDER BY sales.id, city",
        f"SELECT DISTINCT (city) {S} ORDER BY city",
        f"SELECT id {S} ORDER BY (SELECT 1 LIMIT 1), id",
        f"(SELECT id {S} LIMIT 1) EXCEPT SELECT id {S} ORDER BY id LIMIT 1",
        f"(SELECT id {S}) UNION ALL (SELECT id {S}) ORDER BY id LIMIT 1",
    ],
)  # fmt: skip
def test_what_spark_takes_is_not_refused(sql: str) -> None:
    bound(sql)


def test_one_expression_is_looked_at_as_a_query_is() -> None:
    with pytest.raises(ModelError, match="can't be analysed"):
        parse_query("SELECT transform(a, x -> x + 1)")
