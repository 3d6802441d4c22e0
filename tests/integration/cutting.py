"""A TCP proxy that cuts, stalls or slows a connection somewhere in what the server sends."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import struct
import threading
import time
from typing import Any, Literal, Self

_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: closing sends RST


class CuttingProxy:
    """Carries bytes to ``port``, and cuts the first ``times`` connections that have sent so many
    bytes to us; None: all that have.

    ``how`` else: ``stall`` passes nothing more of them, and closes nothing; ``slow`` passes the rest
    in small pieces with pauses.

    A process of its own: while the reader waits for a row, no other thread of ours runs.
    """

    def __init__(
        self, port: int, after: int, times: int | None, how: Literal["cut", "stall", "slow"] = "cut"
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._large, self._cut = context.Value("i", 0), context.Value("i", 0)
        self._closed = context.Value("i", 0)
        told, tell = context.Pipe(duplex=False)
        counts = (self._large, self._cut, self._closed)
        self._process = context.Process(
            target=_serve, args=(port, after, times, how, counts, tell), daemon=True
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

    def close_to_others(self) -> None:
        """Take connections from now on, and pass nothing of them."""
        self._closed.value = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()


def _serve(port: int, after: int, times: int | None, how: str, counts: Any, tell: Any) -> None:
    _Proxy(port, after, times, how, counts).serve(tell)


class _Proxy:
    def __init__(self, port: int, after: int, times: int | None, how: str, counts: Any) -> None:
        self._target, self._after, self._left, self._how = port, after, times, how
        self._lock = threading.Lock()
        self._large, self._cut, self._closed = counts

    def serve(self, tell: Any) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        tell.send(self._listener.getsockname()[1])
        self._accept()

    def _accept(self) -> None:
        held: list[socket.socket] = []
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._closed.value:
                    held.append(client)
                    continue
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
        sent, large, slow = 0, False, False
        with contextlib.suppress(OSError):
            while piece := server.recv(16_384):
                sent += len(piece)
                if sent > self._after and not large:
                    large = True
                    if self._cuts():
                        if self._how == "stall":
                            client.sendall(piece[: self._after - sent])
                            # Until the process is killed: neither end sees anything.
                            threading.Event().wait()
                        slow = self._how == "slow"
                        if not slow:
                            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                            break
                for at in range(0, len(piece), 4_096 if slow else len(piece)):
                    client.sendall(piece[at : at + 4_096] if slow else piece)
                    time.sleep(0.02 if slow else 0)
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
