"""A TCP proxy that cuts a connection in the middle of what the server sends."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import Self

_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: closing sends RST


class CuttingProxy:
    """Carries bytes to ``port``, and cuts the first ``times`` connections that have sent so many
    bytes to us; None: all that have. ``large`` counts the connections that came so far."""

    def __init__(self, port: int, after: int, times: int | None) -> None:
        self._target, self._after, self._left = port, after, times
        self._lock = threading.Lock()
        self.large = self.cut = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

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
            self.large += 1
            if self._left == 0:
                return False
            if self._left is not None:
                self._left -= 1
            self.cut += 1
            return True
