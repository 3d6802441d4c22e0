"""Which tenants are due, before a sync reads any: the same that it then reads."""

from __future__ import annotations

import time

import pytest

from mirrorlake.ledger import Tenant, TenantPlace
from mirrorlake.operations.tenants.checks import check_tenants
from mirrorlake.operations.tenants.detect import REPLACED, TenantsSeen, detect_tenants
from tests.integration.tenants import Tenants

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20)"
SETTLED_SECONDS = 3.2
"""After so long without a change, what a server shows says whether a table changed."""


def look(tenants: Tenants) -> TenantsSeen:
    with tenants.opened() as (workspace, table):
        return detect_tenants(workspace, table, None)


def known(tenants: Tenants) -> dict[TenantPlace, Tenant]:
    with tenants.opened() as (workspace, table):
        return workspace.ledger.tenants(table.name)


def due(tenants: Tenants) -> dict[str, str]:
    return {database.rpartition("_")[2]: why for (_, database), why in look(tenants).due.items()}


@pytest.mark.full
def test_what_is_due_is_what_a_sync_does(tenants: Tenants) -> None:
    names = ("calm", "moved", "altered", "dropped", "refused")
    for name in names:
        tenants.make(name, COLUMNS, "(1, 'a')")
    time.sleep(SETTLED_SECONDS)
    assert due(tenants) == dict.fromkeys(names, "new")
    tenants.sync()
    assert look(tenants).due == {}
    assert look(tenants).mark is None
    tenants.run("moved", "UPDATE orders SET name = 'b'")
    tenants.run("altered", "ALTER TABLE orders ADD n INT", "UPDATE orders SET n = 1")
    tenants.run("refused", "ALTER TABLE orders DROP PRIMARY KEY")
    tenants.drop("dropped")
    tenants.make("came", COLUMNS, "(1, 'a')")
    assert due(tenants) == {
        "moved": "moved",
        "altered": "altered",
        "dropped": "gone",
        "refused": "can't be kept",
        "came": "new",
    }
    # One that no sync has seen is not compared, and nobody says that all are equal.
    with tenants.opened() as (workspace, table):
        checked = check_tenants(workspace, table)
    assert checked.unread == (f"s.{tenants.name('came')}",)
    assert checked.verdict == "undecided"
    before = known(tenants)
    done = tenants.sync()
    after = known(tenants)
    read = {p for p in after if p not in before or after[p].load_id != before[p].load_id}
    assert {p[1].rpartition("_")[2] for p in read} == {"moved", "altered", "came"}
    assert done.gone == (f"s.{tenants.name('dropped')}",)
    assert list(done.failed) == [f"s.{tenants.name('refused')}"]
    tenants.make("dropped", COLUMNS, "(1, 'a')")
    assert due(tenants)["dropped"] == "there again"
    assert "refused" not in due(tenants)  # it is known, and stands as it stood


PARTS = (
    "(id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY RANGE (id)"
    " (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
)


@pytest.mark.full
def test_a_table_that_may_be_another_is_noticed_and_compared(tenants: Tenants) -> None:
    """Whatever puts other rows under a tenant's name without a write: by InnoDB's numbers."""
    for name in ("calm", "again", "truncated", "rebuilt"):
        tenants.make(name, COLUMNS, "(1, 'a')", "(12, 'b')")
    for name in ("exchanged", "emptied"):
        database = tenants.make(name, COLUMNS)
        tenants.sql("DROP TABLE orders", f"CREATE TABLE orders {PARTS}", database=database)
        tenants.run(name, "INSERT INTO orders VALUES (1, 'a'), (12, 'b'), (13, 'c')")
    tenants.run("exchanged", f"CREATE TABLE other ({COLUMNS})", "INSERT INTO other VALUES (2, 'x')")
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    assert due(tenants) == {}
    tenants.run(
        "again",
        "DROP TABLE orders",
        f"CREATE TABLE orders ({COLUMNS})",
        "INSERT INTO orders VALUES (1, 'z'), (12, 'b')",
    )
    tenants.run("truncated", "TRUNCATE orders", "INSERT INTO orders VALUES (7, 'a'), (8, 'b')")
    tenants.run("rebuilt", "OPTIMIZE TABLE orders")
    tenants.run("exchanged", "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE other")
    tenants.run("emptied", "ALTER TABLE orders TRUNCATE PARTITION p0")
    moved = ("again", "truncated", "rebuilt", "exchanged", "emptied")
    assert {name: why for name, why in due(tenants).items() if name != "calm"} == dict.fromkeys(
        moved, REPLACED
    )
    done = tenants.sync()
    said = {name.rpartition("_")[2]: words for name, words in done.replaced.items()}
    assert said.keys() == set(moved)
    assert "rebuilt" in said["rebuilt"]
    assert said["rebuilt"].endswith("its rows were compared, and are those of the mirror")
    assert said["again"].startswith("it was made again or rebuilt at")
    assert said["truncated"].startswith("it was truncated, or another took its place")
    assert said["exchanged"].startswith("partition p0 was truncated or exchanged")
    assert said["emptied"] == "partition p0 was truncated or exchanged: it was read again"
    assert (done.read, done.failed) == (4, {})
    assert tenants.deduped("id", "name") == tenants.mysql("id", "name")
    assert tenants.sync().replaced == {}
