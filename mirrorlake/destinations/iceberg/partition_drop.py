"""Partitions taken out of a table by its metadata: their files are named no more, and none is
written or read.

What belongs here: the commit. What doesn't: which partitions go, and the lease
(`mirrorlake.operations.models.dropping`).

Source: Iceberg specification, "Scan Planning" (strict projection of a filter on identity
partitions).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyiceberg.expressions import LessThan
from pyiceberg.types import DateType

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog import Connection
from mirrorlake.destinations.iceberg.durable import flush_commits
from mirrorlake.destinations.iceberg.model import LakeTable
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
    head = table.current_snapshot()
    day = isinstance(table.schema().find_field(column).field_type, DateType)
    value = first.date().isoformat() if day else first.isoformat()
    with lake.translated(identifier):
        less: Any = LessThan  # its type stubs know no arguments
        table.delete(less(column, value), snapshot_properties=dict(properties))
    flush_commits(lake.load(identifier), head.snapshot_id if head is not None else None)


def _partitioned_by(table: LakeTable) -> list[str]:
    """The columns by which a table is partitioned as they are."""
    fields = table.spec().fields
    return [
        table.schema().find_field(one.source_id).name
        for one in fields
        if str(one.transform) == "identity"
    ]
