"""What a list of tables costs its ledger and its catalog: a few statements, however many tables."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from mirrorlake.config import Config, TableContract, load_config
from mirrorlake.destinations.iceberg.warehouse.lake_location import place_of
from mirrorlake.ledger import Ledger, Stamp, Window
from mirrorlake.ledger.records import Receipt
from mirrorlake.operations.loading import unchanged
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.operations.status.status import status_of
from mirrorlake.sources.mysql.changes.change_stamps import ChangeStamp

NOW = datetime.now(UTC).replace(microsecond=0)
CONTRACT = """
version: 1
lake: {{warehouse: lake}}
sources:
  s:
    host: 127.0.0.1
    user: u
    password: ${{env:P}}
    databases:
      d:
        tables:
{tables}
"""
SHOWN = ChangeStamp(
    server="uuid",
    started="2026-01-01T00:00:00",
    clock=NOW.replace(tzinfo=None).isoformat(),
    lsn=5,
    open_since=None,
    changed_after=NOW.replace(tzinfo=None).isoformat(),
    engine="innodb",
    made="2026-01-01T10:00:00",
    changed=None,
    innodb_id=7,
)


def config_of(folder: Path, count: int) -> Config:
    folder.mkdir()
    path = folder / "mirrorlake.yaml"
    tables = "".join(f"          t{n}: {{mode: full, key: [id]}}\n" for n in range(count))
    path.write_text(CONTRACT.format(tables=tables))
    return load_config(path, environ={"P": "x"})


def filled(folder: Path, count: int) -> tuple[Config, Ledger]:
    """A contract of so many tables, each loaded twice, folded, counted, and stamped."""
    config = config_of(folder, count)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    (folder / "lake").mkdir()
    ledger.claim_lake("one", place_of(config.lake))
    with sqlite3.connect(folder / "lake" / "catalog.db") as catalog:
        catalog.execute(
            "CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name,"
            " metadata_location, previous_metadata_location, iceberg_type)"
        )
        for contract in config.tables:
            for space in (contract.namespaces.raw, contract.namespaces.deduped):
                row = ("lake", space, contract.table, f"at/{space}/{contract.table}", None, "TABLE")
                catalog.execute("INSERT INTO iceberg_tables VALUES (?, ?, ?, ?, ?, ?)", row)
    for contract in config.tables:
        _loaded(config, ledger, contract)
    return config, ledger


def _loaded(config: Config, ledger: Ledger, contract: TableContract) -> None:
    receipt = Receipt(
        3, 100, 1, "00", NOW.replace(tzinfo=None).isoformat(), None, "uuid", "0-1-5", 0, 0, 0.5
    )
    for _ in range(2):
        load_id = ledger.create_load(contract.name, Window("full", None, None, date(2026, 1, 2)))
        with ledger.lease(contract.name, "run") as lease:
            load = ledger.start_load(load_id, lease, "run", "raw_1", None)
            ledger.finish_load(load, 43, receipt)
            ledger.record_folds(contract.name, "deduped", [load.seq])
    at = f"at/{contract.namespaces.deduped}/{contract.table}"
    ledger.record_counts({contract.name: (at, 3)})
    locations = unchanged.metadata_locations(config.lake)
    assert locations is not None
    state = unchanged._lake_state(locations, contract, "raw_1")  # pyright: ignore[reportPrivateUsage]
    terms = unchanged._terms(config, contract)  # pyright: ignore[reportPrivateUsage]
    shown = SHOWN.to_json()
    ledger.record_stamp(Stamp(contract.name, load.seq, shown, terms, state, None, NOW, NOW))


@contextmanager
def counted() -> Iterator[list[str]]:
    """The statements that any database is sent meanwhile, by ledger or catalog."""
    found: list[str] = []

    def note(*told: Any) -> None:
        found.append(str(told[2]))

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    try:
        yield found
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", note)


def statements(folder: Path, count: int, work: Callable[[Config, Ledger], None]) -> int:
    config, ledger = filled(folder, count)
    with counted() as found:
        work(config, ledger)
    assert found
    return len(found)


def _status(config: Config, ledger: Ledger) -> None:
    found = status_of(config, ledger, config.tables)
    assert {s.rows for s in found} == {3}
    assert {s.checks for s in found} == {"folded, loaded, not yet proved"}


def _look(config: Config, ledger: Ledger) -> None:
    found = look_at(config, ledger, config.tables)
    assert {u.evidence for u in found.unchanged.values()} == {"server"}
    assert len(found.unchanged) == len(config.tables)


@pytest.mark.parametrize("work", [_status, _look])
def test_fifty_tables_take_as_many_statements_as_five(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: Callable[[Config, Ledger], None]
) -> None:
    def ask(_: Config, contracts: list[TableContract]) -> Any:
        return {c.name: SHOWN for c in contracts}, NOW, {}

    # What the server shows is the business of test_change_stamps.
    monkeypatch.setattr(unchanged, "_look_at_source", ask)
    five = statements(tmp_path / "five", 5, work)
    assert statements(tmp_path / "fifty", 50, work) == five
    assert five <= 32  # BEGIN and all
