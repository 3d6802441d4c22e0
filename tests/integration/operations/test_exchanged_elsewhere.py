"""Columns that are renamed into each other past a rule that hides one: of tenants, which share one
clean, and of snapshots that land."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from mirrorlake.operations.schema_changes.exchanged_columns import accept_columns
from mirrorlake.operations.status.status import status_of
from mirrorlake.preflight.tables import preflight
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.table.lake_tables import clean_of
from tests.integration.conftest import Place
from tests.integration.landing.test_landing import IDS, Feed
from tests.integration.tenants import Tenants

HIDDEN = {"mail": {"pii": "mask"}, "card": {"pci": "never"}}
COLUMNS = "id INT PRIMARY KEY, mail VARCHAR(30), note VARCHAR(30), card VARCHAR(30)"
ROWS = [f"({n}, 'ann{n}@example.com', 'note {n}', 'cc-{n}')" for n in range(1, 6)]
SWAP = "ALTER TABLE orders RENAME COLUMN mail TO note, RENAME COLUMN note TO mail"


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def tenants(tenants: Tenants) -> Tenants:
    tenants.contract = {"key": ["id"], "columns": HIDDEN}
    return tenants


def shown(tenants: Tenants) -> set[str]:
    """The columns of `mail`, `note` that clean has; nobody's address or card is in it."""
    rows = tenants.shown()
    assert "example.com" not in str(rows)
    assert "cc-" not in str(rows)
    return {"mail", "note"} & rows[0].keys()


@pytest.mark.full
@pytest.mark.parametrize("clean", ["view", pytest.param("table", marks=pytest.mark.full)])
def test_what_one_tenant_exchanged_is_held_out_for_all(tenants: Tenants, clean: str) -> None:
    tenants.contract["clean"] = clean
    for name in ("a", "b", "moved", "never"):
        tenants.make(name, COLUMNS, *ROWS)
    tenants.sync()
    assert shown(tenants) == {"mail", "note"}
    tenants.run("moved", "ALTER TABLE orders MODIFY note VARCHAR(30) AFTER id")
    assert tenants.sync().held_columns == ()
    with tenants.opened() as (workspace, _):
        [found] = preflight(workspace, SWAP)
    assert "leaves both out until a person decides" in str(found.findings)
    tenants.run("a", SWAP)
    done = tenants.sync()
    assert (done.failed, done.held_columns) == ({}, ("mail", "note"))
    assert "note may have what mail had: held out of clean" in done.why_held[0]
    assert f"mirrorlake accept --columns {tenants.prefix}.orders" in done.why_held[0]
    assert shown(tenants) == set()
    with tenants.opened() as (workspace, table):
        assert status_of(workspace.config, workspace.ledger, [table])[0].held_columns == (
            "mail",
            "note",
        )
        assert accept_columns(workspace, table) == (("mail", "note"),)
    # A person said that the contract's rules are right: `note` is shown, whatever it holds.
    assert tenants.sync().held_columns == ()
    assert "example.com" in str(tenants.shown())
    tenants.run("a", SWAP)
    tenants.sync()
    tenants.contract["columns"] = HIDDEN | {"note": {"pii": "mask"}}
    assert tenants.sync().held_columns == ()
    assert shown(tenants) == {"mail", "note"}
    tenants.contract["columns"] = HIDDEN
    tenants.sync()
    tenants.run(
        "never", "ALTER TABLE orders RENAME COLUMN card TO note, RENAME COLUMN note TO card"
    )
    assert tenants.sync().held_columns == ("note",)
    assert shown(tenants) == {"mail"}


def landed_schema(*names: str) -> str:
    columns: list[dict[str, Any]] = [{"name": name, "type": "string"} for name in names]
    columns.insert(0, {"name": "id", "type": "int", "nullable": False})
    return json.dumps({"version": 1, "columns": columns})


def rows(values: dict[str, str]) -> list[str]:
    return [
        json.dumps({"id": n, **{name: f"{value} {n}" for name, value in values.items()}})
        for n in range(1, 6)
    ]


@pytest.mark.full
def test_columns_that_land_by_each_other_s_names_are_held_out(place: Place) -> None:
    feed = Feed(place, f"x{uuid.uuid4().hex[:6]}", HIDDEN, complete="marker")
    schema = feed.folder / f"schemas/{feed.name}/d/t.json"
    as_it_was = {"mail": "ann@example.com", "note": "note", "card": "cc-"}

    def landed(at: int, order: tuple[str, ...], values: dict[str, str]) -> tuple[set[str], str]:
        schema.write_text(landed_schema(*order))
        feed.land(IDS[at], rows(values))
        feed.arrive()
        clean = feed.workspace.spark.get().table(f"lake.{clean_of(feed.contract)}").collect()
        found = [row.asDict() for row in clean]
        return {"mail", "note"} & found[0].keys(), str(found)

    assert landed(0, ("mail", "note", "card"), as_it_was)[0] == {"mail", "note"}
    # The rows show that it was only moved.
    assert landed(1, ("note", "mail", "card"), as_it_was)[0] == {"mail", "note"}
    swapped = as_it_was | {"mail": "note", "note": "ann@example.com"}
    names, text = landed(2, ("mail", "note", "card"), swapped)
    assert names == set()
    assert "example.com" not in text
    pairs = accept_columns(feed.workspace, feed.contract)
    assert pairs == (("mail", "note"),)
    never = swapped | {"note": "cc-", "card": "ann@example.com"}
    names, text = landed(3, ("mail", "card", "note"), never)
    assert names == {"mail"}
    assert "cc-" not in text
