"""One check of one table, from what is asked to a report. Nothing of the mirror is written.

First the digests of both sides, group by group. Where they differ, the keys and digests of that
group's rows; where those differ, the rows themselves, asked for again until they are decided.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.mysql.connect import session
from mirrorlake.mysql.introspect import Column
from mirrorlake.proof.compare import (
    Cut,
    Digests,
    candidates,
    cut_for,
    proofs,
    read_lake,
    read_source,
)
from mirrorlake.proof.judge import CHANGING, Judged, judge
from mirrorlake.proof.mirror import LakeSide
from mirrorlake.proof.ranges import Range, ordered_column, plan_grid
from mirrorlake.proof.report import Ask, RangeProof, Report, Verdict
from mirrorlake.proof.scope import Scope, both, day_condition, settled_scope
from mirrorlake.proof.source import Asked, Key, SourceSide, read_bounds
from mirrorlake.proof.target import Proving, Target, read_mirror, resolve_target
from mirrorlake.spark import spark_errors

MOST = 1_000
"""Rows that differ are looked at one by one up to this number."""
TOGETHER = 500
CHUNK_ROWS = 200_000
"""About so many rows are the next chunk of a table."""


@dataclass(frozen=True)
class _Sides:
    """The statements of both sides over one target."""

    target: Target
    source: SourceSide
    lake: LakeSide


def check_table(proving: Proving, contract: TableContract, ask: Ask, most: int = MOST) -> Report:
    """Compare the rows that are asked for, exactly.

    Args:
        most: so many rows that differ are judged one by one; the others are only counted.

    Raises:
        SchemaError: the table can't be compared as it is, see `resolve_target`.
        SourceError: MySQL could not be asked; a failed look is never a verdict.
        LakeError: Spark, the catalog or the storage failed.
        ProofError: nothing is mirrored yet, or it is too far behind.
        ConfigError: these rows can't be chosen in this table.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    source = proving.config.sources[contract.source]
    with session(source, contract.database) as connection:
        asked = Asked(connection)
        target = resolve_target(proving, contract, connection)
        if ask.kind == "next":
            ask = next_chunk(proving, connection, target)
        sides = _sides(target, ask)
        cut = _plan(connection, sides, ask)
        digests = read_source(connection, target, sides.source, cut)
        with spark_errors(contract.name):
            spark = proving.spark.get()
            digests.lake = read_lake(spark, sides.lake, cut, digests.newer)
            judged, unlooked = Judged(), 0
            if digests.differing:
                judged, unlooked = _look(connection, spark, proving, sides, ask, cut, digests, most)
        sent = asked.bytes
    ranges = proofs(target, cut, digests)
    verdict = _verdict(ranges, judged, unlooked)
    return Report(
        table=contract.name,
        ask=ask,
        scope=target.scope.words,
        verdict=verdict,
        ranges=tuple(_settled(r, verdict) for r in ranges),
        waiting=len(digests.newer),
        differences=tuple(judged.differences),
        keys=tuple(judged.keys),
        unlooked=unlooked,
        ignored=judged.ignored,
        undecided=dict(judged.undecided),
        server=target.position.server,
        position=target.position.position,
        source_time=target.position.clock,
        snapshot=target.mirror.snapshot,
        through=target.mirror.load.seq,
        started=started,
        seconds=round(time.monotonic() - clock, 3),
        bytes=sent + digests.bytes,
        statements=_statements(sides, cut),
    )


def _sides(target: Target, ask: Ask) -> _Sides:
    chosen = _conditions(target, ask)
    scope = target.scope
    source = SourceSide(
        target.table, target.rows, target.key, both(scope.source, chosen[0]), scope.settled
    )
    lake = LakeSide(
        target.mirror.identifier,
        target.mirror.snapshot,
        target.rows,
        source.key_forms,
        both(scope.lake, chosen[1]),
        flags=target.flags,
    )
    return _Sides(target, source, lake)


def _conditions(target: Target, ask: Ask) -> tuple[str, str]:
    """What is asked for as conditions of both sides."""
    if ask.kind == "partition" and ask.day is not None:
        return day_condition(target.table, target.contract, ask.day)
    if ask.kind == "where":
        return ask.where, ask.where
    if ask.keys == Range():
        return "", ""
    column = _ordered(target)
    if column is None:
        raise ConfigError(
            f"table {target.name}: its key does not begin with an integer that may be shown, so a "
            "range of keys can't be checked",
            table=target.name,
            next_step="Use --full, --partition or --where",
        )
    return ask.keys.source(column), ask.keys.lake(column)


def _ordered(target: Target) -> Column | None:
    """The column whose ranges cut the table; never one whose values are not to be told."""
    column = ordered_column(target.key)
    rule = target.contract.column_rule(column.name) if column else None
    return None if rule is not None and rule.pii is not None else column


def next_chunk(proving: Proving, connection: Connection[Any], target: Target) -> Ask:
    """The next range of keys of a table, about ``CHUNK_ROWS`` of them, from the ledger's offset.

    The last one of a table is open above, the first one below. A table without ordered keys is one
    chunk: any part of it would cost MySQL as much as the whole.
    """
    column = _ordered(target)
    rows = target.table.estimated_rows
    side = _sides(target, Ask()).source
    bounds = None if column is None else read_bounds(connection, side, column, "")
    if bounds is None or rows <= CHUNK_ROWS:
        return Ask("next")
    low, high = bounds
    offset = proving.ledger.proof_offset(target.name)
    # The key column may be another one than it was.
    known = offset is not None and offset.lstrip("-").isdigit() and low < int(offset) <= high
    first = int(str(offset)) if known else None
    width = max(1, (high + 1 - low) * CHUNK_ROWS // rows)
    end = (low if first is None else first) + width
    return Ask("next", keys=Range(first, end if end <= high else None))


def _plan(connection: Connection[Any], sides: _Sides, ask: Ask) -> Cut:
    target = sides.target
    column = _ordered(target)
    if column is None:
        return cut_for(target, None)
    bounds = read_bounds(connection, sides.source, column, ask.keys.source(column))
    low = ask.keys.lo or 0
    low, high = bounds or (low, low)
    return cut_for(target, plan_grid(column, ask.keys, low, high, target.table.estimated_rows))


def _look(
    connection: Connection[Any],
    spark: Any,
    proving: Proving,
    sides: _Sides,
    ask: Ask,
    cut: Cut,
    digests: Digests,
    most: int,
) -> tuple[Judged, int]:
    """Down to the rows, and each judged again; how many rows and groups were not looked at."""
    both_sides = (sides.source, sides.lake)
    found = candidates(connection, spark, sides.target, both_sides, cut, digests)
    keys = sorted(found.keys)
    judged = Judged()
    if not keys:
        judged.undecided[CHANGING] += len(digests.differing)
    looked = 0
    while looked < len(keys) and len(judged.differences) < most:
        some: Sequence[Key] = keys[looked : looked + TOGETHER]
        newest = _newest(proving, sides, ask)
        decided = judge(connection, spark, newest.target, newest.source, newest.lake, some)
        judged.differences += decided.differences
        judged.keys += decided.keys
        judged.undecided += decided.undecided
        judged.ignored += decided.ignored
        looked += len(some)
    return judged, found.left + len(keys) - looked


def _newest(proving: Proving, sides: _Sides, ask: Ask) -> _Sides:
    """The sides over the mirror as it is now."""
    target = sides.target
    mirror, _ = read_mirror(proving, target.contract)
    if mirror == target.mirror:
        return sides
    scope: Scope = settled_scope(target.table, target.contract, target.source, mirror.load)
    return _sides(replace(target, mirror=mirror, scope=scope), ask)


def _verdict(ranges: Sequence[RangeProof], judged: Judged, unlooked: int) -> Verdict:
    if judged.differences:
        return "different"
    if all(r.verdict == "equal" for r in ranges):
        return "equal"
    # Every candidate was judged again, and none was left: MySQL and the mirror met meanwhile.
    return "undecided" if judged.undecided or unlooked else "equal"


def _settled(proof: RangeProof, verdict: Verdict) -> RangeProof:
    """A range whose digests differ has the whole check's verdict."""
    return proof if proof.verdict == "equal" else replace(proof, verdict=verdict)


def _statements(sides: _Sides, cut: Cut) -> dict[str, str]:
    """The SQL that digested both sides, for anyone who wants to run it again."""
    source, lake = sides.source, sides.lake
    newer = sides.target.scope.newer
    told = {
        "mysql": source.groups_sql(cut.source(source)),
        "spark": lake.groups_sql(cut.lake(lake)),
    }
    return {**told, "mysql, keys left out": source.keys_sql(newer)} if newer else told


def undecided_words(undecided: Counter[str] | dict[str, int]) -> str:
    """Why rows could not be decided, in one line."""
    return "; ".join(f"{count} rows {reason}" for reason, count in sorted(undecided.items()))
