"""What Spark takes of each type in each place of a function or an operator, by trying: expressions
that are written down (`spark_expressions`), with other arguments in the place of theirs.

``spark_arguments.txt`` has what Spark 4.1 takes, so that a test without Spark can be held by it:
``name``, then for each place the letters of the types, as `LETTERS` has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sqlglot import exp

from mirrorlake.models.spark_sql.parser import parse_expression
from tests.support.spark_expressions import read_said

LETTERS = {
    "i": "i", "l": "l", "f": "f", "dec": "c", "s": "s", "b": "b", "d": "d", "t": "t", "bin": "x",
    "arr": "a", "m": "m", "st": "r", "CAST(i AS TINYINT)": "y", "CAST(f AS FLOAT)": "g",
    "CAST(t AS TIMESTAMP_NTZ)": "n", "NULL": "v",
}  # fmt: skip
"""An expression of each type → its letter."""
_BASES = {
    "int": "i", "bigint": "l", "double": "f", "decimal": "dec", "string": "s", "boolean": "b",
    "date": "d", "timestamp": "t", "binary": "bin", "array": "arr", "map": "m", "struct": "st",
    "void": "NULL", "interval day": "INTERVAL 1 DAY", "interval month": "INTERVAL 1 MONTH",
}  # fmt: skip
_ONE = (
    "NOT {}", "-{}", "~{}", "{} IS TRUE", "CASE WHEN {} THEN 1 END", "IF({}, 1, 2)", "{}[0]",
    "{}['x']", "sum({}) OVER ()", "extract(YEAR FROM {})", "extract(HOUR FROM {})", "date({})",
    "sum(i) FILTER (WHERE {})", "listagg({})", "max_by(i, {})", "count(*) OVER (PARTITION BY {})",
)  # fmt: skip
_TWO = (
    "{} + {}", "{} - {}", "{} * {}", "{} / {}", "{} % {}", "{} DIV {}", "{} & {}", "{} || {}",
    "{} = {}", "{} < {}", "{} <=> {}", "{} AND {}", "{} LIKE {}", "{} IN ({})", "nullif({}, {})",
    "CASE WHEN b THEN {} ELSE {} END", "CASE {} WHEN {} THEN 1 END", "coalesce({}, {})",
    "greatest({}, {})", "array_contains(array({}), {})",
)  # fmt: skip
_TARGETS = (
    "tinyint", "int", "bigint", "double", "decimal(10,2)", "string", "boolean", "date", "timestamp",
    "timestamp_ntz", "binary", "array<int>", "map<string,int>", "struct<x:int>",
)  # fmt: skip


def of_functions() -> Iterator[tuple[str, int, str, list[str]]]:
    """Name, place, letter and arguments: each argument of each function that is written down, in
    turn of each type."""
    for said in read_said():
        node = parse_expression(said.expression)
        if not isinstance(node, exp.Anonymous):
            continue
        name, arguments = str(node.this).lower(), [one.sql("spark") for one in node.expressions]
        if name in ("struct", "named_struct", "date_part"):
            continue
        for place in range(len(arguments)):
            for value, letter in LETTERS.items():
                others = [*arguments[:place], value, *arguments[place + 1 :]]
                yield name, place, letter, others


def of_counts() -> Iterator[str]:
    """The same functions with an argument less, and with one more."""
    for said in read_said():
        node = parse_expression(said.expression)
        if isinstance(node, exp.Anonymous):
            arguments = [one.sql("spark") for one in node.expressions]
            for several in (arguments[:-1], [*arguments, "2"], [*arguments, "'x'"]):
                yield f"{node.this}({', '.join(several)})"


def of_operators() -> Iterator[str]:
    """Operators, with each type on each side, and casts."""
    values = list(_BASES.values())
    for text in _ONE:
        yield from (text.format(value) for value in values)
    for text in _TWO:
        yield from (text.format(one, other) for one in values for other in values)
    for value in values:
        yield from (f"CAST({value} AS {target})" for target in _TARGETS)


def read_taken() -> dict[tuple[str, int], str]:
    """Function and place → the letters of the types that Spark takes there."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    found: dict[tuple[str, int], str] = {}
    for line in lines:
        if line and not line.startswith("#"):
            name, *places = line.split()
            found |= {(name, number): letters for number, letters in enumerate(places)}
    return found
