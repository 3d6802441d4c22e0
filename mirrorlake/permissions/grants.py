"""Who may do what with a dataset of BigQuery: principals and roles, each in one spelling.

A principal is written as IAM writes it (``group:…``, ``serviceAccount:…``, ``domain:…``), with
``special:`` for BigQuery's own groups; a view, routine or dataset that is authorised is one, too.

Source: BigQuery's REST reference, "datasets: access"; IAM, "Principal identifiers".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from mirrorlake.config.fields import nearest

AUTHORISED: Final = "authorised"
"""The role of a view, routine or dataset that reads a dataset on behalf of its own readers."""
OWNER: Final = "owner"
EVERYBODY: Final = frozenset({"special:allUsers", "special:allAuthenticatedUsers"})
SPECIAL: Final = ("projectOwners", "projectWriters", "projectReaders", "allAuthenticatedUsers")
ROLES: Final = {
    "roles/bigquery.metadataViewer": 1,
    "reader": 2,
    "writer": 3,
    OWNER: 4,
    "roles/bigquery.admin": 5,
}
"""Roles, each of which may do all that those with a lower number may."""
_SAME: Final = {
    "READER": "reader",
    "WRITER": "writer",
    "OWNER": OWNER,
    "roles/bigquery.dataViewer": "reader",
    "roles/bigquery.dataEditor": "writer",
    "roles/bigquery.dataOwner": OWNER,
}
_OTHERS: Final = ("roles/bigquery.user",)
_CUSTOM = re.compile(r"(?:projects/[a-z0-9.:-]+|organizations/\d+)/roles/[\w.]{3,64}", re.ASCII)
_EMAIL = re.compile(r"[^@\s:/]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+")
_DOMAIN = re.compile(r"(?:[a-z0-9-]+\.)+[a-z0-9-]+")
_FEDERATED = re.compile(r"principal(?:Set)?://\S+")
_SERVICE_ACCOUNT = ".gserviceaccount.com"
Role: TypeAlias = str


@dataclass(frozen=True, order=True)
class Grant:
    """One principal's one role on one dataset.

    Attributes:
        principal, role: each in the spelling of `principal_of` and `role_of`.
    """

    principal: str
    role: Role

    def __str__(self) -> str:
        return f"{self.principal} {self.role}"


def role_of(text: str) -> Role:
    """A role in the one spelling that it has here.

    >>> role_of("roles/bigquery.dataViewer"), role_of("owner")
    ('reader', 'owner')

    Raises:
        ValueError: nobody can have such a role on a dataset.
    """
    known = [*ROLES, *_OTHERS, *(name for name in _SAME if "/" in name)]
    if text in _SAME:
        return _SAME[text]
    if text in known or _CUSTOM.fullmatch(text):
        return text
    forms = "; write reader, writer, owner, roles/bigquery.… or projects/<project>/roles/<role>"
    raise ValueError(f"{text!r} is no role on a dataset{nearest(text, known) or forms}")


def principal_of(text: str) -> str:
    """A principal in the one spelling that it has here: addresses in lower case.

    >>> principal_of("group:Analysts@Example.com")
    'group:analysts@example.com'

    Raises:
        ValueError: it is none that can have a role.
    """
    kind, colon, name = text.partition(":")
    if _FEDERATED.fullmatch(text):
        return text
    if not colon or kind not in ("user", "group", "serviceAccount", "domain", "special"):
        raise ValueError(
            f"{text!r} is no principal: write group:<address>, serviceAccount:<address>, "
            "domain:<domain>, special:<group>, principal://… or principalSet://…"
        )
    if kind == "special":
        return _special(name)
    if kind == "domain":
        if not _DOMAIN.fullmatch(name.lower()):
            raise ValueError(f"{name!r} is no domain, like example.com")
        return f"domain:{name.lower()}"
    if not _EMAIL.fullmatch(name):
        raise ValueError(f"{name!r} is no address, like name@example.com")
    account = name.lower().endswith(_SERVICE_ACCOUNT)
    if account != (kind == "serviceAccount") and kind != "group":
        right = "serviceAccount" if account else "user"
        raise ValueError(f"{name!r} is no {kind}'s address, but that of a {right}")
    return f"{kind}:{name.lower()}"


def _special(name: str) -> str:
    known = [*SPECIAL, "allUsers"]
    if name not in known:
        words = nearest(name, known) or f"; known are {', '.join(known)}"
        raise ValueError(f"{name!r} is no special group{words}")
    return f"special:{name}"


def account_of(address: str) -> str:
    """The principal that an account of this address is, as BigQuery names who runs a query.

    >>> account_of("Ann@example.com"), account_of("m@p.iam.gserviceaccount.com")
    ('user:ann@example.com', 'serviceAccount:m@p.iam.gserviceaccount.com')
    """
    if _FEDERATED.fullmatch(address):
        return address
    lower = address.lower()
    return f"{'serviceAccount' if lower.endswith(_SERVICE_ACCOUNT) else 'user'}:{lower}"


def covers(role: Role, other: Role) -> bool:
    """Whether ``role`` may do all that ``other`` may."""
    return role == other or ROLES.get(role, 0) >= ROLES.get(other, len(ROLES) + 1)
