"""What a read of ours blocks: a DDL that waits for its table, and InnoDB's purge.

A long SELECT holds its table's metadata lock: an ALTER TABLE waits for it, and every statement of
the application waits behind the ALTER. It holds old row versions too: InnoDB can't remove them, and
the history list grows. So each load is watched over by one connection of a process of its own
(`watcher`): a thread would stand still, for the reader holds the interpreter's lock while it waits
for a row. The watcher ends the read by KILL; here the load learns why.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Self

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import ReadGivenUp
from mirrorlake.sources.mysql.reading import lock_watcher
from mirrorlake.sources.mysql.reading.route import login_of
from mirrorlake.sources.mysql.sessions.connect import session_statements

_PATIENCE_SECONDS = 1
"""How long a read may last before anybody looks whether it is in the way."""


class Guard:
    """Watches over the reads of one load while the block runs; `heed` raises once they were ended.

    The watcher costs nothing before `_PATIENCE_SECONDS` have passed: until then a shell sleeps.
    """

    def __init__(self, source: SourceConfig, database: str, table: str, load_id: str) -> None:
        self._source, self._database, self._table = source, database, table
        self._load_id = load_id
        self._child: subprocess.Popen[bytes] | None = None
        self._said = b""

    def __enter__(self) -> Self:
        wait = f'sleep {_PATIENCE_SECONDS}; exec "$0" "$@"'
        self._child = subprocess.Popen(
            ["/bin/sh", "-c", wait, sys.executable, "-P", lock_watcher.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._child.stdin is not None  # noqa: S101 (it has pipes)
        assert self._child.stdout is not None  # noqa: S101
        settings = {
            **login_of(self._source),
            "first": session_statements(self._source),
            "database": self._database,
            "table": self._table,
            "mark": mark(self._load_id),
            "history_list": self._source.back_off.history_list,
            "patience": _PATIENCE_SECONDS,
        }
        self._child.stdin.write(json.dumps(settings).encode() + b"\n")
        os.set_blocking(self._child.stdout.fileno(), False)
        return self

    def __exit__(self, *_: object) -> None:
        child = self._child
        if child is not None:
            child.kill()
            # Not `communicate`: the shell's sleep may hold the other ends a moment longer.
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()

    def heed(self) -> None:
        """Raise if the load's reads were ended.

        Raises:
            ReadGivenUp: with the reason.
        """
        if self._child is None or self._child.stdout is None:
            return
        try:
            self._said += os.read(self._child.stdout.fileno(), 65_536)
        except BlockingIOError:
            return
        if b"\n" not in self._said:
            return  # nothing, or a watcher that had to give up: the read continues
        reason = json.loads(self._said.partition(b"\n")[0])
        name = f"{self._source.name}.{self._database}.{self._table}"
        raise ReadGivenUp(
            f"table {name}: the read was given up: {reason}",
            source=self._source.name,
            table=name,
            next_step="Nothing of this load is visible: it is tried again by itself, and by the "
            "next sync",
            retryable=True,
        )


def mark(load_id: str) -> str:
    """What a load's statements carry, so that they are known among the server's."""
    return f"mirrorlake load {load_id}"
