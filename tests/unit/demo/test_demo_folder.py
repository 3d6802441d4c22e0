"""What is in the demo's folder for people: models that they put there, and what a shell needs."""

from __future__ import annotations

import shlex
import stat
import subprocess
from pathlib import Path

import pytest

from demo.browse import SETTINGS, command_line, write_settings
from demo.computed import keep_models, put_models


def test_models_that_somebody_put_there_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    put_models(folder)
    assert keep_models(folder) is None
    changed, mine = (folder / "models" / name for name in ("flights/daily.sql", "mine/own.sql"))
    changed.write_text("SELECT 1 AS n")
    mine.parent.mkdir()
    mine.write_text("SELECT 2 AS n")
    kept = keep_models(folder)
    assert kept is not None
    found = {str(one.relative_to(kept)): one.read_text() for one in kept.rglob("*.sql")}
    assert found == {"flights/daily.sql": "SELECT 1 AS n", "mine/own.sql": "SELECT 2 AS n"}
    assert kept.parent == tmp_path
    assert keep_models(folder) is None


def test_a_shell_has_what_it_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    monkeypatch.setenv("MIRRORLAKE_DEMO_PASSWORD", "it's $HOME")
    monkeypatch.setenv("MIRRORLAKE_HASH_KEY", "k")
    write_settings(folder / "mirrorlake.yaml")
    settings = folder / SETTINGS
    assert stat.S_IMODE(settings.stat().st_mode) == 0o600
    shell = f'. {shlex.quote(str(settings))}; printf \'%s|\' "$MIRRORLAKE_DEMO_PASSWORD" "$MIRRORLAKE_CONFIG"'
    said = subprocess.run(
        ["/bin/sh", "-c", shell], capture_output=True, text=True, check=True, env={}
    )
    assert said.stdout == f"it's $HOME|{folder / 'mirrorlake.yaml'}|"
    assert command_line(folder).endswith("mirrorlake")
