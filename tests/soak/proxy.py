"""A TCP proxy between the engine and a server, whose connections a test may cut."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time

RESET = struct.pack("ii", 1, 0)  # linger on, for no time: closing sends RST


class Proxy:
    """Listens on a free port of loopback and carries bytes to ``port``; ends with `stop`."""

    def __init__(self, port: int) -> None:
        self.target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._closed_until = 0.0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, seconds: float = 0.0) -> int:
        """Reset every connection, and refuse new ones for so long; how many there were."""
        with self._lock:
            self._closed_until = time.monotonic() + seconds
            cut, self._open = self._open, set()
        for end in cut:
            _reset(end)
        return len(cut) // 2

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        try:
            if time.monotonic() < self._closed_until:
                raise ConnectionRefusedError
            server = socket.create_connection(("127.0.0.1", self.target), 5)
        except OSError:
            _reset(client)
            return
        server.settimeout(None)
        with self._lock:
            self._open |= {client, server}
        back = threading.Thread(target=self._pump, args=(server, client), daemon=True)
        back.start()
        self._pump(client, server)
        back.join()
        with self._lock:
            self._open -= {client, server}
        for end in (client, server):
            end.close()

    @staticmethod
    def _pump(source: socket.socket, target: socket.socket) -> None:
        """Carry bytes one way until either end closes."""
        with contextlib.suppress(OSError):
            while piece := source.recv(65_536):
                target.sendall(piece)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _reset(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        # A close alone does not wake a thread that waits in recv.
        end.shutdown(socket.SHUT_RDWR)
    end.close()
