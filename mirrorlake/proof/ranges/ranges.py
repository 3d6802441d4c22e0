"""How a table's rows are cut into groups, the same way in MySQL and in the lake.

Where the key begins with an integer, groups are ranges of it: MySQL reads each through the key's
index. Other keys have no order that both sides share (collations, ENUM), so their rows are dealt
out by the hash of the key's form; without a key, by the row's own digest. Then every look at a part
of them reads the whole table in MySQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.sources.mysql.tables import Column

GROUP_ROWS = 4_000
"""About how many rows a group has: they are fetched when its digests differ."""
QUERY_ROWS = 500_000
"""About how many rows one statement of MySQL digests."""
INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_LONG = 2**63


@dataclass(frozen=True)
class Tally:
    """A group's rows and the sum of their digests."""

    rows: int
    digest: int

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.rows + other.rows, self.digest + other.digest)


NOTHING = Tally(0, 0)
Tallies = Mapping[int, Tally]
"""By the number of the group; groups without rows are absent."""
Cells = tuple[str, ...]
"""The forms of a key's leading cells."""
Verdict = Literal["equal", "different", "undecided"]


@dataclass(frozen=True)
class Range:
    """Keys from ``lo`` to below ``hi``; None: no bound on that side."""

    lo: int | None = None
    hi: int | None = None

    def source(self, column: Column) -> str:
        """The range as MySQL's condition, '' for all."""
        return self._sql(column.sql)

    def lake(self, column: Column) -> str:
        """The range as Spark's condition, '' for all."""
        name = as_sql_identifier(column.name)
        # NULL, which no key of MySQL is, comes before all: one range must hold it.
        lost = f" OR {name} IS NULL" if self.lo is None and self.hi is not None else ""
        return f"({self._sql(name)}{lost})" if lost else self._sql(name)

    def _sql(self, name: str) -> str:
        lower = [f"{name} >= {self.lo}"] if self.lo is not None else []
        upper = [f"{name} < {self.hi}"] if self.hi is not None else []
        return " AND ".join(lower + upper)

    def holds(self, cell: str) -> bool:
        """Whether the form of a key's first cell lies in it; what is no number comes before all.

        >>> Range(0, 10).holds("9"), Range(0, 10).holds("10"), Range(None, 10).holds("N")
        (True, False, True)
        """
        try:
            number = int(cell)
        except ValueError:
            return self.lo is None
        above = self.lo is None or number >= self.lo
        return above and (self.hi is None or number < self.hi)

    @property
    def bounds(self) -> tuple[str | None, str | None]:
        """Both ends as they are kept."""
        return _text_of(self.lo), _text_of(self.hi)

    def __str__(self) -> str:
        low = "" if self.lo is None else str(self.lo)
        return f"{low}..{'' if self.hi is None else self.hi}"


def _text_of(end: int | None) -> str | None:
    return None if end is None else str(end)


EVERYWHERE = Range()


@dataclass(frozen=True)
class Span:
    """Keys from ``lo`` to below ``hi``, each the forms of a key's leading cells; None: no bound."""

    lo: Cells | None = None
    hi: Cells | None = None

    @property
    def bounds(self) -> tuple[str | None, str | None]:
        """Both ends as they are kept."""
        return bound_text(self.lo), bound_text(self.hi)

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{low or ''}..{high or ''}"


def bound_text(cells: Cells | None) -> str | None:
    """An end of a span as a text.

    >>> bound_text(("7", "1:a"))
    '["7", "1:a"]'
    """
    return None if cells is None else json.dumps(cells, ensure_ascii=False)


@dataclass(frozen=True)
class RangeProof:
    """Both sides of one range: as many rows and the same digest, or not.

    ``range`` is one of keys; None where all requested rows are one range.
    """

    range: Range | Span | None
    source: Tally
    lake: Tally
    verdict: Verdict


@dataclass(frozen=True)
class Grid:
    """Groups of ``width`` keys each, counted from ``first``, within ``whole``.

    What the lake has below ``first`` is group -1, what it has at or past ``end`` group ``count``:
    MySQL has no such keys.
    """

    column: Column
    whole: Range
    first: int
    end: int
    width: int

    @property
    def count(self) -> int:
        return -(-(self.end - self.first) // self.width)

    def range_of(self, group: int) -> Range:
        """The keys of a group."""
        if group < 0:
            return Range(self.whole.lo, self.first)
        if group >= self.count:
            return Range(self.end, self.whole.hi)
        low = self.first + group * self.width
        return Range(low, min(low + self.width, self.end))

    def span_of(self, groups: range) -> Range:
        """The keys of some groups in a row."""
        return Range(self.range_of(groups[0]).lo, self.range_of(groups[-1]).hi)

    @property
    def _wide(self) -> bool:
        """Whether 64 bits do not hold every number in between."""
        return self.end - self.first >= _LONG or self.end >= _LONG

    @property
    def source(self) -> str:
        """MySQL's SQL of a row's group."""
        name = self.column.sql
        if self._wide:
            name = f"CAST({name} AS DECIMAL(21,0))"
        return f"({name} - ({self.first})) DIV {self.width}"

    @property
    def lake(self) -> str:
        """Spark's SQL of a row's group."""
        name = as_sql_identifier(self.column.name)
        # An arithmetic of decimals would cost as much as the rows' digests do.
        number = f"CAST({name} AS {'DECIMAL(21,0)' if self._wide else 'BIGINT'})"
        inside = f"CAST(({number} - ({self.first})) div {self.width} AS BIGINT)"
        return (
            f"CASE WHEN {name} IS NULL OR {name} < {self.first} THEN -1"
            f" WHEN {name} >= {self.end} THEN {self.count} ELSE {inside} END"
        )

    def queries(self, rows: int) -> Iterator[range]:
        """The groups that one statement digests together, where the table has about this many
        rows."""
        per_group = max(1, rows // self.count)
        together = max(1, QUERY_ROWS // per_group)
        for start in range(0, self.count, together):
            yield range(start, min(start + together, self.count))


def plan_grid(column: Column, whole: Range, lowest: int, highest: int, rows: int) -> Grid:
    """A grid over the keys that MySQL has within a range, ``lowest`` to ``highest``."""
    groups = max(1, rows // GROUP_ROWS)
    span = highest + 1 - lowest
    return Grid(column, whole, lowest, highest + 1, max(1, -(-span // groups)))


def bucket_count(rows: int) -> int:
    """How many buckets the rows of a table without ordered keys are dealt into."""
    return max(1, rows // GROUP_ROWS)


def ordered_column(key: Sequence[Column]) -> Column | None:
    """The key's first column, if both sides order it alike."""
    return key[0] if key and key[0].data_type in INTEGERS else None


def differing(source: Tallies, lake: Tallies) -> list[int]:
    """The groups whose rows or digests differ, in order."""
    groups = {*source, *lake}
    return sorted(g for g in groups if source.get(g, NOTHING) != lake.get(g, NOTHING))


def total(tallies: Tallies, groups: Sequence[int] | None = None) -> Tally:
    """All groups together, or some."""
    found = NOTHING
    for group, tally in tallies.items():
        if groups is None or group in groups:
            found += tally
    return found
