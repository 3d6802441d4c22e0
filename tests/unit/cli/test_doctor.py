"""`mirrorlake doctor` on the screen: what is fine is counted, what is not is whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mirrorlake.cli.main import cli
from mirrorlake.runtime.doctor import Diagnosis

FINE = [Diagnosis(f"piece {n}", "1", "ok", f"/somewhere/{n}", "") for n in range(12)]
FIRST = "piece 0, piece 1, piece 2, piece 3, piece 4 and 7 more"
COMING = Diagnosis("jar x", "1", "missing", "/x", "brought", optional=True, automatic=True)
LIMIT = Diagnosis("source s: privileges", "", "missing", "h:1", "without A, b", optional=True)
LOST = Diagnosis("lake", "", "broken", "/lake", "the lake is not there. Put it back")


def doctor(monkeypatch: pytest.MonkeyPatch, folder: Path, found: list[Diagnosis]) -> Result:
    monkeypatch.chdir(folder)
    Path("mirrorlake.yaml").touch()
    monkeypatch.setattr("mirrorlake.runtime.doctor.diagnose", lambda _: [*FINE, COMING])
    monkeypatch.setattr("mirrorlake.operations.status.doctor.diagnose_contract", lambda _: found)
    return CliRunner().invoke(cli, ["doctor"])


def test_what_is_fine_is_counted_and_what_is_not_is_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    done = doctor(monkeypatch, tmp_path, [*FINE, LIMIT, LOST])
    assert done.exit_code == 3
    assert done.output.splitlines() == [
        f"this machine: 12 ok ({FIRST}), 1 not here, brought when needed",
        f"mirrorlake.yaml: 12 ok ({FIRST}), 1 not ok, 1 to know of",
        "lake: the lake is not there. Put it back",
        "source s: privileges: without A, b",
        "Every piece, with its version and place: `mirrorlake doctor --all`",
    ]


def test_what_sync_can_do_without_does_not_fail_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert doctor(monkeypatch, tmp_path, [*FINE, LIMIT]).exit_code == 0
