"""A token endpoint of Google's on loopback, and a service account's file whose ``token_uri`` it is:
Google's own libraries for Python and Java log in by it.

Source: Google Identity, "Using OAuth 2.0 for server to server applications: HTTP/REST".
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from google.auth import jwt

HOST = "127.0.0.1"
_GOOGLE = "https://oauth2.googleapis.com/token"
"""Whom Python's library writes its requests to, wherever they go."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@dataclass
class GoogleTokens:
    """The endpoint's state.

    Attributes:
        lifetime: of the tokens that it gives, in seconds; after it nobody takes them.
        status, words: what it answers in place of a token, if it is not 200.
        given: every token, with the moment at which it ends.
    """

    file: Path
    public: bytes
    port: int = 0
    lifetime: float = 3600.0
    status: int = 200
    words: str = ""
    given: dict[str, float] = field(default_factory=dict[str, float])

    def accepts(self, token: str) -> bool:
        """Whether a token is one of these, and has not ended."""
        return time.monotonic() < self.given.get(token, 0.0)

    def answer(self, text: str) -> tuple[int, dict[str, Any]]:
        """What becomes of a request for a token."""
        if self.status != 200:
            return self.status, {"error": self.words, "error_description": "planted"}
        sent = {name: values[0] for name, values in parse_qs(text).items()}
        # Raises where the signature is another key's, or the times are not now's.
        claims = jwt.decode(sent["assertion"], certs=self.public, audience=[_GOOGLE, self.uri])
        assert claims["scope"] == SCOPE, claims
        token = f"ya29.{secrets.token_hex(16)}"
        self.given[token] = time.monotonic() + self.lifetime
        return 200, {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime}

    @property
    def uri(self) -> str:
        return f"http://{HOST}:{self.port}/token"


@contextmanager
def running_tokens(folder: Path) -> Iterator[GoogleTokens]:
    """An endpoint, until the block ends; ``file`` is the service account's."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    state = GoogleTokens(folder / "account.json", public)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the tests' output is theirs."""

        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            status, answer = state.answer(text)
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer((HOST, 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    account = {
        "type": "service_account",
        "project_id": "a-project",
        "private_key_id": "1",
        "private_key": private,
        "client_email": "mirror@a-project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": state.uri,
    }
    state.file.write_text(json.dumps(account), encoding="utf-8")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
