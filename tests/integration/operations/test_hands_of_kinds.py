"""Other hands in the tables of tenants, of landings and of models. After one command of ours what
readers see is exact by an outside oracle, or it is refused by name, with a step that then works;
never is a command successful and what readers see wrong.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pytest
from click.testing import CliRunner

from dagster_mirrorlake.checks.verdicts import OTHER_HANDS
from dagster_mirrorlake.landing.checks import landed_verdict
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import MirrorlakeError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, share_session
from tests.integration.contract_files import write_contract
from tests.integration.hands import (
    Hand,
    LakePart,
    another,
    branch_dropped,
    column_added,
    column_dropped,
    column_dropped_and_rows,
    columns_exchanged,
    compacted,
    expired,
    old_catalog,
    old_lake,
    out_of_catalog,
    purged,
    renamed,
    row_added,
    row_deleted,
    set_back,
)
from tests.integration.landing.test_landing import IDS, Feed, line
from tests.integration.tenants import Tenants

EVERY = (
    *(set_back, old_catalog, old_lake, row_deleted, row_added, out_of_catalog, purged, another),
    *(expired, compacted, branch_dropped, column_added, column_dropped, column_dropped_and_rows),
    *(columns_exchanged, renamed),
)
REFUSED = {
    "tenants raw": {
        *(row_deleted, row_added, out_of_catalog, another, renamed),
        *(column_added, column_dropped_and_rows),
    },
    "landing deduped": {another},
    "side missing": {another, old_lake, purged, renamed},
    "side cells": {another},
    "model model": {another},
}
"""What only a person can put right."""
QUICK = {("model model", column_dropped)}
"""What `make test` tries; `make test-full` has every case."""


class Mirror(Protocol):
    """What is mirrored or made, with a past of two of our commits."""

    def part(self, layer: str) -> LakePart: ...
    def run(self) -> str:
        """One command of ours; what it was refused for, '' where it was not."""
        ...

    def wrong(self) -> str:
        """How what readers see is not exact; '' where it is."""
        ...

    def doctor(self) -> str:
        """What doctor says of lake and ledger."""
        ...


def agreement(config: Path) -> str:
    result = CliRunner().invoke(cli, ["doctor", "--json", "--config", str(config)])
    pieces = {one["name"]: one for one in json.loads(result.stdout)}
    found = pieces["lake and ledger"]
    return f"{found['detail']}" if found["state"] != "ok" else ""


@dataclass
class TenantMirror:
    tenants: Tenants
    before: dict[Identifier, str] = field(default_factory=dict)

    @classmethod
    def make(cls, server: MariaDB, place: Place, sql: Any, database: str) -> TenantMirror:
        contract = {"key": ["id"], "clean": "table"}
        made = cls(Tenants(server, place, f"h{uuid.uuid4().hex[:8]}", contract))
        tenants = made.tenants
        columns = "id INT PRIMARY KEY, name VARCHAR(20)"
        tenants.make("a", columns, "(1, 'a')", "(2, 'b')", "(3, 'c')")
        tenants.make("b", columns, "(1, 'd')", "(3, 'e')")
        tenants.sync()
        made.before = {
            at: place.lake.load(at).metadata_location  # type: ignore[union-attr]
            for at in map(made.identifier, ("raw", "deduped", "clean"))
        }
        tenants.run("a", "UPDATE orders SET name = 'x' WHERE id = 2")
        tenants.sync()
        tenants.run("b", "INSERT INTO orders VALUES (7, 'y')")
        return made

    def identifier(self, layer: str) -> Identifier:
        with self.tenants.opened() as (workspace, table):
            spaces = table.namespaces
            if layer != "raw":
                return Identifier(getattr(spaces, layer), table.table)
            version = workspace.ledger.schema_versions(table.name)[-1]
            return Identifier(spaces.raw, version.raw_table)

    def part(self, layer: str) -> LakePart:
        at = self.identifier(layer)
        return LakePart(self.tenants.place, at, self.before[at])

    def run(self) -> str:
        try:
            self.tenants.sync()
        except MirrorlakeError as error:
            return str(error)
        return ""

    def wrong(self) -> str:
        expected = self.tenants.mysql("id", "name")
        found = self.tenants.deduped("id", "name")
        clean = self.part("clean").load().scan().to_arrow().num_rows
        rows = sum(map(len, expected.values()))
        return "" if (found, clean) == (expected, rows) else f"{found}, {clean} in clean"

    def doctor(self) -> str:
        return agreement(self.tenants.write())


@dataclass
class LandedMirror:
    feed: Feed
    place: Place
    before: str = ""

    @classmethod
    def make(cls, server: MariaDB, place: Place, sql: Any, database: str) -> LandedMirror:
        made = cls(Feed(place, f"h{uuid.uuid4().hex[:8]}", complete="marker"), place)
        made.feed.land(IDS[0], [line(1), line(2)], [line(3)])
        made.feed.arrive()
        made.before = made.part("deduped").load().metadata_location
        made.feed.land(IDS[1], [line(1, "9.99"), line(2), line(3), line(4)])
        made.feed.arrive()
        return made

    def part(self, layer: str) -> LakePart:
        at = Identifier(f"{self.feed.name}_d", "t")
        return LakePart(self.place, at, self.before)

    def run(self) -> str:
        config = self.place.folder / f"{self.feed.name}.yaml"
        result = CliRunner().invoke(cli, ["land", "--json", "--config", str(config)])
        errors = json.loads(result.stdout)["errors"]
        assert (result.exit_code == 0) == (not errors)
        return "".join(one["error"] for one in errors)

    def monitored(self) -> set[str]:
        """What `status --strict` says is not right."""
        config = self.place.folder / f"{self.feed.name}.yaml"
        words = ["status", "--strict", "--json", "--config", str(config)]
        found = json.loads(CliRunner().invoke(cli, words).stdout)
        return {said["kind"] for one in found for said in one["not_right"]}

    def said_by_its_check(self) -> str:
        """What Dagster's check of its rows says of other hands; '' where nothing."""
        with Workspace.open(load_config(self.place.folder / f"{self.feed.name}.yaml")) as workspace:
            found = landed_verdict(workspace, workspace.config.contract(self.feed.contract.name))
        return str(found.metadata.get(OTHER_HANDS, ""))

    def wrong(self) -> str:
        found = {key: str(row[0]) for key, row in self.feed.rows().items()}
        expected = {1: "9.99", 2: "1.50", 3: "1.50", 4: "1.50"}
        return "" if found == expected else str(found)

    def doctor(self) -> str:
        return agreement(self.place.folder / f"{self.feed.name}.yaml")


class SideMirror(LandedMirror):
    """A landing with keys that its newest snapshots lack; next comes one that was late, and a
    newer one, for which it is to be known which they are."""

    befores: dict[str, str]

    @classmethod
    def make(cls, server: MariaDB, place: Place, sql: Any, database: str) -> SideMirror:
        made = cls(Feed(place, f"h{uuid.uuid4().hex[:8]}", complete="marker"), place)
        made.feed.land(IDS[0], [line(n) for n in (1, 2, 3, 4, 5)])
        made.feed.land(IDS[1], [line(n) for n in (1, 2, 4, 5)])
        made.feed.arrive()
        made.befores = {}
        for layer in ("missing", "cells"):
            made.befores[layer] = made.part(layer).load().metadata_location
        made.feed.land(IDS[3], [line(n) for n in (1, 2, 5)])
        made.feed.arrive()
        return made

    def part(self, layer: str) -> LakePart:
        at = Identifier(f"{self.feed.name}_d", "t").beside(layer)
        # Which cells there are, is the engine's own; of all of them something is deleted.
        key = "id" if layer == "missing" else "if(true, 3, 0)"
        return LakePart(self.place, at, self.befores.get(layer, ""), key)

    def run(self) -> str:
        if said := super().run():
            return said
        self.feed.land(IDS[2], [line(1), line(2), line(3, "7.00"), line(5)])
        self.feed.land(IDS[3] + 1_000_000, [line(n) for n in (1, 2, 4, 5)])
        return super().run()

    def wrong(self) -> str:
        found = {key: str(row[0]) for key, row in self.feed.rows().items()}
        expected = {1: "1.50", 2: "1.50", 3: "7.00", 4: "1.50", 5: "1.50"}
        return "" if found == expected else str(found)


@dataclass
class ModelMirror:
    """A model of two partitions, each computed by a run of its own."""

    config: Path
    place: Place
    sql: Any
    database: str
    before: str = ""

    @classmethod
    def make(cls, server: MariaDB, place: Place, sql: Any, database: str) -> ModelMirror:
        sql("CREATE TABLE t (id INT PRIMARY KEY, day DATE)")
        sql("INSERT INTO t VALUES (1, '2026-01-01'), (2, '2026-01-01'), (3, '2026-01-02')")
        folder = place.folder / database
        (folder / "models" / f"m_{database}").mkdir(parents=True)
        config = write_contract(
            folder / "mirrorlake.yaml",
            server.port,
            {database: {"tables": {"t": {"mode": "full", "key": ["id"]}}}},
            lake={**place.settings, "warehouse": str(place.folder / "lake")},
            ledger={"url": "sqlite:///ledger.db"},
        )
        made = cls(config, place, sql, database)
        (folder / "models" / f"m_{database}" / "daily.sql").write_text(
            "---\nfor: {of_day: \"TIMESERIES('2026-01-01', '2026-01-03', 'P1D')\"}\n---\n"
            f"SELECT id, 1 AS one FROM s_{database}.t WHERE day = of_day\n"
        )
        assert made.command("sync") == ""
        assert made.command("run", made.name, "of_day=2026-01-01") == ""
        made.before = made.part("model").load().metadata_location
        assert made.command("run", made.name) == ""
        return made

    @property
    def name(self) -> str:
        return f"m_{self.database}.daily"

    def command(self, *arguments: str) -> str:
        result = CliRunner().invoke(cli, [*arguments, "--json", "--config", str(self.config)])
        if isinstance(result.exception, MirrorlakeError):
            return str(result.exception)
        assert result.exit_code == 0, result.output
        return ""

    def part(self, layer: str) -> LakePart:
        return LakePart(self.place, Identifier(f"m_{self.database}", "daily"), self.before)

    def status(self) -> tuple[int, list[str]]:
        """What `status` ends with, and what it says is not as the ledger has it."""
        words = ["status", "--strict", "--json", "--config", str(self.config)]
        result = CliRunner().invoke(cli, words)
        listed = json.loads(result.stdout)
        moved = [one["table"] for one in listed if one["state"] == "moved"]
        assert moved == [said["table"] for one in listed for said in one["not_right"]]
        return result.exit_code, moved

    def run(self) -> str:
        return self.command("run", self.name)

    def wrong(self) -> str:
        rows = self.part("model").load().scan().to_arrow()
        found = sorted(zip(rows["id"].to_pylist(), rows["one"].to_pylist(), strict=True))
        return "" if found == [(1, 1), (2, 1), (3, 1)] else str(found)

    def doctor(self) -> str:
        return agreement(self.config)


KINDS: dict[str, type[Any]] = {
    "tenants": TenantMirror,
    "landing": LandedMirror,
    "side": SideMirror,
    "model": ModelMirror,
}
CASES = [
    (f"{kind} {layer}", hand)
    for kind, layers in {
        "tenants": ("raw", "deduped", "clean"),
        "landing": ("deduped",),
        "side": ("missing", "cells"),
        "model": ("model",),
    }.items()
    for layer in layers
    for hand in EVERY
]


def take_step(mirror: Mirror, layer: str, said: str, hand: Hand) -> None:
    """What the refusal says that a person must do."""
    part = mirror.part(layer)
    if found := re.findall(r"set its main back to version (\d+)", said):
        at = part.load()
        at.manage_snapshots().set_current_snapshot(snapshot_id=int(found[0])).commit()
        return
    if found := re.findall(r"`mirrorlake publish TABLE --rollback (\d+)`", said):
        assert isinstance(mirror, LandedMirror)
        name, config = mirror.feed.contract.name, mirror.place.folder / f"{mirror.feed.name}.yaml"
        for words in (
            ("publish", name, "--rollback", found[0]),
            ("land", name, "--retry", "withdrawn"),
        ):
            result = CliRunner().invoke(cli, [*words, "--config", str(config)])
            assert result.exit_code == 0, result.output
        return
    if hand is another:
        catalog, (namespace, name) = part.place.lake.catalog, part.identifier.path
        catalog.drop_table((namespace, name))
        catalog.rename_table((namespace, f"{name}_old"), (namespace, name))
        return
    if hand is renamed:
        assert re.search("it is there as .*_old. Rename that table back", said), said
        catalog, (namespace, name) = part.place.lake.catalog, part.identifier.path
        catalog.rename_table((namespace, f"{name}_old"), (namespace, name))
        return
    assert "mirrorlake lake find" in said, said
    config = mirror.tenants.write() if isinstance(mirror, TenantMirror) else None
    result = CliRunner().invoke(cli, ["lake", "find", "--config", str(config)])
    assert result.exit_code in (0, 6), result.output


def each(cases: Sequence[tuple[str, Hand]], quick: Collection[tuple[str, Hand]]) -> Any:
    """A test's parameters ``where`` and ``hand``; but for the quick ones, of `make test-full`."""
    return pytest.mark.parametrize(
        ("where", "hand"),
        [
            pytest.param(
                *case,
                id=f"{case[0]} {case[1].__name__}".replace(" ", "-"),
                marks=[] if case in quick else [pytest.mark.full],
            )
            for case in cases
        ],
    )


@each(CASES, QUICK)
def test_one_command_puts_it_right_or_names_a_step_that_does(
    where: str,
    hand: Hand,
    server: MariaDB,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_session(place, monkeypatch)
    kind, _ = where.split()
    assert_put_right(KINDS[kind].make(server, place, sql, database), where, hand)


def assert_put_right(mirror: Mirror, where: str, hand: Hand) -> None:
    """After one command it is exact, or refused by name with a step that then works."""
    _, layer = where.split()
    hand(mirror.part(layer))
    changes = hand not in (expired, compacted, branch_dropped)
    assert (mirror.part(layer).identifier.name in mirror.doctor()) == changes
    if isinstance(mirror, LandedMirror) and changes:
        assert mirror.monitored() == {"moved"}
    if isinstance(mirror, ModelMirror):
        assert mirror.status() == ((6, [f"model {mirror.name}"]) if changes else (0, []))
    if isinstance(mirror, LandedMirror) and (layer, hand) == ("deduped", row_added):
        assert "was written to by other hands" in mirror.said_by_its_check()
    said = mirror.run()
    assert bool(said) == (hand in REFUSED.get(where, ())), said
    if said:
        take_step(mirror, layer, said, hand)
        assert mirror.run() == ""
    assert mirror.wrong() == ""
    assert mirror.run() == ""
    assert mirror.doctor() == ""
    part = mirror.part(layer)
    if hand is renamed:  # two names over one table's files: a purge of one takes the other's
        catalog = part.place.lake.catalog
        names = catalog.list_tables(part.identifier.namespace)
        uuids = [catalog.load_table(name).metadata.table_uuid for name in names]
        assert len(set(uuids)) == len(uuids)
    if isinstance(mirror, LandedMirror) and layer == "deduped":
        assert mirror.said_by_its_check() == ""


@pytest.mark.full
def test_a_damaged_table_of_a_landing_is_renamed_and_folded_again(
    server: MariaDB,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As `refold` and a damaged file advise; its upkeep goes on, and the old one keeps its files."""
    share_session(place, monkeypatch)
    mirror = LandedMirror.make(server, place, sql, database)
    config, name = place.folder / f"{mirror.feed.name}.yaml", mirror.feed.contract.name
    part = mirror.part("deduped")
    files = [task.file.file_path for task in part.load().scan().plan_files()]
    Path(files[0].removeprefix("file:")).unlink()

    def run(*words: str) -> Any:
        return CliRunner().invoke(cli, [*words, "--config", str(config)])

    refused = str(run("refold", name).exception)
    step = "ename its lake table (one that is dropped is registered again), then `mirrorlake land"
    assert step in refused or step in run("refold", name).output
    renamed(part)
    assert mirror.run() == ""
    assert mirror.wrong() == ""
    maintained = run("maintain", "--grace", "0", "--keep-days", "0.05")
    assert maintained.exit_code == 0, maintained.output
    assert all(Path(path.removeprefix("file:")).is_file() for path in files[1:])
    assert mirror.wrong() == ""
    assert mirror.run() == ""


@pytest.mark.full
@pytest.mark.parametrize("how", ["gone", "another", "a table"])
def test_the_view_over_a_landing_is_made_again(
    how: str,
    server: MariaDB,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    share_session(place, monkeypatch)
    mirror = LandedMirror.make(server, place, sql, database)
    part = LakePart(place, Identifier(f"{mirror.feed.name}_d__clean", "t"))
    ledger = mirror.feed.workspace.ledger
    noted = f"other hands {mirror.feed.contract.name}"
    assert mirror.run() == ""
    assert ledger.definition(noted) is None  # as Spark wrote it, it is the one that it must be
    if how == "another":
        part.spark(f"CREATE OR REPLACE VIEW {part.identifier.sql} AS SELECT 1 AS id")
    else:
        part.forget()
    if how == "a table":
        part.spark(f"CREATE TABLE {part.identifier.sql} USING iceberg AS SELECT 7 AS theirs")
        assert "a table that Mirrorlake did not make has its name" in mirror.run()
        place.lake.catalog.rename_table(part.identifier.path, (part.identifier.namespace, "theirs"))
    elif how == "gone":
        assert "its view" in mirror.doctor()
    assert mirror.run() == ""
    rows = place.spark.get().sql(f"SELECT id FROM {part.identifier.sql}").collect()
    assert sorted(int(row.id) for row in rows) == [1, 2, 3, 4]
    said = ledger.definition(noted)
    assert said is not None
    assert "others changed its view" in said
    assert mirror.run() == ""
    assert ledger.definition(noted) == said
    assert mirror.doctor() == ""
