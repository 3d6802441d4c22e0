"""Trino beside the others: a stand-in everywhere, and a real one where somebody names it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.operations.test_readers import TERMS
from tests.support.trino_process import VARIABLE

# Not skipped: nobody is to read that it was looked at.
collect_ignore = [] if os.environ.get(VARIABLE) else ["test_real_trino.py"]


@pytest.fixture
def with_trino(server: EmbeddedServer, place: Place, database: str) -> Callable[..., Workspace]:
    """The test's lake, which a Trino at an address reads, too."""

    def make(url: str, **readers: Any) -> Workspace:
        path = write_contract(
            place.folder / f"{database}.yaml",
            server.port,
            {database: {"tables": {"t": TERMS}}},
            readers={"trino": {"url": url, "user": "reader", "catalog": "lake"} | readers},
        )
        return Workspace.open(load_config(path), spark=place.spark)

    return make
