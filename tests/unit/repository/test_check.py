"""`make check`: side by side, and nothing of what one of them finds is lost."""

from __future__ import annotations

import sys

import pytest

from tools import check


def says(text: str, code: int) -> tuple[str, ...]:
    return (sys.executable, "-c", f"import sys; print({text!r} * 30_000); sys.exit({code})")


def test_each_is_run_and_shown_whole_whatever_fails(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check, "CHECKS", (says("one ", 3), says("two ", 0)))
    assert check.main() == 1
    shown, errors = capfd.readouterr()
    assert shown == "two " * 30_000 + "\n" + "one " * 30_000 + "\n"
    assert errors.count("failed") == 1
    monkeypatch.setattr(check, "CHECKS", (says("one ", 0), says("two ", 0)))
    assert check.main() == 0
