"""Step 4 of the commit protocol: one Iceberg commit that carries its load's id.

The commit asserts the snapshot that the load was planned on. Whatever goes wrong in it, the table's
history is searched for the load id: it is there, or it is not.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeAlias

from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.snapshots import Snapshot, ancestors_of
from pyiceberg.table.update import (
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.table.update import snapshot as _snapshot

from mirrorlake.destinations.base import MAIN, Commit, Identifier, TableStatistics
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.metadata.expressions import expression
from mirrorlake.destinations.iceberg.metadata.metrics import FileMetrics
from mirrorlake.destinations.iceberg.model import history, is_rewrite, snapshot_property
from mirrorlake.errors import CommitConflict

logger = logging.getLogger(__name__)

# The library has no public name for it.
_Producer: TypeAlias = "_snapshot._SnapshotProducer[Any]"  # pyright: ignore[reportPrivateUsage]

LOAD_ID = "mirrorlake.load-id"
ATTEMPT = "mirrorlake.attempt"
RECEIPT = "mirrorlake.receipt"
WINDOW = "mirrorlake.window"
NUMBER = "mirrorlake.seq"
UPKEEP = "maintain-"
"""How the load id begins of a commit that took files out, and that no load made."""
FOLDED = "mirrorlake.folded-through"
"""On commits of deduped and clean: the highest number of a load that they hold."""
BY = "mirrorlake.by"
BASE = "mirrorlake.base"
"""On the last commit of a branch of ours: the version that main showed when it was made. What is in
between is ours, too: Spark gives a delete of whole files no property."""
"""On commits of ours that carry nothing else of ours."""
_TOTALS = ("records", "data-files", "delete-files", "files-size")


def commit_load(lake: Connection, commit: Commit) -> int | None:
    """Add a load's files, and remove what it replaces, in one snapshot; the snapshot's id.

    None if there is nothing to add and nothing to remove.

    Raises:
        CommitConflict: the table (or its branch) is not at ``commit.parent`` any more; nothing of
            this is visible.
        CommitUnknown: nobody said whether it was made; the load is not in the table's history yet.
        LakeError: the catalog or the storage failed; the load is not in the table's history.
    """
    table = lake.load(commit.identifier)
    # To the library a branch that nobody made is a new one, and empty.
    unmade = commit.branch != MAIN and commit.parent is None
    if table is None or unmade or head_shown(table, commit.branch) != commit.parent:
        raise _conflict(commit, table)
    with _committing(lake, commit):
        return _commit(table, commit)
    return _landed(lake, commit)


@dataclass(frozen=True)
class StagedCommit:
    """A load's commit that is written and that nobody sees yet.

    Attributes:
        table: as it will be, to be read at ``snapshot``; the catalog does not know it.
        files: those of its metadata, beside the load's own.
    """

    table: Table
    snapshot: int
    commit: Commit
    changes: tuple[tuple[TableUpdate, ...], tuple[TableRequirement, ...]]
    files: tuple[str, ...]


def stage_load(lake: Connection, commit: Commit) -> StagedCommit | None:
    """Write what `commit_load` would, but for the one step that shows it: `publish_staged`.

    None if there is nothing to add and nothing to remove. What is never published is removed by
    `discard_staged`, or an orphan for maintenance.

    Raises:
        CommitConflict: the table is not at ``commit.parent`` any more.
        LakeError: the catalog or the storage failed.
    """
    table = lake.load(commit.identifier)
    if table is None or head_shown(table) != commit.parent:
        raise _conflict(commit, table)
    with lake.translated(commit.identifier):
        producer = _producer(table, table.transaction(), commit)
        if producer is None:
            return None
        updates, requirements = producer._commit()  # pyright: ignore[reportPrivateUsage]
    metadata = update_table_metadata(table.metadata, updates)
    staged = Table(table.name(), metadata, table.metadata_location, table.io, table.catalog)
    same = AssertTableUUID(uuid=table.metadata.table_uuid)
    files = (*producer._written_manifests, *producer._written_manifest_lists)  # pyright: ignore[reportPrivateUsage]
    changes = (updates, (same, *requirements))
    return StagedCommit(staged, producer.snapshot_id, commit, changes, files)


def discard_staged(lake: Connection, staged: StagedCommit) -> None:
    """Remove what a commit wrote that is not to be published, but for the load's own files."""
    delete_files(lake, staged.commit.identifier, staged.files)


def publish_staged(lake: Connection, staged: StagedCommit) -> int:
    """Show a staged load on main, in one commit of metadata that asserts its parent; its snapshot.
    It is never written again on another parent.

    Raises:
        CommitConflict: the table is not at the parent any more; nothing of this is visible.
        CommitUnknown: nobody said whether it was made; the load is not in the table's history yet.
        LakeError: the catalog or the storage failed; the load is not in the table's history.
    """
    commit, (updates, requirements) = staged.commit, staged.changes
    with _committing(lake, commit):
        lake.catalog.commit_table(staged.table, requirements, updates)
    return staged.snapshot


def _committing(lake: Connection, commit: Commit) -> AbstractContextManager[None]:
    return lake.committing(
        commit.identifier,
        lambda: _landed(lake, commit) is not None,
        lambda: _conflict(commit, lake.load(commit.identifier)),
    )


def _landed(lake: Connection, commit: Commit) -> int | None:
    found = find_load(lake, commit.identifier, commit.properties[LOAD_ID], commit.branch)
    return found.snapshot_id if found is not None else None


def _commit(table: Table, commit: Commit) -> int | None:
    with table.transaction() as transaction:
        producer = _producer(table, transaction, commit)
        if producer is None:
            return None
        producer.commit()
    return head_shown(table, commit.branch)


def _producer(table: Table, transaction: Transaction, commit: Commit) -> _Producer | None:
    """The snapshot that a load makes, not written yet; None if it changes nothing."""
    removed = _removed(table, commit) if commit.parent is not None else []
    added = _added(table, commit)
    if not added and not removed:
        return None
    update = transaction.update_snapshot(commit.properties, branch=commit.branch)
    producer: _Producer = update.overwrite() if removed else update.fast_append()
    for file in removed:
        producer.delete_data_file(file)
    for file in added:
        producer.append_data_file(file)
    return producer


def _added(table: Table, commit: Commit) -> list[DataFile]:
    measured = {path: commit.metrics[path] for path in commit.paths if commit.metrics.get(path)}
    others = (path for path in commit.paths if path not in measured)
    return [
        *(FileMetrics.from_json(text).data_file(table, path) for path, text in measured.items()),
        *parquet_files_to_data_files(table.io, table.metadata, others),
    ]


def _removed(table: Table, commit: Commit) -> list[DataFile]:
    scan = table.scan(snapshot_id=commit.parent)
    if commit.replaces is not None:
        return [task.file for task in scan.filter(expression(commit.replaces)).plan_files()]
    if not commit.removes:
        return []
    found = [t.file for t in scan.plan_files() if t.file.file_path in commit.removes]
    if len(found) != len(commit.removes):
        raise _conflict(commit, table)
    return found


def newest_load(table: Table) -> str | None:
    """The id of the newest load that main shows; None if it shows none.

    What only a branch holds was never published, and nobody publishes what a dead run left.
    """
    shown = ancestors_of(table.current_snapshot(), table.metadata)
    ids = (snapshot_property(snapshot, LOAD_ID) or UPKEEP for snapshot in shown)
    return next((load_id for load_id in ids if not load_id.startswith(UPKEEP)), None)


def highest_number(table: Table) -> int:
    """The highest load number that any commit of a table names, visible or not; 0 of none."""
    numbers = (snapshot_property(s, name) for s in table.snapshots() for name in (NUMBER, FOLDED))
    return max((int(number) for number in numbers if number), default=0)


def find_load(
    lake: Connection, identifier: Identifier, load_id: str, branch: str = MAIN
) -> Snapshot | None:
    """The snapshot in main's history (or a branch's) that a load made, or None.

    What stands on a branch alone is not visible, and is not found on main.
    """
    table = lake.load(identifier)
    head = head_shown(table, branch) if table else None
    for snapshot in history(table, head) if table and head is not None else ():
        if snapshot_property(snapshot, LOAD_ID) == load_id:
            return snapshot
    return None


def statistics_of(snapshot: Snapshot) -> TableStatistics:
    """What a snapshot's summary counts of the table's version that it made."""
    counted = (int(snapshot_property(snapshot, f"total-{name}") or 0) for name in _TOTALS)
    return TableStatistics(*counted)


def was_overtaken(table: Table) -> bool:
    """Whether the newest fold of a layer holds less than one before it did: its run had stalled,
    and another had folded meanwhile."""
    through = [snapshot_property(snapshot, FOLDED) for snapshot in table.snapshots()]
    numbers = [int(number) for number in through if number is not None]
    return bool(numbers) and numbers[-1] < max(numbers)


def folded_through(table: Table) -> int | None:
    """The highest number of a load that a layer holds, by the newest fold that main shows; None if
    somebody else has changed rows since, or nothing was ever folded."""
    for snapshot in history(table):
        through = snapshot_property(snapshot, FOLDED)
        if through is not None:
            return int(through)
        if not is_rewrite(snapshot):
            return None
    return None


def head_of(lake: Connection, identifier: Identifier) -> int | None:
    """The snapshot id that main shows, None for an empty table."""
    table = lake.load(identifier)
    return head_shown(table) if table else None


def delete_files(lake: Connection, identifier: Identifier, paths: Sequence[str]) -> None:
    """Remove files that no commit names; best effort, what stays is an orphan for maintenance."""
    table = lake.load(identifier)
    if table is not None:
        remove_files(table, paths)


def remove_files(table: Table, paths: Sequence[str]) -> None:
    """The same of a table that is at hand, whatever its catalog answers."""
    for path in paths:
        try:
            table.io.delete(path)
        except OSError as error:
            name = ".".join(table.name()[-2:])
            logger.warning("table %s: %s was not removed: %s", name, path, error)


def head_shown(table: Table, branch: str = MAIN) -> int | None:
    """The snapshot id of main, or of a branch, of a table as it was loaded; None for none."""
    snapshot = table.snapshot_by_name(branch)
    return snapshot.snapshot_id if snapshot else None


def _conflict(commit: Commit, table: Table | None) -> CommitConflict:
    head = head_shown(table, commit.branch) if table else "gone"
    of = "" if commit.branch == MAIN else f" (branch {commit.branch})"
    return CommitConflict(
        f"lake table {commit.identifier}{of} moved from snapshot {commit.parent} to {head} "
        "during the load",
        table=str(commit.identifier),
        next_step="Nothing of this load is visible: sync again",
        retryable=True,
    )
