"""A rule takes values away from readers of a clean table: they see the old answer until the new one
is written, and nothing of the old one stays.

The table is written again as a whole and shown in one commit; only then do its older versions go,
with their files. The ledger knows from the first step to the last that they must: a run that dies
in between leaves the old answer or the new one, and the next run takes away what is left.

What belongs here: when older versions go. What doesn't: how (`mirrorlake.destinations.iceberg`).
"""

from __future__ import annotations

import logging
import time
from typing import Final

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.older_versions import (
    expire_all_but_main,
    remove_all_files,
    remove_older_files,
)
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.table.hash_key import forget_hash_key
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_READING: Final = 2.0
"""Seconds between the new answer and the removal of the old one's files: a query of a few rows that
had begun then ends well."""


def begin_hiding(workspace: Workspace, clean: Identifier) -> None:
    """Write down that a clean table's versions of now must go. All of its rows are written again,
    so that its hashes may be of another key."""
    if workspace.ledger.definition(_name(clean)):  # of an earlier rule, and its files are left
        finish_hiding(workspace, clean)
    workspace.ledger.record_definition(_name(clean), "")
    forget_hash_key(workspace.ledger, clean)


def is_hiding(ledger: Ledger, clean: Identifier) -> bool:
    """Whether older versions of a clean table must go."""
    return ledger.definition(_name(clean)) is not None


def finish_hiding(workspace: Workspace, clean: Identifier) -> None:
    """Take away the older versions of a clean table with their files, if a rule has it so; the
    table shows the new rows already, and the caller holds its lease.

    Raises:
        LakeError: the catalog or the storage failed, or files can't be removed; the next run goes
            on with it.
    """
    ledger, lake = workspace.ledger, workspace.lake
    at = ledger.definition(_name(clean))
    if at is None:
        return
    table = lake.load(clean)
    if table is not None:
        if not at:
            # Which files they are is said there alone once the versions have expired.
            at = table.metadata_location
            ledger.record_definition(_name(clean), at)
        if tags := expire_all_but_main(lake, clean):
            workspace.changes.append(
                f"a rule takes values away that older versions of {clean} show: clean is gone at "
                f"{', '.join(tags)}"
            )
        failpoint("clean.expired")
        time.sleep(_READING)
        _remove(workspace, clean, at)
    ledger.forget_definition(_name(clean))


def _remove(workspace: Workspace, clean: Identifier, at: str) -> None:
    try:
        left = remove_older_files(workspace.lake, clean, at)
    except LakeDamaged as error:
        # Nobody can say any more which files they are: they go as orphans.
        logger.warning("table %s: files of older versions stay until maintenance: %s", clean, error)
        return
    if left:
        raise LakeError(
            f"clean table {clean} shows what its rules say now, but {len(left):,} files of older "
            f"versions could not be removed, {left[0]} among them: they may show what a rule takes "
            "away",
            table=str(clean),
            next_step="Give the right to remove files there, and sync again",
            retryable=True,
        )


def purge_files(workspace: Workspace, identifier: Identifier, table: LakeTable) -> None:
    """Remove the files of a table that had a name, and that the catalog does not know any more."""
    workspace.ledger.forget_definition(_name(identifier))
    time.sleep(_READING)
    with workspace.lake.translated(identifier):
        remove_all_files(table)


def _name(clean: Identifier) -> str:
    return f"hiding {clean}"
