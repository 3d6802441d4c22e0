"""Columns that a test gives of tables that nothing else knows the columns of.

What belongs here: their types, and the problems of a test while it is read. What doesn't: rows
(`mirrorlake.models.testing.bound_tests`).
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.config.yaml.yaml_file import Problem
from mirrorlake.errors import ModelError
from mirrorlake.models.files.tests import ModelTest
from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.casts import written_type
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed
from mirrorlake.models.spark_sql.parser import parse_expression

_SIMPLE = {*types.INTEGERS, *types.FRACTIONS, *types.MOMENTS, "boolean", "string", "binary"}


class TestReading:
    """A test that is read, and what was found wrong with it so far."""

    def __init__(self, test: ModelTest) -> None:
        self.test = test
        self._problems: list[Problem] = []

    def wrong(self, inside: YamlPath, message: str, *, at_key: bool = False) -> None:
        self._problems.append(self.test.problem(inside, message, at_key=at_key))

    def raise_problems(self) -> None:
        if self._problems:
            first = min(self._problems)
            words = "\n".join(f"{self.test.path}:{one}" for one in sorted(self._problems))
            raise ModelError(words, place=(first.line, first.column))


def typed_columns(reading: TestReading, table: str, columns: Mapping[str, str]) -> Relation:
    """The columns of a table by what the test says; any may be NULL."""
    found: list[NamedValue] = []
    for name, text in columns.items():
        kind = _type(text)
        if kind is None:
            words = f"{text!r} is no type: write it as Spark does, like decimal(10,2)"
            reading.wrong(("columns", table, name), words)
        else:
            found.append(NamedValue(name, Typed(kind, True)))
    return Relation(tuple(found))


def _type(text: str) -> str | None:
    """A type as Spark writes it; None of what is none, or can't be in a test."""
    try:
        cast = parse_expression(f"CAST(NULL AS {text})")
        if not isinstance(cast, exp.Cast):
            return None
        kind = written_type(cast.args["to"])
        _refuse_type(kind)
    except (ModelError, ValueError):
        return None
    return kind


def _refuse_type(kind: str) -> None:
    """
    Raises:
        ValueError: it is no type of a column.
    """
    fields, pair = types.fields_of(kind), types.map_of(kind)
    if fields is not None or pair is not None:
        for inner in fields.values() if fields is not None else pair or ():
            _refuse_type(inner)
    elif kind.startswith("array<"):
        _refuse_type(types.element(kind) or "")
    elif types.is_decimal(kind):
        precision, scale = types.digits_of(kind) or (0, -1)
        if not 0 <= scale <= precision <= types.MOST_DIGITS or precision == 0:
            raise ValueError(kind)
    elif kind not in _SIMPLE:
        raise ValueError(kind)


def compare_columns(reading: TestReading, table: str, given: Relation, known: Relation) -> None:
    """Columns that a test gives of a table that is there: they must be those that it has."""
    kinds = {one.name.lower(): one.value.type for one in known.fields}
    for one in given.fields:
        kind = kinds.get(one.name.lower())
        if kind is None:
            near = nearest(one.name, [f.name for f in known.fields])
            words = f"{table} has no column {one.name}{near}"
            reading.wrong(("columns", table, one.name), words, at_key=True)
        elif kind != one.value.type:
            words = f"{one.name} of {table} is {kind}, not {one.value.type}"
            reading.wrong(("columns", table, one.name), words)
