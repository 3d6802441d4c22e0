"""Named places where a test may kill this process, as a power cut would.

Set ``MIRRORLAKE_FAILPOINT=<name>`` (or ``<name>:<n>`` for the n-th passing) and the process kills
itself with SIGKILL when it gets there: no handler, no ``finally``, no flush. ``<name>!stop`` stops
it there instead (SIGSTOP), as a machine that stalls would; SIGCONT wakes it up.
Unset, a failpoint costs one look at the environment.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

FAILPOINTS = (
    "ledger.created",
    "ledger.pending",
    "chunk.written",
    "chunks.planned",
    "chunks.resumed",
    "chunks.recorded",
    "reload.looked_up",
    "commit.before",
    "commit.staged",
    "commit.proved",
    "branch.made",
    "branch.committed",
    "branch.proved",
    "commit.after",
    "ledger.success",
    "fold.before",
    "fold.committed",
    "fold.recorded",
    "clean.committed",
)
OF_DELTAS = ("copy.compared", "copy.indexed", "delta.found", "delta.proved")
"""On the way of a full copy that writes what changed, beside those of every load."""
OF_COUNTS = ("fold.counted", "fold.shown")
"""Where rows without a key were added to what a layer has: before and after main shows them."""
OF_COPIED_FILES = ("fold.copied",)
"""Between the copies of a load's files and the commit that shows them in a layer."""
OF_SMALL_FOLDS = ("fold.rewritten",)
"""Between the file of a small layer that is written again and the commit that shows it."""
OF_CARRIED_ROWS = ("chunk.carried",)
"""On the way of a first load that takes rows from deduped."""
OF_SNAPSHOTS = (
    "snapshot.before",
    "snapshot.rows",
    "snapshot.staged",
    "snapshot.sealed",
    "snapshot.published",
    "maintain.compacted",
    "maintain.expired",
)
"""Those on the way of a snapshot, which no sync passes."""
OF_LANDINGS = ("export.chunk", "export.manifest", "land.taken", "land.folded", "landing.removed")
"""Those around a landing: a snapshot that is written, taken, and said to be published."""
OF_REFOLDS = ("refold.begun", "refold.written", "refold.beside", "refold.shown")
"""On the way of a layer that is made again; the third, before a new table takes its name, where the
catalog can't read its table."""
OF_HIDING = ("clean.expired",)
"""Where a rule took values away from a clean table: its older versions are gone, their files not
yet."""
OF_SWAPS = ("clean.beside",)
"""Where a table is about to take the name of a view."""
OF_MOVED_LAYERS = ("moved.marked", "moved.unproved")
"""Where other hands moved a lake table: a layer is marked to be made again; lost loads are to be
read again, and are still successes."""
OF_TENANTS = (
    *("tenants.created", "tenants.pending", "tenants.written", "tenants.before_commit"),
    *("tenants.committed", "tenants.success", "tenants.before_fold", "tenants.branched"),
    *("tenants.staged", "tenants.marked", "tenants.shown", "tenants.folded", "tenants.recorded"),
)
"""On the way of a sync of tenants; ``shown`` only where all of them are folded again."""
OF_VERSIONS = ("versions.branched", "versions.staged", "versions.replaced", "versions.shown")
"""On the way of a table of all versions; ``replaced`` only where all of it is written."""
OF_STREAMS = ("stream.held", "stream.kept")
"""Where a view of a table's current rows was held, or kept: by a load, a fold or a refold."""
OF_LOGS = ("log.table", "log.shape", "log.ddl", "log.progress")
"""While tables follow their server's log: after one table's changes of a piece of it, after it was
written down what a statement made of it, after the load that says from where on, and before it
is written down how far all of them were followed."""
OF_LOGGED_TENANTS = ("tenants.log_due", "tenants.log_loaded", "tenants.log_ended")
"""While tenants follow their servers' logs: before and after the load of their changes, and before
it is written down which of them were followed to the end, and copied."""
OF_FOLLOWERS = ("follow.loaded", "follow.folded")
"""In a round of the process that follows a log: before and after what was loaded is folded."""
OF_SHOWN_TOGETHER = ("show.staged", "show.written", "show.before", "show.done", "show.recorded")
"""Where several tables are shown at once: all are on their branches; a metadata file is written
that nothing names; before and after the step that moves them; the ledger knows."""
OF_SHOWN_ONE_BY_ONE = ("show.one",)
"""Where the catalog can't: after each table."""
OF_CUTS = ("cut.begun", "cut.tagged", "cut.made", "cut.clone_written", "cut.clones_moved")
"""On the way of a cut: before its first table is tagged, before it is listed, before readers of the
newest cut see it, before the catalog names what they see, and before clean views are made there."""
OF_CLEAN_AT_CUT = ("cut.clean_renewed",)
"""Where rules changed: the view of the newest cut has them, and clean has not."""
OF_CLONED_CUTS = ("cut.clone_tagged",)
"""On the way of a clone of a cut: its versions are kept, and nobody sees them."""
OF_RECORDS = ("records.begun", "records.file", "records.manifest", "records.sent")
"""On the way of records out of the lake: a batch was written down; a file, its manifest is there, a
queue has taken some, and the ledger does not know it yet."""
OF_MODELS = ("model.staged", "model.before_publish", "model.published", "model.recorded")
"""On the way of each partition of a model."""
OF_EXPECTATIONS = ("model.looked_at", "model.checked")
"""Between the first two of these, where a model's header expects something of its rows."""
OF_RETENTION = ("model.forgotten", "model.dropped")
"""On the way of dropping partitions that a model's retention keeps no more."""
OF_BIGQUERY = (
    *("bigquery.begun", "bigquery.uploaded", "bigquery.staged", "bigquery.load_submitted"),
    *("bigquery.write_submitted", "bigquery.counted", "bigquery.removed"),
)
"""On the way of a version of a table into BigQuery."""
OF_NAMED_VERSIONS = ("bigquery.named", "bigquery.named_made", "bigquery.named_shown")
"""On the way of a cut's version of a table: before there is a table of its own, before it has
views, and before the ledger knows that it is there."""
OF_BIGQUERY_LAYOUT = ("bigquery.dropped",)
"""Between a table of another layout and the one that replaces it."""
OF_ACCESS = ("access.begun", "access.written")
"""Around the request that changes who may do what with a dataset."""
OF_WORK = ("work.folded", "work.computed")
"""On the way of a backfill: after its tables, and after each partition of a model."""
OF_CLEAN_TENANTS = (
    *("tenants.clean_branched", "tenants.clean_staged", "tenants.clean_marked"),
    *("tenants.clean_replaced", "tenants.clean_shown"),
)
"""On the way of a clean table of tenants, after these; ``replaced`` only where all of it is
written again."""
OF_BACKUPS = (
    *("backup.copied", "restore.begun", "restore.copied", "restore.rewritten", "restore.catalog"),
    *("restore.ledger", "move.begun", "move.copied", "move.rewritten", "move.ledger"),
    "move.catalog",
)
"""On the way of a backup, a restore and a move of the lake."""

_passed: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Die here if the environment says so."""
    wanted = os.environ.get("MIRRORLAKE_FAILPOINT")
    if not wanted:
        return
    place, _, how = wanted.partition("!")
    at, _, nth = place.partition(":")
    _passed[name] += 1
    if at == name and _passed[name] == int(nth or 1):
        os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)
