"""A server's table beside a copy of it."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

from mirrorlake.cli.main import cli
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import PASSWORD, USER

Check = Callable[..., Result]


@pytest.fixture
def check(server: EmbeddedServer, database: str, monkeypatch: pytest.MonkeyPatch) -> Check:
    """`mirrorlake check … --from` this test's database, in a terminal that wraps nothing."""
    monkeypatch.setenv("MIRRORLAKE_CHECK_PASSWORD", PASSWORD)
    url = f"mysql://{quote(USER)}@127.0.0.1:{server.port}/{database}"

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(cli, ["check", *arguments, "--from", url])

    run.url = url  # type: ignore[attr-defined]
    return run
