"""Members of Google groups, read and changed one by one.

Source: Cloud Identity API v1, "groups.memberships".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mirrorlake.errors import BigQueryError
from mirrorlake.permissions.declared_groups import GROUP, RANKS
from mirrorlake.permissions.grants import account_of
from mirrorlake.permissions.group_changes import MemberChange, Membership
from mirrorlake.permissions.json_api import Json, JsonApi, open_api
from mirrorlake.runtime.google.clients import translated

EMULATOR: Final = "CLOUD_IDENTITY_EMULATOR_HOST"
"""The variable that names a server which answers in the place of Cloud Identity."""
PAGE: Final = 500
"""The most members that Google gives at once, with all that is known of them."""
_ADDRESS: Final = "https://cloudidentity.googleapis.com"
_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-identity.groups",)


class GroupDirectory(Protocol):
    """What knows who is in which group."""

    def members(self, group: str) -> tuple[Membership, ...]:
        """All members of a group, by its address.

        Raises:
            BigQueryError: there is no such group, it can't be asked, or has a member that can't be
                declared.
        """
        ...

    def change(self, group: str, change: MemberChange) -> bool:
        """Let a member come, go, or have another role; False: it came or went meanwhile.

        Raises:
            BigQueryError: it was refused, or nobody knows whether it was done.
        """
        ...


@dataclass(frozen=True)
class _CloudIdentity:
    """Google groups by the Cloud Identity API; a `GroupDirectory`."""

    _api: JsonApi

    def members(self, group: str) -> tuple[Membership, ...]:
        """All members, page by page."""
        with _translated(group, missing=True):
            path = f"v1/{self._name(group)}/memberships"
            pages = self._api.pages(path, {"view": "FULL", "pageSize": str(PAGE)})
        try:
            return tuple(
                membership_of(one) for page in pages for one in page.get("memberships", ())
            )
        except BigQueryError as error:
            raise error.located(f"group {group}") from error

    def change(self, group: str, change: MemberChange) -> bool:
        """One request."""
        verb, path, body, moved = self._request(group, change)
        with _translated(group, missing=False):
            try:
                answer = self._api.answer(verb, f"v1/{path}", body)
            except Exception as error:
                if getattr(error, "code", None) != moved:
                    raise
                return False
        _refuse_failed(group, answer)
        return True

    def _request(
        self, group: str, change: MemberChange
    ) -> tuple[str, str, dict[str, Any] | None, int]:
        """Verb, path, body, and the status that says that the member came or went meanwhile."""
        if change.membership is None:
            with _translated(group, missing=True):
                path = f"{self._name(group)}/memberships"
            key = {"id": change.principal.partition(":")[2]}
            body = {"preferredMemberKey": key, "roles": _named(_names(change.role))}
            return "POST", path, body, 409
        if change.role is None:
            return "DELETE", change.membership.name, None, 404
        wanted, has = _names(change.role), change.membership.roles
        body = {"addRoles": _named(wanted - has), "removeRoles": sorted(has - wanted)}
        return "POST", f"{change.membership.name}:modifyMembershipRoles", body, 404

    def _name(self, group: str) -> str:
        """``groups/…``, as Google names a group."""
        found = self._api.answer("GET", "v1/groups:lookup", query={"groupKey.id": group})
        return str(found["name"])


@contextmanager
def _translated(group: str, *, missing: bool) -> Iterator[None]:
    """Google's errors in our words.

    Args:
        missing: whether what is not there can only be the group.
    """
    with translated(f"group {group}"):
        try:
            yield
        except Exception as error:
            code = getattr(error, "code", None)
            if code == 403 or (code == 404 and missing):
                raise _not_ours(group) from error
            raise


def _not_ours(group: str) -> BigQueryError:
    # Google does not say which of the two it is.
    return BigQueryError(
        f"group {group}: there is none, or this account may not manage its members",
        next_step="See docs/bigquery-permissions.md#members-of-google-groups for what it needs",
    )


def _refuse_failed(group: str, operation: Json) -> None:
    """See that an operation did not fail; one that goes on is waited for by reading the group."""
    error = operation.get("error")
    if error:
        raise BigQueryError(
            f"group {group}: Google refused it ({error.get('message') or json.dumps(error)})",
            next_step="What it says is wrong is to be put right there",
        )


def _names(role: str | None) -> frozenset[str]:
    """A role in Google's names: who is more than a member is one as well."""
    return frozenset({"MEMBER", (role or "member").upper()})


def _named(roles: Iterable[str]) -> list[Json]:
    return [{"name": one} for one in sorted(roles)]


def membership_of(found: Json) -> Membership:
    """A membership as Google's API has it.

    Raises:
        BigQueryError: it is of a kind that can't be declared: it expires, or is no person's, no
            service account's and no group's.
    """
    key, kind = found.get("preferredMemberKey") or {}, str(found.get("type", ""))
    address, roles = str(key.get("id", "")).lower(), found.get("roles") or ()
    names = frozenset(str(one.get("name", "")) for one in roles)
    reason = None
    if kind not in ("USER", "SERVICE_ACCOUNT", "GROUP") or key.get("namespace") or not address:
        reason = f"is a {kind or 'member of no kind'}"
    elif not names or any(one.lower() not in RANKS for one in names):
        reason = f"has the roles {', '.join(sorted(names)) or 'of nobody'}"
    elif any(one.get("expiryDetail") for one in roles):
        reason = "is there until a day"
    if reason is not None:
        raise BigQueryError(
            f"its member {address or found.get('name')} {reason}, which can't be declared",
            next_step="Remove that member from the group, or leave the group out of the file",
        )
    principal = f"{GROUP}{address}" if kind == "GROUP" else account_of(address)
    return Membership(str(found["name"]), principal, names)


def open_groups(project: str) -> GroupDirectory:
    """The groups that this account may manage.

    Args:
        project: whose quota the requests count against.

    Raises:
        BigQueryError: Google's library is not installed, or nobody is logged in.
    """
    return _CloudIdentity(open_api(EMULATOR, _ADDRESS, project, _SCOPES))
