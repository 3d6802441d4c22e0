"""What the process that a carrier works for would say by now, were it not waiting for a row.

Its reader holds the interpreter's lock while it waits, so none of its own threads renews the lease
of the table that it loads (`mirrorlake.runtime.heartbeats`). The carrier sees the wait, and has it
renewed: each time by a program that is started for it, since only a long silence needs one. Not for
a process that is stopped: others may take over what that one holds.

What belongs here: when, and that it is called. What doesn't: what it does. Only the standard
library.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

_CALL = (
    "import importlib, json, sys; told = json.load(sys.stdin); sys.path[:] = told['places']; "
    "getattr(importlib.import_module(told['module']), told['function'])(**told['given'])"
)
_CALL_SECONDS = 60
_STOPPED = ("T", "t", "Z", "X")


class SignsOfLife:
    """Those of one carrier.

    Args:
        beats: what is called, as `Heartbeat.to_plain` gives it.
        seconds: after how long without a byte, and how often then.
        pid: the process that it is called for.
    """

    def __init__(self, beats: list[dict[str, Any]], seconds: float, pid: int) -> None:
        self._beats, self._seconds, self._pid = beats, seconds, pid
        self._since: dict[int, float] = {}
        if beats:
            threading.Thread(target=self._beat, daemon=True).start()

    def waits(self, session: object) -> None:
        """A session waits for its server, from now on or already."""
        self._since.setdefault(id(session), time.monotonic())

    def hears(self, session: object) -> None:
        """It waits no more."""
        self._since.pop(id(session), None)

    def _beat(self) -> None:
        while True:
            time.sleep(self._seconds)
            longest = min([*self._since.values()], default=None)
            if longest is None or time.monotonic() - longest < self._seconds:
                continue
            if not _is_stopped(self._pid):
                for beat in self._beats:
                    _call(beat)


def _call(beat: dict[str, Any]) -> None:
    """What fails is tried again with the next one; in the end the lease is checked by its owner."""
    told = json.dumps({**beat, "places": sys.path}).encode()
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [sys.executable, "-P", "-c", _CALL],
            input=told,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_CALL_SECONDS,
            check=False,
        )


def _is_stopped(pid: int) -> bool:
    """Whether a process stands still, or has ended; where nobody can tell, it does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in _STOPPED
    except FileNotFoundError:
        return Path("/proc/self/stat").exists()
    except (OSError, IndexError):
        return False
