"""The files of `deploy/` are what their tools take, and name what there is."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake import __version__
from mirrorlake.config import load_config
from mirrorlake.runtime.jars import pinned

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
SCHEMA = ("check-jsonschema", "--builtin-schema")


def read(name: str) -> Any:
    return yaml.safe_load((DEPLOY / name).read_text("utf-8"))


@pytest.mark.parametrize(
    "command",
    [
        (*SCHEMA, "vendor.compose-spec", "deploy/compose.yaml"),
        (*SCHEMA, "vendor.github-workflows", "deploy/release.yml"),
        ("zizmor", "--offline", "--persona=pedantic", "deploy/release.yml"),
        ("hadolint", "deploy/Containerfile"),
    ],
    ids=lambda command: f"{command[0]} {command[-1]}",
)
def test_their_linters_find_nothing(command: tuple[str, ...]) -> None:
    name, *arguments = command
    ended = subprocess.run(
        [BIN / name, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("wrong", "command"),
    [
        ("services: {code: {comand: x}}", (*SCHEMA, "vendor.compose-spec")),
        ("on: push\njobs: {a: {steps: []}}", (*SCHEMA, "vendor.github-workflows")),
        (
            "on: push\njobs: {a: {runs-on: x, steps: [{uses: actions/checkout@v7}]}}",
            ("zizmor", "--offline", "--persona=pedantic"),
        ),
        ("FROM debian\nRUN cd /tmp && sudo ls\n", ("hadolint",)),
    ],
)
def test_the_linters_find_what_is_wrong(
    wrong: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "wrong.yml"
    path.write_text(wrong)
    name, *arguments = command
    assert subprocess.run(
        [BIN / name, *arguments, path], capture_output=True, check=False
    ).returncode


def test_the_contract_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in re.findall(r"\$\{env:(\w+)\}", (DEPLOY / "mirrorlake.yaml").read_text()):
        monkeypatch.setenv(name, "a-password")
    config = load_config(DEPLOY / "mirrorlake.yaml")
    assert config.lake.warehouse == "/srv/mirrorlake/lake"


def test_the_parts_name_one_another() -> None:
    services = read("compose.yaml")["services"]
    contract, storage = read("mirrorlake.yaml"), read("storage.yaml")["storage"]["postgres"]
    assert services.keys() == {"postgres", "spark", "code", "webserver", "daemon"}
    named = re.findall(r"@(\w+):5432/(\w+)", f"{contract['ledger']} {contract['lake']}")
    named.append((storage["postgres_db"]["hostname"], storage["postgres_db"]["db_name"]))
    made = re.findall(r"CREATE DATABASE (\w+)", (DEPLOY / "databases.sql").read_text())
    assert sorted(named) == sorted(("postgres", name) for name in made)
    host, port = re.fullmatch(r"sc://(\w+):(\d+)", contract["spark"]["connect"]).groups()
    assert services[host]["command"][-1] == port
    server = read("workspace.yaml")["load_from"][0]["grpc_server"]
    assert services[server["host"]]["command"][-1] == str(server["port"])
    passwords = set(re.findall(r"\$\{env:(\w+)\}", str(contract)))
    for name in ("spark", "code"):  # what reads the sources has their passwords
        assert passwords <= services[name]["environment"].keys()
    for name in ("webserver", "daemon"):
        assert services[name]["environment"].keys() == {"POSTGRES_PASSWORD"}


def test_nothing_but_the_ui_is_open_and_that_to_this_machine_alone() -> None:
    services = read("compose.yaml")["services"]
    ports = {name: one.get("ports") for name, one in services.items() if one.get("ports")}
    assert ports == {"webserver": ["127.0.0.1:3000:3000"]}


def test_images_carry_the_version() -> None:
    values = read("helm-values.yaml")
    [deployment] = values["dagster-user-deployments"]["deployments"]
    images = [deployment, values["dagsterWebserver"], values["dagsterDaemon"]]
    assert {one["image"]["tag"] for one in images} == {__version__}
    assert f"mirrorlake:{__version__}" in (DEPLOY / "compose.yaml").read_text()
    module = read("compose.yaml")["services"]["code"]["command"][3:5]
    assert deployment["codeServerArgs"] == module == ["-m", "dagster_mirrorlake.definitions"]


def test_the_image_is_made_of_files_that_there_are() -> None:
    text = (DEPLOY / "Containerfile").read_text().replace("\\\n", " ")
    sources = [
        name
        for line in re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
        for name in line.split()
    ]
    assert len(sources) > 5
    assert all((ROOT / name).exists() for name in sources)
    [groups] = re.findall(r"ensure_jars\((\[.*?\])\)", text)
    assert len(pinned(yaml.safe_load(groups))) >= 3
