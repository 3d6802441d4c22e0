"""Views of versions that are in BigQuery under a name: by the rules of now, or away.

A column is known by its field id in the lake. One that has another name by now, or is no more, is
in no clean view; a version with a column that may not be in BigQuery any more is taken away.

What belongs here: what is seen of such a version, and how it goes. What doesn't: how it comes
(`mirrorlake.bigquery.loads.named`).
"""

from __future__ import annotations

import json
import logging
from dataclasses import replace

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.api.names import in_dataset
from mirrorlake.bigquery.loads.published_contracts import lake_table_of
from mirrorlake.bigquery.loads.settle import publications_into, settle
from mirrorlake.bigquery.loads.table_form import PublishedForm
from mirrorlake.bigquery.loads.views import keep_views, wanted_views
from mirrorlake.bigquery.named_versions import VersionsThere, VersionThere
from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.iceberg.model import LakeSchema, table_at
from mirrorlake.errors import BigQueryError
from mirrorlake.ledger import Ledger
from mirrorlake.table.columns.clean_rules import rules_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


def renew_named_views(leased: Workspace, contract: TableContract, bigquery: BigQuery) -> None:
    """See that views of each version of a table that has a name there are what they must be now.
    Where nothing says that they must be others, BigQuery is not asked.

    Raises:
        BigQueryError: one can't be made. One that shows what a rule hides does not stay.
    """
    for one in VersionsThere(leased.ledger).of_table(contract.name):
        if one.form is not None:
            renew_views_of(leased, contract, bigquery, one)


def renew_views_of(
    leased: Workspace, contract: TableContract, bigquery: BigQuery, one: VersionThere
) -> VersionThere | None:
    """The same of one version; None where it may not be there any more, and was taken away."""
    table = leased.lake.load(lake_table_of(contract))
    then = table_at(table, one.version) if table is not None else None
    form = PublishedForm.from_json(one.form or "")
    if table is None or then is None or _withheld(contract, table.schema(), then.schema(), form):
        words = "a rule keeps a column of it from BigQuery now, or the lake has it no more"
        logger.warning("table %s at %s: %s: it is taken away", one.table, one.name, words)
        remove_version(bigquery, leased.ledger, one)
        return None
    columns = form.columns
    if not form.is_under(leased.config.privacy.hash_key):
        columns = columns[: len(form.read)]
    hidden = [name for name, now in names_since(table.schema(), then.schema()) if now != name]
    kinds = bigquery.config.views
    wanted = wanted_views(leased, contract, then, kinds, one.target, columns, hidden)
    text = json.dumps(wanted)
    if one.texts == text:
        return one
    if bigquery.fields_of(one.target) is None:  # its run died before it was made
        return one
    keep_views(bigquery, one.target, wanted)
    datasets = [
        bigquery.config.views_dataset(one.target.dataset, kind) for kind in kinds if wanted[kind]
    ]
    view = str(in_dataset(one.target, datasets[0])) if datasets else ""
    renewed = replace(one, view=view, texts=text)
    VersionsThere(leased.ledger).record(renewed)
    return renewed


def names_since(now: LakeSchema, then: LakeSchema) -> list[tuple[str, str | None]]:
    """The columns of a version, each with the name that it has now; None: it is no more."""
    names = {field.field_id: field.name for field in now.fields}
    return [(field.name, names.get(field.field_id)) for field in then.fields]


def _withheld(
    contract: TableContract, now: LakeSchema, then: LakeSchema, form: PublishedForm
) -> bool:
    """Whether a column that was loaded may not be in BigQuery by the rules of now."""
    rules = rules_of(contract)
    loaded = [pair for pair in names_since(now, then) if pair[0] in form.read]
    return any(rules.get(n.lower()) == "drop" for pair in loaded for n in pair if n is not None)


def remove_version(bigquery: BigQuery, ledger: Ledger, one: VersionThere) -> None:
    """Take a version's views and its table away.

    Raises:
        BigQueryError: they can't be, or a job that loads it runs; what is left goes when this is
            done again.
    """
    if one.form is not None or one.made(bigquery.find(one.target)):  # else nothing was made
        for kind in ("clean", "full"):
            dataset = bigquery.config.views_dataset(one.target.dataset, kind)
            bigquery.drop(in_dataset(one.target, dataset))
        for load in publications_into(ledger, one.loaded_as, one.target)[:1]:
            if settle(bigquery, ledger, one.target, load, 0).state == "pending":
                raise BigQueryError(
                    f"table {one.address}: a job that loads it runs",
                    table=one.table,
                    next_step="The next cut takes it away",
                    retryable=True,
                )
        bigquery.drop(one.target)
    VersionsThere(ledger).forget(one)
