"""What a comparison of clean with deduped found, and how it is put into words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirrorlake.proof.forms.differences import DifferenceKind, Formatter, Value
from mirrorlake.proof.ranges.ranges import Tally, Verdict


@dataclass(frozen=True)
class CleanDifference:
    """One row that clean lacks, has too often, or shows otherwise; ``columns`` are those that are
    not as the rules make them. The key may hold values that a formatter hides."""

    kind: DifferenceKind
    key: tuple[Value, ...]
    columns: tuple[str, ...] = ()

    def line(self, formatter: Formatter) -> str:
        """What differs, in one line; no cell's value but the key's."""
        key = ", ".join(f"{value.column}={formatter.value(value)}" for value in self.key)
        where = f" ({key})" if key else ""
        if self.kind == "missing":
            return f"missing in clean{where}: deduped has this row"
        if self.kind == "extra":
            return f"extra in clean{where}: deduped has no such row, or not so often"
        names = ", ".join(f"`{name}`" for name in self.columns)
        return f"changed in clean{where}: {names} not as the rules make deduped's row"


@dataclass(frozen=True)
class CleanLook:
    """What a comparison of clean with deduped found.

    Attributes:
        words: columns that are not as they should be, or why nothing can be decided.
        expected: rows and digest of deduped as clean must show them; ``found``: of clean.
        missing, extra: rows that differ on either side; a changed row is on both.
        differences: the first of them.
        snapshots: the heads that were compared, by table; ``through``: deduped's newest load.
    """

    verdict: Verdict
    words: tuple[str, ...]
    expected: Tally
    found: Tally
    missing: int
    extra: int
    differences: tuple[CleanDifference, ...]
    snapshots: Mapping[str, int | None]
    through: int
