"""Tables of one log are shown at one moment by a sync where a REST server keeps the catalog."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.cuts.test_cuts import BANK, TOTAL, bank, transfers
from tests.integration.operations.test_follow_log import assert_equal, sync_all
from tests.integration.operations.test_one_moment import Reader, branches, read_by, synced
from tests.integration.projects import place_behind_rest
from tests.support.rest_catalog import RestCatalogServer, running_catalog

pytestmark = pytest.mark.timeout(1200)
Sql = Callable[..., Any]
COMMIT = "POST /v1/transactions/commit"
__all__ = ["bank"]


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.full)])
def catalog(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestCatalogServer]:
    """One that commits to several tables at once, and says so; or not."""
    folder = tmp_path_factory.mktemp("läke behind rest")
    with running_catalog(folder, str(folder / "unused")) as server:
        server.together = request.param
        yield server


@pytest.fixture
def place(place: Place, catalog: RestCatalogServer) -> Iterator[Place]:
    with place_behind_rest(place, catalog) as behind:
        yield behind


@pytest.mark.full
def test_a_sync_shows_all_in_one_request(
    server: EmbeddedServer, database: str, place: Place, bank: Workspace, catalog: RestCatalogServer
) -> None:
    sync_all(bank)
    sync_all(bank)  # first copies appear by themselves, at places of their own
    reader, before = Reader(place, bank), catalog.asked.count(COMMIT)
    with transfers(server, database) as done:
        if catalog.together:
            with read_by(reader):
                for _ in range(2):
                    seen = done[0]
                    while done[0] < seen + 5:
                        time.sleep(0.05)
                    assert {*synced(bank)} - {""} == {"together"}
            assert catalog.asked.count(COMMIT) == before + 2
        else:
            assert {*synced(bank)} - {""} == {"one by one"}
            assert catalog.asked.count(COMMIT) == 0
    sync_all(bank)
    assert reader.sums() == [TOTAL, TOTAL]
    assert_equal(bank, server, *BANK, "bookings")
    assert branches(bank) == []
