"""Raw keeps the newest copy of each tenant, and what its log says since: a file of older copies, or
changes, goes once every tenant in it has a newer copy; nothing is written again for that."""

from __future__ import annotations

import logging
import uuid

from mirrorlake.config.contract import TenantTable
from mirrorlake.destinations.base import Commit, Identifier
from mirrorlake.destinations.iceberg.commits.commit import LOAD_ID, UPKEEP
from mirrorlake.destinations.iceberg.tables.tenants import bucket_of
from mirrorlake.load.reloads.reload import load_of
from mirrorlake.table.tenants_in_log import has_changes_in, log_loads_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def drop_old_copies(workspace: Workspace, table: TenantTable, identifier: Identifier) -> None:
    """Take the files out of a raw table whose every tenant has a newer copy elsewhere; in one
    commit of metadata."""
    tenants = [*workspace.ledger.tenants(table.name).values()]
    needed = {(tenant.load_id, bucket_of(tenant.database)) for tenant in tenants}
    loads = log_loads_of(workspace.ledger, table, tenants)
    needed |= {
        (load.load_id, bucket_of(tenant.database))
        for tenant in tenants
        for load in loads
        if has_changes_in(tenant, load)
    }
    raw = workspace.lake.load(identifier)
    head = raw.current_snapshot() if raw is not None else None
    if raw is None or head is None:
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
        properties={LOAD_ID: f"{UPKEEP}{uuid.uuid4().hex}"},
        removes=frozenset(unused),
    )
    workspace.check_lease()
    workspace.lake.commit(commit)
    folder = f"{raw.location()}/data/"
    workspace.ledger.forget_raw_files(table.name, [p.removeprefix(folder) for p in unused])
    logger.info("table %s: %d files of old copies left %s", table.name, len(unused), identifier)
