"""Snapshots that were published and that readers don't see any more: a version was rolled back.

What the ledger calls published is held against what the shown version knows. Nothing newer is
folded over such a gap by itself: rows that only the withdrawn snapshots have would be lost without
a word, and whether they should be is a person's decision.
"""

from __future__ import annotations

from collections.abc import Collection
from shlex import quote

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LakeError
from mirrorlake.landing.fold.state import MOST, State, read_state
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.ledger import Ledger
from mirrorlake.table.lake_tables import deduped_of


def find_withdrawn(lake: Lake, ledger: Ledger, contract: TableContract) -> tuple[int, ...]:
    """The ids of snapshots that were published and are not in what readers see, by id; the ledger
    is brought up to date with it. No Spark.

    Raises:
        LakeError: the lake table can't be read.
    """
    # The ledger first: what is published between the two readings is then in the lake's.
    records = [r for r in LandedSnapshots(ledger).snapshots(contract.name) if r.number is not None]
    published = [r for r in records if r.state == "published"]
    withdrawn = [r for r in records if r.state == "withdrawn"]
    if not published and not withdrawn:
        return ()
    table = lake.load(deduped_of(contract))
    state = State() if table is None else read_state(table)
    shown = {one.id for one in state.taken}
    # Of a very long history the oldest are not remembered.
    oldest = state.taken[0].id if len(state.taken) >= MOST else None
    gone = [
        r.id
        for r in published
        if r.number not in shown and (oldest is None or (r.number or 0) > oldest)
    ]
    back = [r.id for r in withdrawn if r.number in shown]
    SnapshotNotices(ledger).withdraw_snapshots(contract.name, gone)
    SnapshotNotices(ledger).restore_snapshots(contract.name, back)
    return tuple(sorted({*gone, *(r.id for r in withdrawn)} - set(back)))


def refuse_over_gap(ledger: Ledger, contract: TableContract, chosen: Collection[int]) -> None:
    """See that nothing is folded over withdrawn snapshots but what was published before itself.

    Raises:
        LakeError: it would be.
    """
    records = LandedSnapshots(ledger).snapshots(contract.name)
    withdrawn = [r.id for r in records if r.state == "withdrawn"]
    if withdrawn and any(r.id in chosen and r.published_at is None for r in records):
        raise gap_error(contract, withdrawn)


def gap_error(contract: TableContract, withdrawn: Collection[int]) -> LakeError:
    """Nothing newer is folded until somebody says what becomes of these snapshots."""
    listed = ", ".join(f"{one:014d}" for one in sorted(withdrawn)[:10])
    more = f" and {len(withdrawn) - 10} more" if len(withdrawn) > 10 else ""
    name = contract.name
    return LakeError(
        f"table {name}: snapshots {listed}{more} were published, and readers see a version without "
        "them",
        table=name,
        next_step="Nothing newer is folded over the gap. Fold them again: `mirrorlake land "
        f"{quote(name)} --retry ID` (or `--retry withdrawn` for all); or leave them out: "
        f"`--skip ID` (or `--skip withdrawn`); or show their version again: "
        f"`mirrorlake publish {quote(name)} --rollback ID`",
    )
