"""BigQuery's row access policies as Google documents them: made and dropped by DDL, listed by the
API without their grantees, which another request gives. A part of `access_server`."""

from __future__ import annotations

import re
from typing import Any

_CREATE = re.compile(
    r"CREATE OR REPLACE ROW ACCESS POLICY `(\w+)` ON `([^`]+)`\s+"
    r"GRANT TO \((.+?)\)\s+FILTER USING \((.+)\)\s*",
    re.DOTALL,
)
_DROP = re.compile(r"DROP ROW ACCESS POLICY IF EXISTS `(\w+)` ON `([^`]+)`")
_DROP_ALL = re.compile(r"DROP ALL ROW ACCESS POLICIES ON `([^`]+)`")
Policies = dict[str, tuple[str, list[str]]]


class Tables:
    """What the server has of tables.

    Attributes:
        fields: of each table, ``dataset.table``; it is there.
        views: those of them that are views.
        policies: of each table, name → condition and members.
        unknown: principals that are nobody's.
        page: how many policies a page has.
        statements: each that was run.
        seen: the policies of the table after each of them.
        lost: how many answers to statements are lost after they were run.
    """

    def __init__(self) -> None:
        self.fields: dict[str, list[dict[str, Any]]] = {}
        self.views: set[str] = set()
        self.policies: dict[str, Policies] = {}
        self.unknown: set[str] = set()
        self.page = 2
        self.statements: list[str] = []
        self.seen: list[Policies] = []
        self.lost = 0

    def put(self, table: str, policies: Policies, *columns: str) -> None:
        """Make a table, or replace what is of it."""
        names = columns or ("region", "n")
        self.fields[table] = [{"name": name, "type": "STRING"} for name in names]
        self.policies[table] = dict(policies)

    def run(self, sql: str) -> str | None:
        """Run a statement; why Google refuses it."""
        self.statements.append(sql)
        made, gone, all_gone = (
            _CREATE.fullmatch(sql),
            _DROP.fullmatch(sql),
            _DROP_ALL.fullmatch(sql),
        )
        if made is not None:
            name, table, to, where = made.groups()
            members = re.findall(r'"([^"]+)"', to)
            if self.unknown & {*members}:
                return f"IAM setPolicy failed for {table}: no such principal"
            self.policies[_plain(table)][name] = (where.strip(), members)
        elif gone is not None:
            name, table = gone.groups()
            if [*self.policies[_plain(table)]] == [name]:
                return "The last row access policy: use DROP ALL ROW ACCESS POLICIES"
            self.policies[_plain(table)].pop(name, None)
        elif all_gone is not None:
            table = all_gone[1]
            self.policies[_plain(table)].clear()
        else:
            return f"Syntax error: {sql}"
        self.seen.append(dict(self.policies[_plain(table)]))
        return None

    def listed(self, table: str, token: str) -> dict[str, Any]:
        """A page of a table's policies."""
        found, start = [*self.policies[table].items()], int(token or 0)
        page = [
            {"rowAccessPolicyReference": {"policyId": name}, "filterPredicate": where}
            for name, (where, _) in found[start : start + self.page]
        ]
        more = start + self.page < len(found)
        return {
            "rowAccessPolicies": page,
            **({"nextPageToken": str(start + self.page)} if more else {}),
        }

    def iam(self, table: str, name: str) -> dict[str, Any]:
        """Who has a policy's rows."""
        members = self.policies[table][name][1]
        role = "roles/bigquery.filteredDataViewer"
        return {"bindings": [{"role": role, "members": members}]} if members else {}


def _plain(table: str) -> str:
    return table.partition(".")[2]
