"""What lands is read exactly, or refused with its place: against plain Python, by its own way."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import random
import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.config import SnapshotConfig, TableContract, default_namespaces
from mirrorlake.errors import LandingError, SchemaError
from mirrorlake.landing.files.cells import Number, convert
from mirrorlake.landing.files.columns import LandedColumn, LandedSchema, parse_schema, schema_text
from mirrorlake.landing.files.frame import read_batches
from mirrorlake.landing.files.parquet import check_parquet
from mirrorlake.landing.files.records import Bad, LandedFile, Reading
from mirrorlake.sources.files.folder_store import FolderStore

COLUMNS = (
    LandedColumn("id", "decimal(20,0)", False, 0, 2**64 - 1),
    LandedColumn("n", "long", True, -(2**63), 2**63 - 1),
    LandedColumn("tiny", "int", True, -128, 127),
    LandedColumn("price", "decimal(38,10)"),
    LandedColumn("x", "double"),
    LandedColumn("text", "string"),
    LandedColumn("raw", "binary"),
    LandedColumn("on", "date"),
    LandedColumn("at", "timestamp"),
    LandedColumn("seen", "timestamptz"),
)
SCHEMA = LandedSchema(COLUMNS)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)).map(lambda t: t.replace(fold=0))
ROWS = st.fixed_dictionaries(
    {
        "id": st.integers(0, 2**64 - 1),
        "n": st.none() | st.integers(-(2**63), 2**63 - 1),
        "tiny": st.none() | st.integers(-128, 127),
        "price": st.none() | st.decimals(-(10**28) + 1, 10**28 - 1, places=10, allow_nan=False),
        "x": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "text": st.none() | TEXTS,
        "raw": st.none() | st.binary(max_size=6),
        "on": st.none() | st.dates() | st.sampled_from(["0000-00-00", "2026-02-30", "2026-00-01"]),
        "at": st.none() | MOMENTS | st.just("0000-00-00 00:00:00"),
        "seen": st.none() | MOMENTS,
    }
)


def written(value: Any, number: Callable[[str], Any]) -> Any:
    """A value as an export would write it; ``number`` says whether numbers are texts."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date) else number(str(value))


def expected(row: dict[str, Any]) -> dict[str, Any]:
    """The row as it has to come out, by Python's own values."""
    unplaced = [n for n in ("at", "on") if isinstance(row[n], str)]
    out = {c.name: None if c.name in unplaced else row[c.name] for c in COLUMNS}
    out["id"] = Decimal(out["id"])
    if out["seen"] is not None:
        out["seen"] = out["seen"].replace(tzinfo=ZoneInfo("UTC"))
    out["_mirror_original"] = [{"column": n, "text": row[n]} for n in unplaced] or None
    return out


def take(
    folder: Path,
    name: str,
    content: bytes,
    form: str = "json",
    schema: LandedSchema = SCHEMA,
    **more: Any,
) -> tuple[list[dict[str, Any]], list[Bad]]:
    (folder / name).write_bytes(content)
    store = FolderStore(str(folder))
    entry = store.entry(name)
    assert entry is not None
    bad: list[Bad] = []
    file = LandedFile(name, entry.bytes, entry.version)
    batches = list(read_batches(Reading(store, "t", form, schema, **more), file, bad))
    return [row for batch in batches for row in batch.to_pylist()], bad


def same(found: list[dict[str, Any]], rows: list[dict[str, Any]]) -> None:
    assert [repr(row) for row in found] == [repr(expected(row)) for row in rows]


class Digits(float):
    """A float whose JSON is the text it was made of."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def as_number(text: str) -> Any:
    return int(text) if text.lstrip("-").isdigit() else Digits(text) if "." in text else float(text)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(ROWS, max_size=6), numbers=st.booleans(), packed=st.booleans())
def test_json_is_read_exactly(
    tmp_path: Path, rows: list[dict[str, Any]], numbers: bool, packed: bool
) -> None:
    how = as_number if numbers else str
    # Each record in an order of its own.
    shuffled = [random.Random(i).sample(list(r.items()), len(r)) for i, r in enumerate(rows)]  # noqa: S311
    text = "\n".join(dumps({n: written(v, how) for n, v in row}) for row in shuffled).encode()
    name = "a.json.gz" if packed else "a.json"
    found, bad = take(tmp_path, name, gzip.compress(text) if packed else text)
    assert not bad
    same(found, rows)


def dumps(record: dict[str, Any]) -> str:
    parts = (
        f"{json.dumps(k)}: {v.text if isinstance(v, Digits) else json.dumps(v, ensure_ascii=False)}"
        for k, v in record.items()
    )
    return "{" + ", ".join(parts) + "}"


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(ROWS, max_size=6))
def test_csv_is_read_exactly(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    out = io.StringIO(newline="")
    writer = csv.writer(out, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    names = [c.name for c in reversed(COLUMNS)]
    writer.writerow(names)
    for row in rows:
        cells = [written(row[name], str) for name in names]
        writer.writerow([Null() if cell is None else cell for cell in cells])
    found, bad = take(tmp_path, "a.csv", out.getvalue().encode(), "csv")
    assert not bad
    same(found, rows)


class Null(float):
    r"""What Python's writer puts no quotes around: it is printed as \N."""

    def __str__(self) -> str:
        return "\\N"

    __repr__ = __str__


@settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(rows=st.lists(ROWS, max_size=6), texts=st.booleans())
def test_parquet_is_read_exactly(tmp_path: Path, rows: list[dict[str, Any]], texts: bool) -> None:
    columns: dict[str, Any] = {}
    for column in COLUMNS:
        values = [row[column.name] for row in rows]
        if column.name in ("on", "at") or (texts and column.name != "raw"):
            values = [written(v, str) for v in values]
            columns[column.name] = pa.array(values, pa.string())
        else:
            kinds = {"id": pa.uint64(), "tiny": pa.int16(), "seen": pa.timestamp("us", "UTC")}
            wide = kinds.get(column.name)
            columns[column.name] = pa.array(values, wide or convert(column, [""]).values.type)
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    found, bad = take(tmp_path, "a.parquet", out.getvalue(), "parquet")
    assert not bad
    same(found, rows)


@given(st.integers(0, 2**32 - 1), st.integers(-5, 5))
def test_a_float_is_the_nearest_to_its_text(bits: int, nudge: int) -> None:
    """Texts beside the middle between two FLOATs: the nearest is told by fractions alone."""
    here = min(bits & 0x7FFFFFFF, 0x7F7FFFFE)
    low = Fraction(struct.unpack("<f", struct.pack("<I", here))[0])
    high = Fraction(struct.unpack("<f", struct.pack("<I", here + 1))[0])
    middle = (low + high) / 2
    text = plain(middle) if nudge == 0 else plain(middle + Fraction(nudge, 10**170))
    found = convert(LandedColumn("f", "float"), [Number(text)]).values.to_pylist()[0]
    exact = Fraction(Decimal(text))
    even = low if here % 2 == 0 else high
    nearest = even if exact == middle else low if exact - low < high - exact else high
    assert Fraction(found) == nearest


def plain(number: Fraction) -> str:
    """A fraction of a power of ten as digits."""
    scaled = number * 10**170
    return f"{scaled.numerator // scaled.denominator}e-170"


GOOD = {"id": "1", "n": 1, "tiny": 1, "price": "1.5", "x": 1.5, "text": "a", "raw": "YQ==",
        "on": "2026-01-31", "at": "2026-01-31 12:00:00", "seen": "2026-01-31T12:00:00Z"}  # fmt: skip
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "too large": ({"id": "18446744073709551616"}, "column 'id' is a number out of range"),
    "negative": ({"id": -1}, "column 'id' is a number out of range"),
    "NULL": ({"id": None}, "column 'id' is NULL, which its schema does not let it be"),
    "past 64 bits": ({"n": 2**63}, "column 'n' is a number out of range"),
    "not whole": ({"n": 1.5}, "column 'n' is no whole number"),
    "hexadecimal": ({"n": "0x10"}, "column 'n' is no number"),
    "underscores": ({"n": "1_000"}, "column 'n' is no number"),
    "other digits": ({"n": "１"}, "column 'n' is no number"),
    "a space": ({"n": " 1"}, "column 'n' is no number"),
    "a line end": ({"n": "1\n"}, "column 'n' is no number"),
    "an exponent": ({"n": "1e999999999"}, "column 'n' is a number out of range"),
    "past TINYINT": ({"tiny": 128}, "column 'tiny' is a number out of range"),
    "more places": ({"price": "0.00000000001"}, "column 'price' has more decimal places than decimal(38,10)"),
    "more digits": ({"price": "1" + "0" * 28}, "column 'price' is a number out of range"),
    "true": ({"n": True}, "column 'n' is no number"),
    "infinite": ({"x": "1e999"}, "column 'x' is a number out of range"),
    "NaN as a text": ({"x": "NaN"}, "column 'x' is no number"),
    "a number": ({"text": 5}, "column 'text' is no text"),
    "an object": ({"text": {"a": 1}}, "column 'text' is no text"),
    "half a pair": ({"text": "\ud800"}, "column 'text' holds half a surrogate pair"),
    "no base64": ({"raw": "YQ"}, "column 'raw' is no text in base64"),
    "no date": ({"on": "31.01.2026"}, "column 'on' is no date"),
    "a date and more": ({"on": "2026-01-31x"}, "column 'on' is no date"),
    "no time": ({"at": "2026-01-31"}, "column 'at' is a date without a time"),
    "25 o'clock": ({"at": "2026-01-31 25:00:00"}, "column 'at' has a clock that there is not"),
    "a zone": ({"at": "2026-01-31 12:00:00Z"}, "column 'at' has a zone, and its column has none"),
    "nanoseconds": ({"at": "2026-01-31 12:00:00.0000001"}, "column 'at' has more than six decimal places"),
    "an extra column": ({"more": 1}, "has the column 'more', which its schema has not"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_value_is_refused_with_its_place_and_never_shown(tmp_path: Path, case: str) -> None:
    change, reason = REFUSED[case]
    lines = [json.dumps(GOOD), json.dumps(GOOD | change), json.dumps(GOOD)]
    with pytest.raises(LandingError) as caught:
        take(tmp_path, "a.json", "\n".join(lines).encode())
    assert f"a.json, line 2: {reason}" in str(caught.value)
    found, bad = take(tmp_path, "a.json", "\n".join(lines).encode(), max_bad=1)
    assert len(found) == 2
    assert [(b.line, reason in b.reason) for b in bad] == [(2, True)]
    with pytest.raises(LandingError):
        take(tmp_path, "a.json", "\n".join([*lines, lines[1]]).encode(), max_bad=1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"id": 1', "no JSON: "),
        (b'{"id": "\xff"}', "byte 9 is no UTF-8"),
        (b'{"id": 1, "id": 2}', "has the column 'id' twice"),
        (b'{"id": NaN}', "NaN and Infinity"),
        (b"[1]", "is JSON, but no object"),
        (b"1", "is JSON, but no object"),
        (b"{}", "is an object without a column"),
        (b'{"id": 1}', "lacks the column 'n'"),
        (b'{"id": 1} {"id": 2}', "no JSON: Extra data"),
        (b'{"id": "a\x01"}', "no JSON: Invalid control character"),
        (b"[" * 100_000, "no JSON"),
    ],
)
def test_a_malformed_line_is_refused(tmp_path: Path, line: bytes, reason: str) -> None:
    good = json.dumps(GOOD).encode()
    with pytest.raises(LandingError, match="line 3") as caught:
        take(tmp_path, "a.json", good + b"\r\n\n" + line + b"\n" + good)
    assert reason in str(caught.value)


def test_a_missing_column_is_null_where_that_was_said(tmp_path: Path) -> None:
    found, _ = take(tmp_path, "a.json", b'{"id": 1}', missing_columns="null")
    assert found[0] == dict.fromkeys(found[0]) | {"id": Decimal(1)}
    with pytest.raises(LandingError, match="'id' is NULL"):
        take(tmp_path, "a.json", b'{"n": 1}', missing_columns="null")


def test_an_extra_column_is_read_past_where_that_was_said(tmp_path: Path) -> None:
    line = json.dumps(GOOD | {"more": {"a": [1]}}).encode()
    found, _ = take(tmp_path, "a.json", line, extra_columns="ignore")
    assert len(found) == 1
    never = LandedSchema(COLUMNS, ("more",))
    assert take(tmp_path, "a.json", line, schema=never)[0] == found


@pytest.mark.parametrize("name", ["a.json.gz", "a.json.zst", "a.csv.gz"])
def test_a_stream_that_is_cut_short_is_refused(tmp_path: Path, name: str) -> None:
    text = json.dumps(GOOD).encode() * 1
    lines = b"\n".join([text] * 500)
    if name.endswith("zst"):
        whole = bytes(pa.compress(lines, "zstd", asbytes=True))
    else:
        whole = gzip.compress(lines)
    for cut in (1, 9, len(whole) // 2):
        with pytest.raises(LandingError, match=r"is (cut short|damaged)|malformed"):
            take(tmp_path, name, whole[:-cut], "csv" if "csv" in name else "json")


CSV = LandedSchema((LandedColumn("id", "int", False, 0, 9), LandedColumn("text", "string")))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "there is no header"),
        (b"id,id\n", "line 2: has the column 'id' twice"),
        (b"id,text\n1,a,b\n", "line 2: has 3 fields, and the header 2"),
        (b'id,text\n1,"a\nb"c\n', "line 2: has quotes where there can't be any"),
        (b'id,text\n1,a\n2,"b\nc', "line 3: a quoted field does not end"),
        (b"id,text\n1,\xff\n", "line 2: byte 3 is no UTF-8"),
        (b"id,text\n\n", "line 2: has 1 fields"),
        (b"id\n1\n", "line 2: lacks the column 'text'"),
    ],
)
def test_bad_csv_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    content = content + b"1,a\n" if content == b"id,id\n" else content
    with pytest.raises(LandingError) as caught:
        take(tmp_path, "a.csv", content, "csv", CSV)
    assert reason in str(caught.value)


def test_csv_tells_a_text_from_null(tmp_path: Path) -> None:
    content = b'text,id\n\\N,1\n"\\N",2\n,3\n"",4\n"a\n \nb",5\r\n'
    found, _ = take(tmp_path, "a.csv", content, "csv", CSV)
    assert [row["text"] for row in found] == [None, "\\N", "", "", "a\n \nb"]


def test_quotes_that_do_not_end_are_never_left_out(tmp_path: Path) -> None:
    with pytest.raises(LandingError, match="a quoted field does not end"):
        take(tmp_path, "a.csv", b'id,text\n1,"a\n2,b\n', "csv", CSV, max_bad=9)


def test_a_file_that_was_written_again_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"{}\n" * 2)
    store = FolderStore(str(tmp_path))
    reading = Reading(store, "t", "json", SCHEMA)
    with pytest.raises(LandingError, match="was written again"):
        list(read_batches(reading, LandedFile("a.json", 6, "another")))
    with pytest.raises(LandingError, match="is not there any more"):
        list(read_batches(reading, LandedFile("b.json", 6, "x")))


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"id": pa.array([1.5]), "text": pa.array(["a"])}, "column 'id' is double in the file"),
        ({"id": pa.array([1]), "more": pa.array([1])}, "has the column 'more'"),
        ({"text": pa.array(["a"])}, "lacks the column 'id'"),
    ],
)
def test_parquet_of_other_columns_is_refused(
    tmp_path: Path, columns: dict[str, Any], reason: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    store = FolderStore(str(tmp_path))
    entry = store.entry("a.parquet")
    assert entry is not None
    reading = Reading(store, "t", "parquet", CSV)
    with pytest.raises(LandingError) as caught:
        check_parquet(reading, LandedFile("a.parquet", entry.bytes, entry.version))
    assert reason in str(caught.value)


def test_spark_reads_parquet_only_where_its_footer_says_enough(tmp_path: Path) -> None:
    def native(ids: list[int | None], **more: Any) -> bool:
        rows = {"id": pa.array(ids, pa.int32()), "text": pa.array(["a"] * len(ids))}
        pq.write_table(pa.table(rows), tmp_path / "a.parquet", **more)
        store = FolderStore(str(tmp_path))
        entry = store.entry("a.parquet")
        assert entry is not None
        file = LandedFile("a.parquet", entry.bytes, entry.version)
        return check_parquet(Reading(store, "t", "parquet", CSV), file)

    assert native([0, 9])
    assert not native([0, 10])
    assert not native([0, None])
    assert not native([0], write_statistics=False)


def contract(**more: Any) -> TableContract:
    return TableContract(
        source="s", database="d", table="t", mode="snapshot", key=("id",), snapshot=SnapshotConfig(),
        namespaces=default_namespaces("s", "d"), **more,
    )  # fmt: skip


def test_a_schema_is_read_as_it_is_written() -> None:
    text = schema_text(
        [
            ("id", "decimal(20,0)", False, "bigint unsigned", False),
            ("t", "int", True, "tinyint(4)", False),
            ("e", "string", False, "enum('a')", True),
        ]
    )
    schema = parse_schema(text.encode(), "x", contract())
    assert schema.columns == (
        LandedColumn("id", "decimal(20,0)", False, 0, 2**64 - 1),
        LandedColumn("t", "int", True, -128, 127),
        LandedColumn("e", "string", original=True),
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is no JSON"),
        ("[]", "is no object of version 1"),
        ('{"version": 1, "columns": [{"name": "id", "type": "varchar"}]}', "'varchar' is no type"),
        ('{"version": 1, "columns": [{"name": "id", "type": "decimal(39,0)"}]}', "no decimal of up"),
        ('{"version": 1, "columns": [{"name": "x", "type": "int"}]}', "lacks the column 'id'"),
        ('{"version": 1, "columns": [{"name": "id", "type": "int"}, {"name": "ID", "type": "int"}]}', "twice"),
        ('{"version": 1, "columns": [{"name": "_mirror_x", "type": "int"}]}', "as Mirrorlake's own"),
    ],
)  # fmt: skip
def test_a_schema_that_is_none_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_schema(text.encode(), "schemas/s/d/t.json", contract())
    assert reason in str(caught.value)


def test_a_time_with_a_zone_is_its_moment() -> None:
    column = LandedColumn("t", "timestamptz")
    texts = ["2026-01-31 12:00:00+02:00", "2026-01-31T12:00:00 UTC", "2026-01-31 12:00:00.5-0330"]
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    moments = [noon - timedelta(hours=2), noon, noon + timedelta(hours=3.5, seconds=0.5)]
    assert convert(column, texts).values.to_pylist() == moments
