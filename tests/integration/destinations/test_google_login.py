"""A lake in a catalog that takes Google's tokens: Google's own libraries log in at an endpoint on
loopback."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from google.auth import _exponential_backoff
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField

from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.tables import create_table
from mirrorlake.errors import CatalogFailed, CommitUnknown, LakeError
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.contract_files import write_contract
from tests.support.command import COMMAND
from tests.support.google_tokens import GoogleTokens, running_tokens
from tests.support.rest_catalog import RestCatalogServer, running_catalog

FILE = "GOOGLE_APPLICATION_CREDENTIALS"
TABLE = {"mode": "incremental", "key": ["id"], "cursor": "at", "clean": "table"}
CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(10,2), at DATETIME(6) NOT NULL"
    " DEFAULT UTC_TIMESTAMP(6), KEY (at))",
    "INSERT INTO t (id, a) VALUES (1, 1.10), (2, NULL), (3, -3)",
)
MORE = (
    "INSERT INTO t (id, a) VALUES (4, 4)",
    "UPDATE t SET a = a + 1, at = UTC_TIMESTAMP(6) WHERE id = 1",
)


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GoogleTokens]:
    """The endpoint; this process's account is the one that it knows, and nobody else's."""
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    # What Google's library waits for between its tries of a token, seconds in all.
    monkeypatch.setattr(_exponential_backoff, "time", SimpleNamespace(sleep=lambda _: None))
    with running_tokens(tmp_path) as endpoint:
        monkeypatch.setenv(FILE, str(endpoint.file))
        yield endpoint


@pytest.fixture
def catalog(tmp_path: Path, tokens: GoogleTokens) -> Iterator[RestCatalogServer]:
    with running_catalog(tmp_path, f"file://{tmp_path}/unused") as server:
        server.accepts = tokens.accepts
        yield server


@pytest.fixture
def config_path(tmp_path: Path, catalog: RestCatalogServer) -> Path:
    """A contract without a table, for what needs no source."""
    return contract(tmp_path, catalog, 1, {})


def contract(folder: Path, catalog: RestCatalogServer, port: int, tables: dict[str, Any]) -> Path:
    google = {"uri": catalog.uri, "auth": "google", "project": "a-project", "name": "mirror"}
    lake = {"warehouse": "lake", "catalog": google}
    return write_contract(folder / "mirrorlake.yaml", port, tables, lake=lake)


def open_lake(config_path: Path) -> Lake:
    return Lake(
        load_config(config_path, environ={"TEST_PASSWORD": "x", "TEST_HASH_KEY": "k" * 20}).lake
    )


def make_table(lake: Lake, name: str = "t") -> Any:
    schema = Schema(NestedField(1, "id", LongType(), required=False))
    return create_table(lake, Identifier("s", name), schema, UNPARTITIONED_PARTITION_SPEC, {})


def assert_nowhere(tokens: GoogleTokens, text: str) -> None:
    assert tokens.given
    assert not [token for token in tokens.given if token in text]


def test_requests_carry_the_accounts_token_and_the_project(
    config_path: Path, catalog: RestCatalogServer, tokens: GoogleTokens
) -> None:
    lake = open_lake(config_path)
    table = make_table(lake)
    assert lake.load(Identifier("s", "t")) is not None
    assert len(tokens.given) == 1
    (token,) = tokens.given
    assert {headers["authorization"] for headers in catalog.headers} == {f"Bearer {token}"}
    assert {headers["x-goog-user-project"] for headers in catalog.headers} == {"a-project"}
    assert catalog.headers[0]["query"] == "warehouse=bl://projects/a-project/catalogs/mirror"
    # What a chunk's task is given is pickled, and goes to a worker: it logs in by itself there.
    assert token.encode() not in pickle.dumps(dict(table.io.properties))
    assert not [headers for headers in catalog.headers if "x-iceberg-access-delegation" in headers]


def test_a_namespace_says_where_its_tables_are(
    config_path: Path, catalog: RestCatalogServer
) -> None:
    lake = open_lake(config_path)
    make_table(lake)
    said = catalog.catalog.load_namespace_properties("s")
    assert said["location"] == f"{lake.warehouse}/s"


def test_a_token_that_is_about_to_end_is_asked_for_again(
    config_path: Path, catalog: RestCatalogServer, tokens: GoogleTokens
) -> None:
    tokens.lifetime = 1.0
    lake = open_lake(config_path)
    make_table(lake)
    time.sleep(1.1)
    assert not [token for token in tokens.given if tokens.accepts(token)]
    assert lake.load(Identifier("s", "t")) is not None
    assert len(tokens.given) > 2


@pytest.mark.parametrize("file", [None, "missing.json"])
def test_nobody_is_logged_in(
    config_path: Path,
    catalog: RestCatalogServer,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    file: str | None,
) -> None:
    if file is None:
        monkeypatch.delenv(FILE)
    else:
        monkeypatch.setenv(FILE, str(tmp_path / file))
    with pytest.raises(CatalogFailed, match="nobody is logged in to Google Cloud") as caught:
        open_lake(config_path)
    assert "gcloud auth application-default login" in str(caught.value)
    assert not caught.value.retryable
    assert catalog.asked == []


@pytest.mark.parametrize(
    ("status", "words", "retryable"), [(400, "invalid_grant", False), (503, "unavailable", True)]
)
def test_google_gives_no_token(
    config_path: Path, tokens: GoogleTokens, status: int, words: str, retryable: bool
) -> None:
    tokens.status, tokens.words = status, words
    with pytest.raises(CatalogFailed, match=f"Google gave no token: {words}") as caught:
        open_lake(config_path)
    assert caught.value.retryable is retryable


@pytest.mark.parametrize("status", [401, 403])
def test_an_account_that_is_refused_is_one_error(
    config_path: Path, catalog: RestCatalogServer, tokens: GoogleTokens, status: int
) -> None:
    catalog.forbids = status == 403
    catalog.accepts = None
    with pytest.raises(LakeError, match=f"{catalog.uri} refuses this account") as caught:
        open_lake(config_path)
    assert "roles/biglake.editor" in str(caught.value)
    assert "a-project" in str(caught.value)
    assert_nowhere(tokens, str(caught.value))


def test_a_login_that_ends_within_a_commit_leaves_it_unknown(
    config_path: Path, catalog: RestCatalogServer, tokens: GoogleTokens
) -> None:
    """Nobody can say that nothing was done: files of it must stay."""
    tokens.lifetime = 1.0
    lake, there = open_lake(config_path), Identifier("s", "t")

    def landed() -> bool:
        return lake.load(there) is not None

    def commit() -> None:
        with lake.committing(there, landed, lambda: LakeError("refused")):
            make_table(lake)
            tokens.status, tokens.words = 503, "unavailable"
            time.sleep(1.1)
            lake.catalog.load_table(there.path)

    with pytest.raises(CommitUnknown, match="whether the commit was made is not known"):
        commit()
    tokens.status = 200
    assert landed()


def test_no_token_is_said(
    config_path: Path,
    tokens: GoogleTokens,
    catalog: RestCatalogServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEST_PASSWORD", "x")
    monkeypatch.setenv("TEST_HASH_KEY", "k" * 20)
    catalog.forbids = True
    with caplog.at_level(logging.DEBUG):
        result = CliRunner().invoke(cli, ["doctor", "--config", str(config_path)])
        with suppress(LakeError):
            make_table(open_lake(config_path))
    assert "refuses this account" in result.output
    assert_nowhere(tokens, result.output + caplog.text)


# --- both clients, in processes of their own ------------------------------------------------------


def run(config_path: Path, tokens: GoogleTokens, *words: str) -> str:
    """A command in a process with a JVM of its own; what it printed. No token is in any process's
    command line."""
    command = [*COMMAND, *words, "--config", str(config_path)]
    with subprocess.Popen(
        command, env={**os.environ}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None:
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    assert_nowhere_bytes(tokens, line.read_bytes())
            time.sleep(0.5)
        printed, errors = process.communicate()
    said = printed.decode() + errors.decode()
    assert process.returncode == 0, said
    assert_nowhere(tokens, said)
    return said


def assert_nowhere_bytes(tokens: GoogleTokens, text: bytes) -> None:
    assert not [token for token in tokens.given if token.encode() in text]


@pytest.mark.full
@pytest.mark.parametrize("lifetime", [3600.0, 2.0], ids=["one token", "tokens that end"])
def test_a_sync_with_both_clients(
    tmp_path: Path,
    catalog: RestCatalogServer,
    tokens: GoogleTokens,
    server: EmbeddedServer,
    database: str,
    sql: Callable[..., Any],
    place: Any,
    lifetime: float,
) -> None:
    """Loads by PyIceberg, folds by Spark."""
    tokens.lifetime = lifetime
    path = contract(tmp_path, catalog, server.port, {database: {"tables": {"t": TABLE}}})
    sql(*CREATE)
    run(path, tokens, "sync")
    sql(*MORE)
    run(path, tokens, "sync")
    run(path, tokens, "check", f"s.{database}.t")
    ours = [one for one in catalog.headers if "pyiceberg" in one.get("user-agent", "").lower()]
    sparks = [one for one in catalog.headers if one not in ours]
    assert ours
    assert sparks
    assert all(one["x-goog-user-project"] == "a-project" for one in catalog.headers)
    assert all(tokens.given.get(one["authorization"].removeprefix("Bearer ")) for one in sparks)
    if lifetime < 10:
        assert len(tokens.given) > 10
    workspace = Workspace.open(load_config(path))
    deduped = workspace.lake.load(Identifier(f"s_{database}", "t"))
    with server.admin() as admin:
        verdict = compare_table(admin, database, "t", ("id",), deduped)
    assert verdict.equal, verdict.describe()
    for file in (path, *tmp_path.glob("ledger.db*"), *tmp_path.rglob("*.metadata.json")):
        assert_nowhere_bytes(tokens, file.read_bytes())
