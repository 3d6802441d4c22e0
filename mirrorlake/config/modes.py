"""Modes: how a table's rows come, and what follows from it. Loads, folds and proofs ask a mode for
these facts, never for its name.

A new mode is an entry here, with a new way for its rows to come if there is none: what does not
know that way refuses it, and never takes it for a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from mirrorlake.errors import ConfigError

Mode: TypeAlias = Literal["append", "incremental", "full", "binlog", "snapshot"]
Reads: TypeAlias = Literal["windows", "copies", "log", "landing"]
"""What a load reads: a range of a cursor; the whole table from its server, so that the newest copy
alone says what there is, and a past day can't be read again; after one such copy, what its server's
binary log says of the table; files in a landing, and no server."""


@dataclass(frozen=True)
class LoadMode:
    """What a mode means.

    Attributes:
        rereads: whether a row is read again when it changed: windows follow the times of changes,
            keys are compared as the server compares them, and a key is required.
    """

    reads: Reads
    rereads: bool = False

    @property
    def landed(self) -> bool:
        """Whether rows come as files in a landing."""
        return self.reads == "landing"

    @property
    def copies(self) -> bool:
        """Whether each load reads the whole table."""
        return self.reads == "copies"

    @property
    def by_log(self) -> bool:
        """Whether loads read the server's binary log, after a first copy."""
        return self.reads == "log"

    @property
    def by_windows(self) -> bool:
        """Whether a load reads a range of a cursor."""
        return self.reads == "windows"

    def next_load(self, name: str, *, loaded: bool) -> str:
        """The kind of window that the next load of a table reads.

        Args:
            name: the table's.
            loaded: whether there is a load that it continues.

        Raises:
            ConfigError: no load reads such a table from its server.
        """
        if self.copies:
            return "full"
        if self.by_windows:
            return "live" if loaded else "initial"
        if self.by_log:
            return "log" if loaded else "initial"
        raise ConfigError(
            f"table {name}: no load reads rows that come by {self.reads}",
            table=name,
            next_step="Choose another `mode`",
        )


MODES: Mapping[Mode, LoadMode] = {
    "append": LoadMode("windows"),
    "incremental": LoadMode("windows", rereads=True),
    "full": LoadMode("copies"),
    "binlog": LoadMode("log"),
    "snapshot": LoadMode("landing"),
}
COPYING: frozenset[str] = frozenset(name for name, mode in MODES.items() if mode.copies)
"""The modes that copy: for a mode's name that an older, or a newer, release wrote down."""
