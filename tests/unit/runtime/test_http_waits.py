"""A server that takes a request and says nothing: the wait ends."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from mirrorlake.runtime.google import clients
from mirrorlake.runtime.http_waits import bound_session


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that takes connections, and answers none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def by_session(address: str) -> None:
    session = requests.Session()
    bound_session(session, 0.2)
    session.get(address)


def by_bigquery(_: str) -> None:
    clients.open_warehouse("p", None).get_dataset("p.d", retry=None)


def by_storage(_: str) -> None:
    # As a caller that passes its own absence of a limit on.
    clients.open_storage("p").get_bucket("b", retry=None, timeout=None)


def by_other_apis(address: str) -> None:
    clients.open_session("BIGQUERY_EMULATOR_HOST", "p", []).request("GET", address, timeout=None)


@pytest.mark.parametrize("ask", [by_session, by_bigquery, by_storage, by_other_apis])
def test_a_server_that_says_nothing(
    silent: str, monkeypatch: pytest.MonkeyPatch, ask: Callable[[str], Any]
) -> None:
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", silent)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", silent)
    monkeypatch.setattr(clients, "ANSWER_SECONDS", 0.2)
    with pytest.raises(Exception, match=r"(?i)timed? ?out"):
        ask(silent)
