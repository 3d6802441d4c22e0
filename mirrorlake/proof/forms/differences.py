"""What differs between a row of MySQL and its row in the lake, and how it is described."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from mirrorlake.proof.forms.canonical import ORIGINALS, SHOWN
from mirrorlake.proof.forms.rows import Key, Row, RowForm

DifferenceKind = Literal["missing", "extra", "changed"]
_FORM_SHOWN = 32


@dataclass(frozen=True)
class Value:
    """A value for people: None is NULL; ``text`` is shown between quotes."""

    column: str
    shown: str | None
    text: bool = False


@dataclass(frozen=True)
class Field:
    """One field of a row that is not the same on both sides."""

    source: Value
    lake: Value


@dataclass(frozen=True)
class Difference:
    """One row that is missing in the lake, too much there, or changed. It holds values."""

    kind: DifferenceKind
    key: tuple[Value, ...]
    fields: tuple[Field, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class Differing:
    """One key whose rows differ. It holds values.

    Attributes:
        texts: the forms of the key's cells, under each text by which either side knows it.
        gone: whether MySQL has no row of it.
    """

    texts: tuple[Key, ...]
    gone: bool


class Formatter:
    """Describes differences; values of hidden columns as keyed digests, equal for equal values.

    Args:
        hidden: the columns with a rule on personal or card data, in any case.
        key: of the digests; without it such values are not shown at all.
    """

    def __init__(self, hidden: Collection[str], key: str | None) -> None:
        self._hidden = {name.lower() for name in hidden}
        self._key = key

    def lines(self, difference: Difference) -> list[str]:
        """The lines that say what differs: one a field, or one for the row."""
        key = ", ".join(f"{v.column}={self.value(v)}" for v in difference.key)
        if difference.kind == "missing":
            return [f"missing ({key}): MySQL has this row, the lake has not{difference.note}"]
        if difference.kind == "extra":
            return [f"extra{difference.note} ({key}): the lake has this row"]
        return [
            f"changed ({key}): `{field.source.column}` does not match between MySQL "
            f"(val={self.value(field.source)}) and the lake (val={self.value(field.lake)})"
            for field in difference.fields
        ]

    def value(self, value: Value) -> str:
        """A value as it may be shown."""
        if value.shown is None:
            return "NULL"
        if value.column.lower() in self._hidden:
            if self._key is None:
                return "(hidden)"
            made = hmac.new(
                self._key.encode(), value.shown.encode(errors="replace"), hashlib.sha256
            )
            return f"(keyed digest {made.hexdigest()[:16]})"
        shown = value.shown.encode(errors="replace").decode()
        more = "…" if len(shown) >= SHOWN else ""
        return f"{shown!r}{more}" if value.text else f"{shown}{more}"


def compare_rows(
    rows: RowForm, key: Sequence[str], source: Sequence[Row], lake: Sequence[Row]
) -> list[Difference]:
    """The differences between the row that MySQL has under a key, and those that the lake has.

    Either side may have none; the lake may have several.
    """
    if not lake:
        return [Difference("missing", _key(rows, key, row)) for row in source]
    if not source:
        return [Difference("extra", _key(rows, key, row), note=": gone from MySQL") for row in lake]
    ours, left = source[0], list(lake)
    # The row that is equal, if one is; else the first is taken for it.
    equal = next((row for row in left if row.forms == ours.forms), None)
    left.remove(equal or left[0])
    found = [] if equal else [_changed(rows, key, ours, lake[0])]
    found += [Difference("extra", _key(rows, key, row), note=": a second row") for row in left]
    return found


def compare_counts(rows: RowForm, source: Sequence[Row], lake: Sequence[Row]) -> list[Difference]:
    """The differences between equal rows without a key: as many too few, or too many."""
    everything = [cell.name for cell in rows.cells]
    lost = [Difference("missing", _key(rows, everything, row)) for row in source[len(lake) :]]
    note = ": not so often in MySQL" if source else ": gone from MySQL"
    more = [
        Difference("extra", _key(rows, everything, row), note=note) for row in lake[len(source) :]
    ]
    return lost + more


def _changed(rows: RowForm, key: Sequence[str], ours: Row, theirs: Row) -> Difference:
    fields = [
        _field(rows, number, ours, theirs)
        for number, form in enumerate(ours.cells)
        if form != theirs.cells[number]
    ]
    if ours.strays != theirs.strays:
        stray = Value(ORIGINALS, "originals of columns that keep none, or two of one")
        fields.append(Field(Value(ORIGINALS, None), stray))
    return Difference("changed", _key(rows, key, ours), tuple(fields))


def _field(rows: RowForm, number: int, ours: Row, theirs: Row) -> Field:
    cell = rows.cells[number]
    shown = [ours.shown[number], theirs.shown[number]]
    forms = [ours.cells[number], theirs.cells[number]]
    if shown[0] == shown[1]:
        # Long values that begin alike: their digests tell them apart.
        shown = [f"{s} [{f[:_FORM_SHOWN]}]" for s, f in zip(shown, forms, strict=True)]
    return Field(Value(cell.name, shown[0], cell.text), Value(cell.name, shown[1], cell.text))


def _key(rows: RowForm, key: Sequence[str], row: Row) -> tuple[Value, ...]:
    wanted = set(key)
    return tuple(
        Value(cell.name, row.shown[number], cell.text)
        for number, cell in enumerate(rows.cells)
        if cell.name in wanted
    )
