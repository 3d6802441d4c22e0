"""A server that answers as Dataproc documents it for serverless batches, and keeps what was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.serving import serving

PLACE = "projects/p-1/locations/europe-west3"


@dataclass
class Dataproc:
    """What the server has.

    Attributes:
        batches: by id.
        states: what the next looks at a batch show, before it stays as it is.
        bodies: of batches that were created.
        broken: how many requests are answered by 503 after they were done.
    """

    batches: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    states: list[str] = field(default_factory=list[str])
    bodies: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    cancelled: list[str] = field(default_factory=list[str])
    broken: int = 0
    url: str = ""
    _requests: set[str] = field(default_factory=set[str])

    def create(self, name: str, request: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if request in self._requests:
            return 200, {"name": f"operations/{name}"}
        if name in self.batches:
            return 409, {"error": {"message": f"Already exists: {name}", "code": 409}}
        self._requests.add(request)
        self.bodies.append(body)
        operation = f"projects/p-1/regions/europe-west3/operations/{name}"
        self.batches[name] = {**body, "state": "PENDING", "operation": operation}
        return 200, {"name": operation}

    def look(self, name: str) -> tuple[int, dict[str, Any]]:
        found = self.batches.get(name)
        if found is None:
            return 404, {"error": {"message": f"Not found: {name}", "code": 404}}
        if self.states:
            found["state"] = self.states.pop(0)
        return 200, found

    def cancel(self, operation: str) -> tuple[int, dict[str, Any]]:
        self.cancelled.append(operation)
        return 200, {}


@contextmanager
def dataproc_server() -> Iterator[Dataproc]:
    """The server on loopback."""
    there = Dataproc()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = urlsplit(self.path).path.removeprefix(f"/v1/{PLACE}/batches/")
            self._answer(there.look(name))

        def do_POST(self) -> None:
            url = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if url.path.endswith(":cancel"):
                self._answer(there.cancel(url.path.removeprefix("/v1/").removesuffix(":cancel")))
                return
            assert url.path == f"/v1/{PLACE}/batches", url.path
            query = parse_qs(url.query)
            made = there.create(query["batchId"][0], query["requestId"][0], json.loads(body))
            self._answer(made)

        def _answer(self, answer: tuple[int, dict[str, Any]]) -> None:
            code, body = answer
            if there.broken:
                there.broken -= 1
                code, body = 503, {"error": {"message": "Unavailable", "code": 503}}
            said = json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as there.url:
        yield there
