"""Which loads' rows came into a raw table, or left it, is said by its files alone."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from mirrorlake.destinations.iceberg.tables.versions import LoadsMoved, loads_moved
from mirrorlake.schema.own_columns import SEQ


@pytest.fixture
def raw(tmp_path: Path) -> Table:
    """A raw table, with what one needs of it."""
    catalog = SqlCatalog("t", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("n")
    fields = [NestedField(1, "id", LongType(), False), NestedField(2, SEQ, LongType(), False)]
    return catalog.create_table("n.raw", Schema(*fields))


def load(table: Table, *numbers: int | None, rows: int = 2) -> None:
    """One file a load; in one commit where several are given."""
    with table.transaction() as transaction:
        for number in numbers:
            columns = {"id": [*range(rows)], SEQ: [number] * rows}
            transaction.append(pa.table(columns, schema=table.schema().as_arrow()))


def version(table: Table) -> int:
    head = table.current_snapshot()
    assert head is not None
    return head.snapshot_id


def moved(known: set[int], now: set[int]) -> LoadsMoved:
    return LoadsMoved(frozenset(known), frozenset(now))


def test_all_loads_came_where_there_was_no_version(raw: Table) -> None:
    assert loads_moved(raw, None, 0) == moved(set(), set())
    load(raw, 1, 2)
    assert loads_moved(raw, None, 0) == moved(set(), {1, 2})


def test_nothing_moved_in_the_same_version(raw: Table) -> None:
    load(raw, 1)
    assert loads_moved(raw, version(raw), 1) == moved(set(), set())


def test_a_load_came(raw: Table) -> None:
    load(raw, 1)
    before = version(raw)
    load(raw, 3)
    load(raw, 4)
    assert loads_moved(raw, before, 1) == moved(set(), {3, 4})


def test_a_load_that_was_numbered_earlier_came_later(raw: Table) -> None:
    load(raw, 3)
    before = version(raw)
    load(raw, 2)
    assert loads_moved(raw, before, 3) == moved(set(), {2})


def test_a_load_got_another_file(raw: Table) -> None:
    load(raw, 1)
    load(raw, 2)
    before = version(raw)
    load(raw, 2)
    assert loads_moved(raw, before, 2) == moved({2}, {2})


def test_a_load_left_and_another_replaced_it(raw: Table) -> None:
    for number in (1, 2, 3):
        load(raw, number)
    before = version(raw)
    raw.delete(f"{SEQ} = 2")
    load(raw, 4)
    assert loads_moved(raw, before, 3) == moved({2}, {4})


def test_a_load_lost_one_of_its_files(raw: Table) -> None:
    load(raw, 1)
    load(raw, 2)
    load(raw, 2, rows=5)
    before = version(raw)
    raw.delete(f"{SEQ} = 2 AND id = 4")
    assert loads_moved(raw, before, 2) == moved({2}, {2})


def test_it_can_not_be_said(raw: Table) -> None:
    load(raw, 1)
    before = version(raw)
    assert loads_moved(raw, before + 1, 1) is None  # a version that expired
    load(raw, None)
    assert loads_moved(raw, before, 1) is None  # rows of nobody knows which load
    before = version(raw)
    columns = {"id": [1, 2], SEQ: [2, 3]}
    raw.append(pa.table(columns, schema=raw.schema().as_arrow()))
    assert loads_moved(raw, before, 1) is None  # two loads in one file
