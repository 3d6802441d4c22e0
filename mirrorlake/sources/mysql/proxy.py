"""Carry a reader's bytes to MySQL: a process of its own, for a reader that speaks no TLS and takes
rows without end.

PyMySQL opens the connection: it encrypts, checks the certificate against the CA, and logs in. Then
the reader is let in through a Unix socket in a folder that only this user can open, is greeted as a
server greets, and is believed whatever it answers. From the first command on, the two connections
are alike, and bytes are carried both ways unchanged. Capabilities are offered that PyMySQL agreed
on with the server, and none that would change the form of what follows.

On request it opens a consistent snapshot in that first session and answers one question in it; the
rows that are read through the session afterwards are of the very same state.

A brake is one of two. At a *rate*, it counts the rows of each answer to a prepared statement, lets
through as many as it was allowed, and reads no further from the server meanwhile. *Near*, it counts
bytes alone, which costs next to nothing: a fixed number goes ahead of a reader that has rows, and
more once it has waited for a moment, which says that it has taken all that went before.

Run as a program with ``-P`` (a neighbour here is called ``types.py``). It reads one line of JSON
from its standard input, prints one line once the first session stands (what is wrong as code and
words; else the session's id, and the answer), and ends when that input closes: with its parent,
however the parent dies. Its further input is one number a line: at a rate, how many rows are
allowed so far; it prints how many are through as they go, and `END` after the last one. Near,
whether the reader waits for rows now (1) or has some (0).
Only the standard library and PyMySQL: its start is waited for.

Source: MySQL internals, "Connection Phase Packets", "Capabilities Flags".
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import ssl
import sys
import threading
import time
from typing import Any

import pymysql
from pymysql.constants import CLIENT

_OFFERED = (
    CLIENT.LONG_PASSWORD
    | CLIENT.LONG_FLAG
    | CLIENT.CONNECT_WITH_DB
    | CLIENT.PROTOCOL_41
    | CLIENT.TRANSACTIONS
    | CLIENT.SECURE_CONNECTION
    | CLIENT.MULTI_RESULTS
    | CLIENT.PLUGIN_AUTH
)
_AUTOCOMMIT = 2
_OK = b"\0\0\0" + _AUTOCOMMIT.to_bytes(2, "little") + b"\0\0"
_UTF8MB4 = 45
_CHUNK = 1 << 20
_KERNEL_BYTES = 1 << 18
_EXECUTE = b"\x17"
_ERROR, _END_OF_PART = 0xFF, 0xFE
# A packet of the greatest size is continued in the next.
_LARGEST = 0xFFFFFF
END = "end"
RATE, NEAR = "rate", "near"
AHEAD = 64 * 2**20
"""Bytes that go to a reader before it must have stood waiting again."""
_STANDS_SECONDS = 0.003
"""A reader that has rows ready is done with asking for them in far less."""


def main() -> None:
    """Carry sessions until the standard input closes."""
    settings: dict[str, Any] = json.loads(sys.stdin.readline())
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(settings.pop("socket"))
    listener.listen()
    try:
        first = _log_in(settings)
        answer = _ask(first, settings["before"])
    except (pymysql.Error, OSError) as error:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        words = str(error.args[-1] if error.args else error)
        print(json.dumps({"wrong": [code, words]}), flush=True)
        return
    print(json.dumps({"session": first.thread_id(), "answer": answer}), flush=True)
    brake = {RATE: _Gate, NEAR: _Valve}[settings["brake"]]() if settings["brake"] else None
    serving = (listener, settings, [first], brake)
    threading.Thread(target=_serve, args=serving, daemon=True).start()
    for line in sys.stdin:
        if brake is not None:
            brake.update(int(line))
    # Threads may be carrying: a closed input ends them all.
    os._exit(0)


def _log_in(settings: dict[str, Any]) -> Any:
    context = ssl.create_default_context(cafile=settings["ca"]) if settings["tls"] else None
    if context is not None and settings["ca"] is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # A server that asks for the password itself gets nothing: see `connect.refused_plugins`.
    refused: Any = dict.fromkeys(settings["refused"], object)
    connection: Any = pymysql.connect(
        host=settings["host"],
        port=settings["port"],
        user=settings["user"],
        password=settings["password"].encode(),
        database=settings["database"],
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=10,
        ssl=context,
        auth_plugin_map=refused,
    )
    if settings["tls"] and not isinstance(connection._sock, ssl.SSLSocket):
        # PyMySQL continues without TLS where the server has none.
        connection.close()
        raise OSError("the server does not speak TLS")
    if settings["brake"] == RATE:
        # Else the kernel takes megabytes ahead of what is allowed.
        connection._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_BYTES)
    return connection


def _ask(connection: Any, statements: list[str]) -> list[int | None] | None:
    """Run settings, and a question in a consistent snapshot that stays open; its row of numbers."""
    if not statements:
        return None
    *settings, question = statements
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(setting)
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        cursor.execute(question)
        return [None if cell is None else int(cell) for cell in cursor.fetchone()]


class _Gate:
    """How many rows are allowed so far; carrying waits here for more."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._allowed = self._through = 0

    def update(self, number: int) -> None:
        """Allow this many rows in all."""
        with self._changed:
            self._allowed = number
            self._changed.notify_all()

    def room(self) -> int:
        """How many rows may go through now; waits until one may."""
        with self._changed:
            self._changed.wait_for(lambda: self._through < self._allowed)
            return self._allowed - self._through

    def passed(self, rows: int) -> None:
        with self._changed:
            self._through += rows
            if rows:
                print(self._through, flush=True)

    def end(self) -> None:
        print(END, flush=True)


class _Valve:
    """How many bytes are ahead of the reader; carrying waits here until it has taken them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ahead = 0
        self._waits_since: float | None = time.monotonic()

    def update(self, number: int) -> None:
        """Whether the reader waits for rows now."""
        with self._changed:
            self._waits_since = time.monotonic() if number else None
            self._changed.notify_all()

    def passed(self, size: int) -> None:
        """Note the bytes that went through; return when more may."""
        with self._changed:
            self._ahead += size
            while self._ahead >= AHEAD:
                left = None
                if self._waits_since is not None:
                    left = self._waits_since + _STANDS_SECONDS - time.monotonic()
                    if left <= 0:
                        self._ahead = 0
                        return
                self._changed.wait(left)


_Brake = _Gate | _Valve
_Server = socket.socket  # an SSLSocket is one


def _serve(
    listener: socket.socket, settings: dict[str, Any], ready: list[Any], brake: _Brake | None
) -> None:
    while True:
        reader, _ = listener.accept()
        arguments = (reader, settings, ready, brake)
        threading.Thread(target=_carry, args=arguments, daemon=True).start()


def _carry(
    reader: socket.socket, settings: dict[str, Any], ready: list[Any], brake: _Brake | None
) -> None:
    """One session, from greeting to end; a failure closes the reader's side, which it reports."""
    with contextlib.suppress(pymysql.Error, OSError, IndexError), reader:
        connection = ready.pop() if ready else _log_in(settings)
        server: _Server = connection._sock
        with server:
            # A second one would wait for a request that the first has taken.
            reader.sendall(_packet(_greeting(connection.get_server_info()), 0))
            _read_packet(reader)
            reader.sendall(_packet(_OK, 2))
            try:
                _pump(reader, server, brake)
            finally:
                if isinstance(brake, _Gate):
                    brake.end()


def _pump(reader: socket.socket, server: _Server, brake: _Brake | None) -> None:
    """Carry bytes both ways until a side closes. The protocol is one of question and answer, so
    either direction may be waited for while the other is sent."""
    timeout: float | None = None
    server.settimeout(timeout)
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        selector.register(server, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is reader:
                    gated = isinstance(brake, _Gate)
                    request = _read_question(reader) if gated else reader.recv(_CHUNK)
                    if not request:
                        return
                    server.sendall(request)
                    if gated and request[4:5] == _EXECUTE:
                        _pass_rows(reader, server, brake)
                        brake.end()
                    continue
                answered = server.recv(_CHUNK)
                if not answered:
                    return
                # What TLS has decrypted already no selector sees.
                while isinstance(server, ssl.SSLSocket) and server.pending():
                    answered += server.recv(_CHUNK)
                reader.sendall(answered)
                if isinstance(brake, _Valve):
                    brake.passed(len(answered))


def _read_question(reader: socket.socket) -> bytes:
    """One request, with its head."""
    head = _exactly(reader, 4)
    return head + _exactly(reader, int.from_bytes(head[:3], "little"))


def _pass_rows(reader: socket.socket, server: _Server, gate: _Gate) -> None:
    """Carry one answer of rows, as many at a time as the gate has room for.

    What stands between two waits is one piece of what the server sent, and one row at most beside
    it. Before the rows come the columns, which end as the rows do.
    """
    held = bytearray()
    parts = 2  # the columns, the rows
    first, goes_on = True, False
    while parts:
        piece = server.recv(_CHUNK)
        if not piece:
            raise OSError("the server went away")
        held += piece
        at = rows = 0
        room = gate.room() if parts == 1 else 0
        while parts and len(held) - at >= 4:
            size = held[at] | held[at + 1] << 8 | held[at + 2] << 16
            if len(held) - at < 4 + size:
                break
            kind = held[at + 4] if size and not goes_on else 0
            at += 4 + size
            if kind == _ERROR or (first and kind == 0 and not goes_on):
                parts = 0  # an error, or no rows at all
            elif kind == _END_OF_PART and size < 9:
                parts -= 1
                if parts == 1:
                    room = gate.room()
            elif parts == 1 and size < _LARGEST:
                rows += 1
            first, goes_on = False, size == _LARGEST
            if rows and rows == room:
                reader.sendall(held[:at])
                del held[:at]
                gate.passed(rows)
                at = rows = 0
                room = gate.room()
        reader.sendall(held[:at])
        del held[:at]
        gate.passed(rows)


def _greeting(version: str) -> bytes:
    """The first packet of a server (protocol 10); the challenge is never looked at again."""
    challenge = os.urandom(20).translate(bytes.maketrans(b"\0$", b"ab"))
    return b"".join(
        (
            b"\x0a",
            version.encode() + b"\0",
            (1).to_bytes(4, "little"),
            challenge[:8] + b"\0",
            (_OFFERED & 0xFFFF).to_bytes(2, "little"),
            bytes([_UTF8MB4]),
            _AUTOCOMMIT.to_bytes(2, "little"),
            (_OFFERED >> 16).to_bytes(2, "little"),
            bytes([21]) + bytes(10),
            challenge[8:] + b"\0",
            b"mysql_native_password\0",
        )
    )


def _packet(content: bytes, number: int) -> bytes:
    return len(content).to_bytes(3, "little") + bytes([number]) + content


def _read_packet(reader: socket.socket) -> bytes:
    head = _exactly(reader, 4)
    return _exactly(reader, int.from_bytes(head[:3], "little"))


def _exactly(reader: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        part = reader.recv(size - len(found))
        if not part:
            raise OSError("the reader went away")
        found += part
    return found


if __name__ == "__main__":
    main()
