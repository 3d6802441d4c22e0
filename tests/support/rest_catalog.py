"""A small Iceberg REST catalog on loopback, over PyIceberg's SQL catalog, for the tests.

It answers what both clients ask, PyIceberg's and Java's: namespaces, tables with staged creation
and commits by requirements, views, tokens. It can be told to lose the answer of a commit, to make
one later, or to fail: what a proxy or a server under load does.

Source: Apache Iceberg, "REST catalog" (its OpenAPI description).
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, unquote_plus, urlsplit

from pyiceberg import exceptions
from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

HOST = "127.0.0.1"
CREDENTIAL = "lake:s3cret"
NO_ANSWER = 0
_ENDPOINTS = (
    *("GET namespaces", "POST namespaces", "GET namespaces/{namespace}"),
    *("HEAD namespaces/{namespace}", "DELETE namespaces/{namespace}"),
    *("POST namespaces/{namespace}/properties", "GET namespaces/{namespace}/tables"),
    *("POST namespaces/{namespace}/tables", "GET namespaces/{namespace}/tables/{table}"),
    *("HEAD namespaces/{namespace}/tables/{table}", "POST namespaces/{namespace}/tables/{table}"),
    *("DELETE namespaces/{namespace}/tables/{table}", "POST namespaces/{namespace}/register"),
    *("POST tables/rename", "POST transactions/commit", "GET namespaces/{namespace}/views"),
    *("POST namespaces/{namespace}/views", "GET namespaces/{namespace}/views/{view}"),
    *("HEAD namespaces/{namespace}/views/{view}", "POST namespaces/{namespace}/views/{view}"),
    *("DELETE namespaces/{namespace}/views/{view}", "POST views/rename"),
    "POST namespaces/{namespace}/tables/{table}/metrics",
)
_CODES: dict[type[Exception], tuple[int, str]] = {
    exceptions.NoSuchTableError: (404, "NoSuchTableException"),
    exceptions.NoSuchViewError: (404, "NoSuchViewException"),
    exceptions.NoSuchNamespaceError: (404, "NoSuchNamespaceException"),
    exceptions.TableAlreadyExistsError: (409, "AlreadyExistsException"),
    exceptions.NamespaceAlreadyExistsError: (409, "AlreadyExistsException"),
    exceptions.CommitFailedException: (409, "CommitFailedException"),
}

Place = tuple[str, str]
"""A namespace and a name."""


@dataclass
class Fault:
    """What becomes of the next commits of a table.

    Attributes:
        table: part of the path of what is committed; any with ''.
        apply: whether the commit is made: ``now``, ``late`` (when `RestCatalogServer.finish` says
            so) or ``never``.
        status: what is answered; `NO_ANSWER`: the connection ends without one.
        times: for how many commits.
    """

    table: str
    apply: str
    status: int
    times: int = 1


@dataclass
class RestCatalogServer:
    """The server's state: its tables are in a SQL catalog, its views here."""

    catalog: SqlCatalog
    port: int = 0
    faults: list[Fault] = field(default_factory=list[Fault])
    late: list[Callable[[], Any]] = field(default_factory=list[Callable[[], Any]])
    tokens: set[str] = field(default_factory=set[str])
    views: dict[Place, dict[str, Any]] = field(default_factory=dict[Place, dict[str, Any]])
    asked: list[str] = field(default_factory=list[str])
    """Each request's method and path."""
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Each request's headers, by their names in lower case, and what follows ``?`` as ``query``."""
    accepts: Callable[[str], bool] | None = None
    """Which tokens are good, where somebody else gives them out."""
    forbids: bool = False
    """Whether every account is refused."""
    together: bool = False
    """Whether it commits to several tables at once, and says so."""
    lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def uri(self) -> str:
        """Its address, as a contract names it."""
        return f"http://{HOST}:{self.port}"

    def finish(self) -> list[str]:
        """Make the commits that were left for later; what became of each."""
        found: list[str] = []
        for commit in self.late:
            try:
                commit()
                found.append("made")
            except exceptions.CommitFailedException:
                found.append("refused")
        self.late.clear()
        return found

    def fault_of(self, path: str) -> Fault | None:
        """The fault that is planted for a commit, if one is."""
        for fault in self.faults:
            if fault.times > 0 and fault.table in path:
                fault.times -= 1
                return fault
        return None


@contextmanager
def running_catalog(folder: Path, warehouse: str, **properties: str) -> Iterator[RestCatalogServer]:
    """A catalog that knows no table yet, until the block ends; ``properties`` are of its storage."""
    uri = f"sqlite:///{folder}/rest.db"
    with serving(SqlCatalog("rest", uri=uri, warehouse=warehouse, **properties)) as server:
        yield server


@contextmanager
def serving(catalog: SqlCatalog) -> Iterator[RestCatalogServer]:
    """The tables of a SQL catalog by REST, until the block ends."""
    state = RestCatalogServer(catalog)

    class Handler(_Handler):
        server_state = state

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


class _Refused(Exception):
    def __init__(self, status: int, kind: str, words: str) -> None:
        super().__init__(words)
        self.status, self.kind = status, kind


class _Handler(BaseHTTPRequestHandler):
    """One request after another, of one connection."""

    protocol_version = "HTTP/1.1"
    server_state: ClassVar[RestCatalogServer]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is theirs."""

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_HEAD = do_GET

    def _answer(self) -> None:
        state = self.server_state
        url = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        text = self.rfile.read(length) if length else b""
        state.asked.append(f"{self.command} {url.path}")
        found = {name.lower(): value for name, value in self.headers.items()}
        state.headers.append(found | {"query": unquote(url.query)})
        try:
            if url.path == "/v1/oauth/tokens":
                self._send(200, _token(state, text))
                return
            _check_token(state, self.headers.get("Authorization", ""))
            status, answer = self._route(url.path.removeprefix("/v1/"), url.query, text)
        except _Refused as error:
            status, answer = error.status, _error(error.status, error.kind, str(error))
        except tuple(_CODES) as error:
            status, kind = _CODES[type(error)]
            answer = _error(status, kind, str(error))
        except Exception as error:  # noqa: BLE001 - a server answers
            status, answer = 500, _error(500, type(error).__name__, str(error))
        self._send(status, answer)

    def _send(self, status: int, answer: Any) -> None:
        if status == NO_ANSWER:
            self.close_connection = True
            return
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        if self.command == "GET" and status == 200 and self.headers.get("If-None-Match") == tag:
            status, body = 304, b""
        if status in (204, 304) or self.command == "HEAD":
            body = b""
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if self.command == "GET":
            self.send_header("ETag", tag)
        self.end_headers()
        self.wfile.write(body)

    def _route(self, path: str, query: str, text: bytes) -> tuple[int, Any]:
        state, parts = self.server_state, [unquote_plus(part) for part in path.split("/")]
        sent = json.loads(text) if text else {}
        with state.lock:
            match (self.command, parts):
                case ("GET", ["config"]):
                    return 200, _config(state)
                case ("POST", ["transactions", "commit"]):
                    return _commit_together(state, sent)
                case ("POST", ["tables", "rename"]):
                    old, new = (_place_of(sent[key]) for key in ("source", "destination"))
                    state.catalog.rename_table(old, new)
                    return 204, {}
                case ("POST", ["views", "rename"]):
                    old, new = (_place_of(sent[key]) for key in ("source", "destination"))
                    state.views[new] = state.views.pop(old)
                    return 204, {}
                case (_, ["namespaces", *rest]):
                    return _Namespaces(state, self.command, sent, query, path, text).answer(rest)
        raise _Refused(404, "NotFoundException", path)


@dataclass(frozen=True)
class _Namespaces:
    """What is asked of namespaces and of what is in them."""

    state: RestCatalogServer
    method: str
    sent: dict[str, Any]
    query: str
    path: str
    text: bytes

    def answer(self, rest: list[str]) -> tuple[int, Any]:
        catalog, sent = self.state.catalog, self.sent
        match (self.method, rest):
            case (_, []):
                return 200, self._all()
            case ("DELETE", [namespace]):
                catalog.drop_namespace(namespace)
                return 204, {}
            case (_, [namespace]):
                if not catalog.namespace_exists(namespace):
                    raise exceptions.NoSuchNamespaceError(namespace)
                properties = catalog.load_namespace_properties(namespace)
                return 200, {"namespace": [namespace], "properties": properties}
            case ("POST", [namespace, "properties"]):
                updates = sent.get("updates") or {}
                catalog.update_namespace_properties(namespace, updates=updates)
                return 200, {"removed": [], "updated": list(updates), "missing": []}
            case (_, [namespace, "tables", *name]):
                return self._tables(namespace, name)
            case ("POST", [namespace, "register"]):
                place = (namespace, sent["name"])
                if sent.get("overwrite") and catalog.table_exists(place):
                    catalog.drop_table(place)
                return 200, _loaded(catalog.register_table(place, sent["metadata-location"]))
            case (_, [namespace, "views", *name]):
                return _Views(self.state, self.method, sent).answer(namespace, name)
        raise _Refused(404, "NotFoundException", self.path)

    def _all(self) -> Any:
        catalog, sent = self.state.catalog, self.sent
        if self.method == "POST":
            catalog.create_namespace(tuple(sent["namespace"]), sent.get("properties") or {})
            return {"namespace": sent["namespace"], "properties": {}}
        if parse_qs(self.query).get("parent"):
            return {"namespaces": []}
        return {"namespaces": [list(one) for one in catalog.list_namespaces()]}

    def _tables(self, namespace: str, name: list[str]) -> tuple[int, Any]:
        catalog = self.state.catalog
        match (self.method, name):
            case ("GET", []):
                found = [tuple(path) for path in catalog.list_tables(namespace)]
                names = [{"namespace": [namespace], "name": path[-1]} for path in found]
                return 200, {"identifiers": names}
            case ("POST", []):
                return 200, self._create(namespace)
            case ("GET", [table]):
                return 200, _loaded(catalog.load_table((namespace, table)))
            case ("HEAD", [table]):
                catalog.load_table((namespace, table))
                return 204, {}
            case ("DELETE", [table]):
                catalog.drop_table((namespace, table))
                return 204, {}
            case ("POST", [_, "metrics"]):
                return 204, {}
            case ("POST", [table]):
                return self._commit((namespace, table))
        raise _Refused(404, "NotFoundException", self.path)

    def _create(self, namespace: str) -> Any:
        catalog = self.state.catalog
        asked = CreateTableRequest.model_validate_json(json.dumps({"location": None, "partition-spec": None, "write-order": None} | self.sent))  # fmt: skip
        place = (namespace, asked.name)
        if not catalog.namespace_exists(namespace):
            raise exceptions.NoSuchNamespaceError(namespace)
        if catalog.table_exists(place) or place in self.state.views:
            raise exceptions.TableAlreadyExistsError(".".join(place))
        spec = asked.partition_spec or UNPARTITIONED_PARTITION_SPEC
        order = asked.write_order or UNSORTED_SORT_ORDER
        if not asked.stage_create:
            made = catalog.create_table(
                place, asked.table_schema, asked.location, spec, order, asked.properties
            )
            return _loaded(made)
        location = asked.location or f"{catalog.properties['warehouse']}/{namespace}/{asked.name}"
        staged = new_table_metadata(
            asked.table_schema, spec, order, location, asked.properties, uuid.uuid4()
        )
        return {"metadata": json.loads(staged.model_dump_json()), "config": {}}

    def _commit(self, place: Place) -> tuple[int, Any]:
        if place in self.state.views:
            raise exceptions.TableAlreadyExistsError(".".join(place))
        whose = {"namespace": [place[0]], "name": place[1]}
        asked = CommitTableRequest.model_validate_json(
            json.dumps({"identifier": whose} | json.loads(self.text))
        )

        def commit() -> Any:
            catalog = self.state.catalog
            try:
                table = catalog.load_table(place)
            except exceptions.NoSuchTableError:
                table = _not_there(catalog, place)
            with self.state.lock:
                made = catalog.commit_table(table, asked.requirements, asked.updates)
            return json.loads(made.model_dump_json())

        fault = self.state.fault_of("/".join(place))
        if fault is None:
            return 200, commit()
        if fault.apply == "late":
            self.state.late.append(commit)
        answer = commit() if fault.apply == "now" else {}
        if fault.status in (NO_ANSWER, 200):
            return fault.status, answer
        return fault.status, _error(fault.status, "ServiceFailure", "planted")


@dataclass(frozen=True)
class _Views:
    """What is asked of views; they are kept as JSON."""

    state: RestCatalogServer
    method: str
    sent: dict[str, Any]

    def answer(self, namespace: str, name: list[str]) -> tuple[int, Any]:
        views = self.state.views
        match (self.method, name):
            case ("GET", []):
                there = [view for space, view in views if space == namespace]
                names = [{"namespace": [namespace], "name": view} for view in there]
                return 200, {"identifiers": names}
            case ("POST", []):
                place = (namespace, self.sent["name"])
                if place in views or self.state.catalog.table_exists(place):
                    raise exceptions.TableAlreadyExistsError(".".join(place))
                views[place] = _new_view(self.sent)
                return 200, _shown_view(views[place])
            case ("HEAD" | "GET", [view]):
                return 200, _shown_view(self._there(namespace, view))
            case ("POST", [view]):
                views[namespace, view] = _replaced(self._there(namespace, view), self.sent)
                return 200, _shown_view(views[namespace, view])
            case ("DELETE", [view]):
                self._there(namespace, view)
                del views[namespace, view]
                return 204, {}
        raise _Refused(404, "NotFoundException", "/".join(name))

    def _there(self, namespace: str, view: str) -> dict[str, Any]:
        if (namespace, view) not in self.state.views:
            raise exceptions.NoSuchViewError(f"{namespace}.{view}")
        return self.state.views[namespace, view]


def _check_token(state: RestCatalogServer, header: str) -> None:
    if state.forbids:
        raise _Refused(403, "ForbiddenException", "Permission 'biglake.catalogs.get' denied")
    token = header.removeprefix("Bearer ")
    good = state.accepts(token) if state.accepts is not None else token in state.tokens
    if not good:
        raise _Refused(401, "NotAuthorizedException", "no such token")


def _token(state: RestCatalogServer, text: bytes) -> dict[str, Any]:
    sent = {key: values[0] for key, values in parse_qs(text.decode()).items()}
    if f"{sent.get('client_id')}:{sent.get('client_secret')}" != CREDENTIAL:
        raise _Refused(401, "NotAuthorizedException", "unknown client")
    token = secrets.token_hex(8)
    state.tokens.add(token)
    return {"access_token": token, "token_type": "bearer", "expires_in": 3600}


def _commit_together(state: RestCatalogServer, sent: dict[str, Any]) -> tuple[int, Any]:
    """All changes or none: what they make is written first, then named in one transaction."""
    if not state.together:
        raise _Refused(501, "NotImplementedException", "one table at a time")

    def commit() -> None:
        catalog = state.catalog
        named: list[tuple[str, str, str, str]] = []
        for change in sent["table-changes"]:
            asked = CommitTableRequest.model_validate_json(json.dumps(change))
            place = _place_of(change["identifier"])
            table = catalog.load_table(place)
            staged = catalog._update_and_stage_table(
                table, place, asked.requirements, asked.updates
            )
            catalog._write_metadata(staged.metadata, staged.io, staged.metadata_location)
            named.append((staged.metadata_location, *place, table.metadata_location))
        with catalog.engine.begin() as connection:
            for values in named:
                moved = connection.exec_driver_sql(_NAME, values).rowcount
                if moved != 1:
                    raise exceptions.CommitFailedException(".".join(values[1:3]))

    fault = state.fault_of("transactions/commit")
    if fault is None:
        commit()
        return 204, {}
    if fault.apply == "late":
        state.late.append(commit)
    if fault.apply == "now":
        commit()
    if fault.status in (NO_ANSWER, 204):
        return fault.status, {}
    return fault.status, _error(fault.status, "ServiceFailure", "planted")


_NAME = (
    "UPDATE iceberg_tables SET metadata_location = ? WHERE table_namespace = ? AND table_name = ?"
    " AND metadata_location = ?"
)


def _config(state: RestCatalogServer) -> dict[str, Any]:
    offered = [one for one in _ENDPOINTS if state.together or "transactions" not in one]
    endpoints = [f"{one.split()[0]} /v1/{{prefix}}/{one.split()[1]}" for one in offered]
    return {"defaults": {}, "overrides": {}, "endpoints": endpoints}


def _error(status: int, kind: str, words: str) -> dict[str, Any]:
    return {"error": {"message": words, "type": kind, "code": status}}


def _place_of(identifier: dict[str, Any]) -> Place:
    return ".".join(identifier["namespace"]), identifier["name"]


def _loaded(table: Table) -> dict[str, Any]:
    metadata = json.loads(table.metadata.model_dump_json())
    return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}


def _not_there(catalog: SqlCatalog, place: Place) -> Table:
    """What a staged creation commits to."""
    schema_less: Any = None
    return Table(place, schema_less, "", catalog._load_file_io(), catalog)


def _new_view(sent: dict[str, Any]) -> dict[str, Any]:
    version = {**sent["view-version"], "version-id": 1}
    schema = {**sent["schema"], "schema-id": 0}
    version["schema-id"] = 0
    at = int(time.time() * 1000)
    return {
        "view-uuid": str(uuid.uuid4()),
        "format-version": 1,
        "location": sent.get("location") or f"memory://{sent['name']}",
        "schemas": [schema],
        "current-version-id": 1,
        "versions": [version],
        "version-log": [{"timestamp-ms": at, "version-id": 1}],
        "properties": sent.get("properties") or {},
    }


def _replaced(view: dict[str, Any], sent: dict[str, Any]) -> dict[str, Any]:
    """A view after a commit's updates."""
    made = json.loads(json.dumps(view))
    for one in sent.get("requirements", []):
        if one["type"] == "assert-view-uuid" and one["uuid"] != made["view-uuid"]:
            raise exceptions.CommitFailedException("another view")
    for update in sent["updates"]:
        _update_view(made, update)
    return made


def _update_view(view: dict[str, Any], update: dict[str, Any]) -> None:
    """One update of a view; -1 names what was added last."""
    schema = max(one["schema-id"] for one in view["schemas"])
    version = max(one["version-id"] for one in view["versions"])
    match update["action"]:
        case "add-schema":
            view["schemas"].append({**update["schema"], "schema-id": schema + 1})
        case "add-view-version":
            added = {**update["view-version"], "version-id": version + 1}
            if added["schema-id"] == -1:
                added["schema-id"] = schema
            view["versions"].append(added)
        case "set-current-view-version":
            current = update["view-version-id"]
            view["current-version-id"] = version if current == -1 else current
            at = int(time.time() * 1000)
            entry = {"timestamp-ms": at, "version-id": view["current-version-id"]}
            view["version-log"].append(entry)
        case "set-properties":
            view["properties"] |= update["updates"]
        case "set-location":
            view["location"] = update["location"]
        case "assign-uuid" | "upgrade-format-version":
            pass
        case other:
            raise _Refused(400, "BadRequestException", f"{other} of a view")


def _shown_view(view: dict[str, Any]) -> dict[str, Any]:
    location = f"{view['location']}/metadata/{view['current-version-id']:05d}.metadata.json"
    return {"metadata-location": location, "metadata": view, "config": {}}
