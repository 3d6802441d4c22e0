"""``permissions.yaml`` → all that it declares, or all that is wrong with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from mirrorlake.config.configuration import Config
from mirrorlake.config.yaml.problems import raise_problems
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.permissions.declared_datasets import (
    DatasetPermissions,
    dataset_problems,
    declared_datasets,
    read_permissions,
)
from mirrorlake.permissions.declared_groups import GroupPermissions, declared_groups, group_problems
from mirrorlake.permissions.file_sections import PermissionsFile


@dataclass(frozen=True)
class DeclaredPermissions:
    """What is declared of datasets and of Google groups."""

    datasets: tuple[DatasetPermissions, ...] = ()
    groups: tuple[GroupPermissions, ...] = ()


def permissions_path(config: Config) -> Path:
    """The permissions file beside a contract file, whether it is there or not."""
    return config.path.parent / "permissions.yaml"


def load_permissions(path: Path, project: str) -> DeclaredPermissions:
    """Read ``permissions.yaml``.

    Args:
        project: of views, routines and datasets that are written without one.

    Raises:
        ConfigError: the file can't be read, or has problems: all of them, one a line, each with
            file, line and column.
    """
    file, sections = read_permissions(path)
    raise_problems(path, _problems(file, sections))
    return DeclaredPermissions(
        declared_datasets(path, file, sections, project),
        declared_groups(path, file, sections),
    )


def _problems(file: YamlFile, sections: PermissionsFile) -> Iterator[Problem]:
    written = file.root if isinstance(file.root, dict) else {}
    for name in ("datasets", "groups"):
        if name in written and not getattr(sections, name):
            yield file.problem((name,), "is empty")
    if not {"datasets", "groups"} & written.keys():
        yield file.problem(("datasets",), "is missing")
    found = (dataset_problems(sections), group_problems(sections.groups))
    for where, words in chain.from_iterable(found):
        yield file.problem(where, words, at_key=True)
