"""What a check found: verdicts per range, differences, and by what they can be doubted."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Literal

import mirrorlake
from mirrorlake.errors import ConfigError
from mirrorlake.proof.coverage.days import Days
from mirrorlake.proof.forms.differences import Difference, Differing
from mirrorlake.proof.forms.hashing import ALGORITHM
from mirrorlake.proof.ranges.named_ranges import Named
from mirrorlake.proof.ranges.ranges import EVERYWHERE, Range, RangeProof, Span, Tally, Verdict


@dataclass(frozen=True)
class Ask:
    """What is to be checked: ``full``, ``next`` (the next chunk), or the rows of a ``partition``
    (a day), of ``keys``, or that a condition (``where``) chooses. Keys that a person
    ``named`` become ``keys`` when the table is known."""

    kind: Literal["full", "next", "partition", "keys", "where"] = "full"
    day: date | None = None
    keys: Range | Span = EVERYWHERE
    where: str = ""
    named: Named | None = None

    def __post_init__(self) -> None:
        """What is requested wrongly must not become a check of all rows.

        Raises:
            ConfigError: there is no such kind, or it lacks its day or its condition.
        """
        if self.kind not in ("full", "next", "partition", "keys", "where"):
            raise ConfigError(
                f"there is no check of {self.kind!r}",
                next_step="Ask for full, next, partition, keys or where",
            )
        if self.kind == "partition" and not isinstance(self.day, date):
            raise ConfigError(
                f"a check of a partition needs its day, not {self.day!r}",
                next_step="Give a datetime.date: Ask('partition', day=date(2026, 1, 31))",
            )
        if self.kind == "where" and not self.where.strip():
            raise ConfigError(
                "a check of chosen rows needs a condition",
                next_step="Give one: Ask('where', where=\"country = 'DE'\")",
            )

    def __str__(self) -> str:
        detail = {"partition": self.day, "keys": self.keys, "where": self.where}.get(self.kind)
        return self.kind if detail is None else f"{self.kind} {detail}"


@dataclass(frozen=True)
class Report:
    """One check of one table.

    Attributes:
        ask, scope: what was requested, and which rows of it were old enough.
        verdict: different as soon as one difference is confirmed; undecided where candidates are
            left that are none yet.
        ranges: in the order of their keys.
        waiting: rows that MySQL wrote too late: the lake need not have them yet.
        beside: rows beside the cursor's bounds that were looked up by their keys and are equal; not
            among those of ``ranges``.
        differences: confirmed ones, at most as many as were requested; they hold values.
        keys: of these; they hold values too. None without a key.
        unlooked: further rows, or groups of rows, that differ and were not looked at.
        ignored: rows that MySQL deleted, where the contract says that this is no difference.
        undecided: reasons, and how many rows. Rows that were not compared are among them.
        server, position, source_time: of MySQL just before the first read (UTC).
        snapshot: of deduped; ``through``: the sequence number of the newest load in it.
        days: those of which every row in the ranges was old enough to be compared; None where that
            is not known.
        differing_days: how many of ``keys`` have a row of a day, on either side; empty where no
            cursor gives it.
        seconds, bytes: how long it took, and what MySQL sent for it.
        statements: by their name, the SQL of both sides.
        not_mirrored: columns that MySQL has and the mirror, by its contract, does not: they are
            not compared.
    """

    table: str
    ask: Ask
    scope: str
    verdict: Verdict
    ranges: tuple[RangeProof, ...]
    waiting: int
    differences: tuple[Difference, ...]
    keys: tuple[Differing, ...]
    unlooked: int
    ignored: int
    undecided: Mapping[str, int]
    server: str
    position: str
    source_time: datetime
    snapshot: int | None
    through: int
    started: datetime
    seconds: float
    bytes: int
    statements: Mapping[str, str]
    days: Days | None = None
    differing_days: Mapping[date, int] = field(default_factory=dict[date, int])
    beside: int = 0
    not_mirrored: tuple[str, ...] = ()
    code: str = field(default_factory=lambda: code_version())

    @property
    def open_rows(self) -> int:
        """Rows that differ; of an undecided check, those that can't be decided."""
        left = sum(self.undecided.values()) if self.verdict == "undecided" else 0
        return len(self.differences) + self.unlooked + left

    @property
    def only_deleted(self) -> bool:
        """Whether all that differs are rows that MySQL has no more."""
        gone = sum(key.gone for key in self.keys)
        return self.verdict == "different" and not self.unlooked and gone == len(self.differences)

    @property
    def source(self) -> Tally:
        return sum((r.source for r in self.ranges), Tally(0, 0))

    @property
    def lake(self) -> Tally:
        return sum((r.lake for r in self.ranges), Tally(0, 0))


@functools.cache
def code_version() -> str:
    """Mirrorlake's version, and a hash of the code that compares."""
    digest = hashlib.sha256()
    package = Path(mirrorlake.__file__).parent / "proof"
    for path in sorted(package.rglob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return f"{mirrorlake.__version__}+{digest.hexdigest()[:12]}"


def digest_text(tally: Tally) -> str:
    """A digest as it is written down: the hash that it is made of, and its sum.

    >>> digest_text(Tally(1, 255))
    'sha256:0000000000000000000000ff'
    """
    return f"{ALGORITHM}:{tally.digest:024x}"
