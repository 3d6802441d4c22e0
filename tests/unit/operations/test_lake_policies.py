"""Permissions of the lake's files: what the text for Terraform and gcloud says, and what is refused."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli import cli
from mirrorlake.config import permissions_schema
from mirrorlake.config.lake_permissions import load_lake_permissions
from mirrorlake.errors import ConfigError
from tests.integration.contract_files import write_contract

PAGE = (Path(__file__).parents[3] / "docs" / "lake-permissions.md").read_text("utf-8")
FILE = """sets: {readers: [group:b@x.de, group:a@x.de]}
lake:
  raw: {serviceAccount:m@p.iam.gserviceaccount.com: writer}
  clean: {set:readers: reader, special:allAuthenticatedUsers: reader, "domain:x.de": reader}
"""
TABLES = {
    "t": {"mode": "full", "key": ["id"], "clean": "table"},
    "v": {"mode": "full", "key": ["id"]},
}
HEADING = """\
# Who may read which files of the lake. Written by `mirrorlake permissions lake`.
# Rights on the bucket or the project hold for each folder: give readers none there.
# Whoever may read a file reads all of its columns: raw and deduped have personal data.
# Clean views have no files, so nobody is given any: s.db.v
"""
TERRAFORM_OF_CLEAN = """\
resource "google_storage_managed_folder" "lake_s_db__clean" {
  bucket = "company-lake"
  name   = "mirror/s_db__clean/"
}

data "google_iam_policy" "lake_s_db__clean" {
  binding {
    role = "roles/storage.objectViewer"
    members = [
      "domain:x.de",
      "group:a@x.de",
      "group:b@x.de",
      "allAuthenticatedUsers",
    ]
  }
}

resource "google_storage_managed_folder_iam_policy" "lake_s_db__clean" {
  bucket         = google_storage_managed_folder.lake_s_db__clean.bucket
  managed_folder = google_storage_managed_folder.lake_s_db__clean.name
  policy_data    = data.google_iam_policy.lake_s_db__clean.policy_data
}
"""
GCLOUD_OF_RAW = """\
# raw: s_db__raw
gcloud storage managed-folders describe 'gs://company-lake/mirror/s_db__raw/' >/dev/null 2>&1 || \
gcloud storage managed-folders create 'gs://company-lake/mirror/s_db__raw/'
cat >"$policy" <<'POLICY'
{
  "bindings": [
    {
      "role": "roles/storage.objectUser",
      "members": [
        "serviceAccount:m@p.iam.gserviceaccount.com"
      ]
    }
  ]
}
POLICY
gcloud storage managed-folders set-iam-policy 'gs://company-lake/mirror/s_db__raw/' "$policy"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("TEST_HASH_KEY", "TEST_PASSWORD"):
        monkeypatch.setenv(name, "x" * 32)
    contract(tmp_path)
    (tmp_path / "permissions.yaml").write_text(FILE, "utf-8")
    return tmp_path


def contract(folder: Path, tables: Any = TABLES, **database: Any) -> None:
    where = {"warehouse": "gs://company-lake/mirror", "catalog": {"uri": "https://c.example.com"}}
    databases = {"db": {"tables": tables, **database}}
    write_contract(folder / "mirrorlake.yaml", 1, databases, lake=where)


def text(folder: Path, form: str) -> str:
    path = str(folder / "mirrorlake.yaml")
    found = CliRunner().invoke(cli, ["permissions", "lake", "--config", path, "--format", form])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == 0, found.output
    return found.stdout


def test_terraform(folder: Path) -> None:
    said = text(folder, "terraform")
    assert said.startswith(HEADING)
    assert said.endswith(TERRAFORM_OF_CLEAN)
    # Of a layer for which nobody is declared the policy is empty: what was there goes.
    assert 'data "google_iam_policy" "lake_s_db" {\n}' in said
    assert re.findall(r'managed_folder" "(\w+)"', said) == [
        "lake_s_db__raw",
        "lake_s_db",
        "lake_s_db__clean",
    ]


def test_gcloud_is_a_script_that_runs(folder: Path) -> None:
    said = text(folder, "gcloud")
    assert said.startswith("#!/bin/sh\nset -eu\n" + HEADING)
    assert GCLOUD_OF_RAW in said
    program = folder / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$3 $4" >>"$DONE"\n[ "$3" = describe ] && exit 1\n'
                       '[ "$3" = set-iam-policy ] && cat "$5" >>"$DONE.json"\nexit 0\n')  # fmt: skip
    program.chmod(0o755)
    done = folder / "done"
    path = f"{program.parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DONE": str(done)}
    subprocess.run(["/bin/sh"], input=said, text=True, check=True, env=environment)
    assert done.read_text().splitlines() == [
        f"{verb} gs://company-lake/mirror/{space}/"
        for space in ("s_db__raw", "s_db", "s_db__clean")
        for verb in ("describe", "create", "set-iam-policy")
    ]
    policies = json.loads("[" + (folder / "done.json").read_text().replace("}\n{", "},\n{") + "]")
    assert [len(one["bindings"]) for one in policies] == [1, 0, 1]


def test_views_have_no_folder(folder: Path) -> None:
    contract(folder, {"v": TABLES["v"]})
    said = text(folder, "gcloud")
    assert "s_db__clean" not in said
    assert "allAuthenticatedUsers" not in said


def test_the_place_may_be_another(folder: Path) -> None:
    (folder / "permissions.yaml").write_text(FILE.replace("lake:", "lake:\n  place: gs://copy"))
    assert "'gs://copy/s_db__raw/'" in text(folder, "gcloud")


def test_what_cannot_be_written(folder: Path) -> None:
    contract(folder, namespaces={"raw": "one", "clean": "one"})
    with pytest.raises(ConfigError, match="one"):
        text(folder, "gcloud")
    write_contract(folder / "mirrorlake.yaml", 1, {"db": {"tables": TABLES}})
    with pytest.raises(ConfigError, match=r"the warehouse file:///\S+ is in no bucket"):
        text(folder, "gcloud")


@pytest.mark.parametrize(
    ("lake", "problem"),
    [
        ("raw: {special:allUsers: reader}", "special:allUsers is everybody, and raw has p"),
        ("clean: {special:allUsers: writer}", "who may be no more than reader"),
        ("clean: {special:projectOwners: reader}", "is a group of BigQuery's: write a Google group"),
        ("clean: {group:a@x.de: reader, set:s: reader}", "group:a@x.de is declared already, by group:a@x.de"),
        ("clean: {set:t: reader}", "there is no set 't'"),
        ("clean: {user:a@x.de: reader}", "is a person"),
        ("clean: {group:a@x.de: owner}", "lake.clean"),
        ("place: s3://b", "lake.place"),
        ("cleam: {}", "unknown key"),
    ],
)  # fmt: skip
def test_what_cannot_be_declared(lake: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "permissions.yaml"
    path.write_text(f"sets: {{s: [group:a@x.de]}}\nlake:\n  {lake}\n", "utf-8")
    with pytest.raises(ConfigError) as found:
        load_lake_permissions(path)
    assert problem in str(found.value)
    assert f"{path}:3:" in str(found.value)


def test_a_file_without_the_lake(tmp_path: Path) -> None:
    path = tmp_path / "permissions.yaml"
    path.write_text("sets: {s: [group:a@x.de]}\n", "utf-8")
    with pytest.raises(ConfigError, match="says nothing of the lake"):
        load_lake_permissions(path)


def test_every_field_is_documented_and_the_example_is_one(tmp_path: Path) -> None:
    for head, section in (
        ("field", "LakeSection"),
        ("`lake.polaris`", "PolarisSection"),
        ("`lake.biglake`", "BigLakeSection"),
    ):
        fields = permissions_schema()["$defs"][section]["properties"]
        described = PAGE.partition(f"| {head} | default | meaning |")[2].partition("\n\n")[0]
        assert re.findall(r"^\| `(\w+)` \|", described, flags=re.MULTILINE) == list(fields)
    path = tmp_path / "permissions.yaml"
    path.write_text(re.findall(r"```yaml\n(.+?)```", PAGE, flags=re.DOTALL)[0], "utf-8")
    found = load_lake_permissions(path)
    assert found.place == "gs://company-lake/mirror"
    assert dict(found.layers["clean"]) == {
        "group:analysts@example.com": "reader",
        "group:finance@example.com": "reader",
        "serviceAccount:mirrorlake@my-project.iam.gserviceaccount.com": "writer",
    }
