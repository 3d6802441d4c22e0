"""Readers always have an answer: whatever makes a layer again is shown in one step, and what a rule
takes away goes afterwards, with every file that has it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq
import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.rekey import rekey_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows
from tests.integration.mirrored import assert_equal
from tests.soak.runs import Order, Runner
from tests.support.readers import NONE, VIEW, reading

OTHER_KEY = "another key for the tests, sixteen or more"
ROWS = 40
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, mail VARCHAR(40), born DATE, n INT,"
    " at TIMESTAMP(6) NOT NULL, KEY (at))"
)
"""``born`` holds a zero date: clean has original texts, which its rules choose from."""
CONTRACT: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at", "clean": "table"}
MASKED = {"mail": {"pii": "mask"}}
ALTERED: tuple[tuple[str, ...], ...] = (
    ("ALTER TABLE t ADD COLUMN z INT",),
    ("ALTER TABLE t RENAME COLUMN n TO m2",),
    ("ALTER TABLE t MODIFY m2 VARCHAR(20)",),
    ("ALTER TABLE t DROP COLUMN m2", "UPDATE t SET at = NOW(6) WHERE id = 1"),
)
RULES: tuple[dict[str, Any], ...] = (
    {"columns": {"mail": {"pii": "hash"}}},
    {"columns": {"mail": {"pii": "hash"}, "born": {"pii": "hash"}}},
    {"columns": {"mail": {"pii": "null"}}},
    {"columns": {"mail": {"pii": "drop"}, "born": {"pii": "drop"}}},
    {"columns": {}, "deletes": "flag"},
    {"columns": {"mail": {"pii": "hash"}}, "write_mode": "copy-on-write"},
)
SETTINGS: tuple[dict[str, Any], ...] = (
    {"clean": "view"},
    {"clean": "table", "versions": "table"},
    {"clean": "view", "versions": "view", "columns": MASKED},
    {"clean": "table", "versions": "table", "columns": MASKED},
)


def fill(sql: Callable[..., Any]) -> None:
    rows = ", ".join(f"({n}, 'hidden{n}@x', '0000-00-00', {n}, NOW(6))" for n in range(1, ROWS + 1))
    sql(TABLE, f"INSERT INTO t VALUES {rows}")


class Mirror:
    """A mirror of ``t``, and readers of it in a loop while something is done to it."""

    def __init__(
        self, engine_for: Callable[..., Workspace], place: Place, server: EmbeddedServer, name: str
    ) -> None:
        self._engine_for, self._server, self._database = engine_for, server, name
        self._warehouse = place.folder / "lake"
        self.clean = Identifier(f"s_{name}__clean", "t")
        self.raw = Identifier(f"s_{name}__raw", "t")

    def open(self, contract: dict[str, Any]) -> Workspace:
        return self._engine_for({"t": contract})

    def read_while(
        self,
        run: Callable[[], object],
        *names: Identifier,
        expected: int = ROWS,
        first: bool = False,
    ) -> None:
        """See that readers have all rows (or a view) of these tables, whenever they look; at the
        first load, all of them or no table."""
        chosen = names or (self.clean,)
        nested = [
            reading(self._warehouse, name.namespace, name.name, may_be_none=first)
            for name in chosen
        ]
        found = [one.__enter__() for one in nested]
        try:
            run()
        finally:
            for one in nested:
                one.__exit__(None, None, None)
        for name, answers in zip(chosen, found, strict=True):
            assert (name, answers.wrong) == (name, [])
            counts = answers.counts - {VIEW, expected}
            if first:
                assert (name, NONE in counts) == (name, True)
                counts -= {NONE}
            if name == self.raw:  # grows with each load
                counts = {n for n in counts if int(n) < expected}
            assert (name, counts) == (name, set())
            assert answers.rounds > 2

    def assert_one_version(self, workspace: Workspace, hidden: str = "none") -> None:
        """Clean has no other version than the one that is shown, no other files than that one's,
        and none of them has this text: not in rows, nor in what manifests say of files."""
        table = workspace.lake.load(self.clean)
        assert table is not None
        head = table.current_snapshot()
        assert [one.snapshot_id for one in table.snapshots()] == [head and head.snapshot_id]
        assert head is not None
        manifests = head.manifests(table.io)
        entries = [e for m in manifests for e in m.fetch_manifest_entry(table.io, False)]
        named = {head.manifest_list, *(one.manifest_path for one in manifests)}
        named |= {one.data_file.file_path for one in entries}
        folder = Path(unquote(urlsplit(table.location()).path))
        there = {path for end in ("parquet", "avro") for path in folder.rglob(f"*.{end}")}
        assert there == {Path(unquote(urlsplit(name).path)) for name in named}
        for entry in entries:
            bounds = [entry.data_file.lower_bounds, entry.data_file.upper_bounds]
            assert hidden.encode() not in b" ".join(v for one in bounds for v in one.values())
        for path in there:
            assert path.suffix != ".parquet" or hidden not in str(pq.read_table(path).to_pylist())

    def assert_equal(self, workspace: Workspace) -> None:
        assert_equal(workspace, self._server, self._database)


@pytest.fixture
def mirror(
    engine_for: Callable[..., Workspace], place: Place, server: EmbeddedServer, database: str
) -> Mirror:
    return Mirror(engine_for, place, server, database)


@pytest.mark.full
def test_a_rule_that_hides_never_takes_the_answer_away(
    mirror: Mirror, sql: Callable[..., Any]
) -> None:
    """The fast part of the table below: a first load, a column that nobody decided on, a rule."""
    fill(sql)
    workspace = mirror.open(CONTRACT)
    [contract] = workspace.config.tables
    layers = (mirror.clean, Identifier(contract.namespaces.deduped, "t"))
    mirror.read_while(lambda: sync_table(workspace, contract), *layers, first=True)
    sql(*ALTERED[0])
    mirror.read_while(lambda: sync_table(workspace, contract))
    mirror.assert_equal(workspace)
    workspace = mirror.open({**CONTRACT, "columns": MASKED})
    [contract] = workspace.config.tables
    mirror.read_while(lambda: sync_table(workspace, contract))
    mirror.assert_equal(workspace)
    mirror.assert_one_version(workspace, "hidden")
    assert {row["mail"] for row in lake_rows(workspace, *mirror.clean.path)} == {"*" * 8 + "@x"}


@pytest.mark.full
def test_readers_have_an_answer_through_every_change(
    mirror: Mirror,
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(sql)
    contract = {**CONTRACT, "columns": MASKED}
    sync_table(workspace := mirror.open(contract), *workspace.config.tables)
    names = (mirror.clean, workspace.config.table("t").namespaces)
    deduped = Identifier(names[1].deduped, "t")
    for statements in ALTERED:
        sql(*statements)
        workspace = mirror.open(contract)
        run = lambda w=workspace: sync_table(w, *w.config.tables)  # noqa: E731
        mirror.read_while(run, mirror.clean, deduped)
        mirror.assert_equal(workspace)
    for change in RULES:
        workspace = mirror.open({**contract, **change})
        run = lambda w=workspace: sync_table(w, *w.config.tables)  # noqa: E731
        mirror.read_while(run, mirror.clean, deduped)
        mirror.assert_equal(workspace)
        if "deletes" not in change:
            mirror.assert_one_version(workspace)
    mirror.read_while(lambda: refold_table(workspace, *workspace.config.tables), mirror.clean)
    monkeypatch.setitem(os.environ, "TEST_HASH_KEY", OTHER_KEY)
    workspace = mirror.open({**contract, **RULES[-1]})
    mirror.read_while(lambda: rekey_table(workspace, *workspace.config.tables), mirror.clean)
    mirror.assert_equal(workspace)


@pytest.mark.full
def test_readers_have_an_answer_while_views_and_tables_change_places(
    mirror: Mirror, sql: Callable[..., Any]
) -> None:
    fill(sql)
    workspace = mirror.open({**CONTRACT, **SETTINGS[0]})
    sync_table(workspace, *workspace.config.tables)
    for number, change in enumerate((*SETTINGS[1:], *SETTINGS)):
        if number in (2, 4):  # columns that a view would miss meanwhile
            sql(
                f"ALTER TABLE t CHANGE {'n' if number == 2 else 'm'} {'m' if number == 2 else 'n'} BIGINT"
            )
        workspace = mirror.open({**CONTRACT, **change})
        run = lambda w=workspace: sync_table(w, *w.config.tables)  # noqa: E731
        mirror.read_while(run, mirror.clean, mirror.raw)
        mirror.assert_equal(workspace)


KILLED = (
    ("refold.written", "table"),
    ("refold.shown", "table"),
    ("fold.committed:2", "table"),
    ("clean.expired", "table"),
    ("clean.beside", "view"),
)


@pytest.mark.full
@pytest.mark.parametrize(("failpoint", "before"), KILLED)
def test_a_run_that_is_killed_leaves_the_old_answer_or_the_new_one(
    failpoint: str,
    before: str,
    mirror: Mirror,
    sql: Callable[..., Any],
    place: Place,
    runner: Runner,
) -> None:
    """The next one leaves nothing of what the rule takes away."""
    fill(sql)
    workspace = mirror.open({**CONTRACT, "clean": before})
    sync_table(workspace, *workspace.config.tables)
    workspace = mirror.open({**CONTRACT, "columns": MASKED})
    order = Order(place.folder / "mirrorlake.yaml", "t", failpoint=failpoint)
    mirror.read_while(lambda: runner.run(order))
    assert runner.run(Order(order.config, "t")).code == 0
    mirror.assert_equal(workspace)
    mirror.assert_one_version(workspace, "hidden")
