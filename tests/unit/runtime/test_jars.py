"""Pinned jars: a file that is not what was pinned is never handed out."""

import hashlib
import json
import logging

import pytest

from mirrorlake.errors import MachineError
from mirrorlake.runtime import jars
from mirrorlake.runtime.jars import Jar, ensure_jars, pinned, read_pins

CONTENT = b"the jar that was pinned"


@pytest.fixture
def jar(monkeypatch, tmp_path):
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path / "cache"))
    pin = Jar("spark", "org.example:thing:1.0", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())
    monkeypatch.setattr(jars, "read_pins", lambda: (pin,))
    return pin


@pytest.fixture
def repository(monkeypatch):
    """A repository that serves ``served["content"]`` and counts how often it was asked."""
    served = {"content": CONTENT, "asked": 0}

    def resolve(coordinates, folder):
        served["asked"] += 1
        path = folder / "thing.jar"
        path.write_bytes(served["content"])
        return path

    monkeypatch.setattr(jars, "resolve_jar", resolve)
    return served


def test_a_jar_is_brought_once(jar, repository):
    first = ensure_jars(["spark"])
    assert first == ensure_jars(["spark"])
    assert repository["asked"] == 1
    assert first[0].read_bytes() == CONTENT


@pytest.mark.parametrize("damage", [CONTENT[:5], CONTENT[:-1] + b"!", b""])
def test_a_damaged_jar_is_named_removed_and_brought_again(jar, repository, caplog, damage):
    [path] = ensure_jars(["spark"])
    path.write_bytes(damage)
    with caplog.at_level(logging.WARNING):
        assert ensure_jars(["spark"]) == [path]
    assert path.read_bytes() == CONTENT
    assert repository["asked"] == 2
    assert str(path) in caplog.text


def test_a_download_with_a_wrong_checksum_is_refused_and_not_kept(jar, repository, tmp_path):
    repository["content"] = CONTENT[:-1] + b"!"
    with pytest.raises(MachineError, match="not the pinned one") as caught:
        ensure_jars(["spark"])
    assert "org.example:thing:1.0" in str(caught.value)
    assert repository["asked"] == 1
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert [path.suffix for path in kept] == [".lock"]


def test_an_unknown_group_is_named(jar):
    with pytest.raises(MachineError, match="called spork"):
        pinned(["spork"])


def test_the_committed_pins_are_whole():
    raw = json.loads(jars.PINS.read_text())
    assert {"spark", "mariadb", "mysql"} <= raw.keys()
    for pin in read_pins():
        assert pin.coordinates.count(":") == 2
        assert len(bytes.fromhex(pin.sha256)) == 32
        assert pin.size > 200_000
