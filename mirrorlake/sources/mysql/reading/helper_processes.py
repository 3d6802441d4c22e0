"""Processes that help a read, made in no time: carriers of its bytes (`proxy`), and watchers over
what it blocks (`lock_watcher`).

To start Python and PyMySQL takes 0.1 to 0.2 s, which a small table's read would pay each time. So
the first read starts one program that has both (`helper_program`), and each read after it gets
copies. It ends with this process: its control closes.
"""

from __future__ import annotations

import atexit
import io
import json
import os
import select
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

# Not of `helper_program`: to import what that needs takes as long as this process has until then.
CARRIER, WATCHER = b"c", b"w"
_START = (
    "import json, socket, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from mirrorlake.sources.mysql.reading import helper_program; "
    "helper_program.main(socket.socket(fileno=int(sys.argv[1])))"
)


class HelperProcess:
    """One of them, by its two pipes: one for orders to it, one for its reports."""

    def __init__(self, told: int, says: int) -> None:
        self._told = io.FileIO(told, "wb")
        self._says = says
        self._unread = b""

    def tell(self, line: object) -> bool:
        """Send it a line; whether it is still there."""
        try:
            self._told.write(f"{json.dumps(line)}\n".encode())
        except OSError:
            return False
        return True

    def has_said(self, seconds: float = 0) -> bool:
        """Whether it says something, or ends, within some time."""
        return bool(select.select([self._says], [], [], seconds)[0])

    def lines(self) -> list[bytes] | None:
        """The lines that it has said since, waiting for some; None once it has ended."""
        said = os.read(self._says, 65_536)
        if not said:
            return None
        *lines, self._unread = (self._unread + said).split(b"\n")
        return lines

    def end(self) -> None:
        """End it, whatever it does."""
        self._told.close()
        os.close(self._says)


class _Maker:
    """The program that makes helpers for this process, started by the first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._program: subprocess.Popen[bytes] | None = None

    def make(self, kind: bytes) -> HelperProcess:
        """A new one of a kind."""
        their_input, told = os.pipe()
        says, their_output = os.pipe()
        try:
            self._send(kind, their_input, their_output)
        except BaseException:
            os.close(told)
            os.close(says)
            raise
        finally:
            os.close(their_input)
            os.close(their_output)
        return HelperProcess(told, says)

    def start(self) -> None:
        """Start the program, if it is not there. Where that can't be, the first read says so."""
        with self._lock, suppress(OSError):
            if self._control is None:
                self._started()

    def _send(self, kind: bytes, *ends: int) -> None:
        with self._lock:
            control = self._control or self._started()
            try:
                socket.send_fds(control, [kind], ends)
            except OSError:
                # Somebody ended it.
                self.end()
                socket.send_fds(self._started(), [kind], ends)

    def _started(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        # As this process finds modules, and not beside the program: a neighbour is `types.py`.
        places = json.dumps([place or str(Path.cwd()) for place in sys.path])
        with theirs:
            self._program = subprocess.Popen(
                [sys.executable, "-P", "-c", _START, str(theirs.fileno()), places],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        self._control = ours
        return ours

    def end(self) -> None:
        """End the program; what it made lives on."""
        if self._control is not None:
            self._control.close()
        if self._program is not None:
            self._program.wait()
        self._control = self._program = None

    def forked(self) -> None:
        """This is a copy of the process that started it, and has one of its own: answers would get
        mixed up."""
        if self._control is not None:
            self._control.close()
        if self._program is not None:
            self._program.returncode = 0  # not this copy's child: nobody waits for it here
        self._lock = threading.Lock()
        self._control = self._program = None


_MAKER = _Maker()
atexit.register(_MAKER.end)
os.register_at_fork(after_in_child=_MAKER.forked)


def start_helpers() -> None:
    """Start the program that makes helpers, for who knows that there will be reads: it is ready by
    then."""
    _MAKER.start()


def new_carrier() -> HelperProcess:
    """A carrier; it waits for its settings."""
    return _MAKER.make(CARRIER)


def new_watcher() -> HelperProcess:
    """A watcher; it waits for its settings."""
    return _MAKER.make(WATCHER)


def settings_of(line: bytes) -> dict[str, Any]:
    """A line of JSON that a helper said."""
    found: dict[str, Any] = json.loads(line)
    return found
