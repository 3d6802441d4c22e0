"""A TCP proxy that cuts a connection in the middle of what the server sends."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import struct
import threading
from typing import Any, Self

_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: closing sends RST


class CuttingProxy:
    """Carries bytes to ``port``, and cuts the first ``times`` connections that have sent so many
    bytes to us; None: all that have.

    A process of its own: while the reader waits for a row, no other thread of ours runs.
    """

    def __init__(self, port: int, after: int, times: int | None) -> None:
        context = multiprocessing.get_context("spawn")
        self._large, self._cut = context.Value("i", 0), context.Value("i", 0)
        told, tell = context.Pipe(duplex=False)
        counts = (self._large, self._cut)
        self._process = context.Process(
            target=_serve, args=(port, after, times, counts, tell), daemon=True
        )
        self._process.start()
        self.port = int(told.recv())

    @property
    def large(self) -> int:
        """How many connections have sent so many bytes."""
        return int(self._large.value)

    @property
    def cut(self) -> int:
        """How many of them were cut."""
        return int(self._cut.value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(port: int, after: int, times: int | None, counts: Any, tell: Any) -> None:
    _Proxy(port, after, times, counts).serve(tell)


class _Proxy:
    def __init__(self, port: int, after: int, times: int | None, counts: Any) -> None:
        self._target, self._after, self._left = port, after, times
        self._lock = threading.Lock()
        self._large, self._cut = counts

    def serve(self, tell: Any) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        tell.send(self._listener.getsockname()[1])
        self._accept()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for carry in (self._up, self._down):
                    threading.Thread(target=carry, args=(client, server), daemon=True).start()

    def _up(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := client.recv(65_536):
                server.sendall(piece)
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)

    def _down(self, client: socket.socket, server: socket.socket) -> None:
        sent, large = 0, False
        with contextlib.suppress(OSError):
            while piece := server.recv(16_384):
                sent += len(piece)
                if sent > self._after and not large:
                    large = True
                    if self._cuts():
                        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        break
                client.sendall(piece)
        for end in (client, server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _cuts(self) -> bool:
        with self._lock:
            self._large.value += 1
            if self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            self._cut.value += 1
            return True
