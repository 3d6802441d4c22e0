"""`make sabotage`: two rows of the demo's own weather, and the exact check names just these."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from demo.__main__ import demo
from demo.contract import demo_contract
from demo.damage import TARGETS, damage_table
from demo.nyc import load_nyc
from demo.run import MARKER, USER
from mirrorlake.config import load_config
from mirrorlake.errors import ConfigError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace

PASSWORD = "the demo's"
TABLE = TARGETS[0].table


@pytest.mark.alone
@pytest.mark.full
def test_a_row_is_lost_and_another_is_altered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    folder.mkdir()
    monkeypatch.setenv("MIRRORLAKE_DEMO_PASSWORD", PASSWORD)
    monkeypatch.setenv("MIRRORLAKE_HASH_KEY", "the demo's own key, no secret")
    with MariaDB.start(folder / "mysql") as server:
        server.create_user(USER, PASSWORD)
        with server.admin() as admin:
            load_nyc(admin)
        told = {"port": server.port, "password": PASSWORD, "ui": "http://127.0.0.1:3000"}
        (folder / MARKER).write_text(json.dumps(told))
        (folder / "mirrorlake.yaml").write_text(demo_contract(server.port))
        config = load_config(folder / "mirrorlake.yaml")
        with Workspace.open(config) as workspace:
            sync_table(workspace, config.table(TABLE))
            assert prove_table(workspace, config.table(TABLE), Ask())[0].verdict == "equal"
            done = damage_table(folder, Random(1))  # noqa: S311
            report, _ = prove_table(workspace, config.table(TABLE), Ask())
        found = {
            tuple(v.shown for v in d.key): (d.kind, [f.source.column for f in d.fields])
            for d in report.differences
        }
        lost, altered = ((origin, str(hour)) for origin, hour in (done.lost, done.altered))
        assert found == {lost: ("missing", []), altered: ("changed", ["precip"])}
        assert done.after != done.before
        assert done.page == "http://127.0.0.1:3000/assets/deduped/nyc/nyc/weather?view=checks"


def test_another_folder_than_a_demos_is_refused(tmp_path: Path) -> None:
    found = CliRunner().invoke(demo, ["sabotage", "--folder", str(tmp_path)])
    assert isinstance(found.exception, ConfigError)
    assert "is not the folder of a running demo" in str(found.exception)
