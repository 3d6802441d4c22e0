"""Step 4 of the commit protocol: one Iceberg commit that carries its load's id.

The commit asserts the snapshot that the load was planned on. Whatever goes wrong in it, the table's
history is asked for the load id: it is there, or it is not.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io.pyarrow import parquet_files_to_data_files
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot, ancestors_of

from mirrorlake.destinations.iceberg.branches import MAIN, history
from mirrorlake.destinations.iceberg.catalog import Identifier, Lake
from mirrorlake.destinations.iceberg.metrics import FileMetrics
from mirrorlake.destinations.iceberg.model import is_rewrite
from mirrorlake.errors import CommitConflict

logger = logging.getLogger(__name__)

LOAD_ID = "mirrorlake.load-id"
ATTEMPT = "mirrorlake.attempt"
RECEIPT = "mirrorlake.receipt"
WINDOW = "mirrorlake.window"
NUMBER = "mirrorlake.seq"
FOLDED = "mirrorlake.folded-through"
"""On commits of deduped and clean: the highest number of a load that they hold."""


@dataclass(frozen=True)
class Commit:
    """What one load adds to a raw table and what that replaces: the files that a condition on the
    partition selects, and the files named in ``removes``.

    ``branch`` is where: main, or a branch that was made, whose head is ``parent``. ``metrics`` are
    the files' `FileMetrics` as JSON, by path; the footer of a file without is read.
    """

    identifier: Identifier
    parent: int | None
    paths: Sequence[str]
    properties: dict[str, str]
    replaces: BooleanExpression | None = None
    removes: frozenset[str] = frozenset()
    metrics: Mapping[str, str] = field(default_factory=dict)
    branch: str = MAIN


def commit_load(lake: Lake, commit: Commit) -> int | None:
    """Add a load's files, and remove what it replaces, in one snapshot; the snapshot's id.

    None if there is nothing to add and nothing to remove.

    Raises:
        CommitConflict: the table (or its branch) is not at ``commit.parent`` any more; nothing of
            this is visible.
        LakeError: the catalog or the storage failed; the load is not in the table's history.
    """
    table = lake.load(commit.identifier)
    # To the library a branch that nobody made is a new one, and empty.
    unmade = commit.branch != MAIN and commit.parent is None
    if table is None or unmade or _head(table, commit.branch) != commit.parent:
        raise _conflict(commit, table)
    try:
        with lake.translated(commit.identifier):
            return _commit(table, commit)
    except (CommitFailedException, CommitStateUnknownException) as error:
        landed = find_load(lake, commit.identifier, commit.properties[LOAD_ID], commit.branch)
        if landed is not None:
            return landed.snapshot_id
        raise _conflict(commit, lake.load(commit.identifier)) from error


def _commit(table: Table, commit: Commit) -> int | None:
    removed = _removed(table, commit) if commit.parent is not None else []
    added = _added(table, commit)
    if not added and not removed:
        return None
    with table.transaction() as transaction:
        update = transaction.update_snapshot(commit.properties, branch=commit.branch)
        producer = update.overwrite() if removed else update.fast_append()
        with producer as snapshot:
            for file in removed:
                snapshot.delete_data_file(file)
            for file in added:
                snapshot.append_data_file(file)
    return _head(table, commit.branch)


def _added(table: Table, commit: Commit) -> list[DataFile]:
    told = {path: commit.metrics[path] for path in commit.paths if commit.metrics.get(path)}
    others = (path for path in commit.paths if path not in told)
    return [
        *(FileMetrics.from_json(text).data_file(table, path) for path, text in told.items()),
        *parquet_files_to_data_files(table.io, table.metadata, others),
    ]


def _removed(table: Table, commit: Commit) -> list[DataFile]:
    scan = table.scan(snapshot_id=commit.parent)
    if commit.replaces is not None:
        return [task.file for task in scan.filter(commit.replaces).plan_files()]
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
    ids = (snapshot_property(snapshot, LOAD_ID) for snapshot in shown)
    return next((load_id for load_id in ids if load_id is not None), None)


def find_load(
    lake: Lake, identifier: Identifier, load_id: str, branch: str = MAIN
) -> Snapshot | None:
    """The snapshot in main's history (or a branch's) that a load made, or None.

    What stands on a branch alone is not visible, and is not found on main.
    """
    table = lake.load(identifier)
    head = _head(table, branch) if table else None
    for snapshot in history(table, head) if table and head is not None else ():
        if snapshot_property(snapshot, LOAD_ID) == load_id:
            return snapshot
    return None


def snapshot_property(snapshot: Snapshot, name: str) -> str | None:
    """A property of a snapshot's summary, or None."""
    return snapshot.summary.additional_properties.get(name) if snapshot.summary else None


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


def head_of(lake: Lake, identifier: Identifier) -> int | None:
    """The snapshot id that main shows, None for an empty table."""
    table = lake.load(identifier)
    return _head(table) if table else None


def delete_files(lake: Lake, identifier: Identifier, paths: Sequence[str]) -> None:
    """Remove files that no commit names; best effort, what stays is an orphan for maintenance."""
    table = lake.load(identifier)
    for path in paths if table else ():
        try:
            table.io.delete(path)  # type: ignore[union-attr]
        except OSError as error:
            logger.warning("table %s: %s was not removed: %s", identifier, path, error)


def _head(table: Table, branch: str = MAIN) -> int | None:
    snapshot = table.snapshot_by_name(branch)
    return snapshot.snapshot_id if snapshot else None


def _conflict(commit: Commit, table: Table | None) -> CommitConflict:
    head = _head(table, commit.branch) if table else "gone"
    of = "" if commit.branch == MAIN else f" (branch {commit.branch})"
    return CommitConflict(
        f"lake table {commit.identifier}{of} moved from snapshot {commit.parent} to {head} "
        "during the load",
        table=str(commit.identifier),
        next_step="Nothing of this load is visible: sync again",
        retryable=True,
    )
