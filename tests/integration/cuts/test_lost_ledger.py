"""Cuts that come back from what their tags left in the lake."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from click.testing import Result

from mirrorlake.cuts.ledger import Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.cuts.restore import restore_cuts
from mirrorlake.cuts.shown import clone_cut
from mirrorlake.destinations.base import Identifier
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]


def said(_: str) -> None: ...


def test_a_lost_cut_is_found_by_its_tags_and_can_be_dropped(
    sql: Sql, engine_for: EngineFor, command: Callable[..., Result]
) -> None:
    for name in ("a", "b"):
        sql(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} VALUES (1), (2)")
    log = {"mode": "binlog", "key": ["id"]}
    workspace = engine_for({"a": log | {"clean": "table"}, "b": log})
    kept = CutTerms(prove=True, lock=True, keep=timedelta(days=3))
    made = [make_cut(workspace, "s", terms, said).cut for terms in (kept, CutTerms())]
    clone_cut(workspace, made[1], "audit")
    cuts = Cuts(workspace.ledger)
    for cut in made:
        cuts.forget(cut.name)
    rebuilt = command("ledger", "rebuild", workspace=workspace)
    assert rebuilt.exit_code == 0, rebuilt.exception or rebuilt.output
    mine = {cut.name: cut for cut in cuts.all("s") if cut.name in {one.name for one in made}}
    lost = "the ledger that knew it was lost"
    for cut in made:
        tables = [replace(one, proved="not compared", words=lost) for one in cut.tables]
        found = mine[cut.name]
        assert sorted(found.tables, key=str) == sorted(tables, key=str)
        assert found.foreign_keys is None
        assert (found.place, found.gtid, found.at, found.keep_until) == (
            *(cut.place, cut.gtid, cut.at),
            cut.keep_until,
        )
    assert restore_cuts(workspace.config, workspace.ledger, workspace.lake) == []
    shown = json.loads(command("at", made[0].name, "--json", workspace=workspace).stdout)
    assert {one["proved"] for one in shown["tables"]} == {"not compared"}
    for cut in made:
        assert command("cuts", "--drop", cut.name, workspace=workspace).exit_code == 0
    spaces = workspace.config.tables[0].namespaces
    table = workspace.lake.load(Identifier(spaces.deduped, "a"))
    clone = workspace.lake.load(Identifier(f"{spaces.deduped}__audit", "a"))
    assert table is not None
    assert clone is not None
    assert sorted(table.metadata.refs) == ["clone_audit", "main"]
    for one in (table, clone):
        assert [name for name in one.properties if name.startswith("mirrorlake.tagged.")] == []


@pytest.mark.full
def test_a_tag_that_is_no_cuts_is_left_alone(sql: Sql, engine_for: EngineFor) -> None:
    sql("CREATE TABLE a (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")
    workspace = engine_for({"a": {"mode": "binlog", "key": ["id"]}})
    cut = make_cut(workspace, "s", CutTerms(), said).cut
    (one,) = cut.tables
    table = workspace.lake.load(Identifier(one.namespace, one.lake_table))
    assert table is not None
    assert one.snapshot_id is not None
    table.manage_snapshots().create_tag(one.snapshot_id, "cut_by_hand").commit()
    assert restore_cuts(workspace.config, workspace.ledger, workspace.lake) == []
