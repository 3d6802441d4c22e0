"""``permissions.yaml``: its sections, and who is to have which role on which dataset of BigQuery.

What is not declared is to go, so a file that can't be understood as a whole declares nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, WithJsonSchema

from mirrorlake.config.fields import Section, nearest
from mirrorlake.config.grants import (
    AUTHORISED,
    EVERYBODY,
    OWNER,
    Grant,
    Role,
    covers,
    principal_of,
    role_of,
)
from mirrorlake.config.problems import raise_problems, read_text, validation_problems
from mirrorlake.config.yaml_file import Path as YamlPath
from mirrorlake.config.yaml_file import YamlFile
from mirrorlake.errors import ConfigError

LAYERS: Final = ("raw", "deduped", "clean")
SET: Final = "set:"
"""What a principal begins with that is a set of this file."""
_FILE_NEEDS = "Write one: docs/bigquery-permissions.md has a first one"


def _roles(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _member(text: str) -> str:
    if text.startswith("user:"):
        principal_of(text)
        raise ValueError(
            f"{text!r} is a person: write it under exceptions of a dataset, with a reason"
        )
    if not text.startswith(SET):
        principal_of(text)
    # As it is written: two spellings of one principal must not become one key unnoticed.
    return text


def _person(text: str) -> str:
    if not text.startswith("user:"):
        raise ValueError(f"{text!r} is no person: write user:<address>, or use principals")
    principal_of(text)
    return text


def _set_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise ValueError("a set's name has lower-case letters, digits, - and _")
    return name


def _group_address(address: str) -> str:
    principal_of(f"group:{address}")
    return address


def _group_member(text: str) -> str:
    if principal_of(text).partition(":")[0] not in ("user", "serviceAccount", "group"):
        raise ValueError(
            f"{text!r} can't be in a group: write user:, serviceAccount: or group:<address>"
        )
    return text


def _dataset_name(name: str) -> str:
    if not re.fullmatch(r"\w{1,1024}", name, re.ASCII):
        raise ValueError(f"{name!r} is no dataset's name: letters, digits and _")
    return name


def _object(parts: int) -> AfterValidator:
    """A check of a name of so many parts, with or without its project before them."""

    def check(name: str) -> str:
        if not re.fullmatch(rf"(?:[a-z][\w.:-]*\.)?\w+(?:\.[\w-]+){{{parts - 1}}}", name):
            form = ".".join(("dataset", "name")[:parts])
            raise ValueError(f"{name!r} is not written like {form} or project.{form}")
        return name

    return AfterValidator(check)


LakeRole: TypeAlias = Literal["reader", "writer"]
GroupRole: TypeAlias = Literal["owner", "manager", "member"]
_ROLE_SCHEMA: Final = {"type": "string", "examples": ["reader", "writer", "owner"]}
_RoleName = Annotated[Role, AfterValidator(role_of), WithJsonSchema(_ROLE_SCHEMA)]
_Roles = Annotated[
    tuple[_RoleName, ...],
    BeforeValidator(_roles),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [_ROLE_SCHEMA, {"type": "array", "items": _ROLE_SCHEMA}]}),
]
_Member = Annotated[str, AfterValidator(_member)]
_Person = Annotated[str, AfterValidator(_person)]
_SetName = Annotated[str, AfterValidator(_set_name)]
_DatasetName = Annotated[str, AfterValidator(_dataset_name)]
_GroupAddress = Annotated[str, AfterValidator(_group_address)]
_GroupMember = Annotated[str, AfterValidator(_group_member)]
Groups: TypeAlias = dict[_GroupAddress, dict[_GroupMember, GroupRole]]


class UserException(Section):
    """A person with a role of their own, by exception: groups are the rule."""

    role: _Roles
    """The role, or a list of them."""
    reason: str = Field(min_length=1)
    """Why this person has it; kept with the change."""


class AuthorisedObjects(Section):
    """What reads the dataset on behalf of whoever may read *it*."""

    views: tuple[Annotated[str, _object(2)], ...] = ()
    """Views of other datasets: ``dataset.view`` or ``project.dataset.view``."""
    routines: tuple[Annotated[str, _object(2)], ...] = ()
    """Routines: ``dataset.routine`` or ``project.dataset.routine``."""
    datasets: tuple[Annotated[str, _object(1)], ...] = ()
    """Datasets, all views of which may: ``dataset`` or ``project.dataset``."""


class DatasetSection(Section):
    """Who may do what with one dataset; whoever is not here has no entry on it."""

    principals: dict[_Member, _Roles] = Field(default_factory=dict)
    """``group:…``, ``serviceAccount:…``, ``domain:…``, ``special:…``, ``principal://…``,
    ``principalSet://…`` or ``set:…`` → a role, or a list of them."""
    exceptions: dict[_Person, UserException] = Field(default_factory=dict)
    """``user:…`` → a role, and why."""
    authorised: AuthorisedObjects = AuthorisedObjects()
    """Views, routines and datasets that may read it."""


class LakeSection(Section):
    """Who may read and write the files of the lake, layer by layer."""

    place: Annotated[str, Field(pattern=r"^gs://[^/]+(/.*[^/])?$")] | None = None
    """``gs://bucket`` or ``gs://bucket/folder``; by default the contract's ``lake.warehouse``."""
    raw: dict[_Member, LakeRole] = Field(default_factory=dict)
    """Of raw: a principal → ``reader`` or ``writer``."""
    deduped: dict[_Member, LakeRole] = Field(default_factory=dict)
    """Of deduped, and of clean views, which are deduped's files."""
    clean: dict[_Member, LakeRole] = Field(default_factory=dict)
    """Of clean tables."""

    @property
    def layers(self) -> Mapping[str, Mapping[str, LakeRole]]:
        """Each of `LAYERS` → a principal → its role, as written."""
        return {"raw": self.raw, "deduped": self.deduped, "clean": self.clean}


class PermissionsFile(Section):
    """``permissions.yaml``."""

    sets: dict[_SetName, tuple[_Member, ...]] = Field(default_factory=dict)
    """Principals under one name, used as ``set:<name>``; a set may have others in it."""
    datasets: dict[_DatasetName, DatasetSection] = Field(default_factory=dict)
    """A dataset's name → who may do what with it. Datasets that are not here are left alone."""
    groups: Groups = Field(default_factory=dict)
    """A Google group's address → who is in it → ``owner``, ``manager`` or ``member``. Groups that
    are not here are left alone."""
    lake: LakeSection | None = None
    """Who may read which files of the lake."""


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
                yield ("sets", name, index), f"the set {name!r} contains itself: leave this out"
            elif member.lower() in map(str.lower, members[:index]):
                yield ("sets", name, index), f"{member} is in this set twice: leave one out"
    for dataset, section in sections.datasets.items():
        yield from _unknown_sets(("datasets", dataset, "principals"), section.principals, sets)
    for layer, members in sections.lake.layers.items() if sections.lake is not None else ():
        yield from _unknown_sets(("lake", layer), members, sets)


def _unknown_sets(path: YamlPath, members: Iterable[str], sets: Sets) -> PlacedWords:
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
        for principal in members_of(member, sets):
            for role in roles:
                yield principal, role, ("principals", member)
    for person, exception in section.exceptions.items():
        for role in exception.role:
            yield principal_of(person), role, ("exceptions", person)


def members_of(member: str, sets: Sets) -> list[str]:
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
