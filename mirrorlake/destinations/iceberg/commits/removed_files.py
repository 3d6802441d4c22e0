"""Files that were removed from a table's folder are set aside in it first, on this machine's disk:
a wrong removal is taken back by moving them to where they were.

Files in a bucket are removed at once: the bucket can be configured to keep removed objects.

What belongs here: where they are, and when they go. What doesn't: which files are removed
(`mirrorlake.operations.upkeep.orphans`).
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.destinations.iceberg.storage.listing import ListedFile, ListedFolder

logger = logging.getLogger(__name__)

_FOLDER = "removed"
"""In a table's folder; in it one for each day, in which files have the paths that they had."""
_KEPT = timedelta(days=7)
"""How long a file that was set aside stays at least."""


def remove_file(table: LakeTable, listing: ListedFolder, file: ListedFile) -> None:
    """Set a file of a table aside; in a bucket, remove it.

    Raises:
        OSError: it can't be moved, or removed.
    """
    folder = local_path(table.location())
    if folder is None:
        listing.remove(file)
        return
    path = Path(file.path)
    aside = folder / _FOLDER / str(datetime.now(UTC).date()) / path.relative_to(folder)
    aside.parent.mkdir(parents=True, exist_ok=True)
    path.replace(aside)


def overdue_files(table: LakeTable) -> list[ListedFile]:
    """The files of a table that were set aside longer ago than they are kept.

    Raises:
        OSError: they can't be listed.
    """
    found = [path for day in _overdue(table) for path in day.rglob("*") if path.is_file()]
    stats = [(path, path.stat()) for path in sorted(found)]
    return [
        ListedFile(str(path), is_.st_size, datetime.fromtimestamp(is_.st_mtime, UTC))
        for path, is_ in stats
    ]


def remove_overdue(table: LakeTable) -> None:
    """Remove them for good.

    Raises:
        OSError: they can't be removed.
    """
    for day in _overdue(table):
        shutil.rmtree(day)
        logger.info("%s removed for good", day)


def is_set_aside(name: str) -> bool:
    """Whether a file is one of them, by its path below the warehouse.

    >>> is_set_aside("shop/orders/removed/2026-01-01/data/a.parquet")
    True
    >>> is_set_aside("shop/orders/data/removed/a.parquet")
    False
    """
    return name.split("/")[2:3] == [_FOLDER]


def _overdue(table: LakeTable) -> Iterator[Path]:
    folder = local_path(table.location())
    if folder is None or not (folder / _FOLDER).is_dir():
        return
    oldest = datetime.now(UTC).date() - _KEPT
    for path in sorted((folder / _FOLDER).iterdir()):
        try:
            if date.fromisoformat(path.name) < oldest:
                yield path
        except ValueError:
            continue  # it is nothing of ours
