"""The pandera schemas that models name, loaded before they are needed.

What belongs here: which models have some. What doesn't: loading one
(`mirrorlake.models.checks.pandera_schemas`).
"""

from __future__ import annotations

from collections.abc import Iterator

from mirrorlake.errors import ModelError
from mirrorlake.models.checks.pandera_schemas import is_own, load_schema
from mirrorlake.models.compile.model import Model, Project


def load_schemas(model: Model, *, own: bool = True) -> None:
    """See that the pandera schemas of a model are there.

    Args:
        own: whether those in the file of a Python model are meant, too: it is run.

    Raises:
        ModelError: one can't be had, or can't be used.
        MachineError: pandera is not installed.
    """
    for one in model.expectations:
        if one.kind == "pandera" and (own or not is_own(model, one.text)):
            load_schema(model, one.text)


def schema_problems(project: Project) -> Iterator[ModelError]:
    """What is wrong with the pandera schemas of a project's models. The file of a Python model is
    not run for that."""
    for model in project.models.values():
        try:
            load_schemas(model, own=False)
        except ModelError as error:
            yield model.declaration.located(error)
