"""Tenants: many databases that hold the same table, mirrored as one.

Every fault that a tenant can have is its own: the others are mirrored all the same.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from demo.embedded import EmbeddedServer
from tests.integration.conftest import Place
from tests.integration.tenants import Tenants

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20), at TIMESTAMP(6) NULL, amount DECIMAL(10,2)"
NAMES = ("id", "name", "amount")


@pytest.fixture(scope="session")
def server(on_both_servers: EmbeddedServer) -> EmbeddedServer:
    return on_both_servers


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place) -> Iterator[Tenants]:
    made = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}")
    yield made
    made.close()


def rows(*numbers: int) -> list[str]:
    return [f"({n}, 'n{n}', '2026-01-0{n % 9 + 1} 12:00:00.000001', {n}.25)" for n in numbers]


def test_many_databases_are_one_table(tenants: Tenants) -> None:
    for number in range(5):
        tenants.make(f"{number}", COLUMNS, *rows(*range(1, number + 1)))
    done = tenants.sync()
    assert (done.tenants, done.read, done.failed, done.rows) == (5, 5, {}, 10)
    expected = {name: found for name, found in tenants.mysql(*NAMES).items() if found}
    assert tenants.deduped(*NAMES) == expected
    assert {row["_mirror_source"] for row in tenants.shown()} == {"s"}
    assert len(tenants.shown("raw")) == 10


def test_only_what_moved_is_read_and_written(tenants: Tenants) -> None:
    for number in range(4):
        tenants.make(f"{number}", COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.run(
        "2", "UPDATE orders SET name = 'other' WHERE id = 1", "DELETE FROM orders WHERE id = 2"
    )
    tenants.run("3", "INSERT INTO orders VALUES (9, 'nine', NULL, 9)")
    done = tenants.sync()
    assert done.read == 2, done
    assert tenants.deduped(*NAMES) == tenants.mysql(*NAMES)
