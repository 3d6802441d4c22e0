'''A Python model: a file whose docstring is its header, and one typed function.

    """---
    description: How fast each carrier flies
    for:
      month: TIMESERIES('2013-01-01', '2014-01-01', 'P1M')
    reads:
      flights: SELECT carrier, distance, air_time FROM nyc.flights WHERE TRUNC(day, 'MM') = month
    columns:
      carrier: {type: string, made_of: flights.carrier}
      minutes_a_mile: {type: double, made_of: [flights.distance, flights.air_time]}
    ---"""

    def speed(flights: DataFrame, month: date) -> DataFrame: ...

Each input is a query, under a parameter's name. What the model reads is one query of all inputs
beside one another: so partitions, errors and states come from it as they do of a SQL model.

What belongs here: what a file declares, and what is known of it without running it. What doesn't:
its syntax tree (`mirrorlake.models.files.python_source`), and running it.
'''

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.config.fields import Section, nearest
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError
from mirrorlake.models.files.declared_columns import (
    HeaderColumn,
    HeaderType,
    declared_columns,
    place_of,
    wrong_columns,
)
from mirrorlake.models.files.header_places import TextPlace, place_in_header
from mirrorlake.models.files.python_source import FRAME, ModelFunction, read_function
from mirrorlake.models.spark_sql.parser import parse_query

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class PythonSection(Section):
    """What the header of a Python model says beside what all headers may."""

    reads: dict[str, str]
    columns: dict[str, HeaderType]


@dataclass(frozen=True)
class InputQuery:
    """What a parameter of a model's function is given.

    Attributes:
        start: where its query begins in the one query of all inputs; ``line``: on which line of it.
        place: where it stands in the file.
    """

    name: str
    sql: str
    start: int
    line: int
    place: TextPlace

    @property
    def end(self) -> int:
        return self.start + len(self.sql)


@dataclass(frozen=True)
class PythonCode:
    """What a file declares beside what a SQL model does.

    Attributes:
        source: the file as it was read: what is run later is this text.
    """

    source: str
    function: ModelFunction
    columns: tuple[HeaderColumn, ...]
    inputs: tuple[InputQuery, ...]

    def place(self, inside: TextPlace) -> TextPlace:
        """Where a place of the one query of all inputs stands in the file."""
        one = next(one for one in reversed(self.inputs) if one.line <= inside[0] or one.line == 2)
        line = min(max(inside[0] - one.line, 0), one.sql.count("\n"))
        return place_in_header(self.source, one.place, one.sql, (line + 1, inside[1]))

    def refuse_unreadable(self, path: Path) -> None:
        """Each input is a query by itself.

        Raises:
            ModelError: one is none, with its place in the file.
        """
        for one in self.inputs:
            try:
                parse_query(one.sql)
            except ModelError as error:
                line, col = self.place((one.line + (error.line or 1) - 1, error.col or 1))
                words = f"{path}:{line}:{col}: input {one.name}: {error.message}"
                step = error.next_step or "An input is a query, like SELECT * FROM dataset.table"
                raise ModelError(words, place=(line, col), next_step=step) from None

    def said(self) -> Sequence[object]:
        """What of it makes another model: the code and its columns."""
        columns = [(one.name, one.type, one.nullable) for one in self.columns]
        return [self.function.digest, columns]


def python_code(
    path: Path, text: str, file: YamlFile, said: PythonSection, scope: Sequence[str]
) -> PythonCode:
    """What a file declares, each thing looked at by itself.

    Args:
        scope: the names under ``for``.

    Raises:
        ModelError: its header or its function says what can't be.
    """
    function = read_function(path, text, path.stem, path.parent.parent.parent)
    problems = [*_wrong_reads(file, said, scope), *_wrong_columns(file, said)]
    if problems:
        first = min(problems)
        words = "\n".join(f"{path}:{one}" for one in sorted(problems))
        raise ModelError(words, place=(first.line, first.column))
    _refuse_parameters(path, function, [*said.reads], scope)
    return PythonCode(
        source=text,
        function=function,
        columns=tuple(declared_columns(file, said.columns)),
        inputs=tuple(_inputs(file, said.reads)),
    )


def _inputs(file: YamlFile, reads: Mapping[str, str]) -> Iterator[InputQuery]:
    offset, line = 0, 1
    for name, text in reads.items():
        sql = re.sub(r"[;\s]+\Z", "", text)
        offset, line = offset + len(_BEFORE), line + 1
        yield InputQuery(name, sql, offset, line, place_of(file, ("reads", name)))
        after = _AFTER.format(name=name) + _BETWEEN
        offset, line = offset + len(sql) + len(after), line + sql.count("\n") + after.count("\n")


_BEFORE, _AFTER, _BETWEEN = "SELECT 1 AS one FROM (\n", "\n) AS {name}", "\nUNION ALL\n"


def reading_query(inputs: Sequence[InputQuery]) -> str:
    """One query that reads what the inputs of a model read, each by itself."""
    return _BETWEEN.join(f"{_BEFORE}{one.sql}{_AFTER.format(name=one.name)}" for one in inputs)


def _wrong_reads(file: YamlFile, said: PythonSection, scope: Sequence[str]) -> Iterator[Problem]:
    if not said.reads:
        yield file.problem(("reads",), "is empty: name an input, and the query that gives it")
    for name in said.reads:
        if not _NAME.fullmatch(name):
            words = "an input's name has small letters, digits and _, a letter first"
            yield file.problem(("reads", name), words, at_key=True)
        elif name in scope:
            words = "this is a name under `for`, too: give the input another one"
            yield file.problem(("reads", name), words, at_key=True)


def _wrong_columns(file: YamlFile, said: PythonSection) -> Iterator[Problem]:
    yield from wrong_columns(file, said.columns)
    for name, one in said.columns.items():
        for number, text in enumerate(one.made_of or ()):
            given, dot, column = text.partition(".")
            where = ("columns", name, "made_of", number)
            if not dot or not column:
                yield file.problem(where, f"{text!r} is no input.column")
            elif given not in said.reads:
                words = f"there is no input {given}{nearest(given, said.reads)}"
                yield file.problem(where, words)


def _refuse_parameters(
    path: Path, function: ModelFunction, inputs: Sequence[str], scope: Sequence[str]
) -> None:
    for one in function.parameters:
        where = f"{path}:{one.place[0]}:{one.place[1]}"
        if one.name not in (*inputs, *scope):
            known = nearest(one.name, [*inputs, *scope])
            raise ModelError(
                f"{where}: parameter {one.name} is no input under `reads`, and no name under "
                f"`for`{known}",
                place=one.place,
            )
        if one.name in inputs and one.annotation != FRAME:
            raise ModelError(
                f"{where}: parameter {one.name} is an input: write {one.name}: {FRAME}",
                place=one.place,
            )
    taken = {one.name for one in function.parameters}
    missing = [name for name in inputs if name not in taken]
    if missing:
        raise ModelError(
            f"{path}:{function.line}:1: the function takes no {missing[0]}, which is under `reads`",
            place=(function.line, 1),
            next_step=f"Give it a parameter {missing[0]}: {FRAME}, or leave out the input",
        )
