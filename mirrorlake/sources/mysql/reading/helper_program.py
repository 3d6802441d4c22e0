"""The program that makes the processes of `helper_processes`: each is a copy of it.

It imports what they need once; a copy starts in no time. Only the standard library and PyMySQL: its
start is waited for.
"""

from __future__ import annotations

import os
import signal
import socket
from typing import NoReturn

from mirrorlake.sources.mysql.reading import lock_watcher, proxy
from mirrorlake.sources.mysql.reading.helper_processes import CARRIER, WATCHER

_KINDS = {CARRIER: proxy.carry, WATCHER: lock_watcher.watch}


def main(control: socket.socket) -> None:
    """Make a helper for each pair of ends that is sent (its input, its output), of the kind that is
    sent with it, until the other side of the control closes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a person's Ctrl-C is for our parent
    while True:
        kind, ends, _, _ = socket.recv_fds(control, 1, 2)
        if not kind:
            return
        if os.fork() == 0:
            control.close()
            _help(kind, *ends)
        for end in ends:
            os.close(end)


def _help(kind: bytes, told: int, tell: int) -> NoReturn:
    """Do the work of that kind until the input closes, or the work is done."""
    try:
        with open(told, encoding="utf-8") as lines:
            _KINDS[kind](lines, tell)
    finally:
        os._exit(0)
