"""What is wrong with what a person wrote in a YAML file, or header, beside models.

What belongs here: problems of such a file as one error. What doesn't: what each kind of file says.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from mirrorlake.config.fields import Section
from mirrorlake.config.yaml.problems import validation_problems
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError

_AnySection = TypeVar("_AnySection", bound=Section)


def read_section(
    path: Path,
    file: YamlFile,
    section: type[_AnySection],
    no_mapping: Problem,
    *,
    may_be_empty: bool = False,
) -> _AnySection:
    """What a file says, as its section has it.

    Args:
        no_mapping: the problem of a file that holds something else.

    Raises:
        ModelError: all that is wrong, one a line, each with file, line and column.
    """
    problems = list(file.problems)
    root = {} if may_be_empty and file.root is None else file.root
    if not problems and not isinstance(root, dict):
        problems = [no_mapping]
    raise_problems(path, problems)
    try:
        return section.model_validate(root)
    except ValidationError as error:
        raise joined(path, validation_problems(file, error, section)) from None


def raise_problems(path: Path, problems: Iterable[Problem]) -> None:
    """See that there is none.

    Raises:
        ModelError: there are some.
    """
    if found := list(problems):
        raise joined(path, found)


def joined(path: Path, problems: Iterable[Problem]) -> ModelError:
    """All problems of a file as one error, one a line, each with its place."""
    first, *others = sorted(problems)
    words = "\n".join(f"{path}:{one}" for one in (first, *others))
    return ModelError(words, place=(first.line, first.column))
