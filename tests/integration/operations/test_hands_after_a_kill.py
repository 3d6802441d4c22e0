"""Other hands in the lake right after a run that died with its lease: what its loads and folds left
there was written down with them, so nothing of it is taken for older than it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mirrorlake.workspace
from mirrorlake.destinations.iceberg.commits.heads import layers_of_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place, share_session
from tests.integration.hands import (
    Hand,
    old_catalog,
    old_lake,
    out_of_catalog,
    row_added,
    row_deleted,
    set_back,
)
from tests.integration.operations.test_hands import COPIES, WINDOWS, World, cases, world
from tests.integration.operations.test_hands_of_kinds import KINDS, each, take_step

__all__ = ["world"]

OF_KINDS = [
    (where, hand)
    for where in (
        "tenants deduped",
        "tenants clean",
        "landing deduped",
        "side cells",
        "model model",
    )
    for hand in (set_back, old_catalog, out_of_catalog, row_added)
]
QUICK = (("landing deduped", set_back), ("model model", out_of_catalog))

HANDS = {
    "raw": (set_back, old_catalog, old_lake),
    "deduped": (set_back, old_catalog, old_lake, out_of_catalog, row_deleted, row_added),
    "clean": (set_back, old_catalog, old_lake, out_of_catalog, row_deleted, row_added),
}
FEW = {"raw": (set_back,), "deduped": (set_back, out_of_catalog), "clean": (old_lake,)}
REFUSED = {"raw": (out_of_catalog, row_added)}


@pytest.mark.parametrize(
    ("contract", "hands"),
    [
        pytest.param(WINDOWS, FEW, id="few"),
        pytest.param(WINDOWS, HANDS, id="windows", marks=pytest.mark.full),
        pytest.param(COPIES, HANDS, id="copies", marks=pytest.mark.full),
    ],
)
def test_what_a_dead_run_left_is_put_right_like_what_others_did(
    world: Callable[..., World],
    monkeypatch: pytest.MonkeyPatch,
    contract: dict[str, str],
    hands: dict[str, Any],
) -> None:
    """Nothing is new in MySQL: what is not put right now stays wrong."""
    tables = cases(hands)
    made = world(**{name: {**contract, "clean": "table"} for name in tables})
    assert made.sync() == {}
    made.remember(tables)
    for name in tables:
        made.change(name, 11, 20)
    with monkeypatch.context() as dying:
        # All was committed and recorded; the lease was not given back in order.
        dying.setattr(mirrorlake.workspace, "record_heads", lambda *_: None)
        assert made.sync() == {}
    for name, (layer, hand) in tables.items():
        hand(made.part(name, layer))
    assert made.run("sync", "--json").exit_code == 10
    assert {name: words for name in tables if (words := made.is_exact(name))} == {}
    for name in tables:
        assert made.load(name, "clean").scan().to_arrow().num_rows == 20, name
        raw = made.load(name, "raw").scan(selected_fields=("id",)).to_arrow()
        assert set(raw["id"].to_pylist()) == set(range(1, 21)), name


@pytest.mark.full
def test_what_only_a_person_puts_right_is_said_of_what_the_dead_run_left(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = cases(REFUSED)
    made = world(**dict.fromkeys(tables, COPIES))
    assert made.sync() == {}
    for name in tables:
        made.change(name, 11, 20)
    with monkeypatch.context() as dying:
        dying.setattr(mirrorlake.workspace, "record_heads", lambda *_: None)
        assert made.sync() == {}
    left = made.load("raw_row_added", "raw").current_snapshot().snapshot_id
    for name, (layer, hand) in tables.items():
        hand(made.part(name, layer))
    errors = made.sync()
    assert f"last commit ({left})" in errors["raw_row_added"]
    assert set(errors) == set(tables)
    raw = made.load("raw_row_added", "raw")
    raw.manage_snapshots().set_current_snapshot(snapshot_id=left).commit()
    assert made.run("lake", "find").exit_code == 0
    assert made.sync() == {}
    assert {name: made.is_exact(name) for name in tables} == dict.fromkeys(tables, "")


@each(OF_KINDS, QUICK)
@pytest.mark.full
def test_so_is_it_of_tenants_landings_and_models(
    where: str,
    hand: Hand,
    server: MariaDB,
    place: Place,
    database: str,
    sql: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After one command it is exact, or refused by name with a step that then works."""
    share_session(place, monkeypatch)
    record = mirrorlake.workspace.record_heads

    def first_alone(*parts: Any) -> None:
        """Each run after the first dies when all is recorded but what it left."""
        _, lake, ledger, contract, *_ = parts
        known = {head.name for head in ledger.lake_heads(contract.name)}
        layers = [at for layer, at in layers_of_table(ledger, contract) if layer != "raw"]
        if not any(at.path in known for at in layers if lake.load(at) is not None):
            record(*parts)

    monkeypatch.setattr(mirrorlake.workspace, "record_heads", first_alone)
    kind, layer = where.split()
    mirror = KINDS[kind].make(server, place, sql, database)
    monkeypatch.setattr(mirrorlake.workspace, "record_heads", record)
    hand(mirror.part(layer))
    if said := mirror.run():
        take_step(mirror, layer, said, hand)
        assert mirror.run() == ""
    assert mirror.wrong() == ""
