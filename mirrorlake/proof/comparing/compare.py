"""Digests of both sides, group by group; then the keys of the groups that differ."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import ProofError
from mirrorlake.proof.forms.rows import Key
from mirrorlake.proof.ranges.ranges import (
    GROUP_ROWS,
    Grid,
    Range,
    RangeProof,
    Span,
    Tallies,
    Tally,
    bucket_count,
    differing,
    plan_grid,
    total,
)
from mirrorlake.proof.ranges.scope import both
from mirrorlake.proof.ranges.target import Target
from mirrorlake.proof.sides.mysql_side import SessionTraffic, SourceSide, one_state
from mirrorlake.proof.sides.spark_side import LakeSide, key_view
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.sources.mysql.sessions.connect import session

MOST_WAITING = 500_000
"""More keys that wait than this are a mirror that is far behind, not a moving source."""
FETCHED = 5 * GROUP_ROWS
"""Groups of more rows are cut again before the keys of their rows are fetched: into two groups at
least, or they would be cut for ever. So it is no number of its own."""
MOST_ROWS = 400_000
"""Rows of groups that differ whose keys are fetched; the other groups are only counted."""


@dataclass(frozen=True)
class KeyCut:
    """How the rows are cut: by a grid over the key, or into ``buckets``; these of a span of keys
    alone, where there is one (``within``: MySQL's condition of it). ``rows``: about how many they
    are; 0 for as many as the table has."""

    grid: Grid | None
    buckets: int = 1
    span: Span | None = None
    within: str = ""
    rows: int = 0

    def source(self, side: SourceSide) -> str:
        return self.grid.source if self.grid else side.bucket(self.buckets)

    def lake(self, side: LakeSide) -> str:
        return self.grid.lake if self.grid else side.bucket(self.buckets)


@dataclass
class Digests:
    """Both sides' groups; ``newer``: keys that MySQL has moved past the bound."""

    source: dict[int, Tally] = field(default_factory=dict[int, Tally])
    lake: dict[int, Tally] = field(default_factory=dict[int, Tally])
    newer: list[Key] = field(default_factory=list[Key])
    bytes: int = 0

    @property
    def differing(self) -> list[int]:
        return differing(self.source, self.lake)


def read_source(
    connection: Connection[Any],
    target: Target,
    side: SourceSide,
    cut: KeyCut,
    on_newer: Callable[[list[Key]], None] | None = None,
) -> Digests:
    """MySQL's groups: statements are shared out among the connections that the source allows.

    Args:
        on_newer: called with all keys that MySQL has moved past the bound as soon as they are
            known, while digests are still made; at most once.

    Raises:
        SourceError: a statement failed.
        ProofError: too many rows wait.
    """
    spans = list(_spans(cut, target))
    moves = bool(target.scope.newer and target.key)
    if on_newer is not None and not moves:
        on_newer([])
    shared = _Shared(target, side, cut, spans, on_newer if moves else None)
    helpers = min(target.source.connections, len(spans), 2) - 1
    threads = [threading.Thread(target=shared.work_beside, daemon=True) for _ in range(helpers)]
    for thread in threads:
        thread.start()
    try:
        shared.work(connection)
    finally:
        # Whether it went well or not: no statement of ours is left running.
        for thread in threads:
            thread.join()
    if shared.failed:
        raise shared.failed[0]
    return shared.found


class _Shared:
    """Spans of groups that several connections read; the first failure ends all."""

    def __init__(
        self,
        target: Target,
        side: SourceSide,
        cut: KeyCut,
        spans: Sequence[range],
        on_newer: Callable[[list[Key]], None] | None,
    ) -> None:
        self._target, self._side, self._cut = target, side, cut
        self._left, self._unread, self._on_newer = deque(spans), len(spans), on_newer
        self._lock = threading.Lock()
        self.found = Digests()
        self.failed: list[BaseException] = []

    def work_beside(self) -> None:
        """In a thread: on a connection of its own, whose bytes it counts."""
        try:
            with session(self._target.source, self._target.table.database) as connection:
                traffic = SessionTraffic(connection)
                self.work(connection)
                with self._lock:
                    self.found.bytes += traffic.bytes
        except BaseException as error:  # noqa: BLE001 (raised again by the thread that waits)
            self.failed.append(error)

    def work(self, connection: Connection[Any]) -> None:
        """Read spans until none is left, or one failed."""
        while self._left and not self.failed:
            try:
                groups = self._left.popleft()
            except IndexError:
                return
            try:
                self._add(self._read(connection, groups))
            except BaseException as error:
                self.failed.append(error)
                raise

    def _read(self, connection: Connection[Any], groups: range) -> Tallies:
        target, side = self._target, self._side
        within = _within_source(self._cut, groups)
        with reading(target.source), one_state(connection):
            newer: list[Key] = []
            if target.scope.newer and target.key:
                newer = side.read_keys(connection, side.keys_sql(target.scope.newer, within))
            self._add_newer(newer)
            return side.read_groups(connection, side.groups_sql(self._cut.source(side), within))

    def _add_newer(self, newer: Sequence[Key]) -> None:
        with self._lock:
            self.found.newer += newer
            if len(self.found.newer) > MOST_WAITING:
                raise _too_far_behind(self._target)
            self._unread -= 1
            last = self._unread == 0
        if last and self._on_newer is not None:
            self._on_newer(list(self.found.newer))

    def _add(self, tallies: Tallies) -> None:
        with self._lock:
            self.found.source.update(tallies)


def _spans(cut: KeyCut, target: Target) -> Iterable[range]:
    rows = cut.rows or target.table.estimated_rows
    return cut.grid.queries(rows) if cut.grid else [range(cut.buckets)]


def _within_source(cut: KeyCut, groups: range) -> str:
    return cut.grid.span_of(groups).source(cut.grid.column) if cut.grid else cut.within


def _too_far_behind(target: Target) -> ProofError:
    return ProofError(
        f"table {target.name}: more than {MOST_WAITING:,} rows changed in MySQL since the mirror's "
        "newest load, less the settle time",
        table=target.name,
        next_step="Sync it first",
    )


def read_lake(spark: Any, side: LakeSide, cut: KeyCut, newer: Sequence[Key]) -> dict[int, Tally]:
    """The lake's groups, without the rows that MySQL has moved past the bound."""
    whole = cut.grid.whole.lake(cut.grid.column) if cut.grid else ""
    with leaving_out(spark, newer) as without:
        return side.read_groups(spark, side.groups_sql(cut.lake(side), whole, without=without))


@contextmanager
def leaving_out(spark: Any, keys: Sequence[Key]) -> Iterator[str]:
    """The view of these keys, '' for none."""
    with ExitStack() as stack:
        yield stack.enter_context(key_view(spark, keys)) if keys else ""


def proofs(target: Target, cut: KeyCut, digests: Digests) -> tuple[RangeProof, ...]:
    """Both sides per range of keys that one statement digested, and what the lake has beyond."""
    differing_groups = set(digests.differing)
    if cut.grid is None:
        verdict = "undecided" if differing_groups else "equal"
        return (RangeProof(cut.span, total(digests.source), total(digests.lake), verdict),)
    found: list[RangeProof] = []
    spans = list(_spans(cut, target))
    for number, span in enumerate(spans):
        low = -1 if number == 0 else span[0]
        high = cut.grid.count if number == len(spans) - 1 else span[-1]
        groups = range(low, high + 1)
        ours, theirs = _part(digests.source, groups), _part(digests.lake, groups)
        verdict = "undecided" if differing_groups & set(groups) else "equal"
        keys = Range(cut.grid.range_of(low).lo, cut.grid.range_of(high).hi)
        found.append(RangeProof(keys, ours, theirs, verdict))
    return tuple(found)


def _part(tallies: Tallies, groups: range) -> Tally:
    found = Tally(0, 0)
    for group, tally in tallies.items():
        if group in groups:
            found += tally
    return found


@dataclass
class Candidates:
    """The keys of rows that are not alike, and how many groups that differ were not looked into."""

    keys: set[Key] = field(default_factory=set[Key])
    left: int = 0
    rows: int = 0


def candidates(
    connection: Connection[Any],
    spark: Any,
    target: Target,
    sides: tuple[SourceSide, LakeSide],
    cut: KeyCut,
    digests: Digests,
    found: Candidates | None = None,
) -> Candidates:
    """The keys of rows that are not alike in the groups that differ; large groups are cut again.

    About ``MOST_ROWS`` rows are fetched, at most: groups beyond are counted.
    """
    found = found or Candidates()
    small: list[int] = []
    for group in digests.differing:
        again = _cut_again(cut, digests, group)
        rows = _rows_of(digests, group)
        if found.rows and found.rows + min(rows, FETCHED) > MOST_ROWS:
            found.left += 1
        elif again is None:
            found.rows += rows
            small.append(group)
        else:
            finer = read_source(connection, target, sides[0], again)
            finer.lake = read_lake(spark, sides[1], again, finer.newer)
            digests.bytes += finer.bytes
            candidates(connection, spark, target, sides, again, finer, found)
            if cut.grid is None:
                return found  # the finer buckets are of the whole table
    if small:
        found.keys |= _unlike(connection, spark, sides, cut, digests, small)
    return found


def _rows_of(digests: Digests, group: int) -> int:
    sides = (digests.source.get(group), digests.lake.get(group))
    return max(side.rows for side in sides if side)


def _cut_again(cut: KeyCut, digests: Digests, group: int) -> KeyCut | None:
    """A finer cut of a group that is too large to fetch; None where it is not, or can't be cut."""
    rows = _rows_of(digests, group)
    if rows <= FETCHED:
        return None
    if cut.grid is None:
        buckets = bucket_count(max(total(digests.source).rows, total(digests.lake).rows))
        return replace(cut, buckets=buckets) if buckets > cut.buckets else None
    keys = cut.grid.range_of(group)
    if keys.lo is None or keys.hi is None or keys.hi - keys.lo < 2:
        return None
    grid = plan_grid(cut.grid.column, keys, keys.lo, keys.hi - 1, rows)
    # One group again would be the same one, and be cut again, and again.
    return KeyCut(grid) if grid.count > 1 else None


def _unlike(
    connection: Connection[Any],
    spark: Any,
    sides: tuple[SourceSide, LakeSide],
    cut: KeyCut,
    digests: Digests,
    groups: Sequence[int],
) -> set[Key]:
    source, lake = sides
    ours: Counter[tuple[Key, int]] = Counter()
    with leaving_out(spark, digests.newer) as without, ThreadPoolExecutor(1) as beside:
        chosen = lake.digests_sql(_lake_condition(lake, cut, groups), without=without)
        reads = beside.submit(lake.read_digests, spark, chosen)
        for condition in _source_conditions(source, cut, groups):
            ours.update(source.read_digests(connection, source.digests_sql(condition)))
        theirs = Counter(reads.result())
    return {key for key, _ in (ours - theirs)} | {key for key, _ in (theirs - ours)}


def _source_conditions(side: SourceSide, cut: KeyCut, groups: Sequence[int]) -> Iterator[str]:
    if cut.grid is None:
        listed = ", ".join(map(str, groups))
        yield f"{side.bucket(cut.buckets)} IN ({listed})"
        return
    for group in groups:
        if 0 <= group < cut.grid.count:
            yield cut.grid.range_of(group).source(cut.grid.column)


def _lake_condition(side: LakeSide, cut: KeyCut, groups: Sequence[int]) -> str:
    listed = ", ".join(map(str, groups))
    chosen = f"{cut.lake(side)} IN ({listed})"
    if cut.grid is None:
        return chosen
    whole = Range(cut.grid.range_of(groups[0]).lo, cut.grid.range_of(groups[-1]).hi)
    return both(whole.lake(cut.grid.column), chosen)


def cut_for(target: Target, grid: Grid | None) -> KeyCut:
    """The cut of a table: its grid, or as many buckets as its rows need."""
    return KeyCut(grid, 1 if grid else bucket_count(target.table.estimated_rows))
