"""Two servers that replicate: after a failover tables that follow the log go on from where they
stand, where the other server's log has what follows; else they are read again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from mirrorlake.errors import SourceError
from mirrorlake.operations.loading.accept import accept_server
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place, write_config
from tests.integration.operations.test_follow_log import LOG, TABLE, assert_equal, kinds, sync_all


@dataclass(frozen=True)
class Pair:
    """A primary, and its replica."""

    first: MariaDB
    second: MariaDB

    def wait(self) -> None:
        [(position,)] = run(self.first, "SELECT @@gtid_binlog_pos")
        [(state,)] = run(self.second, f"SELECT MASTER_GTID_WAIT('{position}', 30)")
        assert state == 0


def run(server: MariaDB, *statements: str, database: str | None = None) -> Any:
    with server.admin(database) as admin, admin.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)
        return cursor.fetchall()


@pytest.fixture
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    more = ("--server-id=2", "--log-slave-updates=1")
    with (
        MariaDB.start(tmp_path_factory.mktemp("first")) as first,
        MariaDB.start(tmp_path_factory.mktemp("second"), extra_args=more) as second,
    ):
        for server in (first, second):
            server.create_user(USER, PASSWORD)
            run(server, "RESET MASTER", "SET GLOBAL gtid_slave_pos = ''")
        run(
            second,
            f"CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {first.port}, "
            f"MASTER_USER = '{USER}', MASTER_PASSWORD = '{PASSWORD}', MASTER_USE_GTID = slave_pos, "
            "MASTER_SSL_VERIFY_SERVER_CERT = 0",
            "START SLAVE",
        )
        yield Pair(first, second)


@pytest.mark.full
def test_a_table_goes_on_with_the_other_server(pair: Pair, place: Place) -> None:
    run(pair.first, "CREATE DATABASE d", "CREATE DATABASE lost")
    for database in ("d", "lost"):
        made = (TABLE.format("t"), "INSERT INTO t (id, name) VALUES (1, 'a'), (2, 'b')")
        run(pair.first, *made, database=database)

    def opened(server: MariaDB, database: str = "d") -> Workspace:
        config = write_config(place.folder, server, {database: {"tables": {"t": LOG}}})
        return Workspace.open(config, spark=place.spark)

    for database in ("d", "lost"):
        sync_all(opened(pair.first, database))
    run(pair.first, "UPDATE t SET name = 'x' WHERE id = 1", database="d")
    sync_all(opened(pair.first))
    pair.wait()
    run(pair.second, "STOP SLAVE")
    # What the other server does not have can't be gone on from there.
    run(pair.first, "DELETE FROM t WHERE id = 1", database="lost")
    sync_all(opened(pair.first, "lost"))
    other = opened(pair.second, "lost")
    [accepted] = accept_server(other.config, other.ledger, "s")
    assert not accepted.follows
    assert "does not have transaction" in accepted.why
    run(pair.first, "INSERT INTO t (id) VALUES (3)", "DELETE FROM t WHERE id = 2", database="d")
    run(pair.second, "START SLAVE")
    pair.wait()
    run(pair.second, "STOP SLAVE", "RESET SLAVE ALL")
    run(pair.second, "FLUSH BINARY LOGS", "INSERT INTO t (id) VALUES (4)", database="d")
    pair.first.stop()

    workspace = opened(pair.second)
    contract = workspace.config.table("t")
    with pytest.raises(SourceError, match="mirrorlake accept s"):
        sync_table(workspace, contract)
    [accepted] = accept_server(workspace.config, workspace.ledger, "s")
    assert accepted.follows, accepted.why
    assert accept_server(workspace.config, workspace.ledger, "s")[0].follows
    sync_all(workspace)
    assert_equal(workspace, pair.second)
    run(pair.second, "UPDATE t SET id = id + 10 ORDER BY id DESC", database="d")
    sync_all(workspace)
    assert_equal(workspace, pair.second)
    assert kinds(workspace, "t").count("initial") == 1
    assert accept_server(workspace.config, workspace.ledger, "s") == []
    lost = opened(pair.second, "lost")
    sync_all(lost)
    assert_equal(lost, pair.second)
    assert kinds(lost, "t").count("initial") == 2
