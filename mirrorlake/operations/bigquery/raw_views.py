"""The views over raw in BigQuery: made where they are not what they must be.

Readers have views over the view of current rows, which is over the view of all versions, which is
over raw's tables. One that gets columns is made from below, one that loses some from above, so that
no view ever names a column that is not there.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.names import BigQueryTable, in_dataset, table_there
from mirrorlake.destinations.bigquery.over_raw import over_tables, union_of
from mirrorlake.destinations.bigquery.types import FieldJson
from mirrorlake.errors import BigQueryError
from mirrorlake.failpoints import failpoint
from mirrorlake.operations.bigquery.form import PublishedForm
from mirrorlake.operations.bigquery.raw_look import RawShown, RawTexts, texts_of
from mirrorlake.operations.bigquery.settle import publications_there
from mirrorlake.operations.bigquery.views import ViewState, keep_view, renew_views
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

Fields = Mapping[str, list[FieldJson]]
"""The columns of raw's tables in BigQuery, by the table's name."""


def fields_there(bigquery: BigQuery, shown: RawShown) -> dict[str, list[FieldJson]]:
    """The columns of raw's tables that are in BigQuery."""
    found: dict[str, list[FieldJson]] = {}
    for one in shown.versions:
        fields = bigquery.fields_of(table_there(bigquery.config.project, one.identifier))
        if fields is not None:
            found[one.identifier.name] = fields
    return found


def narrow_views(
    workspace: Workspace, shown: RawShown, bigquery: BigQuery, there: Fields
) -> dict[str, ViewState]:
    """See that the views that are there show no more than they may, before anything is loaded, and
    name no column that is about to go; which → what became of it.

    Raises:
        BigQueryError: a view can't be made. One that shows what a rule hides does not stay.
    """
    target = _target(bigquery, shown)
    found = bigquery.find(target)
    if found is None or not found.sql:
        fields = None if found is None else found.fields
        parts = (workspace, shown.contract, shown.view.table, bigquery, target)
        return renew_views(*parts, fields)
    over = _unified(bigquery, shown)
    below = bigquery.find(over)
    kept = {one.identifier.name: {*one.form.names} for one in shown.versions}
    both = {
        name: [field["name"] for field in fields if field["name"] in kept[name]]
        for name, fields in there.items()
    }
    if below is None or not both:
        # They show nothing now, and by the rules of before when what is under them is there again.
        return drop_views_of(bigquery, target)
    texts = texts_of(shown, both, bigquery.config.project, below.columns)
    fields = [field for field in found.fields if field["name"] in texts.shown]
    views = renew_views(workspace, shown.contract, shown.view.table, bigquery, target, fields)
    views["current rows"] = keep_view(bigquery, over, target, (texts.shown, texts.current))
    views["all versions"] = _keep_unified(workspace, bigquery, shown, texts)
    return views


def drop_views_of(bigquery: BigQuery, target: BigQueryTable) -> dict[str, ViewState]:
    """Drop the views for readers that are over the view of current rows; which → none."""
    for kind in bigquery.config.views:
        bigquery.drop(in_dataset(target, bigquery.config.views_dataset(target.dataset, kind)))
    return dict.fromkeys(bigquery.config.views, "none")


def make_views_over_raw(
    workspace: Workspace, shown: RawShown, bigquery: BigQuery, there: Fields
) -> dict[str, ViewState]:
    """See that all views are there, over what was loaded; which → what became of it.

    A table in the place of the view of current rows that Mirrorlake loaded is dropped.

    Raises:
        BigQueryError: a view can't be made, or a table is in its place.
    """
    names = {name: [field["name"] for field in fields] for name, fields in there.items()}
    texts = texts_of(shown, names, bigquery.config.project)
    states: dict[str, ViewState] = {}
    states["all versions"] = _keep_unified(workspace, bigquery, shown, texts)
    failpoint("bigquery.raw_unified")
    target = _target(bigquery, shown)
    _drop_table(workspace, bigquery, shown, target)
    over = _unified(bigquery, shown)
    states["current rows"] = keep_view(bigquery, over, target, (texts.shown, texts.current))
    fields = bigquery.fields_of(target)
    parts = (workspace, shown.contract, shown.view.table, bigquery, target)
    states |= renew_views(*parts, fields)
    failpoint("bigquery.raw_viewed")
    return states


def has_table(workspace: Workspace, bigquery: BigQuery, shown: RawShown) -> bool:
    """Whether the table that deduped was loaded into is where the view of current rows is to be.

    Raises:
        BigQueryError: it is a table that Mirrorlake did not load.
    """
    target, name = _target(bigquery, shown), shown.contract.name
    found = bigquery.find(target)
    if found is None or found.sql:
        return False
    known = publications_there(workspace.ledger, name, target)
    newest = next((one for one in known if one.state == "success"), None)
    if newest is None or PublishedForm.from_json(newest.form).raw:
        raise BigQueryError(
            f"{target} is a table that Mirrorlake did not load, where the view of current rows is"
            " to be",
            table=name,
            next_step=f"Drop it, if nobody needs it: bq rm {target.project}:{target.dataset}."
            f"{target.name}",
        )
    return True


def _drop_table(
    workspace: Workspace, bigquery: BigQuery, shown: RawShown, target: BigQueryTable
) -> None:
    """Drop the table that deduped was loaded into: BigQuery makes no view in a table's place."""
    if not has_table(workspace, bigquery, shown):
        return
    logger.warning("table %s becomes a view: it is dropped, and the view is made", target)
    bigquery.drop(target)
    failpoint("bigquery.raw_dropped")


def _keep_unified(
    workspace: Workspace, bigquery: BigQuery, shown: RawShown, texts: RawTexts
) -> ViewState:
    """See that the view over all versions is what it must be, and the views that it is over, where
    one text would be too long."""
    project, unified = bigquery.config.project, _unified(bigquery, shown)
    parts: list[BigQueryTable] = []
    selects = [*texts.selects[0]]
    if len(texts.selects) > 1:
        selects = []
        listed = ", ".join(map(as_sql_identifier, texts.columns))
        for some in texts.selects:
            sql = union_of(some)
            digest = hashlib.sha256(sql.encode()).hexdigest()[:10]
            name = Identifier(shown.unified.namespace, f"{unified.name}__part_{digest}")
            part = BigQueryTable(project, *name.path)
            # Before it is made: what a run that dies leaves is known.
            workspace.ledger.record_definition(_made(part), sql)
            keep_view(bigquery, unified, part, (texts.columns, sql))
            parts.append(part)
            selects.append(over_tables(f"SELECT {listed} FROM {name.sql}", project))  # noqa: S608
    target = _target(bigquery, shown)
    state = keep_view(bigquery, target, unified, (texts.columns, union_of(selects)))
    for known in workspace.ledger.definitions(_made(unified) + "__part_"):
        old = BigQueryTable(project, unified.dataset, known.rpartition(".")[2])
        if old not in parts:
            bigquery.drop(old)
            workspace.ledger.forget_definition(known)
    return state


def _made(view: BigQueryTable) -> str:
    """Under which name the ledger keeps that a view was made."""
    return f"there {view}"


def _target(bigquery: BigQuery, shown: RawShown) -> BigQueryTable:
    return table_there(bigquery.config.project, shown.view.identifier)


def _unified(bigquery: BigQuery, shown: RawShown) -> BigQueryTable:
    return table_there(bigquery.config.project, shown.unified)
