"""Who sees which rows and columns of each table against what is declared: planned, applied,
verified.

The ledger has each policy, and all of a column, before its statements are run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.config import Config
from mirrorlake.config.grants import Grant
from mirrorlake.config.table_rows import DeclaredRows, TableRows
from mirrorlake.destinations.bigquery.access import change_between
from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.column_policies import (
    RAW,
    ColumnPolicies,
    DataPolicy,
    column_changes,
    policy_name,
)
from mirrorlake.destinations.bigquery.column_requests import DataPolicies, open_data_policies
from mirrorlake.destinations.bigquery.names import BigQueryTable
from mirrorlake.destinations.bigquery.policy_change import PolicyChange
from mirrorlake.destinations.bigquery.row_filters import (
    ALL_ROWS,
    canonical_filter,
    columns_of,
    refusal_of_filter,
)
from mirrorlake.destinations.bigquery.row_policies import (
    RowPolicies,
    RowPolicy,
    grants_of,
    open_row_policies,
    policy_changes,
)
from mirrorlake.errors import BigQueryError, ConfigError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.operations.bigquery.access_changes import (
    AccessPlan,
    VerifiedAccess,
    difference_words,
    records,
    settle_changes,
    unknown_outcome,
    verified,
)
from mirrorlake.operations.bigquery.dataset_access import models_in_bigquery
from mirrorlake.table.lake_tables import deduped_of

TRIES = 3
"""How often a table's policies are read again that somebody else changes at the same time."""


def refuse_rows(config: Config, declared: Sequence[TableRows]) -> None:
    """See that policies can be what they are declared to be, before anybody is asked.

    Raises:
        ConfigError: of a table that Mirrorlake fills, of one whose rows nobody would see all, or
            with a condition that can't be read.
        ModelError: a model's file can't be read, so that nobody knows which table it fills.
    """
    _refuse_filled(config, declared)
    for one in declared:
        for name, rows in one.policies.items():
            refused = refusal_of_filter(rows.where)
            if refused is not None:
                raise ConfigError(
                    f"{rows.place}: the condition of policy {name} of {one.resource} {refused}",
                    next_step="Write which rows it shows, in BigQuery's SQL",
                )
        if one.policies and all(p.where != ALL_ROWS for p in _policies(one)):
            raise ConfigError(
                f"{one.place}: nobody would see all rows of {one.resource}, so that nobody could"
                " copy, change or read it as a whole",
                next_step="Declare one with where: 'TRUE' for the accounts that fill it, and that"
                " read it for Mirrorlake",
            )


def _refuse_filled(config: Config, declared: Sequence[TableRows]) -> None:
    """See that no table with policies is one that Mirrorlake fills; all that are, are named."""
    filled = {deduped_of(one).path for one in config.in_bigquery}
    filled |= {one.identifier.path for one in models_in_bigquery(config)}
    ours = [one for one in declared if (one.dataset, one.table) in filled]
    refused = [one for one in ours if one.policies or one.columns]
    if refused:
        tables = ", ".join(f"{one.place}: table {one.resource}" for one in refused)
        what = "is filled" if len(refused) == 1 else "are filled"
        raise ConfigError(
            f"{tables} {what} by Mirrorlake, and each load that replaces all rows would take the"
            " policies away: everybody would see everything",
            next_step="Show what others may see by views of your own in another dataset",
        )


def _policies(declared: TableRows) -> list[RowPolicy]:
    return [
        RowPolicy(name, canonical_filter(rows.where), rows.to)
        for name, rows in declared.policies.items()
    ]


@dataclass(frozen=True)
class TableAccess:
    """Tables with policies, and what reads and changes them."""

    bigquery: BigQuery
    rows: RowPolicies
    columns: DataPolicies

    def plan(self, declared: TableRows) -> AccessPlan:
        """What applying would change. Nothing is touched.

        Raises:
            BigQueryError: there is no such table, or it can't be asked.
            ConfigError: it is a view, or a condition names a column that it has not.
        """
        return _shown(declared, self._changes(declared))

    def verify(self, declared: TableRows) -> VerifiedAccess:
        """Whether a table's policies are those declared.

        Raises:
            BigQueryError, ConfigError: as of `plan`.
        """
        return verified(self.plan(declared))

    def apply(self, ledger: Ledger, runner: str, declared: TableRows) -> AccessPlan:
        """Bring a table's policies to those declared; what was changed.

        Raises:
            BigQueryError: it can't be asked, refuses one, or is not as declared.
            ConfigError: as of `plan`.
        """
        place, made = f"table:{self._table(declared)}", list[PolicyChange]()
        settle_changes(ledger, place, self._there(declared))
        for _ in range(TRIES):
            changes = self._changes(declared)
            if not changes:
                return _shown(declared, made)
            for change in changes:
                self._make(ledger, runner, place, change)
            made += changes
        changes = self._changes(declared)
        if not changes:
            return _shown(declared, made)
        left = [difference_words(change_between(change.before, change.after)) for change in changes]
        raise BigQueryError(
            f"table {declared.resource} is not as declared: {', '.join(filter(None, left))}",
            next_step="See in its audit log who changes it, or what Google makes of the condition",
            retryable=True,
        )

    def _make(self, ledger: Ledger, runner: str, place: str, change: PolicyChange) -> None:
        moved = change_between(change.before, change.after)
        number = ledger.begin_access_change(
            place, runner, records(moved.adds), records(moved.removes)
        )
        failpoint("access.begun")
        for index, sql in enumerate(change.statements):
            try:
                self.bigquery.run(place, sql)
            except BigQueryError as error:
                if error.retryable:
                    raise unknown_outcome(error) from error
                # What came before it was done.
                ledger.access_change_ended(number, "unknown" if index else "refused", str(error))
                raise
        failpoint("access.written")
        ledger.access_change_ended(number, "applied")

    def _there(self, declared: TableRows) -> frozenset[Grant]:
        """What there is on a table, as grants."""
        table = self._table(declared)
        columns = (one.grants for one in self.columns.of(table, frozenset()))
        return grants_of(self.rows.of(table)).union(*columns)

    def _changes(self, declared: TableRows) -> list[PolicyChange]:
        table = self._table(declared)
        there = self.bigquery.find(table)
        if there is None:
            raise BigQueryError(
                f"{declared.place}: there is no table {table} in BigQuery",
                next_step="Correct its name, have it made, or leave it out here",
            )
        if there.sql and (declared.policies or declared.columns):
            raise ConfigError(
                f"{declared.place}: {table} is a view, and only tables have policies",
                next_step="Declare them of the tables under it, or show less in the view",
            )
        kinds = {one["name"].lower(): str(one["type"]) for one in there.fields}
        for name, rows in declared.policies.items():
            _refuse_columns(name, rows, kinds)
        wanted = _columns(table, declared, {name.lower(): name for name in there.columns})
        columns = self.columns.of(table, frozenset(one.column for one in wanted))
        location = self.bigquery.config.location
        return [
            *policy_changes(table, self.rows.of(table), _policies(declared)),
            *column_changes(table, location, columns, wanted),
        ]

    def _table(self, declared: TableRows) -> BigQueryTable:
        return BigQueryTable(self.bigquery.config.project, declared.dataset, declared.table)


def open_tables(bigquery: BigQuery) -> TableAccess:
    """Tables of a project.

    Raises:
        BigQueryError: nobody is logged in.
    """
    return TableAccess(bigquery, open_row_policies(bigquery), open_data_policies(bigquery))


def _refuse_columns(name: str, rows: DeclaredRows, kinds: dict[str, str]) -> None:
    for column in columns_of(rows.where):
        kind = kinds.get(column.lower())
        if kind not in (None, "JSON"):
            continue
        what = "which the table does not have" if kind is None else "which is JSON there"
        raise ConfigError(
            f"{rows.place}: the condition of policy {name} names the column {column}, {what}",
            next_step=f"The table has {', '.join(sorted(kinds))}",
        )


def _columns(
    table: BigQueryTable, declared: TableRows, spelled: Mapping[str, str]
) -> list[ColumnPolicies]:
    """What is declared of columns, as their policies.

    Args:
        spelled: the table's columns, by name in lower case.
    """
    found: list[ColumnPolicies] = []
    for name, one in declared.columns.items():
        column = spelled.get(name.lower())
        if column is None:
            raise ConfigError(
                f"{one.place}: {declared.resource} has no column {name}",
                next_step=f"The table has {', '.join(sorted(spelled.values()))}",
            )
        own = [DataPolicy(policy_name(table, column, masked=False), RAW, one.values)]
        if one.masked:
            masked = policy_name(table, column, masked=True)
            own.append(DataPolicy(masked, one.mask, one.masked))
        names = frozenset(policy.name for policy in own)
        found.append(ColumnPolicies(column, names, tuple(own)))
    return found


def _shown(declared: TableRows, changes: Sequence[PolicyChange]) -> AccessPlan:
    adds = sorted(grant for one in changes for grant in one.after - one.before)
    removes = sorted(grant for one in changes for grant in one.before - one.after)
    return AccessPlan(declared.resource, records(adds), records(removes))
