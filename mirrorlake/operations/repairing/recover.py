"""Recovery: pending loads are settled, and files that no snapshot names are removed.

All of it happens under the table's lease: then nobody of ours is writing, and a file that no
snapshot names belongs to a run that died. The grace time is for writers that know no lease.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from mirrorlake.config import TableContract
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.integrity import layers_of
from mirrorlake.load.copies.copies import kept_indexes
from mirrorlake.load.protocol.load_branches import drop_kept
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.load.protocol.resume import files_of
from mirrorlake.operations.other_writers.moved_layers import refuse_removal
from mirrorlake.operations.publishers import settle_published
from mirrorlake.operations.repairing.refold import drop_beside
from mirrorlake.operations.upkeep.maintain import list_tables
from mirrorlake.operations.upkeep.orphans import (
    GRACE,
    OrphanTerms,
    loaded_files,
    refuse_short_grace,
    remove_orphans,
)
from mirrorlake.workspace import Leasable, Workspace


@dataclass(frozen=True)
class Recovered:
    """What a recovery found of one table.

    Attributes:
        table: ``source.db.table``, or ``model dataset.name``.
        committed: pending loads that had landed, and are recorded as successes now.
        errored: pending loads that had not; the next sync resumes them, or reads their range
            again.
        repairs: repairs that never reported their end: what they loaded is settled as any load.
        published: by publisher, the state of its newest load, as its jobs are now; None
            where there is none.
        orphans, bytes: files that no snapshot named, removed.
    """

    table: str
    repairs: int
    committed: int
    errored: int
    orphans: int
    bytes: int
    published: Mapping[str, str | None] = field(default_factory=dict[str, str | None])

    def as_json(self) -> dict[str, Any]:
        """The same for programs, each publisher by its name."""
        found = asdict(self)
        return found | found.pop("published")


def recover_table(
    workspace: Workspace, contract: Mirrored, grace: timedelta = GRACE, *, wait: bool = True
) -> Recovered:
    """Settle a table's pending loads; remove its orphans, and the branches of loads that did not
    stand their proof, that are older than ``grace``.

    ``wait``: for a run that is about to finish with the table, as long as for a lock.

    Raises:
        ConfigError: ``grace`` is too short for a lake that a Connect server writes.
        LeaseHeld: a live run holds the table.
        LakeError: the lake can't be read, or a file not be removed.
    """
    refuse_short_grace(workspace.config, grace)
    with workspace.leased(contract, wait=wait) as leased:
        namespace = contract.namespaces.raw
        repairs = workspace.ledger.interrupt_repairs(contract.name)
        settled = settle_loads(leased, contract)
        pending = {load.load_id for load in settled}
        published = settle_published(leased, contract)
        states = {load.load_id: load.state for load in workspace.ledger.loads(contract.name)}
        committed = sum(states[load_id] == "success" for load_id in pending)
        long_ago = datetime.now(UTC) - grace
        for version in workspace.ledger.schema_versions(contract.name):
            drop_kept(workspace.lake, Identifier(namespace, version.raw_table), long_ago)
        for _, identifier in layers_of(contract):
            drop_beside(workspace.lake, identifier)
        kept = files_of(workspace.ledger.chunked_load(contract.name))
        indexes = kept_indexes(workspace.ledger, contract.name)
        refuse_removal(leased, contract)
        # After what died beside a layer was dropped: what marks that goes with its files.
        before = datetime.now(UTC) - grace
        removed: list[int] = []
        for identifier, layer in list_tables(workspace, contract):
            if (table := workspace.lake.load(identifier)) is None:
                continue
            by_ledger = layer == "raw" and isinstance(contract, TableContract)
            loaded = loaded_files(leased.ledger, contract, identifier.name) if by_ledger else {}
            terms = OrphanTerms(before, kept, indexes, loaded, layer)
            removed += remove_orphans(workspace.lake, table, terms)
    return Recovered(
        table=contract.name,
        repairs=repairs,
        committed=committed,
        errored=len(pending) - committed,
        orphans=len(removed),
        bytes=sum(removed),
        published=published,
    )


def recover_published(workspace: Workspace, one: Leasable) -> Recovered:
    """Settle what was submitted elsewhere of what is no mirrored table; nothing is loaded, and
    nothing of the lake is looked at.

    Raises:
        MirrorlakeError: a publisher can't be asked.
        LeaseHeld: a live run holds it.
    """
    with workspace.leased(one) as leased:
        return Recovered(one.name, 0, 0, 0, 0, 0, settle_published(leased, one))
