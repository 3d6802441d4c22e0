"""What counts say: of which rows on which side, and when nothing can be said."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import date, datetime
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.errors import ProofError
from mirrorlake.proof.comparing import counts
from mirrorlake.proof.comparing.counts import NO_DAY, count_rows
from mirrorlake.proof.forms.canonical import DELETED_AT
from tests.unit.plans import contract
from tests.unit.proof.test_ranges import column

COLUMNS = {
    one.name: one for one in (column("id", "bigint"), column("at", "datetime"), column("n", "int"))
}
OLD, NEW = "2020-01-01", "2020-01-03"
NEWER, BEFORE = "`at` >= '2020-01-02'", "`at` < '2019-12-31'"
SETTLED = f"(NOT ({NEWER}))"


class World:
    """A table, answered from dicts: MySQL's days by condition, and the rows of the lake."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **scope: Any) -> None:
        self.source: dict[str, dict[str | None, int]] = {}
        self.moved: list[tuple[str, ...]] = []
        self.lake: list[tuple[int, datetime | None]] = []
        self.asked: list[str] = []
        self.scope = SimpleNamespace(
            **{
                **{"cursor": "at", "below": "'2020-01-02'", "first": "", "still": False},
                **{"settled": "at < x", "newer": "", "words": "some", "lake": "(lake)"},
                **scope,
            }
        )
        self.contract = contract(mode="append", cursor="at")
        self.target = SimpleNamespace(
            contract=self.contract,
            table=SimpleNamespace(column=COLUMNS.__getitem__),
            rows=None,
            key=(COLUMNS["id"],),
            scope=self.scope,
            flags=False,
            source="source",
            name="s.d.t",
            mirror=SimpleNamespace(identifier="t", snapshot=7),
        )
        for name in ("damage_errors", "session", "reading", "one_state"):
            monkeypatch.setattr(counts, name, lambda *_: nullcontext())
        monkeypatch.setattr(counts, "resolve_target", lambda *_: self.target)
        monkeypatch.setattr(counts, "rows_of", self._rows_of)
        monkeypatch.setattr(counts, "read_batches", self._batches)
        monkeypatch.setattr(counts, "SourceSide", self._side)
        self.by_spark = counts._count_by_spark
        monkeypatch.setattr(counts, "_count_by_spark", self._by_spark)
        file = SimpleNamespace(file_path="a file", record_count=3)
        task = SimpleNamespace(file=file, delete_files=())
        table = SimpleNamespace(
            current_snapshot=lambda: SimpleNamespace(),
            schema=lambda: SimpleNamespace(fields=[SimpleNamespace(name="id")]),
            scan=lambda: SimpleNamespace(plan_files=lambda: [task]),
        )
        self.table: Any = table
        self.workspace: Any = SimpleNamespace(
            config=SimpleNamespace(sources={"s": "source"}),
            lake=SimpleNamespace(load=lambda _: self.table, translated=lambda _: nullcontext()),
            ledger=None,
            spark=SimpleNamespace(get=lambda: "spark"),
        )

    def write(self, **fields: Any) -> None:
        """Write something else into the contract."""
        self.contract = self.target.contract = self.contract.model_copy(update=fields)

    def _side(self, *args: Any) -> Any:
        return SimpleNamespace(
            name="t",
            where=args[-1],
            keys_sql=lambda condition: f"keys {condition}",
            read_keys=lambda _, statement: self.asked.append(statement) or self.moved,
        )

    def _rows_of(self, _: Any, statement: str) -> Any:
        self.asked.append(statement)
        condition = statement.partition(" WHERE ")[2].removesuffix(" GROUP BY 1")
        return list(self.source.get(condition, {}).items())

    def _batches(self, _: Any, table: Any, columns: tuple[str, ...]) -> Any:
        assert table is not None, "as the real one, which reads a table"
        self.asked.append(f"lake {columns}")
        all_ = {
            "id": pa.array([key for key, _ in self.lake], pa.int64()),
            "at": pa.array([at for _, at in self.lake], pa.timestamp("us")),
            DELETED_AT: pa.array([None] * len(self.lake), pa.date32()),
        }
        yield pa.RecordBatch.from_pydict({name: all_[name] for name in columns})

    def _by_spark(self, spark: str, target: Any, moved: Any) -> dict[str, int]:
        assert (spark, target, moved) == ("spark", self.target, self.moved)
        return {OLD: 1}

    def count(self) -> Any:
        return count_rows(self.workspace, self.contract)


def at(day: str) -> datetime:
    return datetime.fromisoformat(day)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_as_many_rows_of_each_day_are_equal(world: World) -> None:
    world.source = {SETTLED: {OLD: 2, None: 1}, NEWER: {NEW: 3}}
    world.lake = [(1, at(OLD)), (2, at(OLD)), (3, None), (4, at(NEW))]
    found = world.count()
    assert (found.verdict, found.source_rows, found.lake_rows) == ("equal", 4, 4)
    # Of newer rows those that both have are counted, and the others wait.
    assert (found.waiting, found.lost, found.surplus, found.days) == (2, 0, 0, {})
    assert found.counted == {OLD: (2, 2), NEW: (1, 1), NO_DAY: (1, 1)}
    assert (found.table, found.compared) == ("s.d.t", "some")
    day = "CAST(DATE(`at`) AS CHAR)"
    assert world.asked == [
        f"SELECT {day}, COUNT(*) FROM t WHERE {SETTLED} GROUP BY 1",
        f"SELECT {day}, COUNT(*) FROM t WHERE {NEWER} GROUP BY 1",
        "lake ('at',)",
    ]


def test_rows_that_one_side_has_more(world: World) -> None:
    world.source = {SETTLED: {OLD: 2, "2019-01-01": 1}, NEWER: {NEW: 1}}
    world.lake = [(1, at(OLD)), (2, at(OLD)), (3, at(OLD)), (4, at(NEW)), (5, at(NEW))]
    found = world.count()
    assert (found.verdict, found.lost, found.surplus, found.waiting) == ("different", 1, 2, 0)
    assert found.days == {"2019-01-01": (1, 0), OLD: (2, 3), NEW: (1, 2)}
    # Deleted in MySQL, and kept where the contract says so; but a lost row is a lost row.
    world.write(deletes="ignore")
    assert world.count().verdict == "different"
    world.source[SETTLED].pop("2019-01-01")
    assert (world.count().verdict, world.count().surplus) == ("equal", 2)


def test_a_newer_row_of_a_day_that_mysql_has_none_of(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.source, world.lake = {SETTLED: {OLD: 1}}, [(1, at(OLD)), (2, at(NEW))]
    found = world.count()
    assert (found.verdict, found.days, found.waiting) == ("different", {NEW: (0, 1)}, 0)
    # Where MySQL has moved that row on to another day, it waits.
    world = World(monkeypatch, newer="yes")
    world.moved = [("2",)]
    world.source = {SETTLED: {OLD: 1}, NEWER: {"2020-01-04": 1}}
    world.lake = [(1, at(OLD)), (2, at(NEW))]
    assert (world.count().verdict, world.count().waiting) == ("equal", 1)


def test_where_nothing_could_be_counted_nothing_is_said(world: World) -> None:
    world.source = {NEWER: {NEW: 5}}
    found = world.count()
    assert (found.verdict, found.waiting, found.source_rows) == ("undecided", 5, 0)
    world.source = {NEWER: {NEW: 1}}
    assert (world.count().verdict, world.count().waiting) == ("undecided", 1)
    world.source = {NEWER: {NEW: 5}}
    world.lake = [(1, at(NEW))]
    assert (world.count().verdict, world.count().waiting) == ("equal", 4)
    world.source, world.lake = {}, []
    assert world.count().verdict == "equal", "an empty table is equal to an empty one"
    world.table = None
    assert world.count().verdict == "equal"
    world.source = {SETTLED: {OLD: 1}}
    assert (world.count().verdict, world.count().lost) == ("different", 1)


def test_rows_that_moved_are_left_out_by_their_key(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, newer="yes")
    world.moved = [("2",), ("9",)]
    world.source = {SETTLED: {OLD: 1}, NEWER: {NEW: 2}}
    world.lake = [(1, at(OLD)), (2, at(OLD)), (3, at(NEW))]
    found = world.count()
    # The lake has 2 under its old day, and 3 is gone from MySQL, however new it looks.
    assert (found.verdict, found.days, found.waiting) == ("different", {NEW: (0, 1)}, 2)
    assert found.counted[OLD] == (1, 1)
    assert world.asked[0] == f"keys {NEWER}"
    assert world.asked[-1] == "lake ('at', 'id')"
    # Where every day fits as it is, nobody looks for keys.
    world.lake = [(1, at(OLD)), (9, at(NEW))]
    found = world.count()
    assert (found.verdict, found.waiting, world.asked[-1]) == ("equal", 1, "lake ('at',)")
    world.lake.append((2, at(NEW)))
    assert (world.count().verdict, world.asked[-1]) == ("equal", "lake ('at',)")
    # The settled days alone, or the newer ones alone, are reason enough.
    for lake in ([(1, at(OLD)), (2, at(OLD))], [(1, at(OLD)), *[(n, at(NEW)) for n in (2, 9, 3)]]):
        world.lake = lake
        world.count()
        assert world.asked[-1] == "lake ('at', 'id')"
    # A key that is no single whole number is Spark's.
    for key in ((COLUMNS["at"],), (COLUMNS["id"], COLUMNS["n"])):
        world.target.key = key
        asked = len(world.asked)
        assert world.count().counted == {OLD: (1, 1)}
        assert world.asked[asked:].count("lake ('at',)") == 1
    # Without a key none can be left out.
    world.target.key, world.moved = (), [("never",)]
    world.asked.clear()
    world.count()
    assert not [statement for statement in world.asked if statement.startswith("keys")]


@pytest.mark.parametrize(
    ("cursor", "day"),
    [("at", "CAST(CAST(`at` AS DATE) AS STRING)"), ("n", "NULL")],
)
def test_what_spark_counts_is_counted_by_the_day_of_the_cursor(
    world: World, monkeypatch: pytest.MonkeyPatch, cursor: str, day: str
) -> None:
    """Days as texts and whole numbers of rows, however Spark gives them."""
    world.write(cursor=cursor)
    told = SimpleNamespace(collect=lambda: [(OLD, 3), (NO_DAY, 1)])
    spark: Any = SimpleNamespace(sql=lambda statement: world.asked.append(statement) or told)
    monkeypatch.setattr(counts, "leaving_out", lambda _, keys: nullcontext(f"{len(keys)} keys"))
    side = SimpleNamespace(counts_sql=lambda *said: " of ".join(said))
    monkeypatch.setattr(counts, "LakeSide", lambda *_, **__: side)
    world.moved = [("1",)]
    monkeypatch.setattr(counts, "SourceSide", lambda *_: SimpleNamespace(key_forms=()))
    target: Any = world.target
    assert world.by_spark(spark, target, world.moved) == {OLD: 3, NO_DAY: 1}
    assert world.asked == [f"coalesce({day}, '{NO_DAY}') of 1 keys"]


def test_nothing_waits_while_mysql_is_as_the_load_found_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, still=True)
    world.source = {"": {OLD: 1, NEW: 1}}
    world.lake = [(1, at(OLD)), (2, at(NEW))]
    found = world.count()
    assert (found.verdict, found.source_rows, found.waiting) == ("equal", 2, 0)
    assert world.asked[0].endswith("FROM t GROUP BY 1")
    world.lake.pop()
    assert (world.count().verdict, world.count().lost) == ("different", 1)


def test_rows_from_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """MySQL has any number of them; of those that the lake has, it must have as many."""
    world = World(monkeypatch, first="'2019-12-31'")
    settled = f"{SETTLED} AND (NOT ({BEFORE}))"
    world.source = {settled: {OLD: 1}, BEFORE: {"2018-01-01": 9, "2018-02-02": 1}}
    world.lake = [(1, at(OLD))]
    assert (world.count().verdict, world.count().counted) == ("equal", {OLD: (1, 1)})
    assert not [statement for statement in world.asked if BEFORE in statement[-30:]]
    world.lake += [(2, at("2018-01-01")), (3, at("2018-02-02")), (4, at("2018-02-02")), (5, None)]
    found = world.count()
    assert (found.verdict, found.lost, found.surplus) == ("different", 0, 2)
    assert found.days == {"2018-02-02": (1, 2), NO_DAY: (0, 1)}
    assert found.counted["2018-01-01"] == (1, 1)
    # The same where MySQL has moved rows.
    world.scope.newer, world.moved = "yes", [("1",)]
    world.source[settled] = {}
    assert world.count().days == found.days
    # And where it rests.
    world.scope.still = True
    world.source[f"(NOT ({BEFORE}))"] = {OLD: 1}
    assert world.count().days == found.days


def test_where_a_table_has_no_receipt_equal_is_all_that_can_be_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, cursor="", below="", settled="0")
    world.source, world.lake = {"": {OLD: 1}}, [(1, at(OLD))]
    assert world.count().verdict == "equal"
    world.lake = []
    assert (world.count().verdict, world.count().lost) == ("undecided", 1)
    # The newest load found nothing: whatever MySQL has is newer.
    world = World(monkeypatch, below="", settled="0")
    world.source, world.lake = {"1 = 1": {OLD: 2}}, [(1, at(OLD))]
    found = world.count()
    assert (found.verdict, found.source_rows, found.waiting) == ("equal", 1, 1)
    world.lake = [(n, at(OLD)) for n in range(3)]
    assert (world.count().verdict, world.count().surplus) == ("different", 1)


def test_which_column_tells_the_day(world: World) -> None:
    world.source, world.lake = {SETTLED: {None: 2}}, [(1, at(OLD)), (2, at(OLD))]
    world.write(cursor="n")
    found = world.count()
    assert found.counted == {NO_DAY: (2, 2)}
    assert "SELECT NULL, COUNT(*)" in world.asked[0]
    world.write(cursor=None, created="at")
    world.source[SETTLED] = {OLD: 2}
    assert world.count().counted == {OLD: (2, 2)}
    world.write(created=None)
    world.scope.cursor = ""
    world.source[""] = {None: 2}
    assert world.count().counted == {NO_DAY: (2, 2)}
    # Nothing tells anything: one column is read, to count its rows.
    assert world.asked[-1] == "lake ('id',)"


def test_rows_that_are_flagged_as_deleted_are_none(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.target.flags = True

    def batches(*_: Any) -> Any:
        days = {"at": [at(OLD), at(OLD)], DELETED_AT: [None, date(2020, 1, 1)]}
        yield pa.RecordBatch.from_pydict(days)

    monkeypatch.setattr(counts, "read_batches", batches)
    world.source = {SETTLED: {OLD: 1}}
    assert (world.count().verdict, world.count().lake_rows) == ("equal", 1)


@pytest.mark.parametrize(
    ("told", "day"),
    [(None, NO_DAY), ("0000-00-00", NO_DAY), ("2020-00-10", NO_DAY), ("2020-10-00", NO_DAY),
     ("0000-01-01", NO_DAY), ("2020-10-10", "2020-10-10"), (b"2020-01-02", "2020-01-02")],
)  # fmt: skip
def test_days_of_the_calendar(told: Any, day: str, world: World) -> None:
    world.source = {SETTLED: {told: 1}}
    assert world.count().counted == {day: (1, 0)}


def test_a_full_table_is_held_against_what_its_newest_copy_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write(mode="full")
    receipt = SimpleNamespace(rows=3)
    mirror = SimpleNamespace(load=SimpleNamespace(receipt=receipt))
    monkeypatch.setattr(counts, "read_mirror", lambda *_: (mirror, world.table))
    found = world.count()
    assert (found.verdict, found.counted, found.waiting) == ("equal", {NO_DAY: (3, 3)}, 0)
    receipt.rows = 4
    assert (world.count().verdict, world.count().lost) == ("different", 1)
    world.table.scan = lambda: SimpleNamespace(plan_files=list)
    assert world.count().lake_rows == 0
    mirror.load.receipt = None
    with pytest.raises(ProofError, match="is not known") as error:
        world.count()
    assert error.value.table == "s.d.t"
