"""A mirror with what `pip install mirrorlake` brings, and nothing else: no Spark, no Dagster, none of
Google's libraries. What needs more ends with one error, and changes nothing."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.config import LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import HASH_KEY, PASSWORD, USER
from tests.support.installed import BASES, Installed, base_of

SIZE = "write.target-file-size-bytes"


@pytest.fixture(scope="module", params=BASES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("base")
    return base_of(request.param, place)


@dataclass(frozen=True)
class Mirror:
    """A database, and a folder with the contract of it that `init` wrote."""

    base: Installed
    server: EmbeddedServer
    database: str
    folder: Path

    def run(self, *words: str, code: int = 0) -> str:
        """What a command prints, on both streams."""
        secrets = {f"{self.database.upper()}_PASSWORD": PASSWORD, "MIRRORLAKE_HASH_KEY": HASH_KEY}
        ended = self.base.end("mirrorlake", *words, cwd=self.folder, **secrets)
        assert ended.returncode == code, ended.stdout
        return ended.stdout

    def sql(self, *statements: str) -> None:
        with self.server.admin(self.database) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def contract(self, **sections: Mapping[str, Any]) -> None:
        """Change sections of the contract file."""
        path = self.folder / "mirrorlake.yaml"
        text = yaml.safe_load(path.read_text("utf-8"))
        for name, section in sections.items():
            text[name] = {**text.get(name, {}), **section}
        path.write_text(yaml.safe_dump(text), "utf-8")

    def committed(self) -> tuple[Any, ...]:
        """What the catalog names, and what the ledger has of loads and folds."""
        home = self.folder / ".mirrorlake"
        found: list[Any] = []
        for file, statement in (
            ("lake/catalog.db", "SELECT table_name, metadata_location FROM iceberg_tables"),
            ("ledger.db", "SELECT table_name, state, seq FROM loads"),
            ("ledger.db", "SELECT * FROM folds"),
        ):
            with sqlite3.connect(home / file) as connection:
                found.append(sorted(connection.execute(statement).fetchall()))
        return tuple(found)


@pytest.fixture(scope="module")
def mirror(
    base: Installed, server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory
) -> Mirror:
    """Two tables of 300 rows, mirrored once by the contract that `init` wrote."""
    folder = tmp_path_factory.mktemp("mirror")
    database = f"base_{len(base.home.parts)}_{os.getpid()}_{time.time_ns() % 10**6}"
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {database}")
    made = Mirror(base, server, database, folder)
    made.sql(
        "CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(8,2), email VARCHAR(50),"
        " modified_at DATETIME(3) NOT NULL, KEY (modified_at))",
        "INSERT INTO orders SELECT seq, seq / 7, CONCAT('a', seq, '@example.com'),"
        " NOW(3) - INTERVAL seq MINUTE FROM seq_1_to_300",
        "CREATE TABLE kinds (id INT PRIMARY KEY, name TEXT)",
        "INSERT INTO kinds SELECT seq, CONCAT('kind ', seq) FROM seq_1_to_300",
    )
    url = f"mysql://{USER}@127.0.0.1:{server.port}/{database}?tls=off"
    init = ("mirrorlake", "init", "--from", url)
    base.run(*init, cwd=folder, MIRRORLAKE_INIT_PASSWORD=PASSWORD)
    made.run("sync")
    return made


@pytest.mark.full
def test_init_proposes_what_can_be_made_here(mirror: Mirror) -> None:
    text = (mirror.folder / "mirrorlake.yaml").read_text("utf-8")
    assert "email: {pii: drop}" in text
    assert "clean: table" not in text


FULL = pytest.mark.full


@pytest.mark.parametrize("command", ["refold orders", pytest.param("warm", marks=FULL)])
def test_what_needs_spark_says_so_and_changes_nothing(mirror: Mirror, command: str) -> None:
    before = mirror.committed()
    said = one_error(mirror.run(*command.split(), code=3))
    assert "pyspark (extra mirrorlake[spark]), which is not installed. Install it: " in said
    assert "'mirrorlake[spark]'" in said
    assert mirror.committed() == before


@pytest.mark.full
def test_rows_that_differ_are_looked_at_by_spark(mirror: Mirror) -> None:
    mirror.sql("UPDATE orders SET price = 7 WHERE id > 280")  # behind the cursor, long settled
    before = mirror.committed()
    said = one_error(mirror.run("check", "orders", code=3))
    assert "orders: this step needs pyspark (extra mirrorlake[spark])" in said
    assert mirror.committed() == before
    mirror.sql("UPDATE orders SET price = id / 7 WHERE id > 280")
    assert "orders: equal (" in mirror.run("check", "orders")


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        pytest.param(
            {"folds_from": 100},
            "UPDATE orders SET price = 6, modified_at = NOW(3) WHERE id < 20",
            id="many rows",
            marks=FULL,
        ),
        pytest.param({}, "ALTER TABLE orders MODIFY price VARCHAR(20)", id="another type"),
    ],
)
def test_what_spark_would_fold_is_refused_before_anything_is_read(
    mirror: Mirror, settings: dict[str, Any], change: str
) -> None:
    mirror.contract(spark={"folds_from": 20_000, **settings})
    mirror.sql(change)
    before = mirror.committed()
    said = one_error(mirror.run("sync", "orders", code=3))
    assert said.startswith(f"error: table {mirror.database}.{mirror.database}.orders: ")
    assert "folding what it would load needs pyspark (extra mirrorlake[spark])" in said
    assert mirror.committed() == before
    mirror.contract(spark={"folds_from": 20_000})
    mirror.sql("ALTER TABLE orders MODIFY price DECIMAL(8,2)")


def test_a_mirror_is_followed_checked_and_reported(mirror: Mirror) -> None:
    mirror.sql(
        "UPDATE orders SET price = 5, modified_at = NOW(3) WHERE id < 20",
        "INSERT INTO kinds VALUES (1000, 'new')",
        "DELETE FROM kinds WHERE id = 7",
        "ALTER TABLE orders ADD COLUMN note VARCHAR(20)",
    )
    assert "note: new in MySQL, and held out of clean" in mirror.run("sync", code=10)
    assert "2 equal" in mirror.run("check")
    tables = json.loads(mirror.run("status", "--json"))
    assert {one["rows"] for one in tables} == {300}
    for command in ("report", "doctor"):
        mirror.run(command)
    read = mirror.run("readers", "kinds", "--json", code=10)
    assert "Spark as a reader needs pyspark (extra mirrorlake[spark])" in read


@pytest.mark.full
def test_maintenance_lacks_spark_only_where_files_are_to_be_written_again(mirror: Mirror) -> None:
    mirror.run("maintain")
    lake = Lake(LakeConfig(warehouse=str(mirror.folder / ".mirrorlake/lake")))
    kinds = lake.load(Identifier(f"{mirror.database}_{mirror.database}", "kinds"))
    assert kinds is not None
    with kinds.transaction() as change:
        change.set_properties({SIZE: "100"})  # its only file is too large
    orphan = Path(kinds.location().removeprefix("file://")) / "data/orphan.parquet"
    orphan.touch()
    os.utime(orphan, (0, 0))
    said = mirror.run("maintain", "kinds", "--json", code=6)
    assert "needs pyspark (extra mirrorlake[spark]), which is not installed" in said
    assert not orphan.exists(), "all else was done"
    with kinds.refresh().transaction() as change:
        change.remove_properties(SIZE)
    mirror.run("maintain", "kinds")


@FULL
def test_other_commands_need_no_spark(mirror: Mirror) -> None:
    mirror.run("proof", "kinds")
    mirror.run("gaps")
    mirror.run("preflight", "ALTER TABLE orders ADD COLUMN more INT", code=10)


def one_error(said: str) -> str:
    """The only line that is an error."""
    [line] = [line for line in said.splitlines() if line.startswith("error: ")]
    assert "Traceback" not in said
    return line
