"""Preflight of a table of tenants: what it says is what the sync after the migration does."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from mirrorlake.errors import DdlRefused
from mirrorlake.preflight.tables import Preflight, preflight
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.table.lake_tables import deduped_of
from tests.integration.conftest import Place
from tests.integration.tenants import Tenants

COLUMNS = "id INT PRIMARY KEY, name VARCHAR(20), n INT, mail VARCHAR(50)"


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place) -> Iterator[Tenants]:
    """Two tenants of one shape, and one that has a column more."""
    made = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}")
    made.contract["columns"] = {"mail": {"pii": "mask"}}
    made.make("a", COLUMNS, "(1, 'x', 1, 'm'), (2, 'y', 2, 'm')")
    made.make("b", COLUMNS, "(1, 'x', 1, 'm')")
    made.make("c", f"{COLUMNS}, more BIGINT", "(1, 'x', 1, 'm', 5)")
    made.sync()
    yield made
    made.close()


def suggest(column: Any, table: str) -> str | None:
    return "its name says an e-mail address" if "email" in column.name else None


def look(tenants: Tenants, text: str, database: str | None = None) -> tuple[Preflight, str]:
    with tenants.opened() as (workspace, table):
        before = workspace.ledger.schema_versions(table.name)
        found = {one.table: one for one in preflight(workspace, text, suggest, database=database)}
        assert workspace.ledger.schema_versions(table.name) == before
    one = found[table.name]
    return one, "\n".join(f"{f.severity}: {f.words} {f.next_step}" for f in one.findings)


def migrate(tenants: Tenants, text: str, *names: str) -> None:
    for name in names or ("a", "b", "c"):
        tenants.run(name, text)


def deduped(tenants: Tenants) -> dict[str, str]:
    with tenants.opened() as (workspace, table):
        found = workspace.lake.load(deduped_of(table))
        assert found is not None
        fields = found.schema().fields
    return {f.name: str(f.field_type).replace(" ", "") for f in fields}


CASES: dict[str, tuple[str, tuple[str, ...]]] = {
    "ALTER TABLE orders ADD COLUMN email VARCHAR(9)": (
        "attention",
        (
            "2 tenants of shape", "get a new shape", "each is read again as a whole, 3 rows in all",
            "1 tenant of shape", "1 row in all", "deduped evolves in place: email is added",
            "email is new (its name says an e-mail address): in deduped, and held out of clean",
        ),
    ),
    "ALTER TABLE orders MODIFY n BIGINT": (
        "attention", ("deduped evolves in place: n becomes long",),
    ),
    "ALTER TABLE orders MODIFY n VARCHAR(9)": (
        "breaks", ("n is string in deduped and clean then, for all tenants; it was int",
                   "all tenants are folded again"),
    ),
    "ALTER TABLE orders MODIFY id VARCHAR(36) NOT NULL": (
        "breaks", ("2 tenants of shape", "stop, and keep their rows as they were"),
    ),
    "ALTER TABLE orders DROP COLUMN name": (
        "breaks", ("name is NULL in deduped and clean for 3 tenants: the column stays",),
    ),
    "ALTER TABLE orders CHANGE name label VARCHAR(20)": (
        "breaks", ("label is new: in deduped, and held out", "renamed_from: name}}`"),
    ),
    "ALTER TABLE orders ADD KEY (n)": ("ok", ("nothing of its mirror changes",)),
    "ALTER TABLE orders ADD COLUMN more BIGINT": (
        "attention", ("2 tenants of shape", "get a shape that is there", "it has a column 'more'"),
    ),
    "DROP TABLE orders": ("breaks", ("are gone then: their rows stay as they were",)),
    "TRUNCATE orders": ("breaks", ("--tenant NAME --accept-smaller` takes one",)),
    "CREATE TABLE orders (id INT)": ("breaks", ("is no tenant that can be kept",)),
    "CREATE TABLE orders (id INT PRIMARY KEY, email TEXT)": (
        "attention", ("joins with the next sync, in a new shape", "email is new (its name says an"),
    ),
    "CREATE TABLE orders (id INT PRIMARY KEY, n VARCHAR(9))": (
        "breaks", ("n is string in deduped and clean then, for all tenants; it was int",),
    ),
    "CREATE TABLE orders (id VARCHAR(9) PRIMARY KEY)": (
        "breaks", ("is no tenant that can be kept",),
    ),
    "CREATE TABLE orders SELECT 1 AS id": (
        "attention", ("its columns were not looked at: they come from a query",),
    ),
    "DROP TABLE orders; CREATE TABLE orders (id INT PRIMARY KEY)": (
        "breaks", ("tenants in which it runs are empty then",),
    ),
    "UPDATE orders SET n = 1": ("attention", ("not looked at: UPDATE",)),
}  # fmt: skip


@pytest.mark.full
def test_what_it_says_of_each_kind_of_change(tenants: Tenants) -> None:
    for text, (severity, words) in CASES.items():
        for database in (None, tenants.name("a"), tenants.name("not_there")):
            found, said = look(tenants, text, database)
            assert found.severity == severity, f"{text}: {said}"
            for one in words:
                assert one in said, f"{text}: {said}"
    found, _ = look(tenants, f"ALTER TABLE {tenants.name('x')}.orders ADD COLUMN email INT")
    assert (found.rows, found.columns[0].now, found.columns[0].lake_now) == (4, "email", "int")
    assert found.columns[0].clean == "held"
    found, _ = look(tenants, f"ALTER TABLE {tenants.name('x')}.orders MODIFY n BIGINT")
    assert (found.columns[0].lake_before, found.columns[0].lake_now) == ("int", "long")
    found, _ = look(tenants, "ALTER TABLE orders DROP COLUMN name")
    assert (found.columns[0].lake_now, found.columns[0].clean) == ("string", "shown")
    with pytest.raises(DdlRefused, match=r"line 1: table .*: it has no column 'nothing'"):
        look(tenants, "ALTER TABLE orders DROP COLUMN nothing")


RUN = {
    "ALTER TABLE orders ADD COLUMN extra DECIMAL(8,2)": {"extra": "decimal(8,2)"},
    "ALTER TABLE orders MODIFY n VARCHAR(9)": {"n": "string"},
    "ALTER TABLE orders MODIFY n BIGINT": {"n": "long"},
    "ALTER TABLE orders DROP COLUMN name": {"name": "string"},
}


@pytest.mark.full
@pytest.mark.parametrize(
    "text", [t if n == 0 else pytest.param(t, marks=pytest.mark.full) for n, t in enumerate(RUN)]
)
def test_the_sync_after_it_does_what_it_said(tenants: Tenants, text: str) -> None:
    said, _ = look(tenants, text)
    migrate(tenants, text)
    done = tenants.sync()
    assert (done.failed, done.read, done.rows) == ({}, 3, said.rows)
    with tenants.opened() as (workspace, table):
        versions = [v.raw_table for v in workspace.ledger.schema_versions(table.name)]
    assert said.version_now in versions
    types = deduped(tenants)
    for column, kind in RUN[text].items():
        assert types[column] == kind
    for fate in said.columns:
        if fate.now:
            assert types[fate.now] == fate.lake_now
    assert (done.folded == done.tenants) or "evolves" in text


@pytest.mark.full
def test_a_key_of_another_type_stops_each_tenant_as_it_says(tenants: Tenants) -> None:
    text = "ALTER TABLE orders MODIFY id VARCHAR(36) NOT NULL"
    _, said = look(tenants, text)
    migrate(tenants, text, "a")
    [(name, error)] = tenants.sync().failed.items()
    assert name == f"s.{tenants.name('a')}"
    assert f"stop, and keep their rows as they were: {error.split('. ')[0]}" in said


@pytest.mark.full
def test_rules_of_a_column_that_is_renamed(tenants: Tenants) -> None:
    text = "ALTER TABLE orders CHANGE mail address VARCHAR(50)"
    tenants.contract["new_columns"] = "show"
    _, said = look(tenants, "ALTER TABLE orders ADD COLUMN size INT")
    assert "ok: size is new: clean shows it at once" in said
    _, said = look(tenants, text)
    assert "ok: address is new: in deduped, and held out of clean until it is named" in said
    assert (
        "Its values go on as address with `columns: {address: {pii: mask, renamed_from: mail}}`"
        in said
    )
    # And so it becomes, whatever the setting says of new columns.
    tenants.run("a", text)
    done = tenants.sync()
    assert "address" in done.held_columns
    assert any("address may have what mail had" in words for words in done.why_held), done.why_held
    assert all("address" not in row for row in tenants.shown())
    tenants.contract["columns"] = {"address": {"pii": "mask", "renamed_from": "mail"}}
    assert tenants.sync().held_columns == ()
    assert {row["address"] for row in tenants.shown()} == {"*" * 8}
    tenants.contract["columns"] = {"card": {"pci": "never"}}
    tenants.make("d", "id INT PRIMARY KEY, card VARCHAR(20)", "(1, 'x')")
    _, said = look(tenants, "ALTER TABLE orders CHANGE card pan VARCHAR(20)")
    assert "breaks: pan would be read: `pci: never` is said of card alone" in said
    assert "3 tenants" not in said
    assert "{pan: {pci: never, renamed_from: card}}" in said


@pytest.mark.full
def test_it_reaches_the_models_that_read_all_tenants(tenants: Tenants) -> None:
    folder = tenants.place.folder / "models"
    (folder / "m").mkdir(parents=True)
    try:
        (folder / "m" / "names.sql").write_text(f"SELECT name, n FROM {tenants.prefix}.orders")
        (folder / "m" / "most.sql").write_text("SELECT MAX(n) AS most FROM m.names")
        (folder / "m" / "ids.sql").write_text(f"SELECT id FROM {tenants.prefix}__clean.orders")

        def of_models(text: str) -> list[tuple[str, str, list[str]]]:
            found, _ = look(tenants, text)
            return [
                (one.model, one.what, [place.said.rpartition("/")[2] for place in one.places])
                for one in found.models
            ]

        orders = f"{tenants.prefix}.orders"
        assert of_models("ALTER TABLE orders MODIFY n BIGINT") == [
            (
                "m.names",
                "breaks",
                [f"names.sql:1:14: m.names reads n of {orders}, which was int, is bigint then"],
            ),
            (
                "m.most",
                "breaks",
                [
                    "most.sql:1:12: m.most reads n of m.names, which is made of n of "
                    f"{orders}: that was int, is bigint then"
                ],
            ),
        ]
        # The column stays, without a value: what reads it compiles, and is not what it was.
        assert of_models("ALTER TABLE orders DROP COLUMN name") == [
            (
                "m.names",
                "reads",
                [
                    f"names.sql:1:8: m.names reads name of {orders}, which is NULL for 3 tenants then"
                ],
            )
        ]
        assert of_models("ALTER TABLE orders ADD COLUMN extra INT") == []
    finally:
        shutil.rmtree(folder)
