"""Mirrorlake: one table from MySQL into its committed raw table, by the engine's own call."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from benchmarks.sides.job import Job, serve
from mirrorlake.config import load_config
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace

_workspaces: list[Workspace] = []


def copy(job: Job) -> int:
    """A first load into namespaces of this run's own."""
    config = load_config(_contract(job))
    workspace = Workspace.open(config, spark=_workspaces[0].spark if _workspaces else None)
    _workspaces.append(workspace)
    return load_table(workspace, config.tables[0]).rows


def _contract(job: Job) -> Path:
    url = urlsplit(job.url)
    os.environ["BENCH_PASSWORD"] = url.password or ""
    # The other sides prove nothing: part `proof` says what a proof costs.
    table: dict[str, object] = {"mode": job.mode, "key": job.key, "verify": False}
    if job.cursor:
        table["cursor"] = job.cursor
    source = {
        "host": url.hostname,
        "port": url.port,
        "user": url.username,
        "password": "${env:BENCH_PASSWORD}",
        "databases": {job.database: {"tables": {job.table: table}}},
    }
    path = Path(job.folder) / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump({"version": 1, "sources": {f"run{job.run}": source}}))
    return path


if __name__ == "__main__":
    serve(copy)
