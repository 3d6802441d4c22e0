"""Partitions taken out of a table by its metadata: their files are named no more, and none is
written or read.

What belongs here: the commit. What doesn't: which partitions go, and the lease
(`mirrorlake.models.partition_states.drop_expired`).

Source: Iceberg specification, "Scan Planning" (strict projection of a filter on identity
partitions).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from pyiceberg.expressions import And, BooleanExpression, EqualTo, IsNull, LessThan, Or
from pyiceberg.types import DateType

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.storage.durable import flush_commits
from mirrorlake.errors import LakeError


def drop_before(
    lake: Connection,
    identifier: Identifier,
    column: str,
    first: datetime,
    properties: Mapping[str, str],
) -> None:
    """Take out of main all partitions that begin before a moment, in one commit.

    Args:
        column: a date or a timestamp, by which the table is partitioned as it is.
        first: the moment (UTC); of a date, its midnight.
        properties: of the commit.

    Raises:
        LakeError: the table is not there, or not partitioned so; the catalog or the storage failed.
    """
    table = lake.load(identifier)
    if table is None or column not in _partitioned_by(table):
        raise LakeError(
            f"{identifier} is not partitioned by {column}",
            next_step="Compute the model first: `--rebuild` makes its table again",
        )
    day = isinstance(table.schema().find_field(column).field_type, DateType)
    value = first.date().isoformat() if day else first.isoformat()
    less: Any = LessThan  # its type stubs know no arguments
    _take_out(lake, identifier, table, less(column, value), properties)


def drop_parts(
    lake: Connection,
    identifier: Identifier,
    parts: Sequence[tuple[Any, ...]],
    properties: Mapping[str, str],
) -> None:
    """Take some partitions out of main, in one commit.

    Args:
        parts: their values, as
            `mirrorlake.destinations.iceberg.metadata.statistics.partitions_there` gives them.
        properties: of the commit.

    Raises:
        LakeError: the table is not there, or is partitioned by another number of columns; the
            catalog or the storage failed.
    """
    table = lake.load(identifier)
    columns = _partitioned_by(table) if table is not None else []
    if table is None or any(len(one) != len(columns) for one in parts) or not columns:
        raise LakeError(
            f"{identifier} is not partitioned as its model is",
            next_step="Compute the model first: `--rebuild` makes its table again",
        )
    rows: BooleanExpression | None = None
    for one in parts:
        part = _is_part(columns, one)
        rows = part if rows is None else Or(rows, part)
    if rows is not None:
        _take_out(lake, identifier, table, rows, properties)


def _is_part(columns: Sequence[str], values: tuple[Any, ...]) -> BooleanExpression:
    found: BooleanExpression | None = None
    for column, value in zip(columns, values, strict=True):
        is_null: Any = IsNull  # its type stubs, and the next one's, know no arguments
        equal: Any = EqualTo
        shown = value.isoformat() if hasattr(value, "isoformat") else value
        one = is_null(column) if value is None else equal(column, shown)
        found = one if found is None else And(found, one)
    assert found is not None  # noqa: S101
    return found


def _take_out(
    lake: Connection,
    identifier: Identifier,
    table: LakeTable,
    rows: BooleanExpression,
    properties: Mapping[str, str],
) -> None:
    head = table.current_snapshot()
    with lake.translated(identifier):
        table.delete(rows, snapshot_properties=dict(properties))
    flush_commits(lake.load(identifier), head.snapshot_id if head is not None else None)


def _partitioned_by(table: LakeTable) -> list[str]:
    """The columns by which a table is partitioned as they are."""
    fields = table.spec().fields
    return [
        table.schema().find_field(one.source_id).name
        for one in fields
        if str(one.transform) == "identity"
    ]
