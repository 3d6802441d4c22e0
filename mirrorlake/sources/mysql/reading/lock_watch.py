"""What a read of ours blocks: a DDL that waits for its table, and InnoDB's purge.

A long SELECT holds its table's metadata lock: an ALTER TABLE waits for it, and every statement of
the application waits behind the ALTER. It holds old row versions too: InnoDB can't remove them, and
the history list grows. So each load is watched over by one connection of a process of its own
(`lock_watcher`): a thread would stand still, for the reader holds the interpreter's lock while it
waits for a row. The watcher ends the read by KILL; here the load learns why.
"""

from __future__ import annotations

import json
from typing import Self

from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import ReadGivenUp
from mirrorlake.sources.mysql.reading.helper_processes import HelperProcess, new_watcher
from mirrorlake.sources.mysql.reading.route import login_of
from mirrorlake.sources.mysql.sessions.connect import session_statements

_PATIENCE_SECONDS = 1
"""How long a read may last before anybody looks whether it is in the way."""


class Guard:
    """Watches over the reads of one load while the block runs; `heed` raises once they were ended.

    The watcher has no session before `_PATIENCE_SECONDS` have passed.
    """

    def __init__(self, source: SourceConfig, database: str, table: str, load_id: str) -> None:
        self._source, self._database, self._table = source, database, table
        self._load_id = load_id
        self._watcher: HelperProcess | None = None
        self._reason: str | None = None

    def __enter__(self) -> Self:
        self._watcher = new_watcher()
        settings = {
            **login_of(self._source),
            "first": session_statements(self._source),
            "database": self._database,
            "table": self._table,
            "mark": mark(self._load_id),
            "history_list": self._source.back_off.history_list,
            "patience": _PATIENCE_SECONDS,
        }
        self._watcher.tell(settings)
        return self

    def __exit__(self, *_: object) -> None:
        if self._watcher is not None:
            self._watcher.end()
            self._watcher = None

    def heed(self) -> None:
        """Raise if the load's reads were ended.

        Raises:
            ReadGivenUp: with the reason.
        """
        self._listen()
        if self._reason is None:
            return
        name = f"{self._source.name}.{self._database}.{self._table}"
        raise ReadGivenUp(
            f"table {name}: the read was given up: {self._reason}",
            source=self._source.name,
            table=name,
            next_step="Nothing of this load is visible: it is tried again by itself, and by the "
            "next sync",
            retryable=True,
        )

    def _listen(self) -> None:
        watcher = self._watcher
        if watcher is not None and watcher.has_said():
            # Nothing at its end: a watcher that had to give up, and the read continues.
            for said in watcher.lines() or ():
                self._reason = json.loads(said)


def mark(load_id: str) -> str:
    """What a load's statements carry, so that they are known among the server's."""
    return f"mirrorlake load {load_id}"
