"""Members of Google groups, read and changed one by one.

Source: Cloud Identity API v1, "groups.memberships".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from mirrorlake.config.grants import account_of
from mirrorlake.config.group_members import GROUP, RANKS
from mirrorlake.destinations.bigquery.google import (
    address_of,
    library,
    open_session,
    patience,
    translated,
)
from mirrorlake.destinations.bigquery.group_changes import MemberChange, Membership
from mirrorlake.errors import BigQueryError

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

EMULATOR: Final = "CLOUD_IDENTITY_EMULATOR_HOST"
"""The variable that names a server which answers in the place of Cloud Identity."""
PAGE: Final = 500
"""The most members that Google gives at once, with all that is known of them."""
_ADDRESS: Final = "https://cloudidentity.googleapis.com"
_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-identity.groups",)
_TIMEOUT: Final = 60
_Json: TypeAlias = Mapping[str, Any]


class GroupDirectory(Protocol):
    """Whoever knows who is in which group."""

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
class CloudIdentity:
    """Google groups by the Cloud Identity API; a `GroupDirectory`."""

    _session: AuthorizedSession
    _address: str

    def members(self, group: str) -> tuple[Membership, ...]:
        """All members, page by page."""
        name, found, token = self._name(group), list[Membership](), ""
        while True:
            what = {"view": "FULL", "pageSize": str(PAGE), "pageToken": token}
            page = self._answer(group, "GET", f"{name}/memberships", query=what)
            try:
                found += [membership_of(one) for one in page.get("memberships", ())]
            except BigQueryError as error:
                raise error.located(f"group {group}") from error
            token = str(page.get("nextPageToken") or "")
            if not token:
                return tuple(found)

    def change(self, group: str, change: MemberChange) -> bool:
        """One request."""
        try:
            if change.there is None:
                body = {
                    "preferredMemberKey": {"id": change.principal.partition(":")[2]},
                    "roles": [{"name": one} for one in sorted(_names(change.role))],
                }
                path = f"{self._name(group)}/memberships"
                answer = self._answer(group, "POST", path, body, moved=409)
            elif change.role is None:
                answer = self._answer(group, "DELETE", change.there.name, moved=404)
            else:
                wanted = _names(change.role)
                body = {
                    "addRoles": [{"name": one} for one in sorted(wanted - change.there.roles)],
                    "removeRoles": sorted(change.there.roles - wanted),
                }
                path = f"{change.there.name}:modifyMembershipRoles"
                answer = self._answer(group, "POST", path, body, moved=404)
        except _MovedError:
            return False
        _refuse_failed(group, answer)
        return True

    def _name(self, group: str) -> str:
        """``groups/…``, as Google names a group."""
        found = self._answer(group, "GET", "groups:lookup", query={"groupKey.id": group})
        return str(found["name"])

    def _answer(
        self,
        group: str,
        verb: str,
        path: str,
        body: _Json | None = None,
        query: Mapping[str, str] | None = None,
        moved: int | None = None,
    ) -> _Json:
        def send() -> _Json:
            answer = self._session.request(
                verb, f"{self._address}/v1/{path}", json=body, params=query, timeout=_TIMEOUT
            )
            if answer.status_code >= 400:
                raise library("google.api_core.exceptions").from_http_response(answer)
            return answer.json() if answer.content else {}

        with translated(f"group {group}"):
            try:
                return patience("bigquery")(send)()
            except Exception as error:
                code = getattr(error, "code", None)
                if code is not None and code == moved:
                    raise _MovedError from error
                if code == 403 or (code, verb) == (404, "GET"):
                    raise _not_ours(group) from error
                raise


class _MovedError(Exception):
    """A member is there already, or is not there any more."""


def _not_ours(group: str) -> BigQueryError:
    # Google does not say which of the two it is.
    return BigQueryError(
        f"group {group}: there is none, or this account may not manage its members",
        next_step="See docs/bigquery-permissions.md#members-of-google-groups for what it needs",
    )


def _refuse_failed(group: str, operation: _Json) -> None:
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


def membership_of(found: _Json) -> Membership:
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
    return CloudIdentity(open_session(EMULATOR, project, _SCOPES), address_of(EMULATOR, _ADDRESS))
