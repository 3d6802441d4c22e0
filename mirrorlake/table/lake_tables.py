"""The lake tables of a contract: their names, and what the catalog has of them now."""

from __future__ import annotations

from mirrorlake.config.contract import Contract, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tables.tables import refuse_edited
from mirrorlake.errors import LakeError
from mirrorlake.ledger.store import Ledger
from mirrorlake.schema.reserved_names import UNREADABLE


def deduped_of(contract: Contract) -> Identifier:
    """The lake table with one row per key."""
    return Identifier(contract.namespaces.deduped, contract.table)


def clean_of(contract: Contract) -> Identifier:
    """What people query."""
    return Identifier(contract.namespaces.clean, contract.table)


def raw_tables(lake: Lake, ledger: Ledger, contract: TableContract) -> list[LakeTable]:
    """The raw tables of all schema versions that exist, oldest first. One with a column of a
    reserved name is left out: Spark can't read it, and nothing was ever folded of it.

    Raises:
        LakeError: one can't be read, or somebody edited its columns.
    """
    found: list[LakeTable] = []
    for version in ledger.schema_versions(contract.name):
        if any(name in UNREADABLE for name, _ in version.columns):
            continue
        table = lake.load(Identifier(contract.namespaces.raw, version.raw_table))
        if table is not None:
            refuse_edited(table, version)
            found.append(table)
    return found


def deduped_table(lake: Lake, contract: TableContract) -> LakeTable:
    """Deduped, as the catalog has it now.

    Raises:
        LakeError: it is not there, or can't be read.
    """
    table = lake.load(deduped_of(contract))
    if table is None:
        raise LakeError(
            f"deduped table {deduped_of(contract)} is not there",
            table=contract.name,
            next_step="Materialise the table's chain first",
        )
    return table
