"""Keys in an order that both sides keep, and spans of them: chunks of keys that are no one integer.

A span begins and ends at keys that the server returned. MySQL finds its rows through the key's
index; the lake by a form of each column that sorts as the server sorts the column. Where there is
no such form (most collations, ENUM, MariaDB's UUID), there are no spans: the table is one range.

The forms are total: every row of the lake is in exactly one of the spans that follow each other,
whatever stands in it, so that no row is compared in none. NULL, which no key of MySQL is, comes
first. Were a form to sort otherwise than the server after all, the rows concerned would differ, be
looked up by their keys, and be found equal.

Source: MySQL 8.0 manual, 12.8.6 "Examples of the Effect of Collation" and 12.10.1 "Unicode
Character Sets"; MariaDB knowledge base, "Supported Character Sets and Collations".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.proof.forms.canonical import SHORT, Form, lake_literal
from mirrorlake.proof.ranges.ranges import INTEGERS, Cells, Span
from mirrorlake.sources.mysql.tables import Column, quoted_text

# Collations that sort by code point, which is the order of UTF-8's bytes; True: a shorter text is
# filled up with spaces before it is compared.
_BY_CODE_POINT = {
    **dict.fromkeys(("utf8mb4_bin", "utf8mb3_bin", "utf8_bin", "ascii_bin"), True),
    **dict.fromkeys(("utf8mb4_0900_bin", "utf8mb4_nopad_bin", "utf8mb3_nopad_bin"), False),
    "ascii_nopad_bin": False,
}
_TIMES = {"date": "DATE", "datetime": "TIMESTAMP_NTZ", "timestamp": "TIMESTAMP"}
_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")


def bound_of(text: str | None, parts: Sequence[Part]) -> Cells | None:
    """The end of a span over these columns that a text holds; None where it holds none."""
    try:
        cells: object = json.loads(text or "")
    except ValueError:
        return None
    if not isinstance(cells, list):
        return None
    listed: list[object] = cells
    if len(listed) != len(parts) or not all(isinstance(cell, str) for cell in listed):
        return None
    found = tuple(str(cell) for cell in listed)
    fits = all(part.is_form(cell) for part, cell in zip(parts, found, strict=True))
    return found if fits else None


@dataclass(frozen=True)
class Part:
    """One column of a key, as both sides order it."""

    column: Column
    form: Form

    @property
    def _kind(self) -> str:
        return self.column.data_type

    @property
    def _is_text(self) -> bool:
        return self._kind in ("char", "varchar")

    @property
    def source(self) -> str:
        return self.column.sql

    @property
    def lake(self) -> str:
        """Spark's SQL of what sorts as the server sorts the column; NULL for NULL."""
        name = as_sql_identifier(self.column.name)
        if self._kind in _TIMES:
            # Digits of one width; a date without a place in the column is its own text.
            return f"nullif({self.form.lake},'N')"
        if self._is_text:
            return f"rpad({name},{self.column.length},' ')" if self._padded else name
        return f"hex({name})" if self.form.iceberg == "binary" else name

    @property
    def _padded(self) -> bool:
        return _BY_CODE_POINT[self.column.collation or ""]

    def is_form(self, cell: str) -> bool:
        """Whether a text can be a form of this column."""
        if self._is_text:
            head, colon, text = cell.partition(":")
            return bool(colon) and head == str(len(text.encode(errors="ignore")))
        if self._kind in _TIMES:
            return re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[0-9 :.]*", cell) is not None
        if self.form.iceberg == "binary":
            return re.fullmatch("([0-9A-F]{2})*", cell) is not None
        return _NUMBER.fullmatch(cell) is not None

    def literals(self, cell: str) -> tuple[str, str]:
        """The value of a form as MySQL's literal, and as Spark's beside `lake`."""
        if self._is_text:
            text = cell.partition(":")[2]
            padded = text.ljust(self.column.length or 0) if self._padded else text
            return quoted_text(text), lake_literal(padded)
        if self._kind in _TIMES:
            return quoted_text(cell), lake_literal(cell)
        if self.form.iceberg == "binary":
            return f"x'{cell}'", lake_literal(cell)
        if self._kind == "decimal":
            return cell, f"CAST('{cell}' AS {self.form.iceberg})"
        return cell, cell

    def pruned(self, span_lo: str | None, span_hi: str | None) -> list[str]:
        """Conditions that every row of the lake between two forms of this column fulfils, of the
        column alone: by them Iceberg leaves out files. They choose nothing."""
        if span_lo is None or self._is_text:
            return []
        name = as_sql_identifier(self.column.name)
        found: list[str] = []
        for sign, cell in ((">=", span_lo), ("<=", span_hi)):
            literal = None if cell is None else self.stored(cell)
            if literal is not None:
                found.append(f"({name} {sign} {literal}{self.or_beside})")
        return found

    @property
    def or_beside(self) -> str:
        """Without a place in its type, a value is beside the column, which is NULL then."""
        return f" OR {as_sql_identifier(self.column.name)} IS NULL" if self._kind in _TIMES else ""

    def stored(self, cell: str) -> str | None:
        """Spark's literal of what the lake's column holds where a form is this one; None where that
        can't be said."""
        if not self.is_form(cell):
            return None
        if self._is_text:
            return lake_literal(cell.partition(":")[2])
        if self.form.iceberg == "binary":
            return f"X'{cell}'"
        if self._kind not in _TIMES:
            return self.literals(cell)[1]
        try:
            datetime.fromisoformat(cell)
        except ValueError:
            return None
        return f"{_TIMES[self._kind]}'{cell}'"


def ordered_parts(
    key: Sequence[Column], forms: Sequence[Form], hidden: Sequence[str]
) -> tuple[Part, ...]:
    """The leading columns of a key that both sides order alike; none if the first is not.

    Args:
        hidden: columns whose values are not to be shown: ends of spans stand in the ledger.
    """
    found: list[Part] = []
    secret = {name.lower() for name in hidden}
    for column, form in zip(key, forms, strict=True):
        if column.name.lower() in secret or not _is_ordered(column):
            break
        found.append(Part(column, form))
    return tuple(found)


def _is_ordered(column: Column) -> bool:
    kind = column.data_type
    if kind in INTEGERS or kind in _TIMES:
        return True
    if kind == "decimal":
        return (column.precision or 10) <= 38
    if kind in ("binary", "varbinary"):
        return (column.length or 0) <= SHORT
    known = column.collation in _BY_CODE_POINT
    return kind in ("char", "varchar") and known and (column.length or 0) <= SHORT


def span_conditions(parts: Sequence[Part], span: Span) -> tuple[str, str]:
    """The rows of a span in each side's SQL, '' for all."""
    source: list[str] = []
    lake: list[str] = []
    if span.lo is not None:
        ours, theirs = _literals(parts, span.lo)
        source += [f"{parts[0].source} >= {ours[0]}", _beyond(_names(parts), ours, ">", ">=")]
        # NULL comes before all: it is in no span that has a beginning.
        lake.append(f"coalesce({_beyond(_lake_names(parts), theirs, '>', '>=')},false)")
    if span.hi is not None:
        ours, theirs = _literals(parts, span.hi)
        source += [f"{parts[0].source} <= {ours[0]}", _beyond(_names(parts), ours, "<", "<")]
        not_below = _beyond(_lake_names(parts), theirs, ">", ">=")
        lake.append(f"NOT coalesce({not_below},false)")
    ends = [None if cells is None else cells[0] for cells in (span.lo, span.hi)]
    pruned = parts[0].pruned(*ends) if parts else []
    return " AND ".join(source), " AND ".join([*pruned, *lake])


def among_condition(parts: Sequence[Part], keys: Sequence[Mapping[str, str]]) -> str:
    """A condition of the lake's columns that every row under one of these keys fulfils, '' where
    nothing can be said: by it Iceberg leaves out files. It chooses nothing.

    Args:
        keys: the forms of a key's cells, by column.
    """
    found: list[str] = []
    for part in parts:
        literals = [part.stored(key[part.column.name]) for key in keys]
        known = sorted({literal for literal in literals if literal is not None})
        if known and None not in literals:
            name = as_sql_identifier(part.column.name)
            found.append(f"({name} IN ({', '.join(known)}){part.or_beside})")
    return " AND ".join(found)


def after_condition(parts: Sequence[Part], cells: Cells) -> str:
    """In MySQL's SQL, the rows whose leading cells come after these."""
    ours, _ = _literals(parts, cells)
    return f"{parts[0].source} >= {ours[0]} AND {_beyond(_names(parts), ours, '>', '>')}"


def _names(parts: Sequence[Part]) -> list[str]:
    return [part.source for part in parts]


def _lake_names(parts: Sequence[Part]) -> list[str]:
    return [part.lake for part in parts]


def _literals(parts: Sequence[Part], cells: Cells) -> tuple[list[str], list[str]]:
    both = [part.literals(cell) for part, cell in zip(parts, cells, strict=True)]
    return [ours for ours, _ in both], [theirs for _, theirs in both]


def _beyond(names: Sequence[str], literals: Sequence[str], strict: str, last: str) -> str:
    """``(a, b) > (x, y)`` written out: MySQL makes no range of an index of a comparison of rows.

    >>> _beyond(["a", "b"], ["1", "2"], ">", ">=")
    '(a > 1 OR (a = 1 AND b >= 2))'
    """
    name, literal = names[0], literals[0]
    if len(names) == 1:
        return f"{name} {last} {literal}"
    rest = _beyond(names[1:], literals[1:], strict, last)
    return f"({name} {strict} {literal} OR ({name} = {literal} AND {rest}))"
