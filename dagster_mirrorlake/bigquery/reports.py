"""Reports to Dagster what was loaded into BigQuery by no run of its own: by a command, or by jobs
that a later command settled."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from dagster_mirrorlake.bigquery.as_of import publication_as_of
from dagster_mirrorlake.bigquery.checks import EQUALS
from dagster_mirrorlake.bigquery.published import PublishedAsset, busy_published, published_assets
from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.checks.as_of import AsOf
from dagster_mirrorlake.checks.checked_assets import CheckedAsset
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.sensors.forgotten import assets_without_record

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.ledger import Ledger


def _find_loaded(
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
    if not tables:
        return [], {}
    from dagster_mirrorlake.bigquery.figures import (
        is_publication_reported,
        publication_metadata,
        publication_tags,
    )
    from mirrorlake.bigquery.ledger import Publications
    from mirrorlake.bigquery.loads.due import newest_in_bigquery

    contracts = [table.contract for table in tables]
    newest = newest_in_bigquery(config, Publications(ledger).newest("success"), contracts)
    wiped = assets_without_record(instance, [table.key("bigquery") for table in tables])
    new = [
        table
        for table in tables
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


@dataclass(frozen=True)
class BigQueryReporter:
    """What the sensor `partitions` reports of BigQuery, and whose verdicts stay shown."""

    tables: Sequence[PublishedAsset]

    @property
    def names(self) -> Names:
        return self.tables[0].names

    def find(
        self,
        instance: dg.DagsterInstance,
        config: "Config",
        ledger: "Ledger",
        before: Mapping[str, str],
    ) -> tuple[list[dg.AssetMaterialization], dict[str, str]]:
        return _find_loaded(instance, config, ledger, self.tables, before)

    def checked(self) -> Iterator[CheckedAsset]:
        for table in self.tables:
            key = table.key("bigquery")
            yield CheckedAsset(key, [dg.AssetCheckKey(key, EQUALS)], partial(_as_of, table))


def _as_of(table: PublishedAsset, ledger: "Ledger", check: str) -> AsOf | None:
    del check  # it has one
    return publication_as_of(ledger, table)


def bigquery_reporter(mirror: Mirror) -> BigQueryReporter | None:
    """None where nothing is published in BigQuery."""
    tables = published_assets(mirror)
    return BigQueryReporter(tables) if tables else None
