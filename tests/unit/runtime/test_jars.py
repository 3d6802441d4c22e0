"""Pinned jars: a file that is not what was pinned is never handed out."""

import hashlib
import importlib.util
import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from mirrorlake.errors import MachineError
from mirrorlake.runtime import downloads, jars
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
    served = {"content": CONTENT, "asked": 0, "status": 200, "paths": set()}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            served["asked"] += 1
            served["paths"].add(self.path)
            self.send_response(served["status"])
            self.send_header("Content-Length", str(len(served["content"])))
            self.end_headers()
            self.wfile.write(served["content"][: served.get("cut")])

        def log_message(self, *_):
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/maven2"
        monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", address)
        yield served
        server.shutdown()


def test_a_jar_is_brought_once(jar, repository):
    first = ensure_jars(["spark"])
    assert first == ensure_jars(["spark"])
    assert repository["asked"] == 1
    assert first[0].read_bytes() == CONTENT
    assert repository["paths"] == {"/maven2/org/example/thing/1.0/thing-1.0.jar"}


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


def test_how_far_a_download_is_can_be_shown(jar, repository):
    seen = []
    ensure_jars(["spark"], lambda one, arrived: seen.append((one.name, arrived)))
    assert seen == [("thing-1.0.jar", len(CONTENT))]
    ensure_jars(["spark"], lambda one, arrived: seen.append(one))
    assert len(seen) == 1, "it is here"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"status": 404}, r"doesn't have it, or refuses it \(HTTP 404\)"),
        ({"status": 401}, r"doesn't have it, or refuses it \(HTTP 401\)"),
        ({"cut": 5}, "the connection was lost on the way"),
    ],
)
def test_a_download_that_fails_is_named_and_not_kept(jar, repository, tmp_path, answer, words):
    repository.update(answer)
    with pytest.raises(MachineError, match=words) as caught:
        ensure_jars(["spark"])
    assert "DEFAULT_ARTIFACT_REPOSITORY names a mirror" in str(caught.value)
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert [path.suffix for path in kept] == [".lock"]


def test_nobody_at_the_repositorys_address(jar, monkeypatch):
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://user:s3cret@127.0.0.1:1")
    with pytest.raises(MachineError, match="no network") as caught:
        ensure_jars(["spark"])
    assert "s3cret" not in str(caught.value)


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


def test_the_repository_is_the_one_that_spark_takes_or_has_to_be_named(jar, monkeypatch):
    monkeypatch.delenv("DEFAULT_ARTIFACT_REPOSITORY", raising=False)
    address = downloads._of_spark("org.example:thing:1.0")
    assert address.startswith("https://")
    assert address.endswith("/maven2/")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MachineError, match="no repository is known") as caught:
        ensure_jars(["spark"])
    assert "DEFAULT_ARTIFACT_REPOSITORY" in str(caught.value)
    assert "or install Spark" in str(caught.value)
