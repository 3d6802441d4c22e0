"""A place that can't be used is one line with a next step, whatever command meets it."""

from __future__ import annotations

import errno
from pathlib import Path

import click
import pytest

from mirrorlake.cli.main import main
from mirrorlake.runtime.file_errors import file_error


def ends(act: object, capsys: pytest.CaptureFixture[str]) -> tuple[object, str]:
    with pytest.raises(SystemExit) as ended:
        main(click.Command("x", callback=act))  # type: ignore[arg-type]
    return ended.value.code, capsys.readouterr().err


def test_a_folder_that_is_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["x"])
    (tmp_path / "file").touch()
    code, said = ends(lambda: (tmp_path / "file" / "a").write_text(""), capsys)
    assert code == 3
    assert "file/a: Not a directory. See that each folder above it" in " ".join(said.split())


def test_a_fault_of_ours_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["x"])
    assert file_error(OSError(errno.EBADF, "Bad file descriptor")) is None

    def fail() -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    with pytest.raises(OSError, match="Bad file"):
        main(click.Command("x", callback=fail))
