"""Modes: how a table's rows come, and what follows from it. Loads, folds and proofs ask for these
facts, never for a mode's name.

A new mode is an entry here; what it alone does goes into the package that does it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["append", "incremental", "full", "snapshot"]


@dataclass(frozen=True)
class LoadMode:
    """What a mode means.

    Attributes:
        landed: whether rows come as files in a landing, and no server is queried.
        copies: whether each load reads the whole table from its server: the newest copy alone says
            what there is, and a past day can't be read again.
        rereads: whether a row is read again when it changed: windows follow the times of changes,
            keys are compared as the server compares them, and a key is required.
    """

    landed: bool = False
    copies: bool = False
    rereads: bool = False

    @property
    def by_windows(self) -> bool:
        """Whether a load reads a range of a cursor."""
        return not (self.landed or self.copies)


MODES: Mapping[Mode, LoadMode] = {
    "append": LoadMode(),
    "incremental": LoadMode(rereads=True),
    "full": LoadMode(copies=True),
    "snapshot": LoadMode(landed=True),
}
COPYING: frozenset[str] = frozenset(name for name, mode in MODES.items() if mode.copies)
"""The modes that copy: for a mode's name that an older, or a newer, release wrote down."""
