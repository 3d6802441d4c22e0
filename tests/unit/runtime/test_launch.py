"""Starts of Spark in several threads: the environment is the process's."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mirrorlake.runtime.launch import hidden_settings


def test_two_starts_at_once_leave_the_environment_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left behind, the name of a file that is gone would fail every later start."""
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    inside, leave = threading.Event(), threading.Event()

    def start() -> None:
        with hidden_settings({"a": "2"}):
            inside.set()
            leave.wait()

    second = threading.Thread(target=start)
    with hidden_settings({"a": "1"}):
        second.start()
        inside.wait(0.3)
    assert inside.wait(60)
    leave.set()
    second.join()
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ
