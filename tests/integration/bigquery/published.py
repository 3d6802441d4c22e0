"""What the tests here share: a sync, a load into BigQuery, and what a reader sees there."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.check import BigQueryVerdict, check_published
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.bigquery.loads.publish import PublishOutcome, publish_table
from mirrorlake.config import load_config
from mirrorlake.models.bigquery.published import PublishedModel
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.support.bigquery.cloud import Cloud

TABLE = """CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20),
    at DATETIME(6) NOT NULL DEFAULT NOW(6) ON UPDATE NOW(6), KEY (at))"""
FIFTY = "INSERT INTO t SELECT seq, 'old', '2026-01-02 03:04:05.678901' FROM seq_1_to_50"
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "at"}


def client_of(workspace: Workspace) -> BigQuery:
    settings = workspace.config.written_section(BigQueryConfig)
    assert settings is not None
    return BigQuery.open(settings)


def published(workspace: Workspace, name: str = "t") -> PublishOutcome:
    return publish_table(workspace, workspace.config.table(name), client_of(workspace))


def synced(workspace: Workspace, name: str = "t") -> PublishOutcome:
    sync_table(workspace, workspace.config.table(name))
    return published(workspace, name)


def checked(workspace: Workspace, name: str = "t") -> BigQueryVerdict:
    return check_published(workspace, workspace.config.table(name), client_of(workspace))


def rows_there(cloud: Cloud, dataset: str, name: str = "t") -> dict[Any, Any]:
    """id → a, as Google's client reads the table; each id once."""
    found = [(row["id"], row["a"]) for row in cloud.client().list_rows(address(dataset, name))]
    assert len(dict(found)) == len(found)
    return dict(found)


def address(dataset: str, name: str = "t") -> str:
    """A table of the project that the client has."""
    return f"{dataset}.{name}"


def left_over(cloud: Cloud, dataset: str, table: str = "t") -> list[str]:
    """Files and tables that are there beside the table itself."""
    tables = [str(one.table_id) for one in cloud.client().list_tables(dataset)]
    return cloud.objects() + [name for name in tables if name != table]


def killed(path: Path, name: str, table: str = "t", model: PublishedModel | None = None) -> None:
    """Publish in a process of its own that is killed at a failpoint; its lease is free then."""
    pid = os.fork()
    if pid == 0:
        os.environ["MIRRORLAKE_FAILPOINT"] = name
        try:
            config = load_config(path)
            tables = [one for one in config.in_bigquery if one.table == table]
            [contract] = tables if model is None else [model]
            workspace = Workspace.open(config)
            publish_table(workspace, contract, client_of(workspace))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
