"""Ctrl-C while Spark works: one line, no trace, and the exit code of an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
from pathlib import Path
import mirrorlake.cli as line
from mirrorlake.config import load_config
from mirrorlake.workspace import Workspace

path = Path(sys.argv.pop())

@line.cli.command()
def forever():
    with Workspace.open(load_config(path)) as workspace:
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
    started = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "forever", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "started\n"
    # As a terminal does: to the whole group, the JVM too.
    os.killpg(started.pid, signal.SIGINT)
    _, said = started.communicate(timeout=120)
    assert (
        said.strip()
        == "Interrupted. What was not committed is not visible; the same command continues."
    )
    assert started.returncode == 130
