"""What dlt, rivet-cli and Spark's JDBC reader really lose, type by type, on tables that they make
here: every loss is named, and what they keep is equal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.other_copies import peers
from tests.integration.other_copies.peer_outcomes import OUTCOMES, matrix
from tests.integration.other_copies.peer_table import COLUMNS
from tests.support.mysql8 import MySQL8

PAGE = Path(__file__).resolve().parents[3] / "docs" / "check-against-tools.md"
AWAY = ("--default-time-zone=+02:00",)
ON_MYSQL = {name: kind for name, kind in COLUMNS.items() if kind != "UUID"}


@pytest.fixture(scope="module")
def mariadb_away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    with MariaDB.start(tmp_path_factory.mktemp("away"), extra_args=AWAY) as server:
        peers.make_tables(server)
        yield server


@pytest.fixture(scope="module")
def mysql8_away(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MySQL8]:
    with MySQL8.start(tmp_path_factory.mktemp("away8"), extra_args=AWAY) as server:
        peers.make_tables(server, ON_MYSQL)
        yield server


def outcomes(
    server: EmbeddedServer, failed: dict[str, str], folder: Callable[[str], Path]
) -> dict[str, str]:
    """Column → ``fails``, ``equal``, or what was lost."""
    return {
        name: "fails" if why else _compared(server, name, folder(peers.table_of(name)))
        for name, why in failed.items()
    }


def _compared(server: EmbeddedServer, name: str, copy: Path) -> str:
    arguments = ["check", peers.table_of(name), "--against", str(copy)]
    arguments += ["--from", peers.url_of(server), "--json"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code in (0, 9), result.output
    [found] = json.loads(result.stdout)["tables"]
    assert found["rows"] == [4, 4]
    kinds = {one["kind"] for one in found["differences"] if not one["lossless"]}
    assert bool(kinds) == (result.exit_code == 9)
    return ", ".join(sorted(kinds)) or "equal"


@pytest.mark.full
@pytest.mark.parametrize("backend", ["sqlalchemy", "pyarrow", "connectorx"])
def test_what_dlt_loses(mariadb_away: MariaDB, tmp_path: Path, backend: str) -> None:
    failed = peers.copy_by_dlt(mariadb_away, tmp_path, backend)
    out = tmp_path / "out" / backend
    found = outcomes(mariadb_away, failed, lambda table: out / table)
    assert found == OUTCOMES[f"dlt, {backend}"]


@pytest.mark.full
def test_what_spark_loses(mariadb_away: MariaDB, tmp_path: Path) -> None:
    failed = peers.copy_by_spark(mariadb_away, tmp_path)
    found = outcomes(mariadb_away, failed, lambda table: tmp_path / table)
    assert found == OUTCOMES["Spark JDBC"]


@pytest.mark.full
def test_what_rivet_loses(mysql8_away: MySQL8, tmp_path: Path) -> None:
    failed = peers.copy_by_rivet(mysql8_away, tmp_path, ON_MYSQL)
    found = outcomes(mysql8_away, failed, lambda table: tmp_path / table)
    assert found == OUTCOMES["rivet"]


def test_the_page_says_what_was_found() -> None:
    assert matrix() in PAGE.read_text(encoding="utf-8")


def test_the_comparison_counts_what_was_found() -> None:
    page = PAGE.with_name("comparison.md").read_text(encoding="utf-8")
    equal = {tool: [*found.values()].count("equal") for tool, found in OUTCOMES.items()}
    dlt = " and ".join(
        ", ".join(str(n) for tool, n in equal.items() if tool.startswith("dlt")).rsplit(", ", 1)
    )
    tried = len(COLUMNS)
    assert f"of {tried} types, {dlt} are equal" in page
    assert f"of {tried} types, {equal['Spark JDBC']} are equal" in page
    assert f"of {len(ON_MYSQL)} types, {equal['rivet']} are equal" in page
