"""`mirrorlake doctor` names the privileges that gentle reads would need, on both servers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.runtime.doctor import Diagnosis
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import PASSWORD, Place
from tests.integration.contract_files import write_contract


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


@pytest.fixture
def doctor(
    server: EmbeddedServer, database: str, place: Place, tmp_path: Path
) -> Callable[..., list[Diagnosis]]:
    def look(grants: dict[str, str], **source: Any) -> list[Diagnosis]:
        server.create_user("patient", PASSWORD, {f"{database}.*": "SELECT", **grants})
        source = {"user": "patient", **source}
        config = write_contract(
            tmp_path / "mirrorlake.yaml", server.port, {database: {}}, source=source
        )
        return [p for p in diagnose_contract(config) if p.name.startswith("source")]

    return look


def test_an_account_that_may_only_read(doctor: Callable[..., list[Diagnosis]]) -> None:
    source, lacking = doctor({})
    assert (source.state, source.detail) == ("ok", "")
    # What is not seen stands under what is not fine: nobody reads a note of what is.
    assert (lacking.name, lacking.state) == ("source s: privileges", "missing")
    assert lacking.optional
    assert "without PROCESS a DDL that waits" in lacking.detail
    assert "without PROCESS InnoDB's numbers of tables can't be seen" in lacking.detail
    assert "a replica's lag can't be seen" in lacking.detail


def test_an_account_that_sees_all_it_needs(
    server: EmbeddedServer, doctor: Callable[..., list[Diagnosis]]
) -> None:
    lag = "SLAVE MONITOR" if server.title == "MariaDB" else "REPLICATION CLIENT"
    [source] = doctor({"*.*": f"PROCESS, {lag}"})
    assert (source.state, source.detail) == ("ok", "")


def test_the_primary_of_a_replica_is_a_piece_of_its_own(
    server: EmbeddedServer, doctor: Callable[..., list[Diagnosis]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_REPLICA", f"mysql://patient:wrong@localhost:{server.port}")
    replica, primary, _ = doctor({}, replica="${env:TEST_REPLICA}")
    assert (replica.name, replica.state) == ("source s", "broken")
    assert (primary.name, primary.state) == ("source s, primary", "ok")
    assert "wrong" not in replica.detail
