"""Rows of deduped as clean must show them, and those of clean as they are, side by side.

Both are read without Spark, one data file in memory at a time.

What belongs here: columns and cells. What doesn't: how rows are compared: as a whole
(`mirrorlake.proof.clean.clean`), or tenant by tenant (`mirrorlake.proof.clean.tenants`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.stream import read_batches
from mirrorlake.proof.clean.rules import shown, shown_originals, shown_type
from mirrorlake.proof.forms.canonical import ORIGINALS

AT_ONCE = 20_000
"""Rows that are digested at once."""
_LIST = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))


@dataclass(frozen=True)
class CleanRows:
    """The columns that both sides have, and their rows.

    Attributes:
        words: what is wrong with clean's columns.
        names: the columns that are compared, in order; the originals come after them.
        rules: column → what the contract says of it, of those that have a rule.
    """

    words: tuple[str, ...]
    names: tuple[str, ...]
    rules: Mapping[str, str]
    _lake: Lake
    _deduped: LakeTable
    _clean: LakeTable
    _hash_key: bytes | None

    @classmethod
    def of(
        cls,
        lake: Lake,
        deduped: LakeTable,
        clean: LakeTable,
        columns: Collection[str],
        rules: Mapping[str, str],
        hash_key: bytes | None,
    ) -> CleanRows:
        """These two tables side by side.

        Args:
            columns: those of deduped of which clean may show something.
            hash_key: ``privacy.hash_key``.
        """
        there, types = _types(clean), _types(deduped)
        shown_as = {n: shown_type(rules.get(n), kind) for n, kind in types.items() if n in columns}
        wanted = {name: kind for name, kind in shown_as.items() if kind is not None}
        words = [f"column {name} is missing in clean" for name in wanted if name not in there]
        words += [f"column {name} must not be in clean" for name in there if name not in wanted]
        words += [
            f"column {name} is {there[name]} in clean, not {kind}"
            for name, kind in wanted.items()
            if name in there and there[name] != kind
        ]
        names = sorted(name for name, kind in wanted.items() if there.get(name) == kind)
        return cls(tuple(words), tuple(names), rules, lake, deduped, clean, hash_key)

    def expected(self) -> Iterator[tuple[pa.RecordBatch, list[Any]]]:
        """Deduped's rows, and their cells as clean must show them, originals last.

        Raises:
            ProofError: a rule can't be stated, or its key is missing.
            LakeError: it can't be read.
        """
        has = ORIGINALS in {field.name for field in self._deduped.schema().fields}
        for batch in _in_parts(self._lake, self._deduped):
            none: list[str | None] = [None] * batch.num_rows
            entries = batch.column(ORIGINALS) if has else pa.nulls(batch.num_rows, _LIST)
            texts = _texts_of(entries) if has else {}
            cells = [
                shown(
                    *(self.rules.get(name), batch.column(name)),
                    *(texts.get(name, none), self._hash_key),
                )
                for name in self.names
            ]
            yield batch, [*cells, pa.array(shown_originals(entries, self.rules), _LIST)]

    def found(self) -> Iterator[tuple[pa.RecordBatch, list[Any]]]:
        """Clean's rows, and their cells as they are, in the same columns.

        Raises:
            LakeError: it can't be read.
        """
        has = ORIGINALS in {field.name for field in self._clean.schema().fields}
        for batch in _in_parts(self._lake, self._clean):
            entries = batch.column(ORIGINALS).to_pylist() if has else [None] * batch.num_rows
            # An engine may have written "no originals" as an empty list; to readers both are none.
            kept = pa.array([entry or None for entry in entries], _LIST)
            yield batch, [*(batch.column(name) for name in self.names), kept]


def _types(table: LakeTable) -> dict[str, str]:
    """The type of every column but the originals, in Iceberg's words."""
    return {
        field.name: str(field.field_type).replace(" ", "")
        for field in table.schema().fields
        if field.name != ORIGINALS
    }


def _in_parts(lake: Lake, table: LakeTable) -> Iterator[pa.RecordBatch]:
    """A table's rows, in batches that are digested together."""
    if table.current_snapshot() is None:
        return
    for batch in read_batches(lake, table):
        for start in range(0, batch.num_rows, AT_ONCE):
            yield batch.slice(start, AT_ONCE)


def _texts_of(entries: Any) -> dict[str, list[str | None]]:
    """By column, the original text of each row that keeps one."""
    found: dict[str, list[str | None]] = {}
    for at, row in enumerate(entries.to_pylist()):
        for entry in row or ():
            found.setdefault(entry["column"], [None] * len(entries))[at] = entry["text"]
    return found
