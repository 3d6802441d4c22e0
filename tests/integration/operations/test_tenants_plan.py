"""`plan sync` of tables of tenants: what a sync would read, and does then; nothing is written."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.operations.mirrored.kinds import by_kind
from mirrorlake.operations.planning.sync_plans import PlannedSync
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.tenants import Tenants

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20)"
SETTLED_SECONDS = 3.2
"""After so long without a change, what a server shows says whether a table changed."""


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def plan(tenants: Tenants) -> PlannedSync:
    """The plan; and see that neither ledger nor lake is another for it."""
    with tenants.opened() as (workspace, table):
        before = everything(tenants.place.folder)
        [(kind, some)] = by_kind([table])
        [found] = kind.plan(workspace, some)
        assert everything(tenants.place.folder) == before
    return found


def everything(folder: Path) -> dict[str, Any]:
    """What the ledger and the catalog have, but who looked when."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.db")):
        engine = sa.create_engine(f"sqlite:///{path}")
        with engine.connect() as connection:
            for name in sa.inspect(engine).get_table_names():
                rows = connection.execute(sa.text(f'SELECT * FROM "{name}"')).all()
                found[f"{path.name}.{name}"] = sorted(map(str, rows))
        engine.dispose()
    return {name: rows for name, rows in found.items() if not name.endswith(("leases", "runs"))}


def test_a_plan_says_what_the_next_sync_reads(tenants: Tenants) -> None:
    for name in "abcd":
        tenants.make(name, COLUMNS, "(1, 'x')", "(2, 'y')")
    time.sleep(SETTLED_SECONDS)
    found = plan(tenants)
    assert (found.window, found.why, found.code) == ("initial", "4 tenants: 4 new", 0)
    assert tenants.sync().read == 4
    found = plan(tenants)
    words = "4 tenants: nothing happened to any"
    assert (found.window, found.rows, found.why) == ("unchanged", 0, words)
    tenants.run("b", "UPDATE orders SET name = 'z' WHERE id = 1")
    tenants.run("c", "ALTER TABLE orders ADD COLUMN more INT")
    tenants.sql(f"DROP TABLE {tenants.name('d')}.orders")
    tenants.make("e", COLUMNS, "(1, 'x')")
    found = plan(tenants)
    assert (found.window, found.why) == ("full", "4 tenants: 1 altered, 1 gone, 1 moved, 1 new")
    time.sleep(SETTLED_SECONDS)
    done = tenants.sync()
    assert (done.read, done.unchanged, len(done.gone)) == (3, 1, 1)
    assert plan(tenants).window == "unchanged"


@pytest.mark.full
def test_a_plan_of_logs_does_not_guess_rows(tenants: Tenants) -> None:
    tenants.contract = {"key": ["id"], "mode": "binlog"}
    for name in "ab":
        tenants.make(name, COLUMNS, "(1, 'x')")
    time.sleep(SETTLED_SECONDS)
    assert plan(tenants).window == "initial"
    tenants.sync()
    assert plan(tenants).window == "unchanged"
    tenants.run("b", "INSERT INTO orders VALUES (2, 'y')")
    found = plan(tenants)
    assert (found.window, found.rows, found.why) == ("log", None, "2 tenants: 1 moved")
    assert tenants.sync().rows == 1


def test_the_command_plans_tenants_and_says_what_it_could_not_see(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, "(1, 'x')")
    tenants.others = {"gone": 1}
    path = str(tenants.write())
    run = CliRunner(env=tenants.environment)
    found = run.invoke(cli, ["plan", "sync", "--config", path, "--json"])
    assert found.exit_code == 4, found.output
    [table] = json.loads(found.stdout)["tables"]
    assert table["window"] == "initial"
    assert "1 tenant: 1 new; source gone was not looked at: " in table["why"]
    shown = run.invoke(cli, ["plan", "sync", "--config", path])
    assert "1 of 1 tables are read" in shown.stdout
    run.invoke(cli, ["hold", "s", "--config", path, "--until", "2099-01-01"])
    run.invoke(cli, ["hold", "gone", "--config", path, "--until", "2099-01-01"])
    found = run.invoke(cli, ["plan", "sync", "--config", path, "--json"])
    assert (found.exit_code, json.loads(found.stdout)["tables"][0]["window"]) == (0, "held")
    for source in ("s", "gone"):  # the ledger is other tests' too
        run.invoke(cli, ["hold", source, "--config", path, "--release"])
