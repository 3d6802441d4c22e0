"""The commands that work on tables and on what is computed from them, where nothing computes."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.ledger import Lease, Ledger, Window
from mirrorlake.operations.planning.computed import COMPUTED
from mirrorlake.operations.publishers import PUBLISHERS
from mirrorlake.operations.schema_changes.recorded_contracts import record_contract

CONTRACT = """
version: 1
lake: {warehouse: lake}
ledger: {url: "sqlite:///ledger.db"}
sources:
  s:
    host: 127.0.0.1
    user: mirror
    password: "${env:PASSWORD}"
    databases:
      d:
        tables:
          t: {mode: append, key: [id], cursor: at, start: 2024-01-01}
"""


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for seam in (COMPUTED, PUBLISHERS):
        monkeypatch.setitem(seam.__dict__, "added", {})
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT)
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "models" / "m" / "daily.sql").write_text("SELECT id FROM s_d.t")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PASSWORD", "x")
    config = load_config(path)
    ledger = Ledger(config.ledger.url)
    record_contract(ledger, config.table("t"))
    load_id = ledger.create_load("s.d.t", Window("initial", None, None, date(2024, 1, 2)))
    load = ledger.start_load(load_id, Lease("s.d.t", "o", 1), "run", "t_v_1", None)
    ledger.fail_load(load, "gone")
    return path


def read_json(*arguments: str) -> Any:
    ran = CliRunner().invoke(cli, [*arguments, "--json"])
    assert ran.exit_code in (0, 10), (ran.output, ran.exception)
    return json.loads(ran.stdout)


def test_a_plan_is_of_contracts_alone() -> None:
    found = read_json("plan")
    assert (found["models"], found["problems"]) == ([], [])
    assert [(one["table"], one["change"]) for one in found["contracts"]] == [("s.d.t", "unchanged")]


def test_a_backfill_is_of_tables_alone() -> None:
    (load, fold) = read_json("plan", "backfill", "--to", "2024-01-03")["steps"]
    assert (load["step"], load["target"]) == ("load", "s.d.t")
    assert (fold["step"], fold["target"]) == ("fold", "s.d.t")
    assert read_json("backfill", "--invalid") == []


def test_a_model_is_no_target() -> None:
    for command in (("backfill", "m.daily"), ("invalidate", "m.daily"), ("maintain", "m.daily")):
        ran = CliRunner().invoke(cli, command)
        assert "m.daily" in str(ran.exception), command


def test_what_is_declared_invalid_is_of_the_table_alone() -> None:
    assert read_json("recover")["errors"] == []
    assert read_json("invalidate") == []
