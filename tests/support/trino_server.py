"""A stand-in for Trino on loopback that speaks its REST protocol and gives what a test says.

It runs no SQL: a test says what a statement gives, in Trino's own JSON.

Source: Trino, "Trino client REST API".
"""

from __future__ import annotations

import datetime
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any, ClassVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Found = dict[str, Any]
"""What a statement gives: perhaps ``columns``, ``data`` and ``error``, as Trino has them."""


@dataclass
class TrinoServer:
    """What it gives, and what it was sent."""

    answer: Callable[[str], Found]
    status: int = 200
    """Of every answer."""
    body: bytes | None = None
    """Given in place of what Trino would say."""
    url: str = ""
    statements: list[str] = field(default_factory=list[str])
    headers: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    """Of each statement, names in lower case."""
    running: list[list[Found]] = field(default_factory=list[list[Found]])
    """Of each statement its pages."""


@contextmanager
def trino_server(
    answer: Callable[[str], Found], certificate: Path | None = None
) -> Iterator[TrinoServer]:
    """One until the block ends; by TLS where a certificate is given (`make_certificate`)."""
    state = TrinoServer(answer)

    class Handler(_Handler):
        server_state = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    state.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


def make_certificate(path: Path) -> Path:
    """A key and its own certificate for 127.0.0.1, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(address, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: ClassVar[TrinoServer]

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tests' output is theirs."""

    def do_POST(self) -> None:
        state = self.server_state
        statement = self.rfile.read(int(self.headers["Content-Length"])).decode()
        state.statements.append(statement)
        state.headers.append({name.lower(): text for name, text in self.headers.items()})
        state.running.append(_pages(state.answer(statement)))
        self._page(len(state.running) - 1, 0)

    def do_GET(self) -> None:
        query, page = (int(part) for part in self.path.split("/")[-2:])
        self._page(query, page)

    def do_DELETE(self) -> None:
        self._send(204, b"")

    def _page(self, query: int, number: int) -> None:
        state = self.server_state
        pages = state.running[query]
        answer = {
            "id": f"query_{query}",
            "infoUri": f"{state.url}/ui/query.html?query_{query}",
            "stats": {"state": "RUNNING" if number + 1 < len(pages) else "FINISHED"},
            "warnings": [],
            **pages[number],
        }
        if number + 1 < len(pages):
            answer["nextUri"] = f"{state.url}/v1/statement/executing/{query}/{number + 1}"
        self._send(state.status, state.body or json.dumps(answer).encode())

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _pages(found: Found) -> list[Found]:
    """As Trino does it: first nothing, then the columns, then rows, page by page."""
    if "error" in found:
        return [{}, found]
    columns, rows = {"columns": found["columns"]}, found.get("data", [])
    halves = [half for half in (rows[: len(rows) // 2], rows[len(rows) // 2 :]) if half]
    return [{}, columns, *({**columns, "data": half} for half in halves), columns]
