"""A TCP proxy that breaks a connection at one word of what the client sends, or changes a byte of
what the server sends."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import struct
import threading
from typing import Any, Literal, Self

How = Literal["before", "after", "stall", "slow", "change"]
_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: closing sends RST


class WordProxy:
    """Carries bytes to ``port``. Once armed, the next connection that sends ``word`` is

    - reset ``before`` the server has it,
    - reset ``after`` the server has answered it, without the answer,
    - left open, and nothing more of it is passed (``stall``),
    - or passed byte by byte (``slow``).

    With ``change``, the last byte of the word is another one wherever the server sends it.

    By threads of this process: not where the client holds the interpreter's lock while it waits,
    see `OtherProcess`.
    """

    def __init__(
        self, port: int, word: bytes, how: How, armed: Any = None, met: Any = None
    ) -> None:
        self._target, self._word, self._how = port, word, how
        self._armed = armed or threading.Event()
        self.met = met or threading.Event()
        """Set once the word was met."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ends: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._ends:
            _close(end)

    def arm(self) -> None:
        """Break the next connection that sends the word."""
        self._armed.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._ends += [client, server]
                broken = threading.Event()
                for carry in (self._up, self._down):
                    threading.Thread(
                        target=carry, args=(client, server, broken), daemon=True
                    ).start()

    def _up(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(65_536):
                if self._how != "change" and self._word in piece and self._armed.is_set():
                    self._armed.clear()
                    if self._how == "before":
                        _reset(client)
                        self.met.set()
                        break
                    broken.set()
                    self.met.set()
                server.sendall(piece)
        if self._how != "stall" or not broken.is_set():
            _close(server)

    def _down(self, client: socket.socket, server: socket.socket, broken: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while piece := server.recv(65_536):
                if broken.is_set() and self._how == "stall":
                    continue
                if self._how == "change" and self._armed.is_set() and self._word in piece:
                    other = bytes([self._word[-1] ^ 1])
                    piece = piece.replace(self._word, self._word[:-1] + other)
                    self.met.set()
                if broken.is_set() and self._how == "after":
                    _reset(client)
                    return
                for at in range(0, len(piece), 1 if broken.is_set() else len(piece)):
                    client.sendall(piece[at : at + 1] if broken.is_set() else piece)
        if self._how != "stall" or not broken.is_set():
            _close(client)


class OtherProcess:
    """A `WordProxy` in another process."""

    def __init__(self, port: int, word: bytes, how: How) -> None:
        context = multiprocessing.get_context("spawn")
        self._armed, self.met = context.Event(), context.Event()
        told, tell = context.Pipe(duplex=False)
        given = (port, word, how, self._armed, self.met)
        self._process = context.Process(target=_serve, args=(given, tell), daemon=True)
        self._process.start()
        self.port = int(told.recv())

    def arm(self) -> None:
        """Break the next connection that sends the word."""
        self._armed.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(given: Any, tell: Any) -> None:
    with WordProxy(*given) as proxy:
        tell.send(proxy.port)
        threading.Event().wait()


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    _close(end)


def _close(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # A close alone does not wake a thread that waits in recv.
        end.shutdown(socket.SHUT_RDWR)
    end.close()
