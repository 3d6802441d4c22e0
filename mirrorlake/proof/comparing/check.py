"""One check of one table, from what is requested to a report. Nothing of the mirror is written.

First the digests of both sides, group by group. Where they differ, the keys and digests of that
group's rows; where those differ, the rows themselves, read again until they are decided.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.proof.comparing.compare import (
    Digests,
    KeyCut,
    candidates,
    cut_for,
    proofs,
    read_lake,
    read_source,
)
from mirrorlake.proof.comparing.recheck import CHANGING, Rechecked, recheck
from mirrorlake.proof.comparing.report import Ask, Report
from mirrorlake.proof.comparing.resolve import read_mirror, resolve_target
from mirrorlake.proof.comparing.rows_beside_bounds import Beside, compare_beside, read_beside
from mirrorlake.proof.comparing.sides import Sides, refuse_unreadable, sides_of, statements_of
from mirrorlake.proof.comparing.verdict import settled_ranges, uncompared, verdict_of
from mirrorlake.proof.coverage.days import Days, whole_days
from mirrorlake.proof.forms.rows import Key, RowDigest
from mirrorlake.proof.ranges.keys import is_one_integer, ordered_of, parts_of, resolve_keys
from mirrorlake.proof.ranges.named_ranges import conditions_of
from mirrorlake.proof.ranges.order import Part, after_condition, bound_of, span_conditions
from mirrorlake.proof.ranges.ranges import (
    Cells,
    Range,
    Span,
    Tally,
    bound_text,
    bucket_count,
    plan_grid,
    total,
)
from mirrorlake.proof.ranges.scope import Scope, settled_scope
from mirrorlake.proof.ranges.target import Target, named
from mirrorlake.proof.sides.local_side import LOCAL_ROWS, Local, digest_locally
from mirrorlake.proof.sides.mysql_side import SessionTraffic, read_bounds
from mirrorlake.sources.mysql.introspection.introspect import read_sizes
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.sessions.connect import rows_of, session
from mirrorlake.workspace import Workspace

MOST = 1_000
"""Rows that differ are looked at one by one up to this number."""
TOGETHER = 500
_MOST_OPEN = 10_000
"""Rows that can't be decided yet are looked at one by one up to this number."""
CHUNK_ROWS = 100_000
"""MySQL's rows in the next chunk of a table."""
SMALL_BYTES, SMALL_ROW = 64 * 1024**2, 400
"""Tables up to this many bytes, or with rows up to this many, are read without Spark: there is room
for them in memory."""


def check_table(
    workspace: Workspace, contract: TableContract, ask: Ask, most: int = MOST
) -> Report:
    """Compare the rows that are requested, exactly.

    Args:
        most: how many rows that differ are looked at one by one; the others are only counted.

    Raises:
        SchemaError: the table can't be compared as it is, see `resolve_target`.
        SourceError: MySQL could not be queried; a failed look is never a verdict.
        LakeError: Spark, the catalog or the storage failed.
        ProofError: nothing is mirrored yet, or it is too far behind.
        ConfigError: these rows can't be chosen in this table.
    """
    started, clock = datetime.now(UTC), time.monotonic()
    found = _read(workspace, contract, ask, most)
    return _report(found, started, time.monotonic() - clock)


@dataclass(frozen=True)
class _Found:
    """What both sides said; ``later``: MySQL's rows that need not be in the lake yet."""

    ask: Ask
    sides: Sides
    cut: KeyCut
    digests: Digests
    beside: Beside
    rechecked: Rechecked
    unlooked: int
    later: int
    sent: int


def _read(workspace: Workspace, contract: TableContract, ask: Ask, most: int) -> _Found:
    source = workspace.config.sources[contract.source]
    with session(source, contract.database) as connection:
        traffic = SessionTraffic(connection)
        target = resolve_target(workspace, contract, connection)
        if ask.named is not None:
            ask = replace(ask, keys=resolve_keys(target, ask.named), named=None)
        if ask.kind == "next":
            ask = _next_chunk(workspace, connection, target)
        sides = sides_of(target, ask)
        if ask.kind == "where":
            refuse_unreadable(connection, sides, workspace.spark)
        cut = _plan(connection, sides, ask)
        digests, listed = _read_both(workspace, connection, sides, ask, cut)
        beside = _look_beside(workspace, connection, sides, digests, listed)
        rechecked, unlooked = Rechecked(), 0
        if digests.differing or beside.keys:
            with spark_errors(contract.name):
                spark = workspace.spark.get()
                rechecked, unlooked = _look(
                    connection, spark, workspace, sides, ask, cut, digests, beside, most
                )
        later = _count_later(connection, sides)
        return _Found(
            *(ask, sides, cut, digests, beside, rechecked, unlooked, later), sent=traffic.bytes
        )


def _report(found: _Found, started: datetime, seconds: float) -> Report:
    target, digests, rechecked = found.sides.target, found.digests, found.rechecked
    ranges = proofs(target, found.cut, digests)
    waiting = max(0, len(digests.newer) + found.later - found.beside.awaited) + rechecked.waiting
    rechecked.undecided += uncompared(ranges, found.beside, waiting)
    verdict = verdict_of(rechecked, found.unlooked)
    return Report(
        table=target.name,
        ask=found.ask,
        scope=target.scope.words,
        verdict=verdict,
        ranges=settled_ranges(ranges, verdict, found.beside),
        waiting=waiting,
        beside=found.beside.equal,
        differences=tuple(rechecked.differences),
        keys=tuple(rechecked.keys),
        unlooked=found.unlooked,
        ignored=rechecked.ignored,
        undecided=dict(rechecked.undecided),
        server=target.position.server,
        position=target.position.position,
        source_time=target.position.clock,
        snapshot=target.mirror.snapshot,
        through=target.mirror.through,
        started=started,
        seconds=round(seconds, 3),
        bytes=found.sent + digests.bytes,
        statements=statements_of(found.sides, found.cut),
        days=_days(target, found.ask),
        differing_days=dict(rechecked.days),
        not_mirrored=target.not_mirrored,
    )


def _days(target: Target, ask: Ask) -> Days | None:
    """The days that a check compares as a whole, within what was requested."""
    days = None if ask.kind == "where" else whole_days(target)
    if ask.kind != "partition" or days is None or ask.day is None:
        return days
    return Days(ask.day, ask.day + timedelta(days=1)) if ask.day in days else None


def _next_chunk(workspace: Workspace, connection: Connection[Any], target: Target) -> Ask:
    """The next range of keys of a table, ``CHUNK_ROWS`` of MySQL's rows, from the ledger's offset.

    The last one of a table is open above, the first one below. A table whose key both sides do not
    order alike is one chunk: any part of it would cost MySQL as much as the whole.
    """
    parts = parts_of(target)
    if not parts:
        return Ask("next")
    offset = workspace.ledger.proof_offset(target.name)
    alone = is_one_integer(target)
    # The key may be another one than it was.
    first = bound_of(json.dumps([offset]) if alone else offset, parts)
    beyond, _ = span_conditions(parts, Span(first))
    end = _read_bound(connection, target, parts, beyond, CHUNK_ROWS)
    if end is not None and end == first:
        # More rows than a chunk's have these leading cells: they are one.
        end = _read_bound(connection, target, parts, after_condition(parts, end), 0)
    if alone:
        return Ask("next", keys=Range(*(int(b[0]) if b else None for b in (first, end))))
    return Ask("next", keys=Span(first, end) if first or end else Range())


def _read_bound(
    connection: Connection[Any], target: Target, parts: Sequence[Part], beyond: str, row: int
) -> Cells | None:
    """The leading cells of the key that comes after ``row`` rows of a condition, as the server
    orders them; None past the last."""
    side = sides_of(target, Ask()).source
    order, forms = [part.source for part in parts], [part.form for part in parts]
    with reading(target.source):
        found = side.read_keys(connection, side.key_at_sql(order, forms, beyond, row))
    return bound_of(bound_text(found[0]), parts) if found else None


def _plan(connection: Connection[Any], sides: Sides, ask: Ask) -> KeyCut:
    target = sides.target
    rows = target.table.estimated_rows
    if ask.kind == "next":
        rows = min(rows, CHUNK_ROWS)
    if isinstance(ask.keys, Span):
        within, _ = conditions_of(parts_of(target), ask.keys)
        return KeyCut(None, bucket_count(rows), ask.keys, within, rows)
    column = ordered_of(target)
    if column is None:
        return replace(cut_for(target, None), rows=rows)
    bounds = read_bounds(connection, sides.source, column, ask.keys.source(column))
    low = ask.keys.lo or 0
    low, high = bounds or (low, low)
    return KeyCut(plan_grid(column, ask.keys, low, high, rows), rows=rows)


def _fits(connection: Connection[Any], target: Target, ask: Ask) -> bool:
    """Whether what is requested is digested without Spark first: rows of any number that are not
    wide, or a small table. A day or a condition is Spark's to find."""
    if ask.kind in ("partition", "where") or target.table.estimated_rows > LOCAL_ROWS:
        return False
    whole, row = read_sizes(connection, target.table.database, target.table.name)
    return whole <= SMALL_BYTES or row <= SMALL_ROW


def _read_both(
    workspace: Workspace, connection: Connection[Any], sides: Sides, ask: Ask, cut: KeyCut
) -> tuple[Digests, list[RowDigest] | None]:
    """The groups of both sides, and the lake's rows beside the bounds where they are known. The
    lake digests while MySQL does, as soon as MySQL has named the keys that it must leave out."""
    target, newer = sides.target, Future[list[Key]]()
    local = _fits(connection, target, ask)

    def read_meanwhile() -> dict[int, Tally] | Local:
        if local:
            parts = parts_of(target)
            found = digest_locally(workspace.lake, target, parts, ask.keys, newer.result())
            if found is not None:
                return found
        with spark_errors(target.name):
            return read_lake(workspace.spark.get(), sides.lake, cut, newer.result())

    with ThreadPoolExecutor(1) as beside:
        lake = beside.submit(read_meanwhile)
        try:
            digests = read_source(connection, target, sides.source, cut, newer.set_result)
        finally:
            # Whatever went wrong: nobody waits for keys that will not come.
            newer.cancel()
        found = lake.result()
    if not isinstance(found, Local):
        digests.lake = found
        return digests, None
    if found.tally == total(digests.source):
        digests.lake = dict(digests.source)
    else:
        with spark_errors(target.name):
            digests.lake = read_lake(workspace.spark.get(), sides.lake, cut, digests.newer)
    return digests, found.beside


def _look_beside(
    workspace: Workspace,
    connection: Connection[Any],
    sides: Sides,
    digests: Digests,
    listed: list[RowDigest] | None,
) -> Beside:
    """What became of the lake's rows beside the cursor's bounds.

    Args:
        listed: those rows, where they were read without Spark; it reads them again where one of
            them is not MySQL's.
    """
    target, newer = sides.target, digests.newer
    if listed is not None:
        found = compare_beside(connection, target, sides.source, listed, newer)
        if not found.keys and not found.left:
            return found
    among = named(target, newer)
    if not sides.beside.where and not among:
        return Beside()
    with spark_errors(target.name):
        rows, left = read_beside(workspace.spark.get(), sides.beside, sides.chosen, among)
    found = compare_beside(connection, target, sides.source, rows, newer)
    found.left += left
    return found


def _count_later(connection: Connection[Any], sides: Sides) -> int:
    """MySQL's rows that need not be in the lake yet, where their keys were not read."""
    if not sides.later.where:
        return 0
    with reading(sides.target.source):
        return int(rows_of(connection, sides.later.count_sql())[0][0])


def _look(
    connection: Connection[Any],
    spark: Any,
    workspace: Workspace,
    sides: Sides,
    ask: Ask,
    cut: KeyCut,
    digests: Digests,
    beside: Beside,
    most: int,
) -> tuple[Rechecked, int]:
    """Down to the rows, and each of them rechecked; how many rows and groups were not looked at."""
    both_sides = (sides.source, sides.lake)
    found = candidates(connection, spark, sides.target, both_sides, cut, digests)
    keys = sorted(found.keys | beside.keys)
    rechecked = Rechecked()
    if not keys:
        rechecked.undecided[CHANGING] += len(digests.differing)
    looked = 0
    while (
        looked < len(keys) and len(rechecked.differences) < most and _open(rechecked) < _MOST_OPEN
    ):
        some: Sequence[Key] = keys[looked : looked + TOGETHER]
        newest = _newest(workspace, sides, ask)
        decided = recheck(connection, spark, newest.target, newest.source, newest.lake, some)
        rechecked.differences += decided.differences
        rechecked.keys += decided.keys
        rechecked.undecided += decided.undecided
        rechecked.ignored += decided.ignored
        rechecked.waiting += decided.waiting
        rechecked.days += decided.days
        looked += len(some)
    return rechecked, found.left + len(keys) - looked


def _open(rechecked: Rechecked) -> int:
    """Rows that were looked at and can't be decided yet."""
    return rechecked.undecided.total() + rechecked.waiting


def _newest(workspace: Workspace, sides: Sides, ask: Ask) -> Sides:
    """The sides over the mirror as it is now."""
    target = sides.target
    mirror, _ = read_mirror(workspace, target.contract)
    if mirror == target.mirror:
        return sides
    parts = (target.table, target.contract, target.source, mirror.load)
    scope: Scope = settled_scope(*parts, still=False)
    return sides_of(replace(target, mirror=mirror, scope=scope), ask)
