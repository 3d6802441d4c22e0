"""What a fold did, and what a set of changes holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from mirrorlake.landing.fold.changes import COPIES, KIND, SINCE, WAS
from mirrorlake.landing.fold.shape import SnapshotTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Folded:
    """What one fold did.

    Attributes:
        snapshot_id: the snapshot's number.
        version: the lake table's snapshot that readers see since; None if it is empty.
        published: whether there is a new version; not where the snapshot had been folded before.
        strategy: ``first``, ``diff``, ``merge`` or ``rewrite``; ``same`` where no row changed.
        late: whether a newer one had been folded before.
        rows: of the snapshot, inside its window.
        added, changed: rows.
        removed: rows that went, those among them that left with their day.
        left: rows that left because their day lies before the window.
        missing, back: keys that became missing, and that are back.
        duplicates: keys that the snapshot held more than once.
        dropped_before: the first day that the window keeps, where days were to be dropped.
    """

    table: str
    snapshot_id: int
    version: int | None
    published: bool
    strategy: str
    late: bool
    rows: int
    added: int = 0
    changed: int = 0
    removed: int = 0
    left: int = 0
    missing: int = 0
    back: int = 0
    duplicates: int = 0
    dropped_before: date | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class ChangeCounts:
    """What a set of changes holds: rows by kind, keys by what becomes of their being missing."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    missing: int = 0
    back: int = 0
    moved: int = 0
    several: int = 0
    without: int = 0
    left: int = 0

    @property
    def rows(self) -> int:
        return self.added + self.changed + self.removed

    def to_fields(self) -> dict[str, int]:
        return {
            "added": self.added, "changed": self.changed, "removed": self.removed + self.left,
            "left": self.left, "missing": self.missing, "back": self.back,
            "duplicates": self.several,
        }  # fmt: skip


def count_changes(changes: DataFrame, table: SnapshotTable) -> ChangeCounts:
    null = " OR ".join(f"{name} IS NULL" for name in table.key_sql)
    found: Any = changes.selectExpr(
        *(f"count_if({KIND} = '{kind}') AS {kind}" for kind in ("added", "changed", "removed")),
        f"count_if({WAS} IS NULL AND {SINCE} IS NOT NULL) AS missing",
        f"count_if({WAS} IS NOT NULL AND {SINCE} IS NULL) AS back",
        f"count_if(NOT ({WAS} <=> {SINCE})) AS moved",
        f"count_if({COPIES} = 2) AS several",
        f"count_if({null}) AS without",
    ).first()
    return ChangeCounts(**found.asDict())
