"""Publish: what the lake shows of a table, in BigQuery."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.api.names import bigquery_table
from mirrorlake.bigquery.ledger import Publication, Publications, PublicationsRefused
from mirrorlake.bigquery.loads.begin_load import begin_load, refuse_failed, was_loaded
from mirrorlake.bigquery.loads.named_views import renew_named_views
from mirrorlake.bigquery.loads.open_clients import open_for
from mirrorlake.bigquery.loads.published_contracts import PublishedContract, lake_table_of, terms_of
from mirrorlake.bigquery.loads.settle import publications_into, settle, settle_newest
from mirrorlake.bigquery.loads.table_form import ShownTable, form_of
from mirrorlake.bigquery.loads.views import ViewState, renew_views
from mirrorlake.config import Config
from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.errors import BigQueryError, LedgerError, MirrorlakeError
from mirrorlake.models.bigquery.published import PublishedModel
from mirrorlake.operations.other_writers.moved_layers import refuse_moved
from mirrorlake.runtime.google.clients import again_while
from mirrorlake.runtime.google.quotas import passes
from mirrorlake.runtime.outcomes import Outcomes
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PublishOutcome:
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


def publish_all(
    config: Config, contracts: Sequence[PublishedContract], wait: timedelta | None = None
) -> Outcomes[PublishOutcome]:
    """Publish tables one after the other. One that fails does not stop the others.

    Args:
        wait: how long each table's jobs are waited for; as the contract file says by default.
    """
    done = Outcomes[PublishOutcome]()
    if not contracts:
        return done
    with Workspace.open(config) as workspace:
        try:
            bigquery = open_for(workspace, contracts)
        except MirrorlakeError as error:
            for contract in contracts:
                PublicationsRefused(workspace.ledger).note(contract.name, error)
                done.failures.append((contract.name, error))
            return done
        for contract in contracts:
            parts = (workspace, contract, bigquery, wait)
            done.attempt(contract.name, partial(publish_table, *parts))
    return done


def publish_table(
    workspace: Workspace,
    contract: PublishedContract,
    bigquery: BigQuery,
    wait: timedelta | None = None,
) -> PublishOutcome:
    """Bring BigQuery to the version of deduped, or of a model, that the lake shows.

    Jobs of an earlier run are settled first. BigQuery's table is changed by one job at the end, or
    not at all.

    Raises:
        TypeRefused: BigQuery can't have a column exactly; nothing was loaded.
        BigQueryError: the load failed, or Google can't be reached; the next call begins again, or
            continues jobs that run.
        LakeError: the lake can't be read.
        LeaseHeld: another run holds the table.
    """
    with workspace.leased(contract) as leased:
        return publish_leased(leased, contract, bigquery, wait)


def publish_leased(
    leased: Workspace,
    contract: PublishedContract,
    bigquery: BigQuery,
    wait: timedelta | None = None,
) -> PublishOutcome:
    """The same, of a table whose lease the caller holds."""
    patience = (bigquery.config.wait if wait is None else wait).total_seconds()
    if isinstance(contract, TableContract | TenantTable):
        refuse_moved(leased, contract)
    refused = PublicationsRefused(leased.ledger)
    try:
        done = again_while(
            lambda error: isinstance(error, BigQueryError) and passes(error.message),
            lambda: _publish(leased, contract, bigquery, patience),
        )
    except LedgerError:
        raise
    except MirrorlakeError as error:
        refused.note(contract.name, error)
        raise
    refused.note(contract.name, None)
    return done


def _publish(
    workspace: Workspace, contract: PublishedContract, bigquery: BigQuery, patience: float
) -> PublishOutcome:
    target = bigquery_table(bigquery.config.project, lake_table_of(contract))
    ledger = workspace.ledger
    before = Publications(ledger).newest().get(contract.name)
    newest = settle_newest(workspace, contract, bigquery, patience)
    shown = _shown(workspace, contract)
    if shown is None:
        return PublishOutcome(contract.name, "not loaded")
    bigquery_fields = bigquery.fields_of(target)
    if isinstance(contract, TableContract):
        renew_named_views(workspace, contract, bigquery)  # before: they never show more
    views = renew_views(workspace, contract, shown.table, bigquery, target, bigquery_fields)
    if newest is not None and newest.state == "pending":
        return _result(newest, views)
    known = publications_into(ledger, contract.name, target)
    if bigquery_fields is not None and known and was_loaded(shown, known[0]):
        unchanged = known[0] == before
        return _unchanged(known[0], views) if unchanged else _result(known[0], views)
    datasets = [target.dataset]
    if not isinstance(contract, PublishedModel):
        datasets += bigquery.config.views_datasets(target.dataset)
    begun = begin_load(workspace, bigquery, target, shown, known, bigquery_fields, datasets)
    ended = settle(bigquery, ledger, target, begun, patience)
    refuse_failed(contract.name, ended)
    if ended.state == "success":
        bigquery_fields = bigquery.fields_of(target)
        again = renew_views(workspace, contract, shown.table, bigquery, target, bigquery_fields)
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


def _unchanged(newest: Publication, views: Mapping[str, ViewState]) -> PublishOutcome:
    return PublishOutcome(
        newest.table,
        "unchanged",
        rows=newest.rows,
        version=newest.version,
        job=newest.id,
        views=views,
    )


def _result(publication: Publication, views: Mapping[str, ViewState]) -> PublishOutcome:
    return PublishOutcome(
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
