"""A value of one type as another has it: that very value, or NULL and its exact text.

The oracle is Python's own arithmetic (`Decimal`, `datetime`, `struct`) and text forms written here
by the table in the module's docstring. It shares no code with the conversions, and Spark is read
through Arrow, which applies no session's time zone.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.merge.row_sql.conversions import convert
from mirrorlake.schema.lattice import StoredType, holds_all
from tests.integration.conftest import Place

ZONES = ("UTC", "America/New_York", "Europe/Berlin")
SETTINGS = [(zone, strict) for zone in ZONES for strict in ("true", "false")]
COLUMN = "v`.'\" \\${x}"
"""A column's name that has to be quoted."""
NAME = "`" + COLUMN.replace("`", "``") + "`"


@dataclass(frozen=True)
class Lost:
    """What the oracle expects of a value without a place: NULL, and this text."""

    text: str


# --- values ---------------------------------------------------------------------------------------


def moments(*texts: str) -> list[datetime]:
    return [datetime.fromisoformat(text) for text in texts]


def instants(*texts: str) -> list[datetime]:
    return [one.replace(tzinfo=UTC) for one in moments(*texts)]


def digits_of(kind: str) -> tuple[int, int]:
    found = re.fullmatch(r"decimal\((\d+),(\d+)\)", kind)
    assert found is not None
    return int(found[1]), int(found[2])


def single(value: float) -> float:
    """The nearest number of four bytes; infinite beyond the largest."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def decimals(kind: str, *more: str) -> list[Decimal]:
    """A decimal type's boundaries: its extremes, its smallest steps, zero and these."""
    precision, scale = digits_of(kind)
    step = Decimal((0, (1,), -scale))
    most = Decimal((0, (9,) * precision, -scale))
    zero = Decimal((0, (0,), -scale))
    found = [most, most.copy_negate(), step, step.copy_negate(), zero]
    with localcontext(prec=80):
        return [*found, *(Decimal(text).quantize(step) for text in more)]


DAYS = [
    date.fromisoformat(text)
    for text in ("0001-01-01", "1000-01-01", "1582-10-04", "1582-10-10", "1582-10-15", "1883-11-18")
] + [
    date.fromisoformat(text)
    for text in ("1969-12-31", "1970-01-01", "2024-02-29", "2026-03-08", "2026-10-25", "9999-12-31")
]
NEAR = (
    "2026-03-08 02:30:00", "2026-03-08 03:00:00", "2026-03-29 02:30:00",  # no such time there
    "2026-11-01 01:30:00", "2026-10-25 02:30:00",  # twice there
    "1883-11-18 12:03:57",  # before New York had a zone
)  # fmt: skip
UNEVEN = (
    "0001-01-01 00:00:00.000001", "1500-03-01 00:00:00.1", "1969-12-31 23:59:59.999999",
    "1970-01-01 00:00:00.000001", "2026-11-25 12:00:00.5", "2026-11-25 12:00:00.120",
    "9999-12-31 23:59:59.999999",
)  # fmt: skip
EVEN = (
    "0001-01-01 00:00:00", "1582-10-10 00:00:00", "1582-10-15 00:00:00", "1970-01-01 00:00:00",
    "2024-02-29 00:00:00", "2026-03-08 00:00:00", "2026-10-25 00:00:00", "2026-11-25 12:00:00",
    "2038-01-19 03:14:07", "9999-12-31 00:00:00", "9999-12-31 23:59:59",
)  # fmt: skip
TWICE = (  # both of an hour that is there twice in New York, in Berlin; midnights there
    "2026-11-01 05:30:00", "2026-11-01 06:30:00", "2026-10-25 00:30:00", "2026-10-25 01:30:00",
    "2026-03-08 07:00:00", "2026-03-29 01:00:00", "2026-03-08 05:00:00", "2026-03-28 23:00:00",
)  # fmt: skip
INTS = [0, 1, -1, 5, 20261125, 16777216, 16777217, 2**31 - 1, -(2**31), -(2**31) + 1]
LONGS = [
    *INTS, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 10**15, 10**18, 2**62, 2**63 - 1, -(2**63),
    2**63 - 512, 2**63 - 1024, 9223372036854774784, 123456789012345678,
]  # fmt: skip
DOUBLES = [
    0.0, -0.0, 1.0, -1.5, 0.5, 0.125, 8.125, 5.0, 100.0, 1e7, 1234567.0, 0.001, 1e-5, 1e15,
    2.0**24 + 1, 2.0**31, -(2.0**31), -(2.0**31) - 1, 2.0**31 - 1, 2.0**53, 2.0**53 + 2, 1e18,
    2.0**63 - 1024, 2.0**63, -(2.0**63), -(2.0**63) - 2048, 2.0**64, 1e20, 1e22, 1e23, 2e23, 0.1,
    -0.1, 1.1, 123456.78, 1 / 3, 123456789.123456789, 1.7976931348623157e308,
    -1.7976931348623157e308, 2.2250738585072014e-308, 2.225073858507201e-308, 5e-324, -5e-324,
    3.4028234663852886e38, 1.401298464324817e-45, 2.0**-20, 2.0**-38, 2.0**-149, 2.0**127,
]  # fmt: skip
FLOATS = [
    single(value)
    for value in (
        0.0, -0.0, 1.0, -1.5, 0.125, 5.0, 1e7, 16777216.0, 0.001953125, 2.0**31, -(2.0**31),
        2.0**31 - 128, 0.1, -(2.0**63), 2.0**63, 2.0**63 - 2.0**39, 2.0**64, 3.4028234663852886e38,
        1.1754943508222875e-38, 1.401298464324817e-45, -1.401298464324817e-45, 2.0**-20, 2.0**127,
    )
]  # fmt: skip
BEYOND = (
    "NaN", "Infinity", "-Infinity", "0000-01-01", "+10000-01-01", "-0001-01-01",
    "0000-01-01 00:00:00", "+10000-01-01 00:00:00",
)  # fmt: skip
"""Texts of values that Spark has and MySQL has not."""
TEXTS = [
    "", " ", "5", " 5", "5 ", "05", "+5", "-5", "5.0", "5.00", "-5.25", "5.", ".5", "0", "-0", "00",
    "-0.0", "0.0", "0.00", "-0.00", "5e0", "5E0", "5L", "5d", "1.0E20", "1E20", "1.0e20", "0x10",
    "0x", "0xFF00", "0xff00", "0xFF0", "0xFF00\n", "0XFF00", "abc", "NULL", "null", "true", "\x00",
    "a\x00b", "it's", 'say "x"', "back\\slash \\n", "`", "\n", "\t5", "5\n", "😀", "e\u0301", "\ufeff5",
    "٥", "5", "2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "9" * 38, "9" * 39, f"0.{'9' * 38}",
    f"0.{'0' * 37}1", f"0.{'0' * 38}", f"{'9' * 10}.99", f"{'9' * 11}.99", "1.005", "0.125", "0.1",
    "4.9E-324", "1.7976931348623157E308", "3.4028235E38", "1.0E39", "1.4E-45", "16777217.0",
    "1.6777217E7", "1.6777216E7", "9.007199254740993E15", "2026-11-25", "2026-1-5", "2026-11",
    "2026", "2026-02-29", "2026-02-30", "2024-02-29", "0000-00-00", "2026-11-25 ", "2026-11-25T00:00:00",
    "2026-11-25 12:00:00", "2026-11-25 12:00", "2026-11-25 12:00:00.5", "2026-11-25 12:00:00.500",
    "2026-11-25 12:00:00.000", "2026-11-25 12:00:00.123456", "2026-11-25 12:00:00.1234567",
    "2026-11-25 12:00:00.500000", "2026-11-25 12:00:00Z", "2026-11-25 12:00:00+02:00",
    "2026-11-25 24:00:00", "2026-11-25 23:59:60", "12:00:00", "today", "now", "epoch", "inf", *BEYOND,
    "0001-01-01", "9999-12-31", "1582-10-10", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999",
    *NEAR,
]  # fmt: skip
BYTES = [b"", b"\x00", b"\xff\x00", b"5", b"abc", b"0x35", "😀".encode(), bytes(range(256))]
VALUES: dict[StoredType, list[Any]] = {
    StoredType("int", "int"): INTS,
    StoredType("long", "bigint"): LONGS,
    StoredType("decimal(5,0)"): decimals("decimal(5,0)", "5"),
    StoredType("decimal(12,2)"): decimals("decimal(12,2)", "5", "5.25", "2147483648", "-2147483649"),
    StoredType("decimal(20,0)"): decimals(
        "decimal(20,0)", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
        "-9223372036854775809", "9007199254740993", "16777217",
    ),
    StoredType("decimal(38,0)"): decimals("decimal(38,0)", "1e20", "9007199254740993", "1e37"),
    StoredType("decimal(38,10)"): decimals("decimal(38,10)", "0.125", "5", "1e-7", "2147483647.5"),
    StoredType("decimal(38,38)"): decimals("decimal(38,38)", "0.125", "0.5", "1e-7", "1e-37"),
    StoredType("float", "float"): FLOATS,
    StoredType("double", "double"): DOUBLES,
    StoredType("string", "varchar(100)"): TEXTS,
    StoredType("binary", "varbinary(300)"): BYTES,
    StoredType("date", "date"): DAYS,
    StoredType("timestamp", "datetime"): moments(*EVEN, *NEAR),
    StoredType("timestamp", "datetime(3)"): moments(
        *EVEN, *NEAR, "2026-11-25 12:00:00.500", "2026-11-25 12:00:00.120", "9999-12-31 23:59:59.999"
    ),
    StoredType("timestamp", "datetime(6)"): moments(*EVEN, *NEAR, *UNEVEN),
    StoredType("timestamptz", "timestamp"): instants(*EVEN, *NEAR, *TWICE),
    StoredType("timestamptz", "timestamp(6)"): instants(*EVEN, *NEAR, *TWICE, *UNEVEN),
}  # fmt: skip
HELD = list(VALUES)
# One of each family in `make test`; `make test-full` has all of them.
_OFTEN = {"int", "decimal(38,10)", "string", "binary", "timestamp", "timestamptz"}
_OFTEN_OR_FULL = [
    pytest.param(
        held,
        id=f"{held.iceberg} {held.mysql}".strip(),
        marks=[] if held.iceberg in _OFTEN else [pytest.mark.full],
    )
    for held in HELD
]
# A raw table of old says nothing of MySQL's types, nor does the view over them.
WANTED = [*HELD, StoredType("timestamp"), StoredType("timestamptz"), StoredType("decimal(10,3)")]
Case = tuple[StoredType, bool]
"""The type wanted, and whether times are written by UTC."""
CASES: list[Case] = list(product(WANTED, (True, False)))


# --- the oracle -----------------------------------------------------------------------------------


def java_text(value: float, kind: str) -> str:
    """The fewest digits that read back as the number, at least two; of several, the nearest."""
    if value == 0:
        return "-0.0" if str(value).startswith("-") else "0.0"
    most = 9 if kind == "float" else 17
    reads_back = single if kind == "float" else float
    texts = (f"{abs(value):.{digits}e}" for digits in range(1, most))
    shortest = next(text for text in texts if reads_back(float(text)) == abs(value))
    digits, exponent = shortest.replace(".", "").split("e")
    digits, power = digits.rstrip("0").ljust(2, "0"), int(exponent)
    sign = "-" if value < 0 else ""
    if not -3 <= power < 7:
        return f"{sign}{digits[0]}.{digits[1:]}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits.rstrip('0')}"
    whole, part = digits[: power + 1].ljust(power + 1, "0"), digits[power + 1 :]
    return f"{sign}{whole}.{part.rstrip('0') or '0'}"


def text_form(value: Any, held: StoredType) -> str:
    """The one text of a value, by the table in the module's docstring."""
    if isinstance(value, bytes):
        return "0x" + value.hex().upper()
    if isinstance(value, float):
        return java_text(value, held.iceberg)
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        day = f"{value.year:04}-{value.month:02}-{value.day:02}"
        second = f"{value.hour:02}:{value.minute:02}:{value.second:02}"
        places = re.search(r"\((\d)\)", held.mysql)
        if places is None:
            part = f"{value.microsecond:06}".rstrip("0")
        else:
            part = f"{value.microsecond:06}"[: int(places[1])]
        return f"{day} {second}{'.' if part else ''}{part}"
    return str(value)


def expected(value: Any, held: StoredType, wanted: StoredType, utc: bool) -> Any:
    """The value in the type wanted, or `Lost` with its text."""
    if value is None:
        return None
    if held.iceberg == wanted.iceberg:
        return value
    if wanted.iceberg == "string":
        return text_form(value, held)
    found = of_text(value, wanted) if held.iceberg == "string" else of_value(value, wanted, utc)
    return Lost(text_form(value, held)) if found is None else found


def of_value(value: Any, wanted: StoredType, utc: bool) -> Any:
    """The same number or time in another type; None where it has no such."""
    kind = wanted.iceberg
    if isinstance(value, (int, float, Decimal)):
        return number_as(value, kind)
    if isinstance(value, datetime):
        is_instant = value.tzinfo is not None
        if kind == "date":
            whole = value.time() == value.time().min and (utc or not is_instant)
            return value.date() if whole else None
        if kind in ("timestamp", "timestamptz") and utc:
            return value.replace(tzinfo=None if is_instant else UTC)
        return None
    if isinstance(value, date):
        midnight = datetime.combine(value, datetime.min.time())
        if kind == "timestamptz":
            return midnight.replace(tzinfo=UTC) if utc else None
        return midnight if kind == "timestamp" else None
    return None


def number_as(value: float | Decimal, kind: str) -> Any:
    exact = Decimal(value)
    if isinstance(value, float) != (kind in ("float", "double")):
        # By rule only whole numbers, as far as each has a place of its own in both.
        most = 2**24 if kind == "float" else 2**53
        if exact != exact.to_integral_value() or abs(exact) > most:
            return None
    minus_zero = isinstance(value, float) and not value and str(value).startswith("-")
    if kind in ("float", "double"):
        if minus_zero:
            return value
        try:
            near = single(float(exact)) if kind == "float" else float(exact)
        except OverflowError:
            return None
        return near if Decimal(near) == exact else None
    if minus_zero:
        return None
    if kind in ("int", "long"):
        half = 2 ** (31 if kind == "int" else 63)
        fits = exact == exact.to_integral_value() and -half <= exact < half
        return int(exact) if fits else None
    if kind.startswith("decimal("):
        return as_decimal(exact, kind)
    return None


def as_decimal(exact: Decimal, kind: str) -> Decimal | None:
    precision, scale = digits_of(kind)
    with localcontext(prec=1200):
        unscaled = exact.scaleb(scale)
        if unscaled != unscaled.to_integral_value() or abs(unscaled) >= 10**precision:
            return None
        return exact.quantize(Decimal((0, (1,), -scale)))


def of_text(text: str, wanted: StoredType) -> Any:
    """The value that has this very text; None where no value of the type has."""
    kind = "decimal" if wanted.iceberg.startswith("decimal(") else wanted.iceberg
    pattern, parse = PARSED[kind]
    if not re.fullmatch(pattern, text):
        return None
    try:
        found = parse(text, wanted.iceberg)
    except (ValueError, OverflowError):
        return None
    return found if found is not None and text_form(found, wanted) == text else None


def text_as_decimal(text: str, kind: str) -> Decimal | None:
    found = as_decimal(Decimal(text), kind)
    return found.copy_abs() if found is not None and not found else found  # its zero has no sign


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None  # MySQL has no other


WHOLE = r"-?[0-9]{1,20}"
REAL = r"-?[0-9]+\.[0-9]+(E-?[0-9]+)?"
MOMENT = r"[0-9-]{10} [0-9:]{8}(\.[0-9]{1,6})?"
PARSED: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "int": (WHOLE, lambda text, kind: number_as(int(text), kind)),
    "long": (WHOLE, lambda text, kind: number_as(int(text), kind)),
    "decimal": (r"-?[0-9]+(\.[0-9]+)?", text_as_decimal),
    "float": (REAL, lambda text, _: finite(single(float(text)))),
    "double": (REAL, lambda text, _: finite(float(text))),
    "binary": (r"0x([0-9A-F]{2})*", lambda text, _: bytes.fromhex(text[2:])),
    "date": (r"[0-9]{4}-[0-9]{2}-[0-9]{2}", lambda text, _: date.fromisoformat(text)),
    "timestamp": (MOMENT, lambda text, _: datetime.fromisoformat(text)),
    "timestamptz": (MOMENT, lambda text, _: datetime.fromisoformat(text).replace(tzinfo=UTC)),
}


# --- what Spark gives -----------------------------------------------------------------------------


def arrow_type(kind: str) -> pa.DataType:
    if kind.startswith("decimal("):
        return pa.decimal128(*digits_of(kind))
    return {
        "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
        "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
        "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    }[kind]  # fmt: skip


SPARK = {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp"}


def python_values(column: pa.ChunkedArray, kind: str) -> list[Any]:
    """A column's values; of days and times their count is read, which no zone changes."""
    if kind not in ("date", "timestamp", "timestamptz"):
        return column.to_pylist()
    counted = column.cast(pa.int32() if kind == "date" else pa.int64()).to_pylist()
    return [None if count is None else moment_of(count, kind) for count in counted]


def moment_of(count: int, kind: str) -> Any:
    """The date or time this many days or microseconds after 1970; past the year 9999, the count
    as a text."""
    try:
        if kind == "date":
            return date(1970, 1, 1) + timedelta(days=count)
        start = datetime(1970, 1, 1, tzinfo=UTC if kind == "timestamptz" else None)
        return start + timedelta(microseconds=count)
    except OverflowError:
        return f"{count} since 1970"


@pytest.fixture(scope="module")
def session(place: Place) -> Iterator[Any]:
    """A session of the module's own, whose settings nobody else sees."""
    session = place.spark.get().newSession()
    yield session
    for number in range(len(HELD)):
        session.catalog.dropTempView(f"held_{number}")


Answer = dict[Case, list[Any]]


def ask(session: Any, held: StoredType, values: list[Any], cases: list[Case]) -> Answer:
    """What values become in each case, by one query."""
    view = f"held_{HELD.index(held)}"
    table = pa.table({COLUMN: pa.array(values, arrow_type(held.iceberg))})
    # With its type said, Spark takes a time for what it is in every zone.
    schema = f"{NAME} {SPARK.get(held.iceberg, held.iceberg)}"
    session.createDataFrame(table, schema).createOrReplaceTempView(view)
    columns: list[str] = []
    for number, (wanted, utc) in enumerate(cases):
        found = convert(NAME, held, wanted, utc=utc)
        columns.append(f"{found.value} AS v{number}")
        columns.append(f"{found.original or 'CAST(NULL AS string)'} AS o{number}")
    rows = session.sql(f"SELECT {', '.join(columns)} FROM {view}").toArrow()
    answers: Answer = {}
    for number, case in enumerate(cases):
        kind = case[0].iceberg
        shown = rows[f"v{number}"]
        assert shown.type.id == arrow_type(kind).id, (held, case, shown.type)
        pairs = zip(python_values(shown, kind), rows[f"o{number}"].to_pylist(), strict=True)
        answers[case] = [
            value if text is None else Lost(text) if value is None else (value, text)
            for value, text in pairs
        ]
    return answers


def shown_as(value: Any) -> tuple[str, str]:
    """What tells any two values apart: 0.0 and -0.0, 5 and 5.0, '5' and 5."""
    value = bytes(value) if isinstance(value, bytearray) else value
    return type(value).__name__, f"{value:f}" if isinstance(value, Decimal) else repr(value)


def has_longer_text(value: Any, held: StoredType, wanted: StoredType) -> bool:
    longer = {
        "float": (2.0**31, 2.0**31 - 128, 1.1754943508222875e-38),
        "double": (1e23, 2e23, 2.0**63 - 1024),
    }
    return isinstance(value, float) and abs(value) in longer.get(held.iceberg, ())


def differences(held: StoredType, values: list[Any], answers: Answer) -> list[str]:
    """The cases that are otherwise than the oracle has them."""
    return [
        f"{held} {value!r} as {wanted}{'' if utc else ', not UTC'}: {got!r}, expected {want!r}"
        for (wanted, utc), found in answers.items()
        for value, got in zip(values, found, strict=True)
        if not has_longer_text(value, held, wanted)
        and shown_as(got) != shown_as(want := expected(value, held, wanted, utc))
    ]


def use(session: Any, zone: str, strict: str) -> None:
    session.conf.set("spark.sql.session.timeZone", zone)
    session.conf.set("spark.sql.ansi.enabled", strict)


def test_the_settings_are_used(session: Any) -> None:
    """Otherwise those below would prove nothing."""
    use(session, "America/New_York", "false")
    query = "SELECT CAST(timestamp_seconds(0) AS string) AS t, CAST('x' AS int) AS n"
    assert tuple(session.sql(query).collect()[0]) == ("1969-12-31 19:00:00", None)
    use(session, "UTC", "true")
    with pytest.raises(Exception, match="CAST_INVALID_INPUT"):
        session.sql(query).collect()


@pytest.mark.parametrize("held", _OFTEN_OR_FULL)
def test_a_value_is_itself_in_another_type_or_null_with_its_text(
    session: Any, held: StoredType
) -> None:
    values = [*VALUES[held], None]
    use(session, *SETTINGS[0])
    first = ask(session, held, values, CASES)
    assert differences(held, values, first) == []
    shown = {case: [*map(shown_as, found)] for case, found in first.items()}
    for zone, strict in SETTINGS[1:]:
        use(session, zone, strict)
        again = ask(session, held, values, CASES)
        assert {c: [*map(shown_as, found)] for c, found in again.items()} == shown, (zone, strict)
    for wanted, utc in CASES:
        if holds_all(held.iceberg, wanted.iceberg, utc=utc):
            found = first[wanted, utc]
            assert not any(isinstance(one, Lost) for one in found), (wanted, utc)
            # Each has a place of its own.
            assert len({*map(shown_as, found)}) == len({*map(shown_as, values)}), (wanted, utc)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_a_text_that_is_not_the_shortest_reads_back_all_the_same(session: Any, kind: str) -> None:
    """Java 17 writes 2.0E23 as 1.9999999999999998E23, and a float of 2^31 as 2.14748365E9."""
    use(session, *SETTINGS[0])
    held, wanted = StoredType(kind, kind), StoredType("string")
    values = [value for value in VALUES[held] if has_longer_text(value, held, wanted)]
    [texts] = ask(session, held, values, [(wanted, True)]).values()
    reads_back = single if kind == "float" else float
    assert values
    assert [reads_back(float(text)) for text in texts] == values
