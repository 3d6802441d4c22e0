"""What became of a publication's jobs: each look takes it as far as it can go now.

A publication is two jobs: its files are loaded into a table beside, and when that has as many rows
as the files, one statement or copy brings them into the table. Their ids follow from the
publication's, so a run that died is continued by the next one from where its jobs are.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence

from mirrorlake.bigquery.api.client import BigQuery, JobLook
from mirrorlake.bigquery.api.job_costs import JobCost
from mirrorlake.bigquery.api.names import bigquery_table, publication_stem, staging_of
from mirrorlake.bigquery.api.statements import bounds_sql, merge_sql, parts_sql, replace_sql
from mirrorlake.bigquery.ledger import JobCosts, JobPurpose, Publication, Publications
from mirrorlake.bigquery.loads.published_contracts import PublishedContract, lake_table_of
from mirrorlake.bigquery.loads.table_form import PublishedForm
from mirrorlake.bigquery.loads.touched_days import read_ranges
from mirrorlake.errors import BigQueryError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger.store import Ledger
from mirrorlake.runtime.google.tables import BigQueryTable
from mirrorlake.runtime.plural import plural
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

_LONGEST_PAUSE = 5.0
"""Seconds between two looks at a job that runs."""


def record_cost(ledger: Ledger, table: str, purpose: JobPurpose, cost: JobCost) -> None:
    """Keep what a job took that has ended."""
    took = {
        "bytes_processed": cost.bytes_processed,
        "bytes_billed": cost.bytes_billed,
        "slot_ms": cost.slot_ms,
    }
    JobCosts(ledger).record(table, purpose, cost.job, cost.job_type, took)


def load_job(publication: Publication) -> str:
    """The id of the job that loads its files."""
    return f"{publication.id}_load"


def _write_job(publication: Publication) -> str:
    """The id of the job that brings what was loaded into the table."""
    return f"{publication.id}_write"


def jobs_of(publication: Publication) -> tuple[str, ...]:
    """The ids of all jobs that it may have, submitted or not."""
    return load_job(publication), _write_job(publication)


def publications_into(ledger: Ledger, table: str, target: BigQueryTable) -> Sequence[Publication]:
    """What was loaded of a table into ``target``, the newest first. What was loaded under another
    project or dataset, as the contract had it then, is not among it."""
    return [one for one in Publications(ledger).of_table(table) if went_into(one, target)]


def went_into(publication: Publication, target: BigQueryTable) -> bool:
    """Whether a publication is one of a load into ``target``: neither of a load into another place,
    nor of views over raw, as releases before 0.1.0 could make them in a table's place."""
    stem = f"{publication_stem(target, publication.version)}_"
    return publication.id.startswith(stem) and not json.loads(publication.form).get("raw")


def base_of(bigquery: BigQuery, newest_first: Sequence[Publication]) -> Publication | None:
    """The publication that a table in BigQuery is known to be as; None where that is not known, or
    nothing was loaded.

    Args:
        newest_first: all publications of the table, ended.

    Raises:
        BigQueryError: BigQuery can't be asked.
    """
    for publication in newest_first:
        if publication.state == "success":
            return publication
        written = bigquery.look(_write_job(publication))
        # Not submitted, or failed: that changed nothing.
        if written is not None and written.state != "failed":
            return None
    return None


def settle_newest(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery, patience: float = 0.0
) -> Publication | None:
    """The newest publication of a table, as far as its jobs are now; None where there is none.

    Raises:
        BigQueryError: BigQuery can't be asked.
    """
    newest = Publications(workspace.ledger).newest().get(contract.name)
    if newest is None or newest.state != "pending":
        return newest
    target = bigquery_table(bigquery.config.project, lake_table_of(contract))
    return settle(bigquery, workspace.ledger, target, newest, patience)


def settle(
    bigquery: BigQuery,
    ledger: Ledger,
    target: BigQueryTable,
    publication: Publication,
    patience: float,
) -> Publication:
    """Take a publication on until it has ended, or ``patience`` seconds are over.

    Under the table's lease: nobody else submits jobs for it.

    Returns:
        The publication as the ledger has it then.

    Raises:
        BigQueryError: BigQuery can't be asked; the publication is as it was.
    """
    deadline, pause = time.monotonic() + patience, 0.1
    while publication.state == "pending":
        publication, waits = _step(bigquery, ledger, target, publication)
        if not waits:
            continue
        left = deadline - time.monotonic()
        if left <= 0:
            break
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE)
    return publication


def _step(
    bigquery: BigQuery, ledger: Ledger, target: BigQueryTable, publication: Publication
) -> tuple[Publication, bool]:
    """The publication after one look, and whether a job has to be waited for."""
    loaded = bigquery.look(load_job(publication))
    if loaded is None:
        words = "the run that began it ended before its job was submitted"
        return _end(bigquery, ledger, target, publication, words), False
    if loaded.state == "running":
        return publication, True
    if loaded.state == "failed":
        return _end(bigquery, ledger, target, publication, loaded.error, loaded), False
    written = bigquery.look(_write_job(publication))
    if written is None:
        return _write(bigquery, ledger, target, publication, loaded), False
    if written.state == "running":
        return publication, True
    if written.state == "failed":
        return _end(bigquery, ledger, target, publication, written.error, loaded, written), False
    counted = bigquery.count(target)
    failpoint("bigquery.counted")
    words = None if counted == publication.rows else _miscounted(target, counted, publication.rows)
    return _end(bigquery, ledger, target, publication, words, loaded, written), False


def _write(
    bigquery: BigQuery,
    ledger: Ledger,
    target: BigQueryTable,
    publication: Publication,
    loaded: JobLook,
) -> Publication:
    """Submit the job that brings loaded rows into the table, if they are all there."""
    staging = staging_of(target, publication.id)
    counted = bigquery.count(staging)
    if counted != publication.staged:
        words = _miscounted(staging, counted, publication.staged)
        return _end(bigquery, ledger, target, publication, words, loaded)
    try:
        if publication.since is None:
            _drop_other_layout(bigquery, staging, target)
            bigquery.submit_copy(_write_job(publication), staging, target)
        else:
            bigquery.submit_statement(_write_job(publication), _merge(publication, staging, target))
    except BigQueryError as error:
        if error.retryable:
            raise
        return _end(bigquery, ledger, target, publication, str(error), loaded)
    failpoint("bigquery.write_submitted")
    return publication


def _drop_other_layout(bigquery: BigQuery, staging: BigQueryTable, target: BigQueryTable) -> None:
    """Drop a table that is partitioned or clustered otherwise than the one that is to replace it,
    and a view: BigQuery copies over none but a table of the same layout."""
    found = bigquery.find(target)
    layout = bigquery.layout_of(target) if found is not None else None
    if found is not None and found.sql:
        logger.warning("view %s becomes a table: it is dropped, and made", target)
        bigquery.drop(target)
        failpoint("bigquery.dropped")
    elif layout is not None and layout != bigquery.layout_of(staging):
        logger.warning("table %s gets another layout: it is dropped, and made again", target)
        bigquery.drop(target)
        failpoint("bigquery.dropped")


def _merge(publication: Publication, staging: BigQueryTable, target: BigQueryTable) -> str:
    form = PublishedForm.from_json(publication.form)
    if form.parts:
        fields = {one["name"]: one for one in form.columns}
        parts = json.loads(publication.days or "{}")["parts"]
        leaving = parts_sql([fields[name] for name in form.parts], parts)
        return replace_sql(str(target), str(staging), form.names, leaving or "FALSE")
    bounds = ""
    if publication.days is not None:
        ranges, unset = read_ranges(publication.days)
        [column] = [one for one in form.columns if one["name"] == form.column]
        bounds = bounds_sql(column, ranges, unset=unset)
    return merge_sql(str(target), str(staging), form.names, form.key, bounds)


def _end(
    bigquery: BigQuery,
    ledger: Ledger,
    target: BigQueryTable,
    publication: Publication,
    error: str | None,
    *ended: JobLook,
) -> Publication:
    """Keep what its jobs took, remove what it left beside the table, then record how it ended.

    Args:
        ended: its jobs, as they were seen to have ended.
    """
    for look in ended:
        if look.cost is not None:
            record_cost(ledger, publication.table, "publish", look.cost)
    bigquery.drop(staging_of(target, publication.id))
    bigquery.remove_files(publication.id)
    failpoint("bigquery.removed")
    if error is not None:
        logger.warning("table %s: publication %s: %s", publication.table, publication.id, error)
    return Publications(ledger).ended(publication.id, error)


def _miscounted(table: BigQueryTable, counted: int | None, expected: int | None) -> str:
    found = "is not there" if counted is None else f"has {plural(counted, 'row')}"
    return f"after the job had ended, table {table} {found}; {expected:,} were loaded"
