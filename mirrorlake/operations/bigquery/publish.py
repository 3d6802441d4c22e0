"""Publish: what the lake shows of a table, in BigQuery."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mirrorlake.destinations.bigquery.client import BigQuery, open_bigquery
from mirrorlake.destinations.bigquery.google import again_while
from mirrorlake.destinations.bigquery.names import (
    BigQueryTable,
    publication_stem,
    staging_of,
    table_there,
)
from mirrorlake.destinations.bigquery.quotas import QUOTA_STEP, is_used_up, passes
from mirrorlake.destinations.bigquery.types import FieldJson
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.partition_changes import PartitionChanges
from mirrorlake.errors import BigQueryError, ConfigError, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger.publications import Publication
from mirrorlake.models.published import PublishedModel
from mirrorlake.operations.bigquery.choose import LoadChoice, choose
from mirrorlake.operations.bigquery.form import PublishedForm, form_of
from mirrorlake.operations.bigquery.in_place import (
    SAID,
    fields_in_place,
    name_in_catalog,
    read_in_place,
)
from mirrorlake.operations.bigquery.settle import (
    base_of,
    load_job,
    publications_there,
    settle,
)
from mirrorlake.operations.bigquery.stage import StagedFiles, staged_as, upload_rows
from mirrorlake.operations.bigquery.tables import (
    MirroredContract,
    PublishedContract,
    lake_table_of,
    terms_of,
)
from mirrorlake.operations.bigquery.views import ViewState, renew_views, renew_views_in_place
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishedThere:
    """What became of one table.

    Attributes:
        state: ``unchanged`` (BigQuery has what the lake shows), ``success``, ``pending`` (its jobs
            run; a later sync settles them), ``in place`` (BigQuery reads the lake's table: nothing
            is loaded) or ``not loaded`` (the lake has no such table yet).
        how: ``all rows`` or ``changes``; None where nothing was loaded.
        why: why so, in words.
        loaded: rows of the files; rows: of the table with them; bytes: of the files.
        version: the lake's version of the table.
        job: what the ids of the jobs begin with.
        views: ``clean``, ``full`` → ``made``, ``unchanged`` or ``none`` (hashes lack).
    """

    table: str
    state: str
    how: str | None = None
    why: str = ""
    loaded: int | None = None
    rows: int | None = None
    bytes: int | None = None
    version: int | None = None
    job: str | None = None
    views: Mapping[str, ViewState] = field(default_factory=dict[str, ViewState])


@dataclass(frozen=True)
class PublishTried:
    """A table that was published, or why it was not."""

    contract: PublishedContract
    result: PublishedThere | None = None
    error: MirrorlakeError | None = None


def publish_tables(
    workspace: Workspace, contracts: Sequence[PublishedContract], wait: timedelta | None = None
) -> Iterator[PublishTried]:
    """Publish tables one after the other; one that fails does not stop the others.

    Args:
        wait: how long each table's jobs are waited for; as the contract file says by default.

    """
    try:
        bigquery = open_for(workspace, contracts)
    except MirrorlakeError as error:
        yield from (PublishTried(contract, error=error) for contract in contracts)
        return
    for contract in contracts:
        try:
            yield PublishTried(contract, publish_table(workspace, contract, bigquery, wait))
        except MirrorlakeError as error:
            yield PublishTried(contract, error=error)


def open_for(workspace: Workspace, contracts: Sequence[PublishedContract]) -> BigQuery:
    """The clients for some tables.

    Raises:
        ConfigError: one of them is published in the lake alone.
        BigQueryError: nobody is logged in, or Google's libraries are not installed.
    """
    config = workspace.config.bigquery
    for contract in contracts:
        if config is None or not contract.in_bigquery:
            raise ConfigError(
                f"table {contract.name} is published in the lake alone",
                next_step="Write publish: [lake, bigquery] in its contract",
                table=contract.name,
            )
    if config is None:
        raise ConfigError(f"{workspace.config.path} has no section bigquery")
    return open_bigquery(config)


def publish_table(
    workspace: Workspace,
    contract: PublishedContract,
    bigquery: BigQuery,
    wait: timedelta | None = None,
) -> PublishedThere:
    """Bring BigQuery to the version of deduped, or of a model, that the lake shows.

    Jobs of an earlier run are settled first. The table there is changed by one job at the end, or
    not at all.

    Raises:
        TypeRefused: a column can't be there exactly; nothing was loaded.
        BigQueryError: the load failed, or Google can't be reached; the next call begins again, or
            goes on with jobs that run.
        LakeError: the lake can't be read.
        LeaseHeld: another run holds the table.
    """
    patience = (bigquery.config.wait if wait is None else wait).total_seconds()
    with workspace.leased(contract) as leased:
        return again_while(
            lambda error: isinstance(error, BigQueryError) and passes(error.message),
            lambda: _publish(leased, contract, bigquery, patience),
        )


def _publish(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery, patience: float
) -> PublishedThere:
    if (in_place := read_in_place(contract)) is not None:
        settle_newest(workspace, contract, bigquery, patience)
        return _in_place(workspace, in_place, bigquery)
    target = table_there(bigquery.config.project, lake_table_of(contract))
    ledger = workspace.ledger
    before = ledger.newest_publications().get(contract.name)
    newest = settle_newest(workspace, contract, bigquery, patience)
    shown = _shown(workspace, contract)
    if shown is None:
        return PublishedThere(contract.name, "not loaded")
    there = bigquery.fields_of(target)
    views = renew_views(workspace, contract, shown.table, bigquery, target, there)
    if newest is not None and newest.state == "pending":
        return _result(newest, views)
    known = publications_there(ledger, contract.name, target)
    if there is not None and known and _was_loaded(shown, known[0]):
        unchanged = known[0] == before
        return _unchanged(known[0], views) if unchanged else _result(known[0], views)
    begun = _begin(workspace, bigquery, target, shown, known, there)
    ended = settle(bigquery, ledger, target, begun, patience)
    if ended.state == "errored":
        words = ended.error or ""
        step = "The lake is as it was, and the next sync tries again"
        raise BigQueryError(
            f"table {contract.name} was not loaded into BigQuery: {words}",
            table=contract.name,
            next_step=QUOTA_STEP if is_used_up(words) else step,
            retryable=passes(words),
        )
    if ended.state == "success":
        there = bigquery.fields_of(target)
        again = renew_views(workspace, contract, shown.table, bigquery, target, there)
        made: dict[str, ViewState] = {k: "made" for k, state in views.items() if state == "made"}
        views = again | made
    return _result(ended, views)


def _in_place(
    workspace: Workspace, contract: MirroredContract, bigquery: BigQuery
) -> PublishedThere:
    """See to the views over a table that BigQuery reads in the lake."""
    source = name_in_catalog(workspace.config, contract)
    table = workspace.lake.load(lake_table_of(contract))
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None:
        return PublishedThere(contract.name, "not loaded")
    fields = fields_in_place(contract, table)
    views = renew_views_in_place(workspace, contract, table, bigquery, source, fields)
    version = snapshot.snapshot_id
    return PublishedThere(contract.name, "in place", why=SAID, version=version, views=views)


def settle_newest(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery, patience: float = 0.0
) -> Publication | None:
    """The newest publication of a table, as far as its jobs are now; None where there is none.

    Raises:
        BigQueryError: BigQuery can't be asked.
    """
    newest = workspace.ledger.newest_publications().get(contract.name)
    if newest is None or newest.state != "pending":
        return newest
    target = table_there(bigquery.config.project, lake_table_of(contract))
    return settle(bigquery, workspace.ledger, target, newest, patience)


@dataclass(frozen=True)
class _Shown:
    """A table as the lake shows it now, and what of it goes to BigQuery."""

    contract: PublishedContract
    table: LakeTable
    version: int
    form: PublishedForm


def _shown(workspace: Workspace, contract: PublishedContract) -> _Shown | None:
    table = workspace.lake.load(lake_table_of(contract))
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None:
        return None
    form = form_of(terms_of(contract, table), table, workspace.config.privacy.hash_key)
    return _Shown(contract, table, snapshot.snapshot_id, form)


def _was_loaded(shown: _Shown, newest: Publication) -> bool:
    """Whether what the lake shows was loaded, in the form that it is to have now."""
    loaded = (newest.state, newest.version, PublishedForm.from_json(newest.form))
    return loaded == ("success", shown.version, shown.form)


def _begin(
    workspace: Workspace,
    bigquery: BigQuery,
    target: BigQueryTable,
    shown: _Shown,
    known: Sequence[Publication],
    there: list[FieldJson] | None,
) -> Publication:
    """Submit what brings BigQuery to the version that the lake shows."""
    views = (
        ()
        if isinstance(shown.contract, PublishedModel)
        else bigquery.config.views_datasets(target.dataset)
    )
    bigquery.refuse_missing([target.dataset, *views])
    ledger, name = workspace.ledger, shown.contract.name
    base = base_of(bigquery, known)
    rows = workspace.lake.count_rows(lake_table_of(shown.contract)) or 0
    choice = choose(workspace.lake, shown.table, rows, shown.form, base, there)
    begun = ledger.begin_publication(
        publication_stem(target, shown.version),
        name,
        shown.version,
        choice.since,
        choice.why,
        shown.form.to_json(),
    )
    failpoint("bigquery.begun")
    if choice.same:
        ledger.publication_staged(begun.id, 0, rows, 0)
        return ledger.publication_ended(begun.id)
    return _submit(workspace, bigquery, target, shown, choice, begun, rows)


def _submit(
    workspace: Workspace,
    bigquery: BigQuery,
    target: BigQueryTable,
    shown: _Shown,
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
    begun = workspace.ledger.publication_staged(begun.id, staged.rows, rows, staged.bytes, days)
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


def _unchanged(newest: Publication, views: dict[str, ViewState]) -> PublishedThere:
    return PublishedThere(
        newest.table,
        "unchanged",
        rows=newest.rows,
        version=newest.version,
        job=newest.id,
        views=views,
    )


def _result(publication: Publication, views: dict[str, ViewState]) -> PublishedThere:
    return PublishedThere(
        table=publication.table,
        state=publication.state,
        how="all rows" if publication.since is None else "changes",
        why=publication.why,
        loaded=publication.staged,
        rows=publication.rows,
        bytes=publication.bytes,
        version=publication.version,
        job=publication.id,
        views=views,
    )
