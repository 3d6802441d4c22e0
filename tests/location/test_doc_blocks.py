"""Blocks of the documents that Dagster reads: its commands, its files, its Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import dagster as dg
import pytest
import yaml
from dagster._cli import create_dagster_cli
from dagster._config import process_config
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._core.workspace.config_schema import process_workspace_config
from dagster._daemon.cli import create_dagster_daemon_cli
from dagster.components.testing import create_defs_folder_sandbox
from dagster_webserver.cli import dagster_webserver

from tests.location.contracts import SMALL
from tests.support.documents import shell
from tests.support.documents.blocks import ALL_BLOCKS, Block
from tests.support.documents.yaml_blocks import DAGSTER

Write = Callable[[Any], Path]
COMMANDS: Mapping[str, click.Command] = {
    "dagster": create_dagster_cli(),
    "dagster-daemon": create_dagster_daemon_cli(),
    "dagster-webserver": dagster_webserver,
}
PYTHON = ("dagster.md", "dataproc.md")


def is_dagsters(block: Block) -> bool:
    if block.language != "yaml" or block.text.startswith("---"):
        return False
    return next(iter(yaml.safe_load(block.text))) in DAGSTER


def params(blocks: list[Block]) -> list[Any]:
    assert blocks
    return [pytest.param(block, id=block.place) for block in blocks]


def test_each_command_of_dagsters_has_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # One that a page shows, and the repository's own.
    for name in ("workspace-grpc.yaml", "path/to/the/clone/workspace.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    found = [
        words
        for block in ALL_BLOCKS
        if block.language == "sh" and not block.not_run
        for words in shell.commands_of(block.text)
        if words[0] in COMMANDS
    ]
    assert {words[0] for words in found} == {*COMMANDS} == shell.DAGSTER
    for program, *words in found:
        shell.parse(COMMANDS[program], words)


@pytest.mark.parametrize("block", params([b for b in ALL_BLOCKS if is_dagsters(b)]))
def test_each_file_of_dagsters_is_read_by_it(
    block: Block, contract_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "x")
    said = yaml.safe_load(block.text)
    if "load_from" in said:
        result = process_workspace_config(said)
    elif "type" in said:
        tables = {**SMALL["shop"]["tables"], "tmp_x": {"mode": "full", "key": ["id"]}}
        load_component(said, contract_file({"shop": {"tables": tables}}))
        return
    else:
        result = process_config(dagster_instance_config_schema(), said)
    assert result.success, result.errors


def load_component(said: Mapping[str, Any], contract: Path) -> None:
    with create_defs_folder_sandbox() as sandbox:
        folder = sandbox.defs_folder_path / "mirror"
        folder.mkdir(parents=True)
        (folder / "mirrorlake.yaml").write_text(contract.read_text("utf-8"))
        (folder / "defs.yaml").write_text(yaml.safe_dump(said))
        with sandbox.build_all_defs() as defs:
            dg.Definitions.validate_loadable(defs)


@pytest.mark.parametrize(
    "block", params([b for b in ALL_BLOCKS if b.language == "python" and b.page.name in PYTHON])
)
def test_each_python_of_dagsters_runs(
    block: Block, contract_file: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(contract_file(SMALL).parent)
    found: dict[str, Any] = {"__name__": "shown"}
    exec(compile(block.text, block.place, "exec"), found)  # noqa: S102 - the page's own example
    if "defs" in found:
        dg.Definitions.validate_loadable(found["defs"])
