"""An archive is read again once it changed, and not before."""

from __future__ import annotations

import zipfile
import zipimport
from pathlib import Path

import pytest

from mirrorlake.destinations.iceberg.spark import python_daemon


def test_an_archive_that_changed_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forgotten: list[str] = []
    forget = zipimport.zipimporter.invalidate_caches

    def noted(importer: zipimport.zipimporter) -> None:
        forgotten.append(importer.archive)
        forget(importer)

    monkeypatch.setattr(python_daemon, "_forget", noted)
    monkeypatch.setattr(python_daemon, "_known", {})
    archive = tmp_path / "some.zip"
    with zipfile.ZipFile(archive, "w") as out:
        out.writestr("one.py", "")
    importer = zipimport.zipimporter(str(archive))
    for _ in range(3):
        python_daemon._forget_if_changed(importer)
    assert len(forgotten) == 1
    with zipfile.ZipFile(archive, "a") as out:
        out.writestr("two.py", "")
    python_daemon._forget_if_changed(importer)
    assert len(forgotten) == 2
    assert importer.find_spec("two") is not None
