"""Which rows are a day's: DuckDB says it of random moments, on all sides of midnight."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config import Namespaces, TableContract
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.errors import ConfigError
from mirrorlake.serving.clean_days import (
    DayColumn,
    day_column,
    joined,
    refuse_parts_of_days,
)

DAY = timedelta(days=1)
FIRST = datetime(2024, 5, 1)
KINDS = {
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
}
days = st.sets(st.integers(0, 5), max_size=4)
moments = st.lists(
    st.one_of(
        st.none(),
        st.builds(
            lambda day, micro: FIRST + day * DAY + timedelta(microseconds=micro),
            st.integers(-1, 6),
            st.sampled_from([-1, 0, 1, 43_200_000_000]),
        ),
    )
)


@given(st.sampled_from(sorted(KINDS)), days, moments)
def test_a_days_rows_are_those_of_its_date(
    kind: str, wanted: set[int], values: list[datetime | None]
) -> None:
    stored = values
    if kind == "timestamptz":
        stored = [value and value.replace(tzinfo=UTC) for value in values]
    elif kind == "date":
        stored = [value and value.date() for value in values]  # type: ignore[misc]
    batch = pa.record_batch(
        {"n": pa.array(range(len(values))), "at": pa.array(stored, KINDS[kind])}
    )
    periods = joined((FIRST + n * DAY, FIRST + (n + 1) * DAY) for n in wanted)
    chosen = DayColumn("at", kind).chosen(batch, periods).column("n").to_pylist()
    named = [(FIRST + n * DAY).date() for n in wanted]
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    held = pa.Table.from_batches([batch])  # noqa: F841 - DuckDB finds it by its name
    found = connection.execute(
        'SELECT n FROM held WHERE CAST("at" AS DATE) IN (SELECT unnest(?::DATE[])) ORDER BY n',
        [named],
    ).fetchall()
    assert chosen == [n for (n,) in found]


def contract(**fields: object) -> TableContract:
    base = {"source": "s", "database": "d", "table": "t", "mode": "append"}
    names = Namespaces(raw="r", deduped="d", clean="c")
    return TableContract(**{**base, "namespaces": names, **fields})  # type: ignore[arg-type]


def schema(**kinds: str) -> object:
    return current_schema(list(kinds.items()), with_original=False)


def test_the_cursor_tells_the_day_else_created() -> None:
    columns = schema(Id="long", At="timestamp", made="date")
    for fields, name in (
        ({"cursor": "at", "created": "made"}, "At"),
        ({"cursor": "id", "created": "made"}, "made"),
    ):
        assert day_column(contract(**fields), columns, columns).name == name
    with pytest.raises(ConfigError, match="no column of it gives"):
        day_column(contract(cursor="id"), columns, columns)


def test_a_hidden_or_absent_day_is_refused() -> None:
    columns, without = schema(id="long", at="timestamp"), schema(id="long")
    hidden = contract(cursor="at", columns={"AT": {"pii": "null"}})
    for one, clean in ((hidden, columns), (contract(cursor="at"), without)):
        with pytest.raises(ConfigError, match="hides it"):
            day_column(one, columns, clean)
    shown = contract(cursor="at", columns={"AT": {"pii": "show"}})
    assert day_column(shown, columns, columns).name == "at"


def test_a_date_has_no_hours() -> None:
    hours = [(FIRST, FIRST + timedelta(hours=1))]
    refuse_parts_of_days(contract(), DayColumn("at", "timestamp"), hours)
    with pytest.raises(ConfigError, match="gives no row's hour"):
        refuse_parts_of_days(contract(), DayColumn("at", "date"), hours)
