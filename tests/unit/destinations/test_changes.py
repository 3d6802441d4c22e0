"""What changed between two versions: with the days on which the earlier one had these rows, a MERGE
within these days alone gives the later one."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from datetime import date

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import In

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.changes import changes_since
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table

DAYS = st.sampled_from([None, *(date(2026, 1, n) for n in range(1, 6))])
VERSION = st.dictionaries(st.integers(0, 9), DAYS, min_size=1)


def append(table: LakeTable, rows: Iterable[tuple[int, date | None]]) -> None:
    found = [{"id": key, "day": day} for key, day in rows]
    if found:
        table.append(pa.Table.from_pylist(found, table.schema().as_arrow()))


def merged(
    rows: list[tuple[int, date | None]],
    source: list[tuple[int, date | None]],
    gone: set[int],
    within: set[date | None],
) -> list[tuple[int, date | None]]:
    """What a MERGE by the key makes of rows of which it sees those of some days alone."""
    keys = {key for key, _ in source} | gone
    kept = [(key, day) for key, day in rows if key not in keys or day not in within]
    return [*kept, *source]


@settings(max_examples=12)
@given(VERSION, VERSION)
def test_a_merge_within_the_days_gives_the_later_version(
    before: dict[int, date | None], after: dict[int, date | None]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(LakeConfig(warehouse=folder))
        columns = current_schema([("id", "long"), ("day", "date")], False)
        table = ensure_current_table(lake, Identifier("n", "t"), columns)
        for part in range(3):
            append(table, [(key, day) for key, day in before.items() if key % 3 == part])
        first = table.current_snapshot()
        assert first is not None
        missing = object()
        moved = {key for key, day in before.items() if after.get(key, missing) != day}
        if moved:
            table.delete(In("id", moved))
        append(table, [(k, day) for k, day in after.items() if k in moved or k not in before])
        changes = changes_since(lake, table, first.snapshot_id)
        assert changes is not None
        assert not changes.may_be_unset(["id"])
        batches = changes.read_added(lake, ["id", "day"])
        source = [(row["id"], row["day"]) for batch in batches for row in batch.to_pylist()]
        gone = {*changes.find_gone(lake, ["id"])["id"].to_pylist()}
        within = {*changes.find_left(lake, ["id"], "day").to_pylist(), *(day for _, day in source)}
    found = merged([*before.items()], source, gone, within)
    assert sorted(found, key=repr) == sorted(after.items(), key=repr)
