"""One sensor for the location: tables that BigQuery does not have as the lake shows them, and a run
that publishes them."""

import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.bigquery.published import (
    PublishedAsset,
    PublishedModelAsset,
    busy_published,
    published_assets,
)
from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.checks import blocking_check_keys
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import STATUS
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants

if TYPE_CHECKING:
    from mirrorlake.bigquery.loads.due import DueLoad
    from mirrorlake.destinations.iceberg.catalog.locations import SeenHeads

INTERVAL_SECONDS = 60


def _build_unpublished_sensor(
    tables: Sequence[PublishedAsset], *, running: bool = False
) -> dg.SensorDefinition:
    """The sensor on versions that no load into BigQuery followed, on loads that failed, and on jobs
    that outlived their run. It asks the ledger and the lake, and nobody at Google.

    Args:
        tables: those that are published in BigQuery.
    """
    names = tables[0].names

    @functools.cache
    def seen() -> "SeenHeads":
        """For as long as the code server lives."""
        from mirrorlake.destinations.iceberg.catalog.locations import SeenHeads

        return SeenHeads()

    @dg.sensor(
        name=names.of("unpublished"),
        asset_selection=[table.key("bigquery") for table in tables],
        minimum_interval_seconds=INTERVAL_SECONDS,
        required_resource_keys=names.all_of({"lake", "ledger"}),
        default_status=STATUS[running],
        description="Requests BigQuery's assets of tables that it does not have as the lake shows "
        "them, or whose jobs ran for longer than their run waited.",
    )
    def unpublished(context: dg.SensorEvaluationContext) -> Any:
        from mirrorlake.bigquery.loads.due import find_unpublished
        from mirrorlake.operations.cursors import cursor_text, read_cursor

        now = datetime.now(UTC)
        requested = read_cursor(dict[str, datetime], context.cursor, dict[str, datetime]())
        busy = busy_published(context.instance, tables)
        free = [table.contract for table in tables if table.contract.name not in busy]
        with dagster_errors():
            resources = names.resources(context)
            config, lake = resources.lake.contracts, resources.lake.lake
            ledger = resources.ledger.ledger
            head = seen().look(config.lake, lake)
            due = list(find_unpublished(config, head, ledger, free, requested, now))
        if not due:
            return dg.SkipReason("BigQuery has what the lake shows, or it was requested")
        return dg.SensorResult(
            run_requests=_requests(tables, due, requested),
            cursor=cursor_text(requested | {one.contract.name: now for one in due}),
        )

    return unpublished


def _requests(
    tables: Sequence[PublishedAsset], due: "Sequence[DueLoad]", requested: Mapping[str, datetime]
) -> list[dg.RunRequest]:
    """A run per source, or group of tenants, and one for models. Deduped's blocking checks, which
    tenants have none of, are part of it: what they keep from a chain's run is kept from this one.
    Of a model nothing is in the lake that is not as expected."""
    by_name = {table.contract.name: table for table in tables}
    by_source: dict[str, list[DueLoad]] = {}
    for one in due:
        by_source.setdefault(_whose(by_name[one.contract.name]), []).append(one)
    requests: list[dg.RunRequest] = []
    for source, found in sorted(by_source.items()):
        chosen = [by_name[one.contract.name] for one in found]
        said = [(d.contract.name, d.version, str(requested.get(d.contract.name))) for d in found]
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
        requests.append(
            dg.RunRequest(
                run_key=f"publish-{source}-{digest}",
                asset_selection=[table.key("bigquery") for table in chosen],
                asset_check_keys=[key for table in chosen for key in _blocking(table)],
                # Without the tag of its source: no load waits for BigQuery.
                tags={"mirrorlake/reason": "; ".join(dict.fromkeys(one.why for one in found))},
            )
        )
    return requests


def _whose(table: PublishedAsset) -> str:
    match table:
        case MirroredTable():
            return table.contract.source
        case MirroredTenants():
            return table.contract.group
        case PublishedModelAsset():
            return "models"


def _blocking(table: PublishedAsset) -> list[dg.AssetCheckKey]:
    return blocking_check_keys(table) if isinstance(table, MirroredTable) else []


def unpublished_sensors(mirror: Mirror) -> list[dg.SensorDefinition]:
    """None where nothing is published in BigQuery."""
    tables = published_assets(mirror)
    return [_build_unpublished_sensor(tables, running=mirror.running)] if tables else []
