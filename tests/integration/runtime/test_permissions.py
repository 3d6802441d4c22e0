"""What a sync, a fold, a check and an export write grants nobody more than `lake.permissions` says."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.operations.checking.check_layers import prove_layers
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.evidence import evidence_folder, folder_name, prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.lakes import modes, open_to_others
from tests.support.command import COMMAND

Sql = Callable[..., Any]
ROOT = Path(__file__).parents[3]
MODES = {"private": (0o600, 0o700), "group": (0o640, 0o750), "open": (0o644, 0o755)}
CONTRACT = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "clean": "table",
    "verify": True,
    "columns": {"mail": {"pii": "hash"}},
}


pytestmark = pytest.mark.usefixtures("usual_umask")


def make_rows(sql: Sql) -> None:
    sql(
        "CREATE TABLE t (id BIGINT PRIMARY KEY, mail VARCHAR(60), at DATETIME(6) NOT NULL, "
        "KEY (at))",
        "INSERT INTO t SELECT seq, CONCAT('m', seq, '@x.org'), "
        "UTC_TIMESTAMP(6) - INTERVAL 3 HOUR FROM seq_1_to_300",
    )


def change_rows(sql: Sql) -> None:
    sql("UPDATE t SET mail = 'new@x.org', at = UTC_TIMESTAMP(6) WHERE id < 9")


def test_nothing_of_a_mirror_is_open_to_others(
    sql: Sql, engine_for: Callable[..., Workspace], place: Place, database: str
) -> None:
    """Files that PyIceberg, Spark and its workers wrote, with both databases and the evidence."""
    make_rows(sql)
    workspace = engine_for({"t": CONTRACT})
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    change_rows(sql)
    sync_table(workspace, contract)
    report, _ = prove_table(workspace, contract, Ask())
    assert report.verdict == "equal"
    prove_layers(workspace, contract)
    lake = place.folder / "lake"
    layers = [lake / name for name in vars(contract.namespaces).values()]
    evidence = evidence_folder(workspace.config) / folder_name(contract.name)
    for layer in layers:
        kinds = {path.suffix for path in modes([layer]) if path.is_file()}
        assert {".parquet", ".avro", ".json"} <= kinds
    databases = [*place.folder.glob("ledger.db*"), *lake.glob("catalog.db*")]
    assert len(databases) >= 2
    assert open_to_others(*layers, *databases, evidence) == {}


@pytest.mark.full
@pytest.mark.parametrize("permissions", MODES)
def test_a_workspace_of_commands_has_the_modes_of_its_setting(
    sql: Sql, server: Any, database: str, place: Place, tmp_path: Path, permissions: str
) -> None:
    """Commands in processes of their own, with a usual umask: sync, check and export."""
    assert place.lake  # its fixture has set the passwords
    make_rows(sql)
    os.umask(0o077 if permissions == "open" else 0o000)
    folder = tmp_path / "workspace"
    config = write_contract(
        tmp_path / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {"t": CONTRACT}}},
        lake={"warehouse": "workspace/lake", "permissions": permissions},
        ledger={"url": "sqlite:///workspace/ledger.db"},
    )
    run(config, "sync")
    change_rows(sql)
    run(config, "sync")
    run(config, "check", "t", "--evidence", str(folder / "evidence"))
    run(config, "export", "t", "--to", str(folder / "out"))
    found = modes([folder])
    assert {path.relative_to(folder).parts[0] for path in found if path != folder} == {
        *("lake", "ledger.db", "evidence", "out"),
    }
    file, directory = MODES[permissions]
    wanted = {path: directory if path.is_dir() else file for path in found}
    assert {path: oct(mode) for path, mode in found.items() if mode != wanted[path]} == {}


def run(config: Path, *words: str) -> None:
    command = [*COMMAND, *words, "--config", str(config)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-4000:]}"
