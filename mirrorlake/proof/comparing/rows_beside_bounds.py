"""The lake's rows beside the bounds of a check: each is looked up in MySQL by its key.

Digests compare the rows between the cursor's bounds. Beside them lie rows that were read last, rows
dated in the future, rows from before the contract's ``start``, and whatever somebody wrote there. A
row that MySQL has just so is equal at any age. Any other is a candidate, unless MySQL has moved it
past the bound: then it waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from mirrorlake.proof.comparing.compare import leaving_out
from mirrorlake.proof.forms.rows import Key, RowDigest
from mirrorlake.proof.ranges.target import MOST_BESIDE, Target
from mirrorlake.proof.sides.mysql_side import KEYS_AT_ONCE, SourceSide, one_state, text_of
from mirrorlake.proof.sides.spark_side import LakeSide
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.sessions.connect import rows_of


@dataclass
class Beside:
    """What became of the lake's rows beside the bounds.

    Attributes:
        equal: rows that MySQL has just so.
        awaited: of these, rows that need not have been in the lake yet.
        keys: rows that MySQL has not so: candidates.
        left: rows that were not compared, or that can't be identified without a key.
    """

    equal: int = 0
    awaited: int = 0
    keys: set[Key] = field(default_factory=set[Key])
    left: int = 0


def read_beside(
    spark: Any, side: LakeSide, inside: LakeSide, newer: Sequence[Key]
) -> tuple[list[RowDigest], int]:
    """The lake's rows beside the bounds (``side``), and those under some keys (``inside``); and how
    many there are more than can be looked up.

    Raises:
        LakeError: Spark, the catalog or the storage failed.
    """
    found: list[RowDigest] = []
    left = 0
    if side.where:
        found += side.read_digests(spark, f"{side.digests_sql()} LIMIT {MOST_BESIDE + 1}")
        if len(found) > MOST_BESIDE:
            left = int(spark.sql(side.count_sql()).collect()[0][0]) - MOST_BESIDE
            del found[MOST_BESIDE:]
    if newer:
        with leaving_out(spark, newer) as view:
            found += inside.read_digests(spark, inside.among_sql(view, newer))
    return found, max(left, 0)


def compare_beside(
    connection: Connection[Any],
    target: Target,
    side: SourceSide,
    rows: Sequence[RowDigest],
    newer: Collection[Key],
) -> Beside:
    """Look these rows of the lake up in MySQL.

    Args:
        newer: keys that MySQL has moved past the bound.

    Raises:
        SourceError: a statement failed.
    """
    if not rows:
        return Beside()
    with reading(target.source), one_state(connection):
        if not target.key:
            return _without_key(connection, target, side, rows)
        return _by_key(connection, target, side, Counter(rows), {*newer})


def _by_key(
    connection: Connection[Any],
    target: Target,
    side: SourceSide,
    rows: Counter[RowDigest],
    newer: set[Key],
) -> Beside:
    found = Beside()
    keys = sorted({key for key, _ in rows})
    times = Counter(key for key, _ in rows.elements())
    flag = target.scope.newer or target.scope.later or "0"
    for start in range(0, len(keys), KEYS_AT_ONCE):
        batch = keys[start : start + KEYS_AT_ONCE]
        condition = " OR ".join(f"({side.key_condition(key)})" for key in batch)
        ours = {
            tuple(map(text_of, key)): (int(digest), bool(awaited))
            for digest, *key, awaited in rows_of(connection, side.found_sql(flag, condition))
            if digest is not None
        }
        for key in batch:
            mine = ours.get(key)
            if times[key] == 1 and mine is not None and (key, mine[0]) in rows:
                found.equal += 1
                found.awaited += mine[1]
            elif times[key] > 1 or key not in newer:
                found.keys.add(key)
    return found


def _without_key(
    connection: Connection[Any], target: Target, side: SourceSide, rows: Sequence[RowDigest]
) -> Beside:
    """Rows are a multiset: those past the bound are looked for among MySQL's past the bound."""
    later = target.scope.later
    if not later:
        return Beside(left=len(rows))
    answer = rows_of(connection, side.found_sql("1", f"{later} LIMIT {MOST_BESIDE}"))
    ours = Counter(int(digest) for digest, *_ in answer if digest is not None)
    same = (ours & Counter(digest for _, digest in rows)).total()
    return Beside(equal=same, awaited=same, left=len(rows) - same)
