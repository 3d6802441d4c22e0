"""The models beside a contract file, compiled against its lake.

What belongs here: compiling, and choosing scopes. What doesn't: what is said of a model
(`mirrorlake.models.show.model`).
"""

from __future__ import annotations

import gc
import glob
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sqlglot import exp

from mirrorlake.capabilities import Seam
from mirrorlake.config.configuration import Config
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.storage.folders import warehouse_uri
from mirrorlake.errors import ModelError
from mirrorlake.models.cache.files import KeptModels, kept_folder
from mirrorlake.models.compile.dependencies import learn_rules
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.compile.project import compile_models
from mirrorlake.models.external_sources.inspect import look_at_externals
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.tables import Externals, ExternalTable
from mirrorlake.models.files.declaration import Declaration, read_declarations
from mirrorlake.models.files.external_table import ExternalDeclaration, read_externals
from mirrorlake.models.files.model_files import FOLDER
from mirrorlake.models.scope_values.comprehension import ScopeValues, shown_text, text_of
from mirrorlake.models.spark_sql.parser import table_name
from mirrorlake.serving.catalogue import Catalogue

REFUSALS: Final[Seam[Callable[[Config], Callable[[Model], None]]]] = Seam("models: refused")
"""Given the contracts, each gives what raises a `ModelError` of a model that can't be."""
_MANY = 100_000
"""Objects that are made before Python looks for garbage among the young."""


def _refusal(config: Config) -> Callable[[Model], None]:
    refusals = [of(config) for of in REFUSALS]

    def refuse(model: Model) -> None:
        for one in refusals:
            one(model)

    return refuse


def models_folder(config: Config) -> Path:
    return config.path.parent / FOLDER


def has_model(config: Config, name: str) -> bool:
    """Whether there is a file of a model of this name, whatever is in it."""
    dataset, dot, own = name.lower().partition(".")
    return bool(dot) and any((models_folder(config) / dataset).glob(f"{glob.escape(own)}.*"))


def compile_project(
    config: Config, lake: Lake, now: datetime | None = None, catalogue: Catalogue | None = None
) -> tuple[Project, Catalogue]:
    """Compile the models beside a contract file; what is found of each is kept beside it, too.

    Args:
        catalogue: the mirror's tables, where somebody has looked at them.

    Raises:
        LakeError: the lake can't be read; what is wrong with files and queries is in the project.
    """
    catalogue = catalogue or Catalogue(config, lake)
    with _few_collections():
        folder = models_folder(config)
        (declared, lost), (declarations, unread) = read_externals(folder), read_declarations(folder)
        externals = look_at_externals(declared, lake, OwnPlaces.of(config))
        kept, now = KeptModels(kept_folder(config.path)), now or datetime.now(UTC)
        project = compile_models(
            *(declarations, catalogue, now, externals, kept, lost + unread),
            refuse=_refusal(config),
        )
        for model in project.models.values():
            learn_rules(project, catalogue, model)
        found = {name: model.kept for name, model in project.models.items()}
        kept.keep(found, [one.name for one in declarations])
    return project, catalogue


@contextmanager
def _few_collections() -> Iterator[None]:
    """Python looks for garbage less often within the block.

    A thousand models are a million objects that live on: looking through them again and again took
    two fifths of the time of a compilation of which everything was known.
    """
    before = gc.get_threshold()
    # Where it is off, or somebody else has it so, it stays.
    if not 0 < before[0] < _MANY:
        yield
        return
    gc.set_threshold(_MANY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


@dataclass(frozen=True)
class Uncompiled:
    """A model that does not compile.

    Attributes:
        words: why, with its file.
        reads: the tables that it names, and those that models above it name that do not compile
            either, in lower case; None where its query can't be read.
    """

    words: str
    next_step: str
    reads: frozenset[str] | None

    def may_read(self, tables: Iterable[str]) -> bool:
        """Whether it reads one of these tables, as far as that can be told."""
        return self.reads is None or not self.reads.isdisjoint(tables)


def compile_readable(
    config: Config, lake: Lake, now: datetime | None = None
) -> tuple[Project, Catalogue, list[Uncompiled]]:
    """Compile those models beside a contract file that can be; and the others, each with its
    reason: a file that can't be read hides no other.

    Raises:
        LakeError: the lake can't be read.
    """
    catalogue, folder = Catalogue(config, lake), models_folder(config)
    (declared, lost), (declarations, unread) = read_externals(folder), read_declarations(folder)
    externals = look_at_externals(declared, lake, OwnPlaces.of(config))
    now = now or datetime.now(UTC)
    project = compile_models(
        *(declarations, catalogue, now, externals),
        unread=lost + unread,
        refuse=_refusal(config),
    )
    others = [Uncompiled(one.message, one.next_step, None) for one in unread.problems]
    # What is made elsewhere reads nothing here.
    of_externals = (*lost.problems, *externals.problems)
    others += [Uncompiled(one.message, one.next_step, frozenset()) for one in of_externals]
    reads = {one.name: _tables_of(one) for one in declarations if one.name in project.unfinished}
    for name in reads:
        why = project.unfinished[name]
        others.append(Uncompiled(why.message, why.next_step, _through(name, reads, set())))
    return project, catalogue, others


def _tables_of(declaration: Declaration) -> frozenset[str] | None:
    try:
        query = declaration.parsed()
    except ModelError:
        return None
    return frozenset(table_name(table) for table in query.find_all(exp.Table))


def _through(
    name: str, reads: Mapping[str, frozenset[str] | None], seen: set[str]
) -> frozenset[str] | None:
    """What a model reads, through others that do not compile, too."""
    mine = reads[name]
    seen.add(name)
    if mine is None:
        return None
    found = mine
    for above in mine & reads.keys() - seen:
        more = _through(above, reads, seen)
        if more is None:
            return None
        found |= more
    return found


@contextmanager
def compile_offline(
    config: Config,
) -> Iterator[tuple[Project, Catalogue, Mapping[str, Declaration]]]:
    """Compile the models beside a contract file, whether or not its lake is there yet; and what
    their files declare. No lake is made for that.

    Raises:
        ModelError: files can't be read; what is wrong with queries is in the project.
        LakeError: the lake can't be read.
    """
    models = models_folder(config)
    (declared, lost), (declarations, unread) = read_externals(models), read_declarations(models)
    (lost + unread).raise_problems()
    # As they are declared: nobody looks at them.
    externals = _as_declared(declared, OwnPlaces.of(config))
    warehouse = warehouse_uri(config.lake.warehouse)
    with tempfile.TemporaryDirectory(prefix="mirrorlake-") as folder:
        local = Path(warehouse.removeprefix("file://"))
        there = not warehouse.startswith("file://") or config.lake.catalog.uri or local.exists()
        settings = config.lake if there else LakeConfig(warehouse=folder)
        catalogue = Catalogue(config, Lake(settings))
        project = compile_models(declarations, catalogue, datetime.now(UTC), externals)
        yield project, catalogue, {one.name: one for one in declarations}


def _as_declared(declared: Iterable[ExternalDeclaration], own: OwnPlaces) -> Externals:
    tables: dict[str, ExternalTable] = {}
    why: dict[str, ModelError] = {}
    for one in declared:
        try:
            own.refuse(one)
            tables[one.name] = ExternalTable(one)
        except ModelError as error:
            why[one.name] = error
    return Externals(tables, why)


def scopes_of(model: Model, wanted: Mapping[str, str]) -> list[ScopeValues]:
    """The scopes of a model that have some values, as they are shown or as they are written; all
    without any.

    Raises:
        ModelError: the model has no such name, or no such scope.
    """
    names = model.declaration.scopes.names
    for name in wanted:
        if name not in names:
            raise ModelError(
                f"{model.name} has no name {name} under `for`",
                next_step=f"It has {', '.join(names)}" if names else "It has one partition",
            )

    everything = (*model.scopes, *model.gone) if any("%" in v for v in wanted.values()) else ()
    meant = {
        name: shown_text(value, (scope[name] for scope in everything))
        for name, value in wanted.items()
    }

    def is_meant(scope: ScopeValues) -> bool:
        return all(text_of(scope[name]) == value for name, value in meant.items())

    found = [scope for scope in model.scopes if is_meant(scope)]
    if not found:
        said = " ".join(f"{name}={value}" for name, value in wanted.items())
        retention = model.declaration.retention
        if retention is not None and any(is_meant(scope) for scope in model.gone):
            raise ModelError(
                f"{model.name} {said} is no longer kept: its retention is {retention.text}",
                next_step=f"They go from {model.key_of(model.scopes[0])} on",
            )
        raise ModelError(
            f"{model.name} has no partition {said}",
            next_step=f"They go from {model.key_of(model.scopes[0])} to "
            f"{model.key_of(model.scopes[-1])}",
        )
    return found
