"""The embedded MySQL 8's files, unpacked by any Python that Mirrorlake runs on."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.support.mysql8_files import ARCHIVE, WANTED, unpack


def jar_of(path: Path, names: list[str]) -> Path:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as files:
        for name in names:
            member = tarfile.TarInfo(f"./{name}")
            member.size = 1
            files.addfile(member, io.BytesIO(b"x"))
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(ARCHIVE, packed.getvalue())
    return path


def test_a_python_whose_tarfile_knows_no_filter_unpacks_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian 12's Python is 3.11.2; filters came with 3.11.4."""
    real = tarfile.TarFile.extract

    def old(self: tarfile.TarFile, member: Any, path: Any = "", set_attrs: bool = True) -> None:
        real(self, member, path, set_attrs)

    monkeypatch.setattr(tarfile.TarFile, "extract", old)
    wanted = f"{WANTED[0]}/one" if not WANTED[0].endswith("/") else f"{WANTED[0]}one"
    (tmp_path / "new").mkdir()
    unpack(jar_of(tmp_path / "m.jar", [wanted, "else"]), tmp_path / "new", tmp_path)
    assert (tmp_path / "new" / wanted).read_bytes() == b"x"
    assert not (tmp_path / "new" / "else").exists()
