"""A server before the emulator that answers as Google does where the emulator never does: jobs that
run for long, requests and jobs that are refused for a while, statistics of jobs.

All else is the emulator's answer. The shapes of errors are those that Google documents: BigQuery,
"Error messages", "Troubleshoot quota and limit errors"; REST, "Job: JobStatus, JobStatistics".
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.serving import serving

_JOB = re.compile(r"/jobs/([^/?]+)")


@dataclass(frozen=True)
class Refused:
    """An answer of Google's that is no success: its status, its reason, its words."""

    status: int
    reason: str
    words: str

    def as_error(self) -> dict[str, str]:
        return {"domain": "global", "reason": self.reason, "message": self.words}

    def as_answer(self) -> dict[str, Any]:
        error = {"code": self.status, "message": self.words, "errors": [self.as_error()]}
        return {"error": error}


TOO_FAST = Refused(
    403,
    "rateLimitExceeded",
    "Exceeded rate limits: too many table update operations for this table. For more information,"
    " see https://cloud.google.com/bigquery/docs/troubleshoot-quotas",
)
USED_UP = Refused(
    403,
    "quotaExceeded",
    "Quota exceeded: Your table exceeded quota for imports or query appends per table. For more"
    " information, see https://cloud.google.com/bigquery/docs/troubleshoot-quotas",
)
BACKEND = Refused(503, "backendError", "Error encountered during execution. Retrying may solve it.")


@dataclass
class Shim:
    """What it answers otherwise.

    Attributes:
        running: whether every job that is looked at still runs.
        requests: answers to the next requests whose method and path contain the text, in order.
        jobs: how the next jobs whose ids end so end, in order.
        statistics: of every job that is looked at; their part ``query`` of queries alone.
        seen: the method and path of each request.
        stand_ins: names of tables that the emulator can't have; each with that of the table that it
            has for it. Texts of statements have the latter, those of views the former again.
    """

    url: str
    running: bool = False
    requests: list[tuple[str, Refused]] = field(default_factory=list[tuple[str, Refused]])
    jobs: list[tuple[str, Refused]] = field(default_factory=list[tuple[str, Refused]])
    statistics: dict[str, Any] = field(default_factory=dict[str, Any])
    seen: list[str] = field(default_factory=list[str])
    stand_ins: dict[str, str] = field(default_factory=dict[str, str])
    _failed: dict[str, Refused] = field(default_factory=dict[str, Refused])

    def refusal(self, request: str) -> Refused | None:
        """The answer to a request that is not the emulator's."""
        self.seen.append(request)
        for number, (part, refused) in enumerate(self.requests):
            if part in request:
                del self.requests[number]
                return refused
        return None

    def sent(self, body: bytes | None) -> bytes | None:
        """What the emulator is sent."""
        for name, stand_in in self.stand_ins.items():
            body = body and body.replace(f"`{name}`".encode(), f"`{stand_in}`".encode())
        return body

    def changed(self, request: str, found: dict[str, Any]) -> dict[str, Any]:
        """The emulator's answer as Google's would be."""
        for name, stand_in in self.stand_ins.items():
            if "view" in found:
                text = found["view"]["query"].replace(f"`{stand_in}`", f"`{name}`")
                found["view"]["query"] = text
        job = _JOB.search(request)
        if job is None or not request.startswith("GET") or "status" not in found:
            return found
        for number, (ending, refused) in enumerate(self.jobs):
            if job[1] not in self._failed and job[1].endswith(ending):
                self._failed[job[1]] = refused
                del self.jobs[number]
                break
        if self.running:
            return found | {"status": {"state": "RUNNING"}}
        if job[1] in self._failed:
            error = self._failed[job[1]].as_error()
            found["status"] = {"state": "DONE", "errorResult": error, "errors": [error]}
        if self.statistics:
            is_query = "query" in found.get("configuration", {})
            new = {k: v for k, v in self.statistics.items() if is_query or k != "query"}
            found["statistics"] = found.get("statistics", {}) | new
        return found


@contextmanager
def shim_before(emulator: str) -> Iterator[Shim]:
    """A server before an emulator's address, until the block ends."""

    class Handler(_Handler):
        target = emulator

    with serving(Handler) as url:
        Handler.shim = Shim(url)
        yield Handler.shim


class _Handler(BaseHTTPRequestHandler):
    shim: Shim
    target: str

    def _forward(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length) if length else None
        request = f"{self.command} {self.path}"
        refused = self.shim.refusal(request)
        if refused is not None:
            self._answer(refused.status, refused.as_answer())
            return
        status, found = self._asked(self.shim.sent(body))
        self._answer(status, self.shim.changed(request, found) if found else None)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

    def _asked(self, body: bytes | None) -> tuple[int, Any]:
        names = ("Content-Type", "If-Match", "Content-Encoding")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        request = urllib.request.Request(  # noqa: S310 - our own server
            self.target + self.path, data=body, headers=headers, method=self.command
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - the same
                text, status = answer.read(), answer.status
        except urllib.error.HTTPError as error:
            text, status = error.read(), error.code
        return status, json.loads(text) if text.strip() else None

    def _answer(self, status: int, found: Any) -> None:
        body = b"" if found is None else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""
