"""The models beside a contract file, compiled against its lake.

What belongs here: compiling, and choosing scopes. What doesn't: what is said of a model
(`mirrorlake.operations.models.show`).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from mirrorlake.config.contract import Config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ModelError
from mirrorlake.models.catalogue import Catalogue
from mirrorlake.models.declaration import read_declarations
from mirrorlake.models.dependencies import learn_rules
from mirrorlake.models.external import read_externals
from mirrorlake.models.kept import KeptModels, kept_folder
from mirrorlake.models.model import Model, Project
from mirrorlake.models.model_files import FOLDER
from mirrorlake.models.project import compile_models
from mirrorlake.models.scopes import ScopeValues, text_of
from mirrorlake.operations.models.elsewhere import look_at_externals

_MANY = 100_000
"""Objects that are made before Python looks for garbage among the young."""


def models_folder(config: Config) -> Path:
    return config.path.parent / FOLDER


def compile_project(
    config: Config, lake: Lake, now: datetime | None = None
) -> tuple[Project, Catalogue]:
    """Compile the models beside a contract file; what is found of each is kept beside it, too.

    Raises:
        ModelError: a file can't be read; what is wrong with queries is in the project.
        LakeError: the lake can't be read.
    """
    catalogue = Catalogue(config, lake)
    with _few_collections():
        folder = models_folder(config)
        externals = look_at_externals(read_externals(folder), lake)
        declarations = read_declarations(folder)
        kept, now = KeptModels(kept_folder(config.path)), now or datetime.now(UTC)
        project = compile_models(declarations, catalogue, now, externals, kept)
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


def scopes_of(model: Model, wanted: Mapping[str, str]) -> list[ScopeValues]:
    """The scopes of a model that have some values, as they are shown; all without any.

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
    found = [
        scope
        for scope in model.scopes
        if all(text_of(scope[name]) == value for name, value in wanted.items())
    ]
    if not found:
        said = " ".join(f"{name}={value}" for name, value in wanted.items())
        raise ModelError(
            f"{model.name} has no partition {said}",
            next_step=f"They go from {model.key_of(model.scopes[0])} to "
            f"{model.key_of(model.scopes[-1])}",
        )
    return found
