"""Other hands in the lake right after a run that died with its lease: what its loads and folds left
there was written down with them, so nothing of it is taken for older than it is.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

import mirrorlake.workspace
from tests.integration.hands import (
    old_catalog,
    old_lake,
    out_of_catalog,
    row_added,
    row_deleted,
    set_back,
)
from tests.integration.operations.test_hands import COPIES, WINDOWS, World, cases, world

__all__ = ["world"]

HANDS = {
    "raw": (set_back, old_catalog, old_lake),
    "deduped": (set_back, old_catalog, old_lake, out_of_catalog, row_deleted, row_added),
    "clean": (set_back, old_catalog, old_lake, out_of_catalog, row_deleted, row_added),
}
REFUSED = {"raw": (out_of_catalog, row_added)}


@pytest.mark.parametrize("contract", [WINDOWS, pytest.param(COPIES, marks=pytest.mark.full)])
def test_what_a_dead_run_left_is_put_right_like_what_others_did(
    world: Callable[..., World], monkeypatch: pytest.MonkeyPatch, contract: dict[str, str]
) -> None:
    """Nothing is new in MySQL: what is not put right now stays wrong."""
    tables = cases(HANDS)
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
