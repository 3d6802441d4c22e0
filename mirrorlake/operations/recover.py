"""Recovery: pending loads are settled, and files that no snapshot names are removed.

All of it happens under the table's lease: then nobody of ours is writing, and a file that no
snapshot names belongs to a run that died. The grace time is for writers that know no lease.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from mirrorlake.capabilities import Seam
from mirrorlake.config import TableContract
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.integrity import layers_of
from mirrorlake.errors import MirrorlakeError
from mirrorlake.load.copies import kept_indexes
from mirrorlake.load.load_run import settle_loads
from mirrorlake.load.resume import files_of
from mirrorlake.load.verify import drop_kept
from mirrorlake.operations.bigquery.opened import open_for
from mirrorlake.operations.bigquery.settle import settle_newest
from mirrorlake.operations.bigquery.tables import PublishedContract
from mirrorlake.operations.maintain import list_tables
from mirrorlake.operations.moved_layers import refuse_removal
from mirrorlake.operations.orphans import (
    GRACE,
    loaded_files,
    refuse_short_grace,
    remove_orphans,
)
from mirrorlake.operations.refold import drop_beside
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Recovered:
    """What a recovery found of one table.

    Attributes:
        committed: pending loads that had landed, and are recorded as successes now.
        errored: pending loads that had not; the next sync resumes them, or reads their range
            again.
        repairs: repairs that never reported their end: what they loaded is settled as any load.
        bigquery: the state of the newest load into BigQuery, as its jobs are now; None where there
            is none.
        orphans, bytes: files that no snapshot named, removed.
    """

    table: str
    repairs: int
    committed: int
    errored: int
    orphans: int
    bytes: int
    bigquery: str | None = None


@dataclass(frozen=True)
class ToRecover:
    """Something to be recovered, by its name; files younger than so long stay."""

    name: str
    recover: Callable[[timedelta], Recovered]


AlsoRecovered: TypeAlias = Callable[
    [Workspace, Sequence[str]],
    tuple[Sequence[ToRecover], Sequence[tuple[str, MirrorlakeError]]],
]
ALSO_RECOVERED: Final[Seam[AlsoRecovered]] = Seam("recover")
"""Called with what is named and computed, with nothing where all is meant: what is to be recovered
beside tables, and what nobody may go on with, and why."""


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
        before = datetime.now(UTC) - grace
        for version in workspace.ledger.schema_versions(contract.name):
            drop_kept(workspace.lake, Identifier(namespace, version.raw_table), before)
        for _, identifier in layers_of(contract):
            drop_beside(workspace.lake, identifier)
        kept = files_of(workspace.ledger.chunked_load(contract.name))
        indexes = kept_indexes(workspace.ledger, contract.name)
        refuse_removal(leased, contract)
        removed: list[int] = []
        for identifier, layer in list_tables(workspace, contract):
            if (table := workspace.lake.load(identifier)) is None:
                continue
            by_ledger = layer == "raw" and isinstance(contract, TableContract)
            loaded = loaded_files(leased.ledger, contract, identifier.name) if by_ledger else {}
            removed += remove_orphans(workspace.lake, table, before, kept, indexes, loaded)
    return Recovered(
        table=contract.name,
        repairs=repairs,
        committed=committed,
        errored=len(pending) - committed,
        orphans=len(removed),
        bytes=sum(removed),
        bigquery=published,
    )


def settle_published(workspace: Workspace, contract: PublishedContract) -> str | None:
    """Settle what was submitted to BigQuery of a table, without waiting for it; nothing is loaded.

    Returns:
        The state of its newest load into BigQuery; None where there is none.

    Raises:
        BigQueryError: BigQuery can't be asked.
    """
    if not contract.in_bigquery:
        return None
    newest = workspace.ledger.newest_publications().get(contract.name)
    if newest is not None and newest.state == "pending":
        newest = settle_newest(workspace, contract, open_for(workspace, [contract]))
    return newest.state if newest is not None else None
