"""Ctrl-C while Spark starts or works: one line, no trace, and the exit code of an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mirrorlake.runtime.cache import cache_folder

PROGRAM = """
import sys
from pathlib import Path
import mirrorlake.cli.main as line
from mirrorlake.config import load_config
from mirrorlake.workspace import Workspace

path = Path(sys.argv.pop())

@line.cli.command()
def forever():
    with Workspace.open(load_config(path)) as workspace:
        print("starting", flush=True)
        spark = workspace.spark.get()
        print("started", flush=True)
        spark.sql("SELECT COUNT(*) FROM RANGE(1000000) a, RANGE(1000000) b").collect()

line.main()
"""
CONTRACT = (
    "version: 1\nsources: {s: {host: h, user: u, databases: {d: {tables: {t: {mode: full}}}}}}\n"
)


@pytest.mark.full
def test_an_interrupt_while_spark_works_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT)
    started = begin(path)
    assert started.stdout is not None
    assert [started.stdout.readline() for _ in range(2)] == ["starting\n", "started\n"]
    interrupt(started)


@pytest.mark.full
def test_an_interrupt_while_spark_starts_is_one_line(tmp_path: Path) -> None:
    """The JVM has been started, and reads its settings."""
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT)
    started = begin(path)
    deadline = time.monotonic() + 60
    while not list(cache_folder("tmp").glob(f"spark-settings-{started.pid}-*")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.3)
    interrupt(started)
    assert not list(cache_folder("tmp").glob(f"spark-settings-{started.pid}-*"))


def begin(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "forever", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def interrupt(started: subprocess.Popen[str]) -> None:
    # As a terminal does: to the whole group, the JVM too.
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert (
        said.strip()
        == "Interrupted. What was not committed is not visible; the same command continues."
    )
    assert started.returncode == 130
