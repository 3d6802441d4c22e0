"""The first command on a bare machine: every failure is one line."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).parents[3]


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone with ü"
    (folder / "tools").mkdir(parents=True)
    for name in ("bootstrap.py", "uv-requirements.txt", "build-requirements.txt"):
        shutil.copy(REPO / "tools" / name, folder / "tools")
    for name in ("requirements.lock", "pyproject.toml"):
        shutil.copy(REPO / name, folder)
    return folder


def run_setup(clone, tmp_path, python=(sys.executable,), **variables):
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path / "home"),
        "MIRRORLAKE_CACHE": str(tmp_path / "cache"),
        # No network: whatever is asked goes to a port where nobody listens.
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "HTTP_PROXY": "http://127.0.0.1:9",
        "PIP_RETRIES": "0",
        **variables,
    }
    return subprocess.run(
        [*python, str(clone / "tools" / "bootstrap.py")],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def only_line(ran):
    [line] = ran.stderr.splitlines()
    assert ran.returncode not in (0, None)
    return line


def test_no_network_the_first_time(clone, tmp_path):
    line = only_line(run_setup(clone, tmp_path))
    assert "no network" in line
    assert "Connect once" in line


def test_a_cache_folder_that_cant_be_written(clone, tmp_path):
    (tmp_path / "file").touch()
    line = only_line(run_setup(clone, tmp_path, MIRRORLAKE_CACHE=str(tmp_path / "file" / "x")))
    assert str(tmp_path / "file" / "x") in line
    assert "MIRRORLAKE_CACHE" in line


def test_a_python_without_pip_and_venv(clone, tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    for name in ("pip", "venv", "ensurepip"):
        (hidden / f"{name}.py").write_text(f"raise ImportError('no {name}')\n")
    line = only_line(run_setup(clone, tmp_path, PYTHONPATH=str(hidden)))
    assert "apt install python3-venv" in line


@pytest.mark.parametrize(
    "version",
    [(3, 10, 2), *(pytest.param(v, marks=pytest.mark.full) for v in ((3, 14, 0), (2, 7, 18)))],
)
def test_a_python_that_does_not_fit(clone, tmp_path, version):
    pretend = f"import sys, runpy; sys.version_info = {version}; runpy.run_path(sys.argv[1])"
    line = only_line(run_setup(clone, tmp_path, python=(sys.executable, "-c", pretend)))
    assert f"Python {version[0]}.{version[1]} " in line
    assert "make setup PYTHON=" in line


def test_a_missing_lock_file(clone, tmp_path):
    (clone / "requirements.lock").unlink()
    assert "git checkout requirements.lock" in only_line(run_setup(clone, tmp_path))


def test_lock_files_hold_hashes_and_no_addresses():
    for path in (REPO / "requirements.lock", *(REPO / "tools").glob("*-requirements.txt")):
        text = path.read_text()
        assert "://" not in text, path
        pins = [line for line in text.splitlines() if line and line[0].isalnum()]
        assert pins, path
        assert all("==" in line and line.endswith("\\") for line in pins), path
