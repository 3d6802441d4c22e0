"""A model's file: a YAML header between two lines of ``---``, and one SELECT.

    ---
    description: What each store sold, by day
    owner: data@example.com
    for:
      day: TIMESERIES('2024-01-01', CURRENT_DATE, 'P1D')
      store: [Paris, Detroit]
    ---
    SELECT product, SUM(amount) AS amount FROM shop_shop.sales
    WHERE sold_on = day AND city = store GROUP BY product

``models/<dataset>/<name>.sql`` is the model ``<dataset>.<name>``, and so is a ``.py`` of that name:
see `mirrorlake.models.files.python_model`.

What belongs here: reading files. What doesn't: what a query means
(`mirrorlake.models.spark_sql.binding.binder`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field
from sqlglot import exp

from mirrorlake.config.fields import Duration, Section, listed
from mirrorlake.config.settings import BigQueryLayout, Publish, PublishTo
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError
from mirrorlake.models.files.expectations import (
    Expectation,
    ExpectSection,
    declared_not_null,
    own_schemas,
    read_expectations,
)
from mirrorlake.models.files.functions import (
    FUNCTIONS_FILE,
    NO_FUNCTIONS,
    ProjectFunctions,
    read_functions,
)
from mirrorlake.models.files.header_places import TextPlace
from mirrorlake.models.files.model_files import Unread, model_name, read_each, read_text
from mirrorlake.models.files.python_model import (
    PythonCode,
    PythonSection,
    python_code,
    reading_query,
)
from mirrorlake.models.files.python_source import python_parts
from mirrorlake.models.files.tests import ModelTest, ModelTestSection, tests_of
from mirrorlake.models.files.yaml_errors import raise_problems, read_section
from mirrorlake.models.scope_values.comprehension import Binding, Scopes
from mirrorlake.models.scope_values.retention import Retention, RetentionField
from mirrorlake.models.spark_sql.parser import parse_query

Materialized = Literal["table", "view", "stream view", "snapshot"]
_FENCE = "---"
_NAME = re.compile(r"[a-z][a-z0-9_]*")


class HeaderSection(Section):
    """What the header of a model may say."""

    description: str = ""
    owner: str | None = None
    materialized: Materialized = "table"
    for_: Mapping[str, Any] = Field({}, alias="for")
    if_: str | None = Field(None, alias="if")
    partition_by: Annotated[tuple[str, ...] | None, BeforeValidator(listed)] = None
    released: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    every: Duration | None = timedelta(minutes=15)
    retention: RetentionField | None = None
    publish: Publish = ("lake",)
    bigquery: BigQueryLayout | None = None
    expect: ExpectSection = ExpectSection()
    warn: ExpectSection = ExpectSection()
    tests: dict[str, ModelTestSection] = {}  # noqa: RUF012 - pydantic copies defaults


class PythonHeader(HeaderSection, PythonSection):
    """What the header of a Python model may say."""


@dataclass(frozen=True)
class Declaration:
    """One model, as its file says it.

    Attributes:
        name: ``dataset.model``.
        sql: its query; ``sql_line``: the line of the file where it begins, from 1. Of a Python
            model the query of all its inputs, which stands nowhere as it is: see `place`.
        scopes: what it is computed for.
        partition_by: the names of its scopes by which its table is partitioned.
        released: columns that are made of personal ones, and from which nobody can be told.
        every: how often at most the sensor requests what is missing or stale; None: a person does.
        retention: how long partitions are kept; None: for ever.
        publish: where its table is published.
        bigquery: how it is laid out there, where the header says it.
        expectations: of the rows of each partition, not bound to columns yet.
        tests: those in its header.
        header: the YAML that all of it was read from.
        python: of a Python model, its code.
        functions: those of the project that its query calls.
    """

    name: str
    path: Path
    sql: str
    sql_line: int
    scopes: Scopes
    partition_by: tuple[str, ...]
    materialized: Materialized = "table"
    description: str = ""
    owner: str | None = None
    released: tuple[str, ...] = ()
    every: timedelta | None = None
    retention: Retention | None = None
    publish: tuple[PublishTo, ...] = ("lake",)
    bigquery: BigQueryLayout | None = None
    expectations: tuple[Expectation, ...] = ()
    tests: tuple[ModelTest, ...] = ()
    header: YamlFile = field(default_factory=lambda: YamlFile(""), compare=False, repr=False)
    python: PythonCode | None = None
    functions: ProjectFunctions = NO_FUNCTIONS

    @property
    def is_view(self) -> bool:
        """Whether it has no rows of its own."""
        return self.materialized in ("view", "stream view")

    @property
    def is_snapshot(self) -> bool:
        """Whether a partition stays as it was taken: see
        `mirrorlake.models.compile.snapshot_models`."""
        return self.materialized == "snapshot"

    @property
    def in_bigquery(self) -> bool:
        """Whether its rows are loaded into BigQuery, too."""
        return "bigquery" in self.publish

    def parsed(self) -> exp.Expr:
        """The query.

        Raises:
            ModelError: it can't be read; with its place in the query, or in the file.
        """
        if self.python is not None:
            self.python.refuse_unreadable(self.path)
        return parse_query(self.sql)

    def place(self, inside: TextPlace) -> TextPlace:
        """Where a place of the query stands in the file."""
        if self.python is not None:
            return self.python.place(inside)
        return inside[0] + self.sql_line - 1, inside[1]

    def header_place(self, *path: str) -> TextPlace:
        """Where a field of the header stands in the file."""
        found = self.header.problem(path, "", at_key=True)
        return found.line, found.column

    def located(self, error: ModelError) -> ModelError:
        """An error in the query, or in the header, with the line of the file."""
        if error.message.startswith(f"{self.path}:"):
            return error
        if error.line is None:
            return ModelError(f"{self.path}: {error.message}", next_step=error.next_step)
        place = (error.line, error.col or 1)
        line, col = place if error.in_header else self.place(place)
        words = f"{self.path}:{line}:{col}: {error.message}"
        return ModelError(words, place=(line, col), next_step=error.next_step)


def read_declarations(folder: Path) -> tuple[list[Declaration], Unread]:
    """All models below a folder, by name, and the files that can't be read."""
    functions, problem = read_functions(folder)
    found, unread = read_each(
        model_files(folder), lambda path: read_declaration(path, folder, functions)
    )
    return found, problem + unread


def model_files(folder: Path) -> list[Path]:
    """The files of models below a folder. One of Python whose name begins with ``_`` is none, nor
    is that of the project's functions."""
    python = (one for one in folder.rglob("*.py") if one != folder / FUNCTIONS_FILE)
    return sorted([*folder.rglob("*.sql"), *(p for p in python if not p.name.startswith("_"))])


def read_declaration(
    path: Path, folder: Path | None = None, functions: ProjectFunctions = NO_FUNCTIONS
) -> Declaration:
    """The model that a file declares.

    Args:
        folder: in which the folders of models are.
        functions: those of the project.

    Raises:
        ModelError: it can't be read, or says what can't be: all problems, one a line, each with
            file, line and column.
    """
    _refuse_elsewhere(path, folder)
    name, text = model_name(path), read_text(path)
    is_python = path.suffix == ".py"
    header, sql, line = (python_parts(path, text), "", 1) if is_python else _parts(path, text)
    section = PythonHeader if is_python else HeaderSection
    file = YamlFile(header)
    no_mapping = Problem(2, 1, "", "the header is a mapping (name: value)")
    said = read_section(path, file, section, no_mapping, may_be_empty=True)
    bindings = tuple(_bindings(path, file, said))
    names = tuple(one.name for one in bindings)
    by = _partition_columns(path, file, said, names)
    expected = _expectations(path, file, said)
    python = None
    if isinstance(said, PythonHeader):
        python = python_code(path, text, file, said, names)
        sql = reading_query(python.inputs)
        _refuse_python(path, file, said, by)
        expected = _expectations_of_python(path, file, expected, python)
    if not sql.strip():
        raise ModelError(f"{path}:{line}:1: there is no query")
    condition = file.problem(("if",), "").line
    return Declaration(
        name=name,
        path=path,
        sql=sql,
        sql_line=line,
        scopes=Scopes(bindings, said.if_, condition),
        partition_by=by,
        materialized=said.materialized,
        description=said.description,
        owner=said.owner,
        released=tuple(one.lower() for one in said.released),
        every=said.every,
        retention=said.retention,
        publish=said.publish,
        bigquery=said.bigquery,
        expectations=tuple(expected),
        tests=tuple(tests_of(name, path, file, said.tests)),
        header=file,
        python=python,
        functions=functions.named_in(sql),
    )


def _refuse_elsewhere(path: Path, folder: Path | None) -> None:
    if folder is not None and path.parent.parent != folder:
        raise ModelError(
            f"{path} is not where a model is",
            next_step=f"A model is a file {folder.name}/<dataset>/<name>.sql, or .py",
        )


def _expectations(path: Path, file: YamlFile, said: HeaderSection) -> list[Expectation]:
    """What the header expects of the rows.

    Raises:
        ModelError: it can't be read, or the model can't be published where the header says.
    """
    expected, wrong = read_expectations(
        file, {"error": ("expect", said.expect), "warn": ("warn", said.warn)}
    )
    raise_problems(path, [*wrong, *_unpublishable(file, said)])
    return expected


def _expectations_of_python(
    path: Path, file: YamlFile, expected: list[Expectation], python: PythonCode
) -> list[Expectation]:
    """The same of a Python model, which may declare columns NOT NULL and have schemas of its own.

    Raises:
        ModelError: a schema is named that its file does not have.
    """
    expected += declared_not_null(python.columns, expected)
    expected, wrong = own_schemas(file, expected, path.name, python.function.names)
    raise_problems(path, wrong)
    return expected


def _partition_columns(
    path: Path, file: YamlFile, said: HeaderSection, names: Sequence[str]
) -> tuple[str, ...]:
    """The names by which a model's table is partitioned: all that are bound, unless it says which.

    Raises:
        ModelError: one is not bound, or is there twice.
    """
    by = said.partition_by if said.partition_by is not None else tuple(names)
    for number, one in enumerate(by):
        words = "is not bound under `for`" if one not in names else "is there twice"
        if one not in names or one in by[:number]:
            raise_problems(path, [file.problem(("partition_by",), f"{one} {words}")])
    return by


def _refuse_python(path: Path, file: YamlFile, said: PythonHeader, by: Sequence[str]) -> None:
    """See that the header of a Python model says nothing that only a query could do.

    Raises:
        ModelError: it is to be a view, or returns a column that the platform adds.
    """
    if said.materialized not in ("table", "snapshot"):
        words = "a Python model is a table, or a snapshot"
        raise_problems(path, [file.problem(("materialized",), words)])
    words = "the table is partitioned by it: the platform adds that column"
    doubled = [one for one in said.columns if one.lower() in by]
    raise_problems(path, [file.problem(("columns", one), words, at_key=True) for one in doubled])


def _unpublishable(file: YamlFile, said: HeaderSection) -> Iterator[Problem]:
    """What the header says of BigQuery that can't be."""
    there = "bigquery" in said.publish
    if there and said.materialized not in ("table", "snapshot"):
        words = f"a {said.materialized} has no rows of its own that BigQuery could have"
        yield file.problem(("publish",), words)
    if said.bigquery is not None and not there:
        words = "the model is published in the lake alone: remove bigquery, or write publish:"
        yield file.problem(("bigquery",), f"{words} [lake, bigquery]", at_key=True)


def _parts(path: Path, text: str) -> tuple[str, str, int]:
    """The header, the query, and the line at which the query begins."""
    lines = text.splitlines(keepends=True)
    if not lines or lines[0].strip() != _FENCE:
        return "", text, 1
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() == _FENCE:
            # In place of the first line an empty one: places in the header are those of the file.
            return "\n" + "".join(lines[1:number]), "".join(lines[number + 1 :]), number + 2
    raise ModelError(f"{path}:1:1: the header has no end", next_step="Close it by a line of ---")


def _bindings(path: Path, file: YamlFile, said: HeaderSection) -> list[Binding]:
    found: list[Binding] = []
    problems: list[Problem] = []
    cut_off = None in said.for_.values()
    for name, values in said.for_.items():
        if cut_off and isinstance(values, str) and values.count("(") > values.count(")"):
            words = f"{values} ends here: put an expression in quotes where it stands between {{ }}"
            raise_problems(path, [file.problem(("for", name), words)])
        place = file.problem(("for", name), "", at_key=True)
        if not _NAME.fullmatch(name):
            words = "a name has small letters, digits and _, a letter first"
            problems.append(file.problem(("for", name), words, at_key=True))
        elif isinstance(values, str):
            found.append(Binding(name, values, place.line))
        elif isinstance(values, list) and values and all(isinstance(v, str) for v in values):
            found.append(Binding(name, tuple(str(v) for v in values), place.line))
        else:
            words = _no_values(values)
            problems.append(file.problem(("for", name), words))
    raise_problems(path, problems)
    return found


def _no_values(values: object) -> str:
    """What is wrong with values under ``for``."""
    if not isinstance(values, list):
        return "a list of values or an expression is expected"
    if not values:
        return "the list is empty: no partition would ever be computed"
    if None in values:
        return "NULL names no partition: leave it out of the list"
    return "each value of a list is a text or a number"
