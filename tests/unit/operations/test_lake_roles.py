"""Roles on namespaces: what the scripts say, what they do to a server, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrorlake.config.lake_permissions import load_lake_permissions
from mirrorlake.errors import ConfigError
from tests.support.polaris_server import TOKEN, Polaris, polaris_server
from tests.unit.operations.test_lake_policies import TABLES, contract, folder, text

__all__ = ["folder"]
ACCOUNT = "serviceAccount:m@p.iam.gserviceaccount.com"
FILE = f"""sets: {{readers: [group:b@x.de, group:a@x.de]}}
lake:
  raw: {{{ACCOUNT}: writer}}
  clean: {{set:readers: reader, {ACCOUNT}: writer}}
  polaris:
    url: URL
    catalog: the lake
    principal_roles: {{set:readers: analysts, {ACCOUNT}: pipeline}}
  biglake: {{project: my-project, catalog: lake}}
"""
READER = (
    *("NAMESPACE_LIST", "NAMESPACE_READ_PROPERTIES", "TABLE_LIST"),
    *("TABLE_READ_DATA", "TABLE_READ_PROPERTIES"),
)
WRITER = (
    *("NAMESPACE_FULL_METADATA", "TABLE_FULL_METADATA", "TABLE_READ_DATA"),
    *("TABLE_WRITE_DATA", "VIEW_FULL_METADATA"),
)
BIGLAKE_OF_CLEAN = """\
# clean: s_db__clean
cat >"$policy" <<'POLICY'
{
  "bindings": [
    {
      "role": "roles/biglake.viewer",
      "members": [
        "group:a@x.de",
        "group:b@x.de"
      ]
    },
    {
      "role": "roles/biglake.editor",
      "members": [
        "serviceAccount:m@p.iam.gserviceaccount.com"
      ]
    }
  ]
}
POLICY
gcloud biglake iceberg namespaces set-iam-policy 's_db__clean' "$policy" \
--catalog='lake' --project='my-project'
"""


@pytest.fixture
def polaris() -> Iterator[Polaris]:
    namespaces = {"s_db__raw", "s_db", "s_db__clean"}
    principals = {"analysts", "pipeline", "others"}
    with polaris_server(catalog="the lake", namespaces=namespaces, principals=principals) as server:
        yield server


def script(folder: Path, polaris: Polaris) -> str:
    (folder / "permissions.yaml").write_text(FILE.replace("URL", polaris.url), "utf-8")
    return text(folder, "polaris")


def run(code: str, *options: str, token: str = TOKEN, **environ: str) -> tuple[int, str, str]:
    """The script by a Python that sees nothing but the standard library."""
    where = {"PATH": os.environ["PATH"], "POLARIS_TOKEN": token, **environ}
    command = [sys.executable, "-I", "-S", "-", *options]
    done = subprocess.run(command, input=code, env=where, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def grant(privilege: str, namespace: str) -> dict[str, object]:
    return {"type": "namespace", "namespace": [namespace], "privilege": privilege}


def wanted() -> set[tuple[str, str, str]]:
    """What the file says, in Polaris's words."""
    return {
        *(("analysts", privilege, "s_db__clean") for privilege in READER),
        *(("pipeline", privilege, "s_db__clean") for privilege in WRITER),
        *(("pipeline", privilege, "s_db__raw") for privilege in WRITER),
    }


def test_a_server_becomes_as_declared_and_stays_so(folder: Path, polaris: Polaris) -> None:
    code = script(folder, polaris)
    assert code.startswith("#!/usr/bin/env python3\n# Who may do what with the lake's namespaces.")
    assert "Clean views have no files, so nobody is given any: s.db.v" in code
    assert "noqa" not in code
    failed, said, _ = run(code, "--dry-run")
    assert (failed, polaris.changes) == (0, [])
    failed, done, error = run(code)
    assert (failed, error) == (0, "")
    assert done == said
    assert "+ mirrorlake_clean_reader: TABLE_READ_DATA on namespace s_db__clean\n" in done
    assert "+ mirrorlake_clean_reader: principal role analysts\n" in done
    assert polaris.may() == wanted()
    # Nobody is declared for deduped: no role is made.
    assert set(polaris.grants) == {
        *("mirrorlake_raw_writer", "mirrorlake_clean_reader", "mirrorlake_clean_writer"),
    }
    polaris.changes.clear()
    assert run(code) == (0, "", "")
    assert polaris.changes == []


def test_what_is_not_declared_goes_and_other_roles_stay(folder: Path, polaris: Polaris) -> None:
    table = {"type": "table", "namespace": ["s_db"], "tableName": "t", "privilege": "TABLE_DROP"}
    polaris.add(
        "mirrorlake_clean_reader",
        *(grant(privilege, "s_db__clean") for privilege in READER),
        grant("TABLE_READ_DATA", "s_db__raw"),
        table,
        {"type": "catalog", "privilege": "CATALOG_MANAGE_CONTENT"},
        assigned=("analysts", "others"),
    )
    polaris.add("mirrorlake_deduped_reader", grant("TABLE_LIST", "s_db"), assigned=("others",))
    polaris.add("of_somebody_else", grant("TABLE_LIST", "s_db"), assigned=("others",))
    code = script(folder, polaris)
    failed, done, error = run(code)
    assert (failed, error) == (0, "")
    assert [line for line in done.splitlines() if line.startswith("-")] == [
        "- mirrorlake_deduped_reader: principal role others",
        "- mirrorlake_deduped_reader: TABLE_LIST on namespace s_db",
        "- mirrorlake_clean_reader: principal role others",
        "- mirrorlake_clean_reader: TABLE_READ_DATA on namespace s_db__raw",
        "- mirrorlake_clean_reader: TABLE_DROP on table s_db.t",
        "- mirrorlake_clean_reader: CATALOG_MANAGE_CONTENT on catalog",
    ]
    assert polaris.may() == wanted() | {("others", "TABLE_LIST", "s_db")}
    # Who is declared had it all the time, and nothing was given before others had gone.
    assert not any("analysts" in change for change in polaris.changes)
    first_added = next(n for n, c in enumerate(polaris.changes) if c.startswith("PUT"))
    assert not any(change.startswith("DELETE") for change in polaris.changes[first_added:])


def test_a_mistake_changes_nothing(folder: Path, polaris: Polaris) -> None:
    code = script(folder, polaris)
    failed, said, error = run(code, token="another")
    assert (failed, said) == (1, "")
    assert f"GET {polaris.url}/api/management/v1/principal-roles: 401" in error
    assert "another" not in error
    polaris.principal_roles.remove("analysts")
    assert run(code) == (1, "", "no principal role analysts in Polaris: nothing was changed\n")
    without = {"PATH": os.environ["PATH"]}
    command = [sys.executable, "-I", "-S", "-"]
    done = subprocess.run(command, input=code, env=without, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "POLARIS_TOKEN is not set: nothing was changed\n")
    assert polaris.changes == []


def test_a_namespace_that_is_not_there_is_said_by_polaris(folder: Path, polaris: Polaris) -> None:
    polaris.namespaces.remove("s_db__raw")
    failed, _, error = run(script(folder, polaris), POLARIS_REALM="ours")
    assert failed == 1
    assert "404" in error
    assert "s_db__raw does not exist" in error
    assert polaris.realms == {"ours"}


def test_biglake_is_a_script_that_runs(folder: Path, polaris: Polaris) -> None:
    script(folder, polaris)
    said = text(folder, "biglake")
    assert said.startswith("#!/bin/sh\nset -eu\n# Who may do what with the lake's namespaces.")
    assert BIGLAKE_OF_CLEAN in said
    program = folder / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "$1 $2 $3 $4 $5 $7 $8" >>"$DONE"\ncat "$6" >>"$DONE.json"\n'
    )
    program.chmod(0o755)
    done = folder / "done"
    path = f"{program.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DONE": str(done)}
    subprocess.run(["/bin/sh"], input=said, text=True, check=True, env=environment)
    assert done.read_text().splitlines() == [
        f"biglake iceberg namespaces set-iam-policy {space} --catalog=lake --project=my-project"
        for space in ("s_db__raw", "s_db", "s_db__clean")
    ]
    policies = json.loads("[" + (folder / "done.json").read_text().replace("}\n{", "},\n{") + "]")
    # Of a layer for which nobody is declared the policy is empty: what was there goes.
    assert [len(one["bindings"]) for one in policies] == [1, 0, 2]


def test_a_warehouse_outside_of_google_has_roles_too(folder: Path, polaris: Polaris) -> None:
    contract(folder, TABLES)
    path = folder / "mirrorlake.yaml"
    path.write_text(path.read_text().replace("gs://company-lake/mirror", "s3://bucket/lake"))
    assert '"s_db__clean"' in script(folder, polaris)


@pytest.mark.parametrize("form", ["polaris", "biglake"])
def test_a_catalog_of_which_nothing_is_said(folder: Path, form: str) -> None:
    with pytest.raises(ConfigError, match=f"says nothing of lake.{form}"):
        text(folder, form)


WHERE = "polaris: {url: 'https://p:8181', catalog: c, principal_roles: "


@pytest.mark.parametrize(
    ("lake", "problem"),
    [
        ("clean: {group:a@x.de: reader}\n  " + WHERE + "{}}", "lake.clean.\"group:a@x.de\": group:a@x.de has no role in Polaris: lake.polaris.principal_roles has none for it"),
        ("clean: {set:s: reader}\n  " + WHERE + "{group:a@x.de: r}}", "group:b@x.de has no role in Polaris: lake.polaris.principal_roles has none for it or for set:s"),
        ("clean: {special:allUsers: reader}\n  " + WHERE + "{}}", "is everybody, for whom Polaris has no role"),
        ("clean: {group:a@x.de: reader}\n  raw: {group:b@x.de: reader}\n  " + WHERE + "{group:a@x.de: r, group:b@x.de: r}}", "r is group:a@x.de's role, too, who has other rights: make two roles"),
        ("clean: {group:a@x.de: reader}\n  " + WHERE + "{group:a@x.de: r, group:b@x.de: q}}", "group:b@x.de has nothing in the lake: remove it"),
        ("clean: {group:a@x.de: reader}\n  " + WHERE + "{group:a@x.de: r, group:A@x.de: q}}", "group:a@x.de has a role already"),
        ("clean: {group:a@x.de: reader}\n  " + WHERE + "{group:a@x.de: ''}}", "a name in Polaris has 1 to 256 characters"),
        ("clean: {}\n  polaris: {url: 'https://u:p@h', catalog: c}", "lake.polaris.url: an address has no login in it"),
        ("clean: {}\n  polaris: {url: 'https://h', catalog: 'SYSTEM$x'}", "and is not one of system$"),
        ("clean: {}\n  polaris: {url: 'https://h', catalog: c, roles: 'A b'}", "lake.polaris.roles"),
        ("clean: {special:allUsers: reader}\n  biglake: {project: p1, catalog: c}", "whether BigLake takes special:allUsers is not documented"),
    ],
)  # fmt: skip
def test_what_cannot_be_declared(lake: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "permissions.yaml"
    path.write_text(f"sets: {{s: [group:a@x.de, group:b@x.de]}}\nlake:\n  {lake}\n", "utf-8")
    with pytest.raises(ConfigError) as found:
        load_lake_permissions(path)
    assert problem in str(found.value)


def test_members_of_a_set_may_have_roles_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "permissions.yaml"
    mapping = "{group:a@x.de: first, group:b@x.de: second}}"
    path.write_text(
        f"sets: {{s: [group:a@x.de, group:b@x.de]}}\nlake:\n  clean: {{set:s: reader}}\n  {WHERE}{mapping}\n"
    )
    found = load_lake_permissions(path).polaris
    assert found is not None
    assert found.layers["clean"] == {"first": "reader", "second": "reader"}
    assert found.layers["raw"] == {}
