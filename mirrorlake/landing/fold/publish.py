"""Published versions: which there are, and going back to one.

Every version that a fold published is a snapshot of the lake's table that names its state. Going
back sets main to it, with what it knows of the source's snapshots: the next fold continues there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import history, snapshot_property
from mirrorlake.landing.fold.state import NUMBER, STATE
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.records import Lease
from mirrorlake.operations.upkeep.clones import loaded_table, refused_table


@dataclass(frozen=True)
class Version:
    """One published version.

    Attributes:
        snapshot: the newest snapshot of the source that it holds; None where main was moved by
            something other than a fold.
        version: the lake table's snapshot.
        published_at: UTC.
        current: whether readers see it now.
    """

    snapshot: int | None
    version: int
    published_at: datetime
    current: bool


def list_versions(lake: Lake, identifier: Identifier) -> list[Version]:
    """The versions that readers can be shown again, newest first.

    Raises:
        LakeError: there is no such table.
    """
    table = loaded_table(lake, identifier)
    head = table.current_snapshot()
    current = next((s.snapshot_id for s in history(table) if _published(s)), None)
    found: list[Version] = []
    for one in sorted(table.snapshots(), key=lambda s: s.sequence_number or 0, reverse=True):
        if not _published(one):
            continue
        number = snapshot_property(one, NUMBER)
        at = datetime.fromtimestamp(one.timestamp_ms / 1000, UTC)
        there = head is not None and one.snapshot_id == current
        found.append(Version(int(number) if number else None, one.snapshot_id, at, there))
    return found


def _published(snapshot: object) -> bool:
    return snapshot_property(snapshot, STATE) is not None  # pyright: ignore[reportArgumentType]


def roll_table_back(
    lake: Lake,
    ledger: Ledger,
    identifier: Identifier,
    to: int | None = None,
    *,
    lease: Lease,
) -> Version:
    """Show a version that was published before, or after a version that was gone back to.

    One commit of metadata; no bytes are copied, and readers on another version finish undisturbed.
    The caller holds the table's lease.

    Args:
        to: the source's snapshot, or the lake's; None: the version before the current one.

    Raises:
        LakeError: there is no such version any more.
        CommitConflict: others moved main meanwhile.
        LeaseHeld: another run took the table over.
    """
    versions = list_versions(lake, identifier)
    chosen = _chosen(identifier, versions, to)
    table = loaded_table(lake, identifier)
    head = table.current_snapshot()
    ledger.check_lease(lease)
    if head is not None and head.snapshot_id != chosen.version:
        if chosen.version in {s.snapshot_id for s in history(table)}:
            lake.roll_back(identifier, chosen.version, head.snapshot_id)
        else:
            lake.set_forward(identifier, chosen.version, head.snapshot_id)
    return Version(chosen.snapshot, chosen.version, chosen.published_at, True)


def _chosen(identifier: Identifier, versions: list[Version], to: int | None) -> Version:
    if to is None:
        place = next((i for i, v in enumerate(versions) if v.current), len(versions))
        later = versions[place + 1 :]
        if later:
            return later[0]
        raise refused_table(identifier, "has no version before the one that readers see")
    for version in versions:
        if to in (version.snapshot, version.version):
            return version
    there = ", ".join(str(v.snapshot or v.version) for v in versions[:10]) or "none"
    raise refused_table(identifier, f"has no version {to} any more; it has {there}")
