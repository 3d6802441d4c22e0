"""What a server lacks for its log to be read: each is named, and its statement mends it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr

from mirrorlake.errors import LogPurged, SourceError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.positions import LogPosition, StreamPosition
from mirrorlake.sources.mysql.binlog.requirements import find_missing
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.sessions.connect import session
from tests.integration.binlogs import log_end, read_log, source_of
from tests.integration.sources.mysql.binlog.test_binlog_mariadb import set_globally

Sql = Callable[..., Any]
HOUR = timedelta(hours=1)


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


def test_the_tests_servers_qualify(server: EmbeddedServer) -> None:
    with session(source_of(server)) as connection:
        assert [one for one in find_missing(connection, HOUR) if one.needed] == []


def test_each_setting_is_named_and_its_statement_mends_it(server: EmbeddedServer) -> None:
    wrong = {
        "binlog_format": "MIXED",
        "binlog_row_image": "MINIMAL",
        "binlog_row_metadata": "MINIMAL",
    }
    with set_globally(server, **wrong), session(source_of(server)) as connection:
        found = [one for one in find_missing(connection, HOUR) if one.needed]
        assert {one.name: one.problem for one in found} == {
            name: f"it is {value}" for name, value in wrong.items()
        }
        with server.admin() as admin, admin.cursor() as cursor:
            for one in found:
                cursor.execute(one.fix)
        assert not [one for one in find_missing(connection, HOUR) if one.needed]


def test_short_retention_and_missing_checksums_are_advice(server: EmbeddedServer) -> None:
    with (
        set_globally(server, binlog_checksum="NONE", binlog_expire_logs_seconds=7200),
        session(source_of(server)) as connection,
    ):
        found = {one.name: one for one in find_missing(connection, timedelta(days=3))}
        assert found["binlog_expire_logs_seconds"].fix == (
            "SET GLOBAL binlog_expire_logs_seconds = 259200"
        )
        assert "2 h" in found["binlog_expire_logs_seconds"].problem
        assert found["binlog_checksum"].needed is False
        assert "binlog_expire_logs_seconds" not in {
            one.name for one in find_missing(connection, HOUR)
        }


def test_grants_are_named_with_the_statement(server: EmbeddedServer) -> None:
    server.create_user("poor", "a long one", "SELECT")
    source = source_of(server).model_copy(
        update={"user": "poor", "password": SecretStr("a long one")}
    )
    monitor = "BINLOG MONITOR" if isinstance(server, MariaDB) else "REPLICATION CLIENT"
    with session(source) as connection:
        found = {one.name: one.fix for one in find_missing(connection, HOUR)}
        assert found == {
            name: f"GRANT {name} ON *.* TO 'poor'@'%'" for name in (monitor, "REPLICATION SLAVE")
        }
    with pytest.raises(SourceError, match="REPLICATION SLAVE"):
        list(LogTransport(source, log_end(server), 5, follow=False).packets())
    with server.admin() as admin, admin.cursor() as cursor:
        for fix in found.values():
            cursor.execute(fix)
    with session(source) as connection:
        assert not [one for one in find_missing(connection, HOUR) if one.needed]
    with LogTransport(source, log_end(server), 5, follow=False) as transport:
        assert len(list(transport.packets())) == 2


def test_a_position_that_is_not_there_says_so(server: EmbeddedServer, sql: Sql) -> None:
    end = log_end(server).log
    assert end is not None
    beyond = LogPosition(end.file, end.offset + 10_000_000)
    for place in (LogPosition("bin.000999", 4), LogPosition("other.000001", 4), beyond):
        with pytest.raises(LogPurged, match="Read its tables again"):
            read_log(server, StreamPosition(place), {})


def test_purged_logs_say_so(server: EmbeddedServer, sql: Sql, database: str) -> None:
    start = log_end(server)
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    now = log_end(server).log
    assert now is not None
    sql(f"PURGE BINARY LOGS TO '{now.file}'")
    with pytest.raises(LogPurged, match="Read its tables again"):
        read_log(server, start, {})


def test_a_position_within_an_event_is_an_error(
    server: EmbeddedServer, sql: Sql, database: str
) -> None:
    end = log_end(server).log
    assert end is not None
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    with pytest.raises(SourceError):
        read_log(server, StreamPosition(LogPosition(end.file, end.offset + 7)), {})
