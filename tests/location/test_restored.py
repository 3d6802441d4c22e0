"""Dagster's own storage, copied in the order that docs/backup-dagster.md has, beside a ledger and a lake
that were put back: older than they are, newer, of the same time, lost. What Dagster shows is what
is in the lake, as PyIceberg counts it."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml

from dagster_mirrorlake.table import LAYERS
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import Location
from tests.location.test_partitions import Daemon, lake_rows
from tests.support.postgres import PASSWORD, USER, Postgres, running_postgres

TODAY = datetime.now(UTC).date()
DAY = timedelta(days=1)
OLD, FIRST = TODAY - 2 * DAY, TODAY - 4 * DAY
TABLES: dict[str, Any] = {
    "moves": {"mode": "incremental", "key": ["id"], "cursor": "at", "partitions_from": str(FIRST)},
    "copied": {"mode": "full", "key": ["id"]},
}
pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]


@dataclass
class Storage:
    """Dagster's storage, and a copy of it: SQLite files in a folder, or a database of Postgres."""

    home: Path
    server: Postgres | None = None

    def instance(self) -> dg.DagsterInstance:
        if self.server is None:
            self.home.mkdir(exist_ok=True)
            return dg.DagsterInstance.local_temp(str(self.home))
        return self._on_postgres("dagster")

    def keep(self) -> None:
        """The copy that docs/backup-dagster.md names, while Dagster runs."""
        if self.server is not None:
            self.server.put_database("kept", "dagster")
            return
        for path in self.home.rglob("*.db"):
            to = self.home.with_name("kept") / path.relative_to(self.home)
            to.parent.mkdir(parents=True, exist_ok=True)
            if shell := shutil.which("sqlite3"):
                subprocess.run([shell, str(path), f".backup '{to}'"], check=True)
                continue
            with closing(sqlite3.connect(path)) as here, closing(sqlite3.connect(to)) as there:
                here.backup(there)

    def lose(self) -> None:
        if self.server is not None:
            self.server.put_database("dagster")
            return
        shutil.rmtree(self.home)

    def put_back(self) -> None:
        if self.server is not None:
            self.server.put_database("dagster", "kept")
            return
        shutil.rmtree(self.home)
        shutil.copytree(self.home.with_name("kept"), self.home)

    def _on_postgres(self, name: str) -> dg.DagsterInstance:
        assert self.server is not None
        login = {
            "hostname": "127.0.0.1",
            "port": self.server.port,
            "username": USER,
            "password": PASSWORD,
            "db_name": name,
            "scheme": "postgresql+psycopg2",
        }
        self.home.mkdir(exist_ok=True)
        text = yaml.safe_dump({"storage": {"postgres": {"postgres_db": login}}})
        (self.home / "dagster.yaml").write_text(text)
        return dg.DagsterInstance.from_config(str(self.home))


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    with ExitStack() as running:
        server = None
        if request.param == "postgres":
            server = running.enter_context(running_postgres())
            server.put_database("dagster")
        yield Storage(tmp_path / "dagster", server)


def test_what_dagster_shows_after_a_restore(
    server: MariaDB,
    location_for: Callable[[dict[str, Any]], Location],
    storage: Storage,
    tmp_path: Path,
) -> None:
    database = f"back_{'pg' if storage.server else 'sqlite'}"

    def sql(*statements: str) -> None:
        with server.admin(database) as admin, admin.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            admin.commit()

    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
    sql(
        "CREATE TABLE moves (id INT PRIMARY KEY, at DATETIME NOT NULL, KEY (at))",
        "CREATE TABLE copied (id INT PRIMARY KEY)",
        f"INSERT INTO moves VALUES (1, '{FIRST} 05:00'), (2, '{OLD} 06:00')",
        "INSERT INTO copied VALUES (1), (2)",
    )
    location = location_for({database: {"tables": TABLES}})

    def look(cursor: str, *, whole: bool = True) -> str:
        """Ticks until nothing is reported; then Dagster has the lake's numbers."""
        with storage.instance() as instance:
            daemon = Daemon(location, instance)
            daemon.cursor = cursor
            for _ in range(15):  # what was wiped comes a table at a time
                daemon.tick()
            for name in TABLES:
                shown = {day: rows for day, rows in daemon.rows(name).items() if rows}
                there = lake_rows(location, name)
                assert {day: shown.get(day) for day in there} == there, name
                if whole:
                    assert shown == there, name
                    for layer in LAYERS:
                        assert daemon.missing(name, layer) == set(), (name, layer)
            return daemon.cursor

    location.command("sync")
    older = look("")
    storage.keep()  # Dagster first, then the rest
    sql("INSERT INTO copied VALUES (3)")
    location.command("sync")
    location.command("backup", str(tmp_path / "backups"))
    (backup,) = (tmp_path / "backups").iterdir()
    sql(f"INSERT INTO moves VALUES (3, '{OLD} 07:00')", "INSERT INTO copied VALUES (4)")
    location.command("backfill", "moves", "--from", str(OLD), "--to", str(OLD), "--all")
    location.command("sync")
    newer = look(older)
    before = Ledger(location.config.ledger.url)
    seqs, identity = before.highest_seq(), before.identity()

    # Dagster newer than ledger and lake: what it heard of loads that are gone is said again.
    shutil.rmtree(location.folder / "lake")
    for path in location.folder.glob("ledger.db*"):
        path.unlink()
    location.command("restore", str(backup))
    after = Ledger(location.config.ledger.url)
    assert after.identity() != identity
    cursor = look(newer)
    location.command("sync")
    assert after.highest_seq() > seqs, "a number was given out twice"
    look(cursor)
    # Older.
    storage.put_back()
    look(older)
    # Lost.
    storage.lose()
    look("")
