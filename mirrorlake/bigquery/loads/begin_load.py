"""One table of the lake, brought to BigQuery as the version that the lake shows: one publication.

What belongs here: a load's beginning. What doesn't: which table of BigQuery a contract has
(`mirrorlake.bigquery.loads.publish`), and what became of a load's jobs
(`mirrorlake.bigquery.loads.settle`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.api.names import publication_stem, staging_of
from mirrorlake.bigquery.api.types import FieldJson
from mirrorlake.bigquery.ledger import Publication, Publications
from mirrorlake.bigquery.loads.settle import base_of, load_job
from mirrorlake.bigquery.loads.stage import StagedFiles, staged_as, upload_rows
from mirrorlake.bigquery.loads.table_form import PublishedForm, ShownTable
from mirrorlake.bigquery.loads.which_rows import LoadChoice, choose
from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown
from mirrorlake.destinations.iceberg.reading.partition_changes import PartitionChanges
from mirrorlake.errors import BigQueryError
from mirrorlake.failpoints import failpoint
from mirrorlake.runtime.google.quotas import QUOTA_STEP, is_used_up, passes
from mirrorlake.runtime.google.tables import BigQueryTable
from mirrorlake.workspace import Workspace


def was_loaded(shown: ShownTable, newest: Publication) -> bool:
    """Whether what the lake shows was loaded, in the form that it is to have now."""
    loaded = (newest.state, newest.version, PublishedForm.from_json(newest.form))
    return loaded == ("success", shown.version, shown.form)


def begin_load(
    workspace: Workspace,
    bigquery: BigQuery,
    target: BigQueryTable,
    shown: ShownTable,
    known: Sequence[Publication],
    bigquery_fields: list[FieldJson] | None,
    datasets: Iterable[str],
) -> Publication:
    """Submit what brings BigQuery to the version that the lake shows.

    Args:
        known: what was loaded of it into BigQuery, the newest first.
        bigquery_fields: the columns that BigQuery has now; None: no table.
        datasets: those that must exist.
    """
    bigquery.refuse_missing(datasets)
    ledger = workspace.ledger
    base = base_of(bigquery, known)
    with workspace.lake.translated(shown.identifier):
        rows = count_shown(shown.table)
    choice = choose(workspace.lake, shown.table, rows, shown.form, base, bigquery_fields)
    begun = Publications(ledger).begin(
        publication_stem(target, shown.version),
        shown.name,
        shown.version,
        choice.since,
        choice.why,
        shown.form.to_json(),
    )
    failpoint("bigquery.begun")
    if choice.same:
        Publications(ledger).staged(begun.id, 0, rows, 0)
        return Publications(ledger).ended(begun.id)
    return _submit(workspace, bigquery, target, shown, choice, begun, rows)


def refuse_failed(name: str, ended: Publication) -> None:
    """See that a publication did not fail.

    Raises:
        BigQueryError: it did.
    """
    if ended.state != "errored":
        return
    words = ended.error or ""
    step = "The lake is as it was, and the next sync tries again"
    raise BigQueryError(
        f"table {name} was not loaded into BigQuery: {words}",
        table=name,
        next_step=QUOTA_STEP if is_used_up(words) else step,
        retryable=passes(words),
    )


def _submit(
    workspace: Workspace,
    bigquery: BigQuery,
    target: BigQueryTable,
    shown: ShownTable,
    choice: LoadChoice,
    begun: Publication,
    rows: int,
) -> Publication:
    """Upload a publication's rows, and submit the job that loads them."""
    lake, hash_key = workspace.lake, workspace.config.privacy.hash_key
    staged = upload_rows(bigquery, begun.id, lake, shown.table, shown.form, choice, hash_key)
    failpoint("bigquery.uploaded")
    workspace.check_lease()
    days = _touched(choice, shown.form, staged)
    begun = Publications(workspace.ledger).staged(begun.id, staged.rows, rows, staged.bytes, days)
    failpoint("bigquery.staged")
    fields, layout = staged_as(shown.form, changes=choice.changes is not None)
    staging = staging_of(target, begun.id)
    bigquery.submit_load(load_job(begun), staged.addresses, staging, fields, layout)
    failpoint("bigquery.load_submitted")
    return begun


def _touched(choice: LoadChoice, form: PublishedForm, staged: StagedFiles) -> str | None:
    """What the statement that brings changes into the table names: days, or a model's
    partitions."""
    if isinstance(choice.changes, PartitionChanges):
        return json.dumps({"parts": choice.changes.parts})
    return staged.days.to_json() if choice.changes is not None and form.column else None
