"""What the step of a chain of tenants does: one sync, reported layer by layer.

A tenant that failed is named on raw's page and fails nothing; the checks say that it is not
mirrored. A run fails where no source could be looked at, or where the lake has nothing to show.
"""

import time
from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.columns import types_metadata
from dagster_mirrorlake.assets.figures import put_right_metadata
from dagster_mirrorlake.assets.tenant_events import shown_tags
from dagster_mirrorlake.assets.tenant_figures import (
    failed_table,
    layer_columns_of,
    left_out_table,
    listed,
    states_metadata,
    versions_metadata,
)
from dagster_mirrorlake.resources.failures import dagster_errors, named_failures
from dagster_mirrorlake.tenants import MirroredTenants
from mirrorlake.operations.schema_changes.table_shapes import shapes_of
from mirrorlake.operations.tenants.reports import read_shown
from mirrorlake.operations.tenants.results import SyncTerms, TenantsSynced
from mirrorlake.operations.tenants.sync import sync_tenants
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace

Events = Iterator[dg.MaterializeResult[Any]]


def sync(context: dg.AssetExecutionContext, tenants: MirroredTenants, terms: SyncTerms) -> Events:
    """Read the tenants that moved, fold them, and show them.

    Raises:
        Failure: no source could be looked at; or no tenant could be read, and the lake has none.
    """
    table, started = tenants.contract, time.monotonic()
    which = ", ".join(sorted(terms.databases)) or "all tenants"
    context.log.info("table %s: sync of %s begins", table.name, which)
    with named_failures(table.name), dagster_errors(context):
        workspace: Workspace = tenants.names.resources(context).mirrorlake.workspace
        done = sync_tenants(workspace, table, terms)
        raw = {"run was about": which, **_raw_metadata(workspace, tenants, done)}
        _refuse_nothing(workspace, tenants, done, raw)
        rows = workspace.lake.count_rows(deduped_of(table)) or 0
        deduped = layer_columns_of(workspace, tenants, "deduped")
        clean = layer_columns_of(workspace, tenants, "clean")
    context.log.info(
        "table %s: %d of %d tenants read, %d unchanged, %d failed, %d rows (%.1f s)",
        *(table.name, done.read, done.tenants, done.unchanged, len(done.failed), done.rows),
        time.monotonic() - started,
    )
    tags = shown_tags(read_shown(workspace.ledger, table.name))
    yield dg.MaterializeResult(asset_key=tenants.key("raw"), metadata=raw, tags=tags)
    counted: dict[str, Any] = {
        "tenants folded": done.folded,
        **states_metadata(workspace.ledger, table),
        "dagster/row_count": rows,
        **deduped,
    }
    yield dg.MaterializeResult(asset_key=tenants.key("deduped"), metadata=counted, tags=tags)
    shown: dict[str, Any] = {
        "clean is a": table.clean,
        "made as a whole": done.clean_made,
        "tenants written": done.clean_written,
        "dagster/row_count": rows,
        **clean,
    }
    yield dg.MaterializeResult(asset_key=tenants.key("clean"), metadata=shown, tags=tags)


def _refuse_nothing(
    workspace: Workspace, tenants: MirroredTenants, done: TenantsSynced, metadata: dict[str, Any]
) -> None:
    """See that something was looked at, and that there is something to show.

    Raises:
        Failure: there is not.
    """
    table = tenants.contract
    first = next(iter(done.failed.values()), "")
    if {*done.failed, *done.held} >= {*table.sources}:
        words = f"no source of table {table.name} could be queried: {first}"
        raise dg.Failure(words, metadata, allow_retries=False)
    if workspace.lake.load(deduped_of(table)) is None:
        words = f"table {table.name}: no tenant could be read, and the lake has none: {first}"
        raise dg.Failure(words, metadata, allow_retries=False)


def _raw_metadata(
    workspace: Workspace, tenants: MirroredTenants, done: TenantsSynced
) -> dict[str, Any]:
    """What a sync did; numbers are plotted over time."""
    found: dict[str, Any] = {
        "tenants": done.tenants,
        "tenants read": done.read,
        "tenants unchanged": done.unchanged,
        "tenants joined": len(done.joined),
        "tenants made again, truncated or altered": len(done.replaced),
        "tenants found gone": len(done.gone),
        "tenants removed": len(done.removed),
        "tenants not looked at": done.counts["not looked at"],
        "tenants failed": len(done.failed),
        "left out": len(done.left_out),
        "databases without the table": len(done.without),
        "rows read": done.rows,
        "rows removed": done.rows_removed,
        "bytes written": done.bytes,
        "seconds": done.seconds,
        **versions_metadata(workspace.ledger, tenants.contract),
        **types_metadata(shapes_of(workspace, tenants.contract).columns),
        **put_right_metadata([done]),
    }
    if done.held_columns:
        found["held out of clean"] = ", ".join(done.held_columns)
    if done.failed:
        found["failures"] = failed_table(done.failed)
    if done.held:
        found["sources held"] = listed(("source", "until when"), list(done.held.items()))
    if done.left_out:
        found["what was left out"] = left_out_table(done.left_out)
    return found
