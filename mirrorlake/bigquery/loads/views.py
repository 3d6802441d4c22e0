"""Views of a table in BigQuery, for those who may read it: made again where something changed.

They are of what BigQuery has now, by the rules that the contract has now: before a load, so that a
new rule holds and no view names a column that goes, and after it, for columns that came.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.api.names import in_dataset
from mirrorlake.bigquery.api.types import FieldJson
from mirrorlake.bigquery.api.views import as_bigquery
from mirrorlake.bigquery.config import ViewKind
from mirrorlake.bigquery.loads.published_contracts import (
    PublishedContract,
    held_of_clean,
)
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import as_sql_identifier
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.errors import BigQueryError
from mirrorlake.merge.statements import view_sql
from mirrorlake.models.bigquery.published import PublishedModel
from mirrorlake.runtime.google.tables import BigQueryTable
from mirrorlake.serving.clean_select import clean_select
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.workspace import Workspace

ViewState: TypeAlias = Literal["made", "unchanged", "none"]


ViewForm: TypeAlias = tuple[tuple[str, ...], str]
"""The names of a view's columns, and its text."""


def renew_views(
    workspace: Workspace,
    contract: PublishedContract,
    table: LakeTable,
    bigquery: BigQuery,
    target: BigQueryTable,
    bigquery_fields: Sequence[FieldJson] | None,
) -> dict[str, ViewState]:
    """See that each view of a table is what it must be; which → what became of it.

    Args:
        bigquery_fields: the table's columns in BigQuery; None: it has no such table yet, and no
            view of it. A model, which is made of what clean shows, has none either.

    Raises:
        BigQueryError: a view can't be made. One that shows what a rule hides does not stay.
    """
    if bigquery_fields is None or isinstance(contract, PublishedModel):
        return {}
    kinds = bigquery.config.views
    wanted = wanted_views(workspace, contract, table, kinds, target, bigquery_fields)
    return keep_views(bigquery, target, wanted)


def wanted_views(
    workspace: Workspace,
    contract: Mirrored,
    table: LakeTable,
    kinds: Iterable[ViewKind],
    target: BigQueryTable,
    bigquery_fields: Sequence[FieldJson],
    hidden: Collection[str] = (),
) -> dict[ViewKind, ViewForm | None]:
    """The views of a table as they must be, in BigQuery's SQL; None: there may be none.

    Args:
        bigquery_fields: the table's columns in BigQuery.
        hidden: columns that clean leaves out, whatever its rules say.
    """
    types: Mapping[str, str] = {field["name"]: field["type"] for field in bigquery_fields}
    found: dict[ViewKind, ViewForm | None] = {}
    for kind in kinds:
        wanted = _wanted(workspace, contract, table, kind, bigquery_fields, hidden)
        if wanted is not None:
            names, select = wanted
            wanted = names, as_bigquery(select, target, types)
        found[kind] = wanted
    return found


def keep_views(
    bigquery: BigQuery, target: BigQueryTable, wanted: Mapping[ViewKind, ViewForm | None]
) -> dict[str, ViewState]:
    """See that views of a table are what they must be; which → what became of it.

    Raises:
        BigQueryError: one can't be made. One that shows what a rule hides does not stay.
    """
    return {
        kind: keep_view(bigquery, target, _view_of(bigquery, target, kind), form)
        for kind, form in wanted.items()
    }


def _view_of(bigquery: BigQuery, target: BigQueryTable, kind: ViewKind) -> BigQueryTable:
    return in_dataset(target, bigquery.config.views_dataset(target.dataset, kind))


def _wanted(
    workspace: Workspace,
    contract: Mirrored,
    table: LakeTable,
    kind: ViewKind,
    bigquery_fields: Sequence[FieldJson],
    hidden: Collection[str],
) -> ViewForm | None:
    """A view as it must be, in Spark's SQL; None: there may be none, until hashes are loaded."""
    names = [field["name"] for field in bigquery_fields]
    if kind == "full":
        # Hashes are clean's.
        fields = [field.name for field in table.schema().fields]
        columns = [(name, as_sql_identifier(name)) for name in fields if name in names]
        return tuple(name for name, _ in columns), view_sql(columns, deduped_of(contract))
    held = held_of_clean(workspace, contract, [field.name for field in table.schema().fields])
    clean = clean_select(contract, table.schema(), {*held, *hidden}, names)
    if clean.lacking or not clean.columns:
        return None
    return tuple(name for name, _ in clean.columns), clean.sql


def keep_view(
    bigquery: BigQuery,
    target: BigQueryTable,
    view: BigQueryTable,
    wanted: ViewForm | None,
) -> ViewState:
    """See that one view is what it must be; what became of it.

    Args:
        target: the table that it is of.
        wanted: in BigQuery's SQL; None: there may be none.

    Raises:
        BigQueryError: it can't be made. One that shows what a rule hides does not stay.
    """
    found = bigquery.find(view)
    if found is not None and not found.sql:
        raise BigQueryError(
            f"{view} is a table, where a view of {target} is to be",
            next_step="Take it away: what is in a dataset of views is Mirrorlake's",
        )
    if wanted is None:
        if found is not None:
            bigquery.drop(view)
        return "none"
    names, sql = wanted
    if found is not None and (found.sql, found.columns) == (sql, names):
        return "unchanged"
    bigquery.refuse_missing_dataset(view.dataset)
    try:
        bigquery.write_view(view, sql)
    except BigQueryError as error:
        if found is not None and not error.retryable:
            # No view rather than one that may show what a rule hides.
            bigquery.drop(view)
        raise
    return "made"
