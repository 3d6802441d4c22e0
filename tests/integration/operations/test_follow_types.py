"""Every type through `mode: binlog`: what the log gives is what a copy gives, and what MySQL has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follow_log import LOG, kinds, sync_all
from tests.integration.sources.mysql.binlog.test_binlog_types import assert_same
from tests.integration.sources.mysql.test_types import assert_exact, cases_of, make_wide_table

Sql = Callable[..., Any]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def rows_of(workspace: Workspace, table: str) -> dict[int, dict[str, Any]]:
    space = workspace.config.table(table).namespaces.deduped
    found = workspace.lake.load(Identifier(space, table))
    assert found is not None
    return {row["id"]: row for row in found.scan().to_arrow().to_pylist()}


def test_every_type_is_the_same_by_copy_and_by_log(
    server: EmbeddedServer, database: str, sql: Sql, engine_for: Callable[..., Workspace]
) -> None:
    make_wide_table(sql, cases_of(server))
    sql("CREATE TABLE late LIKE wide", "INSERT INTO late (id) VALUES (5000)")
    workspace = engine_for({name: {**LOG, "shrink_limit": None} for name in ("wide", "late")})
    sync_all(workspace)
    listed = ", ".join(f"`{name.replace('`', '``')}`" for name in writable(sql))
    sql(
        f"INSERT IGNORE INTO late ({listed}) SELECT {listed} FROM wide",
        "DELETE FROM late WHERE id = 5000",
    )
    sync_all(workspace)
    copied, logged = rows_of(workspace, "wide"), rows_of(workspace, "late")
    assert_same(logged, copied)
    assert any(row[ORIGINAL] for row in logged.values())
    assert_exact(server, workspace, database, "late", ("id",))
    # Each value becomes that of the next row, in the log's image after; then some are gone.
    sets = ", ".join(f"a.{name} = b.{name}" for name in listed.split(", ") if name != "`id`")
    top = max(copied)
    sql(
        f"UPDATE IGNORE late a JOIN wide b ON b.id = (a.id + 1) % {top + 1} SET {sets}",
        "UPDATE late SET id = id + 1000 WHERE id % 2 = 0",
        "DELETE FROM late WHERE id % 3 = 0",
    )
    sync_all(workspace)
    assert_exact(server, workspace, database, "late", ("id",))
    assert kinds(workspace, "late").count("initial") == 1


def writable(sql: Sql) -> list[str]:
    """The columns of the table that are not computed."""
    found = sql("SHOW COLUMNS FROM wide")
    return [str(row[0]) for row in found if " GENERATED" not in str(row[5]).upper()]
