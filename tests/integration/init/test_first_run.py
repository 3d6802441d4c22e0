"""docs/first-landing.md is run, command by command, and prints what stands there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from tests.integration.conftest import Place
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands

PAGE = Path(__file__).parents[3] / "docs" / "first-landing.md"
HOME = "/home/you/prices"
BLOCK = re.compile(r"^```(sh|text|yaml)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = re.compile(r"\b\d+(\.\d+)? s$", re.MULTILINE)


def run(script: str) -> str:
    """What a block prints: our commands here, the others by a shell."""
    printed = ""
    shell: list[str] = []
    for line in (*script.splitlines(), "mirrorlake"):
        if not line.startswith("mirrorlake"):
            shell.append(line)
            continue
        done = subprocess.run(
            ["bash", "-ec", "\n".join(shell)], check=True, capture_output=True, text=True
        )
        printed, shell = printed + done.stdout, []
        if line != "mirrorlake":
            printed += CliRunner().invoke(cli, shlex.split(line)[1:]).output
    return printed


@pytest.mark.full
def test_the_first_run_prints_what_the_page_says(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = place.folder / "first run"
    folder.mkdir()
    # What other tests left under these names is another project's.
    catalog = place.lake.catalog
    for space in catalog.list_namespaces():
        for table in catalog.list_tables(space) if space[0].startswith("web_shop") else ():
            catalog.drop_table(table)
    monkeypatch.chdir(folder)
    contract = folder / "mirrorlake.yaml"
    found = BLOCK.findall(PAGE.read_text("utf-8"))
    printed: str | None = None
    compared = 0
    for kind, text in found:
        if kind == "sh":
            if contract.exists():  # the tests' one session knows one lake
                told = contract.read_text("utf-8")
                told = told.replace("warehouse: .mirrorlake/lake", "warehouse: ../lake")
                contract.write_text(told, "utf-8")
            printed = run(text).replace(os.fspath(folder), HOME)
        else:
            assert printed is not None
            assert SECONDS.sub("… s", printed) == SECONDS.sub("… s", text)
            compared += 1
    assert compared == 7
