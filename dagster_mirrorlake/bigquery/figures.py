"""A load into BigQuery in Dagster's words: the same from the step that made it and from the sensor
that reports what others made."""

from collections.abc import Sequence
from typing import Any

import dagster as dg

from dagster_mirrorlake.assets.columns import (
    COLUMN_LINEAGE,
    COLUMN_SCHEMA,
    column_tags,
    key_of,
    own_description,
)
from dagster_mirrorlake.bigquery.published import PublishedAsset, PublishedModelAsset
from mirrorlake.bigquery.api.types import FieldJson
from mirrorlake.bigquery.costs import sum_costs
from mirrorlake.bigquery.ledger import JobCosts, Publication
from mirrorlake.bigquery.loads.publish import PublishOutcome
from mirrorlake.bigquery.loads.settle import jobs_of
from mirrorlake.bigquery.loads.table_form import PublishedForm
from mirrorlake.ledger import Ledger
from mirrorlake.schema.own_columns import hash_column

_PUBLICATION_TAG = "mirrorlake/publication"
"""Of a materialisation: the publication that it reflects."""


def publication_tags(publication: str) -> dict[str, str]:
    """The tags of an event that reflects a publication: the end of its id, for tags are short."""
    return {_PUBLICATION_TAG: "_".join(publication.rsplit("_", 2)[1:])}


def is_publication_reported(
    instance: dg.DagsterInstance, key: dg.AssetKey, publication: str
) -> bool:
    """Whether the newest materialisation of a table in BigQuery reflects this publication."""
    found = instance.get_latest_materialization_event(key)
    event = found.asset_materialization if found is not None else None
    wanted = publication_tags(publication).items()
    return event is not None and wanted <= (event.tags or {}).items()


def shown_number(number: int | None) -> int | str:
    """A figure of Google's; what nobody says is not 0."""
    return "unknown" if number is None else number


def _cost_metadata(ledger: Ledger, publication: Publication) -> dict[str, Any]:
    """What the jobs of a load took."""
    records = JobCosts(ledger).since(publication.submitted_at, [publication.table])
    jobs = jobs_of(publication)
    found = sum_costs(one for one in records if one.job in jobs)
    if not found.jobs:
        return {}
    # Loads and copies are not billed by bytes.
    billed = shown_number(found.bytes_billed) if "query" in found.jobs else 0
    return {"bytes billed": billed, "slot ms": shown_number(found.slot_ms)}


def publication_metadata(
    ledger: Ledger, table: PublishedAsset, publication: Publication
) -> dict[str, Any]:
    """Which version of the lake was loaded, how and why so, by which jobs, what they took, and the
    table's columns."""
    changed, form = publication.bytes != 0, PublishedForm.from_json(publication.form)
    how = "all rows" if publication.since is None else "changes"
    found: dict[str, Any] = {
        # As text: a browser rounds numbers of this length.
        "lake version": str(publication.version),
        "loaded": how if changed else "nothing: no row changed",
        "because": publication.why,
        "jobs": ", ".join(jobs_of(publication)) if changed else "none",
        "submitted": f"{publication.submitted_at:%Y-%m-%d %H:%M:%S} UTC",
        **_cost_metadata(ledger, publication),
        **_columns(table, form),
    }
    if publication.completed_at is not None:
        found["completed"] = f"{publication.completed_at:%Y-%m-%d %H:%M:%S} UTC"
    if publication.staged is not None:
        found["rows loaded"] = publication.staged
    if publication.bytes is not None:
        found["bytes of files"] = publication.bytes
    if publication.state == "success" and publication.rows is not None:
        found["dagster/row_count"] = publication.rows
    return found


def views_words(done: PublishOutcome) -> str:
    """What became of the views."""
    return ", ".join(f"{kind}: {state}" for kind, state in done.views.items()) or "none"


def _columns(table: PublishedAsset, form: PublishedForm) -> dict[str, Any]:
    """The columns in BigQuery's types, and the column of the lake that each comes from."""
    origins = {name: name for name in form.read}
    origins |= {hash_column(name): name for name in form.hashed}
    upstream = table.key("deduped")
    return {
        COLUMN_SCHEMA: dg.TableSchema(
            [_column(table, field, form.key) for field in form.columns], key_of(form.key)
        ),
        COLUMN_LINEAGE: dg.TableColumnLineage(
            {name: [dg.TableColumnDep(upstream, of)] for name, of in origins.items()}
        ),
    }


def _column(table: PublishedAsset, field: FieldJson, key: Sequence[str] = ()) -> dg.TableColumn:
    name = field["name"]
    rules = {} if isinstance(table, PublishedModelAsset) else table.contract.columns
    repeated = field["mode"] == "REPEATED"
    return dg.TableColumn(
        name,
        f"ARRAY<{field['type']}>" if repeated else field["type"],
        own_description(name),
        dg.TableColumnConstraints(nullable=field["mode"] == "NULLABLE", unique=list(key) == [name]),
        tags=column_tags(rules, name),
    )
