"""Compaction: what folds leave behind, bounded.

Every fold adds a small file, and marks rows of older files deleted. Each layer keeps one file of
deletes per data file at most (a later one takes in the earlier), but a reader opens every small
file, and skips every deleted row. So after a number of folds the small files and those with many
deleted rows are written again, sorted by key; all others stay as they are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import statistics_of
from mirrorlake.destinations.iceberg.commits.copied_files import COPIED
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.small_files import needs_rewrite, sizes_of
from mirrorlake.destinations.iceberg.model import LakeTable, is_rewrite, snapshot_property
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.procedures import rewrite_data_files, rewrites_files
from mirrorlake.errors import LakeError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

COMMITS = 16
"""Commits after which a layer is compacted."""
_OPTIONS = {
    "min-input-files": "2",
    # Of files that are not small, those are written again of whose rows a fifth is deleted.
    "delete-ratio-threshold": "0.2",
    "remove-dangling-deletes": "true",
    "partial-progress.enabled": "false",
}


def compact_if_due(spark: Callable[[], SparkSession], lake: Lake, identifier: Identifier) -> bool:
    """Compact a layer that `COMMITS` commits were made to since it last was, or that still has
    deletes from before its rows were changed by writing files again; whether it was due.

    The caller holds the table's lease. The rows stay the same, in one commit that replaces files; a
    failure leaves the layer as it is, is logged, and is tried again after the next fold.
    """
    table = lake.load(identifier)
    if table is None or (_commits_since(table) < COMMITS and not _has_old_deletes(table)):
        return False
    try:
        compact(spark, lake, table, identifier)
    except LakeError as error:
        logger.warning("table %s was not compacted: %s", identifier, error)
    return True


def compact(
    spark: Callable[[], SparkSession], lake: Lake, table: LakeTable, identifier: Identifier
) -> bool:
    """Write small files, too large ones and those with many deleted rows again, in the table's
    order; whether there were any. Spark is asked for only then.

    The caller holds the table's lease. The rows stay the same.

    Raises:
        LakeError: Spark, the catalog or the storage failed; the table is as it was.
    """
    with lake.translated(identifier):
        if not needs_rewrite(table):
            return False
    sizes = sizes_of(table)
    options = {
        **_OPTIONS,
        "target-file-size-bytes": str(sizes.target),
        "min-file-size-bytes": str(sizes.least),
        "max-file-size-bytes": str(sizes.most),
    }
    with spark_errors(str(identifier)):
        rewrite_data_files(spark(), table, identifier, options)
    return True


def _has_old_deletes(table: LakeTable) -> bool:
    snapshot = table.current_snapshot()
    if snapshot is None or not rewrites_files(table):
        return False
    return statistics_of(snapshot).delete_files > 0


def _commits_since(table: LakeTable) -> int:
    """How many commits a table has had since it was compacted, made, or filled with a load's files
    in place of its own."""
    count = 0
    snapshot = table.current_snapshot()
    while snapshot is not None:
        if is_rewrite(snapshot) or snapshot_property(snapshot, COPIED) is not None:
            break
        count += 1
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return count
