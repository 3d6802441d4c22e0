"""Rows of landed files that nobody has a contract for: which columns are unique, and samples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from mirrorlake.errors import ConfigError
from mirrorlake.init.pii import split_words
from mirrorlake.landing.files.frame import read_batches
from mirrorlake.landing.files.records import LandedFile, Reading
from mirrorlake.landing.files.snapshots import Landed
from mirrorlake.sources.files.layout import TableFolder

SAMPLED: Final = 5_000
_PAIRED: Final = 8
"""How many columns are tried as pairs where none is unique by itself."""


def files_of(landed: Landed) -> list[LandedFile]:
    """A snapshot's files, as they are read."""
    return [LandedFile(c.path, c.entry.bytes, c.entry.version) for c in landed.chunks]


@dataclass
class SampledRows:
    """Rows that are looked at: which columns are unique in each snapshot, and samples of all.

    Attributes:
        tried: columns that may be a key; ``unique``: those that are, so far.
        rows, snapshots: how many were looked at; ``most``: of one snapshot.
        full: whether there are more.
    """

    tried: list[str]
    limit: int
    rows: int = 0
    snapshots: int = 0
    most: int = 0
    full: bool = False
    samples: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __post_init__(self) -> None:
        self.unique = list(self.tried)

    def take(self, reading: Reading, files: Sequence[LandedFile]) -> bool:
        """Look at one snapshot; whether another one may follow.

        Raises:
            LandingError: a file can't be read, or holds a record that its schema does not let be.
        """
        seen: dict[str, set[int]] = {name: set() for name in self.unique}
        before = self.rows
        for batch in (batch for file in files for batch in read_batches(reading, file)):
            if self.rows >= self.limit:
                self.full = True
                break
            self.rows += batch.num_rows
            self._see(batch, seen)
        self.snapshots += self.rows > before or not self.full
        self.most = max(self.most, self.rows - before)
        return not self.full

    def _see(self, batch: Any, seen: dict[str, set[int]]) -> None:
        for name in batch.schema.names:
            if name in seen or len(self.samples.get(name, ())) < SAMPLED:
                values = batch.column(name).to_pylist()
                if name in seen and not _adds(seen[name], values):
                    self.unique.remove(name)
                    del seen[name]
                texts = self.samples.setdefault(name, [])
                left = SAMPLED - len(texts)
                texts += [_text(v) for v in values if v is not None][: max(left, 0)]


def _adds(seen: set[int], values: Sequence[Any]) -> bool:
    """Add values; whether none was there and none is NULL. Two hashes that differ are of two
    values; of equal ones nothing is claimed."""
    if any(value is None for value in values):
        return False
    before = len(seen)
    seen.update(map(hash, values))
    return len(seen) == before + len(values)


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def find_pair(
    reading: Reading, files: Sequence[LandedFile], names: Sequence[str], limit: int
) -> tuple[str, ...]:
    """Two columns that are unique together in a snapshot; none where no two are."""
    first = sorted(names, key=lambda name: (not _is_id(name), names.index(name)))[:_PAIRED]
    pairs = sorted(combinations(first, 2), key=lambda p: sum(map(names.index, p)))
    seen: dict[tuple[str, str], set[int]] = {pair: set() for pair in pairs}
    rows = 0
    for batch in (batch for file in files for batch in read_batches(reading, file)):
        columns = {name: batch.column(name).to_pylist() for name in first}
        for pair in list(seen):
            values = list(zip(*(columns[name] for name in pair), strict=True))
            holes = any(None in value for value in values)
            if holes or not _adds(seen[pair], values):
                del seen[pair]
        rows += batch.num_rows
        if rows >= limit or not seen:
            break
    return next(iter(seen), ()) if rows > 1 else ()


def check_key(
    folder: TableFolder, reading: Reading, newest: Landed, key: Sequence[str], tried: Sequence[str]
) -> None:
    """See that columns which somebody names are a key of the newest snapshot.

    Raises:
        ConfigError: they are not.
    """
    option = f"--key {folder.database}.{folder.table}={','.join(key)}"
    wrong = [name for name in key if name not in tried]
    if wrong:
        raise ConfigError(
            f"{option}: {wrong[0]!r} is no column that can be a key",
            next_step=f"These can: {', '.join(tried) or 'none'}",
        )
    seen: set[int] = set()
    for batch in (batch for file in files_of(newest) for batch in read_batches(reading, file)):
        columns = (batch.column(name).to_pylist() for name in key)
        values = [None if None in row else row for row in zip(*columns, strict=True)]
        if not _adds(seen, values):
            raise ConfigError(
                f"{option}: this is not unique, or NULL, in snapshot {newest.id:014d}",
                next_step="Name other columns; or write the contract by hand with `duplicates: "
                "resolved`",
            )


def by_name(folder: TableFolder, names: Sequence[str]) -> list[str]:
    """Unique columns, those first whose names say that they are keys."""
    table = "_".join(split_words(folder.table))

    def rank(name: str) -> int:
        words = "_".join(split_words(name))
        if words in ("id", f"{table}_id", f"{table.removesuffix('s')}_id"):
            return 0
        return 1 if _is_id(name) else 2

    return sorted(names, key=rank)


def _is_id(name: str) -> bool:
    words = "_".join(split_words(name))
    return re.fullmatch(r"(?:.*_)?(?:id|uuid|key|number|no|nr|code)|id_.*", words) is not None
