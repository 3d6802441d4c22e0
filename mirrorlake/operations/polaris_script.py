"""Catalog roles of Apache Polaris for the layers of a lake, and who has them, as declared below.

    POLARIS_TOKEN=... python3 this_file.py --dry-run
    POLARIS_TOKEN=... python3 this_file.py

The token is a bearer token of a service administrator; POLARIS_REALM names a realm.
In these catalog roles nothing stays but what is declared. Other catalog roles are left alone: what
they give is given as well. Needs Python alone. A second run changes nothing.

Source: Apache Polaris, "Polaris Management Service" (spec/polaris-management-service.yml) and
"Role-Based Access Control".
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

DECLARED: dict[str, Any] = {}

DRY_RUN = "--dry-run" in sys.argv[1:]


def ask(method: str, path: list[str], body: Any = None) -> Any:
    """What the management API answers; an answer that is no success ends the script."""
    quoted = "/".join(urllib.parse.quote(part, safe="") for part in path)
    url = f"{DECLARED['url']}/api/management/v1/{quoted}"
    headers = {
        "Authorization": f"Bearer {os.environ['POLARIS_TOKEN']}",
        "Content-Type": "application/json",
    }
    if "POLARIS_REALM" in os.environ:
        headers["Polaris-Realm"] = os.environ["POLARIS_REALM"]
    sent = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, sent, headers, method=method)  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            text = answer.read()
    except urllib.error.HTTPError as error:
        sys.exit(f"{method} {url}: {error.code} {error.read().decode(errors='replace')[:1000]}")
    except urllib.error.URLError as error:
        sys.exit(f"{method} {url}: {error.reason}")
    return json.loads(text) if text else {}


def change(words: str, method: str, path: list[str], body: Any = None) -> None:
    """Say a change and, unless it is a dry run, make it."""
    if not DRY_RUN:
        ask(method, path, body)
    print(words)


def names(path: list[str]) -> set[str]:
    """The names of the roles that are there."""
    return {role["name"] for role in ask("GET", path)["roles"]}


def remove(role: str, declared: dict[str, Any]) -> None:
    """Revoke from a catalog role every grant and assignment that is not declared."""
    of_role = ["catalogs", DECLARED["catalog"], "catalog-roles", role]
    for whom in sorted(names([*of_role, "principal-roles"]) - set(declared["principal_roles"])):
        path = ["principal-roles", whom, "catalog-roles", DECLARED["catalog"], role]
        change(f"- {role}: principal role {whom}", "DELETE", path)
    for grant in ask("GET", [*of_role, "grants"])["grants"]:
        if key(grant) not in keys(declared):
            change(f"- {role}: {words_of(grant)}", "POST", [*of_role, "grants"], {"grant": grant})


def add(role: str, declared: dict[str, Any], there: bool) -> None:
    """Give a catalog role what is declared and is missing."""
    catalog = DECLARED["catalog"]
    of_role = ["catalogs", catalog, "catalog-roles", role]
    if not there:
        path = ["catalogs", catalog, "catalog-roles"]
        change(f"+ {role}", "POST", path, {"catalogRole": {"name": role}})
    # Of a dry run a role that is new can't be looked at, and has nothing.
    grants = ask("GET", [*of_role, "grants"])["grants"] if there else []
    given = {key(grant) for grant in grants}
    assigned = names([*of_role, "principal-roles"]) if there else set[str]()
    for kind, namespace, privilege in sorted(keys(declared) - given):
        grant = {"type": kind, "namespace": list(namespace), "privilege": privilege}
        change(f"+ {role}: {words_of(grant)}", "PUT", [*of_role, "grants"], {"grant": grant})
    for whom in sorted(set(declared["principal_roles"]) - assigned):
        path = ["principal-roles", whom, "catalog-roles", catalog]
        change(f"+ {role}: principal role {whom}", "PUT", path, {"catalogRole": {"name": role}})


def key(grant: dict[str, Any]) -> tuple[str, tuple[str, ...], str]:
    """What a grant gives; one whose type is not namespace is never declared."""
    return grant["type"], tuple(grant.get("namespace") or ()), grant["privilege"]


def keys(declared: dict[str, Any]) -> set[tuple[str, tuple[str, ...], str]]:
    """Every grant that a role is declared to have."""
    return {
        ("namespace", (namespace,), privilege)
        for namespace in declared["namespaces"]
        for privilege in declared["privileges"]
    }


def words_of(grant: dict[str, Any]) -> str:
    """A grant as a person reads it."""
    place = [*(grant.get("namespace") or ()), grant.get("tableName") or grant.get("viewName") or ""]
    return f"{grant['privilege']} on {grant['type']} {'.'.join(filter(None, place))}".rstrip()


def main() -> None:
    """Look whether everybody is there, then remove, then add."""
    if "POLARIS_TOKEN" not in os.environ:
        sys.exit("POLARIS_TOKEN is not set: nothing was changed")
    roles = DECLARED["roles"]
    wanted = {whom for declared in roles.values() for whom in declared["principal_roles"]}
    if missing := sorted(wanted - names(["principal-roles"])):
        sys.exit(f"no principal role {', '.join(missing)} in Polaris: nothing was changed")
    there = names(["catalogs", DECLARED["catalog"], "catalog-roles"])
    for role, declared in roles.items():
        if role in there:
            remove(role, declared)
    for role, declared in roles.items():
        if role in there or declared["principal_roles"]:
            add(role, declared, role in there)


if __name__ == "__main__":
    main()
