"""Which rows of each table who sees against what is declared: planned, applied, verified.

Each policy is a statement of its own, which the ledger has before it is run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.config import Config
from mirrorlake.config.table_rows import DeclaredRows, TableRows
from mirrorlake.destinations.bigquery.access import change_between
from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.names import BigQueryTable
from mirrorlake.destinations.bigquery.row_filters import (
    ALL_ROWS,
    canonical_filter,
    columns_of,
    refusal_of_filter,
)
from mirrorlake.destinations.bigquery.row_policies import (
    PolicyChange,
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
    verified,
)
from mirrorlake.table.lake_tables import deduped_of

TRIES = 3
"""How often a table's policies are read again that somebody else changes at the same time."""


def refuse_rows(config: Config, declared: Sequence[TableRows]) -> None:
    """See that policies can be what they are declared to be, before anybody is asked.

    Raises:
        ConfigError: of a table that Mirrorlake fills, of one whose rows nobody would see all, or
            with a condition that can't be read.
    """
    filled = {deduped_of(one).path for one in config.in_bigquery}
    for one in declared:
        if (one.dataset, one.table) in filled and one.policies:
            raise ConfigError(
                f"{one.place}: table {one.resource} is filled by Mirrorlake, and each load that"
                " replaces its rows would take the policies away: everybody would see all rows",
                next_step="Show rows by views of your own in another dataset",
            )
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
                next_step="Declare one with where: 'TRUE' for whoever fills it and whoever reads"
                " it for Mirrorlake",
            )


def _policies(declared: TableRows) -> list[RowPolicy]:
    return [
        RowPolicy(name, canonical_filter(rows.where), rows.to)
        for name, rows in declared.policies.items()
    ]


@dataclass(frozen=True)
class TableAccess:
    """Tables with policies, and whoever changes them."""

    bigquery: BigQuery
    rows: RowPolicies

    def plan(self, declared: TableRows) -> AccessPlan:
        """What applying would change. Nothing is touched.

        Raises:
            BigQueryError: there is no such table, or it can't be asked.
            ConfigError: a condition names a column that the table has not.
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
        place = f"table:{self._table(declared)}"
        settle_changes(ledger, place, grants_of(self.rows.of(self._table(declared))))
        made: list[PolicyChange] = []
        for _ in range(TRIES):
            changes = self._changes(declared)
            if not changes:
                return _shown(declared, made)
            for change in changes:
                self._make(ledger, runner, place, declared, change)
            made += changes
        left = change_between(
            grants_of(self.rows.of(self._table(declared))), grants_of(_policies(declared))
        )
        if not left:
            return _shown(declared, made)
        raise BigQueryError(
            f"table {declared.resource} is not as declared: {difference_words(left)}",
            next_step="See in its audit log who changes it, or what Google makes of the condition",
            retryable=True,
        )

    def _make(
        self, ledger: Ledger, runner: str, place: str, declared: TableRows, change: PolicyChange
    ) -> None:
        moved = change_between(change.before, change.after)
        number = ledger.begin_access_change(
            place, runner, records(moved.adds), records(moved.removes)
        )
        failpoint("access.begun")
        try:
            self.rows.change(self._table(declared), change)
        except BigQueryError as error:
            if error.retryable:
                raise BigQueryError(
                    f"{error.message}; whether it was changed is not known",
                    next_step="Apply it again: what was done already is seen then",
                    retryable=True,
                ) from error
            ledger.access_change_ended(number, "refused", str(error))
            raise
        failpoint("access.written")
        ledger.access_change_ended(number, "applied")

    def _changes(self, declared: TableRows) -> list[PolicyChange]:
        table = self._table(declared)
        fields = self.bigquery.fields_of(table)
        if fields is None:
            raise BigQueryError(
                f"there is no table {table} in BigQuery",
                next_step="Make it, or leave it out of the permissions file",
            )
        kinds = {one["name"].lower(): str(one["type"]) for one in fields}
        for name, rows in declared.policies.items():
            _refuse_columns(name, rows, kinds)
        return policy_changes(table, self.rows.of(table), _policies(declared))

    def _table(self, declared: TableRows) -> BigQueryTable:
        return BigQueryTable(self.bigquery.config.project, declared.dataset, declared.table)


def open_tables(bigquery: BigQuery) -> TableAccess:
    """Tables of a project.

    Raises:
        BigQueryError: nobody is logged in.
    """
    return TableAccess(bigquery, open_row_policies(bigquery))


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


def _shown(declared: TableRows, changes: Sequence[PolicyChange]) -> AccessPlan:
    adds = sorted(grant for one in changes for grant in one.after - one.before)
    removes = sorted(grant for one in changes for grant in one.before - one.after)
    return AccessPlan(declared.resource, records(adds), records(removes))
