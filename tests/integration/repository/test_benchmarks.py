"""Every part of the benchmarks runs to its end, at a hundredth of its size: its figures say nothing
there, and what it calls is there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import PARTS

ROOT = Path(__file__).parents[3]


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", sorted(PARTS))
def test_a_part_runs_to_its_end(part: str) -> None:
    command = [sys.executable, "-m", "benchmarks", "--part", part, "--dry"]
    ended = subprocess.run(
        [*command, "--runs", "1", "--scale", "0.01"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200"},  # no heading of a table is cut
    )
    assert ended.returncode == 0, ended.stdout[-4_000:]
    assert "median s" in ended.stdout or "peak MB" in ended.stdout
