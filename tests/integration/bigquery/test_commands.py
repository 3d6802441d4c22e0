"""The commands: a sync publishes, `status` shows it, `bigquery check` ends with what it found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.errors import MirrorlakeError
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import FIFTY, INCREMENTAL, TABLE, address
from tests.integration.conftest import Place, share_session
from tests.support.bigquery.emulator import GoogleCloud

pytestmark = pytest.mark.full


def said(*words: str, code: int = 0) -> str:
    found = CliRunner().invoke(cli, words)
    ended = found.exception.exit_code if isinstance(found.exception, MirrorlakeError) else None
    assert (found.exit_code if ended is None else ended) == code, found.output
    return found.stdout


def test_sync_publishes_and_check_compares(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: GoogleCloud,
    dataset: str,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(TABLE, FIFTY)
    path = str(mirror({"t": INCREMENTAL}).config.path)
    share_session(place, monkeypatch)
    [first] = json.loads(said("sync", "--config", path, "--json"))["bigquery"]
    assert (first["state"], first["how"], first["rows"]) == ("success", "all rows", 50)
    [again] = json.loads(said("sync", "--config", path, "--json"))["bigquery"]
    assert again["state"] == "unchanged"
    [shown] = json.loads(said("status", "--config", path, "--json"))
    assert shown["bigquery"]["state"] == "success"
    assert shown["bigquery"]["completed"].endswith("+00:00")
    assert "equal" in said("bigquery", "check", "--config", path)
    cloud.client().query_and_wait(f"UPDATE `{address(dataset)}` SET a = 'x' WHERE id = 1")
    assert "not the same ones" in said("bigquery", "check", "--config", path, code=9)
    cloud.client().delete_table(address(dataset))
    assert "the table is not in BigQuery any more" in said("bigquery", "publish", "--config", path)
    assert "1 of 1 in BigQuery as the lake shows" in said("bigquery", "publish", "--config", path)


def test_a_sync_whose_publication_fails_says_so(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(TABLE, FIFTY)
    path = str(mirror({"t": INCREMENTAL}, bucket="no-such-bucket").config.path)
    share_session(place, monkeypatch)
    found = json.loads(said("sync", "--config", path, "--json", code=6))
    assert [one["rows"] for one in found["tables"]] == [50]
    [error] = found["errors"]
    assert (error["code"], "there is no dataset" in error["error"]) == (6, True)
    [status] = json.loads(said("status", "--config", path, "--json"))
    there = status["bigquery"]
    assert (there["state"], "there is no dataset" in there["error"]) == ("errored", True)
    assert "there is no dataset" in said("status", "--config", path)
