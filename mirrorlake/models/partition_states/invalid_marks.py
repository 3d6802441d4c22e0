"""The dirty marks of models' partitions, as a run sees them.

What belongs here: which marks a partition has, and what it waits for by them. What doesn't: writing
them (`mirrorlake.operations.planning.declare`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.operations.days.invalid import InvalidRange, invalid_ranges

_INVALID = ", declared invalid"


def waiting_words(wait: str, state: str) -> str:
    """What a partition waits for, in words.

    Args:
        state: of what it waits for, if that is a partition.

    >>> waiting_words("m.daily day=2024-05-01", "missing")
    'm.daily day=2024-05-01 is not computed'
    >>> waiting_words("m.daily day=2024-05-01", "stale")
    'm.daily day=2024-05-01 is stale'
    >>> waiting_words("s.d.sales 2024-05-01, declared invalid", "")
    's.d.sales 2024-05-01, declared invalid, is not loaded and folded again'
    """
    if wait.endswith(_INVALID):
        return f"{wait}, is not loaded and folded again"
    return f"{wait} is {'stale' if state == 'stale' else 'not computed'}"


@dataclass
class PartitionMarks:
    """The marks that stand; read once, and again after `forget`."""

    ledger: Ledger
    _marks: dict[tuple[str, str], list[DirtyMark]] | None = None
    _waits: dict[str, list[str]] = field(default_factory=dict[str, "list[str]"])
    ranges: list[InvalidRange] = field(default_factory=list[InvalidRange])

    def of(self, model: str, key: str) -> Sequence[DirtyMark]:
        """The marks of a partition, oldest first.

        Raises:
            LedgerError: the ledger can't be read.
        """
        return self._read().get((model, key), ())

    def waits(self, marks: Sequence[DirtyMark]) -> tuple[str, ...]:
        """Ranges of mirrored tables that were declared invalid together with these marks, and are
        not loaded and folded again: a partition that is computed before would have to be computed
        once more."""
        self._read()
        found = (words for one in marks for words in self._waits.get(one.declaration, ()))
        return tuple(dict.fromkeys(found))

    def answered(self, model: str, keys: Iterable[str]) -> dict[str, list[str]]:
        """Partition → the ids of the marks that computing it now answers: not one that was declared
        together with days that are not loaded and folded again."""
        found = {
            key: [one.mark_id for one in self.of(model, key) if not self.waits([one])]
            for key in keys
        }
        return {key: ids for key, ids in found.items() if ids}

    def forget(self) -> None:
        """Partitions were computed: their marks are read again."""
        self._marks = None

    def _read(self) -> dict[tuple[str, str], list[DirtyMark]]:
        if self._marks is None:
            marks = self.ledger.dirty_marks()
            self._marks, self._waits = {}, {}
            for mark in marks:
                if mark.key is not None:
                    self._marks.setdefault((mark.target, mark.key), []).append(mark)
            self.ranges = invalid_ranges(self.ledger, marks)
            for one in self.ranges:
                self._waits.setdefault(one.mark.declaration, []).append(one.words + _INVALID)
        return self._marks


def mark_words(marks: Sequence[DirtyMark]) -> str:
    """Why a marked partition is stale.

    >>> mark_words([DirtyMark("1", "a", "m.daily", "a wrong rate", "ann", "day=2024-05-01")])
    'declared invalid: a wrong rate'
    """
    reason = marks[-1].reason
    return f"declared invalid: {reason}" if reason else "declared invalid"
