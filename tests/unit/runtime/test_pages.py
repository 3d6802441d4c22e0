"""A page takes the place of a page of ours, and of nothing else."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.runtime.pages.page import refuse_other_file, render_page, write_page

QUOTED = '<meta name="generator" content="Mirrorlake 1.0">'


@pytest.fixture
def page(tmp_path: Path) -> str:
    folder = tmp_path / "templates"
    folder.mkdir()
    (folder / "some.html").write_text("{% extends 'frame.html' %}{% block body %}x{% endblock %}")
    return render_page(folder, "some", "A title", {})


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "theirs",
    [
        "",
        "<html>mine</html>",
        f"<p>as in {QUOTED} I wrote</p>",
        f"<!doctype html>\n<html><head><title>Tags: {QUOTED}</title></head></html>",
        f"<!doctype html>\n<html><head></head><body>{QUOTED}</body></html>",
    ],
)
def test_a_file_of_somebody_else_stays(tmp_path: Path, page: str, theirs: str) -> None:
    path = tmp_path / "page.html"
    path.write_text(theirs)
    for attempt in (lambda: refuse_other_file(path, "-o"), lambda: write_page(path, page, "-o")):
        with pytest.raises(ConfigError, match="is no page of Mirrorlake's"):
            attempt()
    assert path.read_text() == theirs


@pytest.mark.timeout(20)
def test_what_is_no_file_stays(tmp_path: Path, page: str) -> None:
    """A pipe would be waited for; a link would be replaced, or what it leads to."""
    pipe, folder, link = tmp_path / "pipe", tmp_path / "folder", tmp_path / "link"
    os.mkfifo(pipe)
    folder.mkdir()
    for target in (tmp_path / "ours.html", tmp_path / "nowhere"):
        if target.suffix:
            write_page(target, page, "-o")
        link.unlink(missing_ok=True)
        link.symlink_to(target)
        with pytest.raises(ConfigError, match="symbolic link"):
            write_page(link, page, "-o")
        assert link.readlink() == target
    for path in (pipe, folder):
        with pytest.raises(ConfigError, match="is no page of Mirrorlake's"):
            write_page(path, page, "-o")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert not (tmp_path / "nowhere").exists()


def test_a_page_of_ours_is_replaced_with_its_mode(tmp_path: Path, page: str) -> None:
    path = tmp_path / "page.html"
    write_page(path, page, "-o")
    path.chmod(0o640)
    assert write_page(path, page + "<!-- newer -->", "-o") == path.stat().st_size
    assert path.read_text().endswith("<!-- newer -->")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names_in(tmp_path) == ["page.html", "templates"]


@pytest.mark.parametrize("name", ["x" * 300, "😀" * 70])
def test_a_name_that_is_too_long_is_one_error(tmp_path: Path, page: str, name: str) -> None:
    with pytest.raises(ConfigError, match="can't be written: File name too long"):
        write_page(tmp_path / name, page, "-o")
    assert names_in(tmp_path) == ["templates"]


def test_a_name_that_just_fits_is_written(tmp_path: Path, page: str) -> None:
    write_page(tmp_path / ("😀" * 62), page, "-o")
    assert names_in(tmp_path) == ["templates", "😀" * 62]
