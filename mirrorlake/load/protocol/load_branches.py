"""The branches of loads that are proved before they are visible: names, looks and ends.

What belongs here: what is found of branches, and dropped. What doesn't: what is written to one, and
proved (`mirrorlake.load.protocol.verify`).
"""

from __future__ import annotations

import logging
from datetime import datetime

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import drop_branch, list_branches
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import history, snapshot_property
from mirrorlake.errors import CommitConflict
from mirrorlake.ledger import Load

logger = logging.getLogger(__name__)

_PREFIX = "load-"


def branch_of(load: Load) -> str:
    """The branch of an attempt of a load."""
    return f"{_PREFIX}{load.load_id}-{load.attempt}"


def drop_unpublished(lake: Lake, identifier: Identifier, load: Load) -> None:
    """Drop the branches of a load that was never published; files and snapshots stay until they
    expire."""
    if lake.load(identifier) is None:
        return
    for name in list_branches(lake, identifier):
        if name.startswith(f"{_PREFIX}{load.load_id}-"):
            drop_branch(lake, identifier, name)


def load_branches(lake: Lake, identifier: Identifier) -> list[tuple[str, str]]:
    """The branches of loads that a table has, each with its load's id."""
    names = [name for name in list_branches(lake, identifier) if name.startswith(_PREFIX)]
    return [(name, name.removeprefix(_PREFIX).rpartition("-")[0]) for name in names]


def drop_kept(lake: Lake, identifier: Identifier, before: datetime) -> list[str]:
    """Drop the branches of loads that were last written before a moment; their names.

    The caller holds the table's lease: a branch of a running load is not among them.
    """
    table = lake.load(identifier)
    if table is None:
        return []
    dropped: list[str] = []
    for name, head in list_branches(lake, identifier).items():
        snapshot = table.snapshot_by_id(head)
        old = snapshot is not None and snapshot.timestamp_ms < before.timestamp() * 1000
        if name.startswith(_PREFIX) and old:
            drop_branch(lake, identifier, name)
            logger.info("lake table %s: branch %s was kept long enough: dropped", identifier, name)
            dropped.append(name)
    return dropped


def is_named(lake: Lake, identifier: Identifier, load_id: str) -> bool:
    """Whether any snapshot, of main or not, names the files of a load."""
    table = lake.load(identifier)
    snapshots = table.snapshots() if table else ()
    return any(snapshot_property(snapshot, LOAD_ID) == load_id for snapshot in snapshots)


def same_loads(lake: Lake, identifier: Identifier, parent: int | None) -> int | None:
    """Main's head, if no load moved it there from ``parent``.

    Raises:
        CommitConflict: one did, or main was set back.
    """
    table = lake.load(identifier)
    head = table.current_snapshot() if table else None
    if table is None or head is None:
        raise main_moved(identifier, parent)
    since = []
    for snapshot in history(table):
        if snapshot.snapshot_id == parent:
            break
        since.append(snapshot)
    else:
        if parent is not None:
            raise main_moved(identifier, parent)
    if any(snapshot_property(snapshot, LOAD_ID) for snapshot in since):
        raise main_moved(identifier, parent)
    return head.snapshot_id


def main_moved(identifier: Identifier, parent: int | None) -> CommitConflict:
    return CommitConflict(
        f"lake table {identifier} moved from snapshot {parent} during the load",
        table=str(identifier),
        next_step="Nothing of this load is visible: sync again",
        retryable=True,
    )
