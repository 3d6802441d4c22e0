"""Upkeep of tenants' lake tables: what dead runs left is put right, what nobody needs goes.

Raw keeps the newest copy of each tenant. A file of older copies goes once every tenant in it has a
newer one; nothing is written again for that.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Commit, Identifier
from mirrorlake.destinations.iceberg.commit import LOAD_ID
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tenants import bucket_of
from mirrorlake.ledger import Tenant
from mirrorlake.load.outcome import settle_loads
from mirrorlake.load.reload import load_of
from mirrorlake.operations.maintain import Ages, Maintained, maintain_lake_table
from mirrorlake.operations.moved_layers import refuse_removal
from mirrorlake.operations.orphans import GRACE, refuse_short_grace, remove_orphans
from mirrorlake.operations.publishers import settle_published
from mirrorlake.operations.recover import Recovered
from mirrorlake.table.tenants import clean_of, deduped_of, raw_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def recover_tenants(
    workspace: Workspace, table: TenantTable, grace: timedelta = GRACE, *, wait: bool = True
) -> Recovered:
    """Settle the pending loads of a table of tenants; remove its orphans that are older than
    ``grace``.

    Raises:
        ConfigError: ``grace`` is too short for a lake that a Connect server writes.
        LeaseHeld: a live run holds the table.
        LakeError: the lake can't be read, or a file not be removed.
    """
    refuse_short_grace(workspace.config, grace)
    with workspace.leased(table, wait=wait) as leased:
        refuse_removal(leased, table)
        ledger, lake = workspace.ledger, workspace.lake
        settled = settle_loads(ledger, lake, table.name, table.namespaces.raw)
        states = {load.load_id: load.state for load in ledger.loads(table.name)}
        committed = sum(states[load.load_id] == "success" for load in settled)
        published = settle_published(leased, table)
        before = datetime.now(UTC) - grace
        removed = [
            size
            for identifier, _ in _tables(workspace, table)
            if (found := lake.load(identifier)) is not None
            for size in remove_orphans(lake, found, before)
        ]
    return Recovered(
        table=table.name,
        repairs=0,
        committed=committed,
        errored=len(settled) - committed,
        orphans=len(removed),
        bytes=sum(removed),
        published=published,
    )


def maintain_tenants(
    workspace: Workspace, table: TenantTable, ages: Ages | None = None, *, wait: bool = True
) -> list[Maintained]:
    """Take files of old copies out of raw, compact, expire and clean up all lake tables of tenants.

    Raises:
        ConfigError: the grace is too short for a lake that a Connect server writes.
        LeaseHeld: a live run holds the table.
        LakeError: the catalog can't be read.
    """
    ages = ages or Ages()
    refuse_short_grace(workspace.config, ages.grace)
    with workspace.leased(table, wait=wait) as leased:
        refuse_removal(leased, table)
        settle_loads(leased.ledger, leased.lake, table.name, table.namespaces.raw)
        tenants = list(leased.ledger.tenants(table.name).values())
        found: list[Maintained] = []
        for identifier, layer in _tables(leased, table):
            there = leased.lake.load(identifier)
            if there is None:
                continue
            leased.check_lease()
            if layer == "raw":
                _drop_old_copies(leased, table, identifier, there, tenants)
            found.append(maintain_lake_table(leased, identifier, layer, ages))
        return found


def _tables(workspace: Workspace, table: TenantTable) -> Iterator[tuple[Identifier, str]]:
    for version in workspace.ledger.schema_versions(table.name):
        yield raw_of(table, version.raw_table), "raw"
    yield deduped_of(table), "deduped"
    if table.clean == "table":
        yield clean_of(table), "clean"


def _drop_old_copies(
    workspace: Workspace,
    table: TenantTable,
    identifier: Identifier,
    raw: LakeTable,
    tenants: Collection[Tenant],
) -> None:
    """Take the files out of a raw table whose every tenant has a newer copy elsewhere; in one
    commit of metadata."""
    needed = {(tenant.load_id, bucket_of(tenant.database)) for tenant in tenants}
    head = raw.current_snapshot()
    if head is None:
        return
    with workspace.lake.translated(identifier):
        files = [task.file for task in raw.scan().plan_files()]
    unused = [
        file.file_path
        for file in files
        if (load_of(file.file_path), int(file.partition[0])) not in needed
    ]
    if not unused:
        return
    commit = Commit(
        identifier=identifier,
        parent=head.snapshot_id,
        paths=(),
        properties={LOAD_ID: f"maintain-{uuid.uuid4().hex}"},
        removes=frozenset(unused),
    )
    workspace.check_lease()
    workspace.lake.commit(commit)
    folder = f"{raw.location()}/data/"
    workspace.ledger.forget_raw_files(table.name, [p.removeprefix(folder) for p in unused])
    logger.info("table %s: %d files of old copies left %s", table.name, len(unused), identifier)
