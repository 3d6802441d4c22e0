"""What the asset of a table in BigQuery does: one publication, in Dagster's words."""

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_mirrorlake.bigquery.figures import publication_metadata, publication_tags, views_words
from dagster_mirrorlake.bigquery.published import PublishedAsset, PublishedModelAsset
from dagster_mirrorlake.resources.failures import dagster_errors
from mirrorlake.bigquery.ledger import Publications
from mirrorlake.bigquery.loads.open_clients import open_for
from mirrorlake.bigquery.loads.publish import PublishOutcome, publish_table
from mirrorlake.bigquery.models import models_in_bigquery
from mirrorlake.workspace import Workspace

_OUTCOMES = {
    "success": "loaded it",
    "unchanged": "found it as the lake shows it",
    "pending": "jobs still run: a later run, or the next command, settles them",
}


def load_table(
    context: dg.AssetExecutionContext, mirrored: PublishedAsset
) -> Iterator[dg.MaterializeResult[Any] | dg.AssetObservation]:
    """Bring BigQuery to the version of deduped, or of a model, that the lake shows.

    Jobs that run for longer than ``bigquery.wait`` are no materialisation: what is in BigQuery is
    what was there before. An observation says which jobs they are.
    """
    contract = mirrored.contract
    with dagster_errors(context):
        workspace: Workspace = mirrored.names.resources(context).mirrorlake.workspace
        if isinstance(mirrored, PublishedModelAsset):
            # One that does not compile may read what a rule hides by now.
            models_in_bigquery(workspace.config, lambda: workspace.lake, [mirrored.contract.model])
        done = publish_table(workspace, contract, open_for(workspace, [contract]))
        shown = _shown(workspace, mirrored, done)
    if done.state == "not loaded":
        raise dg.Failure(
            f"table {contract.name}: the lake has none: materialise what is upstream first",
            allow_retries=False,
        )
    if done.state == "pending":
        context.log.warning("table %s: BigQuery's jobs of %s still run", contract.name, done.job)
        yield dg.AssetObservation(mirrored.key("bigquery"), metadata=shown)
        return
    yield dg.MaterializeResult(metadata=shown, tags=publication_tags(done.job or ""))


def _shown(workspace: Workspace, mirrored: PublishedAsset, done: PublishOutcome) -> dict[str, Any]:
    known = Publications(workspace.ledger).of_table(mirrored.contract.name)
    publication = next((one for one in known if one.id == done.job), None)
    if publication is None:
        return {}
    return {
        "this run": _OUTCOMES.get(done.state, done.state),
        **publication_metadata(workspace.ledger, mirrored, publication),
        "views": views_words(done),
    }


STEPS = {"bigquery": load_table}
"""By layer."""
