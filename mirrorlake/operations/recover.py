"""Recovery: pending loads are settled, and files that no snapshot names are removed.

All of it happens under the table's lease: then nobody of ours is writing, and a file that no
snapshot names belongs to a run that died. The grace time is for writers that know no lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.integrity import layers_of
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.load.copies import kept_indexes
from mirrorlake.load.outcome import settle_loads
from mirrorlake.load.resume import files_of
from mirrorlake.load.verify import drop_kept
from mirrorlake.models.published import PublishedModel
from mirrorlake.operations.bigquery.opened import open_for
from mirrorlake.operations.bigquery.settle import settle_newest
from mirrorlake.operations.bigquery.tables import PublishedContract
from mirrorlake.operations.moved_layers import refuse_removal
from mirrorlake.operations.orphans import (
    GRACE,
    loaded_files,
    refuse_short_grace,
    remove_orphans,
)
from mirrorlake.operations.refold import drop_beside
from mirrorlake.serving.versions import versions_table
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Recovered:
    """What a recovery found of one table.

    Attributes:
        table: ``source.db.table``, or ``model dataset.name``.
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


def recover_table(
    workspace: Workspace, contract: TableContract, grace: timedelta = GRACE, *, wait: bool = True
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
        settled = settle_loads(workspace.ledger, workspace.lake, contract.name, namespace)
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
        for table in _tables(workspace, contract):
            name = table.name()[-1]
            of_raw = ".".join(table.name()[:-1]) == contract.namespaces.raw
            loaded = loaded_files(workspace.ledger, contract, name) if of_raw else {}
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


def recover_model(workspace: Workspace, model: PublishedModel) -> Recovered:
    """Settle what was submitted to BigQuery of a model; nothing is loaded, and nothing of the lake
    is looked at.

    Raises:
        BigQueryError: BigQuery can't be asked.
        LeaseHeld: a live run holds the model.
    """
    with workspace.leased(model) as leased:
        return Recovered(model.name, 0, 0, 0, 0, 0, bigquery=settle_published(leased, model))


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


def _tables(workspace: Workspace, contract: TableContract) -> Iterator[LakeTable]:
    spaces = contract.namespaces
    names = [
        *(
            Identifier(spaces.raw, version.raw_table)
            for version in workspace.ledger.schema_versions(contract.name)
        ),
        *filter(None, [versions_table(workspace.lake, contract)]),
        Identifier(spaces.deduped, contract.table),
        Identifier(spaces.clean, contract.table),
    ]
    for name in names:
        table = workspace.lake.load(name)
        if table is not None:
            yield table
