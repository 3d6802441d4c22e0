"""Publish: what the lake shows of a table, in BigQuery."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.google import again_while
from mirrorlake.destinations.bigquery.names import table_there
from mirrorlake.destinations.bigquery.quotas import passes
from mirrorlake.errors import BigQueryError, MirrorlakeError
from mirrorlake.ledger.publications import Publication
from mirrorlake.models.published import PublishedModel
from mirrorlake.operations.bigquery.bring import begin_load, refuse_failed, was_loaded
from mirrorlake.operations.bigquery.form import ShownTable, form_of
from mirrorlake.operations.bigquery.opened import open_for
from mirrorlake.operations.bigquery.settle import publications_there, settle, settle_newest
from mirrorlake.operations.bigquery.tables import PublishedContract, lake_table_of, terms_of
from mirrorlake.operations.bigquery.views import ViewState, renew_views
from mirrorlake.operations.moved_layers import refuse_moved
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishedThere:
    """What became of one table.

    Attributes:
        state: ``unchanged`` (BigQuery has what the lake shows), ``success``, ``pending`` (its jobs
            run; a later sync settles them) or ``not loaded`` (the lake has no such table yet).
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
            continues jobs that run.
        LakeError: the lake can't be read.
        LeaseHeld: another run holds the table.
    """
    patience = (bigquery.config.wait if wait is None else wait).total_seconds()
    with workspace.leased(contract) as leased:
        if isinstance(contract, TableContract | TenantTable):
            refuse_moved(leased, contract)
        return again_while(
            lambda error: isinstance(error, BigQueryError) and passes(error.message),
            lambda: _publish(leased, contract, bigquery, patience),
        )


def _publish(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery, patience: float
) -> PublishedThere:
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
    if there is not None and known and was_loaded(shown, known[0]):
        unchanged = known[0] == before
        return _unchanged(known[0], views) if unchanged else _result(known[0], views)
    datasets = [target.dataset]
    if not isinstance(contract, PublishedModel):
        datasets += bigquery.config.views_datasets(target.dataset)
    begun = begin_load(workspace, bigquery, target, shown, known, there, datasets)
    ended = settle(bigquery, ledger, target, begun, patience)
    refuse_failed(contract.name, ended)
    if ended.state == "success":
        there = bigquery.fields_of(target)
        again = renew_views(workspace, contract, shown.table, bigquery, target, there)
        made: dict[str, ViewState] = {k: "made" for k, state in views.items() if state == "made"}
        views = again | made
    return _result(ended, views)


def _shown(workspace: Workspace, contract: PublishedContract) -> ShownTable | None:
    identifier = lake_table_of(contract)
    table = workspace.lake.load(identifier)
    snapshot = table.current_snapshot() if table is not None else None
    if table is None or snapshot is None:
        return None
    form = form_of(terms_of(contract, table), table, workspace.config.privacy.hash_key)
    return ShownTable(contract.name, identifier, table, snapshot.snapshot_id, form)


def _unchanged(newest: Publication, views: Mapping[str, ViewState]) -> PublishedThere:
    return PublishedThere(
        newest.table,
        "unchanged",
        rows=newest.rows,
        version=newest.version,
        job=newest.id,
        views=views,
    )


def _result(publication: Publication, views: Mapping[str, ViewState]) -> PublishedThere:
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
