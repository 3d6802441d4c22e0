"""What the browser looks at: a MariaDB with flights and a shop, mirrored, under Dagster's server."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import requests
import yaml

from benchmarks.programs import running
from demo.nyc import NYC_TABLES, read_nyc
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import HOST
from mirrorlake.trial.shop import create_shop
from tests.location.kept_process import KEPT
from tests.support.command import COMMAND

ROOT = Path(__file__).parents[2]
USER = "mirror"
PASSWORD = "p@ss w/örd%"
TODAY = datetime.now(UTC).date()
FLIGHTS = 5_000
# The first days are left to the backfill.
DAYS = [(TODAY - timedelta(days=6)).isoformat(), TODAY.isoformat()]
BACKFILL = [(TODAY - timedelta(days=10)).isoformat(), (TODAY - timedelta(days=7)).isoformat()]
TABLES: dict[str, Any] = {
    "nyc": {
        "nyc": {
            "tables": {
                "flights": {
                    "mode": "append",
                    "key": ["time_hour", "carrier", "flight", "origin"],
                    "cursor": "time_hour",
                    "start": "2020-01-01",
                }
            }
        }
    },
    "shop": {
        "shop": {
            "tables": {
                "customers": {
                    "mode": "incremental",
                    "key": ["id"],
                    "cursor": "modified_at",
                    "clean": "table",
                    "columns": {
                        "email": {"pii": "hash"},
                        "phone": {"pii": "mask"},
                        "first_name": {"pii": "mask"},
                        "last_name": {"pii": "mask"},
                        "birth_date": {"pii": "null"},
                        "street": {"pii": "drop"},
                    },
                },
                "orders": {
                    "mode": "incremental",
                    "key": ["id"],
                    "cursor": "modified_at",
                    "created": "created_at",
                },
            }
        }
    },
}


TENANTS: dict[str, Any] = {
    "stores": {
        "sources": ["shop"],
        "databases": ["store_%", "kiosk_%"],
        "tables": {
            "visits": {"key": ["id"], "clean": "table", "columns": {"email": {"pii": "hash"}}}
        },
    }
}
"""Four databases: two are mirrored, in two shapes; one has no key, and one has a view."""
STORES = {
    "store_1": "CREATE TABLE visits (id INT PRIMARY KEY, email VARCHAR(40))",
    "store_2": "CREATE TABLE visits (id INT PRIMARY KEY, email VARCHAR(40), at DATETIME)",
    "store_3": "CREATE TABLE visits (id INT, email VARCHAR(40))",
    "store_4": "CREATE VIEW visits AS SELECT 1 AS id",
}


MANY: tuple[dict[str, Any], ...] = (
    {"mode": "full", "key": ["id"]},
    {"mode": "incremental", "key": ["id"], "cursor": "at"},
    {"mode": "append", "key": ["id"], "cursor": "at", "partition": "hour"},
)
"""The contracts of many tables, in turn."""

MANY[1]["partitions_from"] = BACKFILL[0]
# Dagster writes about a hundred events a second: hourly tables begin yesterday, or it takes too long.
MANY[2]["partitions_from"] = str(TODAY - timedelta(days=1))

for _source in TABLES.values():
    for _database in _source.values():
        for _table in _database["tables"].values():
            # Before the first row: the first days are the backfill's.
            _table["partitions_from"] = BACKFILL[0]


@dataclass(frozen=True)
class Place:
    """A folder with a contract file and a DAGSTER_HOME, and the address of the UI over them."""

    folder: Path
    port: int

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "DAGSTER_HOME": str(self.folder / "dagster"),
            "MIRRORLAKE_CONFIG": str(self.folder / "mirrorlake.yaml"),
            "MIRRORLAKE_SENSORS": "off",
            "MIRRORLAKE_HASH_KEY": "a key for the tests, sixteen or more",
            "TEST_PASSWORD": PASSWORD,
            "PYTHONPATH": str(ROOT),
        }


def _kept_port() -> int:
    """A free port that stays free until the UI takes it: of none that systems give out."""
    while True:
        port = random.randint(20_000, 30_000)  # noqa: S311 - no secret
        with socket.socket() as tried, suppress(OSError):
            tried.bind((HOST, port))
            return port


@contextmanager
def running_place(folder: Path, many: int = 0, *, daemon: bool = True) -> Iterator[Place]:
    """The sources, mirrored through Dagster, and the UI over them; all of it ends with the block.

    Args:
        many: the tables of a third source; then the command line mirrors all of them.
        daemon: Dagster's daemon too, which launches backfills and looks at sensors.
    """
    with MariaDB.start(folder / "mysql") as server:
        server.create_user(USER, PASSWORD)
        place = Place(folder, _kept_port())
        _write_files(place, server.port, many)
        _fill_sources(server)
        _fill_many(server, many)
        # The server starts while the runs that it will show are made.
        with _dagster(place, daemon):
            if many:
                path = str(place.folder / "mirrorlake.yaml")
                _run(place, *COMMAND, "sync", "--config", path, code=4)  # a tenant has no such key
            else:
                # The pages of the flights are the backfill's, which the daemon launches.
                sources = TABLES if daemon else ["shop"]
                code, said = KEPT.run("chains", *DAYS, *sources, environment=place.environment)
                assert code == 0, said[-6000:]
            _wait_for_location(place)
            yield place


def _write_files(place: Place, port: int, many: int) -> None:
    login = {"host": HOST, "port": port, "user": USER, "password": "${env:TEST_PASSWORD}"}
    contract = {
        "version": 1,
        "lake": {"warehouse": "lake"},
        "ledger": {"url": "sqlite:///ledger.db"},
        "privacy": {"hash_key": "${env:MIRRORLAKE_HASH_KEY}"},
        "sources": {name: {**login, "databases": found} for name, found in TABLES.items()},
        "tenants": TENANTS,
    }
    if many:
        tables = {f"t{number}": MANY[number % len(MANY)] for number in range(many)}
        contract["sources"]["many"] = {**login, "databases": {"many": {"tables": tables}}}
    path = place.folder / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(contract, sort_keys=False), encoding="utf-8")
    home = place.folder / "dagster"
    home.mkdir()
    shutil.copy(ROOT / "dagster.yaml", home)
    # Its databases are made once, by one process: two at a time get in each other's way.
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.get_run_records(limit=1)


def _fill_sources(server: MariaDB) -> None:
    [table] = [table for table in NYC_TABLES if table.name == "flights"]
    rows = read_nyc(table).slice(0, FLIGHTS).to_pylist()
    # As if they left New York in these days: partitions are days up to today. The last left
    # yesterday: no later run finds rows within the overlap, folds them and needs a JVM.
    shift = TODAY - timedelta(days=1) - datetime.fromisoformat(rows[-1]["time_hour"]).date()
    for row in rows:
        row["time_hour"] = datetime.fromisoformat(row["time_hour"]).replace(tzinfo=None) + shift
    with server.admin() as admin, admin.cursor() as cursor:
        columns = ", ".join(f"`{name}` {ddl}" for name, ddl, _ in table.columns)
        cursor.execute("CREATE DATABASE nyc CHARACTER SET utf8mb4")
        cursor.execute(
            f"CREATE TABLE nyc.flights ({columns}, PRIMARY KEY ({', '.join(table.key)}))"
        )
        marks = ", ".join(["%s"] * len(table.columns))
        cursor.executemany(
            f"INSERT INTO nyc.flights VALUES ({marks})", [tuple(row.values()) for row in rows]
        )
        create_shop(admin, customers=300, now=datetime.now(UTC) - timedelta(hours=3))
        for number, (database, statement) in enumerate(STORES.items(), 1):
            cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
            cursor.execute(f"USE {database}")
            cursor.execute(statement)
            if "TABLE" in statement:
                rows = ", ".join(f"({n}, 'v{n}@{database}.example')" for n in range(10 * number))
                cursor.execute(f"INSERT INTO visits (id, email) VALUES {rows}")
        admin.commit()


def _fill_many(server: MariaDB, many: int) -> None:
    """Tables of one to five rows, today's and yesterday's."""
    if not many:
        return
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE many")
        for number in range(many):
            cursor.execute(
                f"CREATE TABLE many.t{number} (id INT PRIMARY KEY, word VARCHAR(20), "
                "at DATETIME NOT NULL, KEY (at))"
            )
            rows = ", ".join(
                f"({n}, 'word {n}', UTC_TIMESTAMP() - INTERVAL {n % 2} DAY)"
                for n in range(1 + number % 5)
            )
            cursor.execute(f"INSERT INTO many.t{number} VALUES {rows}")
        admin.commit()


def _run(place: Place, *command: str, code: int) -> None:
    ran = subprocess.run(
        command, cwd=ROOT, env=place.environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == code, f"{ran.stdout[-3000:]}\n{ran.stderr[-6000:]}"


@contextmanager
def _dagster(place: Place, daemon: bool) -> Iterator[None]:
    """``dagster dev``, or its web server alone, in a session of its own, ended with everything it
    started."""
    program = ["dagster", "dev"] if daemon else ["dagster_webserver"]
    command = [sys.executable, "-m", *program, "-w", str(ROOT / "workspace.yaml")]
    command += ["-h", HOST, "-p", str(place.port)]
    # By itself `dagster dev` leaves its daemon and webserver behind when it is killed.
    with running(command, place.environment, place.folder / "dagster.log"):
        yield
    deadline = time.monotonic() + 20
    while (left := leftovers(place)) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not left, f"outlived the UI: {[line[:200] for line in left.values()]}"


def leftovers(place: Place) -> dict[int, str]:
    """Processes that carry the place's DAGSTER_HOME, with their command lines."""
    mark = f"DAGSTER_HOME={place.folder / 'dagster'}".encode()
    found: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found[int(process.name)] = (process / "cmdline").read_text().replace("\0", " ")
    return found


def ask(place: Place, query: str) -> dict[str, Any]:
    """What the server's GraphQL answers."""
    answer = requests.post(f"{place.url}/graphql", json={"query": query}, timeout=20)
    return answer.json()["data"]


def _wait_for_location(place: Place) -> None:
    query = "{ assetNodes { assetKey { path } } }"
    deadline = time.monotonic() + 60
    while True:
        try:
            if ask(place, query)["assetNodes"]:
                return
        except requests.RequestException:
            pass
        log = (place.folder / "dagster.log").read_text("utf-8", errors="replace")
        assert time.monotonic() < deadline, f"the UI did not start:\n{log[-4000:]}"
        time.sleep(0.3)
