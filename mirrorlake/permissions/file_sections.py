"""The sections of ``permissions.yaml``: what may be written where."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from mirrorlake.config.fields import Section, listed
from mirrorlake.permissions.grants import Role, principal_of, role_of

SET: Final = "set:"
"""What a principal begins with that is a set of this file."""


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


def _name(what: str, pattern: str, letters: str) -> AfterValidator:
    """A check of the name of something, which has these letters alone."""

    def check(name: str) -> str:
        if not re.fullmatch(pattern, name):
            raise ValueError(f"{name!r} is no {what}'s name: {letters}")
        return name

    return AfterValidator(check)


def _object(parts: int) -> AfterValidator:
    """A check of a name of so many parts, with or without its project before them."""

    def check(name: str) -> str:
        if not re.fullmatch(rf"(?:[a-z][\w.:-]*\.)?\w+(?:\.[\w-]+){{{parts - 1}}}", name):
            form = ".".join(("dataset", "name")[:parts])
            raise ValueError(f"{name!r} is not written like {form} or project.{form}")
        return name

    return AfterValidator(check)


_GroupRole: TypeAlias = Literal["owner", "manager", "member"]
_ROLE_SCHEMA: Final = {"type": "string", "examples": ["reader", "writer", "owner"]}
_RoleName = Annotated[Role, AfterValidator(role_of), WithJsonSchema(_ROLE_SCHEMA)]
_Roles = Annotated[
    tuple[_RoleName, ...],
    BeforeValidator(listed),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [_ROLE_SCHEMA, {"type": "array", "items": _ROLE_SCHEMA}]}),
]
_Member = Annotated[str, AfterValidator(_member)]
_Person = Annotated[str, AfterValidator(_person)]
_SetName = Annotated[str, AfterValidator(_set_name)]
_DatasetName = Annotated[str, _name("dataset", r"[A-Za-z0-9_]{1,1024}", "letters, digits and _")]
_GroupAddress = Annotated[str, AfterValidator(_group_address)]
_GroupMember = Annotated[str, AfterValidator(_group_member)]
Groups: TypeAlias = dict[_GroupAddress, dict[_GroupMember, _GroupRole]]


class UserException(Section):
    """A person with a role of their own, by exception: groups are the rule."""

    role: _Roles
    """The role, or a list of them."""
    reason: str = Field(min_length=1)
    """Why this person has it; kept with the change."""


class AuthorisedObjects(Section):
    """What reads the dataset on behalf of those who may read *it*."""

    views: tuple[Annotated[str, _object(2)], ...] = ()
    """Views of other datasets: ``dataset.view`` or ``project.dataset.view``."""
    routines: tuple[Annotated[str, _object(2)], ...] = ()
    """Routines: ``dataset.routine`` or ``project.dataset.routine``."""
    datasets: tuple[Annotated[str, _object(1)], ...] = ()
    """Datasets, all views of which may: ``dataset`` or ``project.dataset``."""


class DatasetSection(Section):
    """Who may do what with one dataset; a principal that is not here has no entry on it."""

    principals: dict[_Member, _Roles] = Field(default_factory=dict)
    """``group:…``, ``serviceAccount:…``, ``domain:…``, ``special:…``, ``principal://…``,
    ``principalSet://…`` or ``set:…`` → a role, or a list of them."""
    exceptions: dict[_Person, UserException] = Field(default_factory=dict)
    """``user:…`` → a role, and why."""
    authorised: AuthorisedObjects = AuthorisedObjects()
    """Views, routines and datasets that may read it."""


class PermissionsFile(Section):
    """``permissions.yaml``."""

    sets: dict[_SetName, tuple[_Member, ...]] = Field(default_factory=dict)
    """Principals under one name, used as ``set:<name>``; a set may have others in it."""
    datasets: dict[_DatasetName, DatasetSection] = Field(default_factory=dict)
    """A dataset's name → who may do what with it. Datasets that are not here are left alone."""
    groups: Groups = Field(default_factory=dict)
    """A Google group's address → who is in it → ``owner``, ``manager`` or ``member``. Groups that
    are not here are left alone."""
