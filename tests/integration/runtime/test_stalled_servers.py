"""Servers that take a connection and send nothing: of jars, and of a lake's files."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow.fs import GcsFileSystem

from mirrorlake.destinations.iceberg.storage.cloud_client import HOST, open_store
from mirrorlake.errors import MachineError
from mirrorlake.runtime import downloads


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server whose connections are never taken up: the system answers for it."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_repository_of_jars_is_given_up(
    silent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(downloads, "READ_SECONDS", 0.5)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", silent)
    with pytest.raises(MachineError, match="the repository did not answer in time") as caught:
        downloads.download_jar("org.example:nothing:1", tmp_path)
    assert caught.value.retryable


def ask(store: GcsFileSystem) -> None:
    store.get_file_info("bucket/a")


def write(store: GcsFileSystem) -> None:
    with store.open_output_stream("bucket/a") as stream:
        stream.write(b"x")


@pytest.mark.full
@pytest.mark.parametrize("act", [ask, write])
def test_a_store_of_files_is_given_up(silent: str, act: Callable[[Any], None]) -> None:
    """Two minutes for each request, the library's own limit."""
    with pytest.raises(OSError, match="Timeout was reached"):
        act(open_store({HOST: silent}))
