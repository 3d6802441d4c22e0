"""One fold, from the state before to the published version: of the newest snapshot, of a late one,
or of one that was folded before."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from mirrorlake.config.landing import Strategy
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.failpoints import failpoint
from mirrorlake.landing.fold.cells import (
    CellDifference,
    cells_sql,
    compare_cells,
    read_lost_days,
    read_totals,
)
from mirrorlake.landing.fold.changes import (
    COPIES,
    ROW,
    ComparedSnapshot,
    compare_rows,
    folded_rows,
    plain_rows,
    repeated_keys,
    unique_rows,
)
from mirrorlake.landing.fold.checks import (
    check_days,
    check_keys,
    check_size,
    count_wrong,
    not_staged,
    refused,
)
from mirrorlake.landing.fold.late import without_gone
from mirrorlake.landing.fold.results import ChangeCounts, Folded, count_changes
from mirrorlake.landing.fold.retention import floor_of, inside, passes, window_day
from mirrorlake.landing.fold.shape import MISSED_DAY, SnapshotTable, days_sql
from mirrorlake.landing.fold.stage import (
    Stage,
    append_rows,
    drop_days,
    put_rows,
    read_missing,
    replace_rows,
    write_cells,
    write_missing,
)
from mirrorlake.landing.fold.state import (
    NUMBER,
    STATE,
    FoldedSnapshot,
    State,
    Totals,
    columns_hash,
    columns_of,
    read_state,
    slots_for,
    write_state,
)
from mirrorlake.landing.fold.tables import without_lost
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.records import Lease
from mirrorlake.merge.staging import made_of, new_branch, seal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_REWRITE = 0.4
"""From this share of changed rows on, days are written again rather than merged into."""


@dataclass(frozen=True)
class SnapshotFold:
    """One fold of one snapshot."""

    lake: Lake
    ledger: Ledger
    table: SnapshotTable
    rows: LakeTable
    number: int
    lease: Lease
    load_id: str
    accept_smaller: bool
    before_publish: Callable[[], None]

    def run(self, frame: DataFrame, as_of: date | None) -> Folded:
        state = without_lost(self.lake, self.table.identifier, read_state(self.rows))
        head = self.lake.head(self.table.identifier)
        day = window_day(self.table, self.number, frame, as_of, state)
        frame = inside(self.table, frame, day)
        known = state.find(self.number)
        if known is not None:
            return self._again(frame, known, head)
        late = state.newest is not None and self.number < state.newest.id
        if late and state.taken and self.number < state.taken[0].id and len(state.taken) > 3_999:
            raise refused(self.table, f"snapshot {self.number} is too old", "Leave it out")
        if head is None:
            state = replace(state, slots=self._slots(frame))
        elif not state.trusted:
            logger.warning(
                "table %s: others have written to it since the newest fold: it is compared as a "
                "whole",
                self.table.name,
            )
        if late:
            return self._late(frame, state, day, head)
        return self._newest(frame, state, day, head)

    def _slots(self, frame: DataFrame) -> int:
        days = self.table.day_sql() if self.table.in_days else "1"
        row = frame.selectExpr("count(*) AS n", f"approx_count_distinct({days}) AS days").first()
        found: Any = row
        return slots_for(found.n, found.days)

    # --- the three kinds of folds -----------------------------------------------------------------

    def _again(self, frame: DataFrame, known: FoldedSnapshot, head: int | None) -> Folded:
        totals = read_totals(frame, self.table)
        same = totals == known.totals
        if known.columns != columns_hash(self.table):
            same = totals.n == known.totals.n  # the columns are others by now
        if not same:
            raise refused(
                self.table,
                f"snapshot {self.number} was folded with {known.totals.n:,} rows, and has "
                f"{totals.n:,} now, or others",
                "Two snapshots can't have one number: give the new one its own",
            )
        return self._folded(head, published=False, strategy="same", late=False, rows=totals.n)

    def _newest(self, frame: DataFrame, state: State, day: date | None, head: int | None) -> Folded:
        difference = compare_cells(frame.sparkSession, frame, self.table, state)
        try:
            return self._publish_newest(frame, state, day, head, difference)
        finally:
            difference.drop()

    def _publish_newest(
        self,
        frame: DataFrame,
        state: State,
        day: date | None,
        head: int | None,
        difference: CellDifference,
    ) -> Folded:
        table, floor = self.table, floor_of(self.table, day)
        totals = difference.totals
        if not self.accept_smaller:
            check_size(table, self.number, state, totals.n)
            self._check_days(frame, state, difference)
        failpoint("snapshot.before")
        after = replace(
            state.with_taken(self._taken(state, day, totals)),
            columns=columns_of(table),
            floor=floor,
        )
        compared = ComparedSnapshot(self.number, state, floor)
        with self._staged(frame, head) as stage:
            strategy = self._strategy(difference, head)
            if strategy == "first":
                counts = self._first(stage, frame)
            elif strategy == "same":
                counts = ChangeCounts()
            else:
                counts, after = self._change(
                    stage, frame, state, after, compared, strategy, difference
                )
            if head is not None and floor is not None and passes(state.floor, floor):
                counts = replace(counts, left=drop_days(stage, floor))
                one = replace(
                    self._taken(state, day, totals), before=head, floor=floor, missing=state.missing
                )
                kept = tuple(t for t in after.taken if t.id != self.number)
                after = replace(after, taken=kept).with_taken(one)
            failpoint("snapshot.staged")
            if not difference.empty:
                days = difference.days_since(floor)
                several = counts.several > 0 or self.table.duplicates == "resolved"
                wrong = count_wrong(stage, state, after, difference, days, several=several)
                if wrong:
                    self._refuse_repeated(frame)
                    raise not_staged(table, wrong)
                cells, additions = write_cells(stage, state, difference)
                after = replace(after, cells=cells, additions=additions, slots=state.slots)
            version = self._publish(stage, after, head)
        dropped = floor if passes(state.floor, floor) else None
        return self._folded(
            version, published=True, strategy=strategy, late=False, rows=totals.n,
            dropped_before=dropped, counts=counts,
        )  # fmt: skip

    def _late(self, frame: DataFrame, state: State, day: date | None, head: int | None) -> Folded:
        totals = read_totals(frame, self.table)
        compared = ComparedSnapshot(self.number, state, state.floor)
        after = state.with_taken(self._taken(state, day, totals))
        with self._staged(frame, head) as stage:
            strategy: Strategy = "rewrite" if self.table.strategy == "rewrite" else "merge"
            counts, after = self._change(stage, frame, state, after, compared, strategy, None)
            failpoint("snapshot.staged")
            version = self._publish(stage, after, head)
        return self._folded(
            version, published=True, strategy=strategy, late=True, rows=totals.n, counts=counts
        )

    # --- rows -------------------------------------------------------------------------------------

    def _strategy(self, difference: CellDifference, head: int | None) -> str:
        if head is None:
            return "first"
        if difference.known and difference.empty:
            return "same"
        if self.table.strategy != "auto":
            return self.table.strategy
        if difference.listed is not None:
            return "diff"
        return "rewrite" if difference.known and difference.changed >= _REWRITE else "merge"

    def _first(self, stage: Stage, frame: DataFrame) -> ChangeCounts:
        """Write the first snapshot; its keys are looked at as they were written."""
        table, several = self.table, 0
        if table.duplicates == "resolved":
            unique = unique_rows(frame, table).persist()
            several = unique.where(f"{COPIES} > 1").count()
            frame = unique.selectExpr(
                *table.key_sql, *(f"{ROW}.{name} AS {name}" for name in table.others)
            )
        append_rows(stage, frame, self.number)
        null = " OR ".join(f"{name} IS NULL" for name in table.key_sql)
        found: Any = (
            stage.read()
            .groupBy(*(as_sql_identifier(name) for name in table.key))
            .count()
            .selectExpr(
                f"count_if({null}) AS without", "count_if(count > 1) AS several", "sum(count) AS n"
            )
            .first()
        )
        check_keys(table, self.number, found.without, max(several, found.several))
        return ChangeCounts(added=found.n or 0, several=several)

    def _change(
        self,
        stage: Stage,
        frame: DataFrame,
        state: State,
        after: State,
        compared: ComparedSnapshot,
        strategy: str,
        difference: CellDifference | None,
    ) -> tuple[ChangeCounts, State]:
        """Write what the snapshot changes on the branch, and which keys are missing."""
        table = self.table
        listed = difference.listed if difference is not None and strategy == "diff" else None
        days = difference.days_since(compared.floor) if difference is not None else None
        missing = read_missing(stage.spark, table, state.missing)
        plain = self._shows_repeated(strategy, difference)
        unique = plain_rows if plain else unique_rows
        source, target, old_days = self._sides(stage, frame, state, missing, listed, days, unique)
        changes = compare_rows(source, target, missing, table, compared)
        if compared.next is not None:
            changes = without_gone(stage.spark, self.lake, table, state, self.number, changes)
        # Not a cache: Spark would make that again from the rows as soon as they are written to.
        changes = changes.localCheckpoint()
        counts = count_changes(changes, table)
        if plain:
            counts = replace(counts, several=repeated_keys(changes, table))
        check_keys(table, self.number, counts.without, counts.several)
        if counts.rows and strategy == "rewrite" and compared.next is None:
            rows = folded_rows(source, target, missing, table, compared)
            replace_rows(stage, rows, old_days)
        elif counts.rows:
            put_rows(stage, changes, counts, old_days)
        failpoint("snapshot.rows")
        if counts.moved:
            only_new = counts.moved == counts.missing
            version = write_missing(stage, state, changes, only_new=only_new)
            after = replace(after, missing=version)
        return counts, after

    def _sides(
        self,
        stage: Stage,
        frame: DataFrame,
        state: State,
        missing: DataFrame | None,
        listed: tuple[int, ...] | None,
        days: tuple[date | None, ...] | None,
        unique: Callable[[DataFrame, SnapshotTable], DataFrame],
    ) -> tuple[DataFrame, DataFrame, tuple[date | None, ...] | None]:
        """The rows of the snapshot and of the table that are compared, and the table's days."""
        table = self.table
        cells = cells_sql(table, state.slots, listed)
        source, target = frame.where(cells), stage.read().where(cells)
        if table.in_days and days is not None:
            source = source.where(days_sql(table, days))
        source = unique(source, table)
        if days is None or table.day is None:
            return source, target, None
        if table.duplicates == "resolved" and not table.in_days:
            # Which of a key's rows is taken may change with a day that has none of them now.
            return source, target, None
        if not table.in_days:
            if missing is not None:
                # A key that is back may lie in a day that did not change: its rows are compared.
                there = missing.where(cells).select(MISSED_DAY).distinct().collect()
                days = tuple({*days, *(row[MISSED_DAY] for row in there)})
            # A key twice is seen wherever its rows lie; a key that moved changes both its days.
            source = source.where(f"{COPIES} > 1 OR {days_sql(table, days, f'{ROW}.')}")
        return source, target.where(days_sql(table, days)), days

    def _shows_repeated(self, strategy: str, difference: CellDifference | None) -> bool:
        """Whether a key that comes twice shows without every key being looked at.

        Two of its rows that change are among the changes. Of others the branch takes one, and has
        fewer rows than the snapshot in that cell: seen before it is published, where cells are of
        keys, and where rows that stay are not written again.
        """
        of_keys = self.table.day is None or self.table.in_days
        refused = self.table.duplicates == "refused"
        return difference is not None and of_keys and refused and strategy != "rewrite"

    def _refuse_repeated(self, frame: DataFrame) -> None:
        """Say so where what was staged is not the snapshot because keys came twice."""
        if self.table.duplicates == "refused":
            check_keys(self.table, self.number, 0, repeated_keys(frame, self.table))

    # --- the branch -------------------------------------------------------------------------------

    @contextmanager
    def _staged(self, frame: DataFrame, head: int | None) -> Iterator[Stage]:
        spark, identifier = frame.sparkSession, self.table.identifier
        branch = new_branch()
        self.lake.create_branch(identifier, branch, head)
        try:
            yield Stage(spark, self.lake, self.table, branch)
        finally:
            if branch in self.lake.branches(identifier):
                self.lake.drop_branch(identifier, branch)

    def _publish(self, stage: Stage, after: State, head: int | None) -> int:
        identifier = self.table.identifier
        path = write_state(self.rows, after)
        newest = after.newest
        properties = {STATE: path, NUMBER: str(newest.id if newest else self.number)}
        properties |= made_of(head)
        if self.load_id:
            properties[LOAD_ID] = self.load_id
        seal(self.lake, identifier, stage.branch, properties)
        failpoint("snapshot.sealed")
        self.before_publish()
        self.ledger.check_lease(self.lease)
        version = self.lake.publish_branch(identifier, stage.branch, head)
        failpoint("snapshot.published")
        return version

    def _check_days(self, frame: DataFrame, state: State, difference: CellDifference) -> None:
        if self.table.missing == "kept" or not difference.known:
            return
        lost = read_lost_days(difference, self.table, state.slots)
        if lost:
            first: Any = frame.selectExpr(f"min({self.table.day_sql()}) AS day").first()
            check_days(self.table, self.number, lost, first.day)

    def _taken(self, state: State, day: date | None, totals: Totals) -> FoldedSnapshot:
        order = max((t.order for t in state.taken), default=0) + 1
        return FoldedSnapshot(self.number, day, totals, order, columns_hash(self.table))

    def _folded(
        self,
        version: int | None,
        *,
        published: bool,
        strategy: str,
        late: bool,
        rows: int,
        counts: ChangeCounts | None = None,
        dropped_before: date | None = None,
    ) -> Folded:
        return Folded(
            self.table.name, self.number, version, published, strategy, late, rows,
            dropped_before=dropped_before, **(counts or ChangeCounts()).to_fields(),
        )  # fmt: skip
