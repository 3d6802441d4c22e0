"""The comparison sees every kind of fault: each is planted once in a lake table, and found."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demo.oracle import check_clean, compare_rows
from demo.oracle_text import SourceColumn, SourceRows, lake_text
from mirrorlake.errors import ProofError

ORIGINAL = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))
MOMENT = "2026-03-01 10:20:30.123456"
AT = datetime.fromisoformat(MOMENT)

# column, MySQL's text of rows 1 and 2, the lake's values of rows 1 and 2
CELLS: list[tuple[SourceColumn, tuple[str | None, str | None], tuple[Any, Any]]] = [
    (SourceColumn("id", "bigint"), ("1", "2"), (1, 2)),
    (SourceColumn("tiny", "tinyint"), ("2", "-128"), (2, -128)),
    (SourceColumn("wide", "int", unsigned=True), ("4294967295", None), (4294967295, None)),
    (
        SourceColumn("huge", "bigint", unsigned=True),
        ("18446744073709551615", "0"),
        (Decimal(2**64 - 1), Decimal(0)),
    ),
    (
        SourceColumn("cost", "decimal", precision=12, scale=2),
        ("-0.50", "100.00"),
        (Decimal("-0.50"), Decimal("100.00")),
    ),
    (
        SourceColumn("rate", "decimal", precision=38, scale=18),
        ("0.000000000000000001", "12345678901234567890.100000000000000000"),
        (Decimal("1E-18"), Decimal("12345678901234567890.1")),
    ),
    (SourceColumn("real", "double"), ("-0.0", "0.30000000000000004"), (-0.0, 0.1 + 0.2)),
    (SourceColumn("single", "float"), ("0.10000000149011612", None), (0.1, None)),
    (SourceColumn("name", "varchar"), ("Zoë 🎈 ", ""), ("Zoë 🎈 ", "")),
    (SourceColumn("note", "text"), (None, "NULL"), (None, "NULL")),
    (SourceColumn("bytes", "varbinary"), ("00FF", ""), (b"\x00\xff", b"")),
    (SourceColumn("bits", "bit", precision=6), ("33", "0"), (33, 0)),
    (SourceColumn("born", "date"), ("0001-01-01", "0000-00-00"), (date(1, 1, 1), None)),
    (SourceColumn("seen", "datetime", fraction=6), (MOMENT, None), (AT, None)),
    (
        SourceColumn("whole", "datetime"),
        ("2026-03-01 10:20:30", None),
        (AT.replace(microsecond=0), None),
    ),
    (
        SourceColumn("paid", "timestamp", fraction=3),
        ("2026-03-01 10:20:30.500", "0000-00-00 00:00:00.000"),
        (datetime(2026, 3, 1, 10, 20, 30, 500_000, UTC), None),
    ),
    (SourceColumn("took", "time"), ("838:59:59", "-00:00:01"), ("838:59:59", "-00:00:01")),
    (SourceColumn("made", "year"), ("2024", "0000"), (2024, 0)),
    (SourceColumn("mood", "enum"), ("ok", None), ("ok", None)),
]
KEPT = [
    [],
    [
        {"column": "born", "text": "0000-00-00"},
        {"column": "paid", "text": "0000-00-00 00:00:00.000"},
    ],
]


def source(order: tuple[int, ...] = (0, 1)) -> SourceRows:
    texts = {c.name: pa.array([text[i] for i in order], pa.large_string()) for c, text, _ in CELLS}
    return SourceRows("shop.things", tuple(column for column, _, _ in CELLS), pa.table(texts))


def lake(
    order: tuple[int, ...] = (0, 1),
    put: dict[tuple[int, str], Any] | None = None,
    kept: list[Any] | None = None,
) -> pa.Table:
    """The right lake rows in `order`, with the cells (row, column) of `put` replaced."""
    put = put or {}
    arrays = {
        column.name: pa.array(
            [put.get((i, column.name), values[i]) for i in order], column.lake_type
        )
        for column, _, values in CELLS
    }
    originals = KEPT if kept is None else kept
    arrays["_mirror_original"] = pa.array([originals[i] for i in order], ORIGINAL)
    return pa.table(arrays)


def retyped(name: str, kind: pa.DataType, values: list[Any] | None = None) -> pa.Table:
    right = lake()
    cells = right[name].cast(kind) if values is None else pa.array(values, kind)
    return right.set_column(right.column_names.index(name), name, cells)


def test_right_rows_are_equal_in_any_order() -> None:
    for order in ((0, 1), (1, 0)):
        verdict = compare_rows(source(), ["id"], lake(order))
        assert verdict.equal, verdict.describe()
        assert (verdict.source_rows, verdict.lake_rows) == (2, 2)


def test_a_missing_row() -> None:
    verdict = compare_rows(source(), ["id"], lake((0,)))
    assert verdict.missing == (("2",),)
    assert not verdict.equal
    assert not verdict.equal_but_for([])


def test_an_extra_row_is_surplus_and_nothing_else_is() -> None:
    verdict = compare_rows(source((0,)), ["id"], lake())
    assert verdict.extra == (("2",),)
    assert not verdict.equal
    assert verdict.equal_but_for([("2",)])
    assert not verdict.equal_but_for([])
    assert not verdict.equal_but_for([("2",), ("3",)])


def test_a_doubled_row_is_one_too_many() -> None:
    verdict = compare_rows(source(), ["id"], lake((0, 1, 1)))
    assert verdict.extra == (("2",),)
    assert verdict.changed_cells == 0


def test_a_doubled_row_of_which_one_is_altered() -> None:
    altered = lake((0, 1), put={(1, "tiny"): 5})
    verdict = compare_rows(source(), ["id"], pa.concat_tables([lake(), altered.slice(1)]))
    assert verdict.extra == (("2",),)


def test_a_row_doubled_in_both_is_equal_and_once_too_few_is_missing() -> None:
    assert compare_rows(source((0, 1, 1)), [], lake((1, 0, 1))).equal
    verdict = compare_rows(source((0, 1, 1)), [], lake())
    assert len(verdict.missing) == 1
    assert verdict.missing[0][:2] == ("2", "-128")


def test_rows_without_a_key_differ_as_wholes() -> None:
    verdict = compare_rows(source(), [], lake(put={(0, "tiny"): 3}))
    assert len(verdict.missing) == len(verdict.extra) == 1


def test_rows_doubled_in_both_of_which_one_is_altered() -> None:
    altered = lake(put={(1, "tiny"): 5}).slice(1)
    verdict = compare_rows(source((0, 1, 1)), ["id"], pa.concat_tables([lake(), altered]))
    assert verdict.changed == ((("2",), "tiny", "-128", "5"),)
    assert not verdict.missing
    assert not verdict.extra


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (("1", "23"), ("12", "3")),
        (("1", None), (None, "1")),
        (("", None), (None, "")),
        (("N", ""), (None, "1:N")),
    ],
)
def test_keys_of_two_columns_do_not_run_together(
    ours: tuple[str | None, str | None], theirs: tuple[str | None, str | None]
) -> None:
    columns = (SourceColumn("a", "varchar"), SourceColumn("b", "varchar"))

    def rows(row: tuple[str | None, str | None]) -> pa.Table:
        return pa.table({n: pa.array([v], pa.string()) for n, v in zip("ab", row, strict=True)})

    there = SourceRows("t", columns, rows(ours))
    assert compare_rows(there, ["a", "b"], rows(ours)).equal
    verdict = compare_rows(there, ["a", "b"], rows(theirs))
    assert len(verdict.missing) == len(verdict.extra) == 1


@pytest.mark.parametrize(
    ("column", "row", "value", "text"),
    [
        ("tiny", 0, 1, "1"),
        ("wide", 0, -1, "-1"),
        ("wide", 1, 0, "0"),
        ("huge", 0, Decimal(2**63 - 1), str(2**63 - 1)),
        ("cost", 0, Decimal("0.50"), "0.50"),
        ("rate", 0, Decimal("2E-18"), "0.000000000000000002"),
        ("rate", 0, Decimal("0"), "0.000000000000000000"),
        ("real", 0, 0.0, "0.0"),
        ("real", 1, 0.3, "0.3"),
        ("single", 0, 0.10000001, repr(0.10000000894069672)),
        ("name", 0, "Zoë 🎈", "Zoë 🎈"),
        ("name", 0, "Zoe\u0308 🎈 ", "Zoe\u0308 🎈 "),
        ("name", 1, None, None),
        ("note", 0, "", ""),
        ("note", 0, "NULL", "NULL"),
        ("note", 1, None, None),
        ("bytes", 0, b"\x00\xfe", "00FE"),
        ("bytes", 1, None, None),
        ("bytes", 1, b"\x00", "00"),
        ("bits", 0, 1, "1"),
        ("born", 0, date(1, 1, 2), "0001-01-02"),
        ("seen", 0, AT.replace(microsecond=123_000), "2026-03-01 10:20:30.123000"),
        ("seen", 0, AT - timedelta(hours=1), "2026-03-01 09:20:30.123456"),
        ("whole", 0, AT, MOMENT),
        ("paid", 0, datetime(2026, 3, 1, 11, 20, 30, 500_000, UTC), "2026-03-01 11:20:30.500"),
        ("paid", 0, datetime(2026, 3, 1, 10, 20, 30, 500_001, UTC), "2026-03-01 10:20:30.500001"),
        ("took", 0, "22:59:59", "22:59:59"),
        ("made", 1, None, None),
        ("made", 1, 2000, "2000"),
        ("mood", 0, "OK", "OK"),
    ],
)
def test_an_altered_cell(column: str, row: int, value: object, text: str | None) -> None:
    if value is None:
        table = lake()
        values = table[column].to_pylist()
        values[row] = None
        table = retyped(column, table.schema.field(column).type, values)
    else:
        table = lake(put={(row, column): value})
    verdict = compare_rows(source(), ["id"], table)
    was = source().rows[column][row].as_py()
    assert verdict.changed == (((str(row + 1),), column, was, text),)
    assert not verdict.equal


def test_every_changed_cell_is_counted_and_the_list_is_cut() -> None:
    many = 10_050
    ours = SourceRows(
        "t",
        (SourceColumn("id", "int"), SourceColumn("v", "int")),
        pa.table({"id": [str(i) for i in range(many)], "v": ["1"] * many}),
    )
    theirs = pa.table(
        {"id": range(many), "v": [2] * many}, pa.schema([("id", pa.int32()), ("v", pa.int32())])
    )
    verdict = compare_rows(ours, ["id"], theirs)
    assert (verdict.changed_cells, len(verdict.changed)) == (many, 10_000)


class TestOriginals:
    def test_lost(self) -> None:
        verdict = compare_rows(source(), ["id"], lake(kept=[[], KEPT[1][1:]]))
        assert verdict.changed == ((("2",), "born", "0000-00-00", None),)

    def test_column_of_originals_lost(self) -> None:
        verdict = compare_rows(source(), ["id"], lake().drop_columns(["_mirror_original"]))
        assert {cell[1] for cell in verdict.changed} == {"born", "paid"}

    def test_altered(self) -> None:
        kept = [[], [{"column": "born", "text": "0000-00-01"}, KEPT[1][1]]]
        verdict = compare_rows(source(), ["id"], lake(kept=kept))
        assert verdict.changed == ((("2",), "born", "0000-00-00", "0000-00-01"),)

    @pytest.mark.parametrize(
        "entries",
        [
            [{"column": "born", "text": "0001-01-01"}],  # beside a value
            [{"column": "note", "text": None}],
        ],
    )
    def test_needless(self, entries: list[Any]) -> None:
        verdict = compare_rows(source(), ["id"], lake(kept=[entries, KEPT[1]]))
        assert verdict.changed_cells == 1

    def test_twice(self) -> None:
        kept = [[], [*KEPT[1], KEPT[1][0]]]
        assert compare_rows(source(), ["id"], lake(kept=kept)).changed_cells == 1

    def test_instead_of_a_value_that_has_a_place(self) -> None:
        table = retyped("seen", pa.timestamp("us"), [None, None])
        originals = pa.array([[{"column": "seen", "text": MOMENT}], KEPT[1]], ORIGINAL)
        table = table.drop_columns(["_mirror_original"]).append_column(
            "_mirror_original", originals
        )
        verdict = compare_rows(source(), ["id"], table)
        assert [cell[:3] for cell in verdict.changed] == [(("1",), "seen", MOMENT)]

    def test_of_no_column(self) -> None:
        kept = [[{"column": "nobody", "text": "x"}], KEPT[1]]
        verdict = compare_rows(source(), ["id"], lake(kept=kept))
        assert verdict.types == (("nobody", "no original", "original"),)
        assert not verdict.equal

    def test_of_an_excluded_column(self) -> None:
        kept = [[{"column": "cvv", "text": "123"}], KEPT[1]]
        assert compare_rows(source(), ["id"], lake(kept=kept), {"cvv"}).leaked == ("cvv",)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("tiny", pa.int64()),
        ("huge", pa.string()),
        ("cost", pa.decimal128(14, 2)),
        ("cost", pa.decimal128(12, 3)),
        ("cost", pa.float64()),
        ("seen", pa.timestamp("us", "UTC")),
        ("paid", pa.timestamp("us")),
        ("whole", pa.timestamp("s")),
        ("born", pa.string()),
        ("single", pa.float64()),
    ],
)
def test_a_column_of_another_type(column: str, kind: pa.DataType) -> None:
    verdict = compare_rows(source(), ["id"], retyped(column, kind))
    assert [fault[0] for fault in verdict.types] == [column]
    assert not verdict.equal


def test_sizes_of_offsets_and_the_name_of_utc_are_no_difference() -> None:
    for column, kind in (
        ("name", pa.large_string()),
        ("bytes", pa.large_binary()),
        ("paid", pa.timestamp("us", "+00:00")),
        ("paid", pa.timestamp("us", "Europe/Berlin")),  # the same instant, shown elsewhere
    ):
        verdict = compare_rows(source(), ["id"], retyped(column, kind))
        assert verdict.equal, verdict.describe()


def test_a_column_too_few_and_too_many() -> None:
    verdict = compare_rows(source(), ["id"], lake().drop_columns(["tiny"]))
    assert verdict.types == (("tiny", "int32", "absent"),)
    for name in ("stranger", "_mirror_load"):
        more = lake().append_column(name, pa.array([1, 2]))
        assert compare_rows(source(), ["id"], more).types == ((name, "absent", "int64"),)


def test_no_column_at_all() -> None:
    verdict = compare_rows(source(), ["id"], pa.table({"x": [1]}))
    assert not verdict.equal
    assert (verdict.source_rows, verdict.lake_rows) == (2, 1)


def test_an_excluded_column_in_the_lake_is_a_leak() -> None:
    more = lake().append_column("cvv", pa.array(["1", "2"]))
    verdict = compare_rows(source(), ["id"], more, {"cvv"})
    assert verdict.leaked == ("cvv",)
    assert not verdict.equal


def test_only_columns() -> None:
    wrong = lake(put={(0, "tiny"): 1})
    assert compare_rows(source(), ["id"], wrong, only_columns={"name"}).equal
    assert not compare_rows(source(), ["id"], wrong, only_columns={"tiny"}).equal


def test_a_key_that_is_no_column() -> None:
    with pytest.raises(ProofError, match="nobody"):
        compare_rows(source(), ["nobody"], lake())


def test_empty_tables_are_equal_and_an_empty_lake_misses_all() -> None:
    assert compare_rows(source(()), ["id"], lake(())).equal
    assert compare_rows(source(), ["id"], lake(())).missing == (("1",), ("2",))
    assert compare_rows(source(()), ["id"], lake()).extra == (("1",), ("2",))


def test_describe_names_what_differs() -> None:
    text = compare_rows(source(), ["id"], lake((0,), put={(0, "name"): "x"})).describe()
    assert "missing ('2',)" in text
    assert "name: 'Zoë 🎈 ' != 'x'" in text


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_the_text_of_a_double_names_one_bit_pattern(values: list[float]) -> None:
    texts = lake_text(
        SourceColumn("d", "double"), pa.chunked_array([pa.array(values, pa.float64())])
    )
    assert [float(t).hex() for t in texts.to_pylist()] == [v.hex() for v in values]
    assert all(
        ("-" in t) == (v.hex()[0] == "-" or "e-" in t)
        for t, v in zip(texts.to_pylist(), values, strict=True)
    )


@given(st.lists(st.datetimes(), min_size=1))
def test_the_text_of_a_datetime_is_mysqls(values: list[datetime]) -> None:
    texts = lake_text(
        SourceColumn("d", "datetime", fraction=6), pa.chunked_array([pa.array(values)])
    )
    assert texts.to_pylist() == [value.isoformat(" ", "microseconds") for value in values]


HASH_KEY = b"a key of the tests"
RULES = {"name": "mask", "note": "hash", "born": "null", "bytes": "drop", "mood": "mask"}


def hashed(text: str) -> str:
    return hmac.new(HASH_KEY, text.encode(), hashlib.sha256).hexdigest()


def clean(**put: list[Any]) -> pa.Table:
    """The right clean rows under RULES, with whole columns of `put` replaced."""
    table = lake().drop_columns(["bytes"])
    right: dict[str, list[Any]] = {
        "name": ["********🎈 ", "********"],
        "note": [None, hashed("NULL")],
        "born": [None, None],
        "mood": ["********", None],
        "_mirror_original": [[], KEPT[1][1:]],
    }
    for name, values in (right | put).items():
        at = table.column_names.index(name)
        table = table.set_column(at, name, pa.array(values, table.schema.field(name).type))
    return table


def test_right_masks_are_equal() -> None:
    verdict = check_clean(source(), ["id"], clean(), RULES, HASH_KEY)
    assert verdict.equal, verdict.describe()


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("name", ["********ë ", "********"]),
        ("name", ["Zoë 🎈 ", "********"]),
        ("name", ["********🎈 ", ""]),
        ("note", [None, "NULL"]),
        ("note", [None, hashed("NULL").upper()]),
        ("note", [None, hashlib.sha256(b"NULL").hexdigest()]),
        ("note", [hashed(""), hashed("NULL")]),
        ("born", [date(1, 1, 1), None]),
        ("mood", ["********ok", None]),
        ("tiny", [1, -128]),
    ],
)
def test_a_wrong_mask(column: str, values: list[Any]) -> None:
    verdict = check_clean(source(), ["id"], clean(**{column: values}), RULES, HASH_KEY)
    assert [cell[1] for cell in verdict.changed] == [column]
    assert not verdict.equal


def test_an_original_of_a_ruled_column_is_a_leak() -> None:
    verdict = check_clean(source(), ["id"], clean(_mirror_original=KEPT), RULES, HASH_KEY)
    assert verdict.leaked == ("born",)
    assert not verdict.equal


def test_a_dropped_or_excluded_column_in_clean_is_a_leak() -> None:
    more = (
        clean().append_column("bytes", lake()["bytes"]).append_column("cvv", pa.array(["1", "2"]))
    )
    verdict = check_clean(source(), ["id"], more, RULES, HASH_KEY, {"cvv"})
    assert verdict.leaked == ("bytes", "cvv")


def test_a_key_that_is_dropped_or_masked_still_pairs_rows() -> None:
    rules = RULES | {"id": "drop"}
    assert check_clean(source(), ["id"], clean().drop_columns(["id"]), rules, HASH_KEY).equal
    rules = RULES | {"id": "hash"}
    at = pa.array([hashed("1"), hashed("2")])
    assert check_clean(source(), ["id"], clean().set_column(0, "id", at), rules, HASH_KEY).equal


def test_the_edge_of_the_mask_is_six_characters_not_bytes() -> None:
    names = ["éééééé", "ééééé", "abcdef", "abcde", "", None]
    ids = [str(i) for i in range(len(names))]
    ours = SourceRows(
        "t",
        (SourceColumn("id", "int"), SourceColumn("name", "varchar")),
        pa.table({"id": ids, "name": names}),
    )
    masked = ["********éé", "********", "********ef", "********", "********", None]
    theirs = pa.table({"id": pa.array(range(len(names)), pa.int32()), "name": masked})
    assert check_clean(ours, ["id"], theirs, {"name": "mask"}).equal


@pytest.mark.parametrize(
    ("rules", "what"),
    [
        ({"tiny": "mask"}, "text only"),
        ({"name": "hash"}, "needs a key"),
        ({"name": "blur"}, "blur"),
    ],
)
def test_rules_that_cannot_be_checked(rules: dict[str, str], what: str) -> None:
    with pytest.raises(ProofError, match=what):
        check_clean(source(), ["id"], clean(), rules)
