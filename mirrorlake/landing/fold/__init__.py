"""Snapshots: full copies of a table, folded into one table of current rows and published.

`fold_snapshot` is the way in; docs/snapshots-folding.md has the rules, ADR 17 the reasons.

What belongs here: folding, tracing and publishing. What doesn't: the files that land
(`mirrorlake.landing.files`).
"""

from mirrorlake.landing.fold.fold import Folded, fold_snapshot
from mirrorlake.landing.fold.shape import SnapshotTable

__all__ = ["Folded", "SnapshotTable", "fold_snapshot"]
