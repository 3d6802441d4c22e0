"""What a comparison found: differences by column and kind, and exactly what was compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from mirrorlake.other_copies.pairings.kinds import KINDS
from mirrorlake.runtime.plural import plural

CopyVerdict: TypeAlias = Literal["equal", "different", "undecided"]


@dataclass(frozen=True)
class CopyDifference:
    """One way in which rows differ.

    Attributes:
        kind: its name in `KINDS`.
        column: MySQL's, or None where it is about whole rows.
        count: rows.
        detail: what is said beside the kind: an offset, a length.
        keys: of some of these rows.
        values: MySQL's and the copy's of these rows, where they were asked for.
    """

    kind: str
    column: str | None
    count: int
    detail: str = ""
    keys: tuple[str, ...] = ()
    values: tuple[tuple[str | None, str | None], ...] = ()

    @property
    def lossless(self) -> bool:
        return KINDS[self.kind].lossless

    @property
    def words(self) -> str:
        """What is said of it, without its rows."""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{KINDS[self.kind].words}{detail}"


@dataclass(frozen=True)
class ComparedColumn:
    """Two columns whose values were compared.

    Attributes:
        notes: what is other about the type alone; nothing is lost by it.
    """

    name: str
    theirs: str
    type: str
    their_type: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ComparedCopy:
    """What became of one table.

    Attributes:
        table: MySQL's, as ``database.table``.
        place: where the copy is, and in what it is kept.
        version: which version or files of the copy's were read.
        server, position, read_at: where MySQL stood, by its own clock (UTC).
        key: MySQL's columns by which rows were paired, or none where they are a multiset.
        rows: MySQL's, the copy's.
        equal_rows: rows of MySQL's that the copy has with equal values in all compared columns.
        columns: the columns that were compared.
        differences: what was found, whole rows first; notes among them.
        left_out: MySQL's columns that were not compared → why.
        by_request: those of them that were left out by an option.
        surplus: columns of the copy's that MySQL has not → whose they are.
        originals: whether the copy's texts of values without a place in their column were read,
            which Mirrorlake keeps.
        marked_deleted: rows of the copy's that its tool marks as deleted.
        where: the condition that chose rows.
        outside: rows of MySQL's that it leaves out.
        seconds: how long it took.
    """

    table: str
    place: str
    version: str
    server: str
    position: str
    read_at: str
    key: tuple[str, ...]
    rows: tuple[int, int]
    equal_rows: int
    columns: tuple[ComparedColumn, ...]
    differences: tuple[CopyDifference, ...]
    left_out: Mapping[str, str] = field(default_factory=dict[str, str])
    by_request: tuple[str, ...] = ()
    surplus: Mapping[str, str] = field(default_factory=dict[str, str])
    originals: bool = False
    marked_deleted: int = 0
    where: str = ""
    outside: int = 0
    seconds: float = 0.0

    @property
    def verdict(self) -> CopyVerdict:
        """Different where anything is lost; undecided where a column could not be compared, or a
        condition holds for no row."""
        if any(not one.lossless for one in self.differences):
            return "different"
        nothing = bool(self.where) and not any(self.rows)
        return "undecided" if nothing or set(self.left_out) - set(self.by_request) else "equal"

    def as_json(self) -> dict[str, Any]:
        """What programs get."""
        found = asdict(self) | {"verdict": self.verdict}
        found["differences"] = [
            asdict(one) | {"words": one.words, "lossless": one.lossless} for one in self.differences
        ]
        return found

    def compared(self) -> str:
        """What was compared, in a sentence; never more."""
        ours, theirs = self.rows
        columns = plural(len(self.columns), "column")
        how = f"by {', '.join(self.key)}" if self.key else "as multisets (there is no key)"
        return (
            f"{plural(ours, 'row')} in MySQL, {theirs:,} in the copy, {columns}, {how}; "
            f"{plural(self.equal_rows, 'row is', 'rows are')} equal in all of them"
        )
