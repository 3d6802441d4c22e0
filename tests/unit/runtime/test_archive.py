"""Java's class archive: found by all that it was made of, and of no weight where it does not fit."""

import subprocess
import sys

import pytest

from mirrorlake.errors import MachineError
from mirrorlake.operations.loading import warm
from mirrorlake.operations.loading.warm import make_archive
from mirrorlake.runtime import archive
from mirrorlake.runtime.archive import archive_of, archive_options
from mirrorlake.runtime.java import Java, find_java, java_environment


@pytest.fixture
def prefix(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    return tmp_path / "mirrorlake"


@pytest.fixture
def jars(monkeypatch, tmp_path):
    folder = tmp_path / "jars"
    folder.mkdir()
    (folder / "spark.jar").write_bytes(b"1")
    monkeypatch.setattr(archive, "_jars_folder", lambda: folder)
    return folder


def test_another_jar_or_another_java_is_another_archive(prefix, jars, tmp_path):
    found = {archive_of(tmp_path / "java").path}
    (jars / "spark.jar").write_bytes(b"22")
    found.add(archive_of(tmp_path / "java").path)
    (jars / "more.jar").touch()
    found.add(archive_of(tmp_path / "java").path)
    found.add(archive_of(tmp_path / "other").path)
    assert len(found) == 4
    assert {path.parent for path in found} == {prefix}


def test_a_java_without_its_own_archive_stands_on_ours(prefix, jars, tmp_path):
    home = tmp_path / "java"
    found = archive_of(home)
    assert found.base is not None
    prefix.mkdir()
    found.path.touch()
    assert archive_options(home) == []
    found.base.touch()
    assert archive_options(home)[0] == f"-XX:SharedArchiveFile={found.base}:{found.path}"
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    assert archive_of(home).base is None
    assert archive_options(home)[0] == f"-XX:SharedArchiveFile={found.path}"


def test_a_jvm_that_leaves_an_archive_uses_none(prefix, jars, tmp_path, monkeypatch):
    found = archive_of(tmp_path / "java")
    prefix.mkdir()
    for part in filter(None, (found.path, found.base)):
        part.touch()
    assert archive_options(tmp_path / "java")
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", '"-XX:ArchiveClassesAtExit=/new"')
    assert archive_options(tmp_path / "java") == []


def test_a_damaged_archive_is_passed_over_without_a_word(prefix, tmp_path):
    java = find_java()
    found = archive_of(java.home)
    prefix.mkdir()
    for part in filter(None, (found.path, found.base)):
        part.write_bytes(b"half")
    options = archive_options(java.home)
    assert options[0].split("=")[1].endswith(str(found.path))
    assert str(found.path) in java_environment()["SPARK_SUBMIT_OPTS"]
    ran = subprocess.run(
        [java.command, *options, "-Xint", "-version"], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0
    assert ran.stdout == ""
    assert [line for line in ran.stderr.splitlines() if "jsa" in line or "rchive" in line] == []


def test_a_java_that_makes_none_says_so(prefix, monkeypatch, tmp_path):
    """And leaves nothing behind."""
    monkeypatch.setattr(
        "mirrorlake.operations.loading.warm.find_java", lambda: Java(tmp_path, 17, False)
    )
    monkeypatch.setattr("mirrorlake.operations.loading.warm.ensure_jars", lambda _: [])
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho no such option >&2; exit 1\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    with pytest.raises(MachineError, match="made no class archive: no such option"):
        make_archive()
    assert list(prefix.iterdir()) == []


def test_a_java_that_takes_too_long_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr(warm, "_SECONDS", 0.2)
    with pytest.raises(MachineError, match=r"no class archive within 0\.2 s"):
        warm._run(["sleep", "60"], {}, tmp_path / "made.jsa")
