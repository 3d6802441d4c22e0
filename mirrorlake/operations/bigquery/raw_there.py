"""Publish a table whose raw is loaded: its raw tables, one publication each, and views over them.

The publication of the table itself is the last of them: it is there when all raw tables are there
as the lake shows them, and the views are made. It names the version of deduped whose rows the view
of current rows then has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.names import BigQueryTable, publication_stem, table_there
from mirrorlake.errors import ConfigError, TypeRefused
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger.publications import Publication, raw_publication
from mirrorlake.operations.bigquery.bring import bring, refuse_failed, was_loaded
from mirrorlake.operations.bigquery.form import PublishedForm, ShownTable
from mirrorlake.operations.bigquery.raw_look import RawShown, look_at_raw
from mirrorlake.operations.bigquery.raw_views import (
    Fields,
    fields_there,
    has_table,
    make_views_over_raw,
    narrow_views,
)
from mirrorlake.operations.bigquery.settle import publications_there, settle
from mirrorlake.operations.bigquery.tables import PublishedContract, lake_table_of
from mirrorlake.operations.bigquery.views import ViewState, renew_views
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class RawPublished:
    """What became of a table whose raw is loaded.

    Attributes:
        publication: its newest; None: the lake has nothing of it yet.
        views: which → what became of it.
        moved: whether anything was loaded or made.
    """

    publication: Publication | None
    views: Mapping[str, ViewState] = field(default_factory=dict[str, ViewState])
    moved: bool = True


def publish_raw(
    workspace: Workspace,
    contract: TableContract,
    bigquery: BigQuery,
    newest: Publication | None,
    patience: float,
) -> RawPublished:
    """Bring BigQuery to what the lake shows of raw, and its views to what they must be.

    Args:
        newest: the table's newest publication, settled.

    Raises:
        BigQueryError: a load failed, or Google can't be reached.
        LakeError: the lake can't be read, or raw has loads that are not folded.
        TypeRefused, ConfigError: what would not be exact there; nothing was loaded.
    """
    try:
        shown = look_at_raw(workspace, contract)
    except (TypeRefused, ConfigError):
        # What can't be loaded must not keep a stricter rule from holding for what was.
        _renew_readers(workspace, contract, bigquery)
        raise
    if shown is None:
        return RawPublished(None)
    ledger, project = workspace.ledger, bigquery.config.project
    target = table_there(project, shown.view.identifier)
    has_table(workspace, bigquery, shown)
    there = fields_there(bigquery, shown)
    views = narrow_views(workspace, shown, bigquery, there)
    if newest is not None and newest.state == "pending":
        return RawPublished(newest, views)
    known = publications_there(ledger, contract.name, target)
    todo = _not_loaded(workspace, shown, bigquery, there)
    if not todo and known and was_loaded(shown.view, known[0]):
        made = make_views_over_raw(workspace, shown, bigquery, there)
        return RawPublished(known[0], _both(views, made), moved=False)
    settings = bigquery.config
    datasets = [contract.namespaces.raw, target.dataset, *settings.views_datasets(target.dataset)]
    bigquery.refuse_missing(datasets)
    begun = ledger.begin_publication(
        publication_stem(target, shown.view.version),
        contract.name,
        shown.view.version,
        None,
        "its raw tables are loaded",
        shown.view.form.to_json(),
    )
    failpoint("bigquery.raw_begun")
    done = _bring_all(workspace, bigquery, todo, patience)
    begun = _recorded(workspace, shown, begun, known, done)
    if done and done[-1].state != "success":
        return RawPublished(_ended_as(workspace, begun, done[-1]), views)
    ended, made = _complete(workspace, shown, bigquery, begun)
    return RawPublished(ended, _both(views, made))


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
    if PublishedForm.from_json(newest.form).raw:
        return settle_raw(workspace, contract, bigquery, newest, patience)
    target = table_there(bigquery.config.project, lake_table_of(contract))
    return settle(bigquery, workspace.ledger, target, newest, patience)


def settle_raw(
    workspace: Workspace,
    contract: object,
    bigquery: BigQuery,
    publication: Publication,
    patience: float,
) -> Publication:
    """What became of a publication of views over raw whose run ended: its tables' jobs are taken as
    far as they are, and if all tables are loaded, its views are made.

    Args:
        contract: the table's, as the file has it now.

    Raises:
        BigQueryError: BigQuery can't be asked, or refuses a view.
    """
    ledger, form = workspace.ledger, PublishedForm.from_json(publication.form)
    if not isinstance(contract, TableContract) or not contract.raw_in_bigquery:
        words = "the contract no longer says load: raw"
        return ledger.publication_ended(publication.id, words)
    newest = ledger.newest_publications()
    for name, _ in form.raw:
        one = newest.get(raw_publication(contract.name, name))
        if one is not None and one.state == "pending":
            target = BigQueryTable(bigquery.config.project, contract.namespaces.raw, name)
            one = settle(bigquery, ledger, target, one, patience)
            if one.state == "pending":
                return publication
    shown = look_at_raw(workspace, contract)
    if shown is None or (shown.view.version, shown.view.form) != (publication.version, form):
        words = "the lake, or the contract, has moved on since it began"
        return ledger.publication_ended(publication.id, words)
    if _not_loaded(workspace, shown, bigquery, fields_there(bigquery, shown)):
        words = "the run that began it ended before all of its raw tables were loaded"
        return ledger.publication_ended(publication.id, words)
    ended, _ = _complete(workspace, shown, bigquery, publication)
    return ended


def _renew_readers(workspace: Workspace, contract: TableContract, bigquery: BigQuery) -> None:
    """See that the views for readers are by the rules of now, over what is there."""
    deduped = workspace.lake.load(deduped_of(contract))
    target = table_there(bigquery.config.project, deduped_of(contract))
    if deduped is not None:
        renew_views(workspace, contract, deduped, bigquery, target, bigquery.fields_of(target))


def _not_loaded(
    workspace: Workspace, shown: RawShown, bigquery: BigQuery, there: Fields
) -> list[ShownTable]:
    """The raw tables that BigQuery does not have as the lake shows them, the newest version first:
    a reload's rows come before those go that they replace."""
    found: list[ShownTable] = []
    for one in reversed(shown.versions):
        target = table_there(bigquery.config.project, one.identifier)
        known = publications_there(workspace.ledger, one.name, target)
        if one.identifier.name not in there or not known or not was_loaded(one, known[0]):
            found.append(one)
    return found


def _bring_all(
    workspace: Workspace, bigquery: BigQuery, todo: Sequence[ShownTable], patience: float
) -> list[Publication]:
    """Load raw tables one after the other, as far as they get: one that fails, or whose jobs run,
    is the last."""
    done: list[Publication] = []
    for one in todo:
        target = table_there(bigquery.config.project, one.identifier)
        done.append(bring(workspace, bigquery, target, one, patience))
        if done[-1].state != "success":
            break
    return done


def _recorded(
    workspace: Workspace,
    shown: RawShown,
    begun: Publication,
    known: Sequence[Publication],
    done: Sequence[Publication],
) -> Publication:
    """The publication with what its raw tables' are: their rows, and why they were loaded so."""
    before = next((one.version for one in known if one.state == "success"), None)
    since = None if any(one.since is None for one in done) else before
    rows = sum(workspace.lake.count_rows(one.identifier) or 0 for one in shown.versions)
    names = {one.name: one.identifier.name for one in shown.versions}
    why = "; ".join(f"{names[one.table]}: {one.why}" for one in done)
    count = f"{len(done):,} of {len(shown.versions):,} raw tables"
    words = f"{count}: {why}" if done else "no row of raw changed"
    staged, size = (
        sum(one.staged or 0 for one in done),
        sum(one.bytes or 0 for one in done),
    )
    workspace.ledger.publication_staged(begun.id, staged, rows, size)
    return workspace.ledger.publication_made_of(begun.id, since, words, [one.id for one in done])


def _ended_as(workspace: Workspace, begun: Publication, last: Publication) -> Publication:
    """The publication whose last raw table was not loaded: it failed, or its jobs run.

    Raises:
        BigQueryError: it failed.
    """
    if last.state == "errored":
        workspace.ledger.publication_ended(begun.id, last.error)
    refuse_failed(begun.table, last)
    return begun


def _complete(
    workspace: Workspace, shown: RawShown, bigquery: BigQuery, begun: Publication
) -> tuple[Publication, dict[str, ViewState]]:
    failpoint("bigquery.raw_loaded")
    there = fields_there(bigquery, shown)
    made = make_views_over_raw(workspace, shown, bigquery, there)
    return workspace.ledger.publication_ended(begun.id), made


def _both(before: Mapping[str, ViewState], after: Mapping[str, ViewState]) -> dict[str, ViewState]:
    """What became of views that were looked at twice."""
    made: dict[str, ViewState] = {k: "made" for k, state in before.items() if state == "made"}
    return {**after, **made}
