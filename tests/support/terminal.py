"""A program on a real terminal of its own: what it prints is waited for, and answered."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_SECONDS = 60.0
"""No wait ends earlier; a busy machine takes long."""


class Terminal:
    """A program whose input, output and controlling terminal are a pseudo-terminal."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        *,
        width: int = 120,
        height: int = 40,
    ) -> None:
        self.said = ""
        """All that was printed, without colours."""
        self._seen = 0
        self._ended = False
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:  # the program's own process
            try:
                os.chdir(folder)
                os.execve(command[0], list(command), dict(environment))  # noqa: S606
            finally:
                os._exit(127)
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)

    def wait_for(self, words: str) -> str:
        """Read until it says something that it had not said when it was last waited for; what it
        said until then."""
        deadline = time.monotonic() + _SECONDS
        while (at := self.said.find(words, self._seen)) < 0:
            assert time.monotonic() < deadline, self.said
            assert self._read(), f"it ended without {words!r}:\n{self.said}"
        found = self.said[self._seen : at + len(words)]
        self._seen = at + len(words)
        return found

    def answer(self, words: str = "") -> None:
        """Type a line."""
        os.write(self._terminal, f"{words}\n".encode())

    def interrupt(self) -> int:
        """Press Ctrl-C, as often as it takes: a key that comes just before the program waits for
        one is not seen by it. Its exit code."""
        for _ in range(20):
            with contextlib.suppress(OSError):  # it ended
                os.write(self._terminal, b"\x03")
            until = time.monotonic() + 3.0
            while not self._ended and time.monotonic() < until:
                self._read(0.2)
            if self._ended:
                break
        return self.end()

    def end(self) -> int:
        """Wait until it ends; its exit code. One that waits for more is killed."""
        while self._read():
            pass
        if not self._ended:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float = _SECONDS) -> bool:
        """Read what is there, or wait for it; false where nothing came, or it ended."""
        ready, _, _ = select.select([self._terminal], [], [], seconds)
        try:
            piece = os.read(self._terminal, 1 << 16) if ready else b""
        except OSError:  # its end was closed
            self._ended = True
            return False
        self._ended = bool(ready) and not piece
        self.said += _ANSI.sub("", piece.decode(errors="replace").replace("\r\n", "\n"))
        return bool(piece)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._terminal)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
