"""Other hands where catalog and ledger are on Postgres: what `test_hands` and `test_hands_of_kinds`
have of a lake with files of SQLite; ledgers of other ages; and two projects whose config names one
another's databases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.runtime.jars import ensure_jars
from tests.integration.conftest import Place, share_session
from tests.integration.contract_files import write_contract
from tests.integration.hands import Hand, LakePart
from tests.integration.ledger.test_lost_connections import shut_down
from tests.integration.operations.test_hands import (
    ALL,
    HEALED,
    REFUSED,
    SCHEMA,
    START,
    WINDOWS,
    World,
    cases,
)
from tests.integration.operations.test_hands_of_kinds import CASES, KINDS, assert_put_right
from tests.integration.projects import RawProject, SparkBeside
from tests.support.postgres import PASSWORD, USER, Postgres, running_postgres

Sql = Callable[..., Any]
pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.fixture
def databases(postgres: Postgres, database: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Databases of a test's own, by the end of their names."""
    monkeypatch.setenv("PG_PASSWORD", PASSWORD)
    with postgres.admin() as admin:
        for part in ("ledger", "catalog"):
            admin.execute(f"CREATE DATABASE {part}_{database}".encode())
    return database


def on_postgres(server: Postgres, name: str) -> str:
    return f"postgresql://{USER}:${{env:PG_PASSWORD}}@127.0.0.1:{server.port}/{name}"


def add_driver(place: Place) -> None:
    """Let the tests' JVM open a catalog on Postgres, whose driver Mirrorlake does not bring."""
    jvm: Any = place.spark.get()._jvm
    (jar,) = ensure_jars(["postgres-jdbc"])
    loader = jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    jvm.java.lang.Class.forName("org.postgresql.Driver", True, loader)


class OnPostgres(World):
    """Tables that are mirrored into a lake of the test's own."""

    postgres: Postgres

    def part(self, table: str, layer: str) -> LakePart:
        found = super().part(table, layer)
        return replace(found, database=f"catalog_{self.database}", postgres=self.postgres)


@pytest.fixture
def world(
    server: EmbeddedServer,
    postgres: Postgres,
    place: Place,
    databases: str,
    sql: Sql,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., World]:
    add_driver(place)

    def make(**tables: Any) -> World:
        for name in tables:
            rows = ", ".join(f"({n}, 0, '{START} 01:00')" for n in range(1, 11))
            sql(SCHEMA.format(name), f"INSERT INTO {name} VALUES {rows}")
        config = write_contract(
            tmp_path / "mirrorlake.yaml",
            server.port,
            {databases: {"tables": tables}},
            lake={
                "warehouse": "lake",
                "catalog": {"uri": on_postgres(postgres, f"catalog_{databases}")},
            },
            ledger={"url": on_postgres(postgres, f"ledger_{databases}")},
        )
        loaded = load_config(config)
        beside = Place(tmp_path, Lake(loaded.lake), SparkBeside(loaded, place.spark))
        share_session(beside, monkeypatch)
        made = OnPostgres(server, beside, databases, sql, config)
        made.postgres = postgres
        return made

    return make


def test_a_sync_puts_right_what_other_hands_did(world: Callable[..., World]) -> None:
    tables = cases(HEALED)
    tables["copied"] = (ALL, HEALED[ALL][0])
    terms = {"clean": "table"}
    made = world(
        **{n: {**(WINDOWS if n != "copied" else {"mode": "full"}), **terms} for n in tables}
    )
    assert made.sync() == {}
    made.remember(tables)
    for name in tables:
        made.change(name, 11, 20)
    assert made.sync() == {}
    for name, (layers, hand) in tables.items():
        for layer in layers.split():
            hand(made.part(name, layer))
    for name in tables:
        made.change(name, 21, 30)
    assert made.sync() == {}
    assert {name: words for name in tables if (words := made.is_exact(name))} == {}
    for name in tables:
        assert made.load(name, "clean").scan().to_arrow().num_rows == 30
        raw = made.load(name, "raw").scan(selected_fields=("id",)).to_arrow()
        assert set(raw["id"].to_pylist()) == set(range(1, 31)), name
    assert made.sync() == {}
    assert made.run("sync").exit_code == 0


def test_what_only_a_person_can_put_right_is_refused(world: Callable[..., World]) -> None:
    tables = cases(REFUSED)
    made = world(**dict.fromkeys(tables, WINDOWS))
    assert made.sync() == {}
    for name in tables:
        made.change(name, 11, 20)
    assert made.sync() == {}
    for name, (layer, hand) in tables.items():
        hand(made.part(name, layer))
        made.change(name, 21, 30)
    errors = made.sync()
    assert errors.keys() == tables.keys()
    for name in ("raw_row_deleted", "raw_row_added", "raw_compacted"):
        left = int(re.findall(r"set its main back to version (\d+)", errors[name])[0])
        raw = made.load(name, "raw")
        raw.manage_snapshots().set_current_snapshot(snapshot_id=left).commit()
    other, catalog = made.identifier("raw_another", "raw"), made.place.lake.catalog
    catalog.drop_table(other.path)
    catalog.rename_table((other.namespace, f"{other.name}_old"), other.path)
    assert "mirrorlake lake find" in errors["raw_out_of_catalog"]
    assert made.run("lake", "find").exit_code == 0
    assert made.sync() == {}
    assert {name: made.is_exact(name) for name in tables} == dict.fromkeys(tables, "")


@pytest.mark.parametrize("how", ["older", "lost"])
def test_a_ledger_of_another_age(world: Callable[..., World], postgres: Postgres, how: str) -> None:
    """Every layer is exact after the step that is named."""
    made = world(t={**WINDOWS, "clean": "table"}, u={"mode": "full", "key": ["id"]})
    name = f"ledger_{made.database}"
    assert made.sync() == {}
    shut_down(postgres)  # a template may have no sessions
    with postgres.admin() as admin:
        admin.execute(f"CREATE DATABASE {name}_before TEMPLATE {name}".encode())
    for table in ("t", "u"):
        made.change(table, 11, 20)
    assert made.sync() == {}
    with postgres.admin() as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())
        template = f" TEMPLATE {name}_before" if how == "older" else ""
        admin.execute(f"CREATE DATABASE {name}{template}".encode())
    for table in ("t", "u"):
        made.change(table, 21, 30)
    if how == "lost":  # nothing of it is known: not one table is looked at
        said = [str(made.run("sync").exception)]
    else:
        errors = made.sync()
        assert errors.keys() == {"t", "u"}
        said = [*errors.values()]
    assert all("`mirrorlake ledger rebuild" in one for one in said), said
    assert made.run("ledger", "rebuild").exit_code == 0
    assert made.sync() == {}
    assert {one: made.is_exact(one) for one in ("t", "u")} == {"t": "", "u": ""}
    assert made.load("t", "clean").scan().to_arrow().num_rows == 30


# --- tenants, landings and models -----------------------------------------------------------------


@pytest.fixture(scope="module")
def served(
    place: Place, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    """A lake with its catalog on the server, in the JVM of the tests' one; ``database`` is there."""
    add_driver(place)
    with postgres.admin() as admin:
        admin.execute(b"CREATE DATABASE catalog_of_kinds")
    settings = {
        "warehouse": "lake",
        "catalog": {"uri": on_postgres(postgres, "catalog_of_kinds")},
    }
    folder = tmp_path_factory.mktemp("läke on postgres")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PG_PASSWORD", PASSWORD)
        config = load_config(write_contract(folder / "mirrorlake.yaml", 1, {}, lake=settings))
        spark = SparkBeside(config, place.spark)
        yield Place(folder, Lake(config.lake), spark, settings, "catalog_of_kinds")


@pytest.mark.parametrize(
    ("where", "hand"),
    [pytest.param(*c, id=f"{c[0]} {c[1].__name__}".replace(" ", "-")) for c in CASES],
)
def test_one_command_puts_it_right_or_names_a_step_that_does(
    where: str,
    hand: Hand,
    server: EmbeddedServer,
    postgres: Postgres,
    served: Place,
    database: str,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_session(served, monkeypatch)
    kind, _ = where.split()
    mirror = KINDS[kind].make(server, served, sql, database)
    found = mirror.part

    def part(layer: str) -> LakePart:
        return replace(found(layer), database=served.database, postgres=postgres)

    monkeypatch.setattr(mirror, "part", part)
    assert_put_right(mirror, where, hand)


# --- two projects ---------------------------------------------------------------------------------


@pytest.fixture
def project(
    server: EmbeddedServer,
    place: Place,
    postgres: Postgres,
    databases: str,
    sql: Sql,
    tmp_path: Path,
) -> RawProject:
    assert place
    sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    sql("INSERT INTO t VALUES (1, 1), (2, 1), (3, 1), (4, 1)")
    folder = tmp_path / "first"
    folder.mkdir()
    write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {databases: {"tables": {"t": {"mode": "full"}}}},
        lake={
            "warehouse": "lake",
            "catalog": {"uri": on_postgres(postgres, f"catalog_{databases}")},
        },
        ledger={"url": on_postgres(postgres, f"ledger_{databases}")},
    )
    return RawProject(folder, server, databases)


def test_two_projects_on_one_catalog(
    project: RawProject, postgres: Postgres, databases: str, sql: Sql
) -> None:
    """The second one is refused before it makes anything; the first goes on."""
    assert project.load() == 4
    other = project.beside("other")
    catalog = {"uri": on_postgres(postgres, f"catalog_{databases}")}
    other.set(lake={"warehouse": "lake", "catalog": catalog}, ledger={"url": "sqlite:///own.db"})
    with pytest.raises(LakeError, match=r"names tables in .*, and none in lake\.warehouse"):
        other.load()
    assert not list(other.lake.glob("*/*"))
    # Nor with the first one's warehouse, where a ledger of its own knows nothing of what is there.
    other.set(lake={"warehouse": str(project.lake), "catalog": catalog})
    with pytest.raises(LedgerError, match="ledger rebuild"):
        other.load()
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load() == 5
    assert len(project.rows("t", "raw")) == 5


def test_two_projects_on_one_ledger(
    project: RawProject, postgres: Postgres, databases: str, sql: Sql
) -> None:
    assert project.load() == 4
    other = project.beside("other")
    ledger = {"url": on_postgres(postgres, f"ledger_{databases}")}
    other.set(lake={"warehouse": "lake"}, ledger=ledger)
    with pytest.raises(LakeError, match="is of the lake in"):
        other.load()
    assert not other.lake.exists()
    sql("INSERT INTO t VALUES (5, 1)")
    assert project.load() == 5
