"""What is said of tables that nothing failed of: by `sync`, and by `status --strict` to monitors."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import Config, TenantTable
from mirrorlake.ledger import LayerProof, Ledger, Tenant, Window
from mirrorlake.operations.loading.results import unchanged_result
from mirrorlake.operations.loading.unchanged import Unchanged
from mirrorlake.operations.other_writers import moved_lake
from mirrorlake.operations.publishers import PublicationStatus
from mirrorlake.operations.status.attention import find_attention, labels
from mirrorlake.operations.status.monitor import not_right
from mirrorlake.operations.status.status import status_of
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.surplus import SURPLUS
from tests.unit.operations.test_queries import filled
from tests.unit.operations.test_status_proved import look

TABLE = "s.d.t0"
Cause = Callable[[Ledger], None]


@pytest.fixture
def place(tmp_path: Path) -> tuple[Config, Ledger]:
    return filled(tmp_path / "place", 2)


def one_more_load(ledger: Ledger, *, ends: bool) -> None:
    load_id = ledger.create_load(TABLE, Window("full", None, None, date(2026, 1, 3)))
    (newest,) = ledger.newest_loads([TABLE]).values()
    assert newest.receipt is not None
    with ledger.lease(TABLE, "run") as lease:
        load = ledger.start_load(load_id, lease, "run", "raw_1", None)
        if ends:
            ledger.finish_load(load, 44, newest.receipt)


def new_column(ledger: Ledger) -> None:
    columns = (("id", "int"), ("note", "text"))
    ledger.record_known_columns(TABLE, ["id"])
    ledger.record_schema_version(TABLE, SchemaVersion("t0", columns))


def wrong_layer(layer: str) -> Cause:
    def happen(ledger: Ledger) -> None:
        proof = LayerProof(
            check_id="c", table=TABLE, layer=layer, verdict="different", words="1 row too many",
            compared="every row", rows=4, digest="", expected_rows=3, expected_digest="",
            snapshots="", through_seq=1, code="1", started_at=datetime.now(UTC), seconds=0.1,
        )  # fmt: skip
        ledger.record_layer_proofs([proof, replace(proof, layer="cut: clean")])

    return happen


def others_equal(ledger: Ledger) -> None:
    look(ledger, "1", "5", verdict="different", differences=1, asked="next")
    look(ledger, "5", None, asked="next")


def undecided_since(ledger: Ledger) -> None:
    look(ledger, None, None, verdict="different", differences=1, check_id="a")
    look(ledger, None, None, verdict="undecided", differences=1, check_id="b")


BY_SYNC: dict[str, tuple[str, Cause]] = {
    "a mark": ("unproved", lambda ledger: ledger.mark_unproved(TABLE, "", "raw lost 1 loads")),
    "a check": ("different", lambda ledger: look(ledger, None, None, verdict="different")),
    "a check, and an equal one of other keys since": ("different", others_equal),
    "a check, and an undecided one since": ("different", undecided_since),
    "a check of raw": ("different", wrong_layer("raw")),
    "a check of clean": ("different", wrong_layer("clean")),
    "rows of nobody": (
        "surplus",
        lambda ledger: ledger.record_definition(
            SURPLUS + TABLE, json.dumps({"rows": 2, "at": "2026-01-01 12:00:00"})
        ),
    ),
    "a new column": ("held columns", new_column),
}
BY_STATUS: dict[str, tuple[str, Cause]] = {
    **BY_SYNC,
    "not folded": ("waiting", lambda ledger: one_more_load(ledger, ends=True)),
    "not ended": ("waiting", lambda ledger: one_more_load(ledger, ends=False)),
    "refused": ("failed", lambda ledger: ledger.record_refusal(TABLE, "a column was dropped")),
    "held": (
        "held",
        lambda ledger: void(ledger.hold("s", datetime.now(UTC) + timedelta(hours=1), "disks")),
    ),
}


def void(_: object) -> None: ...


@pytest.mark.parametrize("cause", BY_SYNC)
def test_a_sync_says_what_is_not_right_of_tables_that_did_not_fail(
    place: tuple[Config, Ledger], cause: str
) -> None:
    config, ledger = place
    assert find_attention(ledger, config.tables) == []
    kind, happen = BY_SYNC[cause]
    happen(ledger)
    assert [(one.table, one.kind) for one in find_attention(ledger, config.tables)] == [
        (TABLE, kind)
    ]


def test_what_was_put_right_comes_first_and_once(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    new_column(ledger)
    (load,) = ledger.newest_loads([TABLE]).values()
    result = unchanged_result(Unchanged(config.tables[0], load, "server", load.started_at), 0, 0, 0)
    healed = replace(result, put_right=("table s.d.t0: it is made again from raw",))
    found = find_attention(ledger, config.tables, [healed])
    assert [one.kind for one in found] == ["put right", "held columns"]
    assert [one.kind for one in find_attention(ledger, config.tables, [result])] == ["held columns"]
    back = replace(result, held_back="source s has a prepared transaction (XA)")
    found = find_attention(ledger, config.tables, [back])
    assert [one.kind for one in found] == ["held back", "held columns"]


@pytest.mark.parametrize("cause", BY_STATUS)
def test_strict_ends_with_10_unless_all_is_right(
    place: tuple[Config, Ledger], monkeypatch: pytest.MonkeyPatch, cause: str
) -> None:
    config, ledger = place
    monkeypatch.setattr("mirrorlake.cli.status.open_contract", lambda _: config)

    def run(*options: str) -> tuple[int, Any]:
        done = CliRunner().invoke(cli, ["status", *options])
        return done.exit_code, json.loads(done.stdout) if "--json" in options else done.output

    code, said = run("--strict")
    assert (code, said.splitlines()[-1]) == (0, "2 tables: all is right")
    kind, happen = BY_STATUS[cause]
    happen(ledger)
    code, said = run("--strict")
    assert code == 10, said
    assert f"{kind}: " in said
    assert labels()[kind] in said.splitlines()[-1]
    code, found = run("--strict", "--json")
    assert (code, found[0]["not_right"][0]["kind"]) == (10, kind)
    assert run()[0] == 0, "a monitor asks for it"
    assert "not_right" not in run("--json")[1][0]


def test_a_moved_lake_never_ends_with_0(
    place: tuple[Config, Ledger], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, ledger = place
    monkeypatch.setattr("mirrorlake.cli.status.open_contract", lambda _: config)
    assert moved_lake.find_all_moved(config, ledger, config.tables) == {}
    monkeypatch.setattr(
        "mirrorlake.operations.status.status.find_all_moved",
        lambda *_: {TABLE: [SimpleNamespace(said="rows were deleted")]},
    )
    for options in ((), ("--strict",), ("--json",)):
        assert CliRunner().invoke(cli, ["status", *options]).exit_code == 6


def test_what_bigquery_lacks_is_not_right(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    found = status_of(config, ledger, config.tables)
    at = "2026-01-02T00:00:00+00:00"
    there = PublicationStatus("errored", 1, "job", 1, 1, at, at, "quota")
    with_it = [replace(found[0], published={"bigquery": there}), *found[1:]]
    assert [
        (one.kind, one.words)
        for one in not_right(ledger, config.tables, with_it, {"m": {"bigquery": there}})
    ] == [("bigquery", "quota")] * 2


def test_what_is_found_equal_since_is_right(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    others_equal(ledger)
    undecided_since(ledger)
    look(ledger, None, None, check_id="c")
    assert find_attention(ledger, config.tables) == []


def test_tenants_that_differ_are_not_right(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    table = TenantTable(
        group="shops", table="t", sources=("s",), databases=("db%",),
        namespaces=config.tables[0].namespaces,
    )  # fmt: skip
    at = datetime.now(UTC)
    known = [
        Tenant("s", f"db{n}", at, verdict="different" if n else "equal", checked_at=at)
        for n in range(5)
    ]
    ledger.record_tenants(table.name, known)
    (one,) = find_attention(ledger, [table])
    assert (one.table, one.kind) == (table.name, "different")
    assert one.words.startswith(
        "4 tenants differ by the newest check (s.db1, s.db2, s.db3 and 1 more): "
    )
    assert [one] == [x for x in not_right(ledger, [table], [], {}) if x.kind == "different"]
    ledger.record_tenants(table.name, [replace(t, verdict="equal") for t in known])
    assert find_attention(ledger, [table]) == []
