"""Cuts outside of the lake: tables of a cut that are published elsewhere are there as of it, too.

What belongs here: which of them, for how long, and what becomes of those that a dead run left. What
doesn't: how a version gets there (a publisher's: `mirrorlake.operations.publishers`).
"""

from __future__ import annotations

import logging

from mirrorlake.config import Config
from mirrorlake.cuts.config import CutsConfig
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.publishers import PUBLISHERS, PublishedVersions
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def begin_published(config: Config, ledger: Ledger, cut: Cut) -> None:
    """Record what is to be published of a cut before the cut is listed, so that the next run takes
    over from one that dies. That run also finds again what a lost ledger knew to be there."""
    if config.section(CutsConfig).of(cut.source).publish:
        deduped = (one for one in cut.tables if one.layer == "deduped")
        versions = {o.table: o.snapshot_id for o in deduped if o.snapshot_id is not None}
        for publisher in PUBLISHERS:
            publisher.begin_named(config, ledger, cut.name, versions)


def publish_cut(workspace: Workspace, cut: Cut) -> PublishedVersions:
    """Publish a cut, and then what earlier ones of its source lack; take away what is of none.

    A failure here does not fail the cut: it is reported, and the next cut tries again.
    """
    done = PublishedVersions(missing=drop_gone(workspace))
    for found in (one.publish_named(workspace, cut.name) for one in PUBLISHERS):
        done.there.update(found.there)
        done.missing.update(found.missing)
    mine = [one.name for one in Cuts(workspace.ledger).all(cut.source) if one.name != cut.name]
    for publisher in PUBLISHERS:
        for name, versions in publisher.named(workspace.ledger).items():
            if name not in mine or all(one.there for one in versions):
                continue
            if done.missing:  # it would fail as well, and each may take a minute
                return done
            for table, why in publisher.publish_named(workspace, name).missing.items():
                done.missing[f"{table} at {name}"] = why
    return done


def drop_gone(workspace: Workspace) -> dict[str, str]:
    """Take away what is published of cuts that are no more; those of which it could not be, and
    why."""
    cuts, failed = Cuts(workspace.ledger), dict[str, str]()
    for publisher in PUBLISHERS:
        for name in (
            publisher.named(workspace.ledger).keys() - cuts.names() - cuts.names(made=False)
        ):
            try:
                publisher.drop_named(workspace, name)
            except MirrorlakeError as error:
                logger.warning("cut %s is dropped, and still published: %s", name, error)
                failed[f"cut {name}"] = f"it is dropped, and still published: {error}"
    return failed


def published_reads(ledger: Ledger, cut: Cut) -> dict[str, dict[str, str]]:
    """How a cut's tables are read where they are published: table → place → SQL, or what is left to
    be done."""
    found: dict[str, dict[str, str]] = {}
    for publisher in PUBLISHERS:
        for one in publisher.named(ledger).get(cut.name, ()):
            words = one.reads or "nobody may read it by the rules of now"
            text = words if one.there else "it is not there yet: the next cut publishes it"
            found.setdefault(one.table, {})[publisher.title] = text
    return found
