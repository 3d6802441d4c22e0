"""TLS with a checked certificate, on both servers: rows come encrypted, and a mismatch is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.errors import SourceError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.charsets import read_server_forms
from mirrorlake.sources.mysql.binlog.log_reader import LogReader
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.reading.reader import read_batches
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace
from tests.integration.binlogs import images, log_end
from tests.integration.certificates import write_certificates
from tests.integration.conftest import PASSWORD, USER
from tests.integration.sources.mysql.test_types import assert_exact
from tests.support.mysql8 import MySQL8

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
FULL = {"t": {"mode": "full", "key": ["id"]}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates of ours")


@pytest.fixture(scope="module", params=[MariaDB, MySQL8])
def server(
    request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedServer]:
    certificates = folder / request.param.__name__
    arguments = write_certificates(certificates, "127.0.0.1")
    started = request.param.start(tmp_path_factory.mktemp("tls"), extra_args=arguments)
    with started as server:
        server.create_user(USER, PASSWORD)
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"ALTER USER '{USER}'@'%' REQUIRE SSL")
        yield server


@pytest.fixture
def ca(server: EmbeddedServer, folder: Path) -> Path:
    return folder / type(server).__name__ / "ca.pem"


@pytest.mark.parametrize("checked", [True, pytest.param(False, marks=pytest.mark.full)])
def test_rows_come_encrypted(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, ca: Path, checked: bool
) -> None:
    """The user may come in no other way."""
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(100) CHARACTER SET utf8mb4, b LONGBLOB)",
        "INSERT INTO t VALUES (1, 'ü 😀', x'00ff'), (2, NULL, REPEAT('x', 3000000)), (3, '', '')",
    )
    workspace = engine_for(FULL, {"tls": {"ca": str(ca)} if checked else "required"})
    sync_table(workspace, workspace.config.table("t"))
    assert_exact(server, workspace, database, "t", ("id",))
    source = workspace.config.sources["s"]
    [batch] = read_batches(source, database, "SELECT CONNECTION_ID() AS c, VERSION() AS v")
    assert batch.num_rows == 1


@pytest.mark.parametrize("near", [True, pytest.param(False, marks=pytest.mark.full)])
def test_many_rows(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, ca: Path, near: bool
) -> None:
    sql("CREATE TABLE d (n INT)", f"INSERT INTO d VALUES {', '.join(f'({n})' for n in range(400))}")
    source = engine_for(FULL, {"tls": {"ca": str(ca)}}).config.sources["s"]
    statement = "SELECT a.n * 400 + b.n AS n, REPEAT('x', 200) AS t FROM d a, d b"
    batches = read_batches(source, database, statement, near=near)
    numbers = [n for batch in batches for n in batch[0].to_pylist()]
    assert sorted(numbers) == list(range(160_000))


def test_a_certificate_of_another_authority(
    database: str, sql: Sql, engine_for: EngineFor, tmp_path: Path
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    write_certificates(tmp_path / "other", "127.0.0.1")
    workspace = engine_for(FULL, {"tls": {"ca": str(tmp_path / "other" / "ca.pem")}})
    with pytest.raises(SourceError, match="certificate") as caught:
        sync_table(workspace, workspace.config.table("t"))
    assert "tls.ca" in str(caught.value)
    source = workspace.config.sources["s"]
    with pytest.raises(SourceError, match="certificate"):
        list(read_batches(source, database, "SELECT 1 AS a"))


def test_a_certificate_of_another_host(
    server: EmbeddedServer, database: str, engine_for: EngineFor, ca: Path
) -> None:
    """It is for 127.0.0.1, and the contract says localhost."""
    source = engine_for(FULL, {"tls": {"ca": str(ca)}, "host": "localhost"}).config.sources["s"]
    with pytest.raises(SourceError, match="certificate"), session(source, database):
        pass
    with pytest.raises(SourceError, match="certificate"):
        list(read_batches(source, database, "SELECT 1 AS a"))


def test_a_server_without_tls(mariadb: MariaDB, engine_for: EngineFor, ca: Path) -> None:
    config = engine_for(FULL, {"tls": {"ca": str(ca)}, "port": mariadb.port}).config
    with pytest.raises(SourceError, match=r"SSL is required.*Switch TLS on"):
        list(read_batches(config.sources["s"], "mysql", "SELECT 1 AS a"))


def test_a_query_that_fails_is_told_in_the_servers_words(
    database: str, engine_for: EngineFor, ca: Path
) -> None:
    source = engine_for(FULL, {"tls": {"ca": str(ca)}}).config.sources["s"]
    with pytest.raises(SourceError, match="nothing"):
        list(read_batches(source, database, "SELECT nothing FROM dual"))


def test_the_binary_log_comes_encrypted(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: EngineFor, ca: Path
) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    source = engine_for(FULL, {"tls": {"ca": str(ca)}}).config.sources["s"]
    tables = {(database, "t"): FollowedTable()}
    with session(source) as asked, LogTransport(source, start, 7, follow=False) as transport:
        forms = read_server_forms(asked)
        reader = LogReader(start, tables, forms, checksums=transport.checksums)
        batches = list(reader.batches(transport.packets()))
    assert images(batches, "t").column("id").to_pylist() == [1, 2]
