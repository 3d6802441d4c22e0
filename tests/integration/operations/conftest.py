"""What tests of operations share."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import Place
from tests.integration.tenants import Tenants


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place) -> Iterator[Tenants]:
    """Databases that are tenants, and their mirror; each test has its own."""
    made = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}")
    yield made
    made.close()
