"""Staging branches: where a layer is written before it is shown. Readers see main alone.

What belongs here: their names, what is on one and not shown yet, and rows that are added to one.
What doesn't: which rows.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mirrorlake.destinations.base import Destination, Identifier, as_sql_identifier
from mirrorlake.destinations.iceberg.commits.commit import BASE
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.spark.settings import activate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BRANCH = "mirror_fold_"
"""What the names of staging branches begin with."""
_AHEAD = 30.0
"""Seconds by which clocks may differ: Iceberg's Java library allows a minute."""


@dataclass
class StagedLayers:
    """Layers of one table that are written on branches, and what is to be done once main shows
    them.

    Attributes:
        versions: what main is to show, all at one moment.
        records: what the ledger is to know then, each made when it is shown.
        after: what follows that.
    """

    versions: list[StagedVersion] = field(default_factory=list[StagedVersion])
    records: list[Callable[[], Iterable[Callable[[], object]]]] = field(
        default_factory=list[Callable[[], Iterable[Callable[[], object]]]]
    )
    after: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])


def new_branch() -> str:
    """A name that no other run gives a branch."""
    return f"{BRANCH}{uuid.uuid4().hex[:12]}"


def branch_sql(identifier: Identifier, branch: str) -> str:
    """A table's branch, as Spark takes it."""
    return f"{identifier.sql}.{as_sql_identifier('branch_' + branch)}"


def drop_stale(lake: Destination, identifier: Identifier) -> None:
    """Drop the branches that dead runs left; the caller holds the lease."""
    for name in lake.branches(identifier):
        if name.startswith(BRANCH):
            lake.drop_branch(identifier, name)


def on_our_clock(lake: Lake, identifier: Identifier, table: LakeTable | None) -> bool:
    """Take a table's times back to now if its last writer's clock was ahead of ours: Spark refuses
    to write such a table. Whether that took a commit. The caller holds the lease.

    Args:
        table: as it was just loaded; None: it is not there.

    Raises:
        LakeError: the catalog or the storage failed.
        CommitConflict: another writer was faster.
    """
    if table is None or table.metadata.last_updated_ms <= (time.time() + _AHEAD) * 1000:
        return False
    head = table.current_snapshot()
    # Any commit does it (`mirrorlake.destinations.iceberg.metadata.log_times`).
    branch = new_branch()
    lake.create_branch(identifier, branch, head.snapshot_id if head is not None else None)
    lake.drop_branch(identifier, branch)
    return True


def made_of(head: int | None) -> dict[str, str]:
    """What the last commit of a branch says of the version that the branch was made of."""
    return {} if head is None else {BASE: str(head)}


def seal(lake: Lake, identifier: Identifier, branch: str, properties: dict[str, str]) -> int:
    """One more snapshot on a branch, which adds nothing but what it says of itself; its id."""
    table = lake.catalog.load_table(identifier.path)
    with lake.translated(identifier), table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=properties, branch=branch)
        with update.fast_append():
            pass
    return table.refresh().metadata.refs[branch].snapshot_id


def append_rows(
    rows: DataFrame, target: str, properties: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Add rows to a table, or a branch, as Spark takes it, each partition's together.

    Args:
        properties: of the commit.
    """
    activate(rows.sparkSession)
    writer: Any = rows.writeTo(target)
    for name, value in properties.items():
        writer = writer.option(f"snapshot-property.{name}", value)
    # Each partition's rows in one task: of tenants a file a bucket, sorted by tenant.
    writer.option("distribution-mode", "hash").append()
