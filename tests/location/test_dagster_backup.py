"""The blocks of docs/backup-dagster.md, run as they stand, on a real DAGSTER_HOME: a run that ended
before the backup, one that was under way, and one that began after it; then all is lost."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from dagster_mirrorlake.sensors.requests import busy_tables
from dagster_mirrorlake.table import LAYERS, MirroredTable
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location
from tests.location.test_partitions import Daemon, lake_rows
from tests.support.documents.blocks import blocks_of
from tests.support.postgres import PASSWORD, USER, running_postgres

ROOT = Path(__file__).parents[2]
BACK_UP, RESTORE, POSTGRES = [b for b in blocks_of(ROOT / "docs" / "backup-dagster.md") if b.text]
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]
# Where a machine has no `sqlite3`: what its `.backup` does, by the same library.
SQLITE3 = """#!{python}
import re, sqlite3, sys
[to] = re.fullmatch(r"\\.backup '(.*)'", sys.argv[2]).groups()
sqlite3.connect(sys.argv[1]).backup(sqlite3.connect(to))
"""


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str, Path], None]:
    """Runs a block of the page, whose folder of backups is one of the test's."""
    programs = tmp_path / "bin"
    programs.mkdir()
    if shutil.which("sqlite3") is None:
        path = programs / "sqlite3"
        path.write_text(SQLITE3.format(python=sys.executable))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    def run(block: str, home: Path) -> None:
        text = block.replace("/backups", str(tmp_path / "backups"))
        search = f"{programs}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "DAGSTER_HOME": str(home), "PATH": search}
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr

    return run


class Runs:
    """Runs of one table's chain, as the launcher starts them, over a DAGSTER_HOME."""

    def __init__(self, location: Location, home: Path) -> None:
        self.location, self.home = location, home

    def begin(self) -> tuple[str, subprocess.Popen[bytes]]:
        run_id = str(uuid.uuid4())
        command = [sys.executable, "-m", "tests.location.run_job", str(self.location.path), run_id]
        environment = {**os.environ, "DAGSTER_HOME": str(self.home)}
        return run_id, subprocess.Popen([*command, "orders"], cwd=ROOT, env=environment)

    def whole(self) -> str:
        run_id, process = self.begin()
        assert process.wait(300) == 0
        return run_id

    def status(self, run_id: str) -> str | None:
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            run = instance.get_run_by_id(run_id)
            return run.status.value if run is not None else None

    def steps(self, run_id: str) -> set[str]:
        """The keys of what a run materialised, by its own log."""
        with dg.DagsterInstance.from_config(str(self.home)) as instance:
            log = instance.all_logs(run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION)
            keys = [one.dagster_event.asset_key for one in log if one.dagster_event]
            return {key.path[0] for key in keys if key}


@pytest.fixture
def runs(
    server: MariaDB, location_for: Callable[[dict[str, Any]], Location], tmp_path: Path
) -> Runs:
    database = f"kept_{uuid.uuid4().hex[:8]}"
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
        cursor.execute(f"USE {database}")
        cursor.execute("CREATE TABLE orders (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))")
        cursor.execute("INSERT INTO orders VALUES (1, UTC_TIMESTAMP()), (2, UTC_TIMESTAMP())")
        admin.commit()
    table = {"mode": "incremental", "key": ["id"], "cursor": "at"}
    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    return Runs(location_for({database: {"tables": {"orders": table}}}), home)


def test_history_is_there_and_runs_of_afterwards_are_gone(
    runs: Runs, shell: Callable[[str, Path], None]
) -> None:
    home, config = runs.home, runs.location.config
    before = runs.whole()
    with Ledger(config.ledger.url).lease(config.tables[0].name, "a command"):
        under_way, process = runs.begin()  # it waits for the table
        _until(lambda: runs.status(under_way) == "STARTED")
        shell(BACK_UP.text, home)
    process.wait(300)
    after = runs.whole()

    shutil.rmtree(home)
    shell(RESTORE.text, home)
    assert (home / "dagster.yaml").read_text() == (ROOT / "dagster.yaml").read_text()
    assert {one: runs.status(one) for one in (before, under_way, after)} == {
        before: "SUCCESS",
        under_way: "STARTED",
        after: None,
    }
    assert runs.steps(before) == {*LAYERS}
    assert runs.steps(under_way) == set()
    table = MirroredTable(config.tables[0])
    with dg.DagsterInstance.from_config(str(home)) as instance:
        event = instance.get_latest_materialization_event(table.key("clean"))
        assert event is not None
        assert event.run_id == before
        # What the page says of it: its table is busy until it is ended.
        assert busy_tables(instance, [table]) == {table.contract.name}
        run = instance.get_run_by_id(under_way)
        assert run is not None
        instance.report_run_canceled(run)  # as "Force termination immediately"
        assert busy_tables(instance, [table]) == set()
        daemon = Daemon(runs.location, instance)
        for _ in range(15):
            daemon.tick()
        shown = {day: rows for day, rows in daemon.rows("orders").items() if rows}
        assert shown == lake_rows(runs.location, "orders")
    assert runs.status(runs.whole()) == "SUCCESS", "it goes on"


def test_postgres_comes_back_by_its_own_tools(
    runs: Runs, shell: Callable[[str, Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    # pg_dump refuses a server that is newer than it is: ours may be.
    found = Path(f"/usr/lib/postgresql/{_major('pg_dump')}")
    if not (found / "bin" / "postgres").exists():
        pytest.skip("pg_dump and a server of its version are not installed")
    with running_postgres(installed=found) as server:
        server.put_database("dagster")
        login = {
            "hostname": "127.0.0.1",
            "port": server.port,
            "username": USER,
            "password": PASSWORD,
            "db_name": "dagster",
            "scheme": "postgresql+psycopg2",
        }
        (runs.home / "dagster.yaml").write_text(
            yaml.safe_dump({"storage": {"postgres": {"postgres_db": login}}})
        )
        monkeypatch.setenv("DAGSTER_DATABASE", server.url("dagster"))
        dump, restore = POSTGRES.text.splitlines()
        before = runs.whole()
        shell(f"mkdir -p /backups\n{dump}", runs.home)
        after = runs.whole()
        server.put_database("dagster")
        shell(restore, runs.home)
        assert runs.status(before) == "SUCCESS"
        assert runs.steps(before) == {*LAYERS}
        assert runs.status(after) is None


def _major(program: str) -> int:
    if shutil.which(program) is None:
        return 0
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    found = re.search(r"(\d+)\.", said.stdout)
    return int(found[1]) if found else 0


def _until(there: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < until
        time.sleep(0.2)
