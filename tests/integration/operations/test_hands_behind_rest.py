"""Other hands where a REST server keeps the catalog: what `test_hands` and `test_hands_of_kinds`
have of files of SQLite. No database names the metadata files here: each table is opened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import Place, share_session
from tests.integration.hands import Hand, LakePart, out_of_catalog
from tests.integration.operations import test_hands as by_table
from tests.integration.operations.test_hands import WINDOWS, World, make_world
from tests.integration.operations.test_hands_of_kinds import CASES, KINDS, assert_put_right
from tests.integration.projects import place_behind_rest
from tests.support.rest_catalog import RestCatalogServer, running_catalog

Sql = Callable[..., Any]
pytestmark = pytest.mark.timeout(1200)
OFTEN = {
    ("model model", out_of_catalog),
}
"""Those of `make test`; every one is in `make test-full`."""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    folder = tmp_path_factory.mktemp("läke behind rest")
    with running_catalog(folder, str(folder / "unused")) as server:
        yield server


@pytest.fixture(scope="module")
def place(place: Place, catalog: RestCatalogServer) -> Iterator[Place]:
    """A lake behind a REST server, in the JVM of the tests' one."""
    with place_behind_rest(place, catalog) as behind:
        yield behind


@pytest.fixture
def world(
    server: EmbeddedServer,
    place: Place,
    database: str,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., World]:
    share_session(place, monkeypatch)
    return lambda **tables: make_world(server, place, database, sql, tables)


@pytest.mark.full
@pytest.mark.parametrize("which", ["quick", "others"])
def test_a_sync_puts_right_what_other_hands_did(world: Callable[..., World], which: str) -> None:
    by_table.test_a_sync_puts_right_what_other_hands_did(world, which)


@pytest.mark.full
def test_what_only_a_person_can_put_right_is_refused(world: Callable[..., World]) -> None:
    by_table.test_what_only_a_person_can_put_right_is_refused_by_name(world)


@pytest.mark.parametrize(
    ("where", "hand"),
    [
        pytest.param(
            *case,
            id=f"{case[0]} {case[1].__name__}".replace(" ", "-"),
            marks=[] if case in OFTEN else [pytest.mark.full],
        )
        for case in CASES
    ],
)
@pytest.mark.full
def test_one_command_puts_it_right_or_names_a_step_that_does(
    where: str,
    hand: Hand,
    server: MariaDB,
    place: Place,
    database: str,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_session(place, monkeypatch)
    kind, _ = where.split()
    assert_put_right(KINDS[kind].make(server, place, sql, database), where, hand)


# --- views, which have no row in any database here ------------------------------------------------


def view_dropped(at: LakePart, catalog: RestCatalogServer) -> None:
    del catalog.views[at.identifier.path]


def other_view(at: LakePart, catalog: RestCatalogServer) -> None:
    at.spark(f"CREATE OR REPLACE VIEW {at.identifier.sql} AS SELECT 1 AS id")


def table_in_its_place(at: LakePart, catalog: RestCatalogServer) -> None:
    view_dropped(at, catalog)
    at.spark(f"CREATE TABLE {at.identifier.sql} USING iceberg AS SELECT 7 AS theirs")


@pytest.mark.full
def test_views_are_made_again_and_no_table_of_others_makes_way(
    world: Callable[..., World], catalog: RestCatalogServer
) -> None:
    hands = {hand.__name__: hand for hand in (view_dropped, other_view, table_in_its_place)}
    made = world(**dict.fromkeys(hands, WINDOWS))
    assert made.sync() == {}
    views = {name: LakePart(made.place, made.identifier(name, "clean")) for name in hands}
    for name, hand in hands.items():
        hand(views[name], catalog)
        made.change(name, 11, 20)
    errors = made.sync()
    assert errors.keys() == {"table_in_its_place"}
    assert "a table that Mirrorlake did not make has its name" in errors["table_in_its_place"]
    theirs = views["table_in_its_place"]
    assert theirs.load().scan().to_arrow()["theirs"].to_pylist() == [7]
    named = (theirs.identifier.namespace, "theirs")
    made.place.lake.catalog.rename_table(theirs.identifier.path, named)
    assert made.sync() == {}
    spark = made.place.spark.get()
    for name, part in views.items():
        shown = spark.sql(f"SELECT id FROM {part.identifier.sql}").collect()
        assert sorted(row.id for row in shown) == list(range(1, 21)), name
