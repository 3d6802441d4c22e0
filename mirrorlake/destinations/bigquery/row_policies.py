"""Which rows of a table who sees: row access policies, read by BigQuery's API and changed by DDL.

Source: BigQuery, "Use row-level security", "REST: rowAccessPolicies", "DDL: CREATE ROW ACCESS
POLICY".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirrorlake.config.grants import EVERYBODY, Grant, principal_of
from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.google import translated
from mirrorlake.destinations.bigquery.json_api import Json, JsonApi, open_api
from mirrorlake.destinations.bigquery.names import BigQueryTable
from mirrorlake.destinations.bigquery.policy_change import PolicyChange
from mirrorlake.destinations.bigquery.row_filters import ALL_ROWS, canonical_filter
from mirrorlake.errors import BigQueryError

_ADDRESS: Final = "https://bigquery.googleapis.com"
_SCOPES: Final = ("https://www.googleapis.com/auth/bigquery",)
_READER: Final = "roles/bigquery.filteredDataViewer"
NOBODY: Final = "nobody"
"""The grantee of a policy without any."""


@dataclass(frozen=True)
class RowPolicy:
    """Some rows, and who sees them.

    Attributes:
        where: by `canonical_filter`.
        to: principals.
    """

    name: str
    where: str
    to: frozenset[str]

    @property
    def grants(self) -> frozenset[Grant]:
        """The policy as one grant for each grantee."""
        role = f"rows of {self.name}: {self.where}"
        return frozenset(Grant(one, role) for one in self.to or {NOBODY})


def grants_of(policies: Iterable[RowPolicy]) -> frozenset[Grant]:
    """All policies of a table as grants."""
    return frozenset(grant for one in policies for grant in one.grants)


def policy_changes(
    table: BigQueryTable, there: Sequence[RowPolicy], declared: Sequence[RowPolicy]
) -> list[PolicyChange]:
    """The statements that bring a table's policies to those that are declared.

    Policies that show all rows come first, and those that go come last: without any policy
    everybody sees all rows, and there is no such moment on the way from some to others.
    """
    if there and not declared:
        sql = f"DROP ALL ROW ACCESS POLICIES ON `{table}`"
        return [PolicyChange((sql,), grants_of(there), frozenset())]
    before = {one.name: one for one in there}
    names = {one.name for one in declared}
    new = [one for one in declared if before.get(one.name) != one]
    found = [
        PolicyChange(
            (create_sql(table, one),),
            before[one.name].grants if one.name in before else frozenset(),
            one.grants,
        )
        for one in sorted(new, key=lambda one: (one.where != ALL_ROWS, one.name))
    ]
    gone = [one for one in sorted(there, key=lambda one: one.name) if one.name not in names]
    for one in gone:
        sql = f"DROP ROW ACCESS POLICY IF EXISTS `{one.name}` ON `{table}`"
        found.append(PolicyChange((sql,), one.grants, frozenset()))
    return found


def create_sql(table: BigQueryTable, policy: RowPolicy) -> str:
    """The statement that makes a policy, or replaces it in one step."""
    names = ", ".join(_written(one) for one in sorted(policy.to))
    return (
        f"CREATE OR REPLACE ROW ACCESS POLICY `{policy.name}` ON `{table}`\n"
        f"GRANT TO ({names})\nFILTER USING ({policy.where}\n)"
    )


def _written(principal: str) -> str:
    name = principal.partition(":")[2] if principal in EVERYBODY else principal
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@dataclass(frozen=True)
class RowPolicies:
    """The row access policies of a project's tables."""

    _api: JsonApi

    def of(self, table: BigQueryTable) -> tuple[RowPolicy, ...]:
        """A table's policies.

        Raises:
            BigQueryError: it can't be asked, or has a policy that can't be declared.
        """
        path = (
            f"bigquery/v2/projects/{table.project}/datasets/{table.dataset}"
            f"/tables/{table.name}/rowAccessPolicies"
        )
        with translated(f"row access policies of {table}"):
            pages = self._api.pages(path, {"pageSize": "100"})
            found = [one for page in pages for one in page.get("rowAccessPolicies", ())]
            names = [str(one["rowAccessPolicyReference"]["policyId"]) for one in found]
            iam = [
                self._api.answer("POST", f"{path}/{name}:getIamPolicy", {"options": {}})
                for name in names
            ]
        try:
            return tuple(
                RowPolicy(name, _canonical(one), _grantees(name, policy))
                for name, one, policy in zip(names, found, iam, strict=True)
            )
        except BigQueryError as error:
            raise error.located(f"table {table}") from error


def open_row_policies(bigquery: BigQuery) -> RowPolicies:
    """The row access policies of a project's tables.

    Raises:
        BigQueryError: nobody is logged in.
    """
    project = bigquery.config.project
    return RowPolicies(open_api("BIGQUERY_EMULATOR_HOST", _ADDRESS, project, _SCOPES))


def _canonical(policy: Json) -> str:
    text = str(policy.get("filterPredicate", ""))
    try:
        return canonical_filter(text)
    except ValueError:
        # Nobody can declare it: it is there as it is, and goes.
        return text


def _grantees(name: str, policy: Json) -> frozenset[str]:
    found: set[str] = set()
    for binding in policy.get("bindings", ()):
        if binding.get("condition") or binding.get("role") != _READER:
            raise BigQueryError(
                f"its row access policy {name} has a grant that Mirrorlake does not know"
                f" ({_shown(binding)})",
                next_step="Remove that grant in BigQuery",
            )
        found |= {_principal(str(one)) for one in binding.get("members", ())}
    return frozenset(found)


def _principal(member: str) -> str:
    if f"special:{member}" in EVERYBODY:
        return f"special:{member}"
    try:
        return principal_of(member)
    except ValueError:
        return member


def _shown(binding: Mapping[str, object]) -> str:
    return ", ".join(f"{key} {value}" for key, value in sorted(binding.items()))
