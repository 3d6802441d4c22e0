"""Static bounds of a MERGE: conditions on the target alone that every row it can match fulfils.

A MERGE matches a row of the target whose stored key equals the stored key of a change. So the
target's leading key column holds a value of a change, and lies in every set of ranges that covers
those values; and a hash of the whole key is one of the changes' hashes. Both are evaluated by the
lake, over the lake's own values on both sides: no order and no collation of the server has a part
in it. The ranges let Iceberg leave out files; the hashes let Spark drop rows before it shuffles
them for the join.

Of a layer's files the ranges are given by where the files begin (`edges_of`): a range is of whole
files anyway, and the same files make the same condition. Spark writes a number of a condition into
the code that it makes of it: with other numbers in every fold the JVM would compile that code
again, and look through millions of rows before it has (1.1 s of six million keys, and 0.3 s with
the same numbers again).

A FLOAT or DOUBLE in the key is the exception: 0.0 and -0.0 are equal, have two hashes, and Iceberg
orders them; such a key is not pruned.

Source: Iceberg specification, "Scan Planning"; Spark SQL reference, "Comparison Operators".
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.metadata.statistics import file_starts
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tables.tables import TARGET_BYTES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pc: Any = _compute  # its functions are made at import: type checkers see none of them

_RANGES = 16
"""Ranges of the leading key column, at most: with 50 the code that Spark makes of them was
too long for the JVM to compile, and ran three times as long."""
_SPREAD = 32
"""Bits per number in the filter; about one other number in as many passes it."""
_OF_HASHES = (0, 20, 40)
"""Three parts of a hash, each a bit: one other row in some thousands passes, and is shuffled with
the name of its file. By one part alone 190,000 of six million were."""
LARGE = TARGET_BYTES // 8
"""A file from this many bytes on is one of the table's own, not one of a fold's changes."""
MOST_FILES = 2_000
"""Up to this many files are looked into for where they begin. Of more, or of many small ones,
narrower ranges save more than code that was compiled before."""
_FLOATING = ("float", "double")


@dataclass(frozen=True)
class KeyRange:
    """Values of the leading key column, in the lake's order.

    Attributes:
        lo: the first one; None: without a beginning.
        hi: the last one; None: without an end.
        closed: whether ``hi`` itself is in it.
    """

    lo: Any
    hi: Any
    closed: bool = True

    @property
    def is_all(self) -> bool:
        return self.lo is None and self.hi is None


@dataclass(frozen=True)
class Bounds:
    """What the keys of a set of changes have in common.

    Attributes:
        ranges: of the leading key column; every change is in one, or has none there.
        missing: whether a change has NULL there (a value without a place in its column).
        hashes: of whole keys, by Spark's xxhash64; none where they were not brought here.
    """

    ranges: tuple[KeyRange, ...]
    missing: bool
    hashes: tuple[int, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is no change at all."""
        return not self.ranges and not self.missing


def may_prune(kinds: Sequence[str]) -> bool:
    """Whether keys of these Iceberg types are bounded at all.

    >>> may_prune(["long", "string"]), may_prune(["long", "double"])
    (True, False)
    """
    return bool(kinds) and not any(kind in _FLOATING for kind in kinds)


def bounds_of(
    changes: DataFrame, key: Sequence[str], *, listed: bool, edges: Sequence[Any] | None = None
) -> Bounds:
    """The bounds of these changes' keys, by one job of Spark.

    Args:
        changes: the rows that a MERGE is given, with key columns as they are stored.
        key: the key's columns, the leading one first.
        listed: whether they are few enough to bring all keys here.
        edges: where the target's files begin (`edges_of`); None if nobody looked.
    """
    names = [as_sql_identifier(name) for name in key]
    try:
        return _bounds_of(changes, names, listed=listed, edges=edges)
    except OverflowError:
        # A day past Python's calendar, which somebody wrote into the lake: every file is opened.
        return Bounds((KeyRange(None, None, closed=False),), True)


def _bounds_of(
    changes: DataFrame, names: Sequence[str], *, listed: bool, edges: Sequence[Any] | None
) -> Bounds:
    if not listed:
        found = _bounds_by_parts(changes, names[0])
        return found if edges is None else replace(found, ranges=_snapped(found.ranges, edges))
    hashed = f"xxhash64({', '.join(names)}) AS h"
    keys: pa.Table = changes.selectExpr(hashed, f"{names[0]} AS k").toArrow()
    ranges = cover(keys["k"]) if edges is None else cells(keys["k"], edges)
    missing = keys["k"].null_count > 0
    hashes = pc.unique(keys["h"]).to_pylist()
    return Bounds(ranges, missing, tuple(sorted(hashes)))


def _bounds_by_parts(changes: DataFrame, leading: str) -> Bounds:
    from pyspark.sql import functions as f

    keys = changes.selectExpr(f"{leading} AS k")
    parts = (
        keys.repartitionByRange(_RANGES, f.col("k"))
        .groupBy(f.spark_partition_id())
        .agg(f.min("k").alias("lo"), f.max("k").alias("hi"), f.count_if(f.isnull("k")).alias("n"))
        .toArrow()
        .to_pylist()
    )
    ranges = tuple(KeyRange(p["lo"], p["hi"]) for p in parts if p["lo"] is not None)
    return Bounds(ranges, any(p["n"] for p in parts))


def edges_of(table: LakeTable, column: str) -> tuple[Any, ...] | None:
    """Where a table's larger files after the first begin in a column: their least values, in the
    lake's order; None where these hold less than half of its bytes, or more than `MOST_FILES`.

    Where the first one begins is left out, so that ranges which meet all files make no condition:
    for one, be it true of every row, Iceberg reads each file's dictionary of the column.

    They only divide the values: what a bound says (of a text its first characters) need not be
    true. Small files are left out, as each fold adds one that may reach over all keys.

    Source: Iceberg specification, "Manifests", lower_bounds.
    """
    found = file_starts(table, column, at_least=LARGE, most=MOST_FILES)
    if found is None:
        return None
    starts, large, small = found
    return tuple(sorted(starts, key=_ordered)[1:]) if large > small else None


def cells(
    values: pa.ChunkedArray, edges: Sequence[Any], most: int = _RANGES
) -> tuple[KeyRange, ...]:
    """At most ``most`` ranges that hold all of these values and begin and end at edges.

    >>> cells(pa.chunked_array([[1, 12, 13, 45]]), (10, 20, 30, 40))[-1]
    KeyRange(lo=40, hi=None, closed=False)
    """
    found = pc.unique(values.combine_chunks()).drop_null().to_pylist()
    places = [_ordered(edge) for edge in edges]
    return _runs({bisect_right(places, _ordered(value)) for value in found}, edges, most)


def _snapped(
    ranges: Sequence[KeyRange], edges: Sequence[Any], most: int = _RANGES
) -> tuple[KeyRange, ...]:
    """Ranges (whose ends are in them) as ranges that begin and end at edges."""
    places = [_ordered(edge) for edge in edges]
    ends = [(bisect_right(places, _ordered(x)) for x in (r.lo, r.hi)) for r in ranges]
    return _runs({cell for lo, hi in ends for cell in range(lo, hi + 1)}, edges, most)


def _runs(met: set[int], edges: Sequence[Any], most: int) -> tuple[KeyRange, ...]:
    """The cells between edges as runs, cut where most cells were not met."""
    numbers = sorted(met)
    gaps = sorted(
        (i for i in range(1, len(numbers)) if numbers[i] > numbers[i - 1] + 1),
        key=lambda i: numbers[i - 1] - numbers[i],
    )
    cuts = [0, *sorted(gaps[: most - 1]), len(numbers)]
    ends = [None, *edges, None]
    return tuple(
        KeyRange(ends[numbers[a]], ends[numbers[b - 1] + 1], closed=False)
        for a, b in pairwise(cuts)
        if b > a
    )


def _ordered(value: Any) -> Any:
    """Text as its bytes in UTF-8: the order of Iceberg and Spark, whatever the server's is."""
    return value.encode() if isinstance(value, str) else value


def cover(values: pa.ChunkedArray, most: int = _RANGES) -> tuple[KeyRange, ...]:
    """At most ``most`` ranges that hold all of these values, cut where the gaps are widest.

    >>> cover(pa.chunked_array([[9, 1, 2, 8]]), most=2)
    (KeyRange(lo=1, hi=2, closed=True), KeyRange(lo=8, hi=9, closed=True))
    """
    found = pc.unique(values.combine_chunks()).drop_null().to_pylist()
    found.sort(key=_ordered)
    if not found:
        return ()
    places = _places(found)
    gaps = places[1:] - places[:-1]
    cuts = sorted(np.argsort(gaps, kind="stable")[::-1][: most - 1])
    starts = [0, *(int(cut) + 1 for cut in cuts)]
    ends = [*(int(cut) for cut in cuts), len(found) - 1]
    return tuple(KeyRange(found[a], found[b]) for a, b in zip(starts, ends, strict=True))


def _places(ordered: Sequence[Any]) -> Any:
    """Where each value lies on a line: only the width of gaps is measured by it, never equality."""
    first = ordered[0]
    if isinstance(first, (str, bytes)):
        texts = [v.encode() if isinstance(v, str) else v for v in ordered]
        shared = 0
        low, high = texts[0], texts[-1]
        while shared < min(len(low), len(high)) and low[shared] == high[shared]:
            shared += 1
        return np.array([float(_number(text[shared : shared + 8])) for text in texts])
    if isinstance(first, datetime):
        return np.array([(v - first).total_seconds() for v in ordered])
    if isinstance(first, date):
        return np.array([float((v - first).days) for v in ordered])
    return np.array([float(v - first) for v in ordered])


def _number(text: bytes) -> int:
    return int.from_bytes(text.ljust(8, b"\0"), "big")


def bounds_sql(bounds: Bounds, key: Sequence[tuple[str, str]], target: str = "t") -> str:
    """The bounds as a condition on the target.

    Args:
        bounds: of the changes.
        key: the key's columns and their types as Spark calls them, the leading one first.
        target: the target's alias.
    """
    name, kind = key[0]
    column = f"{target}.{as_sql_identifier(name)}"
    parts = [_range_sql(column, r, kind) for r in bounds.ranges]
    if bounds.missing:
        parts.append(f"{column} IS NULL")
    conditions: list[str] = []
    if bounds.hashes:  # most rows fail here, before the ranges are looked at
        columns = ", ".join(f"{target}.{as_sql_identifier(n)}" for n, _ in key)
        conditions.append(among_sql(f"xxhash64({columns})", bounds.hashes, _OF_HASHES))
    if not any(r.is_all for r in bounds.ranges):
        conditions.append(f"({' OR '.join(parts) or 'false'})")
    return " AND ".join(conditions) or "true"


def _range_sql(column: str, r: KeyRange, kind: str) -> str:
    if r.closed:
        if r.lo == r.hi:
            return f"{column} = {literal(r.lo, kind)}"
        return f"{column} BETWEEN {literal(r.lo, kind)} AND {literal(r.hi, kind)}"
    ends = [f"{column} >= {literal(r.lo, kind)}"] if r.lo is not None else []
    ends += [f"{column} < {literal(r.hi, kind)}"] if r.hi is not None else []
    return f"({' AND '.join(ends)})" if len(ends) > 1 else "".join(ends)


def among_sql(number: str, numbers: Sequence[int], parts: Sequence[int] = (0,)) -> str:
    """A condition that holds where a BIGINT is one of these numbers, and of few others.

    A number is a bit of many for each of its ``parts``: its bits from there on (so a part shows
    nothing that is the same in all numbers). Spark takes longer to read and to plan a list of
    20,000 numbers than to look through millions of rows.
    """
    bits = max(64, 1 << (_SPREAD * len(numbers) - 1).bit_length())
    words = [0] * (bits // 64)
    for one in numbers:
        for part in parts:
            at = (one % 2**64 >> part) % bits
            words[at // 64] |= 1 << at % 64
    # One literal, of which Spark makes an array when it plans.
    listed = ",".join(str(word - 2**64 if word >= 2**63 else word) for word in words)
    array = f"CAST(split('{listed}', ',') AS ARRAY<BIGINT>)"
    return " AND ".join(_bit_sql(number, part, array, bits) for part in parts)


def _bit_sql(number: str, part: int, array: str, bits: int) -> str:
    at = f"(shiftrightunsigned({number}, {part}) & {bits - 1}L)"
    word = f"get({array}, CAST(shiftright({at}, 6) AS INT))"
    return f"(shiftright({word}, CAST({at} & 63L AS INT)) & 1L) = 1L"


def literal(value: Any, kind: str) -> str:
    """A value of the lake as a literal of Spark SQL, of the column's own type: a comparison that
    casts the column would not prune.

    >>> literal(7, "bigint"), literal("a'", "string")
    ("CAST('7' AS bigint)", "CAST(X'6127' AS string)")
    """
    if isinstance(value, str):
        return f"CAST(X'{value.encode().hex()}' AS string)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime):
        return _timestamp(value, kind)
    if isinstance(value, date):
        return f"DATE'{value.isoformat()}'"
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return f"CAST('{text}' AS {kind})"


def _timestamp(value: datetime, kind: str) -> str:
    if kind == "timestamp_ntz":
        return f"TIMESTAMP_NTZ'{value.isoformat(sep=' ', timespec='microseconds')}'"
    at = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    return f"TIMESTAMP_LTZ'{at.isoformat(sep=' ', timespec='microseconds')}+00:00'"
