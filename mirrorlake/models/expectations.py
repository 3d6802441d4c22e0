"""What a model's header expects of its rows before they are published.

    expect:
      not_null: [product, amount]
      unique: [product, store]
      accepted_values: {store: [Paris, Detroit]}
      rows: {min: 1}
      where: amount >= 0
    warn:
      rows: {max: 100000}

Everything is expected of one partition by itself. NULL is a value like any other: it is equal to
itself, no condition is true of it, and it is accepted only where ``~`` is listed.

What belongs here: what is expected, bound to the columns that a model has. What doesn't: looking at
rows (`mirrorlake.operations.models.checks`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, cast

from pydantic import BeforeValidator, Field
from sqlglot import exp

from mirrorlake.config.fields import Section, nearest
from mirrorlake.config.yaml_file import Path as YamlPath
from mirrorlake.config.yaml_file import Problem, YamlFile
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.errors import ModelError
from mirrorlake.models.binder import bind
from mirrorlake.models.cells import CellRefused, as_sql, cell
from mirrorlake.models.columns import NamedValue, Relation
from mirrorlake.models.functions import AGGREGATES
from mirrorlake.models.parse import parse_query
from mirrorlake.models.place import at

ExpectationKind: TypeAlias = Literal[
    "not_null", "unique", "accepted_values", "rows", "where", "pandera"
]
Severity: TypeAlias = Literal["error", "warn"]
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_SOURCE = "__rows"
_BEFORE = f"SELECT 1 AS one FROM {_SOURCE} WHERE "  # noqa: S608 - only parsed
_MOST_SHOWN = 5


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _keys(value: object) -> object:
    """One key, or a list of keys."""
    found = _listed(value)
    if isinstance(found, list) and all(isinstance(one, str) for one in cast("list[Any]", found)):
        return [found] if found else []
    return found


def _named(value: object) -> object:
    return {"where": value} if isinstance(value, str) else value


class RowsSection(Section):
    """How many rows a partition has, both included."""

    min: int | None = Field(None, ge=0)
    max: int | None = Field(None, ge=0)


class ExpectSection(Section):
    """What is expected of each partition's rows."""

    not_null: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ()
    unique: Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_keys)] = ()
    accepted_values: Mapping[str, tuple[str | None, ...]] = {}
    rows: RowsSection | None = None
    where: Annotated[Mapping[str, str], BeforeValidator(_named)] = {}
    pandera: str | None = None


@dataclass(frozen=True)
class Expectation:
    """One thing that is expected of the rows of each partition.

    Attributes:
        name: its own in the model: ``not_null_product``, ``rows_min``.
        at: where it stands in the file; of what has no column or value of its own.
        columns: the columns that it is about; ``values``: those that are accepted.
        text: a condition of Spark's SQL, or where a pandera schema is: ``file.py:Name``.
        failing: the condition in Spark's SQL of rows that are not as expected, once it is bound to
            a model's columns; empty where no single row can say so.
    """

    name: str
    kind: ExpectationKind
    severity: Severity
    at: YamlPath
    columns: tuple[str, ...] = ()
    values: tuple[str | None, ...] = ()
    least: int | None = None
    most: int | None = None
    text: str = ""
    failing: str = ""

    @property
    def words(self) -> str:
        """What is expected, in a few words."""
        if self.kind == "not_null":
            return f"{self.columns[0]} is not NULL"
        if self.kind == "unique":
            return f"no two rows have the same {', '.join(self.columns)}"
        if self.kind == "accepted_values":
            listed = ["NULL" if one is None else one for one in self.values]
            more = f" … ({len(listed):,})" if len(listed) > _MOST_SHOWN else ""
            return f"{self.columns[0]} is one of {', '.join(listed[:_MOST_SHOWN])}{more}"
        if self.kind == "rows":
            word, count = ("least", self.least) if self.least is not None else ("most", self.most)
            return f"at {word} {count:,} row{'' if count == 1 else 's'}"
        return self.text if self.kind == "where" else f"pandera schema {self.text}"

    @property
    def terms(self) -> str:
        """A text that is another one if something else is expected."""
        columns = [one.lower() for one in self.columns]
        said = (self.kind, columns, self.values, self.least, self.most, self.text)
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


# --- as the header says it ------------------------------------------------------------------------


def read_expectations(
    file: YamlFile, sections: Mapping[Severity, tuple[str, ExpectSection]]
) -> tuple[list[Expectation], list[Problem]]:
    """What sections of a header expect, and what is wrong with them whatever the columns are.

    Args:
        sections: severity → the section's key, and the section.
    """
    problems: list[Problem] = []
    found: dict[str, Expectation] = {}
    for severity, (key, section) in sections.items():
        for one in _of_section(file, key, section, severity, problems):
            same = next((e for e in found.values() if e.terms == one.terms), None)
            if same is not None or (one.kind in ("rows", "where", "pandera") and one.name in found):
                there = show_at((same or found[one.name]).at)
                problems.append(file.problem(one.at, f"{one.name} is under {there}, too"))
                continue
            name, number = one.name, 2
            while name in found:  # columns `a b` and `a_b`
                name, number = f"{one.name}_{number}", number + 1
            found[name] = replace(one, name=name)
    return list(found.values()), problems


def show_at(place: YamlPath) -> str:
    """The section in which something stands."""
    return f"`{place[0]}`"


def _of_section(
    file: YamlFile,
    key: str,
    section: ExpectSection,
    severity: Severity,
    problems: list[Problem],
) -> Iterator[Expectation]:
    def made(kind: ExpectationKind, name: str, *place: str | int, **said: Any) -> Expectation:
        plain = re.sub(r"[^A-Za-z0-9_]+", "_", name)
        return Expectation(plain, kind, severity, (key, kind, *place), **said)

    for number, column in enumerate(section.not_null):
        yield made("not_null", f"not_null_{column}", number, columns=(column,))
    for number, columns in enumerate(section.unique):
        place = (number,) if len(section.unique) > 1 else ()
        yield made("unique", f"unique_{'_'.join(columns)}", *place, columns=columns)
    for column, values in section.accepted_values.items():
        said = {"columns": (column,), "values": values}
        yield made("accepted_values", f"accepted_values_{column}", column, **said)
    rows = section.rows or RowsSection(min=None, max=None)
    if rows.min is not None:
        yield made("rows", "rows_min", "min", least=rows.min)
    if rows.max is not None:
        yield made("rows", "rows_max", "max", most=rows.max)
    for name, text in section.where.items():
        place = () if _is_text(file, key, "where") else (name,)
        yield made("where", name, *place, text=text)
    if section.pandera is not None:
        yield made("pandera", "pandera", text=section.pandera)
    problems += _wrong_words(file, key, section)


def _wrong_words(file: YamlFile, key: str, section: ExpectSection) -> Iterator[Problem]:
    """What is wrong with a section by itself."""
    rows = section.rows
    if rows is not None and rows.min is not None and rows.max is not None and rows.min > rows.max:
        yield file.problem((key, "rows"), f"min {rows.min:,} is more than max {rows.max:,}")
    for number, columns in enumerate(section.unique):
        if not columns:
            yield file.problem((key, "unique", number), "is empty: name the columns of a key")
    for name in section.where:
        if not _NAME.fullmatch(name):
            words = "a name has small letters, digits and _, a letter first"
            yield file.problem((key, "where", name), words, at_key=True)


def _is_text(file: YamlFile, *path: str) -> bool:
    """Whether a value of the file is written as one text."""
    found: Any = file.root
    for part in path:
        found = found.get(part) if isinstance(found, dict) else None
    return isinstance(found, str)


# --- bound to a model's columns -------------------------------------------------------------------


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
