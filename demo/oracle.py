"""The independent oracle: is a lake table exactly its MySQL table, a clean one its masks?

It shares no code with the engine it checks, and depends on nothing of this package but the
errors. MySQL is read as the text that the server itself prints; the lake is read by PyIceberg.
Both become one text per cell (`oracle_text.py`), rows are paired by key as multisets, and every
cell is compared.

What counts as a fault: a row too few or too many (a doubled one too), a cell whose text differs,
NULL against anything, a column of another type than the type table says, a column that must not
be there, an original kept for a value that has a place in its column.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute
from pyiceberg.table import Table
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from demo.oracle_text import (
    ORIGINALS,
    SourceColumn,
    SourceRows,
    lake_text,
    read_source,
    same_type,
    with_originals,
)
from mirrorlake.errors import ProofError

pc: Any = _compute  # its functions are made at import: type checkers see none of them

Key = tuple[str, ...]
"""A key's cells as the server prints them; ``NULL`` stands for NULL."""

CHANGED_KEPT = 10_000  # cells a verdict lists one by one; all are counted


@dataclass(frozen=True)
class Verdict:
    """What the comparison of one table found. Every list is sorted; equal tables have empty lists.

    `missing` and `extra` name a key once per row; without a key they name whole rows. `changed`
    holds (key, column, text in MySQL, text in the lake), at most CHANGED_KEPT of `changed_cells`,
    and None for NULL. `types` holds (column, type it should have, type found), "absent" for no
    column. `leaked` names columns that must not exist in any schema or original of the lake table.
    """

    table: str
    source_rows: int
    lake_rows: int
    missing: tuple[Key, ...] = ()
    extra: tuple[Key, ...] = ()
    changed: tuple[tuple[Key, str, str | None, str | None], ...] = ()
    changed_cells: int = 0
    types: tuple[tuple[str, str, str], ...] = ()
    leaked: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Every row and every cell is the same, and nothing is there that must not be."""
        return not self.missing and not self.extra and self._cells_equal

    def equal_but_for(self, surplus: Iterable[Key]) -> bool:
        """Equal, apart from exactly these keys that the lake has too many: no more and no less."""
        return not self.missing and self.extra == tuple(sorted(surplus)) and self._cells_equal

    @property
    def _cells_equal(self) -> bool:
        return not (self.changed_cells or self.types or self.leaked)

    def describe(self, most: int = 5) -> str:
        """A few lines for a failed test; holds values, so it is not for logs."""
        counts = (
            f"{self.table}: {self.source_rows} rows in MySQL, {self.lake_rows} in the lake; "
            f"{len(self.missing)} missing, {len(self.extra)} extra, "
            f"{self.changed_cells} cells changed"
        )
        lines = [counts]
        lines += [f"  missing {key}" for key in self.missing[:most]]
        lines += [f"  extra {key}" for key in self.extra[:most]]
        lines += [
            f"  changed {key} {name}: {a!r} != {b!r}" for key, name, a, b in self.changed[:most]
        ]
        lines += [
            f"  type of {name}: {found}, not {wanted}" for name, wanted, found in self.types[:most]
        ]
        lines += [f"  leaked {name}" for name in self.leaked]
        return "\n".join(lines)


def compare_table(
    connection: Connection[Cursor],
    database: str,
    table: str,
    key: Sequence[str],
    lake_table: Table,
    excluded: Collection[str] = frozenset(),
    only_columns: Collection[str] | None = None,
) -> Verdict:
    """Compare every row of a MySQL table with the newest snapshot of its lake table.

    Args:
        connection: any PyMySQL connection; its session settings are changed and left changed.
        key: the unique key's columns; empty compares whole rows as a multiset.
        excluded: columns that must not be in any schema or original of the lake table.
        only_columns: compare these alone (and the key).

    Raises:
        ProofError: a side can't be read exactly (unknown type, unknown charset, missing table).
    """
    source = read_source(connection, database, table, excluded)
    lake_table = lake_table.refresh()
    verdict = compare_rows(source, key, lake_table.scan().to_arrow(), excluded, only_columns)
    leaked = sorted({*verdict.leaked, *find_leaks(lake_table, excluded)})
    return _with_leaks(verdict, leaked)


def find_leaks(lake_table: Table, excluded: Collection[str]) -> tuple[str, ...]:
    """Which of `excluded` exist as a column, at any depth, in any schema the table ever had."""
    ever = {name for schema in lake_table.schemas().values() for name in schema.column_names}
    parts = {part for name in ever for part in name.split(".")} | ever
    return tuple(sorted(set(excluded) & parts))


def compare_rows(
    source: SourceRows,
    key: Sequence[str],
    lake: pa.Table,
    excluded: Collection[str] = frozenset(),
    only_columns: Collection[str] | None = None,
) -> Verdict:
    """Compare rows already read; `lake` is Arrow as PyIceberg (or Spark) gives it."""
    names = [
        c.name for c in source.columns if only_columns is None or c.name in {*only_columns, *key}
    ]
    columns = [column for column in source.columns if column.name in names]
    if absent := set(key) - set(names):
        raise ProofError(f"key column {sorted(absent)} is not in the table", table=source.table)
    types = _type_faults(columns, lake, strict=only_columns is None)
    leaked = set(excluded) & set(lake.column_names)
    if set(lake.column_names).isdisjoint(names) or not set(key) <= set(lake.column_names):
        return Verdict(
            source.table,
            source.rows.num_rows,
            lake.num_rows,
            types=types,
            leaked=tuple(sorted(leaked)),
        )
    present = [column for column in columns if column.name in lake.column_names]
    text = {c.name: lake_text(c, lake[c.name]) for c in present}
    if ORIGINALS in lake.column_names:
        known = {column.name: column for column in source.columns}
        strangers = with_originals(known, text, lake[ORIGINALS])
        leaked |= strangers & set(excluded)
        types += tuple(
            (name, "no original", "original") for name in sorted(strangers - set(excluded))
        )
    names = [column.name for column in present]
    found = _compare(source.rows.select(names), pa.table(text), list(key) or names)
    return Verdict(
        source.table,
        source.rows.num_rows,
        lake.num_rows,
        missing=tuple(sorted(found.missing)),
        extra=tuple(sorted(found.extra)),
        changed=tuple(sorted(found.changed, key=lambda cell: cell[:2])),
        changed_cells=found.changed_cells,
        types=types,
        leaked=tuple(sorted(leaked)),
    )


def check_clean(
    source: SourceRows,
    key: Sequence[str],
    clean: pa.Table,
    rules: Mapping[str, str],
    hash_key: bytes | None = None,
    excluded: Collection[str] = frozenset(),
) -> Verdict:
    """Compare every clean row with the masks recomputed from MySQL's own text.

    Args:
        source: `read_source` of the table.
        clean: all rows of the clean view or table, as Arrow.
        rules: column → drop | null | hash | mask.
        hash_key: the key of HMAC-SHA256; needed if a rule is hash.

    Raises:
        ProofError: an unknown rule, mask on a column that is not text, hash without a key.
    """
    masked = mask_rows(source, rules, hash_key)
    gone = {name for name, rule in rules.items() if rule == "drop"} | set(excluded)
    usable = list(key) if gone.isdisjoint(key) else []
    verdict = compare_rows(masked, usable, clean, gone)
    ruled = _ruled_originals(clean, rules) | (gone & set(clean.column_names))
    return _with_leaks(verdict, sorted({*verdict.leaked, *ruled}))


def mask_rows(source: SourceRows, rules: Mapping[str, str], hash_key: bytes | None) -> SourceRows:
    """The rows a clean table must show: each ruled column replaced by its mask, or gone."""
    columns: list[SourceColumn] = []
    cells: dict[str, Any] = {}
    for column in source.columns:
        rule = rules.get(column.name)
        if rule == "drop":
            continue
        texts = source.rows[column.name]
        if rule is None:
            columns.append(column)
            cells[column.name] = texts
            continue
        # A NULLed column keeps its type; a hash or a mask is text.
        columns.append(column if rule == "null" else SourceColumn(column.name, "varchar"))
        masks = {
            t: _mask(column, rule, t, hash_key) for t in set(texts.to_pylist()) if t is not None
        }
        cells[column.name] = pa.array([masks.get(t) for t in texts.to_pylist()], pa.large_string())
    return SourceRows(source.table, tuple(columns), pa.table(cells))


def _mask(column: SourceColumn, rule: str, text: str, hash_key: bytes | None) -> str | None:
    match rule:
        case "null":
            return None
        case "hash":
            if not hash_key:
                raise ProofError("rule hash needs a key", column=column.name)
            return hmac.new(hash_key, text.encode(), hashlib.sha256).hexdigest()
        case "mask":
            if not column.is_text:
                raise ProofError("rule mask is for text only", column=column.name)
            return "********" + (text[-2:] if len(text) >= 6 else "")
        case _:
            raise ProofError(f"unknown rule {rule!r}", column=column.name)


def _ruled_originals(clean: pa.Table, rules: Mapping[str, str]) -> set[str]:
    if ORIGINALS not in clean.column_names:
        return set()
    entries = pc.list_flatten(clean[ORIGINALS])
    kept: set[str] = set(pc.struct_field(entries, "column").to_pylist())
    return kept & set(rules)


def _type_faults(
    columns: Sequence[SourceColumn], lake: pa.Table, *, strict: bool
) -> tuple[tuple[str, str, str], ...]:
    faults: list[tuple[str, str, str]] = []
    for column in columns:
        found = lake.schema.field(column.name).type if column.name in lake.column_names else None
        if found is None:
            faults.append((column.name, str(column.lake_type), "absent"))
        elif not same_type(column.lake_type, found):
            faults.append((column.name, str(column.lake_type), str(found)))
    if strict:
        known = {column.name for column in columns}
        strangers = [n for n in lake.column_names if n not in known and n != ORIGINALS]
        faults += [(name, "absent", str(lake.schema.field(name).type)) for name in strangers]
    return tuple(faults)


@dataclass
class _Found:
    missing: list[Key] = field(default_factory=list[Key])
    extra: list[Key] = field(default_factory=list[Key])
    changed: list[tuple[Key, str, str | None, str | None]] = field(
        default_factory=list[tuple[Key, str, str | None, str | None]]
    )
    changed_cells: int = 0

    def add_changed(self, key: Key, column: str, source: str | None, lake: str | None) -> None:
        self.changed_cells += 1
        if len(self.changed) < CHANGED_KEPT:
            self.changed.append((key, column, source, lake))


def _compare(source: pa.Table, lake: pa.Table, key: list[str]) -> _Found:
    """Pair the rows by key, compare their cells; rows of keys not unique are multisets."""
    both = pa.chunked_array(
        [*_joined(source, key).chunks, *_joined(lake, key).chunks], pa.large_string()
    )
    coded = both.combine_chunks().dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    ours, theirs = codes[: source.num_rows], codes[source.num_rows :]
    kinds = len(coded.dictionary)
    our_count = np.bincount(ours, minlength=kinds)
    their_count = np.bincount(theirs, minlength=kinds)
    found = _Found()
    found.missing = _keys(source, key, np.flatnonzero(their_count[ours] == 0))
    found.extra = _keys(lake, key, np.flatnonzero(our_count[theirs] == 0))
    once = (our_count == 1) & (their_count == 1)
    our_rows, their_rows = np.flatnonzero(once[ours]), np.flatnonzero(once[theirs])
    # Both sides in the order of the codes: row i of one is row i of the other.
    our_rows = our_rows[np.argsort(ours[our_rows], kind="stable")]
    their_rows = their_rows[np.argsort(theirs[their_rows], kind="stable")]
    _compare_paired(found, source, our_rows, lake, their_rows, key)
    several = (our_count > 0) & (their_count > 0) & ~once
    _compare_several(
        found, source, np.flatnonzero(several[ours]), lake, np.flatnonzero(several[theirs]), key
    )
    return found


def _compare_paired(
    found: _Found, source: pa.Table, our_rows: Any, lake: pa.Table, their_rows: Any, key: list[str]
) -> None:
    if not len(our_rows):
        return
    for name in source.column_names:
        if name in key:
            continue
        ours, theirs = source[name].take(our_rows), lake[name].take(their_rows)
        one_null = pc.xor(pc.is_null(ours), pc.is_null(theirs))
        other = pc.fill_null(pc.not_equal(ours, theirs), False)
        differs = np.flatnonzero(pc.or_(one_null, other).to_numpy())
        listed = differs[:CHANGED_KEPT]
        keys = _keys(source, key, our_rows[listed])
        for row, row_key in zip(listed, keys, strict=True):
            found.add_changed(row_key, name, ours[int(row)].as_py(), theirs[int(row)].as_py())
        found.changed_cells += len(differs) - len(listed)


def _compare_several(
    found: _Found, source: pa.Table, our_rows: Any, lake: pa.Table, their_rows: Any, key: list[str]
) -> None:
    """Rows whose key is not unique on a side: equal rows cancel out, one by one.

    What is left of a key is paired as changed; what has no pair is missing or extra.
    """
    names = source.column_names
    ours, theirs = Counter(_rows(source, our_rows)), Counter(_rows(lake.select(names), their_rows))
    left: dict[Key, tuple[list[tuple[str | None, ...]], list[tuple[str | None, ...]]]] = {}
    at = [names.index(name) for name in key]
    for side, rows in enumerate((ours - theirs, theirs - ours)):
        for row in rows.elements():
            left.setdefault(_printed(row[i] for i in at), ([], []))[side].append(row)
    for row_key, (gone, new) in left.items():
        for old, now in zip(gone, new, strict=False):
            for name, before, after in zip(names, old, now, strict=True):
                if before != after:
                    found.add_changed(row_key, name, before, after)
        found.missing += [row_key] * (len(gone) - len(new))
        found.extra += [row_key] * (len(new) - len(gone))


def _joined(rows: pa.Table, key: list[str]) -> pa.ChunkedArray:
    """One text per row that no other key has: each cell after its length, NULL apart."""
    parts: list[Any] = []
    for name in key:
        cells = rows[name].cast(pa.large_string())
        lengths = pc.binary_length(cells).cast(pa.large_string())
        parts.append(
            pc.fill_null(pc.binary_join_element_wise(lengths, cells, _large(":")), _large("N"))
        )
    joined = pc.binary_join_element_wise(*parts, _large("")) if len(parts) > 1 else parts[0]
    return joined if isinstance(joined, pa.ChunkedArray) else pa.chunked_array([joined])


def _large(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _rows(rows: pa.Table, at: Any) -> list[tuple[str | None, ...]]:
    taken = rows.take(at)
    return list(zip(*(column.to_pylist() for column in taken.columns), strict=True))


def _keys(rows: pa.Table, key: list[str], at: Any) -> list[Key]:
    return [_printed(row) for row in _rows(rows.select(key), at)] if len(at) else []


def _printed(cells: Iterable[str | None]) -> Key:
    return tuple("NULL" if cell is None else cell for cell in cells)


def _with_leaks(verdict: Verdict, leaked: Sequence[str] | Set[str]) -> Verdict:
    return replace(verdict, leaked=tuple(leaked))
