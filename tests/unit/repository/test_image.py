"""The image of batches: what its Dockerfile copies and runs is there."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.runtime.jars import pinned

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "dataproc"
YOURS = {"mirrorlake.yaml"}
"""What whoever builds the image brings."""


def instructions() -> list[tuple[str, str]]:
    text = (FOLDER / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
    return [(word, " ".join(rest.split())) for word, rest in lines]


def test_what_is_copied_is_there() -> None:
    copied = [text.split()[:-1] for word, text in instructions() if word == "COPY"]
    sources = {one for sources in copied for one in sources}
    assert [one for one in sources if not (ROOT / one).exists()] == [*YOURS]
    assert {"requirements.lock", "mirrorlake/", "dagster_mirrorlake/"} <= sources


def test_what_it_runs_is_there() -> None:
    runs = "\n".join(text for word, text in instructions() if word == "RUN")
    (code,) = re.findall(r'-c "(.*?)"', runs)
    found = re.fullmatch(r"from (\S+) import (\w+); \w+\(\['(\w+)', '(\w+)'\]\)", code)
    assert found is not None
    module, name, *groups = found.groups()
    assert hasattr(importlib.import_module(module), name)
    assert {jar.group for jar in pinned(groups)} == {"spark", "gcs"}
    assert "--uid 1099" in runs
    assert {"procps", "tini"} <= set(runs.split())
    assert instructions()[-1] == ("USER", "spark")


def test_its_main_becomes_the_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *args: became.append(args))
    monkeypatch.setattr(sys, "argv", ["batch.py", "--dagster-pipes-context", "x"])
    for name in ("PYTHONPATH", "SPARK_HOME", "PYSPARK_GATEWAY_PORT", "MIRRORLAKE_CACHE"):
        monkeypatch.setenv(name, "y")
    runpy.run_path(str(FOLDER / "batch.py"), run_name="__main__")
    ((python, arguments, environment),) = became
    assert arguments[0] == python == "/opt/mirrorlake/venv/bin/python"
    assert arguments[1:] == [
        *("-m", "dagster_mirrorlake.batches.entry", "--dagster-pipes-context", "x")
    ]
    assert importlib.util.find_spec(arguments[2]) is not None
    kept = {"PYTHONPATH", "SPARK_HOME", "PYSPARK_GATEWAY_PORT", "MIRRORLAKE_CACHE"} & {*environment}
    assert kept == {"MIRRORLAKE_CACHE"}
