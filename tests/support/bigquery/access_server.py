"""BigQuery's API of datasets as Google documents it, where the emulator only keeps what it is given.

It spells roles and addresses in Google's way, knows which principals there are, changes etags,
shows access to owners alone, and takes a request whose answer is then lost. It is a server on
loopback; Google's own client speaks to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from tests.support.bigquery.grants import RUNNER
from tests.support.serving import serving

_SPELLED = {
    "roles/bigquery.dataViewer": "READER",
    "roles/bigquery.dataEditor": "WRITER",
    "roles/bigquery.dataOwner": "OWNER",
}


class Datasets:
    """What the server has.

    Attributes:
        access: entries of each dataset.
        unknown: addresses that are nobody's.
        before_patch: called before each change is looked at, with the dataset's name.
        lost: how many answers to changes are lost after they were made.
        hidden: whether nobody's access is shown.
        patches: the entries of each change that was requested.
        runner: whom Google takes whoever asks for.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.access: dict[str, list[dict[str, Any]]] = {}
        self.etags: dict[str, int] = {}
        self.unknown: set[str] = set()
        self.before_patch: Callable[[str], None] = lambda dataset: None
        self.lost = 0
        self.hidden = False
        self.patches: list[list[dict[str, Any]]] = []
        self.runner = RUNNER.partition(":")[2]

    def put(self, dataset: str, entries: list[dict[str, Any]]) -> None:
        """Replace a dataset's entries, as another client would."""
        self.access[dataset] = [_spelled(entry) for entry in entries]
        self.etags[dataset] = self.etags.get(dataset, 0) + 1

    def patch(self, dataset: str, etag: str | None, entries: list[dict[str, Any]]) -> int:
        """Answer a change: the status."""
        self.patches.append(entries)
        self.before_patch(dataset)
        if etag is None or etag != f"e{self.etags[dataset]}":
            return 412
        if any(str(value) in self.unknown for one in entries for value in one.values()):
            return 400
        self.put(dataset, entries)
        return 200


@contextmanager
def datasets_server() -> Iterator[Datasets]:
    """A server with no dataset, until the block ends."""

    class Handler(_Handler):
        there: Datasets

    with serving(Handler) as url:
        Handler.there = Datasets(url)
        yield Handler.there


class _Handler(BaseHTTPRequestHandler):
    there: Datasets

    def do_GET(self) -> None:
        dataset = self._dataset()
        if dataset not in self.there.access:
            self._refuse(404, f"Not found: Dataset {dataset}")
            return
        self._answer(200, self._resource(dataset))

    def do_PATCH(self) -> None:
        dataset = self._dataset()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = self.there.patch(dataset, self.headers.get("If-Match"), body["access"])
        if status == 412:
            self._refuse(412, "Precondition check failed.")
        elif status == 400:
            self._refuse(400, f"IAM setPolicy failed for Dataset {dataset}: no such principal.")
        elif self.there.lost:
            self.there.lost -= 1
            self._refuse(503, "The service is currently unavailable.")
        else:
            self._answer(200, self._resource(dataset))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        found = {
            "jobComplete": True,
            "jobReference": {"projectId": "local", "jobId": "q"},
            "queryId": "q",
            "totalRows": "1",
            "schema": {"fields": [{"name": "f0_", "type": "STRING", "mode": "NULLABLE"}]},
            "rows": [{"f": [{"v": self.there.runner}]}],
        }
        self._answer(200, found)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _dataset(self) -> str:
        return self.path.partition("?")[0].rpartition("/")[2]

    def _resource(self, dataset: str) -> dict[str, Any]:
        access = {} if self.there.hidden else {"access": self.there.access[dataset]}
        return {
            "datasetReference": {"projectId": "local", "datasetId": dataset},
            "etag": f"e{self.there.etags[dataset]}",
            "location": "US",
            **access,
        }

    def _refuse(self, status: int, message: str) -> None:
        self._answer(status, {"error": {"code": status, "message": message, "errors": []}})

    def _answer(self, status: int, found: dict[str, Any]) -> None:
        body = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _spelled(entry: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in entry.items() if value is not None}
    if "role" in found:
        found["role"] = _SPELLED.get(found["role"], found["role"])
    return found
