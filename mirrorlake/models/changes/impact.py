"""What becomes of models when tables of the mirror get other columns.

Models are compiled against the tables as they would be, and held beside what they are: what does
not compile any more breaks, and so does what loses a column or gives one of another type; what
changes otherwise is computed again. Nothing is written, and Spark is not started.

What belongs here: models. What doesn't: what a mirrored table will have
(`mirrorlake.operations.schema_changes.altered_tables`), and what is said of the table itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.column_uses import ColumnReading, readings, table_places
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.project import compile_models
from mirrorlake.models.external_sources.tables import Externals
from mirrorlake.models.ledger import ModelRecords
from mirrorlake.models.spark_sql.columns import broken_columns
from mirrorlake.operations.planning.forecasts import forecast_partitions
from mirrorlake.operations.planning.reader_impacts import ImpactWord, ModelImpact, ReadPlace
from mirrorlake.operations.schema_changes.altered_tables import AlteredCatalogue, AlteredColumn


def impacts_of(project: Project, catalogue: AlteredCatalogue) -> list[ModelImpact]:
    """What becomes of each model that compiles now, in the order in which they read one another;
    those of which nothing changes are left out.

    Args:
        project: compiled against the tables as they are.
        catalogue: the tables as they would be.

    Raises:
        LakeError: the lake can't be read.
    """
    below = _those_below(project, frozenset(catalogue.altered))
    if not below:
        return []
    wanted = _with_those_above(project, list(below))
    declarations = [project.models[name].declaration for name in project.models if name in wanted]
    now = next(iter(project.models.values())).now
    after = compile_models(declarations, catalogue, now, Externals(project.externals))
    changed = {(one.table, one.column.lower()): one for one in catalogue.columns()}
    found: list[ModelImpact] = []
    for name, tables in below.items():
        model = project.models[name]
        named = list(_named(project, catalogue, model, changed))
        _derive(model, changed)
        impact = _impact(model, after)
        if impact is not None or named:
            what, words = impact or ("reads", ())
            places = tuple(
                ReadPlace(name, r.place, r.table, r.column, one.words) for r, one in named
            )
            fits = all(one.fits for _, one in named)
            of, there = tuple(sorted(tables)), name in after.models
            found.append(ModelImpact(name, what, words, places, of, fits, compiles=there))
    return found


def with_costs(impact: ModelImpact, model: Model, ledger: Ledger) -> ModelImpact:
    """What computing the partitions of a model again takes, by what they took.

    Raises:
        LedgerError: the ledger can't be read.
    """
    if impact.what == "reads" or not impact.compiles:
        return impact
    records = ModelRecords(ledger).partitions(model.name)
    keys = [key for key in records if key in model.by_key]
    forecast = forecast_partitions(records, keys)
    return replace(impact, partitions=len(keys), forecast=forecast)


def _those_below(project: Project, tables: frozenset[str]) -> dict[str, frozenset[str]]:
    """Model → which of these tables it reads, through others or itself; in order."""
    found: dict[str, frozenset[str]] = {}
    for model in project.models.values():
        reads = set(model.bound.reads)
        mine = (reads & tables).union(*(found.get(name, ()) for name in reads))
        if mine:
            found[model.name] = frozenset(mine)
    return found


def _with_those_above(project: Project, names: list[str]) -> set[str]:
    wanted: set[str] = set()
    while names:
        name = names.pop()
        if name in project.models and name not in wanted:
            wanted.add(name)
            names += project.models[name].bound.reads
    return wanted


def _named(
    project: Project,
    catalogue: AlteredCatalogue,
    model: Model,
    changed: Mapping[tuple[str, str], AlteredColumn],
) -> Iterator[tuple[ColumnReading, AlteredColumn]]:
    """The places where a model names columns that change."""
    for table in model.bound.reads:
        if not any(of == table for of, _ in changed):
            continue
        above, mirrored = project.models.get(table), catalogue.before.table(table)
        columns: Sequence[str] = [one.name for one in above.fields] if above is not None else ()
        columns = [name for name, _, _ in mirrored.columns] if mirrored is not None else columns
        for one in readings(model, table, columns):
            if (table, one.column) in changed:
                yield one, changed[table, one.column]


def _derive(model: Model, changed: dict[tuple[str, str], AlteredColumn]) -> None:
    """Take up the model's own columns that are made of ones that change."""
    for one in model.fields:
        made_of = sorted(
            (origin.table, origin.column)
            for origin in one.value.origins
            if (origin.table, origin.column) in changed
        )
        if made_of:
            table, column = made_of[0]
            source = changed[table, column]
            words = source.words
            if " of " not in words:
                words = f"is made of {column} of {table}: that {words}"
            changed[model.name, one.name.lower()] = AlteredColumn(
                model.name, one.name.lower(), words, all(changed[key].fits for key in made_of)
            )


def _impact(model: Model, after: Project) -> tuple[ImpactWord, tuple[str, ...]] | None:
    now = after.models.get(model.name)
    if now is None:
        start = f"{model.declaration.path}:"
        # The column goes: a similar name is not the one that was meant.
        said = (one.message.partition("; did you mean ")[0] for one in after.problems)
        own = [words for words in said if words.startswith(start)]
        above = [name for name in model.bound.reads if name in after.unfinished]
        for one in above if not own else ():
            where = next(iter(table_places(model, one)), str(model.declaration.path))
            own.append(f"{where}: {model.name} reads {one}, which does not compile then")
        return "breaks", tuple(own)
    was = {one.name: one.value.type for one in model.fields}
    is_now = {one.name: one.value.type for one in now.fields}
    broken = broken_columns(was, is_now)
    news = [f"{name} {kind} is new" for name, kind in is_now.items() if name not in was]
    words = tuple(f"{model.name}: {one}" for one in (*broken.values(), *news))
    if broken:
        return "breaks", words
    if now.fingerprint != model.fingerprint:
        return "again", words or (f"{model.name}: a model that it reads changes",)
    return None
