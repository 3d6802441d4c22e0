"""Bounds of windows at the ends of what a TIMESTAMP holds, as a real server evaluates them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.table.windows import time_bound
from tests.integration.conftest import connected

EPOCH = datetime(1970, 1, 1)
MOMENTS = (
    EPOCH,
    EPOCH + timedelta(seconds=1),
    EPOCH + timedelta(days=1),
    datetime(2020, 5, 5),
    datetime(2038, 1, 18),
    datetime(2038, 1, 19),
    datetime(2038, 1, 19, 3, 14, 7),
    datetime(2038, 1, 20),
    datetime(2200, 1, 1),
)
SECONDS = (0, 1, 86_399, 86_400, 1_588_636_800, 2**31 - 86_400, 2**31 - 1)
"""Of the rows; 0 is the zero date, as UNIX_TIMESTAMP has it."""


@pytest.fixture
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


def test_no_row_of_either_side_is_missed(
    server: EmbeddedServer, sql: Callable[..., Any], database: str
) -> None:
    sql("CREATE TABLE t (s BIGINT PRIMARY KEY, ts TIMESTAMP NULL, KEY (ts))")
    for second in SECONDS:
        value = f"FROM_UNIXTIME({second})" if second else "'0000-00-00'"
        sql(f"INSERT INTO t VALUES ({second}, {value})")
    with connected(server, database) as connection:
        column = read_table(connection, database, "t").column("ts")
        for at in MOMENTS:
            edge = (at - EPOCH).total_seconds()
            for operator in (">=", "<"):
                bound = time_bound(column, at, UTC, operator)
                found = rows_of(connection, f"SELECT s FROM t WHERE {bound}")
                wanted = {s for s in SECONDS if (s >= edge if operator == ">=" else s < edge)}
                if operator == ">=":
                    wanted -= {0}  # no window that has a beginning reads zero dates
                assert {s for (s,) in found} == wanted, (at, operator)
