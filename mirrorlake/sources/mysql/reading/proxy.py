"""Carry a reader's bytes to MySQL: a process of its own, for a reader that speaks no TLS and takes
rows without end.

PyMySQL opens the connection: it encrypts, checks the certificate against the CA, and logs in. Then
the reader is let in through a Unix socket in a folder that only this user can open, is greeted as a
server greets, and is believed whatever it answers. From the first command on, the two connections
are alike, and bytes are carried both ways unchanged. Capabilities are offered that PyMySQL agreed
on with the server, and none that would change the form of what follows.

On request it opens a consistent snapshot in that first session and answers questions in it, one
before the rows, and others once a reader is done; the rows that are read through the session are of
the very same state. A reader that is done says so; its goodbye is not passed on, and the session
waits for the next: several statements may be read from one state, one after the other.

A brake (`brakes`) counts rows, or bytes, and carrying waits until more may go.

A carrier is a process of its own (`helper_processes`). It reads one line of JSON from its input,
prints one line once the first session stands (what is wrong as code and words; else the session's
id, and the answer), and ends when that input closes: with its parent, however the parent dies. Its
further input is one number a line: at a rate, how many rows are allowed so far; it prints how many
are through as they go, and `END` after the last one of a statement. Near, whether the reader waits
for rows now (1) or has some (0). Or a text: a question for the snapshot's session, whose answer it
prints as it does the first. Whatever the brake, it prints what it found out about a server that
fell silent (`silence`), as a line of JSON: `NOTE` where the server is at work, `SILENT` where the
read is given up.

Only the standard library and PyMySQL: its start is waited for.

Source: MySQL internals, "Connection Phase Packets", "Capabilities Flags".
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import selectors
import socket
import ssl
import threading
import time
from functools import partial
from typing import Any, TextIO

import pymysql

from mirrorlake.sources.mysql.reading.brakes import END, NEAR, RATE, Brake, ByteBrake, RowBrake
from mirrorlake.sources.mysql.reading.packets import OK, greeting, packet, read_exactly, read_packet
from mirrorlake.sources.mysql.reading.signs_of_life import SignsOfLife
from mirrorlake.sources.mysql.sessions import silence

_CHUNK = 1 << 20
_KERNEL_BYTES = 1 << 18
_EXECUTE = b"\x17"
_GOODBYE = b"\x01\0\0\0\x01"
_GOODBYE_SECONDS = 0.1
_ERROR, _END_OF_PART = 0xFF, 0xFE
_LOST = 2013  # CR_SERVER_LOST
# A packet of the greatest size is continued in the next.
_LARGEST = 0xFFFFFF
NOTE, SILENT = "note", "silent"


def carry(lines: TextIO, tell: int) -> None:
    """Carry sessions until the input closes.

    Args:
        lines: the carrier's input.
        tell: the descriptor of its output.
    """
    _Carrier(json.loads(lines.readline()), lines, tell).carry()


class _Carrier:
    """One carrier: what it was started with, and what it says."""

    def __init__(self, settings: dict[str, Any], lines: TextIO, tell: int) -> None:
        self._settings, self._lines, self._tell = settings, lines, tell
        limited = settings["brake"]
        self._brake = {RATE: RowBrake, NEAR: ByteBrake}[limited](self.say) if limited else None
        self._ready = queue.SimpleQueue[Any]()
        self._has_snapshot = settings["before"] is not None
        life = (settings["beats"], settings["beat_seconds"], settings["pid"])
        self._signs = SignsOfLife(*life)

    def carry(self) -> None:
        # From the start: what ends our parent, ends a question that the server works on.
        threading.Thread(target=self._heed, daemon=True).start()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self._settings["socket"])
        listener.listen()
        try:
            first = self._log_in()
            if self._has_snapshot:
                _open_snapshot(first, self._settings["before"])
            question = self._settings["question"]
            answer = _ask(first, question) if question else None
        except (pymysql.Error, OSError) as error:
            self._say_wrong(error)
            return
        self._ready.put(first)
        self.say({"session": first.thread_id(), "answer": answer})
        while True:
            reader, _ = listener.accept()
            threading.Thread(target=self._serve, args=(reader,), daemon=True).start()

    def say(self, line: object) -> None:
        """Print a line at once, from whatever thread."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._tell, f"{line if line == END else json.dumps(line)}\n".encode())

    def _say_wrong(self, error: Exception) -> None:
        code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
        self.say({"wrong": [code, str(error.args[-1] if error.args else error)]})

    def _answer(self, question: str) -> None:
        """Answer a question in the snapshot, once the reader is done with its session."""
        try:
            connection = self._session()
            try:
                answer = _ask(connection, question)
            finally:
                self._ready.put(connection)
        except OSError as error:
            self._say_wrong(pymysql.OperationalError(_LOST, str(error)))
        except pymysql.Error as error:
            self._say_wrong(error)
        else:
            self.say({"answer": answer})

    def _heed(self) -> None:
        for line in self._lines:
            order = json.loads(line)
            if isinstance(order, str):
                threading.Thread(target=self._answer, args=(order,), daemon=True).start()
            elif self._brake is not None:
                self._brake.update(order)
        if self._has_snapshot:
            # It ends as sessions do, or the server would log that its client was lost.
            with contextlib.suppress(queue.Empty, OSError, AttributeError):
                self._ready.get(timeout=_GOODBYE_SECONDS)._sock.sendall(_GOODBYE)
        # Threads may be carrying: a closed input ends them all.
        os._exit(0)

    def _log_in(self) -> Any:
        settings = self._settings
        note = partial(self._note, NOTE)
        login = login_arguments(settings) | {"database": settings["database"]}
        connection = silence.connect(login, settings["silence"], note, settings["most"])
        if settings["tls"] and not isinstance(connection._sock, ssl.SSLSocket):
            # PyMySQL continues without TLS where the server has none.
            connection.close()
            raise OSError("the server does not speak TLS")
        if settings["brake"] == RATE:
            # Else the kernel takes megabytes ahead of what is allowed.
            connection._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _KERNEL_BYTES)
        return connection

    def _note(self, kind: str, words: str) -> None:
        self.say({kind: words})

    def _serve(self, reader: socket.socket) -> None:
        """One session, from greeting to end; a failure closes the reader's side, which it
        reports."""
        with contextlib.suppress(pymysql.Error, OSError, IndexError), reader:
            connection = self._session()
            server: _Server = connection._sock
            is_kept = False
            try:
                reader.sendall(packet(greeting(connection.get_server_info()), 0))
                read_packet(reader)
                reader.sendall(packet(OK, 2))
                watched = _Heard(server, connection.watch, self._signs)
                try:
                    is_kept = _pump(reader, watched, self._brake, keep=self._has_snapshot)
                except silence.Silent as error:
                    self._note(SILENT, str(error))
                finally:
                    watched.rests()
            finally:
                if is_kept:
                    self._ready.put(connection)
                else:
                    self._lost(server)

    def _session(self) -> Any:
        """The session of the snapshot, once the reader before is done with it; without a snapshot
        the first session, then new ones.

        Raises:
            OSError: the session of the snapshot was lost.
        """
        with contextlib.suppress(queue.Empty):
            found = self._ready.get(block=self._has_snapshot)
            if found is None:
                self._ready.put(None)
                raise OSError("the session of the snapshot was lost")
            return found
        return self._log_in()

    def _lost(self, server: _Server) -> None:
        """A session is over: nobody waits for its rows, nor for itself where it had a snapshot."""
        server.close()
        if isinstance(self._brake, RowBrake):
            self._brake.end()
        if self._has_snapshot:
            self._ready.put(None)


def login_arguments(settings: dict[str, Any]) -> dict[str, Any]:
    """PyMySQL's arguments for a login, of what `route.login_of` gives."""
    context = ssl.create_default_context(cafile=settings["ca"]) if settings["tls"] else None
    if context is not None and settings["ca"] is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return {
        "host": settings["host"],
        "port": settings["port"],
        "user": settings["user"],
        "password": settings["password"].encode(),
        "ssl": context,
        "ssl_disabled": context is None,
        # A server that asks for the password itself gets nothing: see `connect.refused_plugins`.
        "auth_plugin_map": dict.fromkeys(settings["refused"], object),
    }


def _open_snapshot(connection: Any, settings: list[str]) -> None:
    """Run settings, and open a consistent snapshot that stays."""
    with connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(setting)
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


def _ask(connection: Any, question: str) -> list[int | None]:
    """The one row of numbers that a question answers; nothing of a statement without rows."""
    with connection.cursor() as cursor:
        cursor.execute(question)
        return [None if cell is None else int(cell) for cell in cursor.fetchone() or ()]


_Server = socket.socket  # an SSLSocket is one


class _Heard:
    """The server's end of a session, each wait for which is watched over."""

    def __init__(self, end: _Server, watch: silence.SessionWatch, signs: SignsOfLife) -> None:
        self.end, self._watch, self._signs = end, watch, signs
        end.settimeout(watch.seconds)

    def waits(self) -> None:
        """From now on the server is waited for, though nothing is received yet."""
        self._signs.waits(self)

    def rests(self) -> None:
        """Nothing is waited for."""
        self._signs.hears(self)

    @property
    def seconds(self) -> float:
        return self._watch.seconds

    def look(self, waited: float) -> None:
        """`silence.SessionWatch.look`."""
        self._watch.look(waited)

    def receive(self) -> bytes:
        """The next bytes; none at the end.

        Raises:
            Silent: none came, and the server is not at work.
        """
        began = time.monotonic()
        self.waits()
        while True:
            try:
                found = self.end.recv(_CHUNK)
            except TimeoutError:
                self.look(time.monotonic() - began)
            else:
                self.rests()
                return found


def _pump(reader: socket.socket, server: _Heard, brake: Brake | None, *, keep: bool) -> bool:
    """Carry bytes both ways until a side closes, or, where the session is to be kept, the reader
    says goodbye: whether it did. The protocol is one of question and answer, so either direction
    may be waited for while the other is sent.

    A session that rests because its reader has all rows is looked at too, and ended: the reader
    does not notice.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        selector.register(server.end, selectors.EVENT_READ)
        heard = time.monotonic()
        while True:
            server.waits()
            ready = selector.select(server.seconds)
            if not ready:
                server.look(time.monotonic() - heard)
                continue
            server.rests()
            for key, _ in ready:
                if key.fileobj is reader:
                    gated = isinstance(brake, RowBrake)
                    request = _read_question(reader) if gated or keep else reader.recv(_CHUNK)
                    if keep and request == _GOODBYE:
                        return True
                    if not request:
                        return False
                    server.end.sendall(request)
                    heard = time.monotonic()
                    if gated and request[4:5] == _EXECUTE:
                        _pass_rows(reader, server, brake)
                        brake.end()
                    continue
                answered = _all_there(server)
                if not answered:
                    return False
                reader.sendall(answered)
                if isinstance(brake, ByteBrake):
                    brake.passed(len(answered))
                heard = time.monotonic()


def _all_there(server: _Heard) -> bytes:
    """What has come, with what TLS has decrypted already: no selector sees that."""
    found = server.receive()
    while found and isinstance(server.end, ssl.SSLSocket) and server.end.pending():
        found += server.receive()
    return found


def _read_question(reader: socket.socket) -> bytes:
    """One request, with its head."""
    head = read_exactly(reader, 4)
    return head + read_exactly(reader, int.from_bytes(head[:3], "little"))


def _pass_rows(reader: socket.socket, server: _Heard, gate: RowBrake) -> None:
    """Carry one answer of rows, as many at a time as the gate has room for.

    What stands between two waits is one piece of what the server sent, and one row at most beside
    it. Before the rows come the columns, which end as the rows do.
    """
    held = bytearray()
    parts = 2  # the columns, the rows
    first, goes_on = True, False
    while parts:
        piece = server.receive()
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
