"""`mirrorlake try`, as somebody runs it who has just installed the base package and has nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.installed import BASES, Installed, base_of


@pytest.fixture(scope="module", params=BASES)
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """No Spark, no Java, no demo."""
    place = tmp_path_factory.mktemp("base")
    return base_of(request.param, place)


def servers(folder: Path) -> set[str]:
    """The process ids of the MariaDBs whose data is below a folder."""
    found = set[str]()
    for name in Path("/proc").iterdir():
        if name.name.isdigit():
            try:
                words = (name / "cmdline").read_bytes()
            except OSError:
                continue
            if b"/mariadbd\0" in words and f"--datadir={folder}/".encode() in words:
                found.add(name.name)
    return found


@pytest.mark.full
def test_a_shop_is_mirrored_changed_and_proved(base: Installed, tmp_path: Path) -> None:
    said = base.run("mirrorlake", "try", "--keep", "kept", cwd=tmp_path, TMPDIR=str(tmp_path))
    shown = [line for line in said.splitlines() if line.startswith(("$ ", "mysql> "))]
    assert [line.split()[2] for line in shown if line.startswith("$ ")] == [
        *("init", "sync", "check", "sync", "check", "proof", "report"),
    ]
    assert sum(line.startswith("mysql> ") for line in shown) == 4
    assert said.count("6 equal") == 2
    assert "6 tables: 3 loaded, 3 unchanged" in said, "what was changed is read again, and no more"
    assert "First proof after" in said
    assert servers(tmp_path) == set()
    kept = tmp_path / "kept"
    assert sorted(path.name for path in kept.iterdir()) == [
        *(".mirrorlake", "mirrorlake.schema.json", "mirrorlake.yaml", "report.html"),
    ]
    assert list(tmp_path.glob("mirrorlake-try-*")) == []
    assert "password: ${env:SHOP_PASSWORD}" in (kept / "mirrorlake.yaml").read_text("utf-8")
    refused = base.end("mirrorlake", "try", "--keep", "kept", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--keep kept holds something already. Give a folder that is empty" in refused.stdout


@pytest.mark.full
def test_what_a_program_reads(base: Installed, tmp_path: Path) -> None:
    done = json.loads(base.run("mirrorlake", "try", "--json", cwd=tmp_path))
    assert (done["tables"], done["folder"]) == (6, None)
    assert done["rows"] > 1_000
    assert done["steps"][0]["command"].startswith(
        "mirrorlake init --from mysql://mirror@127.0.0.1:"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.full)]
)
def test_nothing_is_left_of_one_that_is_ended(
    base: Installed, tmp_path: Path, sent: signal.Signals
) -> None:
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        [base.home / "bin" / "mirrorlake", "try"],
        cwd=tmp_path,
        env=base.variables({"TMPDIR": str(tmp_path / "tmp"), "PYTHONUNBUFFERED": "1"}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    before = ""
    for line in process.stdout:
        if line.startswith("$ mirrorlake sync"):
            break
        before += line
    assert "An invented shop, on 127.0.0.1:" in before
    assert "Wrote mirrorlake.yaml: 6 tables (1 full, 4 incremental, 1 append)" in before
    assert len(servers(tmp_path)) == 2, "the server, and what watches it"
    # Its first table is loaded: a Python that only just starts says more than we do.
    assert process.stdout.readline()
    # As a terminal does it: to the command and to the step that it runs.
    os.killpg(process.pid, sent)
    rest = process.stdout.read()
    code = process.wait(60)
    deadline = time.monotonic() + 60
    while servers(tmp_path) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert servers(tmp_path) == set()
    if sent == signal.SIGINT:
        assert (code, "Interrupted." in rest) == (130, True)
        assert "Traceback" not in rest
        assert list((tmp_path / "tmp").glob("mirrorlake-try-*")) == []
