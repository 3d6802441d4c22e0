"""A proxy in front of an object store: each call waits as long as a network would make it wait, and
is counted by what a cloud bills it as.

A process of its own: what is measured must not wait for the proxy's Python. `SlowStore` starts it.

Source: Cloud Storage documentation, "Pricing", operations: inserts and listings are class A, reads
of objects and of their metadata class B, deletes are free. A resumable upload is one operation,
whatever number of requests it is made of.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.support.module_server import serving

_CONTROL = "/slow-store/"
CLASS_A, CLASS_B, FREE = "class A", "class B", "free"
_OBJECT = re.compile(r"/b/[^/]+/o/.+")
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}


@dataclass(frozen=True)
class Calls:
    """What was called since the counts were taken last.

    Attributes:
        by_kind: ``"GET metadata"``, ``"GET media"``, ``"GET list"``, ``"POST upload"``, … → calls.
        at_once: most calls that were under way at one time.
        waited: seconds in which at least one call was under way.
    """

    by_kind: Mapping[str, int]
    at_once: int
    waited: float

    @property
    def all(self) -> int:
        """Every request, each of which waited."""
        return sum(self.by_kind.values())

    def billed(self, kind: str) -> int:
        """The operations of one class."""
        return sum(n for name, n in self.by_kind.items() if _BILLED.get(name, CLASS_A) == kind)


_BILLED = {
    "GET metadata": CLASS_B,
    "GET media": CLASS_B,
    "PUT upload": FREE,  # a part of the POST that began it
    "DELETE object": FREE,
}


def kind_of(method: str, path: str) -> str:
    """What a request is, in the words of `Calls.by_kind`.

    >>> kind_of("GET", "/storage/v1/b/lake/o/a%2Fb?alt=media")
    'GET media'
    >>> kind_of("POST", "/upload/storage/v1/b/lake/o?uploadType=resumable&name=a")
    'POST upload'
    """
    parts = urlsplit(path)
    if parts.path.startswith("/upload/"):
        return f"{method} upload"
    if _OBJECT.search(parts.path):
        if method == "GET":
            media = "alt=media" in parts.query or parts.path.startswith("/download/")
            return "GET media" if media else "GET metadata"
        return f"{method} object"
    if re.search(r"/b/[^/]+/o/?$", parts.path):
        return f"{method} list"
    # The XML API: the object's own address.
    return f"{method} media" if method in ("GET", "HEAD") else f"{method} upload"


class SlowStore:
    """The proxy, seen from the process that started it: ``endpoint`` takes its upstream's place."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"

    def set_delay(self, seconds: float) -> None:
        """What each call waits from now on."""
        self._ask(f"delay?{seconds}")

    def take_calls(self) -> Calls:
        """The calls since they were taken last."""
        return Calls(**self._ask("calls"))

    def _ask(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self.endpoint}{_CONTROL}{what}", timeout=60) as answer:  # noqa: S310
            return json.load(answer)


@contextmanager
def slow_store(upstream: str) -> Iterator[SlowStore]:
    """A proxy before the store at ``upstream``; it ends with the block."""
    with serving(__name__, upstream) as port:
        yield SlowStore(port)


# --- the proxy's own process ----------------------------------------------------------------------


class _State:
    """What all of the proxy's threads share."""

    def __init__(self, upstream: str) -> None:
        parts = urlsplit(upstream)
        self.upstream = (parts.hostname or "127.0.0.1", parts.port or 80)
        self.delay = 0.0
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._under_way = self._at_once = 0
        self._waited = self._since = 0.0

    @contextmanager
    def counted(self, kind: str) -> Iterator[None]:
        with self._lock:
            self._counts[kind] += 1
            if not self._under_way:
                self._since = time.monotonic()
            self._under_way += 1
            self._at_once = max(self._at_once, self._under_way)
        try:
            yield
        finally:
            with self._lock:
                self._under_way -= 1
                if not self._under_way:
                    self._waited += time.monotonic() - self._since

    def take(self) -> dict[str, Any]:
        with self._lock:
            said = {
                "by_kind": dict(self._counts),
                "at_once": self._at_once,
                "waited": self._waited,
            }
            self._counts.clear()
            self._at_once, self._waited = 0, 0.0
        return said


class _Handler(BaseHTTPRequestHandler):
    """One client's connection."""

    protocol_version = "HTTP/1.1"  # clients keep their connections, as with the real store
    disable_nagle_algorithm = True
    state: _State

    def _pass_on(self) -> None:
        body = self._body()
        if self.path.startswith(_CONTROL):
            self._control()
            return
        with self.state.counted(kind_of(self.command, self.path)):
            time.sleep(self.state.delay)
            status, headers, content = self._upstream(body)
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self._end(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = _pass_on

    def _control(self) -> None:
        what, _, value = self.path.removeprefix(_CONTROL).partition("?")
        said: Any = {}
        if what == "delay":
            self.state.delay = float(value)
        else:
            said = self.state.take()
        self.send_response(200)
        self._end(json.dumps(said).encode())

    def _end(self, content: bytes) -> None:
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        found = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _upstream(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        sent = {k: v for k, v in self.headers.items() if k.lower() not in _HOP}
        sent["Content-Length"] = str(len(body))
        with closing(http.client.HTTPConnection(*self.state.upstream, timeout=60)) as connection:
            connection.request(self.command, self.path, body or None, sent)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def log_message(self, *_: object) -> None:
        """Nothing on the tests' output."""


def _serve(port: int, upstream: str) -> None:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    handler = type("Handler", (_Handler,), {"state": _State(upstream)})
    server = Server(("127.0.0.1", port), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # ends with the process that started it


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
