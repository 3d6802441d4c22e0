"""``permissions.yaml`` → who is to have which role on which dataset of BigQuery.

What is not declared is to go, so a file that can't be understood as a whole declares nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from mirrorlake.config.fields import nearest
from mirrorlake.config.yaml.problems import raise_problems, read_text, validation_problems
from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.config.yaml.yaml_file import YamlFile
from mirrorlake.errors import ConfigError
from mirrorlake.permissions.file_sections import SET, DatasetSection, PermissionsFile
from mirrorlake.permissions.grants import (
    AUTHORISED,
    EVERYBODY,
    OWNER,
    Grant,
    Role,
    covers,
    principal_of,
)

_FILE_NEEDS = "Write one: docs/bigquery-permissions.md has a first one"


@dataclass(frozen=True)
class DatasetPermissions:
    """What is declared of one dataset.

    Attributes:
        place: ``file:line:column`` of its name.
        reasons: why persons have a role, by their grant.
    """

    dataset: str
    grants: frozenset[Grant]
    place: str
    reasons: Mapping[Grant, str] = field(default_factory=dict[Grant, str])


PlacedWords: TypeAlias = Iterator[tuple[YamlPath, str]]


def declared_datasets(
    path: Path, file: YamlFile, sections: PermissionsFile, project: str
) -> tuple[DatasetPermissions, ...]:
    """The datasets of a permissions file that has no problems.

    Args:
        project: of views, routines and datasets that are written without one.
    """
    return tuple(
        _declared(
            dataset, section, sections.sets, project, place_of(path, file, ("datasets", dataset))
        )
        for dataset, section in sorted(sections.datasets.items())
    )


def read_permissions(path: Path) -> tuple[YamlFile, PermissionsFile]:
    """Read ``permissions.yaml``, with its sets, before what it declares is looked at.

    Raises:
        ConfigError: the file can't be read, or has problems: all of them, with their places.
    """
    file = YamlFile(read_text(path, "permissions file", _FILE_NEEDS))
    raise_problems(path, file.problems)
    if not isinstance(file.root, dict):
        raise ConfigError(f"{path}:1:1: the permissions file is empty", next_step=_FILE_NEEDS)
    try:
        sections = PermissionsFile.model_validate(file.root)
    except ValidationError as error:
        raise_problems(path, validation_problems(file, error, PermissionsFile))
        raise  # unreachable: a ValidationError holds at least one problem
    raise_problems(path, (file.problem(*found) for found in _set_problems(sections)))
    return file, sections


def permissions_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of ``permissions.yaml``, for editors and for reading."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **PermissionsFile.model_json_schema(mode="validation"),
        "title": "permissions.yaml",
    }


Sets: TypeAlias = Mapping[str, tuple[str, ...]]


def _set_problems(sections: PermissionsFile) -> PlacedWords:
    """Sets that are named and are not there, or that contain themselves."""
    sets = sections.sets
    for name, members in sets.items():
        for index, member in enumerate(members):
            inner = member.removeprefix(SET)
            if member.startswith(SET) and inner not in sets:
                yield ("sets", name, index), f"there is no set {inner!r}{nearest(inner, sets)}"
            elif member.startswith(SET) and name in _reached(inner, sets):
                through = "" if inner == name else f", through {inner}"
                words = f"the set {name!r} contains itself{through}: leave this out"
                yield ("sets", name, index), words
            elif member.lower() in map(str.lower, members[:index]):
                yield ("sets", name, index), f"{member} is in this set twice: leave one out"
    for dataset, section in sections.datasets.items():
        yield from _unknown_sets(("datasets", dataset, "principals"), section.principals, sets)


def _unknown_sets(path: YamlPath, members: Iterable[str], sets: Sets) -> PlacedWords:
    """Sets that are named and are not there; each at its name."""
    for member in members:
        inner = member.removeprefix(SET)
        if member.startswith(SET) and inner not in sets:
            yield (*path, member), f"there is no set {inner!r}{nearest(inner, sets)}"


def _reached(name: str, sets: Sets) -> set[str]:
    """A set, and all sets in it, however deep."""
    found: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += [m.removeprefix(SET) for m in sets.get(one, ()) if m.startswith(SET)]
    return found


def dataset_problems(sections: PermissionsFile) -> PlacedWords:
    """Datasets without an owner, and principals that are declared twice or may do more than they
    ever should; each at its key."""
    for dataset, section in sections.datasets.items():
        path: YamlPath = ("datasets", dataset)
        roles = [role for _, role, _ in _written(section, sections.sets)]
        if OWNER not in roles:
            yield path, "no owner is declared: applying this would remove the last one"
        for where, message in _grant_problems(section, sections.sets):
            yield (*path, *where), message


def _grant_problems(section: DatasetSection, sets: Sets) -> PlacedWords:
    """Principals that are declared twice, or may do more than they ever should."""
    first: dict[str, YamlPath] = {}
    for principal, role, where in _written(section, sets):
        if principal in EVERYBODY and not covers("reader", role):
            yield where, f"{principal} is everybody, who may be no more than reader"
        if first.setdefault(principal, where) != where:
            before = first[principal][-1]
            yield where, f"{principal} is declared already, by {before}: leave one of them out"
    for kind in ("views", "routines", "datasets"):
        names: tuple[str, ...] = getattr(section.authorised, kind)
        for index, name in enumerate(names):
            if name in names[:index]:
                yield ("authorised", kind, index), f"{name} is declared twice: leave one out"


def _written(section: DatasetSection, sets: Sets) -> Iterator[tuple[str, Role, YamlPath]]:
    """Each principal with each of its roles, and where in the dataset's section it is written."""
    for member, roles in section.principals.items():
        for principal in _members_of(member, sets):
            for role in roles:
                yield principal, role, ("principals", member)
    for person, exception in section.exceptions.items():
        for role in exception.role:
            yield principal_of(person), role, ("exceptions", person)


def _members_of(member: str, sets: Sets) -> list[str]:
    """The principals that a member stands for, each as often as it is written."""
    if not member.startswith(SET):
        return [principal_of(member)]
    names = sorted(_reached(member.removeprefix(SET), sets))
    found = (one for name in names for one in sets[name] if not one.startswith(SET))
    return sorted({principal_of(one) for one in found})


def _declared(
    dataset: str, section: DatasetSection, sets: Sets, project: str, place: str
) -> DatasetPermissions:
    grants = {Grant(principal, role) for principal, role, _ in _written(section, sets)}
    reasons = {
        Grant(principal_of(person), role): exception.reason
        for person, exception in section.exceptions.items()
        for role in exception.role
    }
    objects = section.authorised
    for kind, parts, names in (
        ("view", 3, objects.views),
        ("routine", 3, objects.routines),
        ("dataset", 2, objects.datasets),
    ):
        grants |= {Grant(authorised(kind, parts, name, project), AUTHORISED) for name in names}
    return DatasetPermissions(dataset, frozenset(grants), place, reasons)


def authorised(kind: str, parts: int, name: str, project: str) -> str:
    """The principal that an authorised object is; ``project`` is its own where it names none.

    >>> authorised("view", 3, "shop__views_clean.orders", "p")
    'view:p.shop__views_clean.orders'
    """
    whole = name if name.count(".") >= parts - 1 else f"{project}.{name}"
    return f"{kind}:{whole}"


def place_of(path: Path, file: YamlFile, key: YamlPath) -> str:
    """``file:line:column`` of a key."""
    found = file.problem(key, "", at_key=True)
    return f"{path}:{found.line}:{found.column}"
