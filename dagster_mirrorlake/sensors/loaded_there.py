"""Reports to Dagster what was loaded into BigQuery by no run of its own: by a command, or by jobs
that a later command settled."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from dagster_mirrorlake.published import PublishedAsset
from dagster_mirrorlake.sensors.forgotten import assets_without_record
from dagster_mirrorlake.sensors.requests import busy_published

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.ledger import Ledger


def find_loaded(
    instance: dg.DagsterInstance,
    config: "Config",
    ledger: "Ledger",
    tables: Sequence[PublishedAsset],
    before: Mapping[str, str],
) -> tuple[list[dg.AssetMaterialization], dict[str, str]]:
    """A materialisation of each table whose newest successful load Dagster has no record of; and
    the loads that it has, by table.

    A table that a run is at work on is left until it has ended: that run reports it.

    Args:
        before: by table, the publication that was reported.
    """
    published = [table for table in tables if table.contract.in_bigquery]
    if not published:
        return [], {}
    from dagster_mirrorlake.assets.bigquery_figures import (
        is_publication_reported,
        publication_metadata,
        publication_tags,
    )
    from mirrorlake.operations.bigquery.due import loaded_there

    contracts = [table.contract for table in published]
    newest = loaded_there(config, ledger.newest_publications("success"), contracts)
    wiped = assets_without_record(instance, [table.key("bigquery") for table in published])
    new = [
        table
        for table in published
        if (one := newest.get(table.contract.name))
        and (one.id != before.get(table.contract.name) or table.key("bigquery") in wiped)
    ]
    busy = busy_published(instance, new) if new else set[str]()
    events: list[dg.AssetMaterialization] = []
    reported = {name: id for name, id in before.items() if name in newest}
    for table in (table for table in new if table.contract.name not in busy):
        publication, key = newest[table.contract.name], table.key("bigquery")
        reported[table.contract.name] = publication.id
        if not is_publication_reported(instance, key, publication.id):
            shown = {
                "this run": "none: reported by the ledger",
                **publication_metadata(ledger, table, publication),
                "views": "not looked at",
            }
            tags = publication_tags(publication.id)
            events.append(dg.AssetMaterialization(key, metadata=shown, tags=tags))
    return events, reported
