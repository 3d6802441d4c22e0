"""Forms of values that Hypothesis invents: written into MySQL and into Spark, asked of both.

Neither side's values come through the engine. Equal forms for equal values, others for others.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from mirrorlake.proof.forms.canonical import Form
from mirrorlake.proof.forms.rows import lake_sum, row_form
from mirrorlake.proof.sides.duckdb_forms import forms_of
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import session_statements
from mirrorlake.sources.mysql.tables import Column
from tests.integration.conftest import Place

Sql = Callable[..., Any]
MOST_TEXT = 40


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def texts(most: int = MOST_TEXT) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=most)


def moments(low: datetime, high: datetime, step: int = 1) -> st.SearchStrategy[datetime]:
    return st.datetimes(low, high).map(
        lambda at: at.replace(microsecond=at.microsecond // step * step)
    )


FIRST, LAST = datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999_999)
EPOCH, END = datetime(1970, 1, 1, 0, 0, 1), datetime(2038, 1, 19, 3, 14, 7)
COLUMNS: dict[str, tuple[str, pa.DataType, st.SearchStrategy[Any]]] = {
    "i": ("BIGINT", pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "u": ("BIGINT UNSIGNED", pa.decimal128(20, 0), st.integers(0, 2**64 - 1)),
    "d": ("DECIMAL(38,10)", pa.decimal128(38, 10), st.decimals(-(10**27), 10**27, places=10)),
    "e": ("DECIMAL(5,2)", pa.decimal128(5, 2), st.decimals(-999, 999, places=2)),
    "f": ("DOUBLE", pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "g": ("FLOAT", pa.float32(), st.floats(allow_nan=False, allow_infinity=False, width=32)),
    "t": (f"VARCHAR({MOST_TEXT}) CHARACTER SET utf8mb4", pa.string(), texts()),
    "l": ("MEDIUMTEXT CHARACTER SET utf8mb4", pa.string(), texts(300)),
    "b": ("VARBINARY(40)", pa.binary(), st.binary(max_size=40)),
    "c": ("BLOB", pa.binary(), st.binary(max_size=400)),
    "day": ("DATE", pa.date32(), st.dates(FIRST.date(), LAST.date())),
    "at": ("DATETIME", pa.timestamp("us"), moments(FIRST, LAST, 1_000_000)),
    "at3": ("DATETIME(3)", pa.timestamp("us"), moments(FIRST, LAST, 1_000)),
    "at6": ("DATETIME(6)", pa.timestamp("us"), moments(FIRST, LAST)),
    "ts": ("TIMESTAMP(6) NULL", pa.timestamp("us", "UTC"), moments(EPOCH, END)),
}  # fmt: skip
ROW = st.tuples(*(st.none() | strategy for _, _, strategy in COLUMNS.values()))


def told(value: Any) -> Any:
    """As PyMySQL writes it."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, date) else value


def same(value: Any) -> Any:
    """What makes two values one: of a double its bits."""
    return struct.pack("<d", value) if isinstance(value, float) else value


def check_forms(server: EmbeddedServer, database: str, place: Place, examples: int) -> None:
    connection = server.admin(database)
    with connection.cursor() as cursor:
        for statement in session_statements():
            cursor.execute(statement)
        columns = ", ".join(f"`{name}` {ddl}" for name, (ddl, _, _) in COLUMNS.items())
        cursor.execute(f"CREATE TABLE t ({columns}, n INT AUTO_INCREMENT PRIMARY KEY)")
    table = read_table(connection, database, "t")
    forms = row_form(table.columns[:-1], False, 1 << 24)
    spark = place.spark.get()

    @settings(
        phases=(Phase.generate,), max_examples=examples, deadline=None, derandomize=True,
        database=None, suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(rows=st.lists(ROW, min_size=20, max_size=60))
    def check(rows: list[tuple[Any, ...]]) -> None:
        names = ", ".join(f"`{name}`" for name in COLUMNS)
        marks = ", ".join(["%s"] * len(COLUMNS))
        with connection.cursor() as cursor:
            cursor.execute("DELETE FROM t")
            into = f"INSERT INTO t ({names}) VALUES ({marks})"
            cursor.executemany(into, [tuple(map(told, row)) for row in rows])
            asked = ", ".join([*(c.source for c in forms.cells), forms.source_digest])
            cursor.execute(f"SELECT {asked} FROM t ORDER BY n")
            ours = [tuple(plain(cell) for cell in row) for row in cursor.fetchall()]
        arrays = arrays_of(rows)
        assert ours == lake_forms(arrays)
        assert_by_duckdb(table.columns[:-1], forms.cells, arrays, ours)
        for number, values in enumerate(zip(*rows, strict=True)):
            distinct = {(v is None, same(v)) for v in values}
            assert len({row[number] for row in ours}) == len(distinct), list(COLUMNS)[number]

    def arrays_of(rows: list[tuple[Any, ...]]) -> list[Any]:
        arrays = []
        for values, (_, kind, _) in zip(zip(*rows, strict=True), COLUMNS.values(), strict=True):
            if pa.types.is_timestamp(kind) and kind.tz:
                values = [None if v is None else v.replace(tzinfo=UTC) for v in values]
            if pa.types.is_decimal(kind):
                values = [None if v is None else Decimal(v) for v in values]
            arrays.append(pa.array(values, kind))
        return arrays

    def lake_forms(arrays: list[Any]) -> list[tuple[Any, ...]]:
        view = f"forms_{uuid.uuid4().hex}"
        spark.createDataFrame(pa.table(arrays, names=list(COLUMNS))).createTempView(view)
        asked = ", ".join(
            f"{sql} AS c{n}"
            for n, sql in enumerate([*(c.lake for c in forms.cells), forms.lake_digest_text])
        )
        found = spark.sql(f"SELECT {asked} FROM {view}").collect()
        [(added, *signed)] = spark.sql(
            f"SELECT {lake_sum('h')}, collect_list(h) FROM"
            f" (SELECT {forms.lake_digest} AS h FROM {view})"
        ).collect()
        digests = sorted(int(row[-1]) for row in found)
        assert sorted(h % 2**64 for h in signed[0]) == digests
        assert added == sum(digests)
        spark.catalog.dropTempView(view)
        return [tuple(plain(cell) for cell in row) for row in found]

    check()
    connection.close()


def assert_by_duckdb(
    columns: Sequence[Column], cells: Sequence[Form], arrays: list[Any], ours: list[tuple[Any, ...]]
) -> None:
    """The forms of the check that needs no Spark are the same, where it has one."""
    for number, (column, form) in enumerate(zip(columns, cells, strict=True)):
        made = forms_of([(column, form)], pa.table({form.name: arrays[number]}))
        assert made.column("f0").to_pylist() == [row[number] for row in ours], column.name


def plain(cell: Any) -> str:
    return cell.decode() if isinstance(cell, bytes) else str(cell)


def test_invented_values_have_one_form(server: EmbeddedServer, database: str, place: Place) -> None:
    check_forms(server, database, place, 3)


@pytest.mark.full
def test_many_invented_values_have_one_form(
    server: EmbeddedServer, database: str, place: Place
) -> None:
    check_forms(server, database, place, 200)
