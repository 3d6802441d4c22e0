"""BigQuery's data policies as Google documents them: made, granted, dropped and put on columns by
DDL, and read by the Data Policy API. A part of `access_server`."""

from __future__ import annotations

import re
from typing import Any

_MADE = re.compile(
    r"(CREATE|ALTER) DATA_POLICY (?:IF NOT EXISTS )?`(.+?)` (?:SET )?"
    r"OPTIONS \(data_policy_type=\"(\w+)\"(?:, masking_expression=\"(\w+)\")?\)"
)
_GRANTED = re.compile(r"(GRANT|REVOKE) FINE_GRAINED_READ ON DATA_POLICY `(.+?)` (?:TO|FROM) (.+)")
_DROPPED = re.compile(r"DROP DATA_POLICY `(.+?)`")
_PUT = re.compile(
    r"ALTER TABLE `(.+?)` ALTER COLUMN `(\w+)` SET OPTIONS \(data_policies = \[(.*)\]\)"
)


class DataPolicyServer:
    """What the server has of data policies.

    Attributes:
        policies: by name, as the Data Policy API has them.
        columns: table and column → names of policies.
        statements: each that was run.
        exposed: after each of them, who sees the values of a column with policies.
    """

    def __init__(self) -> None:
        self.policies: dict[str, dict[str, Any]] = {}
        self.columns: dict[tuple[str, str], list[str]] = {}
        self.statements: list[str] = []
        self.exposed: list[dict[tuple[str, str], set[str]]] = []

    def takes(self, sql: str) -> bool:
        """Whether a statement is about data policies."""
        return "DATA_POLICY" in sql or "data_policies" in sql

    def run(self, sql: str) -> str | None:
        """Run a statement; why Google refuses it."""
        self.statements.append(sql)
        refused = self._run(sql)
        self.exposed.append({at: self.raw(names) for at, names in self.columns.items() if names})
        return refused

    def raw(self, names: list[str]) -> set[str]:
        """Who sees values by some policies."""
        found = (self.policies[name] for name in names)
        kind = "RAW_DATA_ACCESS_POLICY"
        return {to for one in found if one["dataPolicyType"] == kind for to in one["grantees"]}

    def _run(self, sql: str) -> str | None:
        for form, act in (
            (_MADE, self._make),
            (_GRANTED, self._grant),
            (_DROPPED, self._drop),
            (_PUT, self._put),
        ):
            found = form.fullmatch(sql)
            if found is not None:
                return act(*found.groups())
        return f"Syntax error: {sql}"

    def _make(self, verb: str, place: str, kind: str, mask: str | None) -> str | None:
        name = _named(place)
        if verb == "ALTER" and name not in self.policies:
            return f"Not found: {name}"
        if (kind == "DATA_MASKING_POLICY") != (mask is not None):
            return "masking_expression is for DATA_MASKING_POLICY"
        if verb == "ALTER" or name not in self.policies:
            to = self.policies.get(name, {}).get("grantees", [])
            masking = {"dataMaskingPolicy": {"predefinedExpression": mask}} if mask else {}
            self.policies[name] = {"dataPolicyType": kind, "grantees": to, **masking}
        return None

    def _grant(self, verb: str, place: str, who: str) -> None:
        names = set(re.findall(r'"([^"]+)"', who))
        has = set(self.policies[_named(place)]["grantees"])
        now = has | names if verb == "GRANT" else has - names
        self.policies[_named(place)]["grantees"] = sorted(now)

    def _drop(self, place: str) -> str | None:
        name = _named(place)
        if any(name in names for names in self.columns.values()):
            return f"{name} is on a column"
        return None if self.policies.pop(name, None) is not None else f"Not found: {name}"

    def _put(self, table: str, column: str, names: str) -> str | None:
        policies = [_named(one) for one in re.findall(r"'name':'([^']+)'", names)]
        if not {*policies} <= self.policies.keys():
            return "Not found: a data policy"
        self.columns[table.partition(".")[2], column] = policies
        return None


def _named(place: str) -> str:
    project, region, name = place.split(".")
    assert (project, region) == ("local", "region-us")
    return name
