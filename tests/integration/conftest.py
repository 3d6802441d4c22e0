"""One real MariaDB, one real MySQL 8, one lake and one Spark session for all integration tests.

A test makes its own database, so its tables and namespaces are its own. Tests run against MariaDB;
a module that must hold on both servers overrides ``server``::

    @pytest.fixture(scope="session")
    def server(on_both_servers): return on_both_servers
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml

from mirrorlake.config import Config, load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.refused_by_versions import refused_by_5_7, refused_by_9
from tests.soak.runs import Runner
from tests.support.mysql8 import MySQL8

USER = "mirror"
PASSWORD = "p@ss w/örd%"
STORE_SECRET = " a key of the store's: #=!\\ 'ü' \"😀\" ${a}\t"
HASH_KEY = "a key for the tests, sixteen or more"


@dataclass(frozen=True)
class Place:
    """Where all tests mirror to, and the session over it.

    Attributes:
        settings: what a contract file in the folder says of the lake.
        database: the SQLite file that has the catalog's rows, below the folder.
    """

    folder: Path
    lake: Lake
    spark: LazySpark
    settings: Mapping[str, Any] = field(default_factory=lambda: {"warehouse": "lake"})
    database: str = "lake/catalog.db"


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    with MariaDB.start(tmp_path_factory.mktemp("mysql")) as server:
        server.create_user(USER, PASSWORD)
        yield server


@pytest.fixture(scope="session")
def mysql8(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQL8]:
    folder = tmp_path_factory.mktemp("mysql8")
    log = folder / "general.log"
    with MySQL8.start(
        folder, extra_args=("--general-log=ON", f"--general-log-file={log}")
    ) as server:
        server.create_user(USER, PASSWORD)
        yield server
    assert not (found := refused_by_9(log)), f"MySQL 9 refuses: {found}"
    assert not (found := refused_by_5_7(log)), f"MySQL 5.7 refuses: {found}"


@pytest.fixture(scope="session")
def server(mariadb: MariaDB) -> EmbeddedServer:
    """The server that a test runs against."""
    return mariadb


@pytest.fixture(scope="session", params=["mariadb", "mysql8"])
def on_both_servers(request: pytest.FixtureRequest) -> EmbeddedServer:
    """Each server in turn, for modules that override ``server`` by it."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session", params=["mariadb", pytest.param("mysql8", marks=pytest.mark.full)])
def on_mysql8_too_in_full(request: pytest.FixtureRequest) -> EmbeddedServer:
    """As ``on_both_servers``, for long matrices: MySQL 8 in ``make test-full`` alone."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A lake whose path has a space and a letter outside ASCII."""
    os.environ["TEST_PASSWORD"] = PASSWORD
    os.environ["TEST_HASH_KEY"] = HASH_KEY
    folder = tmp_path_factory.mktemp("läke with space")
    config = write_config(folder, None, {})
    lake = Lake(config.lake)
    conf = {**config.spark.conf, "spark.hadoop.fs.test.secret.key": STORE_SECRET}
    spark = LazySpark(config.spark.model_copy(update={"conf": conf}), lake)
    yield Place(folder, lake, spark)
    spark.stop()


def share_session(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workspaces that commands open use the tests' session: a JVM each would cost a minute."""
    first = Workspace.open

    def opened(config: Config, run_id: str | None = None, spark: Any = None) -> Workspace:
        return first(config, run_id, spark or place.spark)

    monkeypatch.setattr(Workspace, "open", opened)


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory, place: Place) -> Iterator[Runner]:
    """Runs in processes of their own, which a test may kill, in the tests' own JVM."""

    def gateway() -> tuple[int, str]:
        java: Any = place.spark.get().sparkContext._gateway
        return java.java_parameters.port, java.java_parameters.auth_token

    runner = Runner(tmp_path_factory.mktemp("runner"), gateway)
    yield runner
    runner.stop()


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """Begin with the umask that most machines have; engines set their own."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def database(server: EmbeddedServer) -> Iterator[str]:
    """A database of the test's own."""
    name = f"t{uuid.uuid4().hex[:10]}"
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield name
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")


@pytest.fixture
def sql(server: EmbeddedServer, database: str) -> Iterator[Callable[..., Any]]:
    """Run statements in the test's database, in UTC and with a lenient mode; returns the last
    rows."""
    connection = server.admin(database)

    def run(*statements: str, values: tuple[Any, ...] = ()) -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
            for statement in statements:
                cursor.execute(statement, values or None)
            return cursor.fetchall()

    yield run
    connection.close()


@pytest.fixture
def engine_for(
    server: EmbeddedServer, place: Place, database: str
) -> Callable[[dict[str, Any]], Workspace]:
    """An engine over contracts of the test's own database: ``engine_for({"orders": {"mode":
    …}})``."""

    def make(
        tables: dict[str, Any],
        source: dict[str, Any] | None = None,
        namespaces: dict[str, str] | None = None,
    ) -> Workspace:
        section = {"tables": tables} | ({"namespaces": namespaces} if namespaces else {})
        config = write_config(place.folder, server, {database: section}, source, place.settings)
        return Workspace.open(config, spark=place.spark)

    return make


def write_config(
    folder: Path,
    server: EmbeddedServer | None,
    databases: dict[str, Any],
    source: dict[str, Any] | None = None,
    lake: Mapping[str, Any] | None = None,
) -> Config:
    """A mirrorlake.yaml in ``folder`` for one source called ``s``, loaded."""
    text = {
        "version": 1,
        "lake": dict(lake or {"warehouse": "lake"}),
        "ledger": {"url": "sqlite:///ledger.db"},
        "privacy": {"hash_key": "${env:TEST_HASH_KEY}"},
        # It costs a query of Spark a load: `test_verified` and the crashes turn it on.
        "defaults": {"verify": False},
        "sources": {
            "s": {
                "host": "127.0.0.1",
                "port": server.port if server else 1,
                "user": USER,
                "password": "${env:TEST_PASSWORD}",
                **(source or {}),
                "databases": databases,
            }
        },
    }
    path = folder / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text, allow_unicode=True), encoding="utf-8")
    return load_config(path)


@contextmanager
def connected(
    server: EmbeddedServer, database: str
) -> Iterator[pymysql.connections.Connection[Any]]:
    """A plain session of the mirror's user."""
    connection = pymysql.connect(
        host="127.0.0.1",
        port=server.port,
        user=USER,
        password=PASSWORD.encode(),  # type: ignore[arg-type]
        database=database,
        charset="utf8mb4",
        autocommit=True,
        ssl_disabled=True,
    )
    try:
        yield connection
    finally:
        connection.close()


def lake_rows(workspace: Workspace, namespace: str, table: str) -> list[dict[str, Any]]:
    """All rows of a lake table, read by PyIceberg."""
    found = workspace.lake.load(Identifier(namespace, table))
    assert found is not None, f"{namespace}.{table} is missing"
    return found.scan().to_arrow().to_pylist()
