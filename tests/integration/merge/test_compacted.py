"""Compaction is due where Iceberg would write files again, and Spark is started only then."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.table import Table

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.small_files import needs_rewrite
from mirrorlake.merge import compaction
from mirrorlake.merge.compaction import compact
from mirrorlake.workspace import Workspace

SCHEMA = pa.schema([pa.field("part", pa.int32()), pa.field("text", pa.string())])
TARGET = 80_000
SIZES = (50, 4_000, 15_000, 60_000, 400_000)
"""Bytes of a file, about: an eighth of the target and less, more, and more than four times as
much."""


def grow(table: Table, dice: random.Random) -> None:
    """One more file, or two of two partitions."""
    size, parts = dice.choice(SIZES), dice.sample(range(3), dice.choice((1, 1, 2)))
    rows = [{"part": part, "text": dice.randbytes(size // 2).hex()} for part in parts]
    table.append(pa.Table.from_pylist(rows, SCHEMA))


def loaded(lake: Lake, identifier: Identifier) -> Table:
    table = lake.load(identifier)
    assert table is not None
    return table


def files(table: Table) -> set[tuple[str, int]]:
    return {(task.file.file_path, len(task.delete_files)) for task in table.scan().plan_files()}


@pytest.mark.parametrize("partitioned", [False, True, pytest.param(None, id="since a while")])
def test_what_iceberg_would_write_again_is_found_without_it(
    engine_for: Callable[..., Workspace],
    partitioned: bool | None,
    monkeypatch: pytest.MonkeyPatch,
    database: str,
) -> None:
    workspace = engine_for({})
    lake, spark = workspace.lake, workspace.spark.get
    identifier, seen = Identifier(database, "t"), set[bool]()
    lake.make_namespace(database)
    lake.catalog.create_table(
        identifier.path,
        SCHEMA,
        location=lake.location(identifier),
        properties={"write.target-file-size-bytes": str(TARGET)},
    )
    dice = random.Random(7)  # noqa: S311 (files, no secrets)
    for step in range(12):
        if partitioned or (partitioned is None and step == 5):
            partitioned = False
            loaded(lake, identifier).update_spec().add_identity("part").commit()
        grow(loaded(lake, identifier), dice)
        before = loaded(lake, identifier)
        due = needs_rewrite(before)
        if step % 2:
            continue  # let some pile up
        with monkeypatch.context() as on:
            on.setattr(compaction, "needs_rewrite", lambda _: True)
            compact(spark, lake, before, identifier)
        changed = files(before) != files(loaded(lake, identifier))
        assert due == changed, f"step {step}: {sorted(files(before))}"
        assert not needs_rewrite(loaded(lake, identifier)), "it would be done for ever"
        seen.add(due)
    assert seen == {True, False}


def test_deletes_are_looked_at_by_iceberg(
    engine_for: Callable[..., Workspace], database: str
) -> None:
    workspace = engine_for({})
    lake, identifier = workspace.lake, Identifier(database, "t")
    lake.make_namespace(database)
    properties = {"write.delete.mode": "merge-on-read", "format-version": "2"}
    at = lake.location(identifier)
    table = lake.catalog.create_table(identifier.path, SCHEMA, at, properties=properties)
    table.append(pa.Table.from_pylist([{"part": n, "text": "x"} for n in range(10)], SCHEMA))
    assert not needs_rewrite(loaded(lake, identifier))
    workspace.spark.get().sql(f"DELETE FROM {identifier.sql} WHERE part < 5")
    assert needs_rewrite(loaded(lake, identifier))
    assert compact(workspace.spark.get, lake, loaded(lake, identifier), identifier)
    assert {deletes for _, deletes in files(loaded(lake, identifier))} == {0}
    assert loaded(lake, identifier).scan().to_arrow().num_rows == 5


def test_what_is_not_due_asks_for_no_spark(
    engine_for: Callable[..., Workspace], database: str
) -> None:
    workspace = engine_for({})
    lake, identifier = workspace.lake, Identifier(database, "t")
    lake.make_namespace(database)
    at = lake.location(identifier)
    table = lake.catalog.create_table(identifier.path, SCHEMA, at)
    table.append(pa.Table.from_pylist([{"part": 1, "text": "x"}], SCHEMA))

    def refuse() -> None:
        raise AssertionError("Spark was asked for")

    assert not compact(refuse, lake, loaded(lake, identifier), identifier)  # type: ignore[arg-type]
