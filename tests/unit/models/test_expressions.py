"""Types and nullability of expressions are those that Spark says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import functions
from mirrorlake.models.spark_sql.binding.binder import bind
from mirrorlake.models.spark_sql.bound_query import BoundQuery
from mirrorlake.models.spark_sql.columns import NamedValue, Origin, Relation, Typed
from mirrorlake.models.spark_sql.parser import parse_expression, parse_query
from tests.support.spark_arguments import of_functions, read_taken
from tests.support.spark_expressions import COLUMNS, Said, read_said


def relation(*, nullable: bool) -> Relation:
    return Relation(
        tuple(
            NamedValue(name, Typed(kind, nullable, frozenset({Origin("t", name)})))
            for name, kind in COLUMNS.items()
        )
    )


class Tables:
    """Two tables of the same columns: of one no value is ever NULL."""

    def columns_of(self, name: str) -> Relation | None:
        found = {"never": relation(nullable=False), "nullable": relation(nullable=True)}
        return found.get(name)

    def names(self) -> Sequence[str]:
        return ["never", "nullable"]


def bound(sql: str) -> BoundQuery:
    return bind(parse_query(sql), Tables())


@pytest.mark.parametrize("said", read_said(), ids=lambda said: said.expression)
def test_an_expression_is_what_spark_says(said: Said) -> None:
    for table, null in (("never", said.null_of_never), ("nullable", said.null_of_nullable)):
        (found,) = bound(f"SELECT {said.expression} AS c FROM {table}").fields
        assert (found.value.type, found.value.nullable) == (said.type, null), table


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM never", list(COLUMNS)),
        ("SELECT * EXCEPT (bin, arr, m, st) FROM never", list(COLUMNS)[:8]),
        ("SELECT n.i, x.* FROM never n JOIN (SELECT l, s FROM nullable) x ON n.l = x.l", ["i", "l", "s"]),
        ("SELECT * FROM (SELECT i, l FROM never) JOIN (SELECT i, s FROM never) USING (i)", ["i", "l", "s"]),
        ("WITH a (x, y) AS (SELECT i, l FROM never) SELECT * FROM a", ["x", "y"]),
        ("SELECT i AS a FROM never UNION ALL SELECT l FROM nullable", ["a"]),
        ("SELECT k, v FROM never LATERAL VIEW explode(m) e AS k, v", ["k", "v"]),
        ("SELECT * FROM VALUES (1, 'a'), (2, 'b') AS t (x, y)", ["x", "y"]),
    ],
)  # fmt: skip
def test_the_columns_of_a_query(sql: str, names: list[str]) -> None:
    assert [one.name for one in bound(sql).fields] == names


def test_origins_go_through_everything_that_a_value_is_made_of() -> None:
    sql = """
    WITH a AS (SELECT upper(s) AS name, CASE WHEN b THEN i ELSE 0 END AS n FROM never),
         c AS (SELECT name, sum(n) AS total FROM a GROUP BY name)
    SELECT concat(name, '!') AS name, total + 1 AS total, 7 AS seven FROM c WHERE total > 0
    """
    found = {one.name: {o.column for o in one.value.origins} for one in bound(sql).fields}
    assert found == {"name": {"s"}, "total": {"b", "i"}, "seven": set()}


def test_the_side_of_an_outer_join_that_may_have_no_row() -> None:
    sql = "SELECT a.i AS l, b.i AS r FROM never a {} JOIN never b ON a.l = b.l"
    found = {
        kind: [one.value.nullable for one in bound(sql.format(kind)).fields]
        for kind in ("INNER", "LEFT", "RIGHT", "FULL")
    }
    assert found == {
        "INNER": [False, False],
        "LEFT": [False, True],
        "RIGHT": [True, False],
        "FULL": [True, True],
    }


@pytest.mark.parametrize(
    ("sql", "words", "place"),
    [
        ("SELECT x FROM never", "there is no column x", (1, 8)),
        ("SELECT lenght(s) FROM never", "there is no function lenght", (1, 8)),
        ("SELECT i\nFROM nevr", "there is no table nevr; did you mean 'never'?", (2, 6)),
        ("SELECT i FROM never a, nullable b", "column i is ambiguous", (1, 8)),
        ("SELECT z.i FROM never", "no source is called z", (1, 10)),
        ("SELECT d + b FROM never", "date and boolean have no type in common", (1, 8)),
        ("SELECT i FROM never UNION SELECT b FROM never", "int on one side of the UNION", (1, 34)),
        ("SELECT i, l FROM never UNION SELECT i FROM never", "as many columns: 2 and 1", (1, 37)),
        ("SELECT i FROM never WHERE s", "WHERE takes a condition, not string", (1, 27)),
        ("SELECT i FROM never WHERE l IN (SELECT i, l FROM never)", "a query of one column", None),
        ("SELECT i FROM never GROUP BY nothing", "there is no column nothing", (1, 30)),
        ("SELECT sum(b) FROM never", "sum does not take (boolean)", (1, 8)),
        ("SELECT i FROM", "the query can't be read", None),
        ("SELECT 1 AS a; SELECT 2 AS b", "a model is one query, not 2", None),
        ("DELETE FROM never", "is no query", None),
        ("SELECT * FROM never NATURAL JOIN nullable", "NATURAL JOIN changes", None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_place(
    sql: str, words: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(ModelError) as caught:
        bound(sql)
    assert words in str(caught.value)
    if place is not None:
        # Of a qualified name the column or its source, whichever the parser has the place of.
        assert caught.value.line == place[0]
        assert abs((caught.value.col or 0) - place[1]) <= 2


def test_functions_that_no_row_decides_are_named() -> None:
    sql = "SELECT rand() AS r, unix_timestamp() AS u, unix_timestamp(t) AS v, current_date AS d FROM never"
    assert [name for name, _ in bound(sql).unstable] == ["rand", "unix_timestamp()", "current_date"]


@cache
def argument(text: str) -> tuple[Typed, bool]:
    """An argument, and whether it is a literal."""
    [one] = bound(f"SELECT {text} AS c FROM nullable").fields
    return one.value, isinstance(parse_expression(text), exp.Literal | exp.Boolean | exp.Neg)


def test_no_argument_is_taken_that_spark_does_not_take() -> None:
    taken, wrong, known = read_taken(), list[str](), 0
    for name, place, letter, texts in of_functions():
        values, literals = zip(*map(argument, texts), strict=True)
        if functions.call(name, values, literals) is None:
            continue
        known += 1
        if letter not in taken[name, place]:
            wrong.append(f"{name}({', '.join(texts)})")
    assert wrong == []
    assert known > 1_500
