"""Tests of models, fitted to the models: every cell with its column's type, every scope found.

What belongs here: what can be said of a test without running it. What doesn't: how tests are
written (`mirrorlake.models.files.tests`), and Spark (`mirrorlake.models.testing.run_tests`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from shlex import quote

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ModelError
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.project import compile_model
from mirrorlake.models.compile.readable_tables import ReadableTables
from mirrorlake.models.external_sources.tables import Externals
from mirrorlake.models.files.cells import Cell, CellRefused, cell
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.tests import ModelTest, WrittenRows
from mirrorlake.models.scope_values.comprehension import ScopeValues, text_of
from mirrorlake.models.spark_sql.columns import NamedValue, Relation, Typed, relation_of
from mirrorlake.models.spark_sql.parser import table_name
from mirrorlake.models.testing.given_columns import TestReading, compare_columns, typed_columns
from mirrorlake.serving.catalogue import Catalogue


@dataclass(frozen=True)
class Fixture:
    """A table of a test, whole.

    Attributes:
        columns: name and type, as the query sees them.
    """

    identifier: Identifier
    columns: tuple[tuple[str, str], ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class ReadyTest:
    """A test that can be run.

    Attributes:
        compared: the columns of the query that are compared, with their types.
        expected: rows of these.
    """

    test: ModelTest
    model: Model
    scope: ScopeValues
    fixtures: tuple[Fixture, ...]
    compared: tuple[tuple[str, str], ...]
    expected: tuple[tuple[Cell, ...], ...]


class Fitting:
    """The tests of a project, fitted to its models one by one.

    Args:
        now: what ``CURRENT_DATE`` is in scopes, where a test does not say.
    """

    def __init__(
        self,
        project: Project,
        catalogue: Catalogue,
        declarations: Mapping[str, Declaration],
        now: datetime,
    ) -> None:
        self._project, self._catalogue, self._now = project, catalogue, now
        self._declarations = declarations

    def fit(self, test: ModelTest) -> ReadyTest:
        """A test with everything that running it takes.

        Raises:
            ModelError: it does not fit its model, or the model does not compile: all that is
                wrong, one a line, each with its place.
            LakeError: the lake can't be read.
        """
        reading = TestReading(test)
        declared = self._declarations[test.model]
        tables = list(dict.fromkeys(_tables_of(declared)))
        given = self._given(reading, tables)
        reading.raise_problems()
        model = self._model(declared, given)
        scope = self._scope(reading, model, declared)
        reads = model.bound.reads
        for name in reads:
            if name not in {one.lower() for one in test.said.inputs}:
                words = f"the query reads {name}: give its rows, or `{name}: []`"
                reading.wrong(("inputs",), words, at_key=True)
        fixtures = [
            self._fixture(reading, name, rows, given.get(name.lower()))
            for name, rows in test.said.inputs.items()
            if _is_read(reading, name, reads)
        ]
        compared, expected = _expected(reading, model)
        reading.raise_problems()
        assert scope is not None  # noqa: S101 - or there was a problem
        found = [one for one in fixtures if one is not None]
        return ReadyTest(test, model, scope, tuple(found), compared, expected)

    # --- the model --------------------------------------------------------------------------------

    def _given(self, reading: TestReading, tables: Sequence[str]) -> dict[str, Relation]:
        """Columns that the test itself gives, of tables that nothing else knows the columns of."""
        said = reading.test.said
        found: dict[str, Relation] = {}
        for name, columns in said.columns.items():
            if name.lower() not in tables:
                reading.wrong(("columns", name), _not_read(name, tables), at_key=True)
                continue
            relation = typed_columns(reading, name, columns)
            known = self._known(name.lower())
            if known is None:
                found[name.lower()] = relation
            else:
                compare_columns(reading, name, relation, known)
        for name in said.inputs:
            table = self._catalogue.table(name.lower())
            if table is not None and not table.columns and name.lower() not in found:
                words = (
                    "the table was never loaded, so its columns are not known: give those that "
                    f"the query needs, `columns: {{{name}: {{id: int}}}}`, or load it: "
                    f"mirrorlake sync {quote(table.contract.name)}"
                )
                reading.wrong(("inputs", name), words, at_key=True)
        return found

    def _known(self, name: str) -> Relation | None:
        if name in self._project.models:
            return self._project.models[name].relation
        if name in self._project.externals:
            return self._project.externals[name].relation
        table = self._catalogue.table(name)
        return relation_of(name, table.columns) if table is not None and table.columns else None

    def _model(self, declared: Declaration, given: Mapping[str, Relation]) -> Model:
        if not given:
            return self._project.model(declared.name)
        try:
            models, catalogue = self._project.models, self._catalogue
            externals = Externals(self._project.externals)
            tables = ReadableTables(catalogue, models, [*models, *given], externals, given)
            query = declared.parsed()
            return compile_model(declared, query, tables, self._now)
        except ModelError as error:
            raise declared.located(error) from None

    def _scope(
        self, reading: TestReading, model: Model, declared: Declaration
    ) -> ScopeValues | None:
        """The scope that the test names; by its problem None."""
        said = reading.test.said
        for name in said.for_:
            if name not in declared.scopes.names:
                known = list(declared.scopes.names)
                near = nearest(name, known) or (f"; it has {', '.join(known)}" if known else "")
                words = f"{model.name} has no name {name} under `for`{near}"
                reading.wrong(("for", name), words, at_key=True)
                return None
        if said.now is not None:
            now = _moment(reading, said.now)
            if now is None:
                return None
        else:
            now = model.now
        try:
            scopes = model.declaration.scopes.all(now)
            model = replace(model, now=now, scopes=scopes)
        except ModelError as error:
            reading.wrong(("now",), error.message)
            return None
        wanted = said.for_.items()
        found = [s for s in scopes if all(text_of(s[name]) == value for name, value in wanted)]
        if len(found) != 1:
            reading.wrong(("for",), _scope_words(model, said.for_, found, scopes), at_key=True)
            return None
        return found[0]

    # --- its tables -------------------------------------------------------------------------------

    def _fixture(
        self, reading: TestReading, name: str, rows: WrittenRows, given: Relation | None
    ) -> Fixture | None:
        lowered = name.lower()
        relation = given or self._known(lowered)
        if relation is None:
            return None
        table = self._catalogue.table(lowered)
        identifier = table.identifier if table else Identifier(*lowered.split(".", 1))
        found = [
            _row(reading, ("inputs", name, number), row, relation.fields)
            for number, row in enumerate(rows)
        ]
        columns = tuple((one.name, one.value.type) for one in relation.fields)
        return Fixture(identifier, columns, tuple(found))


def _tables_of(declared: Declaration) -> Iterator[str]:
    try:
        query = declared.parsed()
    except ModelError as error:
        raise declared.located(error) from None
    for table in query.find_all(exp.Table):
        if len(table.parts) > 1:
            yield table_name(table)


def _not_read(name: str, tables: Sequence[str]) -> str:
    near = nearest(name, list(tables)) or f"; it reads {', '.join(tables) or 'no table'}"
    return f"the query does not read {name}{near}"


def _is_read(reading: TestReading, name: str, reads: Sequence[str]) -> bool:
    if name.lower() in reads:
        return True
    reading.wrong(("inputs", name), _not_read(name, reads), at_key=True)
    return False


def _moment(reading: TestReading, text: str) -> datetime | None:
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2})?)?Z?", text):
        try:
            return datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)
        except ValueError:
            pass
    reading.wrong(("now",), f"{text!r} is no moment: write it like 2024-03-01 or 2024-03-01 12:00")
    return None


def _scope_words(
    model: Model,
    wanted: Mapping[str, str],
    found: Sequence[ScopeValues],
    scopes: Sequence[ScopeValues],
) -> str:
    said = " ".join(f"{name}={value}" for name, value in wanted.items())
    if found:
        more = [n for n in model.declaration.scopes.names if n not in wanted]
        return f"{len(found):,} partitions of {model.name} are meant: give {', '.join(more)}, too"
    ends = f"they go from {model.key_of(scopes[0])} to {model.key_of(scopes[-1])}"
    return f"{model.name} has no partition {said}: {ends}"


def _row(
    reading: TestReading, place: YamlPath, row: Mapping[str, object], fields: Sequence[NamedValue]
) -> tuple[Cell, ...]:
    """The cells of a row, in the order of the columns; a column that is left out is NULL."""
    written: dict[str, str] = {}
    known = {one.name.lower(): one for one in fields}
    for name in row:
        if name.lower() not in known:
            near = nearest(name, [one.name for one in fields])
            reading.wrong((*place, name), f"there is no column {name}{near}", at_key=True)
        elif name.lower() in written:
            words = f"{name} is there as {written[name.lower()]}, too"
            reading.wrong((*place, name), words, at_key=True)
        written.setdefault(name.lower(), name)
    return tuple(_cell(reading, place, row, written.get(n), one) for n, one in known.items())


def _cell(
    reading: TestReading,
    place: YamlPath,
    row: Mapping[str, object],
    name: str | None,
    column: NamedValue,
) -> Cell:
    value = row[name] if name is not None else None
    where = (*place, name) if name is not None else place
    if value is None and not column.value.nullable:
        reading.wrong(where, f"{column.name} is never NULL: give it a value")
        return None
    try:
        return cell(value, column.value.type)
    except CellRefused as error:
        reading.wrong(where, f"{column.name}: {error}" if name is None else str(error))
        return None


def _expected(
    reading: TestReading, model: Model
) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[Cell, ...], ...]]:
    """The columns that are compared, and the rows of these that are expected."""
    said, by = reading.test.said, model.declaration.partition_by
    every = [one for one in model.fields if one.name not in by]
    fields = every if said.compare is None else _chosen(reading, said.compare, every)
    if not fields:
        return (), ()
    others = {name.lower(): "is the partition: leave it out" for name in by}
    others |= {
        one.name.lower(): "is not compared: name it under `compare`, or leave it out"
        for one in every
        if one not in fields
    }
    # What is expected may be NULL where the query never gives it: it differs then.
    may = [NamedValue(f.name, Typed(f.value.type, True)) for f in fields]
    rows: list[tuple[Cell, ...]] = []
    for number, row in enumerate(said.expected):
        place = ("expected", number)
        there = {name.lower() for name in row}
        absent = [one.name for one in fields if one.name.lower() not in there]
        if absent:
            words = f"leaves out {', '.join(absent)}: write NULL as ~, or say what is compared"
            reading.wrong(place, f"{words}: `compare: [{', '.join(row)}]`")
        for name in row:
            if name.lower() in others:
                reading.wrong((*place, name), f"{name} {others[name.lower()]}", at_key=True)
        plain = {name: value for name, value in row.items() if name.lower() not in others}
        rows.append(_row(reading, place, plain, may))
    return tuple((one.name, one.value.type) for one in fields), tuple(rows)


def _chosen(
    reading: TestReading, names: Sequence[str], fields: Sequence[NamedValue]
) -> list[NamedValue]:
    """The columns that are compared; none where one of them is wrong."""
    known = {one.name.lower(): one for one in fields}
    found: list[NamedValue] = []
    if not names:
        reading.wrong(("compare",), "is empty: nothing would be compared")
    for number, name in enumerate(names):
        one = known.get(name.lower())
        if one is None or one in found:
            near = nearest(name, [f.name for f in fields])
            words = f"there is no column {name}{near}" if one is None else f"{name} is there twice"
            reading.wrong(("compare", number), words)
            return []
        found.append(one)
    return found
