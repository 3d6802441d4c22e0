"""A stand-in for Apache Polaris's management service on loopback: roles and grants, in memory.

It does what its OpenAPI description says of the calls that a generated script makes, refuses what
is not there, and takes no privilege that the description does not have for namespaces.

Source: Apache Polaris, spec/polaris-management-service.yml.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import unquote, urlsplit

TOKEN = "polaris-s3cret"
OF_NAMESPACES = frozenset(
    [
        "CATALOG_MANAGE_ACCESS",
        "CATALOG_MANAGE_CONTENT",
        "CATALOG_MANAGE_METADATA",
        "NAMESPACE_CREATE",
        "TABLE_CREATE",
        "VIEW_CREATE",
        "NAMESPACE_DROP",
        "TABLE_DROP",
        "VIEW_DROP",
        "NAMESPACE_LIST",
        "TABLE_LIST",
        "VIEW_LIST",
        "NAMESPACE_READ_PROPERTIES",
        "TABLE_READ_PROPERTIES",
        "VIEW_READ_PROPERTIES",
        "NAMESPACE_WRITE_PROPERTIES",
        "TABLE_WRITE_PROPERTIES",
        "VIEW_WRITE_PROPERTIES",
        "TABLE_READ_DATA",
        "TABLE_WRITE_DATA",
        "NAMESPACE_FULL_METADATA",
        "TABLE_FULL_METADATA",
        "VIEW_FULL_METADATA",
    ]
)
Grant = dict[str, Any]


@dataclass
class Polaris:
    """One catalog, its catalog roles, and the server's principal roles."""

    catalog: str
    namespaces: set[str]
    principal_roles: set[str]
    url: str = ""
    grants: dict[str, list[Grant]] = field(default_factory=dict[str, list[Grant]])
    """Catalog role → what it gives."""
    assigned: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Catalog role → the principal roles that have it."""
    changes: list[str] = field(default_factory=list[str])
    """Each call but GET: method and path."""
    realms: set[str | None] = field(default_factory=set[str | None])

    def add(self, role: str, *grants: Grant, assigned: tuple[str, ...] = ()) -> None:
        """A catalog role that is there already."""
        self.grants[role], self.assigned[role] = [*grants], {*assigned}

    def may(self) -> set[tuple[str, str, str]]:
        """Principal role, privilege and namespace, over all catalog roles."""
        return {
            (whom, grant["privilege"], ".".join(grant.get("namespace", ["*"])))
            for role, assigned in self.assigned.items()
            for whom in assigned
            for grant in self.grants[role]
        }


class _Refused(Exception):
    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


@contextmanager
def polaris_server(
    *, catalog: str, namespaces: set[str], principals: set[str]
) -> Iterator[Polaris]:
    """One until the block ends."""
    state = Polaris(catalog, namespaces, principals)

    class Handler(_Handler):
        server_state = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: ClassVar[Polaris]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is theirs."""

    def do_GET(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        sent = json.loads(self.rfile.read(length)) if length else {}
        self.server_state.realms.add(self.headers.get("Polaris-Realm"))
        try:
            _check_token(self.headers.get("Authorization", ""))
            status, answer = self._route(sent)
        except _Refused as error:
            status, answer = error.status, {"error": {"message": str(error), "code": error.status}}
        body = b"" if answer is None else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_DELETE = do_GET

    def _route(self, sent: Any) -> tuple[int, Any]:
        state = self.server_state
        path = urlsplit(self.path).path.removeprefix("/api/management/v1/")
        parts = [unquote(part) for part in path.split("/")]
        if self.command != "GET":
            state.changes.append(f"{self.command} {path}")
        match (self.command, parts):
            case ("GET", ["principal-roles"]):
                return 200, _roles(state.principal_roles)
            case (_, ["catalogs", catalog, "catalog-roles", *rest]):
                _there(catalog, {state.catalog})
                return self._of_catalog(rest, sent)
            case ("PUT", ["principal-roles", whom, "catalog-roles", catalog]):
                _there(catalog, {state.catalog})
                role = sent["catalogRole"]["name"]
                _there(role, state.grants)
                state.assigned[role].add(_there(whom, state.principal_roles))
                return 201, None
            case ("DELETE", ["principal-roles", whom, "catalog-roles", catalog, role]):
                _there(catalog, {state.catalog})
                _there(whom, state.assigned[_there(role, state.grants)])
                state.assigned[role].remove(whom)
                return 204, None
        raise _Refused(404, f"{self.command} {self.path}")

    def _of_catalog(self, rest: list[str], sent: Any) -> tuple[int, Any]:
        state = self.server_state
        match (self.command, rest):
            case ("GET", []):
                return 200, _roles(state.grants)
            case ("POST", []):
                role = sent["catalogRole"]["name"]
                if role in state.grants:
                    raise _Refused(409, f"{role} is there")
                state.add(role)
                return 201, {"name": role}
            case ("GET", [role]):
                return 200, _roles([_there(role, state.grants)])["roles"][0]
            case ("GET", [role, "principal-roles"]):
                return 200, _roles(state.assigned[_there(role, state.grants)])
            case (_, [role, "grants"]):
                return self._of_grants(state.grants[_there(role, state.grants)], sent)
        raise _Refused(404, f"{self.command} {self.path}")

    def _of_grants(self, there: list[Grant], sent: Any) -> tuple[int, Any]:
        if self.command == "GET":
            return 200, {"grants": there}
        grant = sent["grant"]
        if self.command == "POST":
            if grant not in there:
                raise _Refused(404, f"no {grant}")
            there.remove(grant)
            return 201, None
        [namespace] = grant["namespace"]
        _there(namespace, self.server_state.namespaces)
        if grant["privilege"] not in OF_NAMESPACES or grant["type"] != "namespace":
            raise _Refused(400, f"no privilege {grant}")
        if grant not in there:
            there.append(grant)
        return 201, None


def _check_token(header: str) -> None:
    if header != f"Bearer {TOKEN}":
        raise _Refused(401, "no such token")


def _roles(names: Any) -> dict[str, Any]:
    return {"roles": [{"name": name, "properties": {}, "entityVersion": 1} for name in names]}


def _there(name: str, known: Any) -> str:
    if name not in known:
        raise _Refused(404, f"{name} does not exist")
    return name
