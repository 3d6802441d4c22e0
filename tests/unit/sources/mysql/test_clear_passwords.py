"""A server that asks for the password itself does not get it, whoever of ours logs in."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from pymysql.constants import CLIENT

from mirrorlake.config import SourceConfig
from mirrorlake.config.server import TlsConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.reading.helper_processes import new_watcher
from mirrorlake.sources.mysql.reading.reader import read_batches
from mirrorlake.sources.mysql.reading.route import login_of, open_route
from mirrorlake.sources.mysql.sessions.connect import open_session
from tests.integration.certificates import write_certificates

SECRET = "the secret itself"
GIVING_AWAY = ["mysql_clear_password", "dialog", "mysql_old_password"]
CAPABILITIES = (
    CLIENT.PROTOCOL_41 | CLIENT.SECURE_CONNECTION | CLIENT.PLUGIN_AUTH | CLIENT.CONNECT_WITH_DB
)


class Greedy(threading.Thread):
    """A server that greets, and then wants to log its client in by another plugin; ``heard`` is
    what each client sent after that."""

    def __init__(self, plugin: str, context: ssl.SSLContext | None) -> None:
        super().__init__(daemon=True)
        self.heard: list[bytes] = []
        self._plugin, self._context = plugin.encode(), context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def run(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            client.settimeout(5)
            with client:
                try:
                    self._serve(client)
                except OSError:
                    self.heard.append(b"")

    def _serve(self, client: socket.socket) -> None:
        flags = CAPABILITIES | (CLIENT.SSL if self._context else 0)
        salt = b"12345678abcdefghijkl"
        greeting = (
            b"\x0a8.0.36\0" + struct.pack("<I", 7) + salt[:8] + b"\0"
            + struct.pack("<HBHHB", flags & 0xFFFF, 45, 2, flags >> 16, 21)
            + b"\0" * 10 + salt[8:] + b"\0mysql_native_password\0"
        )  # fmt: skip
        send(client, 0, greeting)
        number, said = receive(client)
        if self._context and len(said) == 32:
            with self._context.wrap_socket(client, server_side=True) as secure:
                number, _ = receive(secure)
                self._ask(secure, number + 1, salt)
                return
        self._ask(client, number + 1, salt)

    def _ask(self, client: socket.socket, number: int, salt: bytes) -> None:
        asked = b"\xfe" + self._plugin + b"\0"
        send(client, number, asked + (b"\2Password: " if b"dialog" in asked else salt + b"\0"))
        self.heard.append(receive(client)[1])

    def close(self) -> None:
        self._listener.close()


def send(client: socket.socket, number: int, packet: bytes) -> None:
    client.sendall(struct.pack("<I", len(packet))[:3] + bytes([number]) + packet)


def receive(client: socket.socket) -> tuple[int, bytes]:
    head = whole(client, 4)
    return head[3], whole(client, int.from_bytes(head[:3], "little"))


def whole(client: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = client.recv(size - len(found))
        if not more:
            raise ConnectionResetError
        found += more
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("greedy") / "certificates"
    write_certificates(folder, "127.0.0.1")
    return folder


@pytest.fixture
def greedy(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[Greedy, SourceConfig]]:
    plugin, tls = request.param
    context = None
    if tls != "off":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    server = Greedy(plugin, context)
    server.start()
    checked = TlsConfig(ca=str(folder / "ca.pem"))
    yield (
        server,
        SourceConfig(
            name="s",
            host="127.0.0.1",
            port=server.port,
            user="u",
            password=SecretStr(SECRET),
            tls=checked if tls == "checked" else tls,
            time_zone="UTC",
        ),
    )
    server.close()


def by_session(source: SourceConfig) -> None:
    open_session(source)


def by_carrier(source: SourceConfig) -> None:
    with open_route(source, "d", near=True):
        raise AssertionError("it can't be logged in")


def by_reader(source: SourceConfig) -> None:
    list(read_batches(source, "d", "SELECT 1 AS a"))


def by_watcher(source: SourceConfig) -> None:
    told = {**login_of(source), "mark": "m", "history_list": None, "patience": 0, "table": "t"}
    watcher = new_watcher()
    watcher.tell(told)
    assert watcher.lines() is None  # it ended
    watcher.end()
    raise SourceError("asks for the password in clear text. Let the account log in by")


WAYS: list[Any] = [by_session, by_carrier, by_watcher, by_reader]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("greedy", [("mysql_clear_password", "off")], indirect=True)
def test_the_password_is_not_handed_out(greedy: tuple[Greedy, SourceConfig], way: Any) -> None:
    server, source = greedy
    with pytest.raises(SourceError) as caught:
        way(source)
    assert not any(server.heard)
    assert "asks for the password in clear text" in str(caught.value)
    assert "Let the account log in by" in str(caught.value)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "greedy",
    [(plugin, tls) for plugin in GIVING_AWAY for tls in ("off", "required")],
    indirect=True,
    ids=lambda pair: "-".join(pair),
)
def test_neither_by_another_plugin_nor_to_a_server_that_is_not_proved(
    greedy: tuple[Greedy, SourceConfig],
) -> None:
    server, source = greedy
    with pytest.raises(SourceError, match="Let the account log in by") as caught:
        by_session(source)
    assert not caught.value.retryable
    assert not any(server.heard)


@pytest.mark.parametrize("greedy", [("mysql_clear_password", "checked")], indirect=True)
def test_a_server_that_proved_itself_gets_it(greedy: tuple[Greedy, SourceConfig]) -> None:
    """Accounts of LDAP, PAM and IAM log in no other way."""
    server, source = greedy
    with pytest.raises(SourceError):
        by_session(source)  # the server says nothing after that
    assert server.heard == [SECRET.encode() + b"\0"]
