"""Static bounds of a MERGE: conditions on the target alone that every row it can match fulfils.

A MERGE matches a row of the target whose stored key equals the stored key of a change. So the
target's leading key column holds a value of a change, and lies in every set of ranges that covers
those values; and a hash of the whole key is one of the changes' hashes. Both are evaluated by the
lake, over the lake's own values on both sides: no order and no collation of the server has a part
in it. The ranges let Iceberg leave out files; the hashes let Spark drop rows before it shuffles
them for the join.

A FLOAT or DOUBLE in the key is the exception: 0.0 and -0.0 are equal, have two hashes, and Iceberg
orders them; such a key is not pruned.

Source: Iceberg specification, "Scan Planning"; Spark SQL reference, "Comparison Operators".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.lake.catalog import as_sql_identifier

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pc: Any = _compute  # its functions are made at import: type checkers see none of them

RANGES = 16
"""At most so many ranges of the leading key column: with 50 the code that Spark makes of them was
too long for the JVM to compile, and ran three times as long."""
_SPREAD = 32
"""So many bits for each number that is told: about one other in so many shares one."""
_FLOATING = ("float", "double")


@dataclass(frozen=True)
class KeyRange:
    """Values of the leading key column, both ends included, in the lake's order."""

    lo: Any
    hi: Any


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


def bounds_of(changes: DataFrame, key: Sequence[str], *, listed: bool) -> Bounds:
    """The bounds of these changes' keys, by one job of Spark.

    Args:
        changes: the rows that a MERGE is given, with key columns as they are stored.
        key: the key's columns, the leading one first.
        listed: whether they are few enough to bring all keys here.
    """
    names = [as_sql_identifier(name) for name in key]
    if not listed:
        return _bounds_by_parts(changes, names[0])
    hashed = f"xxhash64({', '.join(names)}) AS h"
    keys: pa.Table = changes.selectExpr(hashed, f"{names[0]} AS k").toArrow()
    ranges = cover(keys["k"])
    missing = keys["k"].null_count > 0
    hashes = pc.unique(keys["h"]).to_pylist()
    return Bounds(ranges, missing, tuple(sorted(hashes)))


def _bounds_by_parts(changes: DataFrame, leading: str) -> Bounds:
    from pyspark.sql import functions as f

    keys = changes.selectExpr(f"{leading} AS k")
    parts = (
        keys.repartitionByRange(RANGES, f.col("k"))
        .groupBy(f.spark_partition_id())
        .agg(f.min("k").alias("lo"), f.max("k").alias("hi"), f.count_if(f.isnull("k")).alias("n"))
        .toArrow()
        .to_pylist()
    )
    ranges = tuple(KeyRange(p["lo"], p["hi"]) for p in parts if p["lo"] is not None)
    return Bounds(ranges, any(p["n"] for p in parts))


def cover(values: pa.ChunkedArray, most: int = RANGES) -> tuple[KeyRange, ...]:
    """At most ``most`` ranges that hold all of these values, cut where the gaps are widest.

    >>> cover(pa.chunked_array([[9, 1, 2, 8]]), most=2)
    (KeyRange(lo=1, hi=2), KeyRange(lo=8, hi=9))
    """
    found = pc.unique(values.combine_chunks()).drop_null().to_pylist()
    # Text as its bytes in UTF-8: the order of Iceberg and Spark, whatever the server's is.
    found.sort(key=lambda v: v.encode() if isinstance(v, str) else v)
    if not found:
        return ()
    places = _places(found)
    gaps = places[1:] - places[:-1]
    cuts = sorted(np.argsort(gaps, kind="stable")[::-1][: most - 1])
    starts = [0, *(int(cut) + 1 for cut in cuts)]
    ends = [*(int(cut) for cut in cuts), len(found) - 1]
    return tuple(KeyRange(found[a], found[b]) for a, b in zip(starts, ends, strict=True))


def _places(ordered: Sequence[Any]) -> Any:
    """Where each value lies on a line: only the width of gaps is judged by it, never equality."""
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
    parts = [
        f"{column} = {literal(r.lo, kind)}"
        if r.lo == r.hi
        else f"{column} BETWEEN {literal(r.lo, kind)} AND {literal(r.hi, kind)}"
        for r in bounds.ranges
    ]
    if bounds.missing:
        parts.append(f"{column} IS NULL")
    condition = f"({' OR '.join(parts) or 'false'})"
    if bounds.hashes:  # most rows fail here, before the ranges are looked at
        columns = ", ".join(f"{target}.{as_sql_identifier(n)}" for n, _ in key)
        condition = f"{among_sql(f'xxhash64({columns})', bounds.hashes)} AND {condition}"
    return condition


def among_sql(number: str, numbers: Sequence[int]) -> str:
    """A condition that holds where a BIGINT is one of these numbers, and of few others.

    A number is one bit of many, found by its own last bits: Spark takes longer to read and to plan
    a list of 20,000 numbers than to look through millions of rows.
    """
    bits = max(64, 1 << (_SPREAD * len(numbers) - 1).bit_length())
    words = [0] * (bits // 64)
    for one in numbers:
        at = one & (bits - 1)
        words[at // 64] |= 1 << at % 64
    listed = ",".join(str(word - 2**64 if word >= 2**63 else word) for word in words)
    at = f"({number} & {bits - 1}L)"
    # One literal, of which Spark makes an array when it plans.
    word = f"get(CAST(split('{listed}', ',') AS ARRAY<BIGINT>), CAST(shiftright({at}, 6) AS INT))"
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
