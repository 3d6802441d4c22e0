"""What a load into BigQuery has to know of a contract, whichever kind it is: one of a table that is
read from a server, of a table that lands as snapshots, or of one that many databases have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.merge.snapshot.shape import SNAPSHOT
from mirrorlake.operations.bigquery.form import FormTerms
from mirrorlake.schema.own_columns import DATABASE, ORIGINAL, SOURCE, VERSION
from mirrorlake.table.clean_rules import rules_of
from mirrorlake.table.new_columns import held_columns, held_now
from mirrorlake.table.tenants import contract_of, held_of
from mirrorlake.workspace import Workspace

PublishedContract: TypeAlias = TableContract | TenantTable
_OWN = frozenset({SNAPSHOT, ORIGINAL, SOURCE, DATABASE, VERSION})
"""Columns of deduped that no source has."""


def terms_of(contract: PublishedContract) -> FormTerms:
    """What a contract says of its table there; a key of tenants has the tenant's columns, too."""
    tenant = (SOURCE, DATABASE) if isinstance(contract, TenantTable) and contract.key else ()
    rules = rules_of(ruled_by(contract))
    return FormTerms(contract.name, (*tenant, *contract.key), rules, contract.bigquery)


def ruled_by(contract: PublishedContract) -> TableContract:
    """The contract whose rules hold for a table's columns."""
    return contract_of(contract, "", "") if isinstance(contract, TenantTable) else contract


def held_of_clean(
    workspace: Workspace, contract: PublishedContract, deduped: Sequence[str]
) -> tuple[str, ...]:
    """The columns that clean leaves out though no rule says so: new ones that nobody decided on
    yet, and of snapshots the one that says when a row changed.

    Args:
        deduped: the names of its columns.
    """
    names = [name for name in deduped if name not in _OWN]
    if isinstance(contract, TenantTable):
        return held_of(workspace.ledger, contract, names)
    if contract.landed:
        held = held_columns(workspace.ledger, workspace.lake, contract, names)
        return (*held, SNAPSHOT)
    return held_now(workspace.ledger, workspace.lake, contract)
