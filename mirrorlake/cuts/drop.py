"""Cuts that go: their tags are taken away, and their versions expire with the others."""

from __future__ import annotations

from datetime import UTC, datetime

from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.cuts.shown import shown_cuts
from mirrorlake.cuts.tags import remove_tags
from mirrorlake.workspace import Workspace


def drop_old(workspace: Workspace, source: str) -> None:
    """Drop a source's cuts that are kept no longer, and what dead runs left of others. No other run
    makes one. The one that readers of the newest cut see stays until they see another."""
    cuts, now = Cuts(workspace.ledger), datetime.now(UTC)
    old = [c for c in cuts.all(source) if c.keep_until is not None and c.keep_until < now]
    for cut in cuts.all(source, made=False):
        drop_cut(workspace, cut)
    shown = shown_cuts(workspace, old)
    for cut in old:
        if cut.name not in shown:
            drop_cut(workspace, cut)


def drop_cut(workspace: Workspace, cut: Cut) -> None:
    """Take a cut's tags away: its versions expire with the others.

    Raises:
        LeaseHeld: a run holds one of its tables.
        LakeError: a tag can't be taken away.
    """
    contracts, cuts = {c.name: c for c in workspace.config.tables}, Cuts(workspace.ledger)
    for table, found in cuts.tables(cut.name).items():
        remove_tags(workspace, contracts.get(table), found, cut.tag)
    cuts.forget(cut.name)
