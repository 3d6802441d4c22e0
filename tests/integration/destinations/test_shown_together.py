"""Several lake tables that are shown at one moment: on each kind of catalog, beside other writers.

What readers see is read past the engine, by one SELECT of the catalog's database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from mirrorlake.config.database_url import with_driver
from mirrorlake.config.settings import CatalogConfig, LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog import sql as sql_catalog
from mirrorlake.destinations.iceberg.commits import shown_together
from mirrorlake.destinations.iceberg.commits.branches import create_branch, list_branches
from mirrorlake.destinations.iceberg.commits.commit import head_of
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion, show_together
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import CommitConflict, CommitUnknown, LakeError, LeaseHeld
from tests.support.postgres import PASSWORD, USER, running_postgres
from tests.support.rest_catalog import (
    CREDENTIAL,
    NO_ANSWER,
    Fault,
    RestCatalogServer,
    running_catalog,
)

NAMES = [Identifier("shop", name) for name in ("a", "b", "c")]


@dataclass
class Shop:
    """A lake, the database of its catalog, and the server before that, if there is one."""

    lake: Lake
    database: str
    server: RestCatalogServer | None = None

    def metadata(self) -> dict[str, str]:
        """Which metadata file each table has, by one SELECT."""
        with closing(sa.create_engine(self.database, poolclass=sa.NullPool).connect()) as reader:
            rows = reader.execute(
                sa.text("SELECT table_name, metadata_location FROM iceberg_tables")
            ).all()
        return {row[0]: row[1] for row in rows}

    def shown(self) -> dict[str, int]:
        """The highest number of each table, as its metadata file shows it."""
        found: dict[str, int] = {}
        for name, location in self.metadata().items():
            head = json.loads(Path(location.removeprefix("file://")).read_text())
            table = self.lake.load(Identifier("shop", name))
            assert table is not None
            rows = table.scan(snapshot_id=head["current-snapshot-id"]).to_arrow()
            found[name] = max(rows["n"].to_pylist())
        return found

    def add(self, name: Identifier, number: int, branch: str = "main") -> None:
        table = self.lake.load(name)
        assert table is not None
        table.append(pa.table({"n": [number]}), branch=branch)

    def stage(self, number: int) -> dict[str, list[StagedVersion]]:
        """A row for each table, on branches."""
        found: dict[str, list[StagedVersion]] = {}
        for name in NAMES:
            head = head_of(self.lake, name)
            create_branch(self.lake, name, f"b{number}", head)
            self.add(name, number, f"b{number}")
            found[name.name] = [StagedVersion(name, f"b{number}", head)]
        return found


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with running_postgres() as server:
        from urllib.parse import quote

        yield f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/postgres"


@pytest.fixture(
    params=["sqlite", "postgres", "rest together", pytest.param("rest", marks=pytest.mark.full)]
)
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    warehouse = str(tmp_path / "läke")
    if request.param == "sqlite":
        yield _filled(
            Shop(Lake(LakeConfig(warehouse=warehouse)), f"sqlite:///{warehouse}/catalog.db")
        )
        return
    if request.param == "postgres":
        uri = request.getfixturevalue("postgres")
        driven = with_driver(uri).render_as_string(hide_password=False)
        with closing(sa.create_engine(driven, poolclass=sa.NullPool).connect()) as admin:
            admin.execute(sa.text("DROP TABLE IF EXISTS iceberg_tables"))
            admin.execute(sa.text("DROP TABLE IF EXISTS iceberg_namespace_properties"))
            admin.commit()
        config = configured(warehouse, uri, {})
        yield _filled(Shop(Lake(config), driven))
        return
    with running_catalog(tmp_path, f"file://{tmp_path}/unused") as server:
        server.together = request.param == "rest together"
        properties = {
            "credential": CREDENTIAL,
            "oauth2-server-uri": f"{server.uri}/v1/oauth/tokens",
        }
        config = configured(warehouse, server.uri, properties)
        yield _filled(Shop(Lake(config), f"sqlite:///{tmp_path}/rest.db", server))


def configured(warehouse: str, uri: str, properties: dict[str, str]) -> LakeConfig:
    """As a contract file whose secrets come from the environment says it."""
    catalog = CatalogConfig().model_copy(update={"uri": uri, "properties": properties})
    return LakeConfig(warehouse=warehouse).model_copy(update={"catalog": catalog})


def _filled(shop: Shop) -> Shop:
    shop.lake.make_namespace("shop")
    for name in NAMES:
        location = shop.lake.location(name)
        schema = pa.schema([("n", pa.int64())])
        shop.lake.catalog.create_table(name.path, schema, location=location)
        shop.add(name, 0)
    return shop


def in_one_step(shop: Shop) -> bool:
    return shop.server is None or shop.server.together


def test_all_are_shown_and_their_branches_go(shop: Shop) -> None:
    staged = shop.stage(1)
    assert shop.shown() == {"a": 0, "b": 0, "c": 0}
    done = show_together(shop.lake, staged)
    assert done.how == ("together" if in_one_step(shop) else "one by one")
    assert (done.failed, shop.shown()) == ({}, {"a": 1, "b": 1, "c": 1})
    assert [list(list_branches(shop.lake, name)) for name in NAMES] == [["main"]] * 3
    if shop.server is not None:
        commits = [one for one in shop.server.asked if one.startswith("POST /v1/transactions")]
        assert len(commits) == int(shop.server.together)


def test_a_table_that_somebody_moved_is_left_out_by_name(shop: Shop) -> None:
    """Before it is prepared. The others are shown; one of a group leaves out the whole group."""
    staged = shop.stage(1)
    shop.add(NAMES[1], 7)
    groups = {"a": staged["a"], "b and c": [*staged["c"], *staged["b"]]}
    done = show_together(shop.lake, groups)
    assert list(done.failed) == ["b and c"]
    assert isinstance(done.failed["b and c"], CommitConflict)
    shown = {"a": 1, "b": 7, "c": 0 if in_one_step(shop) else 1}
    assert shop.shown() == shown


@pytest.mark.parametrize("what", ["its rows", "a tag"])
@pytest.mark.parametrize("shop", ["sqlite", "postgres", "rest together"], indirect=True)
def test_a_table_that_is_moved_right_before_the_step_moves_none(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """After all is prepared. The others go again without it; one whose main stands where it stood
    is prepared again, and is among them."""
    staged, seen, hit = shop.stage(1), list[dict[str, int]](), [False]

    def meddle(point: str) -> None:
        if point != "show.before":
            return
        seen.append(shop.shown())
        if not hit[0]:
            hit[0] = True
            if what == "its rows":
                shop.add(NAMES[1], 7)
            else:
                table = shop.lake.load(NAMES[1])
                assert table is not None
                table.manage_snapshots().create_tag(head_of(shop.lake, NAMES[1]), "theirs").commit()

    monkeypatch.setattr(shown_together, "failpoint", meddle)
    done = show_together(shop.lake, staged)
    # Requirements name main and the branch: a tag by others is no conflict to a server.
    steps = 1 if shop.server is not None and what == "a tag" else 2
    assert len(seen) == steps
    if what == "its rows":
        assert seen[1] == {"a": 0, "b": 7, "c": 0}
        assert list(done.failed) == ["b"]
        assert shop.shown() == {"a": 1, "b": 7, "c": 1}
    else:
        assert (done.failed, shop.shown()) == ({}, {"a": 1, "b": 1, "c": 1})
        table = shop.lake.load(NAMES[1])
        assert table is not None
        assert "theirs" in table.metadata.refs


@pytest.mark.parametrize("shop", ["sqlite", "postgres"], indirect=True)
def test_one_whose_metadata_never_stand_still_is_left_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server asks for main and the branch alone."""

    def meddle(point: str) -> None:
        table = shop.lake.load(NAMES[1])
        if point == "show.before" and table is not None:
            with table.transaction() as transaction:
                transaction.set_properties(theirs=str(len(table.metadata.metadata_log)))

    monkeypatch.setattr(shown_together, "failpoint", meddle)
    done = show_together(shop.lake, shop.stage(1))
    assert list(done.failed) == ["b"]
    assert shop.shown() == {"a": 1, "b": 0, "c": 1}


def test_one_that_is_not_ours_any_more_is_left_out(shop: Shop) -> None:
    def check(name: str) -> None:
        if name == "c":
            raise LeaseHeld("another run has it")

    done = show_together(shop.lake, shop.stage(1), check)
    assert {name: type(error) for name, error in done.failed.items()} == {"c": LeaseHeld}
    assert shop.shown() == {"a": 1, "b": 1, "c": 0}


def test_columns_take_their_names_in_the_same_step(shop: Shop) -> None:
    staged = shop.stage(1)
    table = shop.lake.load(NAMES[0])
    assert table is not None
    with table.update_schema() as update:
        update.add_column("next", table.schema().find_type("n"))
    staged["a"] = [StagedVersion(NAMES[0], "b1", staged["a"][0].expected, {"n": "next"})]
    before = table.schema().find_field("n").field_id
    assert show_together(shop.lake, staged).failed == {}
    table = shop.lake.load(NAMES[0])
    assert table is not None
    (column,) = table.schema().fields
    assert (column.name, column.field_id > before) == ("n", True)
    assert list(list_branches(shop.lake, NAMES[0])) == ["main"]
    assert [max(table.scan().to_arrow()["n"].to_pylist(), key=str)] == [None]
    (b,) = (shop.lake.load(NAMES[1]),)
    assert b is not None
    assert 1 in b.scan().to_arrow()["n"].to_pylist()


# --- answers that are lost ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status", [500, *(pytest.param(s, marks=pytest.mark.full) for s in (502, 504)), NO_ANSWER]
)
@pytest.mark.parametrize("shop", ["rest together"], indirect=True)
def test_an_answer_that_is_lost_is_looked_for(shop: Shop, status: int) -> None:
    assert shop.server is not None
    shop.server.faults.append(Fault("transactions/commit", "now", status))
    done = show_together(shop.lake, shop.stage(1))
    assert (done.failed, shop.shown()) == ({}, {"a": 1, "b": 1, "c": 1})


@pytest.mark.parametrize("shop", ["rest together"], indirect=True)
def test_a_commit_that_was_not_made_is_not_known_and_none_is_shown(shop: Shop) -> None:
    assert shop.server is not None
    shop.server.faults.append(Fault("transactions/commit", "late", 504))
    done = show_together(shop.lake, shop.stage(1))
    assert {type(error) for error in done.failed.values()} == {CommitUnknown}
    assert (len(done.failed), shop.shown()) == (3, {"a": 0, "b": 0, "c": 0})
    # A branch that is dropped since refuses it: it never comes late.
    shop.lake.drop_branch(NAMES[0], "b1")
    assert shop.server.finish() == ["refused"]
    assert shop.shown() == {"a": 0, "b": 0, "c": 0}


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("shop", ["sqlite", "postgres"], indirect=True)
def test_a_connection_that_is_lost_in_the_step(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, made: bool
) -> None:
    move: Callable[..., Any] = sql_catalog.LakeCatalog.move_together

    def lose(self: Any, moves: Any) -> Any:
        if made:
            move(self, moves)
        raise sa.exc.OperationalError("COMMIT", None, Exception("the server closed the connection"))

    monkeypatch.setattr(sql_catalog.LakeCatalog, "move_together", lose)
    done = show_together(shop.lake, shop.stage(1))
    if made:
        assert (done.failed, shop.shown()) == ({}, {"a": 1, "b": 1, "c": 1})
    else:
        assert all(isinstance(error, LakeError) for error in done.failed.values())
        assert (len(done.failed), shop.shown()) == (3, {"a": 0, "b": 0, "c": 0})
