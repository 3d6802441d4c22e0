"""All models of a folder, bound in the order in which they read one another.

Compiling starts no Spark and reads no rows: it finds every model's columns with their types,
nullability and origins, and every error, each with file, line and column.

What belongs here: models beside one another. What doesn't: one file
(`mirrorlake.models.declaration`), one query (`mirrorlake.models.binder`), partitions of inputs
(`mirrorlake.models.dependencies`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from graphlib import CycleError, TopologicalSorter

from sqlglot import exp

from mirrorlake.config.fields import nearest
from mirrorlake.errors import ModelError
from mirrorlake.models.binder import bind
from mirrorlake.models.bound_expectations import expectations_of
from mirrorlake.models.catalogue import Catalogue
from mirrorlake.models.columns import NamedValue, Origin, Relation, Typed
from mirrorlake.models.declaration import Declaration
from mirrorlake.models.dependencies import looked_up
from mirrorlake.models.external_tables import Externals, ExternalTable
from mirrorlake.models.header_places import TextPlace
from mirrorlake.models.kept import (
    KeptModel,
    found_key,
    hash_of,
    offer_of,
    plain_fields,
)
from mirrorlake.models.kept_files import KeptModels
from mirrorlake.models.known import text_key
from mirrorlake.models.lookback import refuse_short_retention
from mirrorlake.models.mentions import refuse_unfollowed
from mirrorlake.models.model import BoundModel, Model, Project
from mirrorlake.models.model_files import Unread
from mirrorlake.models.parse import table_name
from mirrorlake.models.partition_times import kept_and_gone, time_name
from mirrorlake.models.place import at
from mirrorlake.models.python_columns import python_fields
from mirrorlake.models.rules import RuleBook
from mirrorlake.models.streams import refuse_half_streamed


class ReadableTables:
    """What a model may read: the mirror, the models before it, and tables made elsewhere.

    Args:
        given: table → its columns, whatever else is known of it.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        models: Mapping[str, Model],
        all_: Sequence[str],
        externals: Externals,
        given: Mapping[str, Relation] | None = None,
    ) -> None:
        self.catalogue, self.models, self._all = catalogue, models, all_
        self.externals = externals.tables
        self._offers: dict[str, str] = {}
        self._given = given or {}

    def columns_of(self, name: str) -> Relation | None:
        if name in self._given:
            return self._given[name]
        if name in self.externals:
            return self.externals[name].relation
        if name in self.models:
            return self.models[name].relation
        table = self.catalogue.table(name)
        if table is not None and not table.columns:
            raise ModelError(
                f"{name} has no columns yet: its table was never loaded",
                next_step=f"mirrorlake sync {table.contract.name}",
            )
        return table.relation if table is not None else None

    def offer(self, name: str) -> str:
        """A hash of all that what is found of a reader depends on; each table is looked at once."""
        if name not in self._offers:
            self._offers[name] = self._offer(name)
        return self._offers[name]

    def _offer(self, name: str) -> str:
        if name in self._given:
            return hash_of("given", plain_fields(self._given[name].fields))
        if name in self.externals:
            made = self.externals[name]
            declared = made.declaration
            columns = plain_fields(made.relation.fields)
            return hash_of("elsewhere", columns, declared.partition_by, sorted(declared.hidden))
        if name in self.models:
            model = self.models[name]
            return offer_of(model.fields, model.declaration.partition_by)
        table = self.catalogue.table(name)
        hidden = sorted(self.catalogue.hidden(table)) if table is not None else []
        return hash_of(table and (table.columns, table.day), hidden)

    def foreign(self, reads: Sequence[str]) -> dict[str, ExternalTable]:
        """Those of some tables that are made elsewhere."""
        return {name: self.externals[name] for name in reads if name in self.externals}

    def names(self) -> Sequence[str]:
        return [*self._all, *self.externals, *self.catalogue.names()]


def compile_models(
    declarations: Sequence[Declaration],
    catalogue: Catalogue,
    now: datetime,
    externals: Externals | None = None,
    kept: KeptModels | None = None,
    unread: Unread | None = None,
) -> Project:
    """Bind all models.

    Args:
        now: what ``CURRENT_DATE`` is in their scopes (UTC).
        externals: the tables that are made elsewhere.
        kept: what was found before.
        unread: files beside them that can't be read; what reads their models does not compile.

    Raises:
        LakeError: the lake can't be read.
    """
    externals, unread = externals or Externals(), unread or Unread()
    problems = [*unread.problems, *externals.problems]
    problems += _of_one_name(externals, declarations, catalogue)
    sources: dict[str, _Source] = {}
    for one in declarations:
        try:
            sources[one.name] = _Source.of(
                one, (kept or KeptModels()).find(one.name, text_key(one))
            )
        except ModelError as error:
            problems.append(one.located(error))
    names = {one.name for one in declarations}
    reads = {name: names.intersection(one.reads) for name, one in sources.items()}
    order = _in_order(reads, sources, problems)
    models: dict[str, Model] = {}
    tables = ReadableTables(catalogue, models, [one.name for one in declarations], externals)
    failed = (names - set(order)) | externals.failed | unread.names
    for name in order:
        if failed.intersection(sources[name].reads):
            failed.add(name)
            continue
        try:
            model = models[name] = _compiled(sources[name], tables, now)
            look = partial(looked_up, Project(models), catalogue, model)
            refuse_short_retention(model, models, look)
        except ModelError as error:
            problems.append(sources[name].declaration.located(error))
            failed.add(name)
            models.pop(name, None)
    readers: dict[str, list[str]] = {}
    for model in models.values():
        for table in model.reads:
            readers.setdefault(table, []).append(model.name)
    found = {table: tuple(several) for table, several in readers.items()}
    return Project(models, tuple(problems), tuple(sorted(failed)), found, externals.tables)


def _of_one_name(
    externals: Externals, declarations: Sequence[Declaration], catalogue: Catalogue
) -> Iterator[ModelError]:
    paths = {one.name: one.path for one in declarations}
    for name, one in externals.tables.items():
        if name in paths:
            yield one.declaration.wrong(f"{name} is model {paths[name]}, too")
        elif catalogue.table(name) is not None:
            yield one.declaration.wrong(f"{name} is a mirrored table")


@dataclass(frozen=True)
class _Source:
    """A model before it is bound.

    Attributes:
        reads: the tables that its query names, in lower case.
        kept: what was found of a file that said the same.
    """

    declaration: Declaration
    reads: tuple[str, ...]
    kept: KeptModel | None = None
    parsed: exp.Expr | None = None

    @staticmethod
    def of(declaration: Declaration, kept: KeptModel | None) -> _Source:
        if kept is not None:
            return _Source(declaration, kept.reads, kept)
        query = declaration.parsed()
        return _Source(declaration, tuple(_tables_in(query)), None, query)

    def query(self) -> exp.Expr:
        return self.parsed if self.parsed is not None else self.declaration.parsed()


def _tables_in(query: exp.Expr) -> Iterator[str]:
    for table in query.find_all(exp.Table):
        if len(table.parts) > 1:
            yield table_name(table)


def _in_order(
    reads: Mapping[str, set[str]],
    sources: Mapping[str, _Source],
    problems: list[ModelError],
) -> list[str]:
    """Models after those that they read, without those of a circle and all that read them."""
    left = {name: set(names) for name, names in sorted(reads.items())}
    while True:
        try:
            # One that can't be read is named by those that read it, too.
            return [name for name in TopologicalSorter(left).static_order() if name in left]
        except CycleError as error:
            circle: list[str] = list(error.args[1])
            # Each is read by the one after it.
            words = " reads ".join(reversed(circle))
            first = min(circle)
            mention = next(
                (t for t in sources[first].query().find_all(exp.Table) if table_name(t) in circle),
                None,
            )
            place = at(mention) if mention is not None else None
            problem = ModelError(f"models read one another in a circle: {words}", place=place)
            problems.append(sources[first].declaration.located(problem))
            gone = set(circle)
            while more := {n for n, names in left.items() if names & gone} - gone:
                gone |= more
            left = {name: names for name, names in left.items() if name not in gone}


def compile_model(
    declaration: Declaration,
    query: exp.Expr,
    tables: ReadableTables,
    now: datetime,
) -> Model:
    """One model, after those that it reads.

    Raises:
        ModelError: it does not compile; the place is one of the query, or of the header.
        LakeError: the lake can't be read.
    """
    source = _Source(declaration, tuple(_tables_in(query)), None, query)
    return _compiled(source, tables, now)


def _compiled(source: _Source, tables: ReadableTables, now: datetime) -> Model:
    declaration = source.declaration
    if tables.catalogue.table(declaration.name) is not None:
        raise ModelError(
            f"{declaration.name} is a mirrored table", next_step="Give the model another name"
        )
    if declaration.is_view and declaration.scopes.bindings:
        raise ModelError(
            "a view has no partitions: it shows what it reads, as it is",
            place=declaration.header_place("for"),
            next_step="Leave out `for`, or make it a table",
            in_header=True,
        )
    try:
        scopes = declaration.scopes.all(now)
        types = declaration.scopes.types(scopes)
        if declaration.is_snapshot:
            time_name(declaration, types)
        scopes, gone = kept_and_gone(declaration, scopes, types, now)
    except ModelError as error:
        raise declaration.located(error) from None

    def bound() -> BoundModel:
        query = source.query()
        return query, bind(query, tables, types)

    text = text_key(declaration) if source.kept is None else source.kept.text
    offers = {name: tables.offer(name) for name in source.reads}
    key = found_key(text, types, offers)
    kept = source.kept
    if kept is None or kept.key != key:
        found = bound()
        fields = _fields(declaration, found, tables, types)
        kept = _kept(declaration, found, fields, (text, key), offers)
        bound = partial(_same, found)
    refuse_half_streamed(declaration, source.query, kept.reads, tables.models, tables.catalogue)
    view, path = declaration.is_view, declaration.path
    written = declaration.header, declaration.expectations
    return Model(
        declaration=declaration,
        types=types,
        fingerprint=_fingerprint(declaration, kept, tables.models),
        now=now,
        scopes=scopes,
        kept=kept,
        bind=bound,
        gone=gone,
        expectations=expectations_of(path, *written, kept.fields, view=view),
        externals=tables.foreign(kept.reads),
    )


def _same(found: BoundModel) -> BoundModel:
    return found


def _kept(
    declaration: Declaration,
    found: BoundModel,
    fields: tuple[NamedValue, ...],
    keys: tuple[str, str],
    offers: Mapping[str, str],
) -> KeptModel:
    """What is found of a model by its query."""
    query, bound = found
    sql = query.sql("spark", comments=False, normalize=False)
    rules = RuleBook(names_in(query, declaration.scopes.names))
    return KeptModel(*keys, {name: offers[name] for name in bound.reads}, sql, fields, rules)


def _fields(
    declaration: Declaration,
    found: BoundModel,
    tables: ReadableTables,
    types: Mapping[str, Typed],
) -> tuple[NamedValue, ...]:
    """The columns of a model's table, once all that can be wrong was looked for."""
    query, bound = found
    if bound.unstable and declaration.partition_by:
        function, place = bound.unstable[0]
        raise ModelError(
            f"{function}() gives something else each time: a partition could not be made again",
            place=place,
            next_step="Bind what is needed under `for`",
        )
    code = declaration.python
    if code is None:
        given = _checked(query, bound.fields, declaration)
    else:
        given = python_fields(declaration.path, code, tables, types)
    fields = (*given, *_partition_columns(declaration, types))
    _refuse_personal(declaration, query, fields, tables)
    foreign = tables.foreign(bound.reads)
    refuse_unfollowed(query, bound.trace.tables, foreign)
    if declaration.materialized == "stream view":
        mirrored = [name for name in bound.reads if tables.catalogue.table(name) is not None]
        words = "is read with its newest loads"
        refuse_unfollowed(query, bound.trace.tables, mirrored, words)
    if foreign and declaration.is_view:
        raise ModelError(
            f"a view can't read {next(iter(foreign))}, which is made elsewhere",
            next_step=f"Leave out `materialized: {declaration.materialized}`",
        )
    return fields


def names_in(query: exp.Expr, names: Sequence[str]) -> tuple[str, ...]:
    """Those of some names that stand in a query, in their order: what it gives is a function of
    these alone."""
    there = {one.name.lower() for one in query.find_all(exp.Column)}
    return tuple(name for name in names if name in there)


def _checked(
    query: exp.Expr, fields: Sequence[NamedValue], declaration: Declaration
) -> Sequence[NamedValue]:
    """The columns of a query, of which a table can be made."""
    places = _places(query, fields)
    seen: set[str] = set()
    for number, (one, place) in enumerate(zip(fields, places, strict=True)):
        if not one.name:
            raise ModelError(f"column {number + 1} has no name", place=place, next_step="Write AS")
        lowered = one.name.lower()
        if lowered in seen:
            raise ModelError(f"two columns are called {one.name}", place=place)
        if lowered in declaration.partition_by:
            raise ModelError(
                f"column {one.name} is called as a name under `for`, by which the table is "
                "partitioned: the platform adds that column",
                place=place,
                next_step="Leave it out of the SELECT, or give it another name",
            )
        if one.value.type == "void":
            raise ModelError(
                f"column {one.name} is always NULL, and has no type",
                place=place,
                next_step="CAST it",
            )
        seen.add(lowered)
    return fields


def _places(query: exp.Expr, fields: Sequence[NamedValue]) -> list[TextPlace | None]:
    """Where each column stands in a query; where the query does, if a star stands for some."""
    selects = [one.unalias() for one in query.selects] if isinstance(query, exp.Query) else []
    same = len(selects) == len(fields)
    return [at(selects[number]) if same else at(query) for number in range(len(fields))]


def _partition_columns(
    declaration: Declaration, types: Mapping[str, Typed]
) -> Iterator[NamedValue]:
    for name in declaration.partition_by:
        yield NamedValue(name, types[name])


def _refuse_personal(
    declaration: Declaration,
    query: exp.Expr,
    fields: Sequence[NamedValue],
    tables: ReadableTables,
) -> None:
    """A column that the contract hides reaches no model, but where the model says that nobody can
    be told from what it makes of it. So none of the models that it reads has any."""
    names = {one.name.lower() for one in fields}
    for one in declaration.released:
        if one.lower() not in names:
            raise ModelError(
                f"`released`: there is no column {one}{nearest(one, names)}",
                place=declaration.header_place("released"),
                in_header=True,
            )
    catalogue = tables.catalogue
    origins = {origin for one in fields for origin in one.value.origins}
    mirrored = {name: catalogue.table(name) for name in {origin.table for origin in origins}}
    hidden = {
        Origin(name, column)
        for name, table in mirrored.items()
        if table is not None
        for column in catalogue.hidden(table)
    }
    hidden |= {
        Origin(one.name, column)
        for one in tables.externals.values()
        for column in one.declaration.hidden
    }
    found = [
        (one.name, origin)
        for one in fields
        if one.name.lower() not in declaration.released
        for origin in sorted(one.value.origins & hidden, key=lambda o: (o.table, o.column))
    ]
    if found:
        # A column that a person knows comes first, where there are several.
        name, origin = min(found, key=lambda one: one[0].startswith("_mirror_"))
        in_header = declaration.python is not None
        own = [one for one in fields if one.name not in declaration.partition_by]
        places = dict(zip((one.name for one in own), _places(query, own), strict=True))
        raise ModelError(
            f"column {name} is made of {origin.column} of {origin.table}, which the contract hides",
            place=declaration.header_place("columns", name) if in_header else places[name],
            in_header=in_header,
            next_step="Read the clean table instead; or, where nobody can be told from it, name "
            f"the column in the header: `released: [{name}]`",
        )


def _fingerprint(declaration: Declaration, kept: KeptModel, models: Mapping[str, Model]) -> str:
    said: dict[str, object] = {
        "sql": kept.sql,
        "columns": [(one.name, one.value.type) for one in kept.fields],
        "reads": {name: models[name].fingerprint for name in kept.reads if name in models},
    }
    if declaration.python is not None:
        said["code"] = declaration.python.said()
    if declaration.materialized in ("stream view", "snapshot"):
        said["materialized"] = declaration.materialized
    text = json.dumps(said, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def stored_columns(project: Project, model: Model, column: str) -> list[Origin]:
    """The columns of mirrored tables that a column is made of, through all models between."""
    found: dict[Origin, None] = {}
    value = next(one.value for one in model.fields if one.name.lower() == column.lower())
    for origin in sorted(value.origins, key=lambda one: (one.table, one.column)):
        above = project.models.get(origin.table)
        if above is None:
            found[origin] = None
        else:
            found |= dict.fromkeys(stored_columns(project, above, origin.column))
    return list(found)
