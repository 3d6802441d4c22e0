"""The three states of a lake table: ours, moved by other hands, another table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table.snapshots import Operation

from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import BASE, BY, FOLDED, LOAD_ID
from mirrorlake.destinations.iceberg.commits.heads import how_moved
from mirrorlake.destinations.iceberg.commits.recorded_heads import read_head
from mirrorlake.destinations.iceberg.lake import Lake

NAME = Identifier("shop", "orders")
ROWS = pa.table({"id": pa.array([1, 2], pa.int32())})
OURS = {BY: "mirrorlake"}


@pytest.fixture
def table(tmp_path: Path) -> Any:
    lake = Lake(LakeConfig(warehouse=str(tmp_path)))
    lake.make_namespace(NAME.namespace)
    made = lake.catalog.create_table(NAME.path, ROWS.schema)
    made.append(ROWS, {LOAD_ID: "a"})
    return made


def read(table: Any) -> Any:
    return read_head(table.refresh(), "s.d.orders", NAME)


def replaced(table: Any, *, rows: int) -> None:
    """A commit that writes so many rows in place of all, of the operation ``replace``, as other
    tools' compactions are. PyIceberg makes none: its own is called so once it is there."""
    table.overwrite(pa.table({"id": pa.array(range(rows), pa.int32())}))
    metadata = table.refresh().metadata
    taken, written = metadata.snapshots[-2:]
    summary = written.summary.model_copy(update={"operation": Operation.REPLACE})
    # It is made of two commits; a compaction is one.
    changed = {"summary": summary, "parent_snapshot_id": taken.parent_snapshot_id}
    metadata.snapshots[-1] = written.model_copy(update=changed)


def ours(table: Any) -> None:
    table.append(ROWS, OURS)


def a_fold_after_a_load(table: Any) -> None:
    table.append(ROWS, {LOAD_ID: "b"})
    table.append(ROWS, {FOLDED: "7"})


def appended(table: Any) -> None:
    table.append(ROWS)


def ours_over_theirs(table: Any) -> None:
    table.append(ROWS)
    table.refresh().append(ROWS, OURS)


def deleted(table: Any) -> None:
    table.delete("id = 1")


def set_back(table: Any) -> None:
    first = table.snapshots()[0].snapshot_id
    table.manage_snapshots().set_current_snapshot(snapshot_id=first).commit()


def ours_over_an_older(table: Any) -> None:
    set_back(table)
    table.refresh().append(ROWS, OURS)


def compacted(table: Any) -> None:
    replaced(table, rows=4)


def compacted_with_a_row_less(table: Any) -> None:
    replaced(table, rows=3)


def a_branch_of_ours(table: Any) -> None:
    """Spark deletes whole files by a commit that carries no property."""
    base = table.current_snapshot().snapshot_id
    table.delete("id = 1")
    table.refresh().append(ROWS, OURS | {BASE: str(base)})


def a_branch_of_ours_over_theirs(table: Any) -> None:
    table.append(ROWS)
    a_branch_of_ours(table.refresh())


def renamed_property(table: Any) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"comment": "x"})


@pytest.mark.parametrize(
    ("hand", "how"),
    [
        (ours, None),
        (a_fold_after_a_load, None),
        (a_branch_of_ours, None),
        (a_branch_of_ours_over_theirs, "written"),
        (renamed_property, None),
        (compacted, None),
        (compacted_with_a_row_less, "written"),
        (appended, "written"),
        (ours_over_theirs, "written"),
        (deleted, "written"),
        (set_back, "set back"),
        (ours_over_an_older, "set back"),
    ],
)
def test_what_a_table_shows_is_compared_with_our_last_commit(
    table: Any, hand: Callable[[Any], None], how: str | None
) -> None:
    table.append(ROWS, OURS)
    left = read(table)
    hand(table)
    assert how_moved(table.refresh(), left) == how


def test_a_table_of_the_same_name_is_another(table: Any) -> None:
    left, catalog = read(table), table.catalog
    catalog.drop_table(NAME.path)
    assert how_moved(None, left) == "gone"
    made = catalog.create_table(NAME.path, ROWS.schema)
    made.append(ROWS, OURS)
    assert how_moved(made.refresh(), left) == "another"


def test_an_empty_table_of_ours_may_be_written_by_us_alone(tmp_path: Path) -> None:
    lake = Lake(LakeConfig(warehouse=str(tmp_path)))
    lake.make_namespace(NAME.namespace)
    made: Any = lake.catalog.create_table(NAME.path, ROWS.schema)
    left = read(made)
    assert how_moved(made, left) is None
    made.append(ROWS)
    assert how_moved(made.refresh(), left) == "written"
