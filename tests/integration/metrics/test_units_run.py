"""The command of each unit of systemd does what docs/systemd.md says, in the unit's environment;
and metrics agree with the table's state before and after a fault."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.unit.repository.test_units import ROOT, read

BIN = Path(sys.executable).parent
TABLES = {"t": {"mode": "full", "key": ["id"]}, "w": {"mode": "binlog", "key": ["id"]}}


class Units:
    """Runs a unit's command, with this machine's folders in place of the unit's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.places = {
            "/opt/mirrorlake/bin": str(BIN),
            "/srv/mirrorlake": str(folder),
            "/backups/mirrorlake": str(folder.parent / "backups"),
        }

    def begin(self, unit: str, instance: str = "") -> subprocess.Popen[str]:
        said = read(ROOT / "deploy" / "systemd" / unit)["Service"]
        command = said["ExecStart"].replace("%i", instance)
        for theirs, ours in self.places.items():
            command = command.replace(theirs, ours)
        settings = {**os.environ, "MIRRORLAKE_CONFIG": str(self.folder / "mirrorlake.yaml")}
        return subprocess.Popen(
            shlex.split(command),
            cwd=self.folder,
            env=settings,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, unit: str, instance: str = "", code: int = 0) -> str:
        process = self.begin(unit, instance)
        said, _ = process.communicate(timeout=120)
        assert process.returncode == code, said
        return said

    def metrics(self) -> dict[tuple[str, str], float]:
        """(metric, table) → value, of those without other labels."""
        command = [BIN / "mirrorlake", "metrics", "--config", self.folder / "mirrorlake.yaml"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        found: dict[tuple[str, str], float] = {}
        for family in text_string_to_metric_families(said):
            for sample in family.samples:
                kind = sample.labels.get("kind", "")
                found[f"{sample.name} {kind}".strip(), sample.labels.get("table", "")] = (
                    sample.value
                )
        return found


@pytest.mark.full
def test_the_units_mirror_prove_follow_and_back_up(
    server: EmbeddedServer,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert place
    for name in TABLES:
        sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1)")
    folder = tmp_path / "srv"
    folder.mkdir()
    # Nobody is there, and nothing is to be sent.
    monkeypatch.setenv("ALERTS_HOOK", "http://127.0.0.1:9/")
    hooks = {"webhook": "${env:ALERTS_HOOK}"}
    path = folder / "mirrorlake.yaml"
    write_contract(path, server.port, {database: {"tables": TABLES}}, alerts=hooks)
    units = Units(folder)
    table = f"s.{database}.t"
    for command in ("sync", "check", "alert"):
        units.run("mirrorlake@.service", command)
    found = units.metrics()
    assert found["mirrorlake_table_rows", table] == 1
    assert found["mirrorlake_table_proved_rows", table] == 1
    as_of = found["mirrorlake_table_as_of_timestamp_seconds", table]
    assert abs(as_of - datetime.now(UTC).timestamp()) < 120
    assert not any("not_right" in name for name, _ in found)

    # The log is followed until the unit is stopped; and then a check finds what no sync can see.
    follower = units.begin("mirrorlake-follow@.service", "s")
    assert follower.stdout is not None
    assert "lag" in follower.stdout.readline()
    sql("INSERT INTO w VALUES (2, 2)")
    assert "1 row" in "".join(follower.stdout.readline() for _ in range(2))
    follower.send_signal(signal.SIGTERM)
    follower.communicate(timeout=60)
    assert follower.returncode == 0
    sql("SET sql_log_bin = 0", "UPDATE w SET v = 9 WHERE id = 1", "SET sql_log_bin = 1")
    units.run("mirrorlake@.service", "sync")
    units.run("mirrorlake@.service", "check", code=9)
    found = units.metrics()
    assert found["mirrorlake_table_not_right different", f"s.{database}.w"] == 1
    units.run("mirrorlake-backup.service")
    assert list((tmp_path / "backups").glob("*/manifest.json"))
    units.run("mirrorlake@.service", "maintain")
