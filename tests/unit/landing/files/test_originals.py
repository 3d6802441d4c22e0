"""Values that have no place in their column, told by the record itself: kept, or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import ColumnRule
from mirrorlake.errors import LandingError
from mirrorlake.landing.files.columns import LandedColumn, LandedSchema, parse_schema
from tests.unit.landing.files.test_readers import contract, take

SCHEMA = LandedSchema(
    (
        LandedColumn("id", "long", False),
        LandedColumn("e", "string", original=True),
        LandedColumn("plain", "string"),
        LandedColumn("on", "date"),
    )
)


def line(**more: Any) -> bytes:
    return json.dumps({"id": 1, "e": None, "plain": "x", "on": "0000-00-00", **more}).encode()


def test_what_a_record_tells_stands_beside_the_dates(tmp_path: Path) -> None:
    lines = b"\n".join(
        [line(e="", _mirror_original={"e": "0"}), line(e="a"), line(_mirror_original=None)]
    )
    found, _ = take(tmp_path, "a.json", lines, schema=SCHEMA)
    date = {"column": "on", "text": "0000-00-00"}
    told = [row["_mirror_original"] for row in found]
    assert told == [[{"column": "e", "text": "0"}, date], [date], [date]]
    assert [row["e"] for row in found] == ["", "a", None]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"_mirror_original": {"plain": "y"}}, "is no object of columns"),
        ({"_mirror_original": {"on": "2026-01-01"}}, "is no object of columns"),
        ({"_mirror_original": {"e": 1}}, "is no object of columns"),
        ({"_mirror_original": [["e", "x"]]}, "is no object of columns"),
        ({"_mirror_original": "e"}, "is no object of columns"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, more: dict[str, Any], reason: str) -> None:
    with pytest.raises(LandingError, match=reason):
        take(tmp_path, "a.json", line(**more), schema=SCHEMA)


def test_a_column_that_is_never_read_has_no_originals(tmp_path: Path) -> None:
    text = (
        '{"version": 1, "columns": [{"name": "id", "type": "long"}, {"name": "e", '
        '"type": "string", "original": true}]}'
    )
    schema = parse_schema(text.encode(), "x", contract(columns={"e": ColumnRule(pci="never")}))
    record = b'{"id": 1, "e": null, "_mirror_original": {"e": "secret"}}'
    found, _ = take(tmp_path, "a.json", record, schema=schema)
    assert found == [{"id": 1}]
