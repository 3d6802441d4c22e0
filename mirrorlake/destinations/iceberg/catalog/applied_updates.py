"""Transactions that apply their updates to the metadata once, where PyIceberg does so, with a deep
copy, at every look at them."""

from __future__ import annotations

from pyiceberg.table import CreateTableTransaction, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableUpdate, update_table_metadata
from pyiceberg.table.update.snapshot import ManageSnapshots


class AppliedTable(Table):
    """A table whose transactions apply their updates once."""

    def transaction(self) -> Transaction:
        return AppliedUpdates(self)

    def manage_snapshots(self) -> ManageSnapshots:
        return ManageSnapshots(transaction=AppliedUpdates(self, autocommit=True))


class AppliedUpdates(Transaction):
    """A transaction that keeps what its updates make of the metadata, until there are others."""

    _applied: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        """The metadata with the updates so far; not to be changed."""
        base, updates = self._table.metadata, self._updates
        if not updates:
            return base
        known = self._applied
        # A commit that is tried again has another base.
        if known is None or known[0] is not base or known[1] is not updates:
            known = self._applied = (base, updates, update_table_metadata(base, updates))
        return known[2]


class AppliedCreation(AppliedUpdates, CreateTableTransaction):
    """The same of a table that is not there yet."""
