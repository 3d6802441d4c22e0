"""`mirrorlake doctor --fix`: what it repairs, what it leaves alone, and that it touches no row."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mirrorlake.cli.main import cli
from mirrorlake.config import config_schema
from mirrorlake.errors import LeaseHeld
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.runtime.permissions import held
from tests.integration.contract_files import write_contract

ROOT = Path(__file__).parents[3]
TABLE = {"t": {"mode": "full", "key": ["id"]}}
HOLDS = """
import sys, time
from mirrorlake.ledger import Ledger
with Ledger(sys.argv[1]).lease("s.d.dead", "its-run"):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def project(
    server: EmbeddedServer,
    database: str,
    sql: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A contract whose table was never loaded, its ledger, and nothing else to complain of."""
    monkeypatch.setenv("TEST_PASSWORD", "p@ss w/örd%")
    monkeypatch.setenv("TEST_HASH_KEY", "a key for the tests, sixteen or more")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    sql("CREATE TABLE t (id INT PRIMARY KEY)")
    path = write_contract(Path("mirrorlake.yaml"), server.port, {database: {"tables": TABLE}})
    with held("private"):
        Ledger("sqlite:///ledger.db")
        (tmp_path / "lake").mkdir()
    return path


def doctor(*words: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *words])


def fixed(*words: str) -> dict[str, tuple[bool, str]]:
    found = json.loads(doctor("--fix", "--json", *words).stdout)
    return {one["name"]: (one["fixed"], one["words"]) for one in found}


def test_what_needs_no_decision_is_repaired_and_the_rest_is_said(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, schema = tmp_path / "home", tmp_path / "mirrorlake.schema.json"
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    schema.write_text(json.dumps({"title": "mirrorlake.yaml", "of": "an older version"}))
    data = tmp_path / "lake" / "data.parquet"
    data.write_bytes(b"rows")
    data.chmod(0o644)
    said = doctor().output
    [offer] = [line for line in said.splitlines() if line.startswith("`mirrorlake doctor --fix` ")]
    for words in ("permissions of the lake (take", "JSON schema (write it", "home (make the"):
        assert words in offer
    assert data.stat().st_mode & 0o777 == 0o644, "a look changes nothing"
    contract = project.read_text()
    done = fixed()
    assert done["permissions of the lake"] == (True, "1 file and folders narrowed to private")
    assert done["the contract's JSON schema"] == (True, f"wrote {schema.name}")
    assert done["Dagster's home"][0]
    assert (data.stat().st_mode & 0o777, data.read_bytes()) == (0o600, b"rows")
    assert json.loads(schema.read_text()) == config_schema()
    assert home.is_dir()
    assert project.read_text() == contract
    again = fixed()
    assert not {"permissions of the lake", "the contract's JSON schema"} & again.keys()


def test_what_takes_a_decision_is_left_alone_with_the_reason(
    project: Path, sql: Callable[..., Any]
) -> None:
    sql("DROP TABLE t")
    before = project.read_text()
    ran = doctor("--fix")
    assert ran.exit_code == 3
    [line] = [one for one in ran.output.splitlines() if one.startswith("not fixed table s.")]
    assert "it takes a change in the contract, or in MySQL: " in line
    assert project.read_text() == before


def test_leases_of_runs_that_died_are_released_and_no_others(project: Path) -> None:
    url = "sqlite:///ledger.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, url],
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"held\n"
        ledger = Ledger(url)
        assert "leases" not in fixed()
        run.send_signal(signal.SIGKILL)
    with ledger.lease("s.d.alive", "another-run"):
        assert ledger.abandoned_leases() == ["s.d.dead"]
        assert "leases (release them)" in doctor().output
        assert fixed()["leases"] == (True, "released: s.d.dead")
        assert ledger.abandoned_leases() == []
        assert not ledger.release_abandoned("s.d.alive")
        with pytest.raises(LeaseHeld), ledger.lease("s.d.alive", "a third"):
            pass
    with ledger.lease("s.d.dead", "the next"):
        pass
