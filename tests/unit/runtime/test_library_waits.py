"""What libraries and programs are waited for: each request has a limit, and what never ends is
given up. No time passes: a request fails at once, and what limit it had is noted."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import requests

from mirrorlake.config.sections.readers import TrinoConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog import google_login
from mirrorlake.destinations.iceberg.reading.trino import read_by_trino
from mirrorlake.errors import MachineError, MirrorlakeError
from mirrorlake.operations.loading import warm
from mirrorlake.runtime import java
from mirrorlake.sources.files import gcs_store


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The limits of the requests that this thread made; none gets an answer. Google's client has
    a thread of its own for what nobody waits for."""
    found: list[Any] = []
    ours = threading.get_ident()

    def send(*_: Any, timeout: Any = None, **__: Any) -> Any:
        if threading.get_ident() == ours:
            found.append(timeout)
        raise requests.exceptions.ReadTimeout("no answer")

    monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", send)
    return found


def by_landing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import google.cloud.storage.retry as retry  # type: ignore[import-untyped]

    soon = retry.DEFAULT_RETRY.with_timeout(0.01).with_delay(0.001)
    monkeypatch.setattr(gcs_store, "_patience", lambda: soon)
    gcs_store.GcsStore("gs://bucket", "http://127.0.0.1:9").entry("a")


def by_login(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = folder / "login.json"
    secrets = {"client_id": "a", "client_secret": "b", "refresh_token": "c"}
    login.write_text(json.dumps({"type": "authorized_user", **secrets}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(login))
    google_login.GoogleLogin().auth_header()


def by_trino(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = TrinoConfig(url="http://127.0.0.1:9", user="u", catalog="c")
    schema = pa.schema([("id", pa.int32())])
    list(read_by_trino(server, Identifier("s", "t"), 1, schema))


@pytest.mark.parametrize(
    ("ask", "seconds"),
    [(by_landing, 60), (by_login, 120), (by_trino, 30)],
    ids=["landing", "login", "trino"],
)
def test_each_request_of_a_library_has_a_limit(
    limits: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    ask: Callable[[Path, pytest.MonkeyPatch], None],
    seconds: float,
) -> None:
    with pytest.raises(MirrorlakeError):
        ask(tmp_path, monkeypatch)
    assert limits
    for limit in limits:
        assert seconds == max(limit if isinstance(limit, tuple) else (limit,))


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """A program that never ends."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(600)\n")
    program.chmod(0o755)
    return program


def test_a_java_that_never_says_which_it_is(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "SECONDS", 0.2)
    assert java.ask_version(endless) is None
    assert java.real_home(endless) == endless.parent.parent


def test_an_archive_that_is_never_made(endless: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "_SECONDS", 0.2)
    with pytest.raises(MachineError, match="within"):
        warm._run([str(endless)], {}, endless.with_name("made"))
