"""All models of a folder, bound in the order in which they read one another.

Compiling starts no Spark and reads no rows: it finds every model's columns with their types,
nullability and origins, and every error, each with file, line and column.

What belongs here: models beside one another. What doesn't: one file
(`mirrorlake.models.files.declaration`), one query (`mirrorlake.models.spark_sql.binding.binder`),
partitions of inputs (`mirrorlake.models.compile.dependencies`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import cast

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.cache.files import KeptModels
from mirrorlake.models.cache.model import KeptModel, found_key
from mirrorlake.models.cache.scope_rules import RuleBook
from mirrorlake.models.cache.unchanged_models import text_key
from mirrorlake.models.compile.bound_expectations import expectations_of
from mirrorlake.models.compile.clock_and_chance import refuse_unsteady
from mirrorlake.models.compile.dependencies import looked_up
from mirrorlake.models.compile.lookback import refuse_short_retention
from mirrorlake.models.compile.model import BoundModel, Model, Project
from mirrorlake.models.compile.partition_times import kept_and_gone, time_name
from mirrorlake.models.compile.readable_tables import ReadableTables
from mirrorlake.models.compile.stored_columns import fields_of
from mirrorlake.models.compile.stream_views import refuse_half_streamed
from mirrorlake.models.compile.uncompiled import Broken, place_of
from mirrorlake.models.external_sources.tables import Externals
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.model_files import Unread
from mirrorlake.models.files.python_columns import python_fields
from mirrorlake.models.spark_sql.binding.binder import bind
from mirrorlake.models.spark_sql.columns import NamedValue, Origin
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.parser import table_name
from mirrorlake.serving.catalogue import Catalogue


def compile_models(
    declarations: Sequence[Declaration],
    catalogue: Catalogue,
    now: datetime,
    externals: Externals | None = None,
    kept: KeptModels | None = None,
    unread: Unread | None = None,
    refuse: Callable[[Model], None] | None = None,
) -> Project:
    """Bind all models.

    Args:
        now: what ``CURRENT_DATE`` is in their scopes (UTC).
        externals: the tables that are made elsewhere.
        kept: what was found before.
        unread: files beside them that can't be read; what reads their models does not compile.
        refuse: raises `ModelError` of a model that can't be for another reason.

    Raises:
        LakeError: the lake can't be read.
    """
    externals, unread = externals or Externals(), unread or Unread()
    broken = Broken([*unread.problems, *externals.problems], {**externals.why, **unread.why})
    declarations, externals = _of_own_names(declarations, externals, catalogue, broken)
    sources: dict[str, _Source] = {}
    for one in declarations:
        try:
            sources[one.name] = _Source.of(
                one, (kept or KeptModels()).find(one.name, text_key(one))
            )
        except ModelError as error:
            broken.add(one.name, one.located(error))
    reads = {name: sources.keys() & one.reads for name, one in sources.items()}
    models: dict[str, Model] = {}
    tables = ReadableTables(catalogue, models, [one.name for one in declarations], externals)
    for name in _in_order(reads, sources, broken):
        # A mirrored table is read as it is, whatever a file of its name says.
        above = [one for one in sources[name].reads if one in broken and not catalogue.table(one)]
        if above:
            broken.add_reader(sources[name].declaration, sources[name].query(), above[0])
            continue
        try:
            model = models[name] = _compiled(sources[name], tables, now)
            look = partial(looked_up, Project(models), catalogue, model)
            refuse_short_retention(model, models, look)
            if refuse is not None:
                refuse(model)
        except ModelError as error:
            broken.add(name, sources[name].declaration.located(error))
            models.pop(name, None)
    return Project(
        models,
        problems=tuple(broken.problems),
        readers=_readers(models),
        externals=externals.tables,
        unfinished=broken.why,
        blocked=tuple(broken.readers),
    )


def _readers(models: Mapping[str, Model]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for model in models.values():
        for table in model.reads:
            found.setdefault(table, []).append(model.name)
    return {table: tuple(several) for table, several in found.items()}


def _of_own_names(
    declarations: Sequence[Declaration], externals: Externals, catalogue: Catalogue, broken: Broken
) -> tuple[list[Declaration], Externals]:
    """Those whose names are not taken by something else: a mirrored table is read as it is."""
    models: list[Declaration] = []
    for one in declarations:
        try:
            _refuse_mirrored(one, catalogue)
            models.append(one)
        except ModelError as error:
            broken.add(one.name, one.located(error))
    paths, tables = {one.name: one.path for one in models}, dict(externals.tables)
    for name, table in externals.tables.items():
        if name in paths:
            words = f"{name} is model {paths[name]}, too"
            broken.problems.append(table.declaration.wrong(words))
        elif catalogue.spelled(name):
            broken.add(name, table.declaration.wrong(f"{name} is a mirrored table"))
            del tables[name]
    return models, Externals(tables, externals.why)


def _refuse_mirrored(declaration: Declaration, catalogue: Catalogue) -> None:
    if catalogue.spelled(declaration.name):
        raise ModelError(
            f"{declaration.name} is a mirrored table", next_step="Give the model another name"
        )


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
    broken: Broken,
) -> list[str]:
    """Models after those that they read, without those of a circle."""
    left = {name: set(names) for name, names in sorted(reads.items())}
    while True:
        try:
            return list(TopologicalSorter(left).static_order())
        except CycleError as error:
            circle = list(dict.fromkeys(cast("list[str]", error.args[1])))
            # Each is read by the one after it.
            words = " reads ".join((circle[0], *reversed(circle)))
            first = min(circle)
            place = place_of(sources[first].query(), circle)
            problem = ModelError(f"models read one another in a circle: {words}", place=place)
            broken.add_circle(circle, sources[first].declaration.located(problem))
            left = {name: ns - set(circle) for name, ns in left.items() if name not in circle}


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
    _refuse_mirrored(declaration, tables.catalogue)
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
        _refuse_in_view(declaration, query)
        return query, bind(query, tables, types, declaration.functions.by_name)

    text = text_key(declaration) if source.kept is None else source.kept.text
    offers = {name: tables.offer(name) for name in source.reads}
    key = found_key(text, types, offers)
    kept = source.kept
    if kept is None or kept.key != key:
        found = bound()
        code = declaration.python
        given = python_fields(declaration, code, tables, types) if code is not None else None
        read = tables.catalogue, tables.externals
        fields = fields_of(declaration, found, given, *read, types)
        kept = _kept(declaration, found, fields, (text, key), offers)
        bound = partial(_same, found)
    refuse_half_streamed(declaration, source.query, kept.reads, tables.models, tables.catalogue)
    refuse_unsteady(declaration, kept.reads, tables.models, source.query)
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


def _refuse_in_view(declaration: Declaration, query: exp.Expr) -> None:
    """See that a view calls no function of the project."""
    calls = query.find_all(exp.Anonymous) if declaration.is_view else ()
    for one in calls:
        if str(one.this).lower() in declaration.functions.by_name:
            raise ModelError(
                f"{one.this} is a function of {declaration.functions.path}: a view is read where "
                "nobody has it",
                place=at(one),
                next_step="Make the model a table",
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


def names_in(query: exp.Expr, names: Sequence[str]) -> tuple[str, ...]:
    """Those of some names that stand in a query, in their order: what it gives is a function of
    these alone."""
    there = {one.name.lower() for one in query.find_all(exp.Column)}
    return tuple(name for name in names if name in there)


def _fingerprint(declaration: Declaration, kept: KeptModel, models: Mapping[str, Model]) -> str:
    said: dict[str, object] = {
        "sql": kept.sql,
        "columns": [(one.name, one.value.type) for one in kept.fields],
        "reads": {name: models[name].fingerprint for name in kept.reads if name in models},
    }
    if declaration.python is not None:
        said["code"] = declaration.python.said()
    if declaration.functions.by_name:
        said["functions"] = declaration.functions.said()
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
