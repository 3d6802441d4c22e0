"""The demo's models: put beside its contract, computed once, and shown as a table."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from mirrorlake.cli.bars import Bars
from mirrorlake.models.cli.run_and_show import runs_table
from mirrorlake.models.compute.run import run_model
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.files.model_files import FOLDER
from mirrorlake.models.partition_states.states import States
from mirrorlake.workspace import Workspace

_HERE = Path(__file__).resolve().parent / FOLDER


def put_models(folder: Path) -> None:
    """Copy the demo's models beside its contract file."""
    shutil.copytree(_HERE, folder / FOLDER)


def keep_models(folder: Path) -> Path | None:
    """Move the models that somebody else put beside a demo's contract file out of its folder, which
    is made again; where they are, if there are any."""
    own = {one.relative_to(_HERE): one.read_bytes() for one in _files_of(_HERE)}
    there = {one.relative_to(folder / FOLDER): one for one in _files_of(folder / FOLDER)}
    mine = {name: path for name, path in there.items() if path.read_bytes() != own.get(name)}
    if not mine:
        return None
    kept = folder.with_name(f"{folder.name}-models-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    for name, path in mine.items():
        (kept / name).parent.mkdir(parents=True, exist_ok=True)
        path.rename(kept / name)
    return kept


def _files_of(folder: Path) -> list[Path]:
    found = [one for one in folder.rglob("*") if one.is_file()]
    return [one for one in found if "__pycache__" not in one.parts]


def compute_models(workspace: Workspace, console: Console) -> None:
    """Compute every partition of every model, with a bar for each model.

    Raises:
        ModelError: a model does not compile, or its query gives something else than was inferred.
        LakeError, LedgerError
    """
    project, catalogue = compile_project(workspace.config, workspace.lake)
    project.raise_problems()
    states = States(project, catalogue, workspace.lake, workspace.ledger)
    with Bars(console) as bars:
        runs = [
            run_model(
                workspace, states, one, one.scopes, watch=bars.count(one.name, len(one.scopes))
            )
            for one in project.models.values()
        ]
    console.print("Models over the mirror (SQL and Python; see docs/models.md):")
    console.print(runs_table(runs))
