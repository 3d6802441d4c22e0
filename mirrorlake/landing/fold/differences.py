"""What differs between traced rows and the files: which rows, which columns, and both values.

Read a second time, and only for the rows that differ: the trace itself looks at digests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mirrorlake.landing.fold.row_texts import (
    digest_sql,
    key_columns,
    key_hash_sql,
    other_columns,
    shown_sql,
)
from mirrorlake.landing.fold.shape import SnapshotTable
from mirrorlake.proof.forms.canonical import SHOWN
from mirrorlake.proof.forms.differences import Difference, Field, Value
from mirrorlake.schema.own_columns import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HASH = "_mirror_hash"


class DifferenceReader:
    """Reads what differs in the rows that one trace found to differ.

    Args:
        table: as it was traced.
        ids: the snapshots' numbers, by their places.
        lake, frames: the table's rows, and the readable snapshots' by place.
    """

    def __init__(
        self,
        table: SnapshotTable,
        ids: Sequence[int],
        lake: DataFrame,
        frames: Mapping[int, DataFrame],
    ) -> None:
        self.table, self.ids = table, ids
        self.lake, self.frames, self.end = lake, frames, len(ids)

    def first(self, differing: DataFrame, most: int) -> list[Difference]:
        """The first differences, at most ``most``.

        Args:
            differing: one row per key with kind, held, place, run, begins, unsure, stays, top,
                best; see `mirrorlake.landing.fold.trace`.
        """
        table = self.table
        keys = [
            f"{shown_sql(name, kind)} AS _k{i}" for i, (name, kind) in enumerate(key_columns(table))
        ]
        own = ("kind", "held", "place", "run", "begins", "unsure", "stays", "top", "best")
        facts = [f"_mirror_facts.{name} AS {name}" for name in own]
        listed = differing.selectExpr(*keys, *facts, f"{key_hash_sql(table)} AS {_HASH}")
        rows = listed.orderBy(*(f"_k{i}" for i in range(len(keys)))).limit(most).collect()
        values = self._values(rows)
        found: list[Difference] = []
        for row in rows:
            found += self._differences(row, values)
        return found[:most]

    def _differences(
        self, row: Any, values: Mapping[Any, Sequence[str | None]]
    ) -> list[Difference]:
        key = tuple(
            Value(name, row[f"_k{i}"], _is_text(kind))
            for i, (name, kind) in enumerate(key_columns(self.table))
        )
        if row.kind == "missing":
            note = f": snapshot {self.ids[row.place]} has this row, the table has not"
            return [Difference("missing", key, note=note)]
        if row.kind == "extra":
            return [Difference("extra", key, note=self._why_extra(row))] * row.held
        second = [Difference("extra", key, note=": a second row of this key")] * (row.held - 1)
        if row.kind != "changed":
            return second
        fields: list[Field] = []
        if row.best.v:
            ours, theirs = (values.get((p, row[_HASH]), ()) for p in (row.place, self.end))
            cells = zip(other_columns(self.table), ours, theirs, strict=False)
            fields = [
                _field(name, kind, one, other) for (name, kind), one, other in cells if one != other
            ]
        if row.best.s:
            fields.append(
                Field(Value(SNAPSHOT, self._since(row)), Value(SNAPSHOT, _text(row.best.c)))
            )
        where = f"snapshot {self.ids[row.place]}" if row.place >= 0 else "the snapshots"
        return [Difference("changed", key, tuple(fields), where), *second]

    def _why_extra(self, row: Any) -> str:
        if row.place < 0:
            return ": no snapshot ever held it"
        if not row.stays:
            return ": its day has left the window"
        return ": the newest snapshot lacks it"

    def _since(self, row: Any) -> str:
        """What `SNAPSHOT` must be, as far as the files show."""
        if row.place < 0:
            return "one that can't be read"
        number = self.ids[row.run]
        if row.unsure and row.best.p > row.place:
            return f"{number}, or one that can't be read"
        return str(number) if row.begins else f"{number}, or one before it"

    def _values(self, rows: Sequence[Any]) -> dict[Any, Sequence[str | None]]:
        """By place and key's hash, the values of rows that are not the same on both sides: of the
        row that was looked at, identified by its digest."""
        changed = [row for row in rows if row.kind == "changed" and row.best.v]
        found: dict[Any, Sequence[str | None]] = {}
        for place in {self.end, *(row.place for row in changed)} if changed else ():
            mine = [r for r in changed if place in (self.end, r.place)]
            digests = {
                r[_HASH]: bytes(r.best.h).hex().upper() if place == self.end else r.top
                for r in mine
            }
            side = self.lake if place == self.end else self.frames[place]
            for row in self._read(side, digests):
                found[place, row[_HASH]] = row.cells
        return found

    def _read(self, side: DataFrame, digests: Mapping[str, str]) -> list[Any]:
        from pyspark.sql import functions as f

        cells = ", ".join(shown_sql(name, kind) for name, kind in other_columns(self.table))
        columns = (
            f"{key_hash_sql(self.table)} AS {_HASH}",
            f"hex({digest_sql(self.table)}) AS digest",
        )
        read = side.selectExpr(*columns, f"array({cells}) AS cells")
        some = read.where(f.col(_HASH).isin(list(digests))).collect()
        return [row for row in some if digests[row[_HASH]] == row.digest]


def _is_text(kind: str) -> bool:
    return kind == "string"


def _field(name: str, kind: str, one: str | None, other: str | None) -> Field:
    """Both values; of long ones that begin alike, what comes from where they part."""
    cut = 0
    if one is not None and other is not None and one[:SHOWN] == other[:SHOWN]:
        cut = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), SHOWN)
    shown = (None if text is None else text[cut : cut + SHOWN] for text in (one, other))
    return Field(*(Value(name, text, _is_text(kind)) for text in shown))


def _text(value: object) -> str | None:
    return None if value is None else str(value)
