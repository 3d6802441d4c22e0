"""Clean views at a cut: today's rules over what the cut has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mirrorlake.config import load_config
from mirrorlake.cuts.ledger import Cuts
from mirrorlake.cuts.make import CutTerms, MadeCut, make_cut
from mirrorlake.cuts.shown import clone_cut, drop_clone_of_cut, show_newest
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import read_view, shown_schema
from mirrorlake.errors import LakeError
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.serving import views
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.projects import place_behind_rest
from tests.support.rest_catalog import RestCatalogServer, running_catalog

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
Columns = dict[str, Any]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
EMAIL = "ann@example.org"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each over a catalog in SQLite, and over REST, which commits to one table or to several at
    once; those over REST in full."""
    rests = [pytest.param(name, marks=pytest.mark.full) for name in ("rest", "rest, together")]
    metafunc.parametrize("catalog", ["sqlite", *rests], indirect=True)


@pytest.fixture
def catalog(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestCatalogServer | None]:
    if request.param == "sqlite":
        yield None
        return
    folder = tmp_path_factory.mktemp("läke behind rest")
    with running_catalog(folder, str(folder / "unused")) as server:
        server.together = request.param == "rest, together"
        yield server


@pytest.fixture
def place(place: Place, catalog: RestCatalogServer | None) -> Iterator[Place]:
    if catalog is None:
        yield place
        return
    with place_behind_rest(place, catalog) as behind:
        yield behind


@pytest.fixture
def people_for(sql: Sql, engine_for: EngineFor) -> Callable[..., Workspace]:
    """A table of people whose clean is a view by these rules, in a source whose newest cut is
    shown."""
    sql(
        "SET sql_mode = ''",
        "CREATE TABLE people (id INT PRIMARY KEY, email VARCHAR(40), name VARCHAR(20), born DATE,"
        " note TEXT)",
        f"INSERT INTO people VALUES (1, '{EMAIL}', 'Ann', '0000-00-00', 'secret')",
        "CREATE TABLE copied (id INT PRIMARY KEY)",
        "INSERT INTO copied VALUES (1)",
    )

    def make(columns: Columns, spaces: dict[str, str] | None = None, **settings: Any) -> Workspace:
        people = LOG | {"columns": columns} | settings
        tables = {"people": people, "copied": {"mode": "full", "key": ["id"]}}
        workspace = engine_for(tables, namespaces=spaces)
        path = workspace.config.path
        path.write_text(path.read_text() + "\ncuts: {sources: {s: {at_cut: true}}}\n")
        return replace(workspace, config=load_config(path))

    return make


def cut_of(workspace: Workspace, **terms: Any) -> MadeCut:
    made = make_cut(workspace, "s", CutTerms(**terms), lambda _: None)
    assert made.not_shown is None
    assert made.shown is not None
    assert made.shown.without == {}
    return made


def synced(workspace: Workspace) -> None:
    for one in sync_tables(workspace, workspace.config.tables):
        assert one.error is None, one.error


def clean(workspace: Workspace, suffix: str = "__at_cut") -> Identifier:
    contract = next(c for c in workspace.config.tables if c.table == "people")
    return Identifier(f"{contract.namespaces.clean}{suffix}", "people")


def shown(place: Place, name: Identifier) -> dict[str, Any]:
    """The one row that is there, without its originals."""
    (row,) = place.spark.get().sql(f"SELECT * FROM {name.sql}").collect()
    return {key: value for key, value in row.asDict().items() if not key.startswith("_mirror")}


def sql_of(workspace: Workspace, suffix: str = "__at_cut") -> str:
    view = read_view(workspace.lake, clean(workspace, suffix))
    return view.sql if view is not None else ""


def test_a_clean_view_is_there_at_the_cut_by_the_rules_of_now(
    sql: Sql, place: Place, people_for: Callable[..., Workspace], command: Callable[..., Result],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    people = people_for({"email": {"pii": "mask"}, "born": {"pii": "null"}})
    for cut in Cuts(people.ledger).all("s"):  # of other tests
        Cuts(people.ledger).forget(cut.name)
    first = cut_of(people)
    assert clean(people).namespace in first.shown.namespaces
    sql("UPDATE people SET name = 'Bea'")
    synced(people)
    there = shown(place, clean(people))
    assert (there["name"], there["note"], there["born"]) == ("Ann", "secret", None)
    assert there["email"] not in (None, EMAIL)
    assert shown(place, clean(people, ""))["name"] == "Bea"
    # A rule that comes is in this view before it is in clean.
    written, ruled = (
        views.write_view,
        people_for({"email": {"pii": "drop"}, "born": {"pii": "null"}, "note": {"pii": "mask"}}),
    )

    def fail(lake: Any, name: Identifier, *rest: Any, **options: Any) -> bool:
        if name == clean(ruled, ""):
            raise LakeError("the catalog failed")
        return written(lake, name, *rest, **options)

    monkeypatch.setattr(views, "write_view", fail)
    (done, *_) = (one for one in sync_tables(ruled, ruled.config.tables) if one.error is not None)
    assert "the catalog failed" in str(done.error)
    assert ("email" in sql_of(ruled, ""), "email" in sql_of(ruled)) == (True, False)
    monkeypatch.undo()
    synced(ruled)
    assert "email" not in sql_of(ruled, "")
    there = shown(place, clean(ruled))
    assert (there.keys(), there["note"] == "secret") == ({"id", "name", "born", "note"}, False)
    # An older cut is read by the rules of now, too.
    read = json.loads(command("at", first.cut.name, "--json", workspace=ruled).stdout)
    (query,) = (one["read"]["clean"] for one in read["tables"] if "people" in one["table"])
    assert f"VERSION AS OF 'cut_{first.cut.name}'" in query
    (row,) = place.spark.get().sql(query).collect()
    assert (row["name"], row["note"] == "secret", "email" in row.asDict()) == ("Ann", False, False)
    assert EMAIL not in str(row)


@pytest.mark.full
def test_columns_that_are_others_since_the_cut(
    sql: Sql, place: Place, people_for: Callable[..., Workspace], command: Callable[..., Result]
) -> None:
    """Renamed: hidden by the rule of its name of now. Dropped: left out. Added: not there yet."""
    people = people_for(
        {"email": {"pii": "mask"}, "note": {"pii": "drop"}, "born": {"pii": "null"}}
    )
    first = cut_of(people)
    sql(
        "ALTER TABLE people CHANGE email mail VARCHAR(40)",
        "ALTER TABLE people DROP COLUMN note",
        "ALTER TABLE people ADD COLUMN later INT DEFAULT 7",
        "UPDATE people SET name = 'Bea'",
    )
    moved = people_for(
        {
            "mail": {"pii": "mask", "renamed_from": "email"},
            "later": {"pii": "show"},
            "born": {"pii": "null"},
        }
    )
    synced(moved)
    there = shown(place, clean(moved))
    assert there.keys() == {"id", "email", "name", "born"}
    assert (there["name"], there["email"] in (None, EMAIL)) == ("Ann", False)
    assert "mail" in shown(place, clean(moved, ""))
    made = command("cut", "s", "--json", workspace=moved)
    assert made.exit_code == 0, made.exception or made.output
    there = shown(place, clean(moved))
    assert there.keys() == {"id", "mail", "name", "born", "later"}
    assert (there["name"], there["mail"] in (None, EMAIL)) == ("Bea", False)
    # A rule that hides a column that the cut has under another name.
    hidden = people_for({"mail": {"pii": "drop", "renamed_from": "email"}, "born": {"pii": "null"}})
    synced(hidden)
    read = json.loads(command("at", first.cut.name, "--json", workspace=hidden).stdout)
    (query,) = (one["read"]["clean"] for one in read["tables"] if "people" in one["table"])
    assert "email" not in query
    # Clean is to be a table: no view of other rules stays beside it.
    table = people_for({"mail": {"pii": "mask"}}, clean="table")
    synced(table)
    assert sql_of(table) == ""
    cut_of(table)
    clone = table.lake.load(clean(table))
    assert clone is not None
    again = people_for({"mail": {"pii": "null"}})
    synced(again)
    cut_of(again)
    assert table.lake.load(clean(again)) is None
    assert "CAST(NULL AS" in sql_of(again)
    # They go with the clones.
    assert command("clone", "--drop", "at_cut", workspace=again).exit_code == 0
    assert sql_of(again) == ""


def test_rules_that_another_run_brought_meanwhile_stay(
    sql: Sql, people_for: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cut by older rules, between whose folds and views a sync by newer ones came."""
    old = people_for({"email": {"pii": "mask"}})
    new = people_for({"email": {"pii": "drop"}})
    from mirrorlake.cuts import shown as showing

    show = showing.show_clones

    def then(*arguments: Any) -> bool:
        synced(new)
        return show(*arguments)

    monkeypatch.setattr(showing, "show_clones", then)
    made = make_cut(old, "s", CutTerms(), lambda _: None)
    assert made.shown is not None
    assert len(made.shown.without) == 1
    assert sql_of(old) == ""
    assert "`email`" not in sql_of(old, "")


@pytest.mark.full
def test_what_a_cut_by_hand_takes_away_from_readers_is_said(
    people_for: Callable[..., Workspace], command: Callable[..., Result]
) -> None:
    people = people_for({})
    made = command("cut", "s", "--prove", "--lock", "--others", "--json", workspace=people)
    found = json.loads(made.stdout)
    assert (made.exit_code, found["near"], found["not_asked"]) == (0, {}, [])
    copied = Identifier(f"{people.config.tables[0].namespaces.deduped}__at_cut", "copied")
    # What other tests' cuts of this source have shown goes: no table of this contract makes it.
    assert not [one for one in found["shown"]["left"] if one.startswith(copied.namespace)]
    assert people.lake.load(copied) is not None
    # By hand, without: it says what its readers miss.
    made = command("cut", "s", workspace=people)
    assert (made.exit_code, f"not shown any more: {copied}" in made.output) == (0, True)
    assert (
        f"1 table of another mode is not in it: {people.config.table('copied').name}" in made.output
    )
    assert people.lake.load(copied) is None
    made = command("cut", "s", "--json", workspace=people)
    found = json.loads(made.stdout)
    assert (found["shown"]["left"], found["not_asked"]) == (
        [],
        [people.config.table("copied").name],
    )


def test_what_a_rule_takes_away_from_cuts_and_clones_is_said(
    people_for: Callable[..., Workspace], command: Callable[..., Result]
) -> None:
    people = people_for({}, clean="table")
    cut = cut_of(people).cut
    clone_cut(people, cut, "audit")
    ruled = people_for({"email": {"pii": "null"}}, clean="table")
    done = [one.result for one in sync_tables(ruled, ruled.config.tables)]
    (words,) = (
        one.changed for one in done if one is not None and "clean is gone at" in one.changed
    )
    assert all(tag in words for tag in (str(clean(ruled, "")), cut.tag, "clone_audit"))
    assert (
        "there no more: a rule took values away" in command("at", cut.name, workspace=ruled).output
    )
    drop_clone_of_cut(ruled, "audit")


@pytest.mark.full
def test_deduped_that_is_another_table_gives_the_cut_no_rules(
    sql: Sql, place: Place, people_for: Callable[..., Workspace], command: Callable[..., Result]
) -> None:
    """Ids of its columns begin again: those of the cut's clone would have other columns' rules."""
    first = cut_of(people_for({"email": {"pii": "drop"}}))
    sql("ALTER TABLE people DROP COLUMN email")
    people = people_for({"name": {"pii": "show"}})
    synced(people)
    assert "email" not in shown(place, clean(people))
    name = Identifier(people.config.tables[0].namespaces.deduped, "people")
    deduped = people.lake.load(name)
    assert deduped is not None
    Path(re.sub("^file:/+", "/", deduped.metadata_location)).unlink()
    people.lake.catalog.drop_table(name.path)  # behind a server, nobody sees what is not there
    synced(people)
    # What shows nothing by wrong rules yet would with the next one that comes: it goes at once.
    assert sql_of(people) == ""
    ruled = people_for({"name": {"pii": "show"}, "born": {"pii": "null"}})
    synced(ruled)
    assert sql_of(ruled) == ""
    assert EMAIL not in command("at", first.cut.name, workspace=ruled).output
    cut_of(ruled)
    assert shown(place, clean(ruled)).keys() == {"id", "name", "born", "note"}


def test_types_that_changed_since_the_cut(sql: Sql, people_for: Callable[..., Workspace]) -> None:
    """A wider one needs another view, of the same text. One that can't become the other is another
    column's: it is left out until the next cut, and that is said."""

    def types(name: Identifier) -> dict[str, str]:
        """Of a view, by which Spark reads it, or of a table."""
        schema = shown_schema(people.lake, name)
        fields = schema.fields if schema is not None else ()
        return {f.name: str(f.field_type) for f in fields if f.name in ("n", "note")}

    sql("ALTER TABLE people ADD n INT DEFAULT 5", "UPDATE people SET note = '7'")
    people = people_for({})
    cut_of(people)
    assert types(clean(people)) == {"n": "int", "note": "string"}
    sql("ALTER TABLE people MODIFY n BIGINT, MODIFY note INT", "UPDATE people SET n = 5000000000")
    done = [one.result for one in sync_tables(people, people.config.tables)]
    words = [one.changed for one in done if one is not None]
    assert types(clean(people)) == {"n": "int"}
    assert any(f"view {clean(people)} shows no note any more" in one for one in words), words
    cut_of(people)
    assert types(clean(people)) == {"n": "long", "note": "int"}


def test_views_that_no_rule_of_now_makes_go(people_for: Callable[..., Workspace]) -> None:
    """Clean has another namespace: in the same sync. Its table left the contract: with the names of
    the newest cut, and with the next cut."""
    people = people_for({})
    cut_of(people)
    before = clean(people)
    ruled = people_for({"email": {"pii": "mask"}}, {"clean": f"z{before.namespace}"})
    synced(ruled)
    assert read_view(people.lake, before) is None
    cut = cut_of(ruled).cut
    after = clean(ruled)
    assert read_view(people.lake, after) is not None
    others = tuple(one for one in ruled.config.tables if one.table != "people")
    left = replace(ruled, config=ruled.config.model_copy(update={"tables": others}))
    assert after.namespace in drop_clone_of_cut(left, "at_cut")
    assert read_view(people.lake, after) is None
    show_newest(ruled, cut)
    assert read_view(people.lake, after) is not None
    show_newest(left, replace(cut, tables=()))
    assert read_view(people.lake, after) is None
