"""Who may read and write a dataset: what is there against what is declared, and BigQuery's form of
it. Nothing here asks anybody anything.

Source: BigQuery's REST reference, "datasets: access".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mirrorlake.errors import BigQueryError
from mirrorlake.permissions.grants import (
    AUTHORISED,
    EVERYBODY,
    OWNER,
    Grant,
    account_of,
    covers,
    role_of,
)

EntryJson: TypeAlias = Mapping[str, Any]
"""One entry of a dataset's ``access``, as BigQuery's API has it."""
_OBJECTS = {
    "view": ("projectId", "datasetId", "tableId"),
    "routine": ("projectId", "datasetId", "routineId"),
    "dataset": ("projectId", "datasetId"),
}
_MEMBERS = ("user", "group", "serviceAccount", "domain")


@dataclass(frozen=True)
class AccessChange:
    """What brings a dataset's grants to those that are declared.

    Attributes:
        adds, removes: sorted; both empty: nothing is to be done.
    """

    adds: tuple[Grant, ...] = ()
    removes: tuple[Grant, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.adds or self.removes)


def change_between(granted: frozenset[Grant], declared: frozenset[Grant]) -> AccessChange:
    """What is to be added to what is there, and removed from it."""
    return AccessChange(tuple(sorted(declared - granted)), tuple(sorted(granted - declared)))


def refusal_of(granted: frozenset[Grant], declared: frozenset[Grant], runner: str) -> str | None:
    """Why what is declared may not be applied, as a sentence; None where it may.

    Args:
        runner: the principal that applies it, which may not lock itself out.
    """
    if not any(grant.role == OWNER for grant in declared):
        return "no owner is declared: applying this would remove the last one"
    kept = [grant.role for grant in declared if grant.principal == runner]
    for grant in sorted(granted - declared):
        if grant.principal == runner and not any(covers(role, grant.role) for role in kept):
            return f"applying this would take {grant.role} from {runner}, which applies it"
    return None


def grant_of(entry: EntryJson) -> Grant:
    """An entry as a grant.

    Raises:
        BigQueryError: it is of a kind that can't be declared: with a condition, or unknown.
    """
    role = str(entry.get("role") or "")
    if entry.get("condition") or "_withcond_" in role:
        raise BigQueryError(
            f"it has an entry with a condition ({_shown(entry)}), which can't be declared",
            next_step="Remove that entry in BigQuery; without a condition it can be declared",
        )
    for kind, parts in _OBJECTS.items():
        if entry.get(kind):
            return _object_grant(kind, parts, entry[kind])
    principal = _principal(entry)
    if principal is None or not role:
        raise BigQueryError(
            f"it has an entry that Mirrorlake does not know ({_shown(entry)})",
            next_step="Remove that entry in BigQuery, or use a newer Mirrorlake",
        )
    return Grant(principal, _known(role))


def entry_of(grant: Grant) -> dict[str, Any]:
    """A grant as an entry that BigQuery takes."""
    kind, _, name = grant.principal.partition(":")
    if kind in _OBJECTS:
        entry: dict[str, Any] = dict(zip(_OBJECTS[kind], _named(name, kind), strict=True))
        return {kind: {"dataset": entry, "targetTypes": ["VIEWS"]} if kind == "dataset" else entry}
    fields = {
        "user": "userByEmail",
        "serviceAccount": "userByEmail",
        "group": "groupByEmail",
        "domain": "domain",
        "special": "specialGroup",
    }
    role = grant.role.upper() if "/" not in grant.role else grant.role
    if kind not in fields or name == "allUsers":
        return {"role": role, "iamMember": name if kind == "special" else grant.principal}
    return {"role": role, fields[kind]: name}


def _object_grant(kind: str, parts: tuple[str, ...], found: EntryJson) -> Grant:
    place = found.get("dataset") or {} if kind == "dataset" else found
    types = sorted(str(one) for one in found.get("targetTypes") or ["VIEWS"])
    role = AUTHORISED if kind != "dataset" or types == ["VIEWS"] else " ".join([AUTHORISED, *types])
    return Grant(f"{kind}:" + ".".join(str(place.get(part, "")) for part in parts), role)


def _named(name: str, kind: str) -> list[str]:
    # A project may have a domain before it, with a colon and points.
    return name.rsplit(".", len(_OBJECTS[kind]) - 1)


def _principal(entry: EntryJson) -> str | None:
    if entry.get("userByEmail"):
        return account_of(str(entry["userByEmail"]))
    for field, kind in (("groupByEmail", "group"), ("domain", "domain")):
        if entry.get(field):
            return f"{kind}:{str(entry[field]).lower()}"
    if entry.get("specialGroup"):
        return f"special:{entry['specialGroup']}"
    member = str(entry.get("iamMember") or "")
    kind, _, name = member.partition(":")
    if kind in _MEMBERS and name:
        return f"{kind}:{name.lower()}"
    if f"special:{member}" in EVERYBODY:
        return f"special:{member}"
    return member or None


def _known(role: str) -> str:
    """A role's one spelling; one that nobody can declare stays as it is, and is removed."""
    try:
        return role_of(role)
    except ValueError:
        return role


def _shown(entry: EntryJson) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(entry.items()) if value)
