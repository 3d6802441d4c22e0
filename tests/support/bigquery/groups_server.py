"""Cloud Identity's API of groups' members, as Google documents it, on loopback.

It gives a page at a time, refuses a member that is there, a group in itself and the removal of the
last owner, says nothing of groups that it does not show, shows changes late, and takes a request
whose answer is then lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.serving import serving

_KINDS = {"user": "USER", "serviceAccount": "SERVICE_ACCOUNT", "group": "GROUP"}


class Groups:
    """What the server has.

    Attributes:
        members: group → address → membership, as Google's API has it.
        page: how many members a page has at most.
        unknown: addresses that are nobody's.
        late: how many times a group's members are shown as they were before the last change.
        lost: how many answers to changes are lost after they were made.
        limited: how many requests are refused for a while.
        changes: each change that was requested, as ``verb path body``.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.members: dict[str, dict[str, dict[str, Any]]] = {}
        self.page = 2
        self.unknown: set[str] = set()
        self.late = self.lost = self.limited = 0
        self.changes: list[str] = []
        self.before: dict[str, dict[str, dict[str, Any]]] = {}

    def put(self, group: str, members: dict[str, str]) -> None:
        """Replace a group's members, as another client would: ``kind:address`` → role."""
        self.members[group] = {}
        for member, role in members.items():
            self.put_one(group, member, {"MEMBER", role.upper()})

    def put_one(self, group: str, member: str, roles: set[str], **more: Any) -> None:
        """The same for one member."""
        kind, _, address = member.partition(":")
        self.members[group][address] = {
            "name": f"groups/{group}/memberships/{address}",
            "preferredMemberKey": {"id": address},
            "roles": [{"name": role} for role in sorted(roles)],
            "type": _KINDS[kind],
            **more,
        }

    def now(self, group: str) -> dict[str, str]:
        """A group's members and the highest role of each."""
        order = ("MEMBER", "MANAGER", "OWNER")
        kinds = {kind: name for name, kind in _KINDS.items()}
        return {
            f"{kinds[one['type']]}:{address}": max(
                (role["name"] for role in one["roles"]), key=order.index
            ).lower()
            for address, one in self.members[group].items()
        }

    def reaches(self, start: str, end: str) -> bool:
        """Whether a group is another, or has it in it."""
        inner = [a for a, one in self.members.get(start, {}).items() if one["type"] == "GROUP"]
        return start == end or any(self.reaches(one, end) for one in inner)

    def create(self, group: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Answer the request for a new member."""
        address = body["preferredMemberKey"]["id"]
        if address in self.unknown:
            return 404, "Error(4017): Member not found."
        if address in self.members[group]:
            return 409, "Error(4003): Member already exists."
        if address in self.members and self.reaches(address, group):
            return 400, "Error(4023): Cyclic memberships are not allowed."
        account = "serviceAccount" if address.endswith("gserviceaccount.com") else "user"
        kind = "group" if address in self.members else account
        self.put_one(group, f"{kind}:{address}", {role["name"] for role in body["roles"]})
        return 200, {"done": True, "response": self.members[group][address]}

    def delete(self, group: str, address: str) -> tuple[int, Any]:
        """Answer the request that a member goes."""
        if address not in self.members[group]:
            return 404, "Error(4003): Membership not found."
        if self._owners(group) == [address]:
            return 400, "Error(4010): The last owner can't be removed."
        del self.members[group][address]
        return 200, {"done": True, "response": {}}

    def modify(self, group: str, address: str, body: dict[str, Any]) -> tuple[int, Any]:
        """Answer the request for other roles of a member."""
        if address not in self.members[group]:
            return 404, "Error(4003): Membership not found."
        names = {role["name"] for role in self.members[group][address]["roles"]}
        if "MEMBER" in body["removeRoles"] or not set(body["removeRoles"]) <= names:
            return 400, "Error(4000): these roles can't be removed."
        names = names - {*body["removeRoles"]} | {role["name"] for role in body["addRoles"]}
        if self._owners(group) == [address] and "OWNER" not in names:
            return 400, "Error(4010): The last owner can't be removed."
        roles = [{"name": name} for name in sorted(names)]
        self.members[group][address]["roles"] = roles
        return 200, {"membership": self.members[group][address]}

    def _owners(self, group: str) -> list[str]:
        members = self.members[group].items()
        return [a for a, one in members if {"name": "OWNER"} in one["roles"]]


@contextmanager
def groups_server() -> Iterator[Groups]:
    """A server with no group, until the block ends."""

    class Handler(_Handler):
        there: Groups

    with serving(Handler) as url:
        Handler.there = Groups(url)
        yield Handler.there


class _Handler(BaseHTTPRequestHandler):
    there: Groups

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if self._limited():
            return
        if parts.path == "/v1/groups:lookup":
            group = query["groupKey.id"]
            if group in self.there.members:
                self._answer(200, {"name": f"groups/{group}"})
            else:
                self._answer(
                    403, f"Error(2028): Permission denied for {group} (or it may not exist)."
                )
            return
        self._answer(200, self._page(parts.path.split("/")[3], query))

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = self.path.split("/")
        if parts[-1].endswith(":modifyMembershipRoles"):
            address = parts[-1].partition(":")[0]
            self._changed(parts[3], body, lambda: self.there.modify(parts[3], address, body))
        else:
            self._changed(parts[3], body, lambda: self.there.create(parts[3], body))

    def do_DELETE(self) -> None:
        parts = self.path.split("/")
        self._changed(parts[3], None, lambda: self.there.delete(parts[3], parts[5]))

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _page(self, group: str, query: dict[str, str]) -> dict[str, Any]:
        found = self.there.members
        if self.there.late and not query.get("pageToken"):
            self.there.late -= 1
            found = self.there.before or found
        members = [*found[group].values()]
        start = int(query.get("pageToken") or 0)
        end = start + min(self.there.page, int(query["pageSize"]))
        token = {"nextPageToken": str(end)} if end < len(members) else {}
        return {"memberships": members[start:end], **token}

    def _changed(self, group: str, body: Any, act: Any) -> None:
        if self._limited():
            return
        self.there.changes.append(f"{self.command} {self.path} {json.dumps(body)}")
        before = json.loads(json.dumps(self.there.members))
        status, found = act()
        self.there.before = before
        if status == 200 and self.there.lost:
            self.there.lost -= 1
            status, found = 503, "The service is currently unavailable."
        self._answer(status, found)

    def _limited(self) -> bool:
        if self.there.limited:
            self.there.limited -= 1
            self._answer(429, "Quota exceeded for quota metric 'Read requests'.")
            return True
        return False

    def _answer(self, status: int, found: Any) -> None:
        if isinstance(found, str):
            found = {"error": {"code": status, "message": found, "status": "ERROR"}}
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
