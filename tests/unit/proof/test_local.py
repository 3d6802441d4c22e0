"""Forms that DuckDB makes: those of the SQL, written out, and nothing where there is none."""

from __future__ import annotations

import hashlib
import struct
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    GreaterThanOrEqual,
    IsNull,
    LessThanOrEqual,
    Or,
)
from pyiceberg.types import StringType

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.expressions import expression
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table
from mirrorlake.proof.forms.canonical import DELETED_AT, ORIGINALS, form_of
from mirrorlake.proof.forms.rows import RowForm
from mirrorlake.proof.ranges.order import Part
from mirrorlake.proof.ranges.ranges import EVERYWHERE, NOTHING, Range, Span, Tally
from mirrorlake.proof.sides import local_side
from mirrorlake.proof.sides.duckdb_forms import NoForm, forms_of
from mirrorlake.sources.mysql.tables import Column
from tests.unit.proof.test_ranges import column

TEXT = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}


def forms(one: Column, values: list[Any], kind: pa.DataType) -> list[str]:
    form = form_of(one, originals=True)
    made = forms_of([(one, form)], pa.table({form.name: pa.array(values, kind)}))
    assert made.column("form").to_pylist() == made.column("f0").to_pylist()
    return made.column("f0").to_pylist()


def sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("one", "kind", "values", "expected"),
    [
        (column("c", "int", nullable=True), pa.int32(), [1, -7, None], ["1", "-7", "N"]),
        (column("c", "bigint"), pa.int64(), [-(2**63)], ["-9223372036854775808"]),
        (
            column("c", "bigint", column_type="bigint unsigned"),
            pa.decimal128(20, 0),
            [Decimal(2**64 - 1)],
            ["18446744073709551615"],
        ),
        (
            column("c", "decimal", precision=12, scale=6),
            pa.decimal128(12, 6),
            [Decimal("0.000001"), Decimal(-5), Decimal(0)],
            ["0.000001", "-5.000000", "0.000000"],
        ),
        (
            column("c", "decimal", precision=38, scale=30),
            pa.decimal128(38, 30),
            [Decimal("-0.000000000000000000000000000001"), Decimal(0)],
            ["-0." + "0" * 29 + "1", "0." + "0" * 30],
        ),
        (
            column("c", "double", nullable=True),
            pa.float64(),
            [-0.0, 0.0, 1.5, None],
            ["8000000000000000", "0000000000000000", struct.pack(">d", 1.5).hex().upper(), "N"],
        ),
        (column("c", "float"), pa.float32(), [0.5], [struct.pack(">d", 0.5).hex().upper()]),
        (column("c", "date"), pa.date32(), [date(1, 2, 3)], ["0001-02-03"]),
        (
            column("c", "datetime"),
            pa.timestamp("us"),
            [datetime(2020, 1, 2, 3, 4, 5)],
            ["2020-01-02 03:04:05"],
        ),
        (column("c", "datetime", nullable=True), pa.timestamp("us"), [None], ["N"]),
        (
            column("c", "datetime", fraction=3),
            pa.timestamp("us"),
            [datetime(1900, 1, 2, 3, 4, 5, 120_000)],
            ["1900-01-02 03:04:05.120"],
        ),
        (
            column("c", "timestamp", fraction=6),
            pa.timestamp("us", "UTC"),
            [datetime(2020, 1, 2, 3, 4, 5, 7, tzinfo=UTC)],
            ["2020-01-02 03:04:05.000007"],
        ),
        (column("c", "time"), pa.string(), ["-838:59:59"], ["10:-838:59:59"]),
        (
            column("c", "varchar", length=20, nullable=True, **TEXT),
            pa.string(),
            ["", "ä,b", "N", "a\0b", None],
            ["0:", "4:ä,b", "1:N", "3:a\0b", "N"],
        ),
        (column("c", "longtext", **TEXT), pa.string(), ["ä"], [sha256("ä".encode())]),
        (column("c", "binary", length=2), pa.binary(), [b"\0\xff"], ["00FF"]),
        (column("c", "blob", nullable=True), pa.binary(), [b"\0", None], [sha256(b"\0"), "N"]),
    ],
)
def test_the_forms_of_a_type(
    one: Column, kind: pa.DataType, values: list[Any], expected: list[str]
) -> None:
    assert forms(one, values, kind) == expected


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (column("c", "int"), pa.int32()),
        (column("c", "double"), pa.float64()),
        (column("c", "datetime"), pa.timestamp("us")),
        (column("c", "varchar", length=20, **TEXT), pa.string()),
        (column("c", "longtext", **TEXT), pa.string()),
        (column("c", "binary", length=2), pa.binary()),
    ],
)
def test_no_rows_have_no_forms(one: Column, kind: pa.DataType) -> None:
    assert forms(one, [], kind) == []


def test_more_digits_than_are_declared_have_no_form() -> None:
    late = [datetime(2020, 1, 2, 3, 4, 5, 120_001)]
    for digits in (0, 3, 5):
        with pytest.raises(NoForm):
            forms(column("c", "datetime", fraction=digits), late, pa.timestamp("us"))


def test_the_ends_of_a_span_as_values() -> None:
    assert local_side._value(column("c", "int"), "-7") == -7
    assert local_side._value(column("c", "decimal"), "-7.50") == Decimal("-7.50")
    assert local_side._value(column("c", "date"), "2020-01-02") == date(2020, 1, 2)
    assert local_side._value(column("c", "datetime"), "2020-01-02 03:04:05") == DAYS[1].replace(
        hour=3, minute=4, second=5
    )
    unsigned = column("c", "bigint", column_type="bigint unsigned")
    assert local_side._value(unsigned, "18446744073709551615") == Decimal(2**64 - 1)
    assert local_side._value(column("c", "timestamp"), "2020-01-02 03:04:05.5").tzinfo is UTC
    with pytest.raises(NoForm):
        local_side._value(column("c", "date"), "2020-00-10")


# --- which rows -----------------------------------------------------------------------------------

ID, AT = column("id", "bigint"), column("at", "datetime")
SCHEMA = pa.schema([("id", pa.int64()), ("at", pa.timestamp("us")), (DELETED_AT, pa.date32())])
DAYS = (datetime(2020, 1, 1), datetime(2020, 1, 2), datetime(2020, 1, 3), None)


def parts(*columns: Column) -> tuple[Part, ...]:
    return tuple(Part(one, form_of(one, originals=False)) for one in columns)


def table_of(columns: tuple[Column, ...] = (ID, AT), *, flags: bool = False, **scope: Any) -> Any:
    rows = RowForm(tuple(form_of(one, originals=False) for one in columns), originals=False)
    bounds = {"cursor": "at", "first": "", "until": "", "beside": "", **scope}
    return SimpleNamespace(
        table=SimpleNamespace(columns=columns),
        key=(ID,),
        rows=rows,
        flags=flags,
        scope=SimpleNamespace(**bounds),
    )


def batch(ids: list[Any], at: list[Any] | None = None, gone: list[Any] | None = None) -> Any:
    empty = [None] * len(ids)
    return pa.RecordBatch.from_pydict(
        {"id": ids, "at": at or [DAYS[0]] * len(ids), DELETED_AT: gone or empty}, SCHEMA
    )


def ids_of(rows: Any) -> list[Any]:
    return rows.column("id").to_pylist()


def within(lo: str | None, hi: str | None, ids: list[Any], **more: Any) -> list[Any]:
    span = Span((lo,) if lo else None, (hi,) if hi else None)
    return ids_of(local_side._within(table_of(**more), parts(ID), span, batch(ids)))


def test_rows_of_a_span_are_from_its_first_key_to_below_its_last() -> None:
    ids = [4, 5, 6, 7]
    assert within(None, None, ids) == ids
    assert within("5", None, ids) == [5, 6, 7]
    assert within(None, "6", ids) == [4, 5]
    assert within("5", "6", ids) == [5]
    assert within("6", "6", ids) == []


def test_a_key_of_two_columns_is_compared_as_a_pair() -> None:
    columns = (ID, column("n", "int"))
    pairs = [(1, 9), (2, 1), (2, 2), (2, 3), (3, 0)]
    names = {"id": [a for a, _ in pairs], "n": [b for _, b in pairs]}
    rows = pa.RecordBatch.from_pydict(names)
    target = table_of(columns, cursor="")

    def found(span: Span) -> list[tuple[int, int]]:
        kept = local_side._within(target, parts(*columns), span, rows)
        return list(zip(ids_of(kept), kept.column("n").to_pylist(), strict=True))

    assert found(Span(("2", "2"))) == pairs[2:]
    assert found(Span(None, ("2", "2"))) == pairs[:2]
    assert found(Span(("2", "1"), ("2", "3"))) == pairs[1:3]


def test_what_spark_alone_can_say() -> None:
    """A key that is NULL, and originals."""
    with pytest.raises(NoForm):
        within(None, None, [1, None])
    target = table_of()
    target.rows = RowForm(target.rows.cells, originals=True)
    kinds = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))
    for kept, said in ((None, True), ([], True), ([{"column": "at", "text": "0"}], False)):
        rows = pa.RecordBatch.from_pydict({"id": [1], ORIGINALS: pa.array([kept], kinds)})
        if said:
            assert ids_of(local_side._within(target, parts(ID), Span(), rows)) == [1]
            continue
        with pytest.raises(NoForm):
            local_side._within(target, parts(ID), Span(), rows)


def test_rows_that_mysql_deleted_are_none_where_they_are_flagged() -> None:
    rows = batch([1, 2], gone=[None, date(2020, 1, 1)])
    assert ids_of(local_side._within(table_of(flags=True), parts(ID), Span(), rows)) == [1]
    assert ids_of(local_side._within(table_of(), parts(ID), Span(), rows)) == [1, 2]


def test_files_are_chosen_by_the_first_column_and_by_no_more() -> None:
    """Iceberg may leave out what is not in the span, and nothing else: bounds hold their ends."""
    two = parts(ID, column("n", "int"))
    assert expression(local_side._row_filter(two, Span())) == AlwaysTrue()
    # A key that the lake orders differently (texts) has no parts: its table is read whole.
    assert expression(local_side._row_filter((), Span())) == AlwaysTrue()
    null: Any = IsNull("id")  # type: ignore[call-arg]
    low: Any = GreaterThanOrEqual("id", 2)  # type: ignore[call-arg]
    high: Any = LessThanOrEqual("id", 7)  # type: ignore[call-arg]
    assert expression(local_side._row_filter(two, Span(("2", "5")))) == Or(low, null)
    assert expression(local_side._row_filter(two, Span(None, ("7", "5")))) == Or(high, null)
    assert expression(local_side._row_filter(two, Span(("2", "5"), ("7", "1")))) == Or(
        And(low, high), null
    )
    [moment] = parts(column("t", "timestamp"))
    found: Any = expression(local_side._row_filter((moment,), Span(("2020-01-02 03:04:05",))))
    assert found.left.literal.value == "2020-01-02T03:04:05+00:00"


@pytest.mark.parametrize(
    ("columns", "keys", "sayable"),
    [
        ((ID, AT), Span(("1",), None), True),
        ((column("k", "varchar", length=9),), Range(), True),
        ((column("k", "varchar", length=9),), Span(), True),
        ((column("k", "varchar", length=9),), Span(("1:a",)), False),
        ((column("k", "decimal", precision=9, scale=6),), Span(("1",)), True),
        ((column("k", "decimal", precision=9, scale=7),), Range(), True),
        ((column("k", "decimal", precision=9),), Range(), True),
        ((column("k", "date"),), Span(("2020-01-01",)), True),
    ],
)
def test_which_ranges_can_be_said_here(
    columns: tuple[Column, ...], keys: Range | Span, sayable: bool
) -> None:
    one: Any = [SimpleNamespace(column=columns[0])]
    assert local_side._is_sayable(one, keys) is sayable


def test_a_range_of_integers_is_a_span() -> None:
    assert local_side._as_span(Range(3, 9)) == Span(("3",), ("9",))
    assert local_side._as_span(Range()) == Span()
    assert local_side._as_span(Range(None, 9)) == Span(None, ("9",))


@pytest.mark.parametrize(
    ("first", "until", "inside"),
    [
        ("", "", [True, True, True, True]),
        # A zero date is NULL here, and the oldest in MySQL.
        ("", "'2020-01-02'", [True, False, False, True]),
        ("'2020-01-02'", "", [False, True, True, False]),
        ("'2020-01-02'", "'2020-01-03'", [False, True, False, False]),
    ],
)
def test_between_the_bounds_of_a_cursor(first: str, until: str, inside: list[bool]) -> None:
    cells = {
        pa.timestamp("us"): list(DAYS),
        pa.timestamp("us", "UTC"): [d and d.replace(tzinfo=UTC) for d in DAYS],
        pa.date32(): [d and d.date() for d in DAYS],
    }
    for kind, values in cells.items():
        assert local_side.within_cursor(pa.array(values, kind), first, until).to_pylist() == inside
    numbers = pa.array([20200101, 20200102, 20200103, None], pa.int64())
    bounds = [bound.strip("'").replace("-", "") for bound in (first, until)]
    assert local_side.within_cursor(numbers, *bounds).to_pylist() == inside


# --- what becomes of them -------------------------------------------------------------------------


def digest(text: str) -> int:
    return int(sha256(text.encode())[:16], 16)


def taken(target: Any, rows: Any, *newer: str, listed: bool = True) -> local_side.Local:
    found = local_side.Local()
    moved = local_side._Moved({key.encode() for key in newer}, listed=listed)
    local_side._take(target, pa.Table.from_batches([rows]), moved, found)
    return found


FORMS = [f"{n},2020-01-0{n} 00:00:00" for n in (1, 2, 3)]
DIGESTS = [digest(form) for form in FORMS]


def test_digests_of_rows_are_added_up() -> None:
    rows = batch([1, 2, 3], list(DAYS[:3]))
    assert taken(table_of(), rows) == local_side.Local(Tally(3, sum(DIGESTS)))
    assert taken(table_of(), rows.slice(0, 0)) == local_side.Local(NOTHING)
    assert taken(table_of(), rows.slice(1, 1)).tally == Tally(1, DIGESTS[1])


def test_rows_under_keys_that_moved_are_told_one_by_one_or_left_out() -> None:
    rows = batch([1, 2, 3], list(DAYS[:3]))
    found = taken(table_of(), rows, "2", "9")
    assert found.tally == Tally(2, DIGESTS[0] + DIGESTS[2])
    assert found.beside == [(("2",), DIGESTS[1])]
    found = taken(table_of(), rows, "2", listed=False)
    assert (found.tally.rows, found.beside) == (2, [])


def test_rows_beside_the_bounds_are_told_one_by_one() -> None:
    rows = batch([1, 2, 3], list(DAYS[:3]))
    bounds = {"first": "'2020-01-02'", "until": "'2020-01-03'", "beside": "whatever"}
    found = taken(table_of(**bounds), rows)
    assert found.tally == Tally(1, DIGESTS[1])
    assert found.beside == [(("1",), DIGESTS[0]), (("3",), DIGESTS[2])]
    # Each once: what moved is not beside the bounds too.
    found = taken(table_of(**bounds), rows, "1")
    assert sorted(found.beside) == [(("1",), DIGESTS[0]), (("3",), DIGESTS[2])]
    found = taken(table_of(**bounds), rows, "1", listed=False)
    assert found.beside == [(("3",), DIGESTS[2])]
    # Without a key a row's digest stands for it.
    loose = table_of(**bounds)
    loose.key = ()
    told = taken(loose, rows).beside
    assert told == [((str(DIGESTS[0]),), DIGESTS[0]), ((str(DIGESTS[2]),), DIGESTS[2])]


def test_a_table_without_a_cursor_has_none_beside() -> None:
    """A full copy, and an append table that nothing dates."""
    assert taken(table_of(cursor=""), batch([1, 2])).tally.rows == 2


def test_too_many_rows_beside_the_bounds_are_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(local_side, "MOST_BESIDE", 2)
    found = local_side.Local()
    found.list_beside([(("1",), 1), (("2",), 2)])
    with pytest.raises(NoForm):
        found.list_beside([(("3",), 3)])


class NoLake:
    """A lake whose tables are not there, or are empty."""

    def __init__(self, found: Any) -> None:
        self.found = found

    def scan(self, *_: Any) -> Any:
        return self.found


def test_a_table_that_was_never_written_is_empty_and_a_lost_one_is_not_known() -> None:
    target = table_of()
    target.mirror = SimpleNamespace(identifier="t", snapshot=None)
    lost: Any = NoLake(None)
    assert local_side.digest_locally(lost, target, parts(ID), Range(), ()) is None
    empty: Any = NoLake(iter(()))
    assert local_side.digest_locally(empty, target, parts(ID), Range(), ()) == local_side.Local()
    text = parts(column("k", "varchar", length=9))
    assert local_side.digest_locally(empty, target, text, Span(("1:a",)), ()) is None


# --- of a real table ------------------------------------------------------------------------------

KEYS = {
    "int": (column("k", "bigint"), "long", [1, 2, 3, 4, 5, 6]),
    "wide": (
        column("k", "bigint", column_type="bigint unsigned"),
        "decimal(20,0)",
        [Decimal(2**64 - 7 + n) for n in range(6)],
    ),
    "decimal": (
        column("k", "decimal", precision=9, scale=1),
        "decimal(9,1)",
        [Decimal(n) / 2 for n in range(6)],
    ),
    "date": (column("k", "date"), "date", [date(2020, 1, n) for n in range(1, 7)]),
    "datetime": (
        column("k", "datetime"),
        "timestamp",
        [datetime(2020, 1, n, 3) for n in range(1, 7)],
    ),
    "timestamp": (
        column("k", "timestamp"),
        "timestamptz",
        [datetime(2020, 1, n, 3, tzinfo=UTC) for n in range(1, 7)],
    ),
}
NAME = column("name", "varchar", length=9, **TEXT)


class Held:
    """A table of six rows in an Iceberg lake, in two files, and later one row more."""

    def __init__(self, folder: Path, kind: str) -> None:
        key, iceberg, self.values = KEYS[kind]
        self.lake = Lake(LakeConfig(warehouse=str(folder / "lake")))
        place = Identifier("d", "t")
        stored = [("k", iceberg), ("name", "string"), (DELETED_AT, "timestamptz")]
        self.table = ensure_current_table(self.lake, place, current_schema(stored, True))
        for start in (0, 3):
            self.write(range(start, start + 3))
        found = self.table.current_snapshot()
        assert found is not None
        self.target = table_of((key, NAME), flags=True, cursor="")
        self.target.key = (key,)
        self.target.rows = RowForm(self.target.rows.cells, originals=True)
        self.target.mirror = SimpleNamespace(identifier=place, snapshot=found.snapshot_id)
        self.parts = parts(key)
        self.forms = forms(key, self.values, self.table.schema().as_arrow().field("k").type)

    def write(self, rows: range, **more: Any) -> None:
        told = [{"k": self.values[n], "name": f"n{n}", ORIGINALS: [], **more} for n in rows]
        self.table.append(pa.Table.from_pylist(told, self.table.schema().as_arrow()))

    def head(self) -> int:
        """Have what main shows now compared."""
        found = self.table.refresh().current_snapshot()
        assert found is not None
        self.target.mirror.snapshot = found.snapshot_id
        return found.snapshot_id

    def read(self, keys: Any = EVERYWHERE, newer: tuple[Any, ...] = ()) -> local_side.Local | None:
        return local_side.digest_locally(self.lake, self.target, self.parts, keys, newer)

    def digests(self, *rows: int) -> list[int]:
        return [digest(f"{self.forms[n]},2:n{n}") for n in rows]

    def tally(self, *rows: int) -> Tally:
        return Tally(len(rows), sum(self.digests(*rows)))


@pytest.mark.parametrize("kind", KEYS)
def test_rows_of_a_span_are_read_from_the_lake(tmp_path: Path, kind: str) -> None:
    """Of every type of key whose order Arrow knows, and of the snapshot that is compared."""
    held = Held(tmp_path, kind)
    span = Span((held.forms[1],), (held.forms[4],))
    assert held.read(Span()) == local_side.Local(held.tally(0, 1, 2, 3, 4, 5))
    assert held.read(span) == local_side.Local(held.tally(1, 2, 3))
    if kind == "int":
        assert held.read(Range(2, 5)) == local_side.Local(held.tally(1, 2, 3))
    held.write(range(2, 3))
    assert held.read(span) == local_side.Local(held.tally(1, 2, 3)), "it is not in the snapshot"


@pytest.mark.parametrize("kind", KEYS)
def test_plain_files_are_digested_as_they_are(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(tmp_path, kind)
    held.target.flags = False
    before, read = held.tally(0, 1, 2, 3, 4, 5), local_side._within

    def refuse(*_: Any) -> Any:
        raise AssertionError("rows were read")

    monkeypatch.setattr(local_side, "_within", refuse)
    assert held.read() == local_side.Local(before)
    held.write(range(1), name=None)
    held.head()
    without = Tally(1, digest(f"{held.forms[0]},N"))
    assert held.read() == local_side.Local(before + without)
    held.write(range(1), k=None)
    held.head()
    monkeypatch.setattr(local_side, "_within", read)
    assert held.read() is None, "a key without a place"


def test_files_that_are_not_plain(tmp_path: Path) -> None:
    """Other names than the table's, narrower types, an original; they are read by the table."""
    held = Held(tmp_path, "int")
    held.target.flags = False
    place, snapshot = held.target.mirror.identifier, held.target.mirror.snapshot
    found = held.lake.local_files(place, ["k", "name"], snapshot)
    assert found is not None
    assert (len(found.paths), found.filled) == (2, {"k", "name"})
    assert held.lake.local_files(Identifier("d", "lost"), ["k"], snapshot) is None
    with held.table.update_schema() as change:
        change.rename_column("name", "called")
    with held.table.update_schema() as change:
        change.add_column("name", StringType())
    held.write(range(3, 4), called="n3", name="new")
    snapshot = held.head()
    assert held.lake.local_files(place, ["k", "name"], snapshot) is None
    assert held.lake.local_files(place, ["k", "called"], snapshot) is None
    assert held.lake.local_files(place, ["k"], snapshot) is not None
    other = Held(tmp_path / "other", "int")
    other.target.flags = False
    other.write(range(1), **{ORIGINALS: [{"column": "name", "text": "x"}]})
    other.head()
    assert other.read() is None


def test_a_table_that_keeps_neither_originals_nor_flags(tmp_path: Path) -> None:
    lake, place = Lake(LakeConfig(warehouse=str(tmp_path / "lake"))), Identifier("d", "t")
    table = ensure_current_table(lake, place, current_schema([("id", "long")], False))
    table.append(pa.Table.from_pylist([{"id": 1}], table.schema().as_arrow()))
    found = table.current_snapshot()
    assert found is not None
    target = table_of((ID,), cursor="")
    target.mirror = SimpleNamespace(identifier=place, snapshot=found.snapshot_id)
    read = local_side.digest_locally(lake, target, parts(ID), Span(), ())
    assert read == local_side.Local(Tally(1, digest("1")))


def test_some_rows_at_a_time_are_all_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Held(tmp_path, "int")
    monkeypatch.setattr(local_side, "AT_ONCE", 2)
    assert held.read(newer=(("2",),)) == local_side.Local(
        held.tally(0, 2, 3, 4, 5), [(("2",), held.digests(1)[0])]
    )


def test_what_the_lake_flags_or_keeps_an_original_of_is_seen_there(tmp_path: Path) -> None:
    held = Held(tmp_path, "int")

    def now() -> local_side.Local | None:
        held.head()
        return held.read()

    held.write(range(1), **{DELETED_AT: datetime(2020, 1, 1, tzinfo=UTC)})
    assert now() == local_side.Local(held.tally(0, 1, 2, 3, 4, 5))
    held.write(range(1), **{ORIGINALS: [{"column": "name", "text": "x"}]})
    assert now() is None
