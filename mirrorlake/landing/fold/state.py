"""Which snapshots a published version contains, recorded for that version alone.

The newest snapshot of the lake's table names (`STATE`) a small file beside the table: which
snapshots were folded, and which versions of the two side tables belong to it. Both are written
before the version that names them is published, and never changed. So a fold that died, a version
that was rolled back to and a commit that somebody else made can be distinguished: only what the
head itself names is believed. A head that only rewrote files holds the rows of the one before it.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from typing import Any

from mirrorlake.destinations.iceberg.model import (
    LakeSnapshot,
    LakeTable,
    Storage,
    history,
    is_rewrite,
    snapshot_property,
)
from mirrorlake.errors import LakeError
from mirrorlake.landing.fold.shape import SnapshotTable

STATE = "mirrorlake.fold-state"
"""On the newest snapshot of every published version: where its state stands."""
NUMBER = "mirrorlake.snapshot"
"""Beside it: the newest snapshot of the source that the version holds."""
_HASHES = ("hashes", "2")
"""Of another number when a row's hashes are made in another way: digests that were kept before are
not compared with new ones then."""
MOST = 4_000
"""Snapshots that are remembered; an older one that comes late is refused."""


@dataclass(frozen=True)
class Totals:
    """How many rows there are, and four sums over the halves of their two hashes.

    Two sets of rows are taken for equal if all five are: some 128 bits, of which no input that was
    not made for it has two alike.
    """

    n: int = 0
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = 0


@dataclass(frozen=True)
class FoldedSnapshot:
    """One snapshot that was folded.

    Attributes:
        id: its number.
        day: the day (UTC) that its retention window is counted from.
        totals: of its rows inside that window.
        before: where its fold dropped days, the Iceberg snapshot right before; else None.
        floor: the first day that was kept then.
        missing: the version of the side table of missing keys right before, or None.
        order: how many snapshots were folded before it.
        columns: a hash of the names and types that the totals were made over.
    """

    id: int
    day: date | None
    totals: Totals
    order: int = 0
    columns: str = ""
    before: int | None = None
    floor: date | None = None
    missing: int | None = None


@dataclass(frozen=True)
class State:
    """What one version of a table holds.

    Attributes:
        taken: the snapshots that were folded, by number.
        slots: into how many parts keys are hashed (of each day, if the key holds the day).
        columns: the names and types that digests were made over.
        cells, missing: the versions of the side tables; None where there is none yet.
        floor: the first day that the newest snapshot's window keeps.
        additions: how many snapshots the kept digests are the sum of.
        trusted: whether the version is still as the fold left it.
    """

    taken: tuple[FoldedSnapshot, ...] = ()
    slots: int = 16
    columns: tuple[tuple[str, str], ...] = ()
    cells: int | None = None
    missing: int | None = None
    floor: date | None = None
    additions: int = 0
    trusted: bool = field(default=True, compare=False)

    @property
    def newest(self) -> FoldedSnapshot | None:
        return self.taken[-1] if self.taken else None

    def find(self, number: int) -> FoldedSnapshot | None:
        return next((one for one in self.taken if one.id == number), None)

    def after(self, number: int) -> int | None:
        """The next snapshot's number, None if it is the newest."""
        return next((one.id for one in self.taken if one.id > number), None)

    def with_taken(self, one: FoldedSnapshot) -> State:
        listed = sorted((*self.taken, one), key=lambda t: t.id)
        return replace(self, taken=tuple(listed[-MOST:]))


def read_state(table: LakeTable) -> State:
    """The state of the version that main shows; an empty one where nothing was folded yet.

    Where others have committed since, what they changed is not known: the state is not trusted.

    Raises:
        LakeError: the file that the version names can't be read.
    """
    trusted = True
    for snapshot in history(table):
        path = snapshot_property(snapshot, STATE)
        if path is not None:
            return replace(_read(table, path), trusted=trusted)
        trusted = trusted and is_rewrite(snapshot)
    return State(trusted=table.current_snapshot() is None)


def version_state(table: LakeTable, snapshot: LakeSnapshot) -> State | None:
    """The state that one snapshot of a table names itself, or None."""
    path = snapshot_property(snapshot, STATE)
    return None if path is None else _read(table, path)


def write_state(table: LakeTable, state: State) -> str:
    """Keep a state beside the table; where."""
    path = f"{table.location()}/fold/{uuid.uuid4().hex}.json"
    with table.io.new_output(path).create() as stream:
        stream.write(json.dumps(asdict(state), default=str).encode())
    return path


def state_folder(table: LakeTable) -> str:
    return f"{table.location()}/fold"


def _read(table: LakeTable, path: str) -> State:
    try:
        return _parse(_content(table.io, path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LakeError(
            f"lake table {'.'.join(table.name())}: what it knows of its snapshots can't be read "
            f"({path}): {error}",
            table=".".join(table.name()),
            next_step="Bring the file back, or roll back to an earlier version: mirrorlake publish",
        ) from error


def _content(io: Storage, path: str) -> bytes:
    with io.new_input(path).open() as stream:
        return stream.read()


def _parse(text: bytes) -> State:
    found: dict[str, Any] = json.loads(text)
    return State(
        taken=tuple(_taken(one) for one in found["taken"]),
        slots=found["slots"],
        columns=tuple((n, t) for n, t in found["columns"]),
        cells=found["cells"],
        missing=found["missing"],
        floor=_day(found["floor"]),
        additions=found["additions"],
    )


def _taken(found: dict[str, Any]) -> FoldedSnapshot:
    return FoldedSnapshot(
        id=found["id"],
        day=_day(found["day"]),
        totals=Totals(**found["totals"]),
        order=found["order"],
        columns=found["columns"],
        before=found["before"],
        floor=_day(found["floor"]),
        missing=found["missing"],
    )


def _day(text: str | None) -> date | None:
    return None if text is None else date.fromisoformat(text)


def columns_of(table: SnapshotTable) -> tuple[tuple[str, str], ...]:
    """What digests depend on: the compared columns in order, the key, and how they are made."""
    return (*table.compared, *((f"key:{name}", "") for name in table.key), _HASHES)


def columns_hash(table: SnapshotTable) -> str:
    """`columns_of`, short."""
    return hashlib.sha256(repr(columns_of(table)).encode()).hexdigest()[:16]


def slots_for(rows: int, days: int) -> int:
    """Into how many parts keys are hashed, so that a cell has some 64 rows.

    >>> slots_for(20_000_000, 13), slots_for(10, 1)
    (32768, 16)
    """
    wanted = max(16, rows // (64 * max(1, days)))
    return min(2**22, 1 << (wanted - 1).bit_length())


def names_of(states: Sequence[State]) -> tuple[set[int], set[int]]:
    """The versions of the side tables of cells and of missing keys that these states name."""
    cells = {s.cells for s in states if s.cells is not None}
    missing = {s.missing for s in states if s.missing is not None}
    missing |= {t.missing for s in states for t in s.taken if t.missing is not None}
    return cells, missing
