"""What `mirrorlake doctor` says of a contract without asking anybody."""

from __future__ import annotations

import pytest

from mirrorlake.config import SourceConfig
from mirrorlake.config.server import Tls, TlsConfig
from mirrorlake.operations.status.doctor import unproved_server


@pytest.mark.parametrize(
    ("host", "tls", "words"),
    [
        ("db.example.com", "required", "checks no certificate"),
        ("db.example.com", "off", "in clear text"),
        ("db.example.com", TlsConfig(ca="/ca.pem"), ""),
        ("127.0.0.1", "off", ""),
    ],
)
def test_a_server_that_does_not_prove_itself_is_named(host: str, tls: Tls, words: str) -> None:
    source = SourceConfig(name="s", host=host, port=3306, user="u", tls=tls, time_zone="UTC")
    found = unproved_server(source)
    assert [words in one for one in found] == ([True] if words else [])
