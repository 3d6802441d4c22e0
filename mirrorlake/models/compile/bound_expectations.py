"""Expectations fitted to the columns that a model has: the conditions that Spark is given.

What belongs here: columns, values and conditions of expectations. What doesn't: how they are
written (`mirrorlake.models.files.expectations`), and looking at rows
(`mirrorlake.models.checks.expectation_results`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.errors import ModelError
from mirrorlake.models.files.cells import CellRefused, as_sql, cell
from mirrorlake.models.files.expectations import Expectation
from mirrorlake.models.spark_sql.binding.binder import bind
from mirrorlake.models.spark_sql.columns import NamedValue, Relation
from mirrorlake.models.spark_sql.functions import AGGREGATES
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.parser import parse_query

_SOURCE = "__rows"
_BEFORE = f"SELECT 1 AS one FROM {_SOURCE} WHERE "  # noqa: S608 - only parsed


def expectations_of(
    path: Path,
    header: YamlFile,
    expectations: Sequence[Expectation],
    fields: Sequence[NamedValue],
    *,
    view: bool,
) -> tuple[Expectation, ...]:
    """The expectations of a model, with the conditions that Spark is given.

    Args:
        path: the model's file; ``header``: its header.
        fields: the columns of the model's table.
        view: whether it has no table.

    Raises:
        ModelError: some don't fit the columns: all that is wrong, each with its place.
    """
    kinds = {one.name.lower(): (one.name, one.value.type) for one in fields}
    found, problems = list[Expectation](), list[Problem]()
    for one in expectations:
        wrong = list(_wrong_columns(one, kinds, header))
        problems += wrong
        try:
            if not wrong:
                columns = tuple(kinds[name.lower()][0] for name in one.columns)
                failing = _failing(one, kinds, fields)
                bound = replace(one, columns=columns, failing=failing)
                found.append(_with_content(bound, path.parent))
        except _Unfit as error:
            problems.append(header.problem((*one.at, *error.inside), str(error)))
        except ModelError as error:
            problems.append(_in_condition(one, header, error))
    if view and expectations:
        words = "a view has no rows of its own: expect it of the models that it reads"
        problems = [header.problem(expectations[0].at[:1], words, at_key=True)]
    if problems:
        first, *others = sorted(problems)
        words = "\n".join((_plain(first), *(f"{path}:{one}" for one in others)))
        raise ModelError(words, place=(first.line, first.column), in_header=True)
    return tuple(found)


def _plain(problem: Problem) -> str:
    """A problem without its line, which the model's own words begin with."""
    return f"{problem.path}: {problem.message}" if problem.path else problem.message


class _Unfit(Exception):
    """A value that its column has no place for."""

    def __init__(self, words: str, *inside: str | int) -> None:
        super().__init__(words)
        self.inside = inside


def _wrong_columns(
    one: Expectation, kinds: Mapping[str, tuple[str, str]], file: YamlFile
) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, name in enumerate(one.columns):
        inside = (number,) if one.kind == "unique" else ()
        place = (*one.at, *inside)
        key = one.kind == "accepted_values"
        if name.lower() not in kinds:
            near = nearest(name, [shown for shown, _ in kinds.values()])
            yield file.problem(place, f"there is no column {name}{near}", at_key=key)
        elif name.lower() in seen:
            yield file.problem(place, f"{name} is there twice", at_key=key)
        elif one.kind == "unique" and "map<" in kinds[name.lower()][1]:
            words = f"{name} is {kinds[name.lower()][1]}, which Spark can't compare"
            yield file.problem(place, words)
        seen.add(name.lower())


def _failing(
    one: Expectation,
    kinds: Mapping[str, tuple[str, str]],
    fields: Sequence[NamedValue],
) -> str:
    if one.kind == "where":
        _refuse_no_condition(one.text, fields)
        # A line of its own: the text may end in a comment.
        return f"(\n{one.text}\n) IS NOT TRUE"
    if one.kind not in ("not_null", "accepted_values"):
        return ""
    name, kind = kinds[one.columns[0].lower()]
    column = as_sql_identifier(name)
    if one.kind == "not_null":
        return f"{column} IS NULL"
    if not one.values:
        raise _Unfit("is empty: no value would be accepted")
    listed: list[str] = []
    for number, value in enumerate(one.values):
        try:
            listed.append(as_sql(cell(value, kind), kind))
        except CellRefused as error:
            raise _Unfit(str(error), number) from None
        if listed[-1] in listed[:-1]:
            raise _Unfit(f"{value} is there twice", number)
    return "NOT (" + " OR ".join(f"{column} <=> {value}" for value in listed) + ")"


class _Rows:
    """The rows that a condition is about, for the binder."""

    def __init__(self, fields: Iterable[NamedValue]) -> None:
        self._relation = Relation(tuple(fields))

    def columns_of(self, name: str) -> Relation | None:
        return self._relation if name == _SOURCE else None

    def names(self) -> Sequence[str]:
        return []


def _refuse_no_condition(text: str, fields: Sequence[NamedValue]) -> None:
    """
    Raises:
        ModelError: the text is no condition on one row; its place is one of the text.
    """
    query = parse_query(f"{_BEFORE}{text}")
    clauses = {key for key, value in query.args.items() if value} - {"from_", "expressions"}
    if not isinstance(query, exp.Select) or clauses != {"where"}:
        raise ModelError("a condition on a row is expected, and nothing else")
    condition = query.args["where"].this
    for node in condition.walk():
        name = str(node.this).lower() if isinstance(node, exp.Anonymous) else ""
        if isinstance(node, exp.Query):
            raise ModelError("a condition on a row has no subquery", place=at(node))
        if isinstance(node, exp.AggFunc | exp.Window) or name in AGGREGATES:
            words = f"{name or node.key}: a condition is of one row, and this is of several"
            raise ModelError(words, place=at(node))
    bind(query, _Rows(fields))


def _with_content(one: Expectation, folder: Path) -> Expectation:
    """An expectation that is another one if the file that it names is."""
    if one.kind != "pandera":
        return one
    name, colon, schema = one.text.partition(":")
    if not colon or not name.endswith(".py") or not schema.isidentifier():
        raise _Unfit(f"{one.text!r} names no schema: write file.py:Name")
    try:
        content = (folder / name).read_bytes()
    except OSError:
        raise _Unfit(f"there is no file {folder / name}") from None
    return replace(one, values=(hashlib.sha256(content).hexdigest()[:16],))


def _in_condition(one: Expectation, file: YamlFile, error: ModelError) -> Problem:
    """A problem in a condition, at its place where that can be told from the text in the file."""
    next_step = f" ({error.next_step})" if error.next_step else ""
    whole = file.problem(one.at, f"{error.message}{next_step}")
    if error.line is None or error.col is None:
        return whole
    column = error.col - len(_BEFORE) if error.line == 1 else error.col
    lines = file.text.splitlines()
    begins = lines[whole.line - 1][whole.column - 1 :] if whole.line <= len(lines) else ""
    first, *others = one.text.splitlines() or [""]
    if begins.startswith("|"):
        line = whole.line + error.line
        indent = len(lines[whole.line]) - len(lines[whole.line].lstrip())
        return replace(whole, line=line, column=indent + column)
    quoted = begins[:1] in ("'", '"')
    if others or not begins[quoted:].startswith(first):
        return whole  # folded, or with escapes: the text begins there
    return replace(whole, column=whole.column + quoted + column - 1)
