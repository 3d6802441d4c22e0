"""Where in the commit protocol a run was when it died: read from the ledger and the lake alone."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyiceberg.table import Table

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED, LOAD_ID
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import history, snapshot_property
from mirrorlake.failpoints import OF_VERSIONS

STEPS = (
    "before the window",
    "window created",
    "attempt pending",
    "files written",
    "on a branch, not published",
    "committed, not recorded",
    "recorded, not folded",
    "deduped folded, not recorded",
    "deduped recorded, clean not",
    "all folded, lease held",
)
"""In the order of the protocol; what a kill can leave behind."""
FINISHED = "finished"
NEED_NOT_BE_PASSED = ("reload.looked_up",)
"""A reload to which every key came back looks none up."""
# What a kill at a failpoint must leave behind; a fold of clean passes the fold's own once more.
LEFT_BY = {
    "ledger.created": ("window created",),
    "ledger.pending": ("attempt pending",),
    "chunk.written": ("files written",),
    "chunks.planned": ("attempt pending",),
    "chunks.resumed": ("files written",),
    "chunks.recorded": ("files written",),
    "reload.looked_up": ("files written",),
    "commit.before": ("files written",),
    "commit.staged": ("files written",),
    "commit.proved": ("files written",),
    "branch.made": ("files written",),
    "branch.committed": ("on a branch, not published",),
    "branch.proved": ("on a branch, not published",),
    "commit.after": ("committed, not recorded",),
    "ledger.success": ("recorded, not folded",),
    "fold.before": ("recorded, not folded",),
    # A layer that is made again is written under another name first; no commit, no change of it.
    "fold.committed": ("deduped folded, not recorded", "recorded, not folded"),
    "fold.recorded": ("deduped recorded, clean not", "all folded, lease held"),
    "clean.committed": ("all folded, lease held",),
    **dict.fromkeys(OF_VERSIONS, ("all folded, lease held",)),
}


@dataclass(frozen=True)
class Watcher:
    """Looks at one table of a mirror whose ledger is a SQLite file."""

    ledger: Path
    lake: Lake
    contract: TableContract

    def ask(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """The ledger's rows, past the engine; ``?`` first is the table's name."""
        ledger = sqlite3.connect(self.ledger, timeout=30, isolation_level=None)
        try:
            return ledger.execute(query, (self.contract.name, *values)).fetchall()
        finally:
            ledger.close()

    def last_window(self) -> int:
        """A number that grows with each window of the table."""
        return int(self.ask("SELECT COUNT(*) FROM windows WHERE table_name = ?")[0][0])

    def step(self, windows: int, *, alone: bool = False) -> str:
        """Where a run is, or died, that began when there were so many windows.

        ``alone``: it was to make no window, but to fold.
        """
        created = self._ids("windows", "created")
        if created and created[-1] == self._newest():
            return "window created"
        if pending := self._ids("loads", "pending"):
            return self._of_pending(pending[-1])
        if self.last_window() == windows and not alone:
            return STEPS[0]
        return self._of_fold()

    def left_by(self, point: str) -> tuple[str, ...]:
        """What a kill at a failpoint must have left of the table's newest attempt."""
        left = LEFT_BY[point]
        if point == "commit.before":
            # Files are written down right before. Where a lock held back what was new, there are
            # no rows, and none is written.
            query = (
                "SELECT 1 FROM raw_files f WHERE table_name = ? AND f.seq = (SELECT MAX(seq) FROM "
                "loads l WHERE l.table_name = f.table_name)"
            )
            left += () if self.ask(query) else ("attempt pending",)
        return left

    def is_leased(self) -> bool:
        return self.ask("SELECT owner FROM leases WHERE table_name = ?") not in ([], [("",)])

    def raw_tables(self) -> list[Table]:
        """The raw tables of all versions, oldest first."""
        query = "SELECT raw_table FROM schema_versions WHERE table_name = ? ORDER BY number"
        spaces = self.contract.namespaces
        found = [self.lake.load(Identifier(spaces.raw, name)) for (name,) in self.ask(query)]
        return [table for table in found if table is not None]

    def versions_table(self) -> Table | None:
        """The table of all versions, if the contract wants one."""
        if self.contract.versions != "table":
            return None
        return self.lake.load(Identifier(self.contract.namespaces.raw, self.contract.table))

    def layer(self, layer: str) -> Table | None:
        spaces = self.contract.namespaces
        namespace = spaces.deduped if layer == "deduped" else spaces.clean
        return self.lake.load(Identifier(namespace, self.contract.table))

    def _ids(self, kind: str, state: str) -> list[str]:
        query = f"SELECT load_id FROM {kind} WHERE table_name = ? AND state = ?"
        return [name for (name,) in self.ask(query, state)]

    def _newest(self) -> str:
        query = "SELECT load_id FROM windows WHERE table_name = ? ORDER BY rowid DESC LIMIT 1"
        return str(self.ask(query)[0][0])

    def _of_pending(self, load_id: str) -> str:
        for table in self.raw_tables():
            shown = {snapshot.snapshot_id for snapshot in history(table)}
            for snapshot in table.snapshots():
                if snapshot_property(snapshot, LOAD_ID) == load_id:
                    visible = snapshot.snapshot_id in shown
                    return "committed, not recorded" if visible else "on a branch, not published"
            data = Path(table.location().removeprefix("file://")) / "data"
            if any(data.rglob(f"{load_id}-*.parquet")):
                return "files written"
        return "attempt pending"

    def _of_fold(self) -> str:
        layers = ["deduped", *(["clean"] if self.contract.clean == "table" else [])]
        for layer in layers:
            rest = self.ask(
                "SELECT seq, snapshot_id FROM loads l WHERE table_name = ? AND state = 'success' AND "
                "NOT EXISTS (SELECT 1 FROM folds f WHERE f.table_name = l.table_name AND "
                "f.seq = l.seq AND f.layer = ?)",
                layer,
            )
            if not rest:
                continue
            if layer == "clean":
                return "deduped recorded, clean not"
            table = self.layer(layer)
            head = table.current_snapshot() if table else None
            through = snapshot_property(head, FOLDED) if head else None
            newest = max(seq for seq, _ in rest)
            # A load without rows leaves nothing in the layer to tell it by.
            done = through is not None and int(through) >= newest
            return "deduped folded, not recorded" if done else "recorded, not folded"
        return "all folded, lease held" if self.is_leased() else FINISHED
