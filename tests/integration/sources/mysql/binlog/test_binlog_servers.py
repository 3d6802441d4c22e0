"""How a server is read: from its end on, under a number of one's own, over TLS, until it is lost."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from mirrorlake.errors import SourceError
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.binlog.positions import StreamPosition
from mirrorlake.sources.mysql.binlog.replica_ids import choose_server_id
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.binlog.transport import LogTransport
from mirrorlake.sources.mysql.following.log_state import read_end
from mirrorlake.sources.mysql.sessions.connect import session
from tests.integration.binlogs import images, log_end, read_log, source_of
from tests.integration.sources.mysql.binlog.test_binlog_mariadb import set_globally

Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


def test_from_a_logs_end_only_what_comes_later_is_read(
    server: EmbeddedServer, database: str, sql: Sql
) -> None:
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    with session(source_of(server)) as connection:
        end = StreamPosition(read_end(connection, source_of(server)).position)
    sql("INSERT INTO t VALUES (2)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (3)")
    found = images(read_log(server, end, {(database, "t"): FollowedTable()}), "t")
    assert found.column("id").to_pylist() == [2, 3]


def test_a_number_that_a_reader_has_is_not_given_out(server: EmbeddedServer) -> None:
    with session(source_of(server)) as connection:
        first = choose_server_id(connection, "mirror of s")
        assert choose_server_id(connection, "mirror of s") == first
        assert choose_server_id(connection, "another") != first
        with LogTransport(source_of(server), log_end(server), first, follow=True):
            assert choose_server_id(connection, "mirror of s") == first + 1


def test_a_reader_that_another_one_replaced_is_told(server: EmbeddedServer) -> None:
    with LogTransport(source_of(server), log_end(server), 77, follow=True, heartbeat=0.1) as first:
        packets = first.packets()
        next(packets)
        with LogTransport(source_of(server), log_end(server), 77, follow=True) as second:
            next(second.packets())
            with pytest.raises(SourceError):
                list(islice(packets, 600))


def test_a_server_that_ends_the_connection_is_an_error_that_passes(server: EmbeddedServer) -> None:
    with LogTransport(
        source_of(server), log_end(server), 78, follow=True, heartbeat=0.1
    ) as transport:
        packets = transport.packets()
        next(packets)
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("SHOW PROCESSLIST")
            # Those of other tests may not have ended yet.
            number = max(row[0] for row in cursor.fetchall() if row[4] == "Binlog Dump")
            cursor.execute(f"KILL {number}")
        with pytest.raises(SourceError) as caught:
            list(islice(packets, 600))
        assert caught.value.retryable


def test_a_value_that_comes_in_several_packets(server: EmbeddedServer, database: str) -> None:
    """A packet of the protocol has 16 MB at most."""
    start = log_end(server)
    with set_globally(server, max_allowed_packet=2**26), server.admin(database) as admin:
        with admin.cursor() as cursor:
            cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)")
            cursor.execute("INSERT INTO t VALUES (1, REPEAT('abcdefgh', 2500000)), (2, 'x')")
        batches = read_log(server, start, {(database, "t"): FollowedTable()})
    assert images(batches, "t").column("b").to_pylist() == [b"abcdefgh" * 2_500_000, b"x"]
