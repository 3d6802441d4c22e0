"""What a verdict on a table that is kept by snapshots is about."""

from collections.abc import Iterator
from dataclasses import replace

import dagster as dg

from dagster_mirrorlake.checks.as_of import AsOf, digest_of
from dagster_mirrorlake.checks.checked_assets import CheckedAsset
from dagster_mirrorlake.landing.promises import CHECKS, FRESH
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.ledger import Ledger


def as_of_snapshots(ledger: Ledger, table: MirroredTable, check: str) -> AsOf:
    """As `AsOf.now`, of deduped of a table whose snapshots land."""
    name = table.contract.name
    rules = [table.specs[layer].code_version for layer in ("deduped", "clean")]
    found = AsOf.of_stored(ledger, name, "deduped", digest_of(rules))
    records = LandedSnapshots(ledger).snapshots(name)
    published = [(r.id, r.number, r.state, r.digest, r.published_at) for r in records]
    rows = [one for one in published if one[-1] is not None]
    found = replace(found, shown=digest_of(rows))
    if check != FRESH:
        return found
    notices = SnapshotNotices(ledger).notices(name).items()
    waiting = [(r.id, r.state, r.error) for r in records]
    return found.requested(digest_of([waiting, sorted((i, n.text) for i, n in notices)]))


def checked_assets(table: MirroredTable) -> Iterator[CheckedAsset]:
    """Deduped, whose verdicts stay shown."""
    key = table.key("deduped")
    checks = [dg.AssetCheckKey(key, name) for name in CHECKS]
    yield CheckedAsset(key, checks, lambda ledger, check: as_of_snapshots(ledger, table, check))
