"""Who sees a column's values, and who sees them masked: data policies, made, granted and put on
columns by DDL.

Each column has two of its own, whose names follow from the column's: one for those who see values,
and where there is a mask one for those who see that.

Source: BigQuery, "Mask data by applying data policies to a column"; BigQuery Data Policy API v2;
IAM, "Principal identifiers: v2".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mirrorlake.config.grants import Grant
from mirrorlake.destinations.bigquery.names import BigQueryTable
from mirrorlake.destinations.bigquery.policy_change import PolicyChange

RAW: Final = "values"
"""What a policy shows that has no mask."""
_PRINCIPALS: Final = {
    "user": "principal://goog/subject/",
    "group": "principalSet://goog/group/",
    "serviceAccount": "principal://iam.googleapis.com/projects/-/serviceAccounts/",
}


@dataclass(frozen=True)
class DataPolicy:
    """One data policy.

    Attributes:
        name: within the project and location.
        shows: `RAW`, or the mask.
        to: principals.
    """

    name: str
    shows: str
    to: frozenset[str]


@dataclass(frozen=True)
class ColumnPolicies:
    """The data policies of one column.

    Attributes:
        attached: the names of those on the column, Mirrorlake's or not.
        own: those of Mirrorlake's names that there are, on the column or not.
    """

    column: str
    attached: frozenset[str] = frozenset()
    own: tuple[DataPolicy, ...] = ()

    @property
    def grants(self) -> frozenset[Grant]:
        """What of it has an effect, as grants."""
        known = {one.name: one for one in self.own}
        found: set[Grant] = set()
        for name in self.attached:
            one = known.get(name)
            if one is None:
                found.add(Grant(f"policy:{name}", f"on column {self.column}"))
            else:
                role = f"{one.shows} of column {self.column}"
                found |= {Grant(principal, role) for principal in one.to or {"nobody"}}
        return frozenset(found)


def policy_name(table: BigQueryTable, column: str, *, masked: bool) -> str:
    """The name of a column's own policy.

    >>> policy_name(BigQueryTable("p", "d", "t"), "email", masked=False)
    'mirrorlake_92dbb1a665bc_values'
    """
    text = "\0".join((table.dataset, table.name, column.lower()))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"mirrorlake_{digest}_{'masked' if masked else RAW}"


def column_changes(
    table: BigQueryTable,
    location: str,
    there: Sequence[ColumnPolicies],
    declared: Sequence[ColumnPolicies],
) -> list[PolicyChange]:
    """What brings a table's columns to what is declared.

    A policy is made and granted before it is on its column, and taken off before it is dropped, so
    that nobody sees more for a moment than before or after.
    """
    wanted = {one.column: one for one in declared}
    now = {one.column: one for one in there}
    found: list[PolicyChange] = []
    for column in sorted(now.keys() | wanted.keys()):
        before = now.get(column, ColumnPolicies(column))
        after = wanted.get(column, ColumnPolicies(column))
        statements = _statements(table, location, before, after)
        if statements:
            found.append(PolicyChange(tuple(statements), before.grants, after.grants))
    return found


def _statements(
    table: BigQueryTable, location: str, before: ColumnPolicies, after: ColumnPolicies
) -> list[str]:
    project, known = table.project, {one.name: one for one in before.own}
    place = f"{project}.region-{location.lower()}"
    found: list[str] = []
    for one in after.own:
        found += _made(f"`{place}.{one.name}`", known.get(one.name), one)
    if before.attached != after.attached:
        names = ", ".join(f"\"{{'name':'{place}.{name}'}}\"" for name in sorted(after.attached))
        options = f"SET OPTIONS (data_policies = [{names}])"
        found.append(f"ALTER TABLE `{table}` ALTER COLUMN `{before.column}` {options}")
    kept = {one.name for one in after.own}
    found += [f"DROP DATA_POLICY `{place}.{name}`" for name in sorted(known.keys() - kept)]
    return found


def _made(name: str, there: DataPolicy | None, wanted: DataPolicy) -> list[str]:
    """What makes one policy what it is to be."""
    found: list[str] = []
    kind = "RAW_DATA_ACCESS_POLICY" if wanted.shows == RAW else "DATA_MASKING_POLICY"
    mask = "" if wanted.shows == RAW else f', masking_expression="{wanted.shows}"'
    options = f'OPTIONS (data_policy_type="{kind}"{mask})'
    if there is None:
        found.append(f"CREATE DATA_POLICY IF NOT EXISTS {name} {options}")
    elif there.shows != wanted.shows:
        found.append(f"ALTER DATA_POLICY {name} SET {options}")
    has = there.to if there is not None else frozenset[str]()
    for verb, way, who in (("REVOKE", "FROM", has - wanted.to), ("GRANT", "TO", wanted.to - has)):
        if who:
            found.append(f"{verb} FINE_GRAINED_READ ON DATA_POLICY {name} {way} {_written(who)}")
    return found


def _written(principals: Iterable[str]) -> str:
    return ", ".join(f'"{identifier_of(one)}"' for one in sorted(principals))


def identifier_of(principal: str) -> str:
    """A principal as data policies have it.

    >>> identifier_of("group:a@x.de")
    'principalSet://goog/group/a@x.de'
    """
    kind, _, address = principal.partition(":")
    prefix = _PRINCIPALS.get(kind)
    # One that was read, and that nobody can declare, is as it was read.
    return principal if prefix is None else prefix + address


def principal_from(identifier: str) -> str:
    """The principal that an identifier of a data policy's is; itself where it is no other.

    >>> principal_from("principalSet://goog/group/A@x.de")
    'group:a@x.de'
    """
    for kind, prefix in _PRINCIPALS.items():
        if identifier.startswith(prefix):
            return f"{kind}:{identifier.removeprefix(prefix).lower()}"
    return identifier
