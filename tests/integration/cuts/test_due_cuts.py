"""Cuts that are made because they are due, and tables of other modes in them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import Result

from mirrorlake.cuts import due
from mirrorlake.cuts.config import SourceCuts
from mirrorlake.cuts.due import due_terms, terms_of
from mirrorlake.cuts.ledger import Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_follower import following

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
MIDNIGHT = datetime(2026, 11, 30, tzinfo=UTC)
HOURLY = SourceCuts(every=timedelta(hours=1), keep=timedelta(days=2), keep_daily=timedelta(days=30))


def said(_: str) -> None: ...


@pytest.fixture
def shop(sql: Sql, engine_for: EngineFor) -> Workspace:
    sql(
        "CREATE TABLE logged (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE copied (id INT PRIMARY KEY, v INT, CONSTRAINT of_logged FOREIGN KEY (v)"
        " REFERENCES logged (id))",
        "INSERT INTO logged VALUES (1, 1), (2, 2)",
        "INSERT INTO copied VALUES (1, 1), (2, 2)",
    )
    return engine_for({"logged": LOG, "copied": {"mode": "full", "key": ["id"], "clean": "table"}})


def test_the_first_of_a_day_stays_longer() -> None:
    for newest, keep in ((None, 30), (MIDNIGHT - timedelta(seconds=1), 30), (MIDNIGHT, 2)):
        found = terms_of(HOURLY, newest, MIDNIGHT + timedelta(hours=1))
        assert found.keep == timedelta(days=keep), newest


@pytest.mark.full
def test_a_table_of_another_mode_is_in_the_cut_where_it_equals_mysql_there(
    sql: Sql, shop: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = CutTerms(prove=True, lock=True, others=True)
    made = make_cut(shop, "s", terms, said)
    assert (made.near, made.left_out) == ({}, {})
    layers = sorted((one.table.rsplit(".", 1)[1], one.layer) for one in made.cut.tables)
    assert layers == [("copied", "clean"), ("copied", "deduped"), ("logged", "deduped")]
    assert {one.proved for one in made.cut.tables if one.layer == "deduped"} == {"equal"}
    assert made.cut.foreign_keys is not None
    assert [one.verdict for one in made.cut.foreign_keys.keys] == ["holds"]
    # Where it is written to between its copy and the cut's place, it is near it.
    opened = make_open(monkeypatch, lambda: sql("UPDATE copied SET v = 1 WHERE id = 2"))
    made = make_cut(shop, "s", terms, said)
    assert opened
    ((table, words),) = made.near.items()
    assert table.endswith(".copied")
    assert "0 missing, 0 extra, 1 changed of 2 rows" in words
    assert "s before the cut's moment" in words
    assert [one.table.rsplit(".", 1)[1] for one in made.cut.tables] == ["logged"]
    (listed,) = (cut for cut in Cuts(shop.ledger).all() if cut.name == made.cut.name)
    assert len(listed.tables) == 1
    contract = next(c for c in shop.config.tables if c.table == "copied")
    from mirrorlake.destinations.base import Identifier

    found = shop.lake.load(Identifier(contract.namespaces.deduped, "copied"))
    assert found is not None
    assert made.cut.tag not in found.metadata.refs


def make_open(monkeypatch: pytest.MonkeyPatch, meddle: Callable[[], object]) -> list[int]:
    from mirrorlake.cuts import make

    opened, follow = list[int](), make.read_keys

    def read_keys(*arguments: Any) -> Any:
        opened.append(1)
        meddle()
        return follow(*arguments)

    monkeypatch.setattr(make, "read_keys", read_keys)
    return opened


def test_a_cut_is_made_when_it_is_due_and_not_before(
    sql: Sql, engine_for: EngineFor, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE one (id INT PRIMARY KEY)", "INSERT INTO one VALUES (1)")
    workspace = engine_for({"one": LOG})
    refused = command("cut", "s", "--due", workspace=workspace)
    assert isinstance(refused.exception, ConfigError)
    assert "no cut of source s is ever due" in str(refused.exception)
    path = workspace.config.path
    path.write_text(path.read_text() + "\ncuts: {sources: {s: {every: 1h, keep: 2d}}}\n")
    for cut in Cuts(workspace.ledger).all("s"):  # of other tests
        Cuts(workspace.ledger).forget(cut.name)
    first = command("cut", "s", "--due", "--json", workspace=workspace)
    assert first.exit_code == 0, first.exception or first.output
    made = json.loads(first.stdout)
    kept = datetime.fromisoformat(made["keep_until"]) - datetime.fromisoformat(made["made_at"])
    assert kept == timedelta(days=2)
    again = command("cut", "s", "--due", workspace=workspace)
    assert (again.exit_code, again.output) == (0, "No cut of s is due.\n")
    assert isinstance(
        command("cut", "s", "--due", "--prove", workspace=workspace).exception, ConfigError
    )
    from mirrorlake.config import load_config

    config, now = load_config(path), datetime.now(UTC)
    assert due_terms(config, workspace.ledger, "s", now + timedelta(minutes=54)) is None
    found = due_terms(config, workspace.ledger, "s", now + timedelta(minutes=56))
    assert found == CutTerms(keep=timedelta(days=2))


def test_a_follower_makes_the_cuts_that_are_due(
    server: EmbeddedServer, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql("CREATE TABLE one (id INT PRIMARY KEY)", "INSERT INTO one VALUES (1)")
    workspace = engine_for({"one": LOG})
    (contract,) = workspace.config.tables
    sync_table(workspace, contract)
    follower = due.DueCuts()
    asked = [CutTerms(keep=timedelta(days=1)), CutTerms(keep=timedelta(days=1))]
    monkeypatch.setattr(due, "due_terms", lambda *_: asked[0] if asked else None)
    monkeypatch.setattr(follower, "is_due", lambda *_: bool(asked))
    take, failed = due.make_cut, list[int]()
    notes, cuts = list[str](), follower.take
    monkeypatch.setattr(follower, "take", lambda *parts: cuts(*parts[:2], notes.append))

    def fail_first(*arguments: Any) -> Any:
        asked.pop()
        if not failed:
            failed.append(1)
            raise LakeError("the catalog failed")
        return take(*arguments)

    monkeypatch.setattr(due, "make_cut", fail_first)
    from mirrorlake.operations.following.between_rounds import BETWEEN_ROUNDS

    monkeypatch.setitem(BETWEEN_ROUNDS.added, "cuts", follower)  # type: ignore[arg-type]
    with following(workspace) as running:
        sql("INSERT INTO one VALUES (2)")
        deadline = time.monotonic() + 60
        while not any(words.startswith("cut ") for words in notes):
            assert time.monotonic() < deadline, notes
            time.sleep(0.1)
        running.caught_up(1)
    assert "source s: its cut was not made: the catalog failed" in notes[0]
