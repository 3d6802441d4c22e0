"""Paths of what lands: written as agreed, read back, and nothing else taken for one."""

from __future__ import annotations

from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.sources.files.layout import (
    Name,
    TableFolder,
    escape,
    id_of,
    is_passing,
    parse_day,
    time_of,
)

DAY = date(2026, 1, 31)


def folder(part: str = "dq", form: str = "json") -> TableFolder:
    return TableFolder(form, "main", "shop", "prices", part)  # pyright: ignore


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ("dq", "json/main/shop/prices/dq/20260131/20260131000000_3.json"),
        ("15m", "json/main/shop/prices/partition/15m/20260131/20260131000000_3.json"),
        ("1d", "json/main/shop/prices/partition/1d/20260131/20260131000000_3.json"),
    ],
)
def test_the_layout_is_the_one_that_is_agreed(part: str, path: str) -> None:
    place = folder(part)
    assert f"{place.day_path(DAY)}/{place.chunk_name(20260131000000, 3)}" == path
    assert place.schema_path == "schemas/main/shop/prices.json"


@given(
    when=st.datetimes(datetime(1970, 1, 1), datetime(2199, 1, 1)),
    number=st.integers(0, 10**6),
    compression=st.sampled_from(["", "gz", "zst"]),
    form=st.sampled_from(["json", "csv", "parquet"]),
)
def test_what_is_written_is_read_back(
    when: datetime, number: int, compression: str, form: str
) -> None:
    place, snapshot = folder(form=form), id_of(when)
    compression = "" if form == "parquet" else compression
    name = place.chunk_name(snapshot, number, compression)  # pyright: ignore
    assert place.parse_name(when.date(), name) == Name(snapshot, "chunk", number, compression)  # pyright: ignore
    assert time_of(snapshot) == when.replace(microsecond=0)
    manifest = place.parse_name(when.date(), place.manifest_name(snapshot))
    marker = place.parse_name(when.date(), place.marker_name(snapshot))
    assert (manifest, marker) == (Name(snapshot, "manifest"), Name(snapshot, "marker"))


@pytest.mark.parametrize(
    "name",
    [
        "20260131120000.json",  # no number
        "20260131120000_01.json",  # two names of one chunk
        "20260131120000_1.csv",  # another format
        "20260131120000_1.json.tmp",
        "20260131126000_1.json",  # no such minute
        "20260201120000_1.json",  # another day's
        "２0260131120000_1.json",  # digits of another script
        "20260131120000_1.json.bz2",
        "20260131120000_1.json\n",
        "2026-01-31_1.json",
    ],
)
def test_another_name_is_none_of_ours(name: str) -> None:
    assert folder().parse_name(DAY, name) is None


def test_a_part_of_a_day_begins_at_midnight() -> None:
    assert folder("1d").parse_name(DAY, "20260131000000_0.json") is not None
    assert folder("1d").parse_name(DAY, "20260131120000_0.json") is None


def test_a_name_can_not_leave_its_folder() -> None:
    place = TableFolder("json", "..", "a/b", "50%", "dq")
    assert place.path == "json/%2E%2E/a%2Fb/50%25/dq"
    assert escape("größe 1.2") == "größe 1.2"


def test_what_is_not_done_is_passed_over() -> None:
    for name in ("_temporary", ".20260131120000_1.json.swp", "20260131120000_1.json.tmp", "x.crc"):
        assert is_passing(name)
    assert not is_passing("20260131120000_1.json")


def test_a_day_is_one_of_the_calendar() -> None:
    assert parse_day("20240229") == date(2024, 2, 29)
    assert [parse_day(n) for n in ("20230229", "2024029", "dq", "202402290")] == [None] * 4
