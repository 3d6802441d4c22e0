"""Versions of tables under names of their own in BigQuery: each exactly the version of deduped that
was named, whatever the tables show since.

Where BigQuery's table holds that version, it is a snapshot of it, and no row is copied; else the
rows of the version are loaded out of the lake, which keeps them.

What belongs here: how a version comes. What doesn't: who sees it, and how it goes
(`mirrorlake.bigquery.loads.named_views`).
"""

from __future__ import annotations

from dataclasses import replace

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.api.names import bigquery_table
from mirrorlake.bigquery.api.statements import snapshot_sql
from mirrorlake.bigquery.loads.begin_load import begin_load, refuse_failed, was_loaded
from mirrorlake.bigquery.loads.named_views import names_since, remove_version, renew_views_of
from mirrorlake.bigquery.loads.open_clients import open_for
from mirrorlake.bigquery.loads.publish import publish_leased
from mirrorlake.bigquery.loads.published_contracts import lake_table_of, terms_of
from mirrorlake.bigquery.loads.settle import publications_into, settle, settle_newest
from mirrorlake.bigquery.loads.table_form import PublishedForm, ShownTable, form_of
from mirrorlake.bigquery.named_versions import VersionsThere, VersionThere
from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.iceberg.metadata.row_counts import count_shown
from mirrorlake.destinations.iceberg.model import LakeTable, table_at
from mirrorlake.errors import BigQueryError, MirrorlakeError
from mirrorlake.failpoints import failpoint
from mirrorlake.operations.publishers import PublishedVersions
from mirrorlake.runtime.google.clients import again_while
from mirrorlake.runtime.google.quotas import passes
from mirrorlake.workspace import Workspace


def publish_versions(workspace: Workspace, name: str) -> PublishedVersions:
    """Bring what was written down of a name to BigQuery, and take away what is to leave. One that
    fails does not stop the others."""
    found, done = VersionsThere(workspace.ledger).of(name), PublishedVersions()
    if not found:
        return done
    contracts = {one.name: one for one in workspace.config.tables if one.in_bigquery}
    try:
        bigquery = open_for(workspace, [])
    except MirrorlakeError as error:
        done.missing.update({one.table: str(error) for one in found})
        return done
    for one in found:
        contract = contracts.get(one.table)
        try:
            if contract is None or one.state == "leaving":
                _remove(workspace, bigquery, one)
                continue
            there = one if one.state == "there" else _published(workspace, contract, bigquery, one)
            if not there.view:
                done.missing[one.table] = "its rows are there, and no view may show them"
            done.there[one.table] = there.reads
        except MirrorlakeError as error:
            done.missing[one.table] = str(error)
    return done


def drop_versions(workspace: Workspace, name: str) -> None:
    """Take away what is in BigQuery under a name.

    Raises:
        BigQueryError: it can't be.
        LeaseHeld: a run holds a table of it.
    """
    found = VersionsThere(workspace.ledger).of(name)
    bigquery = open_for(workspace, [])
    for one in found:
        _remove(workspace, bigquery, one)


def _remove(workspace: Workspace, bigquery: BigQuery, one: VersionThere) -> None:
    """Take one away, under its table's lease: nobody makes its views again meanwhile."""
    contracts = {contract.name: contract for contract in workspace.config.tables}
    if one.table not in contracts:
        remove_version(bigquery, workspace.ledger, one)
        return
    with workspace.leased(contracts[one.table]) as leased:
        remove_version(bigquery, leased.ledger, one)


def _published(
    workspace: Workspace, contract: TableContract, bigquery: BigQuery, one: VersionThere
) -> VersionThere:
    with workspace.leased(contract) as leased:
        if one not in VersionsThere(leased.ledger).of(one.name):
            raise _gone(one, "it was dropped meanwhile")
        found = bigquery.find(one.target) if one.form is None else None
        if found is not None and not one.made(found):
            raise BigQueryError(
                f"{one.target} is there, and Mirrorlake did not make it",
                table=one.table,
                next_step="Rename it, or drop it: the next cut goes on",
            )
        return again_while(
            lambda error: isinstance(error, BigQueryError) and passes(error.message),
            lambda: _publish(leased, contract, bigquery, one),
        )


def _publish(
    leased: Workspace, contract: TableContract, bigquery: BigQuery, one: VersionThere
) -> VersionThere:
    """Make the table of a version and its views."""
    identifier = lake_table_of(contract)
    table = leased.lake.load(identifier)
    then = table_at(table, one.version) if table is not None else None
    if table is None or then is None:
        raise _never(leased, bigquery, one, "the lake has this version no more")
    form = form_of(terms_of(contract, then), then, leased.config.privacy.hash_key)
    shown = ShownTable(one.loaded_as, identifier, then, one.version, form)
    one = replace(one, form=form.to_json(), view="", texts="")
    VersionsThere(leased.ledger).record(one)  # before: from now on what is there is ours
    failpoint("bigquery.named")
    if _is_there(bigquery, one, form):
        pass  # a ledger that was lost knew it, or a run died
    elif _is_in_table(leased, contract, bigquery, table, shown):
        bigquery.drop(one.target)
        source = bigquery_table(bigquery.config.project, identifier)
        bigquery.run(f"table {one.target}", snapshot_sql(str(one.target), str(source)))
    elif all(name == now for name, now in names_since(table.schema(), then.schema())):
        _load(leased, bigquery, one, shown)
    else:
        raise _never(leased, bigquery, one, "its columns have other names since")
    failpoint("bigquery.named_made")
    _refuse_miscounted(leased, bigquery, one, then)
    bigquery.describe(one.target, one.described(form.to_json()))
    renewed = renew_views_of(leased, contract, bigquery, one)
    if renewed is None:
        raise _gone(one, "a rule keeps a column of it from BigQuery now")
    failpoint("bigquery.named_shown")
    renewed = replace(renewed, state="there")
    VersionsThere(leased.ledger).record(renewed)
    return renewed


def _is_there(bigquery: BigQuery, one: VersionThere, form: PublishedForm) -> bool:
    """Whether a version is there already with these columns, by its table's own word."""
    found = bigquery.find(one.target)
    said = one.described(form.to_json())
    return found is not None and (found.words, found.fields) == (said, form.columns)


def _refuse_miscounted(
    leased: Workspace, bigquery: BigQuery, one: VersionThere, then: LakeTable
) -> None:
    """See that a version has as many rows there as in the lake.

    Raises:
        BigQueryError: it has not; it is there no more.
    """
    with leased.lake.translated(".".join(then.name())):
        expected = count_shown(then)
    counted = bigquery.count(one.target)
    if counted == expected:
        return
    bigquery.drop(one.target)
    raise BigQueryError(
        f"{one.target} had {counted or 0:,} rows, the lake's version {expected:,}",
        table=one.table,
        next_step="`mirrorlake bigquery check` says whether its table is as the lake's",
    )


def _is_in_table(
    leased: Workspace,
    contract: TableContract,
    bigquery: BigQuery,
    table: LakeTable,
    shown: ShownTable,
) -> bool:
    """Whether BigQuery's own table holds just this version; it is brought there where deduped shows
    it still."""
    head = table.current_snapshot()
    if head is not None and head.snapshot_id == shown.version:
        if publish_leased(leased, contract, bigquery).state == "pending":
            raise _runs(shown.name)
    else:
        settle_newest(leased, contract, bigquery)
    target = bigquery_table(bigquery.config.project, shown.identifier)
    known = publications_into(leased.ledger, contract.name, target)
    if not known or not was_loaded(shown, known[0]):
        return False
    return bigquery.fields_of(target) == shown.form.columns


def _load(leased: Workspace, bigquery: BigQuery, one: VersionThere, shown: ShownTable) -> None:
    """Load a version's rows out of the lake into a table of its own."""
    ledger, patience = leased.ledger, bigquery.config.wait.total_seconds()
    newest = next(iter(publications_into(ledger, shown.name, one.target)), None)
    if newest is not None:
        newest = settle(bigquery, ledger, one.target, newest, patience)
        if was_loaded(shown, newest) and bigquery.fields_of(one.target) == shown.form.columns:
            return
    if newest is None or newest.state != "pending":
        bigquery.drop(one.target)
        begun = begin_load(leased, bigquery, one.target, shown, (), None, [one.target.dataset])
        newest = settle(bigquery, ledger, one.target, begun, patience)
    refuse_failed(shown.name, newest)
    if newest.state == "pending":
        raise _runs(shown.name)


def _runs(name: str) -> BigQueryError:
    return BigQueryError(
        f"table {name}: its jobs run in BigQuery for longer than `bigquery.wait`",
        table=name,
        next_step="The next cut publishes them",
    )


def _never(leased: Workspace, bigquery: BigQuery, one: VersionThere, words: str) -> BigQueryError:
    """The error of a version that can't be there any more; it is not tried again."""
    remove_version(bigquery, leased.ledger, one)
    return _gone(one, words)


def _gone(one: VersionThere, words: str) -> BigQueryError:
    return BigQueryError(
        f"table {one.table} at {one.name}: {words}",
        table=one.table,
        next_step="Make another cut",
    )
