"""Every row of the published table, traced to the files of the snapshots that it is folded from.

It uses none of the fold's digests, cells, strategies and side tables. Every snapshot that the
version holds and whose files can be read is read once; per key the rows of all of them, and the
table's, come together in one shuffle, each as a digest. What the table must hold then follows from
the rule alone: the row of the last snapshot that has the key, in `SNAPSHOT` the first of the
snapshots without a gap that have it just so.

What a snapshot that can't be read might have said is never assumed. A row that contradicts the
files which are there is a difference all the same; a row that only such a snapshot could vouch for
is counted as undecided.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING, Literal

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.landing.fold.differences import DifferenceReader
from mirrorlake.landing.fold.retention import floor_of
from mirrorlake.landing.fold.row_texts import digest_sql
from mirrorlake.landing.fold.shape import SnapshotTable, before_sql
from mirrorlake.landing.fold.state import MOST, State
from mirrorlake.proof.forms.differences import Difference
from mirrorlake.schema.own_columns import SNAPSHOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SEEN, _ENTRY, _ROWS, _TOP, _RUN, _CHECKED, _PLACE = (
    f"_mirror_{name}" for name in ("seen", "entry", "rows", "top", "run", "checked", "place")
)
_KIND = "_mirror_kind"


@dataclass(frozen=True)
class Traced:
    """What became of one trace.

    Attributes:
        version: the lake table's snapshot that was read.
        snapshot: the newest snapshot in it; ``snapshots``: how many it holds.
        unread: those whose files can't be read, and why.
        rows: of the table; ``kept``: of these, those that the newest snapshot lacks.
        expected: rows of the newest snapshot inside its window.
        missing, extra, changed: how many rows differ, by kind.
        undecided: rows whose values no readable file can vouch for, and keys that may be missing.
        undecided_since: rows whose values are those of the files, and whose `SNAPSHOT` depends on a
            file that can't be read.
        differences: at most as many as were requested; they hold values.
    """

    version: int
    snapshot: int
    snapshots: int
    unread: Mapping[int, str]
    rows: int = 0
    kept: int = 0
    expected: int = 0
    missing: int = 0
    extra: int = 0
    changed: int = 0
    undecided: int = 0
    undecided_since: int = 0
    differences: tuple[Difference, ...] = ()

    @property
    def differing(self) -> int:
        return self.missing + self.extra + self.changed

    @property
    def verdict(self) -> Literal["equal", "different", "undecided"]:
        if self.differing:
            return "different"
        return "undecided" if self.undecided or self.undecided_since else "equal"

    @property
    def equal(self) -> bool:
        return self.verdict == "equal"


@dataclass(frozen=True)
class _Line:
    """The snapshots that a version holds, by number, and what is known of each.

    Attributes:
        ids: their numbers. Where the oldest were forgotten, the first stands for all of them.
        there: whether the files of each can be read.
    """

    ids: tuple[int, ...]
    there: tuple[bool, ...]
    forgotten: bool

    @property
    def last_gap(self) -> int:
        """The place of the newest that can't be read; -1 where all can."""
        return max((i for i, there in enumerate(self.there) if not there), default=-1)

    def place_sql(self, number: str) -> str:
        """The place of a snapshot's number; -1 of one that the version does not hold."""
        ids = ", ".join(f"{one}L" for one in self.ids)
        found = f"coalesce(CAST(array_position(array({ids}), {number}) AS INT) - 1, -1)"
        if self.forgotten:
            return f"IF({number} < {self.ids[1]}L, 0, {found})"
        return found

    def there_sql(self, place: str) -> str:
        """Whether the snapshot at a place (0 or more) can be read."""
        if all(self.there):
            return "TRUE"
        return f"array({', '.join(str(t) for t in self.there)})[{place}]"

    def count_sql(self, first: str, before: str) -> str:
        """How many of the places from ``first`` up to ``before`` can be read."""
        sums = [sum(self.there[:i]) for i in range(len(self.there) + 1)]
        known = f"array({', '.join(map(str, sums))})"
        return f"({known}[{before}] - {known}[{first}])"


def _line_of(state: State, frames: Mapping[int, DataFrame]) -> _Line:
    ids = tuple(one.id for one in state.taken)
    there = tuple(one in frames for one in ids)
    forgotten = len(ids) >= MOST
    if forgotten:
        ids, there = (ids[0] - 1, *ids), (False, *there)
    return _Line(ids, there, forgotten)


def trace_table(
    spark: SparkSession,
    table: SnapshotTable,
    version: int,
    state: State,
    frames: Mapping[int, DataFrame],
    unread: Mapping[int, str],
    most: int = 1_000,
) -> Traced:
    """Trace every row of a version to the snapshots that it holds.

    Each frame is read once, and once more where rows differ; nothing is written.

    Args:
        frames: by number, the rows of the snapshots whose files can be read, with the table's
            columns and types; ``unread``: why those of the others can't.
        most: how many differences are looked at and reported.

    Raises:
        LakeError: Spark or the storage failed.
    """
    traced = Traced(version, state.taken[-1].id, len(state.taken), dict(unread))
    with spark_errors(table.name):
        trace = _Trace(spark, table, version, state, dict(frames))
        found = trace.count()
        wrong = trace.unlike(found)
        if wrong:
            # Their files are those that were folded, and are read in another way now.
            left = {number: frame for number, frame in frames.items() if number not in wrong}
            return trace_table(spark, table, version, state, left, {**unread, **wrong}, most)
        counts = {name: sum(part[name] for part in found if part["place"] < 0) for name in _COUNTS}
        newest = len(trace.line.ids) - 1
        expected = sum(part["copies"] for part in found if part["place"] == newest)
        traced = replace(traced, expected=expected, **counts)
        if traced.differing:
            traced = replace(traced, differences=tuple(trace.differences(most)))
    return traced


_COUNTS = ("rows", "kept", "missing", "extra", "changed", "undecided", "undecided_since")


class _Trace:
    """One version of a table beside the snapshots that it holds."""

    def __init__(
        self,
        spark: SparkSession,
        table: SnapshotTable,
        version: int,
        state: State,
        frames: Mapping[int, DataFrame],
    ) -> None:
        self.table, self.state = table, state
        self.line = _line_of(state, frames)
        self.end = len(self.line.ids)
        sql = f"SELECT * FROM {table.identifier.sql} VERSION AS OF {version}"  # noqa: S608
        self.lake = spark.sql(sql)
        self.frames = {
            place: self._inside(frames[number], number)
            for place, number in enumerate(self.line.ids)
            if number in frames
        }

    # --- what each side has -----------------------------------------------------------------------

    def _inside(self, frame: DataFrame, number: int) -> DataFrame:
        """The rows of a snapshot inside the window that it was folded with."""
        taken = self.state.find(number)
        floor = floor_of(self.table, taken.day if taken else None)
        return frame if floor is None else frame.where(_from_sql(self.table, floor))

    def _dropped(self, number: int) -> date | None:
        """The first day that no later fold dropped of what a snapshot brought."""
        floors = [one.floor for one in self.state.taken if one.id > number and one.floor]
        return max([*floors, *([self.state.floor] if self.state.floor else [])], default=None)

    def _of_snapshot(self, place: int) -> DataFrame:
        table, frame = self.table, self.frames[place]
        floor = self._dropped(self.line.ids[place])
        stays = "TRUE" if floor is None else _from_sql(table, floor)
        entry = (
            f"named_struct('i', {place}, 'h', {digest_sql(table)}, 'd', {stays}, "
            "'c', CAST(NULL AS BIGINT), 'n', 1L)"
        )
        if table.duplicates != "resolved":
            return frame.selectExpr(*table.key_sql, f"{entry} AS {_ENTRY}")
        from pyspark.sql import functions as f

        # Of several rows of a key the table holds the greatest, as the contract says.
        chosen = f.max_by(f.expr(entry), f.expr(table.order_sql())).alias(_ENTRY)
        keys = [f.expr(name) for name in table.key_sql]
        rows = frame.groupBy(*keys).agg(chosen, f.count(f.lit(1)).alias(_ROWS))
        counted = f"named_struct('i', {_ENTRY}.i, 'h', {_ENTRY}.h, 'd', {_ENTRY}.d, 'c', "
        return rows.selectExpr(
            *table.key_sql, f"{counted}{_ENTRY}.c, 'n', {_ROWS}) AS {_ENTRY}"
        )  # fmt: skip

    def _of_lake(self) -> DataFrame:
        entry = (
            f"named_struct('i', {self.end}, 'h', {digest_sql(self.table)}, 'd', TRUE, "
            f"'c', {SNAPSHOT}, 'n', 1L) AS {_ENTRY}"
        )
        return self.lake.selectExpr(*self.table.key_sql, entry)

    # --- the rule ---------------------------------------------------------------------------------

    def checked(self) -> DataFrame:
        """One row per key: the key, `_SEEN` (its rows in the snapshots), `_ROWS` (in the table),
        `_TOP` (the last of `_SEEN`), `_RUN` (since which place the files have that one so),
        `_CHECKED` (of each of `_ROWS` what is wrong, the best one first)."""
        from pyspark.sql import functions as f

        sides = [self._of_lake(), *(self._of_snapshot(place) for place in self.frames)]
        both = reduce(lambda one, other: one.unionAll(other), sides)
        keys = [f.expr(name) for name in self.table.key_sql]
        grouped = both.groupBy(*keys).agg(f.sort_array(f.collect_list(_ENTRY)).alias(_SEEN))
        key = self.table.key_sql
        top = f"coalesce(try_element_at({_SEEN}, -1).i, -1)"
        run = (
            f"aggregate(reverse({_SEEN}), named_struct('i', {top}, 'on', TRUE), (a, e) -> "
            f"IF(a.on AND (e.i = a.i OR (e.i = a.i - 1 AND e.h = {_TOP}.h)), "
            "named_struct('i', e.i, 'on', TRUE), named_struct('i', a.i, 'on', FALSE)), a -> a.i)"
        )
        return (
            grouped.selectExpr(
                *key,
                f"filter({_SEEN}, e -> e.i < {self.end}) AS {_SEEN}",
                f"filter({_SEEN}, e -> e.i = {self.end}) AS {_ROWS}",
            )
            .selectExpr(*key, _SEEN, _ROWS, f"try_element_at({_SEEN}, -1) AS {_TOP}")
            .selectExpr(*key, _SEEN, _ROWS, _TOP, f"{top} AS {_PLACE}", f"{run} AS {_RUN}")
            .selectExpr("*", f"{self._rows_sql()} AS {_CHECKED}")
            .selectExpr("*", f"{self._kind_sql()} AS {_KIND}")
        )

    def _unsure_sql(self) -> str:
        """Whether a snapshot after the last one that has the key can't be read."""
        if self.table.missing == "removed" and self.line.there[-1]:
            return "FALSE"  # the newest alone says which rows there are
        return f"({_PLACE} < {self.line.last_gap})"

    def _stays_sql(self) -> str:
        """Whether the key's last row is still to be in the table."""
        seen = f"({_PLACE} >= 0 AND {_TOP}.d)"
        removed = self.table.missing == "removed"
        return f"({seen} AND {_PLACE} = {self.end - 1})" if removed else seen

    def _rows_sql(self) -> str:
        """Of each of the table's rows of a key: whether its values are wrong (`v`), whether its
        `SNAPSHOT` is (`s`), whether neither is known (`u`), or the latter (`o`)."""
        line, unsure = self.line, self._unsure_sql()
        begins = f"({_RUN} = 0 OR {line.there_sql(f'greatest({_RUN} - 1, 0)')})"
        # Held just so in every readable snapshot since; and not in the one before already.
        since = f"size(filter({_SEEN}, e -> e.i >= r.p AND e.i < {_RUN} AND e.h = {_TOP}.h))"
        broken = f"r.p > {_RUN} OR {since} <> {line.count_sql('r.p', f'greatest({_RUN}, 0)')}"
        earlier = f"exists({_SEEN}, e -> e.i = r.p - 1 AND e.h = {_TOP}.h)"
        wrong = f"IF({begins}, r.p <> {_RUN}, {broken} OR {earlier})"
        # A row that says it came after all that can be read of its key.
        later = (
            f"{line.there_sql('r.p')} OR ({_PLACE} = r.p - 1 AND {_PLACE} >= 0 AND r.h = {_TOP}.h)"
        )
        known = f"(NOT {unsure} OR (r.p >= 0 AND r.p <= {_PLACE}))"
        values = f"coalesce({known} AND {_PLACE} >= 0 AND r.h <> {_TOP}.h, FALSE)"
        number = f"(CASE WHEN r.p < 0 THEN TRUE WHEN {known} THEN {wrong} ELSE {later} END)"
        place = f"named_struct('h', r.h, 'c', r.c, 'p', {line.place_sql('r.c')})"
        placed = f"transform({_ROWS}, r -> {place})"
        first = f"named_struct('v', {values}, 's', {number}, 'h', r.h, 'c', r.c, 'p', r.p)"
        marked = f"transform({placed}, r -> {first})"
        open_ = f"NOT r.v AND NOT r.s AND {unsure}"
        tail = f"NOT r.v AND NOT r.s AND NOT {unsure} AND NOT {begins}"
        fields = f"'v', r.v, 's', r.s, 'u', {open_}, 'o', {tail}, 'h', r.h, 'c', r.c, 'p', r.p"
        return f"array_sort(transform({marked}, r -> named_struct({fields})))"

    def _kind_sql(self) -> str:
        unsure, stays = self._unsure_sql(), self._stays_sql()
        kept = self.table.missing == "kept"
        # With a window, what can't be read may have moved the key to a day that has left since.
        windows = self.state.floor is not None or self.table.retention_days is not None
        lost = "'undecided'" if windows else "'missing'"
        gap = f"IF({_PLACE} >= 0, {lost}, 'equal')" if kept else "'equal'"
        none = f"IF({unsure}, {gap}, IF({stays}, 'missing', 'equal'))"
        best = f"try_element_at({_CHECKED}, 1)"
        return (
            f"CASE WHEN size({_ROWS}) = 0 THEN {none} "
            f"WHEN NOT {unsure} AND NOT {stays} THEN 'extra' "
            f"WHEN {best}.v OR {best}.s THEN 'changed' "
            f"WHEN {best}.u THEN 'undecided' WHEN {best}.o THEN 'undecided_since' ELSE 'equal' END"
        )

    # --- what is found ----------------------------------------------------------------------------

    def count(self) -> list[dict[str, int]]:
        """How many rows there are of each kind (of ``place`` -1), and of each snapshot."""
        held = f"size({_ROWS})"
        # Every row of a key beside its first is one too many.
        more = f"IF({_KIND} = 'extra', {held}, greatest({held} - 1, 0))"
        kept = f"IF({_KIND} <> 'extra' AND {_PLACE} < {self.end - 1}, least({held}, 1), 0)"
        one = {
            "place": "-1",
            "copies": "0L",
            "twice": "0L",
            "rows": f"CAST({held} AS BIGINT)",
            "kept": f"CAST({kept} AS BIGINT)",
            "extra": f"CAST({more} AS BIGINT)",
            **{
                kind: f"IF({_KIND} = '{kind}', 1L, 0L)"
                for kind in ("missing", "changed", "undecided", "undecided_since")
            },
        }
        names = list(one)
        of_key = ", ".join(f"'{name}', {sql}" for name, sql in one.items())
        twice = f"IF(size(filter({_SEEN}, x -> x.i = e.i)) > 1, 1L, 0L)"
        own = {"place": "e.i", "copies": "e.n", "twice": twice}
        of_snapshot = ", ".join(f"'{name}', {own.get(name, '0L')}" for name in names)
        listed = (
            f"explode(concat(array(named_struct({of_key})), "
            f"transform({_SEEN}, e -> named_struct({of_snapshot})))) AS _one"
        )
        sums = [f"sum({name}) AS {name}" for name in names if name != "place"]
        rows = self.checked().selectExpr(listed).selectExpr("_one.*").groupBy("place")
        from pyspark.sql import functions as f

        return [row.asDict() for row in rows.agg(*(f.expr(one) for one in sums)).collect()]

    def unlike(self, found: Sequence[Mapping[str, int]]) -> dict[int, str]:
        """The snapshots that are read otherwise now than when they were folded, and why."""
        by_place = {part["place"]: part for part in found}
        wrong: dict[int, str] = {}
        for place in self.frames:
            number = self.line.ids[place]
            taken = self.state.find(number)
            now = by_place[place]["copies"] if place in by_place else 0
            if taken is not None and taken.totals.n != now:
                wrong[number] = f"was folded with {taken.totals.n:,} rows, and now {now:,} are read"
            elif place in by_place and by_place[place]["twice"]:
                wrong[number] = "holds a key twice, which was resolved when it was folded"
        return wrong

    def differences(self, most: int) -> list[Difference]:
        """Some of the keys whose rows differ, with what differs; ``most`` at most."""
        wanted = f"{_KIND} IN ('missing', 'extra', 'changed') OR size({_ROWS}) > 1"
        begins = f"({_RUN} = 0 OR {self.line.there_sql(f'greatest({_RUN} - 1, 0)')})"
        facts = (
            f"named_struct('kind', {_KIND}, 'held', size({_ROWS}), 'place', {_PLACE}, "
            f"'run', {_RUN}, 'begins', {begins}, 'unsure', {self._unsure_sql()}, "
            f"'stays', coalesce({_TOP}.d, FALSE), 'top', hex({_TOP}.h), "
            f"'best', try_element_at({_CHECKED}, 1)) AS _mirror_facts"
        )
        differing = self.checked().where(wanted).selectExpr(*self.table.key_sql, facts)
        reader = DifferenceReader(self.table, self.line.ids, self.lake, self.frames)
        return reader.first(differing, most)


def _from_sql(table: SnapshotTable, floor: date) -> str:
    """Rows of a day and later, and those without a day."""
    return f"coalesce(NOT ({before_sql(table, floor)}), TRUE)"
