"""As of which load a verdict on a table in BigQuery is."""

from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_mirrorlake.bigquery.published import PublishedAsset
from dagster_mirrorlake.checks.as_of import AsOf

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger


def publication_as_of(ledger: "Ledger", table: PublishedAsset) -> AsOf | None:
    """What a verdict on a table in BigQuery would be as of now: its newest load; None where nothing
    is loaded."""
    from mirrorlake.bigquery.ledger import Publications

    name = table.contract.name
    newest = Publications(ledger).newest("success").get(name)
    if newest is None:
        return None
    found = AsOf.of_stored(ledger, name, "bigquery", table.specs["bigquery"].code_version)
    return replace(found, shown=newest.id)
