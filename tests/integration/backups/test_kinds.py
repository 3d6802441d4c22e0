"""Tenants, landed tables and models in a backup: restored beside the original, in its place, and
moved; after one command of each all are exact, by rows that PyMySQL and the landed files have.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.backups import make
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.backups.conftest import START
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.projects import Project, share_jvm
from tests.integration.tenants import Tenants

SNAPSHOTS = [
    *(20260130000000, 20260131000000, 20260131120000, 20260131180000),
    *(20260201000000, 20260201120000, 20260202000000),
]
COLUMNS = [{"name": "id", "type": "int", "nullable": False}, {"name": "v", "type": "int"}]


@dataclass
class Kinds:
    """A project with a mirrored table, a table of tenants, a landed one and three models, and what
    its rows come from.

    Attributes:
        landed: by key, what the newest snapshot has, and of keys that it lacks what an older had.
    """

    project: Project
    tenants: Tenants
    sql: Callable[..., Any]
    landing: Path
    number: int = 0
    landed: dict[int, int] = field(default_factory=dict[int, int])

    def change(self) -> None:
        """Rows come and change in MySQL, and a snapshot lands that lacks a key of the last one."""
        number = self.number = self.number + 1
        self.sql(f"INSERT INTO w VALUES ({100 + number}, {number}, NOW(6))")
        self.sql("UPDATE w SET v = v + 1, at = NOW(6) WHERE id = 1")
        self.tenants.run("a", f"INSERT INTO orders VALUES ({100 + number}, 'n')")
        self.tenants.run("b", f"UPDATE orders SET name = '{number}' WHERE id = 1")
        rows = {key: number * 10 + key for key in range(number, number + 3)}
        folder = self.landing / "json/feed/d/t/dq" / str(SNAPSHOTS[number - 1] // 1_000_000)
        folder.mkdir(parents=True, exist_ok=True)
        lines = [json.dumps({"id": key, "v": value}) for key, value in rows.items()]
        (folder / f"{SNAPSHOTS[number - 1]}_0.json").write_text("\n".join(lines))
        (folder / f"{SNAPSHOTS[number - 1]}_SUCCESS").touch()
        self.landed = {**self.landed, **rows}

    def bring(self, project: Project) -> None:
        """One command of each kind."""
        project.sync()
        assert project.ok("land")["errors"] == []
        for name in ("copy", "joined", "shown"):
            project.ok("run", f"m.{name}")

    @staticmethod
    def rows(project: Project, namespace: str, name: str) -> list[dict[str, Any]]:
        found = Lake(load_config(project.config).lake).load(Identifier(namespace, name))
        assert found is not None, f"{namespace}.{name}"
        return found.scan().to_arrow().to_pylist()

    def assert_tenants_and_landed(self, project: Project) -> None:
        config, rows = load_config(project.config), partial(self.rows, project)
        orders = config.tenant_table("orders")
        found: dict[str, list[tuple[Any, ...]]] = {}
        for row in rows(orders.namespaces.deduped, "orders"):
            found.setdefault(row["_mirror_database"], []).append((row["id"], row["name"]))
        assert {k: sorted(v, key=str) for k, v in found.items()} == self.tenants.mysql("id", "name")
        deduped = config.snapshot_table("t").namespaces.deduped
        assert {row["id"]: row["v"] for row in rows(deduped, "t")} == self.landed
        missing = set(self.landed) - set(range(self.number, self.number + 3))
        assert {row["id"] for row in rows(f"{deduped}__side", "t__missing")} == missing

    def assert_exact(self, project: Project) -> None:
        project.assert_exact({"w": ["id"]})
        self.assert_tenants_and_landed(project)
        config, rows = load_config(project.config), partial(self.rows, project)
        in_mysql = dict(self.sql("SELECT id, v FROM w"))
        assert {row["id"]: row["v"] for row in rows("m", "copy")} == in_mysql
        both = {row["id"]: row["n"] for row in rows("m", "joined")}
        assert both == {key: v + in_mysql[key] for key, v in self.landed.items() if key in in_mysql}
        shown = project.sessions[f"{config.lake.warehouse} {config.lake.catalog.uri}"]
        view = shown.get().table("lake.m.shown").collect()
        assert {row.id: row.v for row in view} == in_mysql


@pytest.fixture
def kinds(
    server: EmbeddedServer,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Kinds]:
    sessions = share_jvm(place, monkeypatch)
    rows = ", ".join(f"({n}, 0, '{START} 01:00')" for n in range(1, 11))
    sql(
        "CREATE TABLE w (id INT PRIMARY KEY, v INT, at DATETIME(6) NOT NULL, KEY (at))",
        f"INSERT INTO w VALUES {rows}",
    )
    tenants = Tenants(server, place, f"{database}_of")
    for tenant in ("a", "b"):
        tenants.make(tenant, "id INT PRIMARY KEY, name VARCHAR(20)", "(1, 'x')", "(2, 'y')")
    folder, landing = tmp_path / "original", tmp_path / "landing"
    w = {"mode": "incremental", "key": ["id"], "cursor": "at", "overlap": "1s"}
    folder.mkdir()
    write_contract(
        *(folder / "mirrorlake.yaml", server.port),
        {database: {"tables": {"w": w | {"start": str(START)}}}},
    )
    text = yaml.safe_load((folder / "mirrorlake.yaml").read_text("utf-8"))
    snapshot = {"mode": "snapshot", "key": ["id"], "snapshot": {"complete": "marker"}}
    text["sources"]["feed"] = {
        "landing": {"url": str(landing)},
        "databases": {"d": {"tables": {"t": snapshot}}},
    }
    text["tenants"] = {
        "of": {
            "sources": ["s"],
            "databases": [f"{tenants.prefix}_%"],
            "tables": {"orders": {"key": ["id"]}},
        }
    }
    (folder / "mirrorlake.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    schema = landing / "schemas/feed/d/t.json"
    schema.parent.mkdir(parents=True)
    schema.write_text(json.dumps({"version": 1, "columns": COLUMNS}))
    models = {
        "copy": f"---\n{{}}\n---\nSELECT id, v FROM s_{database}.w\n",
        "joined": "---\n{}\n---\n"
        "SELECT l.id, l.v + w.v AS n FROM feed_d.t l JOIN m.copy w ON w.id = l.id\n",
        "shown": f"---\nmaterialized: view\n---\nSELECT id, v FROM s_{database}.w\n",
    }
    (folder / "models" / "m").mkdir(parents=True)
    for name, content in models.items():
        (folder / "models" / "m" / f"{name}.sql").write_text(content)
    made = Kinds(Project(folder, server, database, sessions), tenants, sql, landing)
    yield made
    tenants.close()


@pytest.mark.full
def test_tenants_landings_and_models_are_restored_and_moved(kinds: Kinds, tmp_path: Path) -> None:
    project = kinds.project
    for _ in range(2):
        kinds.change()
        kinds.bring(project)
    kinds.assert_exact(project)
    made = project.ok("backup", str(tmp_path / "backups"))
    kinds.change()
    kinds.bring(project)

    copy = project.beside("copy")
    shutil.copytree(project.folder / "models", copy.folder / "models")
    before = project.files()
    assert copy.ok("restore", made["where"])["moved"]
    kinds.bring(copy)
    kinds.assert_exact(copy)
    assert project.files() == before

    project.lose()
    assert not project.ok("restore", made["where"])["moved"]
    kinds.change()
    kinds.bring(project)
    kinds.assert_exact(project)

    new = tmp_path / "new place"
    assert copy.ok("lake", "move", str(new), "--yes")["done"]
    shutil.rmtree(copy.lake)
    copy.set_warehouse(str(new))
    kinds.bring(copy)
    kinds.assert_exact(copy)
    assert copy.ok("status")


@pytest.mark.full
def test_a_ledger_that_is_older_than_the_catalog_of_all_kinds(
    kinds: Kinds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake that was never at rest: everything is brought between the ledger's copy and the look
    at the catalog."""
    project = kinds.project
    kinds.change()
    kinds.bring(project)
    monkeypatch.setattr(make, "_LOOKS", 1)
    copied = make.copy_ledger

    def busy(*given: Any) -> None:
        copied(*given)
        kinds.change()
        kinds.bring(project)

    monkeypatch.setattr(make, "copy_ledger", busy)
    made = project.ok("backup", str(tmp_path / "backups"))
    assert not made["one_moment"]
    copy = project.beside("copy")
    shutil.copytree(project.folder / "models", copy.folder / "models")
    assert copy.ok("restore", made["where"])["found"] == 1
    for _ in range(2):
        kinds.bring(copy)
        kinds.assert_exact(copy)
        kinds.change()


def lake_files(project: Project) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in project.lake.rglob("*") if p.is_file()}


@pytest.mark.full
def test_every_command_refuses_where_the_ledger_was_lost(kinds: Kinds, tmp_path: Path) -> None:
    """Whatever was run before it; nothing in the lake changes, and what is named helps."""
    project = kinds.project
    for _ in range(2):
        kinds.change()
        kinds.bring(project)
    config, before = load_config(project.config), lake_files(project)
    w, t, orders = (one[0].name for one in (config.tables, config.snapshots, config.tenants))
    days = ("--from", str(START), "--to", str(START))
    commands = (
        *(("sync",), ("sync", orders), ("land",), ("run", "m.copy"), ("run", "m.joined")),
        *(("check",), ("check", t), ("repair", "--yes"), ("maintain",), ("recover",)),
        *(("refold", w), ("refold", t), ("backup", str(tmp_path / "b")), ("plan", "sync")),
        *(("backfill", "--all", w), ("invalidate", w, *days), ("clone", w, "x.y"), ("rekey",)),
        *(("publish", t), ("show", "m.copy"), ("schema", w), ("gaps",), ("status",)),
    )
    for words in commands:
        for path in project.folder.glob("ledger.db*"):
            path.unlink()
        for command in (words, ("status",)):
            result = project.run(*command)
            said = f"{result.exception} {result.output}"
            assert "knows nothing of the lake that is there" in said, (words, said)
            assert "`mirrorlake ledger rebuild`" in said, (words, said)
        assert lake_files(project) == before, words
    project.ok("ledger", "rebuild")
    for _ in range(2):
        kinds.bring(project)
        kinds.assert_exact(project)
        kinds.change()


@pytest.mark.full
def test_two_ledgers_that_were_one(kinds: Kinds, tmp_path: Path) -> None:
    """As two copies of a project have, on two machines or with the lake in a bucket: once one has
    loaded, the other one is refused before it reads, writes or removes anything of a mirrored
    table. Tenants, landings and models need nothing that it does not know."""
    project = kinds.project
    kinds.change()
    kinds.bring(project)
    shutil.copy(project.folder / "ledger.db", tmp_path / "second.db")
    for _ in range(2):
        kinds.change()
        kinds.bring(project)
    first, second = project.folder / "ledger.db", tmp_path / "second.db"
    config = load_config(project.config)
    w, t, orders = (one[0].name for one in (config.tables, config.snapshots, config.tenants))
    first.rename(tmp_path / "first.db")
    shutil.copy(second, first)
    kinds.change()
    before = lake_files(project)
    commands = (
        *(("sync", w), ("maintain", w), ("recover", w), ("refold", w), ("status",)),
        *(("gaps",), ("plan", "sync")),
    )
    for words in commands:
        result = project.run(*words)
        said = f"{result.exception} {result.output}"
        assert "which the ledger does not know" in said, (words, said)
        assert "`mirrorlake ledger rebuild`" in said, (words, said)
        assert result.exit_code != 0, words
    assert lake_files(project) == before
    assert project.run("sync", orders).exit_code == 0
    assert project.ok("land")["errors"] == []
    kinds.assert_tenants_and_landed(project)
    assert project.run("maintain", orders, "--grace", "0").exit_code == 0
    assert project.run("maintain", t, "--grace", "0").exit_code == 0
    # The first one is the second one now, of tenants and landings.
    (tmp_path / "first.db").rename(first)
    for _ in range(2):
        kinds.bring(project)
        kinds.assert_exact(project)
        kinds.change()
