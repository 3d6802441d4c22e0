"""What `status` says of proofs: what was found equal, as of when, and what has come since."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from mirrorlake.config import Config
from mirrorlake.ledger import Ledger, Proof, Receipt, Window
from mirrorlake.operations.status import TableStatus, status_of
from mirrorlake.proof.coverage import ProofStatus
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.table.new_columns import held_now, hidden_name
from mirrorlake.workspace import Workspace
from tests.unit.operations.test_queries import filled

AT = datetime(2026, 1, 2, 9, 7, 48, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> tuple[Config, Ledger]:
    return filled(tmp_path / "place", 1)


def look(ledger: Ledger, lo: str | None, hi: str | None, **more: object) -> None:
    """A check of a range of keys, recorded."""
    (table,) = ledger.newest_loads(["s.d.t0"])
    through = ledger.newest_success(table)
    fields: dict[str, object] = {
        "check_id": f"{lo}..{hi}",
        "table": table,
        "asked": "full",
        "lo": lo,
        "hi": hi,
        "verdict": "equal",
        "source_rows": 3,
        "lake_rows": 3,
        "source_digest": "00",
        "lake_digest": "00",
        "waiting": 0,
        "differences": 0,
        "server": "uuid",
        "position": "0-1-5",
        "source_time": AT,
        "snapshot_id": 1,
        "through_seq": through,
        "code": "1",
        "started_at": datetime.now(UTC),
        "seconds": 0.1,
        "source_bytes": 1,
        "evidence": "",
    }
    ledger.record_proofs([Proof(**{**fields, **more})], None)  # type: ignore[arg-type]


def one(config: Config, ledger: Ledger) -> TableStatus:
    (found,) = status_of(config, ledger, config.tables)
    return found


def test_a_whole_check_is_what_is_proved(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    assert one(config, ledger).checks == "folded, loaded, not yet proved"
    look(ledger, None, None)
    found = one(config, ledger)
    assert found.checks == "folded, every row proved as of 2026-01-02 09:07, no load since"
    assert found.proved == ProofStatus("2026-01-02T09:07:48+00:00", 3, True, 0)


def test_what_came_since_is_counted(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    look(ledger, None, None)
    table = config.tables[0].name
    load_id = ledger.create_load(table, Window("full", None, None, date(2026, 1, 3)))
    moment = AT.replace(tzinfo=None).isoformat()
    receipt = Receipt(3, 100, 1, "00", moment, None, "uuid", "0-1-5", 0, 0, 0.5)
    with ledger.lease(table, "run") as lease:
        load = ledger.start_load(load_id, lease, "run", "raw_1", None)
        ledger.finish_load(load, 43, receipt)
        ledger.record_folds(table, "deduped", [load.seq])
    assert "every row proved as of 2026-01-02 09:07, 1 load since" in one(config, ledger).checks


def test_chunks_prove_a_table_together(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    look(ledger, None, "100", source_time=AT - timedelta(hours=1), asked="next")
    assert "3 rows proved as of 2026-01-02 08:07" in one(config, ledger).checks
    look(ledger, "100", None, asked="next")
    assert "every row proved as of 2026-01-02 08:07" in one(config, ledger).checks
    look(ledger, None, "100", verdict="different", differences=1, asked="next")
    assert "3 rows proved as of 2026-01-02 09:07" in one(config, ledger).checks
    ledger.mark_unproved(config.tables[0].name, "uuid", "a DDL")
    assert one(config, ledger).proved is None


def test_a_hidden_column_that_came_back_is_held_whatever_new_columns_says(
    place: tuple[Config, Ledger],
) -> None:
    config, ledger = place
    contract = config.tables[0].model_copy(update={"new_columns": "show"})
    version = SchemaVersion(contract.table, (("id", "int"), ("Mail", "int")))
    ledger.record_schema_version(contract.name, version)
    gone = {"hidden": ["mail"], "gone": ["mail"]}
    ledger.record_definition(hidden_name(contract), json.dumps(gone))
    (found,) = status_of(config, ledger, [contract])
    with Workspace.open(config) as workspace:
        assert found.held_columns == held_now(ledger, workspace.lake, contract)
    assert found.held_columns == ("Mail",)
