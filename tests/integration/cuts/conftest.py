"""Commands over the tests' session, on the servers that a cut must hold on."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from mirrorlake.cli.main import cli
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.support.trino_process import VARIABLE

# Not skipped: nobody is to read that it was looked at.
collect_ignore = [] if os.environ.get(VARIABLE) else ["test_trino_at_cuts.py"]


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def command(place: Place, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    share_session(place, monkeypatch)

    def run(*arguments: str, workspace: Workspace) -> Result:
        config = str(workspace.config.path)
        return CliRunner().invoke(cli, [*arguments, "--config", config])

    return run
