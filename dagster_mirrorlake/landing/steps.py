"""What each asset of a snapshot's chain does: one call of the engine, in Dagster's words."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.columns import columns_metadata, landed_metadata
from dagster_mirrorlake.assets.keys import ACCEPT_TAG
from dagster_mirrorlake.landing.events import landed_files, partition_key, publication
from dagster_mirrorlake.landing.resource import reach_landing
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import format_duration
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.landing.land import fold_snapshots, take_snapshots
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.table.lake_tables import clean_of, deduped_of
from mirrorlake.workspace import Workspace

Events = Iterator[dg.MaterializeResult[Any]]


def take(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Write the run's snapshots down as landed."""
    contract = mirrored.contract
    with dagster_errors(context):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        reach_landing(mirrored.names.resources(context), workspace.config, contract)
        done = take_snapshots(workspace, contract, _ids(context))
    for one in done:
        metadata = landed_files(one.record)
        if one.bad:
            metadata["the first malformed"] = "\n".join(str(bad) for bad in one.bad[:20])
        context.add_asset_metadata(metadata, partition_key=partition_key(one.record))
    metadata = {"snapshots": len(done), **landed_metadata(workspace.ledger, mirrored)}
    yield dg.MaterializeResult(metadata=metadata)


def fold(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Fold and publish the run's snapshots, in the order of their ids."""
    contract = mirrored.contract
    accept = context.run.tags.get(ACCEPT_TAG) == "true"
    settings = contract.snapshot
    limit = settings.fresh_within if settings else None
    with dagster_errors(context):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        reach_landing(mirrored.names.resources(context), workspace.config, contract)
        done = fold_snapshots(workspace, contract, _ids(context), accept_smaller=accept)
        rows = workspace.lake.count_rows(deduped_of(contract))
        table = workspace.lake.load(deduped_of(contract))
        schema = table.schema() if table is not None else None
        columns = columns_metadata(workspace.ledger, mirrored, "deduped", schema)
        records = {
            r.id: publication(r) for r in LandedSnapshots(workspace.ledger).snapshots(contract.name)
        }
    for one in done:
        metadata: dict[str, Any] = {
            "dagster/partition_row_count": one.rows,
            "strategy": one.strategy,
            "rows added": one.added,
            "rows changed": one.changed,
            "rows removed": one.removed,
            "of them with their day": one.left,
            "keys missing": one.missing,
            "keys held twice": one.duplicates,
            "published": one.published,
            **records.get(one.id, {}),
            "seconds": one.seconds,
        }
        if limit is not None:
            metadata["limit"] = format_duration(limit)
            metadata["in time"] = one.minutes * 60 <= limit.total_seconds()
        context.add_asset_metadata(metadata, partition_key=f"{one.id:014d}")
    result: dict[str, Any] = {"snapshots folded": len(done), **columns}
    yield dg.MaterializeResult(metadata={**result, "dagster/row_count": rows or 0})


def show(context: dg.AssetExecutionContext, mirrored: MirroredTable) -> Events:
    """Report clean: a view has the rows of deduped."""
    contract = mirrored.contract
    with dagster_errors(context):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        rows = workspace.lake.count_rows(deduped_of(contract))
        view = read_view(workspace.lake, clean_of(contract))
        schema = view.schema if view is not None else None
        columns = columns_metadata(workspace.ledger, mirrored, "clean", schema)
        records = {
            partition_key(r): r for r in LandedSnapshots(workspace.ledger).snapshots(contract.name)
        }
    for key in set(context.partition_keys).intersection(records):
        if published := publication(records[key]):
            context.add_asset_metadata(published, partition_key=key)
    shown = {"clean is a": "view", "dagster/row_count": rows or 0}
    yield dg.MaterializeResult(metadata={**shown, **columns})


def _ids(context: dg.AssetExecutionContext) -> list[int]:
    return sorted(int(key) for key in context.partition_keys)


STEPS = {"raw": take, "deduped": fold, "clean": show}
