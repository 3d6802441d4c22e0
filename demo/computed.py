"""The demo's SQL models: put beside its contract, computed once, and shown as a table."""

from __future__ import annotations

import shutil
from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mirrorlake.cli.bars import Bars
from mirrorlake.models.model_files import FOLDER
from mirrorlake.operations.models.compiled import compile_project
from mirrorlake.operations.models.runs import run_model
from mirrorlake.operations.models.states import States
from mirrorlake.workspace import Workspace

_HERE = Path(__file__).resolve().parent / FOLDER


def put_models(folder: Path) -> None:
    """Copy the demo's models beside its contract file."""
    shutil.copytree(_HERE, folder / FOLDER)


def compute_models(workspace: Workspace, console: Console) -> None:
    """Compute every partition of every model, with a bar for each model.

    Raises:
        ModelError: a model does not compile, or its query gives something else than was inferred.
        LakeError, LedgerError
    """
    project, catalogue = compile_project(workspace.config, workspace.lake)
    project.raise_problems()
    states = States(project, catalogue, workspace.lake, workspace.ledger)
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("model", overflow="fold")
    for column in ("partitions", "rows", "seconds"):
        table.add_column(column, justify="right", overflow="fold")
    with Bars(console) as bars:
        for model in project.models.values():
            done, computed = bars.count(model.name, len(model.scopes)), 0

            def watch(_: object) -> None:
                nonlocal computed
                computed += 1
                done(computed)  # noqa: B023

            run = run_model(workspace, states, model, model.scopes, watch=watch)
            rows = sum(one.rows for one in run.computed)
            seconds = sum(one.seconds for one in run.computed)
            cells = (f"{len(run.computed):,}", f"{rows:,}", f"{seconds:,.1f}")
            table.add_row(escape(model.name), *cells)
    console.print("Models over the mirror (SQL files; see docs/models.md):")
    console.print(table)
