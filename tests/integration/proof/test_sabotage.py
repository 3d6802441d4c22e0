"""Sabotage: every fault of the list is caught, in a table with a key and in one without, in every
type; and nothing that is not the demo's own is damaged.

Faults are planted all at once, each in a row of its own: one check must name every one of them, and
no other row.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from demo.__main__ import demo
from demo.browse import sabotage_command
from demo.faults import (
    DELETED,
    DOUBLED,
    FILE_FAULTS,
    KEYED,
    LOOSE,
    RESURRECTED,
    ROW_FAULTS,
    TYPES,
    Fault,
    altered,
)
from demo.oracle import compare_table
from demo.run import MARKER
from demo.sabotage import NAMES, Sabotaged, Victim, contract_of, sabotage
from mirrorlake.config import load_config
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place
from tests.integration.contract_files import write_contract

FEW = (altered("c_decimal"), altered("c_timestamp"), *ROW_FAULTS)
EVERY = (*(altered(column) for column in TYPES), *ROW_FAULTS)


@pytest.fixture
def victim_of(
    place: Place,
    server: EmbeddedServer,
    sql: Callable[..., Any],
    database: str,
    tmp_path: Path,
) -> Callable[[str], Victim]:
    """Victims in the session's lake, with a ledger of their own."""

    def make(table: str) -> Victim:
        tables = contract_of(1, database)["sources"]["demo"]["databases"][database]["tables"]
        config = write_contract(
            tmp_path / "mirrorlake.yaml",
            server.port,
            {database: {"tables": {table: tables[table]}}},
            lake={"warehouse": str(place.folder / "lake")},
        )
        workspace = Workspace.open(load_config(config), spark=place.spark)
        victim = Victim(workspace, workspace.config.table(table), tmp_path, sql)
        victim.prepare()
        return victim

    return make


def plant_all(victim: Victim, faults: tuple[Fault, ...]) -> dict[int, Fault]:
    rows = dict(zip(range(20, 20 + len(faults)), faults, strict=True))
    at = {(DELETED if fault is RESURRECTED else row): fault for row, fault in rows.items()}
    assert len(at) == len(faults)
    for row, fault in at.items():
        victim.plant(fault, row)
    return at


def assert_caught(victim: Victim, at: dict[int, Fault]) -> None:
    assert victim.check() == "different"
    keyed = bool(victim.contract.key)
    missed = [f.name for row, f in at.items() if not f.found(row, victim.lines, keyed=keyed)]
    assert not missed, victim.lines
    named = {int(n) for line in victim.lines for n in re.findall(r"\(id=(\d+)[,)]", line)}
    assert named == set(at), "a row that nobody damaged"


def assert_mended(victim: Victim, server: EmbeddedServer, database: str) -> None:
    assert victim.repair()
    deduped = victim.workspace.lake.load(victim.deduped)
    with server.admin() as admin:
        contract = victim.contract
        verdict = compare_table(admin, database, contract.table, contract.key, deduped)
    assert verdict.equal, verdict.describe()


@pytest.mark.full
def test_faults_are_caught_and_repaired(
    victim_of: Callable[[str], Victim], server: EmbeddedServer, database: str
) -> None:
    victim = victim_of(KEYED)
    assert_caught(victim, plant_all(victim, FEW))
    assert_mended(victim, server, database)


@pytest.mark.full
@pytest.mark.parametrize("table", [KEYED, LOOSE])
def test_every_fault_in_every_type_in_both_comparisons(
    table: str, victim_of: Callable[[str], Victim], server: EmbeddedServer, database: str
) -> None:
    victim = victim_of(table)
    assert len({f.name for f in EVERY}) == len(EVERY) == len(TYPES) + len(ROW_FAULTS)
    assert_caught(victim, plant_all(victim, EVERY))
    assert_mended(victim, server, database)


@pytest.mark.full
@pytest.mark.parametrize("names", [FILE_FAULTS, NAMES[: -len(FILE_FAULTS)]])
@pytest.mark.parametrize("table", [KEYED, LOOSE])
def test_one_by_one_as_the_command_does(
    table: str,
    names: tuple[str, ...],
    victim_of: Callable[[str], Victim],
    server: EmbeddedServer,
    database: str,
) -> None:
    victim, rng = victim_of(table), Random(3)  # noqa: S311
    found: list[Sabotaged] = [sabotage(victim, name, rng) for name in names]
    assert [one for one in found if not (one.caught and one.repaired)] == []
    assert_mended(victim, server, database)


def test_a_fault_that_was_not_planted_is_not_found() -> None:
    """The matrix would be worth nothing if any line would do."""
    line = "changed (id=7): `c_int` does not match between MySQL (val=1) and the lake (val=2)"
    assert altered("c_int").found(7, [line], keyed=True) == line
    assert altered("c_int").found(70, [line], keyed=True) == ""
    assert altered("c_tinyint").found(7, [line], keyed=True) == ""
    assert DOUBLED.found(7, [line], keyed=True) == ""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "kept").touch()
    yield tmp_path
    assert (tmp_path / "kept").exists()
    assert not (tmp_path / "sabotage.yaml").exists()


def test_what_no_demo_made_is_refused(folder: Path, server: EmbeddedServer) -> None:
    asked = ["faults", "--folder", str(folder)]
    found = CliRunner().invoke(demo, asked)
    assert isinstance(found.exception, ConfigError)
    assert "is not the folder of a running demo" in str(found.exception)
    # A server that lives elsewhere, though it lets us in.
    (folder / MARKER).write_text(json.dumps({"port": server.port, "password": PASSWORD}))
    assert USER == "mirror"
    found = CliRunner().invoke(demo, asked)
    assert isinstance(found.exception, ConfigError)
    assert "is not the demo's own" in str(found.exception)
    found = CliRunner().invoke(demo, [*asked, "--fault", "a meteor"])
    assert "there is no fault 'a meteor'" in str(found.exception)


@pytest.mark.full
def test_the_command_that_the_demo_shows_is_there(folder: Path) -> None:
    """As it is printed, from any folder: it refuses a folder of no demo, and is no unknown command."""
    shown = sabotage_command(folder)
    ran = subprocess.run(shown, shell=True, capture_output=True, text=True, check=False, cwd="/")
    assert ran.returncode == 2, ran.stderr
    assert "is not the folder of a running demo" in ran.stderr


@pytest.mark.full
def test_the_command_on_a_running_demos_server(tmp_path: Path) -> None:
    """In a process of its own, as a person would: with its own JVM, in the demo's own lake."""
    folder = tmp_path / "demo"
    folder.mkdir()
    with MariaDB.start(folder / "mysql") as server:
        server.create_user(USER, PASSWORD)
        (folder / MARKER).write_text(json.dumps({"port": server.port, "password": PASSWORD}))
        asked = ["faults", "--folder", str(folder), "--fault", "a lost row", "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "demo", *asked],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        [one] = json.loads(done.stdout)
        assert (one["table"], one["exact"], one["caught"]) == (KEYED, "different", True)
        assert one["repaired"]
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("SHOW DATABASES LIKE 'sabotage%'")
            assert cursor.fetchall() in ((), [])
    assert not list((folder / ".mirrorlake" / "lake").rglob("things*/data/*.parquet"))
