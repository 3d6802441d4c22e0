"""A table's columns and their data policies, read by Google's APIs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirrorlake.destinations.bigquery.client import BigQuery
from mirrorlake.destinations.bigquery.column_policies import (
    RAW,
    ColumnPolicies,
    DataPolicy,
    policy_name,
    principal_from,
)
from mirrorlake.destinations.bigquery.google import is_missing, translated
from mirrorlake.destinations.bigquery.json_api import Json, JsonApi, open_api
from mirrorlake.destinations.bigquery.names import BigQueryTable
from mirrorlake.errors import BigQueryError

_TABLES: Final = "https://bigquery.googleapis.com"
_POLICIES: Final = "https://bigquerydatapolicy.googleapis.com"
_SCOPES: Final = ("https://www.googleapis.com/auth/cloud-platform",)
_EMULATOR: Final = "BIGQUERY_EMULATOR_HOST"


@dataclass(frozen=True)
class DataPolicies:
    """The data policies of a project's columns."""

    location: str
    _tables: JsonApi
    _policies: JsonApi

    def of(self, table: BigQueryTable, declared: frozenset[str]) -> tuple[ColumnPolicies, ...]:
        """The policies of a table's columns: of those that have some, and of those declared.

        Args:
            declared: columns, of which policies that are not on them are read, too.

        Raises:
            BigQueryError: it can't be asked, or a column has what can't be declared.
        """
        path = f"projects/{table.project}/datasets/{table.dataset}/tables/{table.name}"
        with translated(f"table {table}"):
            found = self._tables.answer("GET", f"bigquery/v2/{path}")
        fields = (found.get("schema") or {}).get("fields") or ()
        columns: list[ColumnPolicies] = []
        for field in fields:
            _refuse_unknown(table, field)
            attached = frozenset(_last(one) for one in field.get("dataPolicies") or ())
            name = str(field["name"])
            if attached or name in declared:
                columns.append(ColumnPolicies(name, attached, self._own(table, name)))
        return tuple(columns)

    def _own(self, table: BigQueryTable, column: str) -> tuple[DataPolicy, ...]:
        names = [policy_name(table, column, masked=masked) for masked in (False, True)]
        found = [self._read(table.project, name) for name in names]
        return tuple(one for one in found if one is not None)

    def _read(self, project: str, name: str) -> DataPolicy | None:
        path = f"v2/projects/{project}/locations/{self.location.lower()}/dataPolicies/{name}"
        with translated(f"data policy {name}"):
            try:
                found = self._policies.answer("GET", path)
            except Exception as error:
                if not is_missing(error):
                    raise
                return None
        mask = (found.get("dataMaskingPolicy") or {}).get("predefinedExpression")
        shows = RAW if found.get("dataPolicyType") == "RAW_DATA_ACCESS_POLICY" else str(mask)
        to = frozenset(principal_from(str(one)) for one in found.get("grantees") or ())
        return DataPolicy(name, shows, to)


def open_data_policies(bigquery: BigQuery) -> DataPolicies:
    """The data policies of a project's columns.

    Raises:
        BigQueryError: nobody is logged in.
    """
    project, location = bigquery.config.project, bigquery.config.location
    tables, policies = (
        open_api(_EMULATOR, address, project, _SCOPES) for address in (_TABLES, _POLICIES)
    )
    return DataPolicies(location, tables, policies)


def _last(policy: Json) -> str:
    return str(policy.get("name", "")).rpartition("/")[2]


def _refuse_unknown(table: BigQueryTable, field: Json) -> None:
    tags = (field.get("policyTags") or {}).get("names")
    inner = [one for one in field.get("fields") or () if one.get("dataPolicies")]
    if not tags and not inner:
        return
    what = "a policy tag" if tags else "data policies on fields within it"
    raise BigQueryError(
        f"table {table}: its column {field.get('name')} has {what}, which can't be declared",
        next_step="Take it away in BigQuery, or leave the table out of the permissions file",
    )
