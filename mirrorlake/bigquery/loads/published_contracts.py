"""What a load into BigQuery has to know of a contract, whichever kind it is: one of a table that is
read from a server, of a table that lands as snapshots, or of one that many databases have; or of a
model, whose header is its contract."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from mirrorlake.bigquery.loads.table_form import FormTerms
from mirrorlake.config.contract import Mirrored, TenantTable
from mirrorlake.config.settings import BigQueryLayout
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.reading.partition_changes import identity_columns
from mirrorlake.errors import LakeError
from mirrorlake.models.bigquery.published import PublishedModel
from mirrorlake.models.external_sources.tables import OF_MODEL
from mirrorlake.schema.own_columns import DATABASE, ORIGINAL, SNAPSHOT, SOURCE, VERSION
from mirrorlake.table.columns.clean_rules import rules_of
from mirrorlake.table.columns.new_columns import held_columns, held_now
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.tenants import held_of
from mirrorlake.workspace import Workspace

PublishedContract: TypeAlias = Mirrored | PublishedModel
_DATED = ("date", "timestamp", "timestamptz")
_OWN = frozenset({SNAPSHOT, ORIGINAL, SOURCE, DATABASE, VERSION})
"""Columns of deduped that no source has."""


def lake_table_of(contract: PublishedContract) -> Identifier:
    """The lake table that BigQuery has: deduped, or a model's."""
    return contract.identifier if isinstance(contract, PublishedModel) else deduped_of(contract)


def terms_of(contract: PublishedContract, table: LakeTable) -> FormTerms:
    """What a contract says of its table in BigQuery. A key of tenants has the tenant's columns.

    Raises:
        LakeError: the table has the name of a model, and is not the model's.
    """
    if isinstance(contract, PublishedModel):
        return _terms_of_model(contract, table)
    tenant = (SOURCE, DATABASE) if isinstance(contract, TenantTable) and contract.key else ()
    rules = rules_of(contract)
    return FormTerms(contract.name, (*tenant, *contract.key), rules, contract.bigquery)


def _terms_of_model(contract: PublishedModel, table: LakeTable) -> FormTerms:
    """A model's table has no key: its partitions take the key's place. BigQuery's table is
    partitioned by the first of their names that is a date or a time, unless the header differs."""
    if table.properties.get(OF_MODEL) != contract.model:
        raise LakeError(
            f"{contract.identifier} is there, and no model made it",
            next_step="Give the model another name, or drop that table",
        )
    parts = identity_columns(table)
    dated = (name for name, kind in parts.items() if kind in _DATED)
    by = next(dated, None)
    layout = BigQueryLayout(partition_by=by) if by is not None else None
    return FormTerms(contract.name, (), {}, contract.bigquery or layout, tuple(parts))


def held_of_clean(
    workspace: Workspace, contract: Mirrored, deduped: Sequence[str]
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
