"""Google Cloud Storage on this machine: an emulator that speaks its API, and one that forbids."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from gcp_storage_emulator.server import create_server
from google.cloud import storage

from mirrorlake.sources.files.gcs_store import gcs_client
from tests.support.serving import serving


@contextmanager
def emulator(bucket: str) -> Iterator[tuple[str, storage.Client]]:
    """(endpoint, client) of an emulator with one empty bucket."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server: Any = create_server("127.0.0.1", port, in_memory=True, default_bucket=bucket)
    server.start()
    try:
        endpoint = f"http://127.0.0.1:{port}"
        yield endpoint, gcs_client(endpoint)
    finally:
        server.stop()


class _Forbids(BaseHTTPRequestHandler):
    """Every request is answered as Google answers an account without rights."""

    def do_GET(self) -> None:
        words = "robot@example.com does not have storage.objects.list access to the bucket."
        text = json.dumps({"error": {"code": 403, "message": words}}).encode()
        self.send_response(403)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    def log_message(self, *_: object) -> None:
        """Nothing on the tests' output."""


@contextmanager
def forbidding() -> Iterator[str]:
    """The endpoint of a store in which nothing is allowed."""
    with serving(_Forbids) as url:
        yield url
