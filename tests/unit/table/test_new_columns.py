"""Which columns are known, and which wait for the contract: a ledger and a lake, no server."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirrorlake.config import ColumnRule, LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table
from mirrorlake.ledger import Ledger, Load, Window
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.columns.new_columns import (
    held_columns,
    held_now,
    known_columns,
    remember_columns,
)

FIRST = ("id", "Mail")
LATER = (*FIRST, "note")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(LakeConfig(warehouse=str(tmp_path / "lake")))


def contract(**changes: object) -> TableContract:
    spaces = Namespaces(raw="r", deduped="d", clean="c")
    plain = TableContract(
        source="s", database="d", table="t", mode="full", key=("id",), namespaces=spaces
    )
    return plain.model_copy(update=changes)


def load(ledger: Ledger) -> None:
    """One load that succeeded, as a rebuilt ledger knows it."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    ledger.adopt(
        Load(
            seq=1,
            load_id="a" * 32,
            attempt=1,
            table="s.d.t",
            state="success",
            raw_table="t_v_0",
            window=Window("full", None, None, at.date()),
            parent_snapshot=None,
            snapshot_id=1,
            started_at=at,
            finished_at=at,
            receipt=None,
            error=None,
        )
    )


def version(ledger: Ledger, *names: str) -> None:
    ledger.record_schema_version("s.d.t", SchemaVersion("t", tuple((n, "int") for n in names)))


def test_until_a_load_succeeded_every_column_is_known(ledger: Ledger, lake: Lake) -> None:
    remember_columns(ledger, lake, contract(), FIRST)
    assert held_columns(ledger, lake, contract(), LATER) == ()
    # The first load failed, and the next first load reads one column more.
    remember_columns(ledger, lake, contract(), LATER)
    load(ledger)
    assert known_columns(ledger, lake, contract()) == {"id", "mail", "note"}


def test_a_column_that_came_later_waits_until_the_contract_names_it(
    ledger: Ledger, lake: Lake
) -> None:
    remember_columns(ledger, lake, contract(), FIRST)
    load(ledger)
    remember_columns(ledger, lake, contract(), LATER)
    version(ledger, *LATER)
    assert held_columns(ledger, lake, contract(), LATER) == ("note",)
    assert held_now(ledger, lake, contract()) == ("note",)
    for named in (
        contract(columns={"NOTE": ColumnRule(pii="show")}),
        contract(columns={"note": ColumnRule(pii="hash")}),
        contract(cursor="Note"),
        contract(new_columns="show"),
    ):
        assert held_columns(ledger, lake, named, LATER) == ()


def test_what_was_shown_under_show_stays_shown(ledger: Ledger, lake: Lake) -> None:
    remember_columns(ledger, lake, contract(), FIRST)
    load(ledger)
    remember_columns(ledger, lake, contract(new_columns="show"), LATER)
    assert held_columns(ledger, lake, contract(), (*LATER, "more")) == ("more",)


def test_a_ledger_without_a_record_believes_what_clean_shows(ledger: Ledger, lake: Lake) -> None:
    load(ledger)
    version(ledger, *FIRST)
    version(ledger, *LATER)
    # Nothing is shown yet: what came after the oldest version waits.
    assert held_columns(ledger, lake, contract(), LATER) == ("note",)
    shown = current_schema([("id", "int"), ("note", "int")], False)
    ensure_current_table(lake, Identifier("c", "t"), shown)
    assert held_columns(ledger, lake, contract(), LATER) == ("Mail",)
    remember_columns(ledger, lake, contract(), LATER)
    assert ledger.known_columns("s.d.t") == {"id", "note"}
